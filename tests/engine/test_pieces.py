"""Outputs piece by piece: any size of a piece gives the same run, to the last bit and in the same order, and no piece is large."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from agreement import PREDICATES
from engines import running_engine
from penstock.core.batch import Batch
from penstock.core.problem import Problem
from penstock.engine.contract import Engine, Keep, Played
from penstock.engine.run import memory_log
from plays import each_form
from strategies import COMPILED, EVERYTHING, MODELS, PLAYED_WINDOW, SWITCHES, cases, examples, facts, later, memories, opened

SIZES = (1, 7, 1000)


class Curious(ps.Policy):
    """A user's own: looks at the outputs themselves, as long as they are in the order in which they were made."""

    name = "curious"

    def score(self, view: ps.View) -> Any:
        met = np.bincount(view.outputs[:, 1:].reshape(-1) % 50, minlength=50) * np.arange(1, 51)
        assert len(view.outputs) * view.problem.n_streams == view.produced_now.sum()
        return met[view.row % 50].astype(float)


POLICIES = {name: lambda name=name: name for name in ps.POLICIES} | {"a user's own": Curious}


def hot(streams: int) -> ps.Trace:
    """Large instants of few keys: most arrivals make many outputs."""
    random = np.random.default_rng(streams)
    rows = {2: 70, 3: 34, 4: 24}[streams]
    columns = {
        "stream": [*"RSTU"[:streams], *random.choice(list("RSTU"[:streams]), rows)],
        "time": np.sort([*[0] * streams, *random.integers(0, 4, rows)]),
        "key": [*[0] * streams, *random.choice([0, 0, 1], rows)],
        "importance": [*[1.0] * streams, *random.choice([0.1, 0.7, 3.0], rows)],
    }
    return ps.Trace(columns, streams=tuple("RSTU"[:streams]))


def engine_of(trace: ps.Trace, policy: Any, stepwise: bool, **options: Any) -> tuple[Engine, Batch]:
    problem = Problem.of(trace.streams, window=3, memory=18, stats="decayed", has_importance=True, objective="sum", **options)
    return running_engine(problem, policy, EVERYTHING, stepwise=stepwise), Batch.of(trace, problem)


def same(one: Played, other: Played) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in vars(one))


@pytest.mark.wide
@each_form
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("streams", (2, 3, later(4)))
@pytest.mark.parametrize("policy", POLICIES)
def test_a_piece_of_any_size_gives_the_same_run(policy, streams, model, stepwise):
    trace = hot(streams)
    engine, batch = engine_of(trace, POLICIES[policy](), stepwise, model=model)
    whole = engine.play(batch)
    assert len(whole.outputs) > 50 and len(whole.sheds) > 0
    for most in SIZES:
        other, _ = engine_of(trace, POLICIES[policy](), stepwise, model=model)
        pieces = list(other.pieces(batch, most=most))
        assert same(Played.join(pieces, streams), whole)
        assert other.totals == engine.totals
        assert other.snapshot() == engine.snapshot() or not COMPILED or stepwise
        largest = max(len(piece.outputs) for piece in pieces)
        if streams == 2 and model == "buffered" and not stepwise:  # between arrivals: one meets at most what is there
            assert largest <= max(most, 18 + np.unique(trace.time, return_counts=True)[1].max())
        else:
            assert largest <= most
        assert most > 7 or len(pieces) > 3


@examples(4)
@given(
    cases(
        n=st.integers(2, 4),
        windows=PLAYED_WINDOW,
        predicates=st.just("=") | PREDICATES,
        memory=memories,
        switches=SWITCHES,
        disorder=4,
        clocks=("global", "streams"),
    ),
    st.sampled_from(SIZES),
    st.booleans(),
)
def test_pieces_are_what_the_oracle_makes(case, most, stepwise):
    engine, batch = opened(case.trace, keep=EVERYTHING, stepwise=stepwise, **case.options())
    played = Played.join(list(engine.pieces(batch, most=most)), len(case.windows))
    log = memory_log(played.series, played.retained)
    assert facts(engine.totals, played.outputs, played.sheds, log, played.series) == case.expected()


@each_form
def test_links_between_columns_are_bound_piece_by_piece(stepwise):
    trace = hot(3)
    options = {"predicate": ["R.key = S.key", "S.key <= T.key"], "memory": 40, "window": 3, "policy": "fifo"}
    runs = []
    for most in (*SIZES, 1 << 30):
        engine, batch = opened(trace, keep=Keep(outputs=True), stepwise=stepwise, **options)
        pieces = list(engine.pieces(batch, most=most))
        assert max(len(piece.outputs) for piece in pieces) <= most
        runs.append((Played.join(pieces, 3).outputs.tolist(), engine.totals))
    assert len(runs[0][0]) > 300 and runs[0] == runs[1] == runs[2] == runs[3]
