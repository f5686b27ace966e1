"""The optimum as a flow: class and chain against all memory states that there are, and another solver."""

from __future__ import annotations

import itertools
import math
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import penstock as ps
from oracle import Row
from penstock.core.batch import Batch
from penstock.core.problem import Problem
from penstock.generator.generate import generate
from penstock.optimum.certificate import verify
from penstock.optimum.curve import curve
from penstock.optimum.flow import solve_stays
from penstock.optimum.instants import number_instants
from penstock.optimum.network import write_network
from penstock.optimum.size import size_chain, size_class
from penstock.optimum.solve import Solution, chain_stays, fits_class, solve_chain, solve_class, total_worth
from penstock.optimum.stays import Stays, by_class
from strategies import ANY_WINDOW, TIME, Case, cases, examples, memories, schedules

# ------------------------------------------------------------------------------------------------------------ slow twins


def best(case: Case) -> Any:
    """The optimum by all memory states that can be reached: plain, and exponential in the memory."""
    switches = dict(case.switches)
    tuples = oracle.place(case.rows, case.windows, switches, None)
    n = len(case.windows)
    value = case.objective if callable(case.objective) else oracle.VALUES[case.objective]
    context = oracle.Context(
        tuples, n, case.windows, oracle.matcher(case.predicate), value, False, "whole", switches, None, None, 1.0, {}, (1, 1, 0)
    )
    states: dict[frozenset[int], Any] = {frozenset(): 0}
    for number in range(tuples[-1].instant + 1):
        arrivals = [x for x in tuples if x.instant == number]
        context.arrive(number, arrivals)
        newcomers = [x for x in arrivals if not context.pushed_out(x)]
        following: dict[frozenset[int], Any] = {}
        for held, before in states.items():
            kept = [x for x in tuples if x.number in held and not context.pushed_out(x) and x.expiry > context.now]
            buffered = gain(case, context, kept, arrivals, value)
            for chosen in subsets(kept + newcomers, oracle.pools(case.memory, case.allocation, n, context.now)):
                gained = buffered if case.model == "buffered" else gain(case, context, [x for x in kept if x in chosen], arrivals, value)
                state = frozenset(x.number for x in chosen)
                following[state] = max(following.get(state, -math.inf), before + gained)
        states = following
    return max(states.values())


def gain(case: Case, context: Any, met: list[Any], arrivals: list[Any], value: Any) -> Any:
    found = [m for m in oracle.combined(met, arrivals, len(case.windows)) if oracle.admitted(m, context.match)]
    return sum(value([x.importance for x in m]) for m in found if case.start is None or max(x.time for x in m) >= case.start)


def subsets(candidates: list[Any], pools: Any) -> list[list[Any]]:
    by_pool = []
    for streams, budget in pools:
        mine = [x for x in candidates if x.stream in streams]
        by_pool.append([chosen for size in range(min(budget, len(mine)) + 1) for chosen in itertools.combinations(mine, size)])
    return [list(itertools.chain(*parts)) for parts in itertools.product(*by_pool)]


def played(case: Case, leaves: list[int]) -> tuple[int, Any]:
    """A schedule played by the oracle: who leaves first is who leaves soonest, and nobody may have to leave early. Outputs and value."""
    tuples = oracle.place(case.rows, case.windows, dict(case.switches), None)
    n = len(case.windows)
    value = case.objective if callable(case.objective) else oracle.VALUES[case.objective]
    context = oracle.Context(
        tuples, n, case.windows, oracle.matcher(case.predicate), value, False, "whole", dict(case.switches), None, None, 1.0, {}, (1, 1, 0)
    )
    held: list[Any] = []
    outputs, total = 0, 0
    for number in range(tuples[-1].instant + 1):
        arrivals = [x for x in tuples if x.instant == number]
        context.arrive(number, arrivals)
        kept = [x for x in held if not context.pushed_out(x) and x.expiry > context.now]
        held = [x for x in kept + arrivals if not context.pushed_out(x) and leaves[x.number] > number]
        for streams, budget in oracle.pools(case.memory, case.allocation, n, context.now):
            assert sum(x.stream in streams for x in held) <= budget
        met = kept if case.model == "buffered" else [x for x in kept if x in held]
        total += gain(case, context, met, arrivals, value)
        outputs += gain(case, context, met, arrivals, lambda _: 1)
    return outputs, total


def problem_of(case: Case) -> Problem:
    names = ("window", "memory", "allocation", "predicate", "objective", "model", "start", "switches", "clock", "lateness")
    options = {name: option for name, option in case.options().items() if name in names}
    columns = {"has_importance": case.trace.importance is not None, "has_lifetime": case.trace.lifetime is not None}
    return Problem.of(case.trace.streams, **columns, **options)


def by_other_solver(stays: Stays) -> int:
    """The same network in the hands of Google's cost-scaling solver."""
    min_cost_flow = pytest.importorskip("ortools.graph.python.min_cost_flow")
    network = write_network(stays)
    solver = min_cost_flow.SimpleMinCostFlow()
    solver.add_arcs_with_capacity_and_unit_cost(network.tail, network.head, network.capacity, network.cost)
    solver.set_nodes_supplies(np.arange(len(network.supply)), network.supply)
    assert solver.solve() == solver.OPTIMAL
    return -int(solver.optimal_cost())


