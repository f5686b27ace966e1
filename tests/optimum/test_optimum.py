"""The optimum: every method against brute force, and among themselves."""

from __future__ import annotations

from dataclasses import replace
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import penstock as ps
from optimum_checks import (
    PREDICATES,
    STARTS,
    brute,
    check_all,
    check_methods,
    check_replay,
    close,
    options_of,
    problem_of,
    quick,
    small_cases,
    small_memories,
)
from penstock.core.problem import Problem
from penstock.generator.generate import generate
from penstock.optimum.replay import replay
from penstock.optimum.solve import solve_chain
from penstock.optimum.states import size_states, solve_states
from strategies import (
    ANY_WINDOW,
    COMPILED,
    EVERYTHING,
    SWITCHES,
    WINDOWS,
    Case,
    cases,
)

# ---------------------------------------------------------------------------------------------------------- brute force


@quick
@given(small_cases())
def test_every_method_finds_the_optimum_of_small_traces(case):
    check_all(case)


@pytest.mark.parametrize("kind", WINDOWS)
def test_every_kind_of_window(kind):
    @settings(max_examples=20 if COMPILED else 4)
    @given(small_cases(windows=WINDOWS[kind]))
    def agrees(case):
        check_all(case)

    agrees()


@quick
@given(small_cases(windows=ANY_WINDOW, predicates=PREDICATES))
def test_every_predicate(case):
    check_all(case)


@quick
@given(small_cases(lifetimes=st.integers(1, 9)))
def test_tuples_with_lifetimes_of_their_own(case):
    check_all(case)


@pytest.mark.slow
@settings(max_examples=300)
@given(small_cases(windows=ANY_WINDOW, predicates=PREDICATES, longest=13))
def test_everything_at_once_for_long(case):
    check_all(case)


@pytest.mark.slow
@settings(max_examples=300)
@given(small_cases(windows=ANY_WINDOW, lifetimes=st.integers(1, 9), longest=13).filter(lambda c: all(w[0] != "rows" for w in c.windows)))
def test_lifetimes_for_long(case):
    check_all(case)


def difference(members: list[float]) -> float:
    return members[0] - members[-1]


@quick
@given(small_cases(windows=ANY_WINDOW, longest=9))
def test_values_of_either_sign(case):
    check_all(replace(case, objective=difference))


@pytest.mark.slow
@settings(max_examples=300)
@given(small_cases(windows=ANY_WINDOW, longest=10))
def test_values_of_either_sign_for_long(case):
    check_all(replace(case, objective=difference))


@quick
@given(small_cases(n=st.just(3), predicates=PREDICATES, longest=10))
def test_three_streams(case):
    check_states(case)


@pytest.mark.slow
@settings(max_examples=300)
@given(small_cases(n=st.integers(3, 4), windows=ANY_WINDOW, predicates=PREDICATES, longest=11))
def test_more_streams_for_long(case):
    check_states(case)


@quick
@given(small_cases(n=st.just(3), longest=9))
def test_three_streams_and_values_of_either_sign(case):
    check_states(replace(case, objective=difference))


@quick
@given(small_cases(memory=None, in_bytes=True, longest=9))
def test_memory_in_bytes(case):
    check_states(case)


def check_states(case: Case) -> None:
    """What only `states` can do, and the bound above it."""
    value = brute(case)
    found = ps.optimum(case.trace, **options_of(case))
    assert found.value == close(case, value) and found.method in ("states", "exact")
    check_replay(case, found)
    if not case.in_bytes:
        bound = solve_chain(case.trace, problem_of(case))
        assert not bound.exact and bound.value >= value - 1e-9


@quick
@given(small_cases(windows=ANY_WINDOW, n=st.integers(2, 3), predicates=PREDICATES, longest=9))
def test_the_least_value_in_a_full_memory(case):
    value = brute(case, "min")
    found = ps.optimum(case.trace, goal="min", **options_of(case))
    assert found.value == close(case, value) and found.goal == "min"
    check_replay(case, found)
    # Whoever is shed leaves a full memory behind.
    run = replay(case.trace, problem_of(case), found.schedule, EVERYTHING)
    for instant, (time, rows) in enumerate(run.memory_log):
        streams = {case.rows[row].stream for row in np.flatnonzero(found.schedule == instant)}
        for mine, budget in oracle.pools(case.memory, case.allocation, len(case.windows), time):
            if streams & set(mine):
                assert sum(case.rows[row].stream in mine for row in rows) == budget


@quick
@given(small_cases(windows=ANY_WINDOW, predicates=PREDICATES))
def test_there_are_no_more_states_than_was_expected(case):
    problem = problem_of(case)
    for goal in ("max", "min"):
        found = solve_states(case.trace, problem, goal=goal)
        assert found.n_states <= size_states(case.trace, problem, goal=goal)
        alone = solve_states(case.trace, problem, goal=goal, traced=False)
        assert (alone.value, alone.n_states) == (found.value, found.n_states) and not len(alone.leaves)


@pytest.mark.parametrize("memory", (2, 18, 22, 24))
def test_states_of_a_memory_that_is_full_are_choices_of_so_many(memory):
    """One arrival of each stream per instant, one expiry: of a window of 12 each stream keeps exactly its part, or all."""
    trace = generate(200, keys=6, seed=2)
    problem = Problem.of(trace.streams, window=12, memory=memory, allocation="fixed")
    expected = 2 * 200 * comb(12, memory // 2)
    found = solve_states(trace, problem)
    assert found.n_states <= size_states(trace, problem) <= expected
    assert found.value == solve_chain(trace, problem).value


def test_the_value_alone_is_that_of_the_schedule_and_reaches_further():
    trace = generate(1500, keys=20, importance="uniform", seed=5)
    options: dict[str, Any] = {"window": 60, "memory": 118, "allocation": "fixed", "method": "states"}
    alone = ps.optimum(trace, **options, schedule=False)
    assert alone.value == ps.optimum(trace, **options).value and alone.n_output is None and not len(alone.schedule)
    with pytest.raises(ps.PenstockError, match='schedule=False goes with method="states"'):
        ps.optimum(trace, window=60, memory=118, schedule=False)
    with pytest.raises(ps.PenstockError, match="schedule must be True or False, got 'no'"):
        ps.optimum(trace, **options, schedule="no")
    with pytest.raises(ps.PenstockError, match="too large for method 'states'"):
        ps.optimum(trace, **options | {"memory": 60}, schedule=False)


# --------------------------------------------------------------------------------------------- longer, among themselves


LONGER: dict[str, Any] = {"windows": ANY_WINDOW, "predicates": PREDICATES, "memory": small_memories, "starts": STARTS, "switches": SWITCHES}


@quick
@given(cases(**LONGER, longest=40))
def test_the_methods_agree_on_longer_traces(case):
    check_methods(case, solve_states(case.trace, problem_of(case)).value)


@pytest.mark.slow
@settings(max_examples=300)
@given(cases(**LONGER, longest=60))
def test_the_methods_agree_on_longer_traces_for_long(case):
    check_methods(case, solve_states(case.trace, problem_of(case)).value)
