"""The optimum of joins through relations (OSSJ, Towne 3.1): every method against brute force, its schedule counted by hand and replayed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

import linked_optima
import penstock as ps
from linked_optima import Fact, Row, Star, stars
from penstock.core.problem import Problem
from penstock.optimum.certificate import verify
from penstock.optimum.curve import curve
from penstock.optimum.display import memory_states
from penstock.optimum.linked import LinkedTrace
from penstock.optimum.size import size_chain
from penstock.optimum.solve import solve_chain
from penstock.optimum.states import size_states, solve_states
from penstock.relation.numbered import Numbered
from strategies import COMPILED

few = settings(max_examples=12 if COMPILED else 4)


def played(star: Star, **changed: Any) -> tuple[LinkedTrace, Problem]:
    """The rows that the optimum looks at, and the problem."""
    trace, options = star.trace, star.options() | changed
    numbered = Numbered.of(trace, options.pop("through"))
    problem = Problem.of(trace.streams, **options, through=numbered.through, has_importance=True)
    return LinkedTrace(trace, problem, numbered), problem


def check(star: Star, goal: str, methods: tuple[str, ...]) -> None:
    """Every method has the value of brute force; so has its schedule by hand, and in the engine."""
    value = linked_optima.best(star, goal)
    for method in methods:
        found = ps.optimum(star.trace, method=method, goal=goal, **star.options())
        assert found.value == pytest.approx(value, rel=1e-12), method
        assert linked_optima.worth(star, found.schedule.tolist()) == (found.n_output, pytest.approx(value, rel=1e-12))


@few
@given(stars())
def test_every_method_finds_the_optimum_through_a_relation(star):
    check(star, "max", ("chain", "states", "auto"))
    trace, problem = played(star)
    solution = solve_chain(trace, problem)
    assert verify(trace, problem, solution).faults == ()
    size = size_chain(trace, problem)
    assert solution.n_nodes <= size.n_nodes and solution.n_arcs <= size.n_arcs
    assert solve_states(trace, problem).n_states <= size_states(trace, problem)


@few
@given(stars())
def test_the_least_value_through_a_relation(star):
    check(star, "min", ("states", "auto"))


@few
@given(stars(links=("chain", "star")))
def test_three_streams_through_one_relation_or_two(star):
    check(star, "max", ("states", "auto"))
    trace, problem = played(star)
    bound = solve_chain(trace, problem)
    assert not bound.exact and bound.value >= linked_optima.best(star) - 1e-9


@few
@given(stars(filters=("both",)))
def test_filters_change_no_optimum(star):
    found = [ps.optimum(star.trace, **replace(star, filtering=filtering).options()).value for filtering in ("both", "static", "none")]
    assert len(set(found)) == 1


@few
@given(stars(longest=14, filters=("both", "none")))
def test_opt_plays_through_a_relation_and_no_policy_does_better(star):
    options = star.options()
    run = ps.simulate(star.trace, policy="opt", keep=ps.Keep(outputs=True, sheds=True, filtered=True), **options)
    found = ps.optimum(star.trace, **options)
    assert (run.value, run.n_output, run.n_input) == (found.value, found.n_output, len(star.rows))
    assert run.filtered.tolist() == [n for n, row in enumerate(star.rows) if not star.plays(row)]
    whole = {(*members, fact) for members, fact in zip(*_exact(star), strict=True)}
    assert {tuple(row) for row in run.outputs[:, 1:].tolist()} <= whole
    for policy in ("fifo", "prob", "simp", "dimpprob", "rand"):
        assert ps.simulate(star.trace, policy=policy, **options).value <= found.value + 1e-9


@pytest.mark.slow
@settings(max_examples=300)
@given(stars(links=("pair", "pair", "chain", "star")))
def test_everything_through_relations_for_long(star):
    check(star, "max", ("chain", "states") if star.links == "pair" else ("states",))  # auto is one of these, and has its tests above
    check(star, "min", ("states",))


def _exact(star: Star) -> tuple[list[tuple[int, ...]], list[int]]:
    names = ("window", "model", "objective", "start", "through", "switches")
    outputs = ps.exact(star.trace, keep=ps.Keep(outputs=True), **{name: star.options()[name] for name in names}).outputs
    return [tuple(row) for row in outputs[:, 1:3].tolist()], outputs[:, 3].tolist()


def test_a_pair_whose_fact_is_gone_still_waits_for_what_another_relation_links():
    rows = [Row(1, 0, {"x": 7, "y": 8}), Row(0, 3, {"x": 7}), Row(2, 4, {"y": 8})]
    star = Star(rows, {"f": [Fact((7, 7), end=4)], "g": [Fact((8, 8))]}, links="chain", windows=(9, 9, 9), memory=2)
    assert ps.exact(star.trace, window=9, through=star.through).n_output == 1 == ps.optimum(star.trace, **star.options()).n_output


# --------------------------------------------------------------------------------------------------- Towne's example

TOWNE = Star(
    rows=[
        Row(stream, time, {"x": x}, float(importance))
        for time, both in enumerate(
            [((1, 5), (1, 1)), ((0, 1), (3, 5)), ((1, 4), (3, 2)), ((0, 8), (8, 6)), ((2, 3), (3, 4)), ((5, 2), (5, 3))]
        )
        for stream, (x, importance) in enumerate(both)
    ],
    facts={"f": [Fact((0, 3)), Fact((1, 5)), Fact((0, 8)), Fact((4, 5)), Fact((1, 3), end=5), Fact((5, 8), begin=3)]},
    memory=4,
    allocation="fixed",
    weighted=False,
)


@pytest.mark.parametrize(("method", "filtering"), [("chain", "both"), ("states", "both"), ("states", "static"), ("states", "none")])
@pytest.mark.parametrize(("model", "wanted", "largest"), [("inplace", (38, 11), 12), ("buffered", (42, 14), 14)])
def test_the_example_of_towne(method, filtering, model, wanted, largest):
    star = replace(TOWNE, model=model, filtering=filtering)
    whole = star.outputs()
    assert (len(whole), sum(value for _, value in whole)) == (15, 43)
    found = ps.optimum(star.trace, method=method, **star.options())
    assert (found.value, found.n_output) == wanted
    assert linked_optima.worth(star, found.schedule.tolist()) == (wanted[1], wanted[0])
    assert ps.optimum(star.trace, method=method, **replace(star, objective="count").options()).value == largest


def test_the_states_of_the_example():
    trace, problem = played(replace(TOWNE, model="inplace"))
    found = solve_states(trace, problem)
    states = memory_states(trace, problem, found.leaves)
    assert (sum(state.n_output for state in states), sum(state.value for state in states)) == (11, 38)
    assert states[0].held == (("R(0)",), ()) and states[3].together == ("R(3)S(3)",)
    assert not any("S(0)" in name for state in states for held in state.held for name in held)
    both, static, none = (solve_states(*played(replace(TOWNE, filtering=switch))).n_states for switch in ("both", "static", "none"))
    assert both < static < none


# ------------------------------------------------------------------------------------------------------ longer traces


@pytest.mark.parametrize("seed", range(2))
def test_chain_and_states_agree_on_longer_traces(seed):
    trace = ps.generate(80, keys=8, skew=(1.0, 0.0), importance="rare", seed=seed)
    facts = ps.generate_facts(trace, 15, active=0.5, lifetime=20, weight=3, seed=seed)
    options: dict[str, Any] = {"window": 8, "memory": 4, "through": ps.relation(facts, links=["R.key = a", "b = S.key"])}
    for model, allocation in (("buffered", "fixed"), ("inplace", "variable")):
        values = {}
        for method in ("chain", "states"):
            found = ps.optimum(trace, method=method, model=model, allocation=allocation, **options)
            assert found.method == method
            values[method] = found.value
        assert values["chain"] == values["states"]


def test_the_curve_through_a_relation():
    trace = ps.generate(60, keys=6, seed=1)
    pairs = ps.relation(ps.generate_facts(trace, 9, active=0.6, lifetime=15, seed=2), links=["R.key = a", "b = S.key"])
    numbered = Numbered.of(trace, pairs)
    problem = Problem.of(trace.streams, window=12, memory=2, through=numbered.through)
    found = curve(LinkedTrace(trace, problem, numbered), problem, [1, 2, 5])
    assert found.tolist() == [ps.optimum(trace, window=12, memory=memory, through=pairs).value for memory in (1, 2, 5)]
    assert found[0] < found[2]


def test_nothing_is_linked():
    star = replace(TOWNE, facts={"f": [Fact((7, 7))]})
    found = ps.optimum(star.trace, **star.options())
    assert (found.value, found.n_output, found.method) == (0, 0, "exact")


def test_class_is_refused_through_a_relation():
    with pytest.raises(ps.PenstockError, match=r"method 'class' does not apply: where a relation links.*; use method 'chain'"):
        ps.optimum(TOWNE.trace, method="class", **TOWNE.options())
