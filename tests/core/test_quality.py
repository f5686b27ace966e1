"""`compare` against its definitions: counting measures from first principles, EMD and MAC by trying everything."""

import itertools
import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from penstock.core.errors import PenstockError
from penstock.core.quality import _mac, _transport, compare

bags = st.lists(st.integers(0, 5), max_size=12)
tiny = st.lists(st.integers(0, 4), min_size=1, max_size=3)
# Any distances with a zero diagonal: neither symmetry nor the triangle inequality may be taken for granted.
tables = st.lists(st.lists(st.integers(0, 5), min_size=5, max_size=5), min_size=5, max_size=5)


def apart(a, b):
    return abs(a - b)


def distance_from(table):
    return lambda a, b: 0 if a == b else table[a][b]


def common(x, y):
    """The intersection, by crossing off one element at a time."""
    rest, both = list(y), []
    for element in x:
        if element in rest:
            rest.remove(element)
            both.append(element)
    return both


def emd_by_trial(x, y, distance):
    small_is_x = len(x) <= len(y)
    small, large = (x, y) if small_is_x else (y, x)
    cost = distance if small_is_x else lambda a, b: distance(b, a)
    return min(sum(cost(a, b) for a, b in zip(small, chosen, strict=True)) for chosen in itertools.permutations(large, len(small)))


def mac_by_trial(x, y, distance):
    edges = list(itertools.product(range(len(x)), range(len(y))))
    covers = []
    for size in range(len(edges) + 1):
        for cover in itertools.combinations(edges, size):
            if {i for i, _ in cover} == set(range(len(x))) and {j for _, j in cover} == set(range(len(y))):
                beyond = sum(n - 1 for side in (0, 1) for n in Counter(edge[side] for edge in cover).values())
                covers.append((sum(distance(x[i], y[j]) for i, j in cover), size, beyond))
    cheapest, _, beyond = min(covers)
    return cheapest + beyond


@given(bags, bags)
def test_counting_measures_are_their_definitions(x, y):
    quality = compare(x, y)
    both = len(common(x, y))
    assert (quality.n_exact, quality.n_approximate, quality.matching) == (len(x), len(y), both)
    assert quality.missing == len(x) - both
    assert quality.spurious == len(y) - both
    assert quality.symmetric_difference == quality.missing + quality.spurious
    assert quality.is_subset == (len(common(y, x)) == len(y))
    assert (quality.emd, quality.mac) == (None, None)
    if x and y:
        assert quality.dice == pytest.approx(2 * both / (len(x) + len(y)))
        assert quality.jaccard == pytest.approx(both / (len(x) + len(y) - both))
        assert quality.cosine == pytest.approx(both / math.sqrt(len(x) * len(y)))
        assert quality.overlap == pytest.approx(both / min(len(x), len(y)))
        assert quality.recall == quality.value_recall == pytest.approx(both / len(x))
        assert quality.precision == pytest.approx(both / len(y))


@given(bags, bags)
def test_similarities_are_symmetric_within_0_and_1_and_1_only_for_equals(x, y):
    forth, back = compare(x, y, distance=apart), compare(y, x, distance=apart)
    for name in ("dice", "jaccard", "cosine"):
        similarity = getattr(forth, name)
        assert similarity == getattr(back, name)
        assert 0 <= similarity <= 1
        assert (similarity == 1) == (sorted(x) == sorted(y))
    assert (forth.recall, forth.precision) == (back.precision, back.recall)
    assert (forth.overlap, forth.emd, forth.mac) == (back.overlap, back.emd, back.mac)
    assert (forth.mac == 0) == (sorted(x) == sorted(y))


def test_all_similarities_of_a_set_with_itself_are_exactly_one():
    for n in range(1, 200):
        quality = compare(range(n), range(n), values=lambda result: result / 7 + 0.1)
        assert quality.dice == quality.jaccard == quality.cosine == quality.overlap == 1
        assert quality.recall == quality.precision == quality.value_recall == 1


def test_empty_results():
    nothing = compare([], [], distance=apart, values=lambda result: 1)
    assert nothing.dice == nothing.jaccard == nothing.cosine == nothing.overlap == 1
    assert nothing.recall == nothing.precision == nothing.value_recall == 1
    assert (nothing.symmetric_difference, nothing.emd, nothing.mac, nothing.is_subset) == (0, 0, 0, True)
    lost = compare([1, 2], [], distance=apart)
    assert (lost.dice, lost.jaccard, lost.cosine, lost.overlap) == (0, 0, 0, 1)
    assert (lost.recall, lost.precision, lost.is_subset, lost.emd, lost.mac) == (0, 1, True, 0, math.inf)
    made_up = compare([], [1, 2], distance=apart)
    assert (made_up.recall, made_up.precision, made_up.is_subset, made_up.mac) == (1, 0, False, math.inf)


@given(bags, bags)
def test_value_recall_weighs_what_was_found(x, y):
    worth = {element: element * element for element in range(6)}
    total = sum(worth[element] for element in x)
    found = sum(worth[element] for element in common(x, y))
    expected = found / total if total else 1
    assert compare(x, y, values=worth).value_recall == pytest.approx(expected)
    assert compare(x, y, values=lambda element: element**2).value_recall == pytest.approx(expected)


@given(tiny, tiny, tables)
def test_emd_is_the_cheapest_of_all_assignments(x, y, table):
    distance = distance_from(table)
    assert compare(x, y, distance=distance).emd == emd_by_trial(x, y, distance)


