"""Joins through relations in the compiled engine: tuple by tuple what the stepwise engine does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fact_plays import drawn_play, play_both
from penstock.core.batch import Batch
from penstock.core.facts import Facts, Through
from penstock.core.problem import Problem
from penstock.engine.contract import Keep
from penstock.engine.opening import open_engine
from penstock.policies.table import open_policy
from penstock.statistics.window import WindowCounts
from strategies import COMPILED, examples

SEEDS = st.integers(0, 1 << 32)


@settings(examples(), max_examples=100 if COMPILED else 40)
@given(SEEDS)
def test_the_compiled_engine_joins_through_relations_as_the_stepwise_one_does(seed: int) -> None:
    random = np.random.default_rng(seed)
    play_both(random, drawn_play(random))


@pytest.mark.slow
@settings(examples(), max_examples=5000 if COMPILED else 400)
@given(SEEDS)
def test_so_it_does_in_many_more_cases(seed: int) -> None:
    random = np.random.default_rng(seed)
    play_both(random, drawn_play(random))


def test_a_long_history_of_one_value_is_passed_over_and_each_deletion_is_noticed() -> None:
    """Three hundred facts of one value follow each other, under one that is always active: a tuple has two at any time."""
    begin, end = np.append(np.arange(300) * 3, -(1 << 62)), np.append(np.arange(300) * 3 + 3, 1 << 62)
    facts = Facts(np.column_stack([np.zeros(301, np.int64), np.arange(301) % 2]), begin, end)
    through = [Through.parse("f", ["R.x = a", "b = S.y"], "RS")]
    time = np.repeat(np.arange(0, 900, 3), 2)
    stream = np.arange(600) % 2
    values = np.where(stream[:, None] == [0, 1], np.stack([np.zeros(600, np.int64), time // 3 % 2], axis=1), -1)
    runs = []
    for stepwise in (False, True):
        problem = Problem.of("RS", window=4, memory=4, through=through, stats="window")
        engine = open_engine(problem, open_policy("prob", problem), WindowCounts(), Keep(outputs=True), stepwise=stepwise)
        engine.know([facts])
        found = engine.play(Batch(stream, time, np.arange(600), values=values)).outputs
        runs.append((sorted(map(tuple, found.tolist())), engine.totals.n_shed, engine.totals.n_expired))
    assert runs[0] == runs[1] and len(runs[0][0]) > 300
