"""What a Budget takes and refuses, and which joins can share one."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as ps
from penstock.core.problem import Problem
from penstock.engine.opening import open_engine
from penstock.policies.table import open_policy
from penstock.statistics.table import open_running

JOINS = ("clicks", "orders")


@pytest.mark.parametrize(
    ("memory", "options", "said"),
    (
        (0, {}, "memory must be a positive number of rows or a size .* got 0"),
        (-3, {}, "memory must be a positive number of rows or a size .* got -3"),
        ("2 GBB", {}, "memory must be a positive number of rows or a size .* got '2 GBB'"),
        ("", {}, "memory must be a positive number of rows or a size .* got ''"),
        (True, {}, "memory of a Budget must be a positive number of rows or a size such as .2 GB., got True"),
        (1.5, {}, "memory of a Budget must be .* got 1.5"),
        ({"l": 3, "r": 4}, {}, "memory of a Budget must be .* got {'l': 3, 'r': 4}"),
        ("l=3,r=4", {}, "memory of a Budget must be .* got 'l=3,r=4'"),
        ("0:100,500:50", {}, "memory of a Budget must be .* got '0:100,500:50'"),
        (1, {}, "memory of a Budget must hold at least one row for each of its 2 joins, got 1"),
        (100, {"joins": []}, r"joins must be the names of the joins that share the Budget, .* got \[\]"),
        (100, {"joins": "clicks"}, "joins must be the names of the joins that share the Budget, .* got 'clicks'"),
        (100, {"joins": None}, "joins must be the names of the joins .* got None"),
        (100, {"joins": ["clicks", 3]}, "joins must be names of letters, digits, .* got 3"),
        (100, {"joins": ["clicks", "a b"]}, "joins must be names of letters, digits, .* got 'a b'"),
        (100, {"joins": ["clicks", ".."]}, "joins must be names of letters, digits, .* got '..'"),
        (100, {"joins": ["clicks", "orders", "clicks"]}, "joins must be different names, .* got clicks and clicks"),
        (100, {"joins": ["clicks", "clicks-"]}, "joins must be different names, also as names of folders, got clicks and clicks-"),
        (100, {"shared": True}, "shared must be a folder or URL .* got True"),
        (100, {"shared": "a*b"}, "shared must be a folder or URL"),
    ),
)
def test_what_is_no_budget_is_refused(memory, options, said):
    with pytest.raises(ps.PenstockError, match=said):
        ps.Budget(memory, **{"joins": JOINS} | options)


def test_the_order_of_names_does_not_matter():
    assert ps.Budget(100, joins=["orders", "clicks"]) == ps.Budget(100, joins=("clicks", "orders"))


def test_a_join_must_be_of_the_budget_and_comparable_with_those_before():
    budget = ps.Budget("2 MB", joins=JOINS)
    with pytest.raises(ps.PenstockError, match=r"name must be one of the joins of the Budget \(clicks, orders\), got 'views'"):
        budget.check("views", 2, "outputs")
    budget.enter("clicks", 2, "outputs")
    budget.check("clicks", 3, "importance")  # made again, otherwise
    budget.check("orders", 2, "outputs")
    with pytest.raises(
        ps.PenstockError, match=r"shards must be the same number in all joins of a Budget, got 3 for orders and 2 for clicks"
    ):
        budget.check("orders", 3, "outputs")
    with pytest.raises(ps.PenstockError, match=r"weigh tuples in one unit, got orders by importance, and clicks by outputs: give them the"):
        budget.check("orders", 2, "importance")


def unit(policy: Any = "prob", streams: int = 2, **options: Any) -> str:
    told = {"window": 64, "memory": 12, "clock": "streams", "stats": "decayed"} | options
    problem = Problem.of(tuple("RSTU"[:streams]), **told)
    chosen = open_policy(policy, problem)
    return open_engine(problem, chosen, open_running(problem, chosen)).worth_unit()


def test_the_unit_of_learned_is_the_same_whatever_the_windows_and_the_streams():
    assert unit("learned") == unit("learned", window=128) == unit("learned", 3) == "outputs per tick"
    valued = unit("learned", has_importance=True, objective="min")
    assert valued == "value of outputs by min per tick" != unit("learned", has_importance=True, objective="sum")


def test_rates_are_compared_where_their_half_lives_are_the_same():
    assert unit() == unit(stats="sketch") == unit("elife") == unit(window=128, half_life=64) != unit(window=128)
    assert len({unit(), unit("life"), unit(streams=3), unit(stats="window"), unit("learned"), unit("fifo"), unit("simp")}) == 7


def test_what_goes_by_load_is_compared_with_its_like():
    stepwise = unit("frequency", switches={"kwon-ties": "random"})
    assert unit("fifo") == unit("rand") == unit("kwon-random") == stepwise == "rows that would lie in the windows"


@pytest.mark.parametrize("policy", ps.POLICIES)
def test_every_policy_has_a_unit_and_those_that_rank_alike_have_the_same(policy):
    bound = {"half_life": 32, "has_importance": True, "objective": "count"}
    alike = {"dimpprob": "simpprob", "elife": "prob", "rand": "fifo", "kwon-random": "fifo"}
    other = alike.get(policy, policy)
    assert unit(policy, **bound) == unit(other, **bound)
    different = {unit(name, **bound) for name in ps.POLICIES}
    assert len(different) == len(ps.POLICIES) - len(alike)
