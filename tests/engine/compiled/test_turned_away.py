"""Arrivals that joins by links turn away: who leaves, and when, is what the stepwise engine and the oracle say."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from agreement import agree
from graphs import graph_cases
from oracle import Row
from strategies import COMPILED, IMPORTANCES, MODELS, Case, cases, examples, memories

PRICED = ("prob", "life")
PREDICATES = st.sampled_from(("!=", "<", ">=", ("eps", 1.0), ("eps", 0.0)))


def spread(case: Any, seed: int) -> Any:
    """The same rows, few of which come at once, in windows that hold more of them than memory does."""
    random = Random(seed)
    times = accumulate(random.choices((0, 1, 1, 1, 2), k=len(case.rows)))
    rows = [replace(row, time=time - random.choice((0, 0, 0, 3))) for row, time in zip(case.rows, times, strict=True)]
    n = len(case.windows)
    length = random.choice((8, 16, 64))
    windows = [("time", length)] * n if random.random() < 0.7 else [("time", random.choice((4, 16))) for _ in range(n)]
    return replace(case, rows=rows, windows=windows, memory=random.choice((n, n + 2, 2 * n + 3)), stats="decayed", half_life=1.0)


@examples(4)
@given(graph_cases(most=4, policies=PRICED, windows=("time",), longest=12), st.integers(0, 1 << 30))
def test_over_join_graphs(case, seed):
    case = spread(case, seed)
    if case.on_one_key:
        return
    assert case.played() == case.expected()
    assert case.counted() == case.counted(stepwise=True)


@examples(4)
@given(
    cases(n=st.integers(2, 3), policies=PRICED, stats=("decayed",), predicates=PREDICATES, longest=40, memory=memories, batches=True),
    st.integers(0, 1 << 30),
)
def test_by_predicates(case, seed):
    agree(replace(spread(case, seed), memory=case.memory))


@examples(2)
@given(cases(policies=PRICED, stats=("decayed",), longest=40, in_bytes=True), st.integers(0, 1 << 30), st.sampled_from(("sum", "min")))
def test_by_the_value_of_outputs(case, seed, objective):
    agree(replace(spread(case, seed), memory=case.memory, objective=objective))


@pytest.mark.wide
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("policy", (*PRICED, "elife"))
@pytest.mark.parametrize(
    ("streams", "predicate"),
    [("RS", "|R.x - S.x| <= 1"), ("RST", ["R.a = S.a", "|S.x - T.x| <= 1"]), ("RST", "R.x < S.x, S.x < T.x, R.a = T.a")],
)
def test_a_long_trace(streams, predicate, policy, model):
    """Few values are frequent, so that many who come are worth less than all that are there."""
    random, rows = np.random.default_rng(7), 900 if COMPILED else 240
    columns: dict[str, Any] = {"stream": [streams[at] for at in random.integers(0, len(streams), rows)]}
    columns |= {"time": np.cumsum(random.integers(0, 3, rows)).tolist(), "a": (random.zipf(1.6, rows) % 9).tolist()}
    columns |= {"x": np.minimum(random.zipf(1.5, rows), 40).astype(float).tolist()}
    trace = ps.Trace(columns, key=(), streams=tuple(streams))
    options: dict[str, Any] = {"window": 120, "memory": 40, "predicate": predicate, "policy": policy, "stats": "decayed", "model": model}
    try:
        one, two = (ps.simulate(trace, half_life=64.0, keep=ps.Keep(sheds=True), stepwise=form, **options) for form in (False, True))
    except ps.PenstockError as refusal:
        assert policy == "elife" and "link" in str(refusal)
        return
    assert one.summary() == two.summary() and one.sheds.tolist() == two.sheds.tolist()
    assert np.count_nonzero(trace.time[one.sheds] == np.unique(trace.time)[one.shed_at]) > rows // 20


def test_who_comes_at_the_same_time_meets_who_would_have_been_turned_away():
    """Memory is full of what is worth more; the last two match each other alone, and their output is made."""
    values = [(0, 0, 5), (1, 1, 5), (0, 2, 5), (1, 3, 5), (0, 4, 9), (1, 4, 9)]
    rows = [Row(stream, time, value, IMPORTANCES[0]) for stream, time, value in values]
    case = Case(rows=rows, windows=[("time", 50)] * 2, memory=2, policy="prob", stats="decayed", half_life=4.0, predicate=("eps", 1.0))
    agree(case)
    assert (4, 4, 5) in case.played()["outputs"]
