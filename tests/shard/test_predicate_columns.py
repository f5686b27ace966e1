"""What shards compare where keys need not be equal: values as numbers, and what is lost of such joins. Without Spark."""

from __future__ import annotations

import math
from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines import running_engine
from penstock.core.batch import Batch
from penstock.core.errors import PenstockError
from penstock.core.problem import Problem
from penstock.core.trace import LIMIT
from penstock.engine.contract import Keep
from penstock.shard.keys import KeyBook
from penstock.shard.meter.meter import Meter
from penstock.shard.predicate_columns import compared_columns
from penstock.shard.shard import Shard
from penstock.shard.shard_ids import shard_ids
from penstock.shard.shard_plan import ShardPlan
from penstock.shard.state.state_rows import whole
from strategies import examples


def linked(predicate: str, kind: pa.DataType, numeric: bool, streams: str = "lr", **options: Any) -> ShardPlan:
    """A join by links on a column k, with another of no matter, so that the links are not one key."""
    schema = pa.schema([(f"{tag}_{name}", type_) for tag in streams for name, type_ in (("k", kind), ("v", pa.int64()))])
    settings = {"window": 20, "memory": 1000, "policy": "fifo", "stats": "window", "predicate": predicate} | options
    return ShardPlan(
        streams=tuple(streams),
        keys=0,
        payload=tuple((f"{tag}_k", f"{tag}_v") for tag in streams),
        options=settings,
        schema=schema,
        times=("time",) * len(streams),
        sent=tuple((f"key{number}",) for number in range(len(streams))),
        columns=(("k",),) * len(streams),
        numeric=((numeric,),) * len(streams),
        route="one",
    )


WHOLE = st.none() | st.integers(-(1 << 62), 1 << 62) | st.sampled_from((1 << 53, (1 << 53) + 1, -(1 << 53) - 1, 1, 3))
KINDS = {
    "whole": (pa.int64(), True, WHOLE),
    "double": (pa.float64(), True, st.none() | st.floats(allow_nan=False) | st.sampled_from((0.0, -0.0, 1.5, 3.5))),
    "text": (pa.string(), False, st.none() | st.sampled_from(("", "a", "b")) | st.text(max_size=2)),
}


@pytest.mark.parametrize("name", KINDS)
@examples(1)
@given(data=st.data())
def test_values_of_an_equality_have_equal_numbers_exactly_where_they_are_equal(name, data):
    """In one batch or another, on either side; a null is no number."""
    kind, numeric, values = KINDS[name]
    plan = linked("l.k = r.k, l.k != r.k", kind, numeric)
    problem = Problem.of(plan.streams, window=20, memory=10, predicate=plan.options["predicate"])
    book, found, given_values = KeyBook(), [], []
    for _ in range(2):
        sides = [data.draw(st.lists(values, min_size=1, max_size=6)) for _ in "lr"]
        parts = [pa.table({f"key{number}": pa.array(side, kind)}) for number, side in enumerate(sides)]
        found += compared_columns(plan, problem, book, parts, [0, 1], np.arange(100))["values"][:, 0].tolist()
        given_values += [value for side in sides for value in side]
    for x, value in zip(found, given_values, strict=True):
        assert math.isnan(x) == (value is None)
        assert all((x == y) == (value == other) for y, other in zip(found, given_values, strict=True) if None not in (value, other))


def test_numbers_that_floating_point_cannot_tell_apart_are_refused():
    plan = linked("l.k < r.k", pa.int64(), True)
    problem = Problem.of(plan.streams, window=20, memory=10, predicate=plan.options["predicate"])
    part = pa.table({"key0": [(1 << 53) + 1]})
    with pytest.raises(PenstockError, match="'k' by size, whose whole numbers must be exact in floating point"):
        compared_columns(plan, problem, KeyBook(), [part], [0], np.arange(1))
    plan, problem = linked("<", pa.int64(), True), Problem.of("lr", window=2, memory=1, predicate="<")
    far = pa.table({"key0": [1 << 62]})
    with pytest.raises(PenstockError, match="must be between"):
        compared_columns(plan, problem, KeyBook(), [far], [0], np.arange(1))