# ----------------------------------------------------------------------------------------------- against all states

SMALL: dict[str, Any] = {"longest": 9, "policies": ("fifo",), "stats": ("whole",)}
FEW = st.integers(2, 3)
STARTS = st.none() | st.integers(0, 8)


def few(n: int) -> st.SearchStrategy[Any]:
    return FEW | schedules(st.integers(2, 4)) | st.tuples(*(st.integers(1, 2) for _ in range(n)))


def check(case: Case) -> None:
    problem, wanted = problem_of(case), best(case)
    solutions: list[Solution] = [solve_chain(case.trace, problem)]
    if fits_class(case.trace, problem) is None:
        solutions.append(solve_class(case.trace, problem))
    for solution in solutions:
        assert solution.value == wanted
        assert played(case, solution.leaves.tolist())[1] == wanted
        assert verify(case.trace, problem, solution).faults == ()


@examples(3)
@given(cases(windows=ANY_WINDOW, memory=few, starts=STARTS, **SMALL))
def test_any_window_memory_and_value(case: Case) -> None:
    check(case)


@examples(2)
@given(cases(windows=TIME, memory=few, lifetimes=st.integers(1, 9), starts=STARTS, **SMALL))
def test_lifetimes(case: Case) -> None:
    check(case)


@examples(2)
@given(cases(windows=ANY_WINDOW, memory=few, predicates=st.sampled_from(("<", "!=", ">=", ("eps", 1.0))), keys=st.integers(0, 3), **SMALL))
def test_other_predicates(case: Case) -> None:
    check(case)


@examples()
@given(cases(windows=TIME, memory=few, switches=st.just({"varying-window": "instant"}), **SMALL))
def test_the_other_reading_of_changing_windows(case: Case) -> None:
    check(case)


def mixed(importances: list[float]) -> float:
    return importances[0] - importances[1]


@examples(3)
@given(cases(windows=ANY_WINDOW, memory=few, starts=STARTS, **SMALL))
def test_values_of_both_signs(case: Case) -> None:
    check(replace(case, objective=mixed))


@given(cases(windows=ANY_WINDOW, memory=few, predicates=st.just("<"), keys=st.integers(0, 2), **SMALL))
def test_a_predicate_of_ones_own(case: Case) -> None:
    rule = lambda a, b: (a + b) % 2 == 0  # noqa: E731
    own = replace(case, predicate=rule)
    found = solve_chain(own.trace, problem_of(own))
    assert found.value == best(own)


@examples()
@given(cases(n=st.just(3), windows=ANY_WINDOW, memory=lambda n: st.integers(n, 4), **(SMALL | {"longest": 7})))
def test_more_than_two_streams_have_an_upper_bound(case: Case) -> None:
    found = solve_chain(case.trace, problem_of(case))
    assert not found.exact and not len(found.leaves)
    assert found.value >= best(case) - 1e-9
    assert not verify(case.trace, problem_of(case), found).ok
    ample = replace(case, memory=100)
    assert solve_chain(ample.trace, problem_of(ample)).value == pytest.approx(best(replace(case, memory=7)), rel=1e-9)


# --------------------------------------------------------------------------------------------------- worked examples


def test_das_figure_3() -> None:
    trace = ps.Trace.from_streams(R=[1, 1, 1, 3, 2], S=[2, 3, 1, 1, 3])
    assert solve_class(trace, Problem.of(trace.streams, window=3, memory=10)).value == 7
    for allocation, wanted in (("fixed", 5), ("variable", 6)):
        problem = Problem.of(trace.streams, window=3, memory=2, allocation=allocation)
        for solve in (solve_class, solve_chain):
            assert solve(trace, problem).value == wanted


def test_growing_memory_is_used_at_once() -> None:
    # Where memory grows, slots that were not there before wait on the timeline: nothing must hand them on.
    rows = [Row(0, 0, "a"), Row(0, 1, "b"), Row(0, 2, "c"), Row(1, 3, "a"), Row(1, 3, "b"), Row(1, 4, "c")]
    case = Case(rows=rows, windows=[("time", 8)] * 2, memory=[(0, 1), (2, 2)])
    assert best(case) == 2
    check(case)


@pytest.mark.parametrize("each", [0.1, 3.0, 0.0, -0.7])
def test_outputs_that_are_all_worth_the_same(each: float) -> None:
    trace = generate(40, keys=3, seed=4)
    count = solve_class(trace, Problem.of(trace.streams, window=9, memory=3)).value
    together = solve_class(trace, Problem.of(trace.streams, window=1, memory=3)).value
    problem = Problem.of(trace.streams, window=9, memory=3, objective=lambda _: each)
    for solve in (solve_class, solve_chain):
        found = solve(trace, problem)
        assert found.value == pytest.approx(each * (count if each > 0 else together))
        assert verify(trace, problem, found).faults == ()