@given(tiny, tiny, tables)
def test_mac_is_the_cheapest_of_all_covers(x, y, table):
    distance = distance_from(table)
    assert compare(x, y, distance=distance).mac == pytest.approx(mac_by_trial(x, y, distance))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=8), st.data())
def test_of_a_subset_emd_is_zero_and_mac_counts_what_is_missing(x, data):
    keep = data.draw(st.lists(st.booleans(), min_size=len(x), max_size=len(x)).filter(any))
    y = [element for element, kept in zip(x, keep, strict=True) if kept]
    quality = compare(x, y, distance=apart)
    nearest = sum(min(apart(element, other) for other in y) for element in (Counter(x) - Counter(y)).elements())
    assert quality.emd == 0
    assert quality.mac == quality.missing + nearest
    # The shortcut for subsets and the general way agree.
    counts_x, counts_y = Counter(x), Counter(y)
    cost = np.array([[apart(a, b) for b in counts_y] for a in counts_x], dtype=float)
    assert _mac(cost, np.array([*counts_x.values()]), np.array([*counts_y.values()])) == pytest.approx(quality.mac)


def test_mac_takes_the_fewest_edges_among_covers_that_only_rounding_tells_apart():
    # c meets q directly, or c shares p with a and q shares b with r; 0.1 + 0.2 and 0.3 differ by rounding alone.
    #
    #     exact          a     c           b        everything not drawn is at 9
    #                  0 | 0.1/   \direct 0.2/ | 0
    #     approximate    p           q      r
    costs = {"ap": 0.0, "cp": 0.1, "br": 0.0, "bq": 0.2}
    for direct, expected in [(0.3, 0.3), (0.1 + 0.2, 0.3), (0.1 + 0.2 + 2e-16, 0.3), (0.29, 0.29), (0.31, 0.3 + 2)]:
        costs["cq"] = direct
        quality = compare(["a", "b", "c"], ["p", "q", "r"], distance=lambda x, y: costs.get(x + y, 9))
        assert quality.mac == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(5))
def test_transport_agrees_with_an_assignment_of_single_copies(seed):
    rng = np.random.default_rng(seed)
    supply, demand = rng.integers(1, 6, 12), rng.integers(1, 9, 15)
    demand[0] += max(0, supply.sum() - demand.sum())
    cost = rng.integers(-9, 30, (12, 15)).astype(float)
    flow = _transport(cost, supply, demand)
    assert flow.min() >= 0
    assert flow.sum(axis=1).tolist() == supply.tolist()
    assert (flow.sum(axis=0) <= demand).all()
    copies = np.repeat(np.repeat(cost, supply, axis=0), demand, axis=1)
    assert (flow * cost).sum() == copies[linear_sum_assignment(copies)].sum()


def test_multiplicities_cost_no_work():
    x, y = Counter({0: 70_000, 10: 30_000}), Counter({0: 30_000, 11: 80_000})
    quality = compare(x, y, distance=apart, work_limit=4)
    assert quality.emd == 30_000 * 1 + 40_000 * 11
    # 0 and 10 are next to 0 and 11: 40,000 zeros and 50,000 elevens share.
    assert quality.mac == 30_000 * 1 + 40_000 * 0 + 50_000 * 1 + 40_000 + 50_000


def test_every_kind_of_input_means_the_same():
    rows = [(1, 2), (1, 2), (3, 4)]
    expected = compare(rows, rows[1:])
    table = pa.table({"r": [1, 1, 3], "s": [2, 2, 4]})
    for exact, approximate in [
        (np.array(rows), np.array(rows[1:])),
        (Counter(rows), Counter({(1, 2): 1, (3, 4): np.int64(1), (9, 9): 0})),
        (table, table.slice(1).select(["s", "r"])),
        (table, np.array(rows[1:])),
        (iter(rows), (list(row) for row in rows[1:])),
    ]:
        assert compare(exact, approximate) == expected
    assert compare(np.array([1, 1, 2]), [1, 2]).missing == 1


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("ab", []), {}, "exact must be an iterable of hashable results.* got str"),
        (([], 3), {}, "approximate must be an iterable .* got int"),
        (([], {1: 2}), {}, "approximate must be .*a Counter.* got dict"),
        (([{}], []), {}, "exact must be .* not hashable"),
        ((Counter({"a": -1}), []), {}, "exact must count in whole numbers >= 0, got -1 for 'a'"),
        ((np.zeros((1, 1, 1)), []), {}, "exact must be an array with one result per row, got 3 dimensions"),
        ((pa.table({"r": [1]}), pa.table({"s": [1]})), {}, r"columns of exact, \['r'\], got \['s'\]"),
        (([1], [2]), {"distance": lambda a, b: -1}, "distance must give finite numbers >= 0, got -1 between 1 and 2"),
        (([1], [2]), {"distance": lambda a, b: None}, "distance must give finite numbers >= 0, got None"),
        (([1, 3], [1, 2]), {"distance": lambda a, b: 1}, "distance must be 0 between equal results, got 1.0 for 1"),
        (([1, 3], [4, 2]), {"distance": apart, "work_limit": 3}, "work_limit must be at least 4 .* got 3"),
        (([], []), {"work_limit": 0}, "work_limit must be a positive number of distances, got 0"),
        (([1], []), {"values": {2: 1}}, "values must have an entry for every exact result, got none for 1"),
        (([1], []), {"values": lambda result: math.nan}, "values must give finite numbers >= 0, got nan for 1"),
    ],
)
def test_bad_input_is_named(arguments, options, message):
    with pytest.raises(PenstockError, match=message):
        compare(*arguments, **options)
