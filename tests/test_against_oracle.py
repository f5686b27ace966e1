"""The engines against the oracle, tuple by tuple: who joins, who leaves and when, who stays after each instant."""

from __future__ import annotations

from random import Random

import pytest

from strategies import (
    ALLOCATIONS,
    COMPILED,
    COUNTS,
    DETERMINISTIC,
    MODELS,
    OBJECTIVES,
    SHAPES,
    STATS,
    Case,
    random_case,
)


def agree(case: Case) -> None:
    """Both engines do what the oracle does, and the compiled one counts the same when it writes nothing down."""
    expected = case.expected()
    assert case.played() == expected
    assert case.played(stepwise=True) == expected
    assert case.counted() == {name: expected[name] for name in COUNTS}


# --------------------------------------------------------------------------------------------------- every combination


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("stats", STATS)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("allocation", ALLOCATIONS)
@pytest.mark.parametrize("policy", DETERMINISTIC)
def test_every_combination_of_options_on_traces_of_every_shape(policy, allocation, model, stats, objective):
    seed = f"{policy} {allocation} {model} {stats} {objective}"
    shapes = list(SHAPES) if COMPILED else Random(seed).sample(list(SHAPES), 2)
    for shape in shapes:
        agree(
            random_case(
                seed, shape, policy=policy, allocation=allocation, model=model, stats=stats, objective=objective
            )
        )
