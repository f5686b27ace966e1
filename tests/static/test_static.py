"""Plans of truncated joins: the fast ones against enumeration and the plain dynamic programmes, and Das's bounds."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.static import optimal, pair
from penstock.static.component import best_split, most_outputs
from penstock.static.greedy import average_degree, node_degree
from penstock.static.keep_plan import Allowance, make_plan

# ------------------------------------------------------------------------------------------------------ the slow twins


def by_subsets(m, n, keep):
    """The most outputs of any `keep` tuples (or of keep[0] and keep[1]), trying every set of them."""
    nodes = [[(key, place) for key, count in enumerate(side) for place in range(count)] for side in (m, n)]

    def outputs(first, second):
        return sum(a[0] == b[0] for a in first for b in second)

    if isinstance(keep, tuple):
        sides = [list(itertools.combinations(own, k)) for own, k in zip(nodes, keep, strict=True)]
        return max(outputs(a, b) for a in sides[0] for b in sides[1])
    both = [(0, node) for node in nodes[0]] + [(1, node) for node in nodes[1]]
    return max(
        outputs([node for side, node in some if side == 0], [node for side, node in some if side == 1])
        for some in itertools.combinations(both, keep)
    )


def plain(m, n, keep):
    """Das's T(c, k), term by term."""
    table = [0] + [None] * keep
    for a, b in zip(m, n, strict=True):
        small = min(a, b)
        gain = [max(x * (p - x) for x in range(max(0, p - b), min(a, p) + 1)) for p in range(min(a + b, keep) + 1)]
        assert all(g == (p * p // 4 if p <= 2 * small else small * (p - small)) for p, g in enumerate(gain))
        table = [
            max((table[j - p] + g for p, g in enumerate(gain) if p <= j and table[j - p] is not None), default=None)
            for j in range(keep + 1)
        ]
    return max(value for value in table if value is not None)


def plain_pair(m, n, keep):
    """The same with a table of three dimensions."""
    rows, columns = keep[0] + 1, keep[1] + 1
    table = [[0] * columns for _ in range(rows)]
    for a, b in zip(m, n, strict=True):
        table = [
            [max(table[i - x][j - y] + x * y for x in range(min(a, i) + 1) for y in range(min(b, j) + 1)) for j in range(columns)]
            for i in range(rows)
        ]
    return table[-1][-1]


def outputs_of(kept):
    return sum(int(a) * int(b) for a, b in zip(*kept, strict=True))


def feasible(kept, m, n, keep):
    """What a plan keeps is there, and is within the budget."""
    within = all(0 <= x <= count for row, side in zip(kept, (m, n), strict=True) for x, count in zip(row.tolist(), side, strict=True))
    sums = kept.sum(axis=1).tolist()
    return within and (sum(sums) <= keep if isinstance(keep, int) else all(s <= k for s, k in zip(sums, keep, strict=True)))


counts = st.integers(1, 9)
some_keys = st.lists(st.tuples(counts, counts), min_size=1, max_size=7)
shares = st.floats(0, 1)


def arrays(keys):
    return np.array([a for a, _ in keys]), np.array([b for _, b in keys])


# ------------------------------------------------------------------------------------------------------------- optimal


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=3), shares, shares)
def test_the_optimum_is_that_of_all_subsets(keys, one, two):
    m, n = arrays(keys)
    keep = round(one * int(m.sum() + n.sum()))
    both = (round(one * int(m.sum())), round(two * int(n.sum())))
    budgets = {keep: Allowance(keep, None), both: Allowance(None, both)}
    for asked, budget in budgets.items():
        plan = make_plan(np.array([m, n]), budget, "optimal")
        assert plan.n_output == plan.most == outputs_of(plan.kept) == by_subsets(m, n, asked)
        assert plan.n_lost == int((m * n).sum()) - plan.n_output


@pytest.mark.parametrize("bounds", (True, False))
@given(keys=some_keys, share=shares)
def test_optdp_is_the_plain_dynamic_programme(bounds, keys, share):
    m, n = arrays(keys)
    keep = round(share * int(m.sum() + n.sum()))
    kept = optimal.solve(m, n, optimal.reduce(m, n, keep, bounds=bounds))
    assert feasible(kept, m, n, keep)
    assert outputs_of(kept) == plain(m.tolist(), n.tolist(), keep)


