"""The engines against the oracle, tuple by tuple: who joins, who leaves and when, who stays after each instant."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from agreement import PREDICATES, agree
from oracle import Row
from policy_kinds import DRAWN, KEYED
from strategies import (
    ALLOCATIONS,
    BOUNDED,
    COMPILED,
    DETERMINISTIC,
    DETERMINISTIC_ON_STATS,
    EVERYTHING,
    MODELS,
    OBJECTIVES,
    PLAYED_WINDOW,
    SHAPES,
    STATS,
    SWITCHES,
    WINDOWS,
    Case,
    cases,
    examples,
    later,
    memories,
    random_case,
)

# ---------------------------------------------------------------------------------------------------- every combination


@pytest.mark.wide
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("stats", STATS)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("allocation", ALLOCATIONS)
@pytest.mark.parametrize("policy", [name for name in DETERMINISTIC if name not in KEYED])
@pytest.mark.parametrize("shapes", (2 if COMPILED else 1, later(len(SHAPES))))
def test_every_combination_of_options_on_traces_of_every_shape(policy, allocation, model, stats, objective, shapes):
    options = {"allocation": allocation, "model": model, "stats": stats, "objective": objective}
    seed = f"{policy} {options}"
    # Few shapes stand for all: over the combinations, each has its turn.
    for shape in Random(seed).sample(list(SHAPES), shapes):
        agree(random_case(seed, shape, policy=policy, **options))


@pytest.mark.wide
@pytest.mark.parametrize("objective", ("count", "sum"))
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("allocation", ALLOCATIONS)
@pytest.mark.parametrize("policy", KEYED)
def test_policies_that_use_no_statistics_on_traces_of_every_shape(policy, allocation, model, objective):
    options = {"allocation": allocation, "model": model, "objective": objective}
    for shape in SHAPES:
        agree(random_case(f"{policy} {options}", shape, policy=policy, **options))


# --------------------------------------------------------------------------------------------------- everything at once


ANYTHING = {
    "n": st.integers(2, 3),
    "windows": PLAYED_WINDOW,
    "predicates": st.just("=") | PREDICATES,
    "memory": memories,
    "switches": SWITCHES,
    "disorder": 4,
    "clocks": ("global", "streams"),
    "starts": st.none() | st.integers(0, 9),
    "batches": True,
}


@examples(6)
@given(cases(**ANYTHING))
def test_everything_at_once(case):
    agree(case)


@pytest.mark.slow
@examples(10)
@given(cases(**ANYTHING | {"longest": 40}))
def test_everything_at_once_for_long(case):
    agree(case)


# -------------------------------------------------------------------------------------------------------- larger traces


def larger_case(policy: str, stats: str, **options: Any) -> Case:
    """More tuples and more keys in memory than the compiled engine has room for at first, and large instants."""
    random = Random(f"{policy} {stats}")
    rows, time = [], 0
    for _ in range(150):
        time += random.choice((0, 0, 0, 0, 0, 0, 1, 1, 3))
        key = random.choice((None, random.randrange(8), random.randrange(400)))
        rows.append(Row(random.randrange(2), time, key, random.choice((1.0, 2.0, 4.0, 8.0))))
    return Case(rows=rows, policy=policy, stats=stats, windows=[("time", 64)] * 2, beta=0.25, half_life=1.0, **options)


@pytest.mark.wide
@pytest.mark.parametrize("stats", ("whole", "window", "decayed"))
@pytest.mark.parametrize("policy", DETERMINISTIC_ON_STATS)
def test_memory_that_outgrows_its_first_arrays(policy, stats):
    agree(larger_case(policy, stats, memory=90))


@pytest.mark.parametrize("policy", [name for name in DETERMINISTIC if name not in DETERMINISTIC_ON_STATS])
def test_memory_that_outgrows_its_first_arrays_without_statistics(policy):
    agree(larger_case(policy, "whole", memory=90, objective="sum"))


@pytest.mark.wide
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("disorder", (0, 6))
@pytest.mark.parametrize("policy", [name for name in ps.POLICIES if name not in DRAWN])
def test_compiled_and_stepwise_engines_play_a_long_trace_alike(policy, disorder, model):
    ticks = 400 if COMPILED else 120
    trace = ps.generate(ticks, keys=60, burst="50:2:9", importance="rare", top=16, groups=5, disorder=disorder, seed=5)
    options = {
        "window": 64, "memory": 90, "policy": policy, "stats": "whole", "objective": "count", "model": model, "clock": "streams",
        "lateness": disorder, "alpha": 4.0, "beta": 0.125, "keep": EVERYTHING,
    }  # fmt: skip
    compiled, stepwise = (ps.simulate(trace, stepwise=form, **options) for form in (False, True))
    assert compiled.summary() == stepwise.summary()
    assert compiled.sheds.tolist() == stepwise.sheds.tolist()
    assert sorted(compiled.outputs.tolist()) == sorted(stepwise.outputs.tolist())
    assert compiled.series.tolist() == stepwise.series.tolist()


@examples(4)
@given(cases(n=st.integers(2, 3), windows=BOUNDED | WINDOWS["rows"], memory=memories, switches=SWITCHES, batches=True))
def test_elife_which_the_oracle_does_not_know_is_the_same_in_both_engines(case):
    case = replace(case, policy="elife", half_life=1.0)
    assert case.played() == case.played(stepwise=True)
