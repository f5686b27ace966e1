"""Joins through relations in the compiled engine: tuple by tuple what the stepwise engine does."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fact_plays import drawn_play, play_both
from penstock.core.batch import Batch
from penstock.core.facts import Facts, Through
from penstock.core.problem import Problem
from penstock.engine.compiled.facts import compiled_facts
from penstock.engine.compiled.facts.compiled_facts import CompiledFacts
from penstock.engine.contract import Engine, Keep
from penstock.engine.opening import open_engine
from penstock.policies.table import open_policy
from penstock.statistics.table import open_running
from penstock.statistics.window import WindowCounts
from strategies import COMPILED, examples

SEEDS = st.integers(0, 1 << 32)


@settings(examples(), max_examples=100 if COMPILED else 40)
@given(SEEDS)
def test_the_compiled_engine_joins_through_relations_as_the_stepwise_one_does(seed: int) -> None:
    random = np.random.default_rng(seed)
    play_both(random, drawn_play(random))


@settings(examples(), max_examples=50 if COMPILED else 10)
@given(SEEDS)
def test_facts_that_were_listed_for_another_engine_need_not_be_listed_again(seed: int) -> None:
    random = np.random.default_rng(seed)
    case = drawn_play(random)
    with patch.object(compiled_facts, "_MANY", 0):
        compiled_facts._recent.clear()
        for _ in range(2):
            play_both(random, case)
        kept = compiled_facts._recent[0]
        again = CompiledFacts.of(case.problem, kept.facts)
        assert again.arrays["listed"] is kept.arrays["listed"] and again.arrays["cells"] is not kept.arrays["cells"]
        assert not kept.arrays["cells"]["members"].any()
        compiled_facts._recent.clear()


@pytest.mark.slow
@settings(examples(), max_examples=5000 if COMPILED else 400)
@given(SEEDS)
def test_so_it_does_in_many_more_cases(seed: int) -> None:
    random = np.random.default_rng(seed)
    play_both(random, drawn_play(random))


def test_a_row_without_facts_raises_nothing_of_a_stream_that_no_relation_links_with_its_own() -> None:
    """T and S are linked through R alone; of three streams a row of T is a match of all in S, but not one that nothing links."""
    random = np.random.default_rng(2_275_576_127)
    case = drawn_play(random)
    assert case.policy == "dgl" and case.problem.switch("pre-filter") == "static" and case.problem.n_streams == 3
    assert play_both(random, case)


def test_facts_that_end_where_times_begin_are_counted_until_then() -> None:
    """Of three facts that link the first two tuples, two end at 0; two facts link those that come at 1, which then have more partners."""
    facts = Facts(np.array([0, 0, 0, 1, 1])[:, None] + np.zeros(2, np.int64), np.full(5, -(1 << 62)), np.array([0, 0, *[1 << 62] * 3]))
    through = [Through.parse("f", ["R.x = a", "b = S.y"], "RS")]
    time, stream, value = np.array([-3, -2, 1, 1]), np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    values = np.where(stream[:, None] == [0, 1], value[:, None], -1)
    for stepwise in (False, True):
        problem = Problem.of("RS", window=9, memory=3, through=through, stats="window", switches={"pre-filter": "none"})
        engine = open_engine(problem, open_policy("dimpprob", problem), WindowCounts(), Keep(sheds=True), stepwise=stepwise)
        engine.know([facts])
        assert engine.play(Batch(stream, time, np.arange(4), values=values)).sheds.tolist() == [0]


def test_a_fact_that_ended_as_rows_without_facts_came_counts_no_more_when_memory_becomes_smaller() -> None:
    """Two rows have each other until 8, a third has more importance, and a row that nothing links comes at 8."""
    facts = Facts(np.array([[0, 0], [1, 1]]), np.full(2, -(1 << 62)), np.array([8, 1 << 62]))
    through = [Through.parse("f", ["R.x = a", "b = S.y"], "RS")]
    values, importance = np.array([[0, -1], [-1, 0], [1, -1], [-1, 5]]), np.array([1.0, 1.0, 1.5, 1.0])
    for stepwise in (False, True):
        problem = Problem.of(
            "RS", window=9, memory=3, through=through, stats="window", has_importance=True, switches={"pre-filter": "static"}
        )
        engine = open_engine(problem, open_policy("additive", problem), WindowCounts(), Keep(), stepwise=stepwise)
        engine.know([facts])
        engine.play(Batch(np.array([0, 1, 0, 1]), np.array([5, 5, 5, 8]), np.arange(4), importance, values=values))
        problem.budget.caps[:] = 1
        assert (sorted(engine.trim()), engine.retained().tolist()) == ([0, 1], [2])


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


def test_rates_of_more_values_than_there_was_room_for_survive_a_restart() -> None:
    """Of three hundred values all have rates, and few have a tuple in memory: so most of them come with the rates of the state."""
    facts = Facts.of(np.column_stack([np.arange(300), np.arange(300)[::-1]]).tolist())
    through = [Through.parse("f", ["R.x = a", "b = S.y"], "RS")]
    random = np.random.default_rng(1)
    stream, value = np.arange(1200) % 2, random.integers(0, 300, 1200)
    value[:600:2], value[1:600:2] = np.arange(300), np.arange(300)
    batch = Batch(stream, np.arange(1200), np.arange(1200), values=np.where(stream[:, None] == [0, 1], value[:, None], -1))
    problem = Problem.of("RS", window=400, memory=20, through=through, stats="decayed")

    def opened() -> Engine:
        policy = open_policy("prob", problem)
        return open_engine(problem, policy, open_running(problem, policy), Keep(outputs=True, sheds=True))

    first, second = opened(), opened()
    first.know([facts])
    first.play(batch.cut(0, 600))
    second.restore(first.snapshot())
    second.know([facts])
    runs = [engine.play(batch.cut(600, 1200)) for engine in (first, second)]
    assert runs[0].outputs.tolist() == runs[1].outputs.tolist() and len(runs[0].outputs) > 10
    assert runs[0].sheds.tolist() == runs[1].sheds.tolist()