@pytest.mark.parametrize("bounds", (True, False))
@given(keys=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=5), one=shares, two=shares)
def test_a_budget_per_relation_is_the_plain_programme_in_three_dimensions(bounds, keys, one, two):
    m, n = arrays(keys)
    keep = (round(one * int(m.sum())), round(two * int(n.sum())))
    kept = pair.solve(m, n, pair.reduce(m, n, np.array(keep), bounds=bounds))
    assert feasible(kept, m, n, keep)
    assert outputs_of(kept) == plain_pair(m.tolist(), n.tolist(), keep)


@pytest.mark.slow
@pytest.mark.jit_only
@pytest.mark.parametrize("seed", range(4))
def test_both_optima_on_thousands_of_instances_with_and_without_bounds(seed):
    random = np.random.default_rng(seed)
    settled = 0
    for _ in range(1500):
        top, number = int(random.integers(2, 14)), int(random.integers(1, 12))
        m, n = random.integers(1, top, number), random.integers(1, top, number)
        keep = int(random.integers(0, m.sum() + n.sum() + 1))
        core = optimal.reduce(m, n, keep)
        settled += len(core.open) < number
        truth = (
            plain(m.tolist(), n.tolist(), keep) if number < 6 else outputs_of(optimal.solve(m, n, optimal.reduce(m, n, keep, bounds=False)))
        )
        assert outputs_of(optimal.solve(m, n, core)) == truth
        m, n = m[:6], n[:6]
        both = np.array([random.integers(0, m.sum() + 1), random.integers(0, n.sum() + 1)])
        kept = pair.solve(m, n, pair.reduce(m, n, both))
        assert feasible(kept, m, n, tuple(both.tolist()))
        assert outputs_of(kept) == fast_plain_pair(m, n, both)
    assert settled > 100


def fast_plain_pair(m, n, keep):
    table = np.zeros((keep[0] + 1, keep[1] + 1), dtype=np.int64)
    for a, b in zip(m.tolist(), n.tolist(), strict=True):
        new = table.copy()
        for x in range(1, min(a, keep[0]) + 1):
            for y in range(1, min(b, keep[1]) + 1):
                new[x:, y:] = np.maximum(new[x:, y:], table[: keep[0] + 1 - x, : keep[1] + 1 - y] + x * y)
        table = new
    return int(table[-1, -1])


@pytest.mark.slow
@pytest.mark.jit_only
def test_of_a_thousand_skewed_keys_bounds_settle_many_and_change_nothing():
    random = np.random.default_rng(5)
    weight = 1 / np.arange(1, 1001) ** 0.5
    m, n = (random.multinomial(50_000, random.permutation(weight) / weight.sum()) for _ in "AB")
    m, n = m[(m > 0) & (n > 0)], n[(m > 0) & (n > 0)]
    for keep in (5000, 40_000):
        core = optimal.reduce(m, n, keep)
        assert len(core.open) < len(m)
        whole = optimal.solve(m, n, optimal.reduce(m, n, keep, bounds=False))
        assert outputs_of(optimal.solve(m, n, core)) == outputs_of(whole)


@given(counts, counts)
def test_the_best_tuples_of_one_key_are_lemma_1(m, n):
    gains = []
    for p in range(m + n + 1):
        a, b = best_split(m, n, p)
        assert 0 <= a <= m and 0 <= b <= n and a + b == p
        best = max(x * (p - x) for x in range(max(0, p - n), min(m, p) + 1))
        assert a * b == best == int(most_outputs(np.int64(m), np.int64(n), np.int64(p)))
        gains.append(best)
    steps = np.diff(gains)
    assert (np.diff(steps) >= 0).all()  # convex, whence Lemma 2


# -------------------------------------------------------------------------------------------------------------- greedy


