"""The certificate of an optimum finds what is wrong; values as whole numbers; what is no flow."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from nouns import refused
from penstock.core.batch import Batch
from penstock.core.problem import Problem
from penstock.generator.generate import generate
from penstock.optimum.certificate import verify
from penstock.optimum.curve import curve
from penstock.optimum.instants import number_instants
from penstock.optimum.scaling import whole_units
from penstock.optimum.schedule import NEVER
from penstock.optimum.solve import Solution, solve_chain, solve_class

# ---------------------------------------------------------------------------------------------------------- certificate


def solved() -> tuple[ps.Trace, Problem, Solution]:
    trace = generate(60, keys=6, importance="rare", seed=5)
    problem = Problem.of(trace.streams, window=12, memory=4, objective="min", has_importance=True)
    return trace, problem, solve_chain(trace, problem)


def test_the_certificate_of_an_optimum() -> None:
    trace, problem, solution = solved()
    found = verify(trace, problem, solution)
    assert found.ok and found.value == found.bound == solution.value and found.peak_memory == 4


def test_the_certificate_finds_tuples_over_the_budget() -> None:
    trace, problem, solution = solved()
    leaves = np.full(len(trace), NEVER)
    assert "more than 4" in verify(trace, problem, replace(solution, leaves=leaves)).faults[0]


def test_the_certificate_finds_every_schedule_that_earns_less() -> None:
    trace, problem, solution = solved()
    own = number_instants(trace, problem, Batch.of(trace, problem)).of
    for row in np.flatnonzero(solution.leaves > own):
        leaves = solution.leaves.copy()
        leaves[row] = own[row]
        worse = verify(trace, problem, replace(solution, leaves=leaves))
        assert worse.value < solution.value and not worse.ok
        claimed = verify(trace, problem, replace(solution, leaves=leaves, value=worse.value))
        assert "allow" in claimed.faults[0]


def test_the_certificate_finds_wrong_prices() -> None:
    trace, problem, solution = solved()
    raised = 0
    for gap in range(solution.prices.shape[1]):
        prices = solution.prices.copy()
        prices[0, gap] += 8
        raised += not verify(trace, problem, replace(solution, prices=prices)).ok
    assert raised > solution.prices.shape[1] / 2
    assert not verify(trace, problem, replace(solution, prices=np.zeros_like(solution.prices))).ok
    assert "negative" in verify(trace, problem, replace(solution, prices=-solution.prices)).faults[0]
    assert "price" in verify(trace, problem, replace(solution, prices=solution.prices[:, 1:])).faults[0]


def test_the_certificate_finds_a_schedule_of_another_trace() -> None:
    trace, problem, solution = solved()
    assert "rows" in verify(trace, problem, replace(solution, leaves=solution.leaves[1:])).faults[0]
    assert "before" in verify(trace, problem, replace(solution, leaves=np.zeros(len(trace), np.int64))).faults[0]


# ------------------------------------------------------------------------------------------------------- scale, refusal


@given(st.lists(st.integers(-(2**20), 2**20).map(lambda i: i / 64), min_size=1))
def test_binary_fractions_are_scaled_exactly(values: list[float]) -> None:
    units, scale = whole_units(np.array(values))
    assert scale.error == 0
    assert [scale.back(int(unit)) for unit in units] == values


@given(st.lists(st.floats(-1e12, 1e12), min_size=1))
def test_other_numbers_are_rounded_within_the_error_that_is_stated(values: list[float]) -> None:
    units, scale = whole_units(np.array(values))
    off = math.fsum(abs(scale.back(int(unit)) - value) for unit, value in zip(units, values, strict=True))
    assert off <= scale.error + 1e-15 * math.fsum(map(abs, values))


def test_what_is_no_flow_is_refused() -> None:
    trace = ps.Trace({"stream": ["R", "S"], "time": [1, 0], "key": [1, 1], "size": [5, 5]})
    with refused("order of time"):
        solve_class(trace, Problem.of(trace.streams, window=3, memory=2))
    ordered = ps.Trace({"stream": ["R", "S"], "time": [0, 1], "key": [1, 1], "size": [5, 5]})
    with refused("memory in rows, got bytes"):
        solve_chain(ordered, Problem.of(trace.streams, window=3, memory="1 KB"))
    with refused("'class' does not apply: predicate '<'"):
        solve_class(ordered, Problem.of(trace.streams, window=3, memory=2, predicate="<"))
    with refused("finite"):
        solve_chain(ordered, Problem.of(trace.streams, window=3, memory=2, objective=lambda _: math.inf))
    with refused("positive numbers of rows, got 0"):
        curve(ordered, Problem.of(trace.streams, window=3, memory=2), [0, 1])
    with refused("neither change"):
        curve(ordered, Problem.of(trace.streams, window=3, memory="0:2,1:3"), [1])
