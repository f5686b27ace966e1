"""Buckets are split over windows as well as can be, and Golab's Figure 4(b) as far as a model can have it."""

from __future__ import annotations

from itertools import permutations, product
from math import isclose

from hypothesis import given
from hypothesis import strategies as st

from penstock.multiway.cost import Setting
from penstock.multiway.index import allocate, by_price, whole_cost, with_buckets
from penstock.multiway.stats import WindowStats
from penstock.multiway.upkeep import Weights
from strategies import examples

SETTINGS = st.sampled_from([{}, {"strategy": "lazy", "tau": 7}, {"strategy": "naive"}, {"strategy": "naive", "tau": 7}])


@st.composite
def splits(draw) -> tuple[Setting, int, Weights]:
    count = draw(st.integers(2, 3))
    found = [
        WindowStats(f"S{i}", draw(st.sampled_from([1, 2, 5, 20])), draw(st.sampled_from([5, 50])), draw(st.sampled_from([1, 2, 5, 20])))
        for i in range(count)
    ]
    weights = Weights(touch=draw(st.sampled_from([0, 1, 7.3, 100])), hash=draw(st.sampled_from([0, 1, 50])))
    return Setting.read(found, **draw(SETTINGS)), draw(st.integers(count, 10)), weights


@examples()
@given(splits())
def test_buckets_are_split_as_well_as_can_be(split):
    setting, total, weights = split
    count = len(setting.streams)
    found = allocate(setting, total, weights)
    every = [buckets for buckets in product(range(1, total + 1), repeat=count) if sum(buckets) <= total]
    best = min(whole_cost(with_buckets(setting, buckets), order, weights) for buckets in every for order in permutations(range(count)))
    assert isclose(found.cost, best)
    order = [setting.names.index(name) for name in found.order]
    assert isclose(found.cost, whole_cost(with_buckets(setting, list(found.buckets.values())), order, weights))


@examples(2)
@given(st.lists(st.integers(0, 1000), min_size=2, max_size=5), st.integers(0, 30), st.integers(0, 200))
def test_the_price_splits_as_one_bucket_after_the_other_would(visits, more, touch):
    def cost(j: int, buckets: int) -> float:
        return visits[j] / min(buckets, 12) + buckets * touch / 20

    split = [1] * len(visits)
    for _ in range(more):
        gain, j = max((cost(j, b) - cost(j, b + 1), j) for j, b in enumerate(split))
        if gain <= 0:
            break
        split[j] += 1
    found = by_price(cost, [1] * len(visits), [12] * len(visits), len(visits) + more)
    assert isclose(sum(cost(j, b) for j, b in enumerate(found)), sum(cost(j, b) for j, b in enumerate(split)), abs_tol=1e-9)


def test_figure_4b_the_fast_window_gets_the_most_buckets_but_not_all():
    golab = Setting.read([WindowStats(f"S{i}", rate, 100, 50) for i, rate in enumerate([1, 1, 1, 50])], strategy="lazy", tau=5)

    def cost(slow: int, average: int) -> float:
        setting = with_buckets(golab, [slow] * 3 + [4 * average - 3 * slow])
        return min(whole_cost(setting, order) for order in permutations(range(4)))

    equal = [cost(average, average) for average in (2, 4, 8, 13)]
    assert equal == sorted(equal, reverse=True)  # more buckets, faster
    assert cost(1, 12) > cost(5, 12)  # slow windows need an index too
    assert cost(10, 12) < cost(12, 12)  # a larger one for the fast window is better than equal ones
    best = allocate(golab, 48)
    assert best.cost <= min(cost(slow, 12) for slow in range(1, 13))
    assert max(best.buckets, key=best.buckets.__getitem__) == "S3"


def test_more_windows_than_can_be_searched_are_indexed_in_turns():
    many = Setting.read([WindowStats(f"S{i}", 1 + i, 50, 30) for i in range(6)], strategy="lazy", tau=5)
    found = allocate(many, 60)
    assert sum(found.buckets.values()) <= 60
    order = [many.names.index(name) for name in found.order]
    assert isclose(found.cost, whole_cost(with_buckets(many, list(found.buckets.values())), order))
    assert found.cost < min(whole_cost(with_buckets(many, [10] * 6), other) for other in permutations(range(6)))


def test_no_more_buckets_than_values():
    found = allocate(Setting.read([WindowStats("R", 1, 100, 5), WindowStats("S", 9, 100, 5)], strategy="lazy", tau=50), 1000)
    assert max(found.buckets.values()) <= 5