# ------------------------------------------------------------------------------------------------- other solver, sizes


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("skew", [0.0, 1.0])
def test_equal_to_another_solver(seed: int, skew: float) -> None:
    trace = generate(150, keys=6, skew=skew, rate=[1, 2][seed % 2], importance="uniform", seed=seed)
    for memory, allocation in ((5, "variable"), (20, "variable"), (20, "fixed")):
        for objective in ("count", "min"):
            problem = Problem.of(trace.streams, window=30, memory=memory, allocation=allocation, objective=objective, has_importance=True)
            batch = Batch.of(trace, problem)
            instants = number_instants(trace, problem, batch)
            pools, _, _ = chain_stays(trace, batch, instants, problem)
            if objective == "count":
                pools += [by_class(batch.stream, instants, problem, pool, 16) for pool in range(len(instants.memory))]
            assert [total_worth(stays, solve_stays(stays)) for stays in pools] == [by_other_solver(stays) for stays in pools]


@st.composite
def any_stays(draw: st.DrawFn) -> Stays:
    """Ends and worths that no join would make."""
    n = draw(st.integers(1, 8))
    memory = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    tuples = draw(
        st.lists(st.tuples(st.integers(0, n - 1), st.lists(st.tuples(st.integers(1, 5), st.integers(0, 9)), max_size=4)), max_size=8)
    )
    arrive, first, past, end, worth = [], [], [], [], []
    for at, steps in tuples:
        places = [p for p in itertools.accumulate((s for s, _ in steps), initial=at) if p <= n][1:]
        if places:
            arrive.append(at)
            first.append(len(end))
            end += places
            worth += itertools.accumulate(w for (_, w), _ in zip(steps, places, strict=False))
            past.append(len(end))
    nodes = [np.array(column, dtype=np.int32) for column in (arrive, first, past, end)]
    return Stays(np.arange(len(arrive)), *nodes[:3], np.zeros(len(arrive), np.int64), nodes[3], np.array(worth, np.int64), np.array(memory))


@examples(5)
@given(any_stays())
def test_any_network(stays: Stays) -> None:
    assert total_worth(stays, solve_stays(stays)) == by_other_solver(stays)


@examples()
@given(cases(windows=ANY_WINDOW, memory=lambda n: st.integers(2, 3), starts=STARTS, **SMALL))
def test_the_curve_is_the_optimum_at_every_memory(case: Case) -> None:
    memories = [2, 3, 4, 6, 20]
    found = curve(case.trace, problem_of(case), memories)
    for memory, value in zip(memories, found, strict=True):
        problem = problem_of(replace(case, memory=memory))
        assert solve_chain(case.trace, problem).value == pytest.approx(value, rel=1e-12)


def test_the_curve_of_a_large_trace_is_solved_point_by_point(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = generate(80, keys=4, seed=3)
    problem = Problem.of(trace.streams, window=20, memory=1)
    stepwise = curve(trace, problem, range(1, 30))
    monkeypatch.setattr(sys.modules[curve.__module__], "STEPWISE", 0)
    assert curve(trace, problem, range(1, 30)).tolist() == stepwise.tolist()
    assert np.all(np.diff(stepwise, n=2) <= 0)


@examples()
@given(cases(windows=ANY_WINDOW, memory=memories, **(SMALL | {"longest": 20})))
def test_sizes_hold_what_is_built(case: Case) -> None:
    problem = problem_of(case)
    chain = solve_chain(case.trace, problem)
    size = size_chain(case.trace, problem)
    assert chain.n_nodes <= size.n_nodes and chain.n_arcs <= size.n_arcs
    if fits_class(case.trace, problem) is None:
        found, size = solve_class(case.trace, problem), size_class(case.trace, problem)
        assert found.n_nodes <= size.n_nodes and found.n_arcs <= size.n_arcs


def test_class_has_three_nodes_and_seven_arcs_per_instant() -> None:
    trace = generate(300, keys=5, seed=2)
    for window in (10, 100, "none"):
        found = solve_class(trace, Problem.of(trace.streams, window=window, memory=7))
        assert found.n_nodes <= 3 * 300 + 1 and found.n_arcs <= 7 * 300


# ----------------------------------------------------------------------------------------------------------------- size


@pytest.mark.slow
@pytest.mark.jit_only
@pytest.mark.parametrize("skew", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("window", [400, 800])
def test_the_sizes_of_das(skew: float, window: int) -> None:
    trace = generate(5600, keys=50, skew=skew, seed=1)
    for share in (0.1, 0.5, 1, 1.5):
        problem = Problem.of(trace.streams, window=window, memory=int(share * window))
        batch = Batch.of(trace, problem)
        stays = by_class(batch.stream, number_instants(trace, problem, batch), problem, 0, 1)
        solution = solve_class(trace, problem)
        assert verify(trace, problem, solution).ok
        assert total_worth(stays, solve_stays(stays)) == by_other_solver(stays)


@pytest.mark.slow
@settings(max_examples=1000)
@given(cases(windows=ANY_WINDOW, memory=few, starts=STARTS, **SMALL))
def test_thousands_of_small_cases(case: Case) -> None:
    check(case)
