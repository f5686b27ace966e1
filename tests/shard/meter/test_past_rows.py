"""Late rows are in the loss: what is lost is what the definition of the exact result has and the engine has not made."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines import running_engine
from held_shards import Held
from penstock.core.batch import Batch
from penstock.core.problem import Problem
from penstock.core.trace import LIMIT
from penstock.core.window import Window
from penstock.engine.contract import PIECE, Keep
from penstock.shard.meter.meter import Meter
from penstock.shard.meter.past_rows import Past
from penstock.shard.shard_plan import ShardPlan

MATCHES = {
    "=": lambda low, high: low == high,
    "<": lambda low, high: low < high,
    "eps:1": lambda low, high: abs(low - high) <= 1,
}
WORTH = {"min": min, "max": max, "sum": sum, "product": math.prod, "avg": lambda worths: sum(worths) / len(worths), "count": lambda _: 1.0}
Row = tuple[int, int, int, int, float]  # number, stream, time, key (-1: none), importance


def exact(rows: Sequence[Row], windows: Sequence[str | int], predicate: str) -> list[tuple[Row, ...]]:
    """The exact result by its definition (docs/readings.md, the exact result), which does not ask in which order rows came."""
    ends = {row[0]: int(Window.parse(windows[row[1]]).expiries(np.array([row[2]]))[0]) for row in rows}
    sides = [[row for row in rows if row[1] == stream and row[3] >= 0] for stream in range(len(windows))]
    found = []
    for members in product(*sides):
        now = max(row[2] for row in members)
        fits = all(MATCHES[predicate](low[3], high[3]) for at, low in enumerate(members) for high in members[at + 1 :])
        if fits and all(now < ends[row[0]] for row in members):
            found.append(members)
    return found


@dataclass
class Trial:
    """Rows in micro-batches, each in order of time; many break the promise of their stream."""

    batches: list[list[Row]]

    @classmethod
    def of(cls, random: Random, *, streams: int, size: int = 10, reach: int = 40) -> Trial:
        number, batches = 0, []
        for begin in range(0, 7 * random.randrange(2, 8), 7):
            times = [begin + random.randrange(7) - (random.randrange(reach) if random.random() < 0.4 else 0) for _ in range(size)]
            own = [(t, random.randrange(streams), random.choice((-1, 0, 0, 1, 2)), random.choice((1.0, 2.0, 0.5))) for t in times]
            own.sort(key=lambda row: row[:2])
            batches.append([(number + at, s, t, k, w) for at, (t, s, k, w) in enumerate(own)])
            number += size
        return cls(batches)

    def batch(self, at: int, predicate: str, importance: bool) -> Batch:
        rows = self.batches[at]
        stream, time, key = (np.array([row[column] for row in rows]) for column in (1, 2, 3))
        worth = np.array([row[4] for row in rows]) if importance else None
        if predicate == "=":
            return Batch(stream, time, key, worth)
        numbers = np.array([row[0] for row in rows])
        return Batch(stream, time, np.where(key < 0, -1, numbers), worth, values=key[:, None].astype(float))


def metered(random: Random, *, ghosts: int = 10**6) -> tuple[list[tuple[Any, Any, int, float]], Any, tuple[int, float]]:
    """A run: by batch the loss that the meter tells, the rows of it, and what the exact result has beyond what was made, also of all."""
    streams, predicate = random.choice(((2, "="), (2, "="), (3, "="), (2, "<"), (2, "eps:1"), (3, "eps:1")))
    windows = [random.choice((9, 9, 14, "tumbling:12", "none")) for _ in range(streams)]
    objective, importance = random.choice(list(WORTH)), random.random() < 0.7
    names = tuple("RST"[:streams])
    problem = Problem.of(
        names, window=dict(zip(names, windows, strict=True)), memory=random.choice((3, 8, 1000)), stats="window", clock="streams",
        lateness=random.choice((0, 3)), has_importance=importance, predicate=predicate, objective=objective if importance else None,
    )  # fmt: skip
    # Two that are defined for every predicate and window.
    engine = running_engine(problem, random.choice(("fifo", "rand")), Keep(outputs=True, sheds=True))
    meter = Meter(problem, ghosts=ghosts, wants_rows=random.random() < 0.5)
    trial, told, known, done = Trial.of(random, streams=streams), [], [], 0
    total = [0, 0.0]
    for at, rows in enumerate(trial.batches):
        batch = trial.batch(at, predicate, importance)
        before = engine.totals
        meter.before(batch, engine)
        played = engine.play(batch)
        loss, missed, weight = meter.after(batch, engine, before, played)
        clocks = np.array([batch.time[batch.stream == s].max(initial=-LIMIT) for s in range(streams)])
        engine.advance(clocks)
        meter.advance(clocks, engine)
        known += rows
        there = exact(known, windows, predicate)
        worth = sum(WORTH[objective if importance else "count"]([row[4] for row in members]) for members in there)
        made = {tuple(line[1:]) for line in played.outputs.tolist()}
        if meter.wants_rows and not loss.estimated:
            new = {tuple(row[0] for row in members) for members in there if max(row[0] for row in members) >= rows[0][0]}
            assert {tuple(line[1:]) for line in missed.tolist()} == new - made and len(missed) == len(new - made)
            assert (weight == 1.0).all()
        total, before_total = [len(there), worth], total
        lost = total[0] - before_total[0] - (engine.totals.n_output - before.n_output)
        told.append((loss, missed, lost, total[1] - before_total[1] - (engine.totals.value - before.value)))
        done += len(rows)
        if random.random() < 0.3:  # another process goes on
            state, meter = meter.snapshot(), Meter(problem, ghosts=ghosts, wants_rows=meter.wants_rows)
            meter.restore(state)
    return told, meter, (total[0] - engine.totals.n_output, total[1] - engine.totals.value)


@settings(deadline=None, max_examples=150)
@given(st.randoms(use_true_random=False))
def test_what_late_rows_have_missed_is_counted(random):
    with patch("penstock.shard.meter.past_rows.PIECE", random.choice((1, 5, 1 << 19))):
        told, meter, (lost, value) = metered(random)
    for loss, _, truth, worth in told:
        assert loss.lost == truth and math.isclose(loss.lost_value, worth, abs_tol=1e-9)
        assert (loss.estimated, loss.unknown, loss.variance) == (0.0, 0.0, 0.0)
    assert meter.total.lost == lost and math.isclose(meter.total.lost_value, value, abs_tol=1e-9)


@settings(deadline=None, max_examples=150)
@given(st.randoms(use_true_random=False))
def test_rows_later_than_what_is_kept_make_the_loss_inexact_and_bounded(random):
    """With few ghosts the past is short: what is counted is certain, and what is unknown lies within its bound."""
    with patch.object(Past, "keep", lambda self, room, keep=Past.keep: keep(self, min(room, 12))):
        told, meter, (lost, _) = metered(random)
    for loss, _, truth, worth in told:
        assert loss.lost <= truth <= loss.lost + loss.unknown
        assert loss.lost_value - 1e-9 <= worth <= loss.lost_value + loss.unknown_value + 1e-9
        assert loss.estimated or loss.lost == truth
    assert meter.total.lost <= lost <= meter.total.lost + meter.total.unknown


@settings(deadline=None, max_examples=60)
@given(st.randoms(use_true_random=False))
def test_few_ghosts_and_late_rows_together_claim_nothing_that_is_wrong(random):
    """Sampled and late at once: what is certain is not too much, and the figure is exact where it says so."""
    told, _, _ = metered(random, ghosts=random.randrange(1, 12))
    for loss, _, truth, _ in told:
        assert loss.lost - loss.sampled <= truth
        assert loss.estimated or loss.lost == truth


def test_what_late_rows_of_a_hot_key_have_missed_is_made_piece_by_piece():
    problem = Problem.of(("R", "S"), window=10, memory=4)
    past, each = Past(problem), 3000
    past.add(Batch(np.zeros(each, np.int64), np.zeros(each, np.int64), np.zeros(each, np.int64)), 0)
    late = Batch(np.ones(each, np.int64), np.full(each, 5), np.zeros(each, np.int64))
    sizes = [len(outputs) for outputs, _ in past.missed(late, each, horizon=100, held=None).pieces]
    assert sum(sizes) == each * each
    assert max(sizes) <= PIECE + each


def late_batch(random: Random, begin: int, ticks: int) -> list[pa.Table]:
    tables = []
    for number, side in enumerate("lr"):
        times = sorted(begin + random.randrange(ticks) - (random.randrange(60) if random.random() < 0.3 else 0) for _ in range(20))
        value = [begin * 1000 + 100 * number + at for at in range(len(times))]
        columns = {"time": times, "order": value, "key0": [random.choice("abcd") for _ in times], f"{side}_v": value}
        tables.append(pa.table(columns))
    return tables


@pytest.mark.parametrize("condition", (None, "l_v < r_v"))
@pytest.mark.parametrize("nearby", (False, True), ids=("from the state", "from a local copy"))
def test_a_shard_keeps_its_past_over_restarts(tmp_path, condition, nearby):
    """Through logs, snapshots and copies; with a condition, the lost rows are those that are missing, column by column."""
    schema = pa.schema([("k", pa.string()), ("l_v", pa.int64()), ("r_v", pa.int64()), ("__lost", pa.float64())])
    options = {"window": 20, "memory": 15, "policy": "prob", "stats": "decayed"}
    judged = None if condition is None else (("l_v",), ("r_v",))
    plan = ShardPlan(("l", "r"), 1, (("l_v",), ("r_v",)), options, schema, ("time", "time"), condition=condition, judged=judged)
    random, held, rows = Random(3), Held(), ([], [])
    made: Counter[Any] = Counter()
    for number in range(14):
        tables = late_batch(random, number * 8, 8)
        # Some batches write a snapshot.
        with patch("penstock.shard.state.state_rows._LEAST", 1 << 12), patch("penstock.shard.state.state_rows._PAST", 1):
            shard, result = held.play(plan, tables, tmp_path if nearby and number % 3 else None)
        joined = pa.concat_tables(result.joined)
        made.update(zip(joined["l_v"].to_pylist(), joined["r_v"].to_pylist(), strict=True))
        for side, table in enumerate(tables):
            rows[side].extend(zip(table["time"].to_pylist(), table["key0"].to_pylist(), table["lr"[side] + "_v"].to_pylist(), strict=True))
        there = Counter((x[2], y[2]) for x in rows[0] for y in rows[1] if x[1] == y[1] and abs(x[0] - y[0]) < 20)
        assert result.counts["total_lost"] == sum(there.values()) - result.counts["total_n_output"]
        assert result.counts["total_estimated"] == 0 and (condition is None or made == there)
    assert result.counts["total_n_late"] > 30 and len(shard.meter.past) == 14 * 40


def test_a_lateness_that_grows_over_a_restart_counts_nothing_twice():
    """Tuples that had expired stay so; those that come later live longer."""
    held, random, rows = Held(), Random(5), ([], [])
    schema = pa.schema([("k", pa.string()), ("l_v", pa.int64()), ("r_v", pa.int64())])
    for number in range(12):
        options = {"window": 20, "memory": 15, "policy": "prob", "stats": "decayed", "lateness": (0, 30, 5)[number // 4]}
        tables = late_batch(random, number * 8, 8)
        _, result = held.play(ShardPlan(("l", "r"), 1, (("l_v",), ("r_v",)), options, schema, ("time", "time")), tables, None)
        for side, table in enumerate(tables):
            rows[side].extend(zip(table["time"].to_pylist(), table["key0"].to_pylist(), strict=True))
        there = sum(x[1] == y[1] and abs(x[0] - y[0]) < 20 for x in rows[0] for y in rows[1])
        assert result.counts["total_lost"] == there - result.counts["total_n_output"]


def test_where_nobody_has_kept_the_past_late_rows_make_the_figure_inexact():
    """As after a restart from a state of 0.1.0."""
    problem = Problem.of(("R", "S"), window=10, memory=100, stats="window", clock="streams")
    engine, meter = running_engine(problem, "fifo", Keep(outputs=True)), Meter(problem, ghosts=100)
    for at, (stream, time) in enumerate((([0, 1, 1], [5, 40, 41]), ([0, 0, 1], [4, 50, 50]), ([1], [6]))):
        batch = Batch(np.array(stream), np.array(time), np.zeros(len(time), np.int64))
        if at == 1:
            meter = Meter(problem, ghosts=100)
            meter.unkept = True
        before = engine.totals
        meter.before(batch, engine)
        loss, *_ = meter.after(batch, engine, before, engine.play(batch))
        clocks = np.array([batch.time[batch.stream == s].max(initial=-LIMIT) for s in range(2)])
        engine.advance(clocks)
        meter.advance(clocks, engine)
        assert loss.estimated == (at > 0) and loss.lost == (at == 2)  # the row of time 4 is still known to the last
        assert at < 2 or 1 <= loss.unknown <= 3


def test_in_windows_that_count_rows_nobody_is_late():
    past = Past(Problem.of(("R", "S"), window="rows:5", memory=10))
    past.add(Batch(np.array([0]), np.array([5]), np.array([1])), 0)
    assert len(past) == 0
