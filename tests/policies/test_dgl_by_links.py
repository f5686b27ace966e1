"""`dgl` where partners are found by links: the compiled engine charges gains tuple by tuple, and sheds what steps and the oracle shed."""

from __future__ import annotations

from dataclasses import replace
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
from strategies import MODELS, TIME, WINDOWS, Case, cases, examples, memories, opened, play_in_parts

INIT = st.sampled_from(({}, {"dgl-init": "simpprob"}, {"life-remaining": "less-one"}))
PREDICATES = st.sampled_from(("!=", "<", ">=", ("eps", 1.0), ("eps", 0.0)))
KEEP = ps.Keep(outputs=True, sheds=True, expired=True, retained=True, series=True)


def compiled(case: Any, **options: Any) -> Any:
    engine, batch = opened(case.trace, keep=KEEP, **case.options() | options)
    assert engine.is_compiled
    return engine, batch


@examples(6)
@given(graph_cases(most=4, policies=("dgl",), windows=("time", "rows", "tumbling"), longest=8), INIT, st.sampled_from((None, 0.25)))
def test_over_join_graphs(case, switches, beta):
    if beta is None:  # all importances are 1, so that their mean is, and beta is a power of two
        case = replace(case, rows=[replace(row, importance=1.0) for row in case.rows], importance=False)
    case = replace(case, switches=switches, beta=beta)
    compiled(case)
    assert case.played() == case.expected()
    assert case.played(stepwise=True) == case.expected()


@examples(6)
@given(
    cases(
        n=st.integers(2, 4),
        policies=("dgl",),
        predicates=PREDICATES,
        windows=TIME | WINDOWS["tumbling"] | WINDOWS["rows"],
        memory=memories,
        switches=INIT,
        disorder=4,
        clocks=("global", "streams"),
        batches=True,
        longest=20,
    )
)
def test_by_predicates(case):
    compiled(case)
    agree(case)


@examples(2)
@given(cases(policies=("dgl",), predicates=PREDICATES, in_bytes=True, matches=st.none() | st.integers(1, 3)))
def test_in_bytes_and_with_promises(case):
    agree(case)


@examples(3)
@given(graph_cases(policies=("dgl",), windows=("time", "rows"), longest=8), st.data())
def test_snapshots_and_local_copies_change_nothing(case, data):
    case = replace(case, switches={})
    cut = data.draw(st.integers(0, len(case.rows)))
    found = []
    for kept in ("nothing", "snapshot", "freeze"):
        engine, batch = compiled(case)
        engine.play(batch.cut(0, cut))
        if kept != "nothing":
            before, (engine, _) = engine, compiled(case)
            engine.restore(before.snapshot()) if kept == "snapshot" else engine.thaw(before.freeze())
        rest = engine.play(batch.cut(cut, len(batch)))
        found.append((rest.sheds.tolist(), rest.retained.tolist(), replace(engine.totals, n_steps=0)))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("streams", "predicate"),
    [("RS", "|R.x - S.x| <= 1"), ("RST", ["R.a = S.a", "|S.x - T.x| <= 1"]), ("RST", "R.x < S.x, S.x < T.x, R.a = T.a")],
)
def test_a_long_trace(streams, predicate, model):
    """Memory outgrows its first arrays, and importances are no short numbers."""
    random, rows = np.random.default_rng(3), 500
    columns: dict[str, Any] = {"stream": [streams[at] for at in random.integers(0, len(streams), rows)]}
    columns |= {"time": np.cumsum(random.integers(0, 2, rows)).tolist(), "a": random.integers(0, 5, rows).tolist()}
    columns |= {"x": random.integers(0, 60, rows).tolist(), "importance": random.choice([0.1, 1 / 3, 1.0, 7.0], rows).tolist()}
    trace = ps.Trace(columns, key=(), streams=tuple(streams))
    options: dict[str, Any] = {
        "window": 150,
        "memory": 100,
        "predicate": predicate,
        "policy": "dgl",
        "model": model,
        "keep": KEEP,
        "objective": "count",
    }
    one, two = (ps.simulate(trace, stepwise=form, **options) for form in (False, True))
    assert one.summary() == two.summary() and one.sheds.tolist() == two.sheds.tolist() and len(one.sheds) > 100


def test_memory_that_shrinks_between_batches():
    random = Random(2)
    rows = [Row(random.randrange(2), time // 2, random.randrange(8), random.choice((1.0, 2.0))) for time in range(60)]
    case = Case(rows=rows, windows=[("time", 64)] * 2, memory=20, policy="dgl", predicate=("eps", 1.0), alpha=2.0, beta=0.25)
    found = []
    for stepwise in (False, True):
        engine, batch = opened(case.trace, keep=KEEP, stepwise=stepwise, **case.options())
        engine.play(batch.cut(0, 40))
        engine.problem.budget.caps[:] = 6
        shed = engine.trim()
        found.append((shed.tolist(), engine.play(batch.cut(40, 60)).sheds.tolist()))
    assert found[0] == found[1] and len(found[0][0]) == 14


def test_a_batch_boundary_ends_an_instant():
    rows = [Row(at % 2, at // 6, at % 3, 1.0) for at in range(36)]
    case = Case(rows=rows, windows=[("time", 8)] * 2, memory=5, policy="dgl", predicate="<", alpha=2.0, beta=0.25, batches=(3, 8, 20))
    agree(case)
    engine, batch = compiled(case)
    assert play_in_parts(engine, batch, case.batches).sheds.tolist() == case.played()["sheds"]