@given(some_keys, shares)
def test_adg_is_as_das_describes_it_and_within_its_bounds(keys, share):
    m, n = arrays(keys)
    keep = round(share * int(m.sum() + n.sum()))
    kept, most = average_degree(np.array([m, n]), keep)
    left, slow = keep, 0
    for a, b in sorted(keys, key=lambda key: -Fraction(key[0] * key[1], sum(key))):  # a stable sort: ties by position
        p = min(a + b, left)
        slow, left = slow + max(x * (p - x) for x in range(max(0, p - b), min(a, p) + 1)), left - p
    best, exact = plain(m.tolist(), n.tolist(), keep), int((m * n).sum())
    assert outputs_of(kept) == slow and kept.sum() == keep
    assert best <= most
    assert 2 * slow >= best and exact - slow <= 2 * (exact - best)
    plan = make_plan(np.array([m, n]), Allowance(keep, None), "adg")
    assert slow == plan.n_output <= best <= plan.most <= min(most, 2 * slow)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=5), shares, shares)
def test_ndg_keeps_tuples_of_highest_degree_and_its_losses_are_bounded(keys, one, two):
    m, n = arrays(keys)
    keep = (round(one * int(m.sum())), round(two * int(n.sum())))
    best, exact = plain_pair(m.tolist(), n.tolist(), keep), int((m * n).sum())
    found = {}
    for original in (True, False):
        kept, most = node_degree(np.array([m, n]), keep, original=original)
        found[original] = outputs_of(kept)
        firsts = highest(n.tolist(), m.tolist(), keep[0])
        seconds = highest(m.tolist() if original else firsts, n.tolist(), keep[1])
        assert kept.tolist() == [firsts, seconds]
        assert exact - found[original] <= 2 * (exact - best) and best <= most
    assert found[True] <= found[False] <= best


def highest(degrees, sizes, keep):
    """How many of each key are among the `keep` tuples of highest degree, tuple by tuple."""
    nodes = sorted(((-degree, key) for key, (degree, size) in enumerate(zip(degrees, sizes, strict=True)) for _ in range(size)))
    kept = [0] * len(sizes)
    for _, key in nodes[:keep]:
        kept[key] += 1
    return kept


def test_the_dual_half_of_theorem_1_does_not_hold_and_is_not_claimed():
    counts = np.array([[1] * 10 + [10], [10] * 10 + [1]])  # ten K(1, 10) and one K(10, 1)
    plans = {name: make_plan(counts, Allowance(None, (10, 1)), name) for name in ("ndg", "ndg-independent", "optimal")}
    assert {name: plan.n_output for name, plan in plans.items()} == {"ndg": 1, "ndg-independent": 0, "optimal": 10}
    assert all("half" not in plans[name].bound and plans[name].most >= 10 for name in ("ndg", "ndg-independent"))


@given(st.integers(3, 4), st.data())
def test_greedy_over_more_relations_loses_at_most_as_many_times_what_is_necessary(relations, data):
    table = np.array(data.draw(st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=relations, max_size=relations)))
    keep = [data.draw(st.integers(0, int(row.sum()))) for row in table]
    exact, best = int(table.prod(axis=0).sum()), 0
    for choice in itertools.product(*(ways(row.tolist(), k) for row, k in zip(table, keep, strict=True))):
        best = max(best, int(np.array(choice).prod(axis=0).sum()))
    for method in ("ndg", "ndg-independent"):
        plan = make_plan(table, Allowance(None, tuple(keep)), method)
        assert plan.kept.sum(axis=1).tolist() == keep
        assert exact - plan.n_output <= relations * (exact - best)
        assert plan.n_output <= best <= plan.most


def ways(row, keep):
    """Every way to keep `keep` tuples of these keys."""
    return [some for some in itertools.product(*(range(count + 1) for count in row)) if sum(some) == keep]


@pytest.mark.parametrize("skew", (0.0, 0.5, 1.0, 1.5, 2.0))
@pytest.mark.jit_only
def test_adg_has_99_of_100_outputs_over_the_skews_of_figure_4(skew):
    random = np.random.default_rng(round(10 * skew))
    weight = 1 / np.arange(1, 1001) ** skew
    table = np.array([random.multinomial(50_000, random.permutation(weight) / weight.sum()) for _ in "AB"])
    plans = {name: make_plan(table, Allowance(5000, None), name) for name in ("adg", "optimal")}
    assert plans["adg"].n_output >= 0.99 * plans["optimal"].n_output
    assert plans["adg"].n_output <= plans["optimal"].n_output <= plans["adg"].most