def test_a_book_forgets_no_value_that_a_tuple_still_has():
    """Names are looked through after every batch; what is joined is what the definition says."""
    random, rows = Random(1), []
    plan = linked("l.k = r.k, r.k != s.k", pa.string(), False, "lrs")
    shard = Shard(plan)
    made: Counter[tuple[int, ...]] = Counter()
    for batch in range(12):
        shard.book.calm = 0
        tables = []
        for place, tag in enumerate("lrs"):
            time = sorted(batch * 6 + random.randrange(6) for _ in range(4))
            key = [random.choice([None, *(f"k{n}" for n in range(batch, batch + 4))]) for _ in time]
            value = [len(rows) + n for n in range(4)]
            rows += [(place, t, k) for t, k in zip(time, key, strict=True)]
            columns = {"time": time, f"key{place}": pa.array(key, pa.string()), f"{tag}_k": pa.array(key, pa.string()), f"{tag}_v": value}
            tables.append(pa.table(columns))
        result = shard.play(tables, np.array([batch * 6 + 6] * 3))
        joined = pa.concat_tables(result.joined)
        made += Counter(zip(*(joined[f"{tag}_v"].to_pylist() for tag in "lrs"), strict=True))
    sides = [[(number, t, k) for number, (place, t, k) in enumerate(rows) if place == side and k is not None] for side in range(3)]
    exact = Counter(
        (a, b, c)
        for a, t, k in sides[0] for b, u, m in sides[1] for c, w, n in sides[2]
        if k == m != n and max(t, u, w) - min(t, u, w) < 20
    )  # fmt: skip
    assert made == exact and made
    assert len(shard.book.number) < 30  # of 16 names and what had gone


# ------------------------------------------------------------------------------------------------------------- losses


def metered(streams: int, *, ghosts: int, seed: int = 0, predicate: str = "eps:1") -> tuple[Meter, float, int]:
    """A run of a distance join in little memory: the meter, what it says was lost, and what was."""
    random = np.random.default_rng(5)
    rows, names = 150, tuple("RSTU"[:streams])
    common: dict[str, Any] = {"window": 30, "stats": "window", "clock": "streams", "predicate": predicate}
    problems = [Problem.of(names, memory=memory, **common) for memory in (12, LIMIT - 1)]
    engine, exact = (running_engine(p, "fifo", Keep(outputs=True, sheds=True)) for p in problems)
    stream, value = random.integers(0, streams, rows), random.uniform(0, 4, (rows, 1))
    meter = Meter(problems[0], ghosts=ghosts, seed=seed)
    for begin in range(0, rows, 25):
        at = np.arange(begin, begin + 25)
        batch = Batch(stream[at], at, at, values=value[at])
        before = engine.totals
        meter.before(batch, engine)
        played = engine.play(batch)
        meter.after(batch, engine, before, played)
        exact.play(batch)
        clocks = np.full(streams, begin + 24)
        for one in (engine, exact):
            one.advance(clocks)
        meter.advance(clocks, engine)
        if ghosts < 100:
            assert meter.shadow is not None and meter.shadow.totals.retained - engine.totals.retained <= ghosts
    return meter, meter.total.lost, exact.totals.n_output - engine.totals.n_output


@pytest.mark.parametrize("streams", (2, 3))
def test_lost_outputs_of_a_distance_join_are_counted(streams):
    meter, said, lost = metered(streams, ghosts=1000)
    assert said == lost > 20 and meter.total.estimated == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("streams", (2, 3))
def test_beyond_the_ghosts_that_fit_the_estimate_has_no_bias(streams):
    runs = [metered(streams, ghosts=9, seed=seed) for seed in range(30)]
    said = np.array([one for _, one, _ in runs])
    lost = runs[0][2]
    assert all(meter.total.estimated for meter, _, _ in runs) and said.std() > 0
    assert abs(said.mean() - lost) < 4 * said.std() / math.sqrt(len(said))
    assert all((meter.total.variance == math.inf) == (streams == 3) for meter, _, _ in runs)


# ------------------------------------------------------------------------------------------------------------ resharding


@pytest.mark.parametrize(
    ("changes", "said"),
    (
        ({"predicate": "l.k = r.k, l.k != r.k"}, "the state of a join by 'l.k = r.k, l.k != r.k' cannot be divided anew"),
        ({"window": {"l": "rows:3", "r": 20}}, "shards must be 1 where a window counts the rows of a whole stream"),
    ),
)
def test_a_state_that_is_not_divided_by_key_is_not_divided_anew(changes, said):
    reshard = pytest.importorskip("penstock.spark.reshard.reshard")
    if "predicate" in changes:
        plan = linked(changes["predicate"], pa.string(), False)
    else:
        options = {"window": 20, "memory": 9, "policy": "fifo", "stats": "window"} | changes
        plan = ShardPlan(
            ("l", "r"), 1, ((), ()), options, pa.schema([("k", pa.string())]), ("time", "time"), shards=(int(shard_ids(1)[0]),)
        )
    head, cells = whole(Shard(plan))
    rows = {"head": [((plan.shards[0],), None, head)], "cells": [((plan.shards[0],), at, (cell,)) for at, cell in cells.items()]}
    with pytest.raises(PenstockError, match=said):
        reshard._rewritten(None, rows, 3)
