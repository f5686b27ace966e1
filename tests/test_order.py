"""Join orders: the searches agree, the heuristics find what Golab says, indexes are split as well as can be, and drift is noticed."""

from __future__ import annotations

from itertools import combinations, permutations, product
from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from golab_tables import TABLE_5, TABLE_6, TABLE_7, Row, walked
from penstock.core.errors import PenstockError
from penstock.multiway.cost import CostModel, Setting
from penstock.multiway.drift import Reorder, observed_setting
from penstock.multiway.heuristic import initial
from penstock.multiway.index import allocate, by_price, whole_cost, with_buckets
from penstock.multiway.stats import WindowStats
from penstock.multiway.upkeep import Weights
from strategies import examples


def streams(rows: list[Row], **facts) -> list[WindowStats]:
    return [WindowStats(*row, **facts) for row in rows]


def short(order: tuple[str, ...]) -> str:
    return "".join(name[1:] for name in order)


# ------------------------------------------------------------------------------------------------------------- search


@pytest.mark.parametrize(
    ("table", "first", "augmented", "optimum"),
    [
        (TABLE_5, ["1234", "2134"], "1234", "1234"),
        (TABLE_6, ["2341", "3241"], "2134", "2134"),  # readings, 28
        (TABLE_7, ["3412", "4312"], "3142", "3142"),
    ],
)
def test_the_heuristics_find_what_golab_says(table, first, augmented, optimum):
    model = CostModel(Setting.read(streams(table)))
    assert ["".join(str(i + 1) for i in order) for order in initial(model)] == first
    assert short(ps.order_joins(streams(table), method="initial").order) == first[0]
    assert short(ps.order_joins(streams(table), method="heuristic").order) == augmented
    assert short(ps.order_joins(streams(table)).order) == optimum


def test_golabs_second_and_third_tries_are_among_the_candidates():
    tried = {short(one.order): one.cost for one in ps.order_joins(streams(TABLE_7), method="heuristic").candidates}
    assert {"3412", "3142", "3124"} <= set(tried)
    assert all(tried[order] < 63361.5 for order in ("3412", "3142", "3124"))  # below the mean of all
    assert round(ps.order_joins(streams(TABLE_7)).mean, 1) == 63361.5


@st.composite
def joins(draw, most: int = 4) -> tuple[list[WindowStats], list[str] | None]:
    count = draw(st.integers(2, most))
    found = []
    for i in range(count):
        numbers = [draw(st.integers(1, 20)), draw(st.integers(1, 100)), draw(st.integers(1, 60))]
        extra = {"buckets": draw(st.sampled_from([1, 1, 3, 10])), "predicate_cost": draw(st.sampled_from([1, 1, 7]))}
        found.append(WindowStats(f"S{i}", *numbers, **extra))
    if draw(st.booleans()):
        return found, None
    signs = st.sampled_from(["=", "=", "<", "!="])
    links = [
        f"S{draw(st.integers(0, i - 1))}.{draw(st.sampled_from('ab'))} {draw(signs)} S{i}.{draw(st.sampled_from('ab'))}"
        for i in range(1, count)
    ]
    return found, links


SETTINGS = st.sampled_from([{}, {"strategy": "lazy", "tau": 7}, {"strategy": "naive"}, {"strategy": "naive", "tau": 7}])


@examples(2)
@given(joins(), SETTINGS, st.booleans())
def test_all_orders_and_all_sets_give_one_optimum(join, facts, per_stream):
    given_streams, on = join
    facts = facts | {"per_stream": per_stream and facts.get("strategy") != "naive", "on": on}
    every, sets, quick = (ps.order_joins(given_streams, method=name, **facts) for name in ("exhaustive", "subsets", "heuristic"))
    assert isclose(every.cost, sets.cost)
    assert quick.cost >= every.cost * (1 - 1e-9)
    assert isclose(every.cost, sum(every.costs.values()))
    if every.order is not None:
        assert isclose(every.cost, min(one.cost for one in every.candidates))


@examples()
@given(joins(), st.integers(1, 50))
def test_an_order_for_each_stream_is_found_by_sets_too_and_is_never_worse(join, tau):
    given_streams, on = join
    every, sets = (ps.order_joins(given_streams, on=on, strategy="general", tau=tau, method=name) for name in ("exhaustive", "subsets"))
    assert isclose(every.cost, sets.cost, rel_tol=1e-6)
    lazy = ps.order_joins(given_streams, on=on, strategy="lazy", tau=tau)
    own = ps.order_joins(given_streams, on=on, strategy="lazy", tau=tau, per_stream=True)
    assert every.cost <= own.cost * (1 + 1e-9)
    assert own.cost <= lazy.cost * (1 + 1e-9)
    assert all(order[0] == origin for origin, order in own.orders.items())


def test_each_stream_may_have_a_better_order_than_the_one_for_all():
    one, own = ps.order_joins(streams(TABLE_7)), ps.order_joins(streams(TABLE_7), per_stream=True)
    by_hand = 0.0
    for name, *_ in TABLE_7:
        # Only the loops of one origin, by the walk: the cost of an order minus that of the same with the origin silent.
        silent = [
            (other, 1e-12 if other == name else rate, window if other != name else window * rate / 1e-12, v)
            for other, rate, window, v in TABLE_7
        ]
        orders = list(permutations([row[0] for row in TABLE_7]))
        by_hand += min(walked(TABLE_7, order) - walked(silent, order) for order in orders)
    assert own.cost == pytest.approx(by_hand)
    assert own.cost < one.cost


def test_many_streams_are_ordered_by_the_heuristic():
    many = [WindowStats(f"S{i}", 1 + i % 3, 50, 20 + i) for i in range(15)]
    plan = ps.order_joins(many)
    assert plan.method == "heuristic"
    assert sorted(plan.order) == sorted(one.name for one in many)
    assert plan.cost == min(one.cost for one in plan.candidates)


