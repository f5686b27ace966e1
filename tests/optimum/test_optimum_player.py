"""The optimum as a player, its bounds, and what it refuses."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from hypothesis import given

import optima
import penstock as ps
from optimum_checks import (
    ASKED,
    brute,
    options_of,
    quick,
    small_memories,
)
from oracle import Row
from penstock.core.problem import Problem
from penstock.optimum.schedule import NEVER, instants
from places import ROOT
from plays import FIGURE_3
from policy_kinds import LEARNING, NEEDS_BOUND
from strategies import (
    ANY_WINDOW,
    cases,
)

# ------------------------------------------------------------------------------------------------------ opt as a player


@quick
@given(cases(windows=ANY_WINDOW, memory=small_memories, longest=14))
def test_no_policy_does_better(case):
    options = options_of(case)
    best = ps.simulate(case.trace, policy="opt", **options)
    worst = ps.optimum(case.trace, goal="min", **options)
    endless = any(window[0] in ("none", "landmark") for window in case.windows)
    for policy in ps.POLICIES:
        if endless and policy in NEEDS_BOUND:
            continue
        ageing = {"half_life": 4.0} if policy in LEARNING else {}
        run = ps.simulate(case.trace, policy=policy, stats="whole", **(options | ageing))
        assert worst.value <= run.value <= best.value
    assert best.policy == "opt" and best.value <= ps.exact(case.trace, **{k: options[k] for k in ASKED if k != "memory"}).value


@quick
@given(cases(memory=small_memories, clocks=("streams",), longest=11))
def test_the_clock_of_the_streams_changes_nothing(case):
    assert ps.simulate(case.trace, policy="opt", clock="streams", lateness=3, **options_of(case)).value == brute(case)


def test_more_memory_is_never_worse_and_all_of_it_is_exact():
    trace = ps.generate(40, keys=4, seed=3)
    whole = ps.exact(trace, window=6)
    found = [ps.optimum(trace, window=6, memory=memory) for memory in (1, 2, 3, 40)]
    values = [one.value for one in found]
    assert values == sorted(values) and values[0] < values[2] < whole.value
    assert (found[3].method, found[3].value, found[3].n_output) == ("exact", whole.value, whole.n_output)
    assert (found[3].schedule == NEVER).all()


def test_ample_memory_is_no_optimum_where_outputs_cost():
    trace = ps.Trace.from_streams(R="ab", S="ba")
    found = ps.optimum(trace, window=2, memory=10, objective=lambda members: -1.0)
    assert (found.value, found.n_output, found.method) == (0, 0, "class")


# -------------------------------------------------------------------------------------------------- bounds and refusals


def test_three_streams_too_large_for_states_get_a_bound_that_says_so():
    trace = ps.generate(60, streams=("R", "S", "T"), keys=3, seed=1)
    found = ps.optimum(trace, window=16, memory=16)
    assert (found.method, found.exact, len(found.schedule)) == ("bound", False, 0)
    rival = ps.simulate(trace, window=16, memory=16, policy="prob", stats="whole").value
    assert rival <= found.value < ps.exact(trace, window=16).value
    with pytest.raises(ps.PenstockError, match="has no schedule"):
        ps.simulate(trace, window=16, memory=16, policy="opt")
    with pytest.raises(ps.PenstockError, match=r"too large for method 'states'.*'auto' gives an upper bound"):
        ps.optimum(trace, window=16, memory=16, method="states")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"method": "flow"}, "method must be one of auto, .*got 'flow'"),
        ({"goal": "least"}, "goal must be one of max, min, got 'least'"),
        ({"memory": "1 KB"}, "memory in bytes needs a column 'size'"),
        ({"memory": 0}, "memory must be a positive number"),
        ({"limit": "100"}, "limit must be a size such as"),
        ({"model": "buffer"}, "model must be one of buffered, inplace"),
    ],
)
def test_errors_name_the_argument(changed, message):
    with pytest.raises(ps.PenstockError, match=message):
        ps.optimum(FIGURE_3, **({"window": 3, "memory": 2} | changed))


def test_an_objective_without_bounds_is_refused():
    with pytest.raises(ps.PenstockError, match="objective must give finite values"):
        ps.optimum(FIGURE_3, window=3, memory=2, objective=lambda members: float("inf"))


def test_a_trace_out_of_order_is_refused():
    trace = ps.Trace({"stream": ["R", "S", "R"], "time": [3, 1, 4], "key": [1, 1, 1]})
    for ask in (ps.optimum, lambda trace, **options: ps.simulate(trace, policy="opt", **options)):
        with pytest.raises(ps.PenstockError, match="in order of time"):
            ask(trace, window=3, memory=1)


def test_the_optimum_is_no_policy_for_a_stream():
    from penstock.policies.table import open_policy

    with pytest.raises(ps.PenstockError, match="whole trace"):
        open_policy("opt", Problem.of(("R", "S"), window=3, memory=2))


def test_instants_are_runs_of_one_time():
    assert instants(np.array([5, 5, 7, 7, 7, 9])).tolist() == [0, 0, 1, 1, 1, 2]


def test_brute_force_tries_every_set():
    rows = [Row(0, 0, key) for key in "abc"] + [Row(1, 1, key) for key in "abc"]
    assert [optima.best(rows, 2, windows=[("time", 4)] * 2, memory=memory) for memory in (1, 2, 3)] == [1, 2, 3]


def test_the_examples_of_the_guide_run():
    guide = ROOT / "docs" / "optimum.md"
    failed, tried = doctest.testfile(str(guide), module_relative=False)
    assert (failed, tried > 8) == (0, True)


@pytest.mark.parametrize("limit", (0, "x", None, -1, 1.5, {"a": 1}, "0:1 GiB,5:1 kB"))
def test_a_limit_is_a_size(limit):
    with pytest.raises(ps.PenstockError, match="limit must be a size"):
        ps.optimum(ps.Trace.from_streams(R="aab", S="bab"), window=3, memory=1, limit=limit)


def test_a_trace_is_a_trace_and_streams_have_names():
    for play in (ps.optimum, ps.simulate):
        with pytest.raises(ps.PenstockError, match=r"trace must be a ps\.Trace, got dict"):
            play({}, window=3, memory=1)
        with pytest.raises(ps.PenstockError, match="memory must name each of the streams R, S, got 0, 2"):
            play(ps.Trace.from_streams(R="a", S="b"), window=3, memory={0: 3, 2: 1})
