"""Drift: when a plan is reviewed, and by which one the join goes on."""

from __future__ import annotations

import pytest

import penstock as ps
from golab_tables import TABLE_5, Row
from penstock.core.errors import PenstockError
from penstock.multiway.drift import Reorder, observed_setting
from penstock.multiway.stats import WindowStats


def streams(rows: list[Row]) -> list[WindowStats]:
    return [WindowStats(*row) for row in rows]


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
        (lambda plan: Reorder().review(plan, {"S1": "fast"}), "observed rate of S1 must be a number from 0, got 'fast'"),
        (lambda plan: Reorder().review(plan, {"S1": -2.0}), "observed rate of S1 must be a number from 0, got -2.0"),
        (lambda plan: Reorder().review(plan, {}, {("S1", "S9"): 0.1}), "stream of a selectivity must be one of S1, S2, S3, S4, got 'S9'"),
    ],
)
def test_drift_refuses_what_it_does_not_know(make, told):
    with pytest.raises(PenstockError) as caught:
        make(ps.order_joins(streams(TABLE_5)))
    assert told in str(caught.value)