# ------------------------------------------------------------------------------------------------------- other scenarios


def test_indexed_windows_go_inwards():
    alike = [WindowStats(f"S{i}", 1, 100, 50, buckets=10 if i < 2 else 1) for i in range(4)]
    for method in ("exhaustive", "heuristic"):
        assert set(ps.order_joins(alike, method=method).order[2:]) == {"S0", "S1"}


def test_expensive_predicates_go_to_the_top():
    alike = [WindowStats(f"S{i}", 1, 100, 50, predicate_cost=20 if i == 3 else 1) for i in range(4)]
    assert ps.order_joins(alike).order[0] == "S3"
    assert ps.order_joins(alike).cost == 20 * 100 * 3 + 3 * (200 + 400) + 100 + 200 + 400


def test_volatile_streams_go_near_the_top():
    slow = [WindowStats("S1", 10, 100, 200, volatility=9), *streams(TABLE_6[1:])]
    plan = ps.order_joins(slow)
    assert plan.order == ps.order_joins(streams(TABLE_6)).order == ("S2", "S1", "S3", "S4")  # as if it were at its peak
    assert plan.peak_cost == 80400
    steady = ps.order_joins([WindowStats("S1", 10, 100, 200), *streams(TABLE_6[1:])])
    assert plan.cost >= steady.cost
    assert "at its peak 80,400" in plan.text()


def test_a_join_graph_is_followed_link_by_link():
    chain = [WindowStats(name, 1, 100, 50) for name in "RSTU"]
    plan = ps.order_joins(chain, on="R.a = S.a, S.b = T.b, T.c = U.c", per_stream=True)
    assert plan.orders["R"] == ("R", "S", "T", "U")
    assert plan.orders["U"] == ("U", "T", "S", "R")
    greedy = ps.order_joins(chain, on="R.a = S.a, S.b = T.b, T.c = U.c", method="initial").order
    assert all({one, other} != {"R", "U"} for one, other in combinations(greedy[:2], 2))


def test_only_what_is_needed_is_carried():
    wide = {"key": 8, "price": 8, "note": 500}
    given_streams = [WindowStats(name, 1, 100, 50, bytes=wide) for name in "RS"]
    plan = ps.order_joins(given_streams, columns=["S.price"], memory="12 KB")
    assert plan.columns == {"R": ("key",), "S": ("key", "price")}
    assert sum(plan.buckets.values()) > 2
    with pytest.raises(PenstockError, match="memory must hold the windows, which take 109,632 bytes"):
        ps.order_joins(given_streams, memory="12 KB")


# -------------------------------------------------------------------------------------------------------------- index


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


# -------------------------------------------------------------------------------------------------------------- drift


def test_a_drift_past_the_threshold_orders_anew():
    plan = ps.order_joins(streams(TABLE_5))
    watch = Reorder(threshold=0.2)
    rates = {name: rate for name, rate, *_ in TABLE_5}
    assert watch.review(plan, rates) is plan
    assert watch.review(plan, rates | {"S1": 11.9}) is plan
    faster = watch.review(plan, rates | {"S2": 50})
    assert watch.drifted(plan, rates | {"S2": 50}) == ("S2",)
    asked = ps.order_joins([*streams(TABLE_5[:1]), WindowStats("S2", 50, 100, 50), *streams(TABLE_5[2:])])
    assert faster.order == asked.order != plan.order
    assert faster.cost == pytest.approx(asked.cost)
    assert watch.review(faster, rates | {"S2": 50}) is faster


def test_an_order_that_is_good_enough_is_kept_for_the_new_rates():
    plan = ps.order_joins(streams(TABLE_5))
    rates = {name: 1.5 * rate for name, rate, *_ in TABLE_5}
    kept = Reorder(threshold=0.2).review(plan, rates)
    assert kept is not plan
    assert kept.orders == plan.orders
    assert kept.cost == pytest.approx(ps.order_joins([WindowStats(name, 1.5 * rate, *rest) for name, rate, *rest in TABLE_5]).cost)


def test_a_selectivity_that_drifts_orders_anew():
    alike = [WindowStats(name, 1, 100, 50) for name in "RST"]
    plan = ps.order_joins(alike, per_stream=True)
    watch = Reorder(threshold=0.5, gain=0)
    assert watch.review(plan, {}, {("R", "S"): 0.025}) is plan
    found = watch.review(plan, {}, {("S", "R"): 0.5, ("R", "T"): 0.001})
    assert watch.drifted(plan, {}, {("S", "R"): 0.5}) == ("S, R",)
    assert found.orders["R"] == ("R", "T", "S")
    assert found.orders["S"] == ("S", "T", "R")


def test_a_stream_that_falls_silent_still_has_a_plan():
    plan = ps.order_joins(streams(TABLE_5))
    for _ in range(3):
        plan = Reorder().review(plan, {"S1": 0.0})
    assert plan.cost > 0
    assert observed_setting(plan.setting, {"S2": 4}).streams[1].rate == 4


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda plan: Reorder(threshold=-1), "threshold must be a share from 0, such as 0.2, got -1"),
        (lambda plan: Reorder().review(plan, {"S9": 1}), "stream of an observed rate must be one of S1, S2, S3, S4, got 'S9'"),
        (lambda plan: Reorder().review(plan, {}, {("S1", "S9"): 0.1}), "stream of a selectivity must be one of S1, S2, S3, S4, got 'S9'"),
    ],
)
def test_drift_refuses_what_it_does_not_know(make, told):
    with pytest.raises(PenstockError) as caught:
        make(ps.order_joins(streams(TABLE_5)))
    assert told in str(caught.value)
