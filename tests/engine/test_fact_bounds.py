"""Joins through relations: what holds whoever leaves first, and outputs in pieces."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle_facts
from oracle import Row
from oracle_facts import Fact
from penstock.core.errors import PenstockError
from penstock.core.facts import Facts
from penstock.policies.table import POLICIES
from policy_kinds import KEYED, LEARNING
from relations import FactCase, fact_cases

ON_FACTS = sorted(set(POLICIES) - {*KEYED, *LEARNING})


@settings(max_examples=10)
@given(case=fact_cases(policies=["fifo"], batches=True), policy=st.sampled_from(ON_FACTS))
def test_memory_is_kept_outputs_are_true_and_runs_repeat(case: FactCase, policy: str) -> None:
    windows = [window if window[0] not in ("none", "landmark") else ("time", 8) for window in case.windows]
    case = replace(case, policy=policy, windows=windows, memory=len(windows) + 1, model="buffered")
    run = case.played()
    assert all(len(rows) <= len(windows) + 1 for _, rows in run["memory"])
    assert not Counter(run["outputs"]) - Counter(oracle_facts.exact(case.rows, windows, case.relations(case.known[0][1])))
    held = run["n_shed"] + run["n_expired"] + run["n_filtered"] + (len(run["memory"][-1][1]) if run["memory"] else 0)
    assert held == run["n_input"] == len(case.rows)
    assert case.played(snapshots=True) == run == case.played()


@settings(max_examples=10)
@given(case=fact_cases(policies=["fifo"]), most=st.integers(1, 3))
def test_pieces_of_a_few_outputs_are_the_whole(case: FactCase, most: int) -> None:
    engine, rows, number = case.opened(stepwise=True)
    engine.know(number(case.known[0][1]))
    parts = list(engine.pieces(rows, most=most))
    engine, rows, number = case.opened(stepwise=True)
    engine.know(number(case.known[0][1]))
    whole = engine.play(rows)
    assert [line for part in parts for line in part.outputs.tolist()] == whole.outputs.tolist()
    facts = max((len(own) for own in case.known[0][1]), default=1)
    assert all(len(part.outputs) <= max(most, facts * facts) for part in parts)


def test_nothing_is_played_before_facts_are_known() -> None:
    row = Row(0, 0, 0, columns={"a": 0, "b": 0})
    case = FactCase(rows=[row], windows=[("time", 4)] * 2, known=[(0, [[Fact((0, 0))]])], weighted=[False])
    engine, rows, _ = case.opened(stepwise=True)
    with pytest.raises(PenstockError, match="facts of the relations must be known before the first batch"):
        engine.play(rows)
    with pytest.raises(PenstockError, match=r"facts must be there for each relation \(f0\), with a number for each link, got 2"):
        engine.know([Facts.of([[0, 0]])] * 2)
