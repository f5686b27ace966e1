"""What every optimum is held against: brute force, its replay, its budget, its certificate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import optima
import oracle
import penstock as ps
from penstock.core.budget import TUPLE_OVERHEAD
from penstock.core.problem import Problem
from penstock.optimum.certificate import verify
from penstock.optimum.replay import replay
from penstock.optimum.schedule import NEVER
from penstock.optimum.solve import fits_class, solve_chain, solve_class
from penstock.optimum.states import solve_states
from strategies import (
    COMPILED,
    EVERYTHING,
    SWITCHES,
    Case,
    cases,
    schedules,
)

PREDICATES = st.sampled_from(("=", "=", "=", "!=", "<", "<=", ">", ">=", ("eps", 1.0)))


ASKED = ("window", "memory", "allocation", "objective", "model", "predicate", "start", "switches")


STARTS = st.none() | st.integers(0, 12)


quick = settings(max_examples=50 if COMPILED else 8)


SOLVERS: dict[str, Any] = {"class": solve_class, "chain": solve_chain, "states": solve_states}


def small_memories(n: int) -> st.SearchStrategy[Any]:
    """Budgets that are too small for most of these traces."""
    rows = st.integers(n, n + 2)
    return rows | schedules(rows) | st.tuples(*(st.integers(1, 3) for _ in range(n)))


def small_cases(**more: Any) -> st.SearchStrategy[Case]:
    """Traces in order that brute force can deal with."""
    asked: dict[str, Any] = {"memory": small_memories, "starts": STARTS, "switches": SWITCHES, "longest": 11}
    return cases(**(asked | more))


def options_of(case: Case) -> dict[str, Any]:
    return {name: case.options()[name] for name in ASKED}


def problem_of(case: Case, **more: Any) -> Problem:
    trace = case.trace
    columns = {"has_importance": trace.importance is not None, "has_lifetime": trace.lifetime is not None}
    return Problem.of(trace.streams, **(options_of(case) | columns | more))


def brute(case: Case, goal: str = "max") -> float:
    rows = [replace(row, size=row.size + TUPLE_OVERHEAD) for row in case.rows] if case.in_bytes else case.rows
    names = ("windows", "memory", "allocation", "objective", "model", "predicate", "start", "switches")
    same = {name: getattr(case, name) for name in names}
    return optima.best(rows, len(case.windows), weighted=case.in_bytes, goal=goal, **same)


def close(case: Case, value: float) -> Any:
    """Sums are exact but where an average of three is taken."""
    return pytest.approx(value, rel=1e-12) if len(case.windows) > 2 else value


def check_replay(case: Case, found: ps.Optimum) -> None:
    """The schedule replays to the value and keeps the budget; so it does in the oracle, unless tuples leave before they must."""
    problem, trace = problem_of(case), case.trace
    run = replay(trace, problem, found.schedule, EVERYTHING)
    plain = replay(trace, problem, found.schedule, EVERYTHING, stepwise=True)
    assert (run.n_output, run.value) == (found.n_output, found.value)
    assert (plain.n_output, close(case, plain.value)) == (found.n_output, found.value)
    for log in (run.memory_log, plain.memory_log):
        check_budget(case, log)
    leaves = np.full(len(trace), NEVER)
    leaves[run.sheds] = run.shed_at
    assert leaves.tolist() == found.schedule.tolist()
    if not callable(case.objective) and not case.in_bytes:
        told = oracle.simulate(
            case.rows, len(case.windows), policy=lambda x, _: (int(found.schedule[x.number]),), windows=case.windows, memory=case.memory,
            allocation=case.allocation, objective=case.objective, model=case.model, predicate=case.predicate, start=case.start,
            switches=case.switches,
        )  # fmt: skip
        assert (told.n_output, close(case, told.value)) == (found.n_output, found.value)


def check_budget(case: Case, log: list[tuple[int, Any]]) -> None:
    sizes = [row.size + TUPLE_OVERHEAD if case.in_bytes else 1 for row in case.rows]
    for time, rows in log:
        for streams, budget in oracle.pools(case.memory, case.allocation, len(case.windows), time):
            assert sum(sizes[row] for row in rows if case.rows[row].stream in streams) <= budget


def check_all(case: Case) -> None:
    """Every method that applies finds the value of brute force, and a schedule that is worth it."""
    check_methods(case, brute(case))


def check_methods(case: Case, value: float) -> None:
    problem = problem_of(case)
    for name, solve in applying(case).items():
        solution = solve(case.trace, problem)
        assert solution.value == value, name
        assert replay(case.trace, problem, solution.leaves).value == value, name
        if name != "states":
            assert verify(case.trace, problem, solution).faults == ()
        found = ps.optimum(case.trace, method=name, **options_of(case))
        assert found.value == value and found.exact and found.method in (name, "exact")
        check_replay(case, found)


def applying(case: Case) -> dict[str, Any]:
    """The methods for this case."""
    refused = fits_class(case.trace, problem_of(case))
    return {name: solve for name, solve in SOLVERS.items() if name != "class" or refused is None}
