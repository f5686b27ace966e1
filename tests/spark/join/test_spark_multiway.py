"""Joins of several streams and joins other than equality, on Spark: against SQL, the simulator and the oracle."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import reduce
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import pytest

import oracle
import penstock as ps

pytest.importorskip("pyspark")
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from sparks import ON_SPARK, START, add_batches, at, bag, in_batches, ran
from strategies import later

pytestmark = ON_SPARK

FIELDS = "ts timestamp, k string, x double, y double, b bigint, v bigint"
WINDOW = 10  # seconds
Rows = list[tuple[Any, ...]]


def some(tag: str, n: int, *, seconds: int = 40, seed: int = 0) -> Rows:
    """Rows of one stream; `v` is different in each, and orders them."""
    random = Random(f"{tag} {seed}")
    numbers = [None, float("nan"), *(round(random.uniform(-2, 2), 1) for _ in range(30))]
    return [
        (at(random.randrange(seconds)), random.choice(["a", "b", "c", "d", None]), random.choice(numbers), random.uniform(-2, 2),
         random.choice([None, *range(-6, 7)]), number)
        for number in random.sample(range(1000), n)
    ]  # fmt: skip


def sides(frames: dict[str, DataFrame], **options: Any) -> dict[str, Any]:
    own = {"window": f"{WINDOW} seconds", "lateness": "0 seconds", "order": "v"} | options
    return {name: ps.stream(frame, time="ts", **own) for name, frame in frames.items()}


@dataclass(frozen=True)
class Way:
    """A join: what `ps.join` is told, and what SQL says of a combination."""

    streams: str
    options: dict[str, Any]
    pairs: Any = None  # SQL for the streams a and b, of every pair
    sql: str = "true"
    windows: dict[str, Any] = field(default_factory=dict)

    def join(self, frames: dict[str, DataFrame], **more: Any) -> DataFrame:
        return ps.join(sides(frames, **self.windows), **self.options | more)

    def exact(self, frames: dict[str, DataFrame]) -> DataFrame:
        """What batch SQL makes of it."""
        named = [frame.select(*(F.col(name).alias(f"{tag}_{name}") for name in frame.columns)) for tag, frame in frames.items()]
        out = reduce(DataFrame.crossJoin, named)
        times = [F.unix_micros(f"{tag}_ts") for tag in frames]
        for time in times:
            out = out.where(F.greatest(*times) - time < WINDOW * 1_000_000)
        for one, other in combinations(frames, 2) if self.pairs else ():
            out = out.where(self.pairs.format(a=one, b=other))
        return out.where(self.sql)


def numbers(frame: DataFrame, streams: str) -> Counter[tuple[Any, ...]]:
    """The members of each joined row."""
    return bag(frame.select(*(f"{tag}_v" for tag in streams)))


NEAR = "sqrt(({a}_x - {b}_x) * ({a}_x - {b}_x) + ({a}_y - {b}_y) * ({a}_y - {b}_y)) <= 0.7 and not isnan({a}_x) and not isnan({b}_x)"
LINKS = ["a.k = b.k", "b.b < c.b"]
WAYS = {
    "key of 3": Way("abc", {"on": "k", "shards": 2}, "{a}_k = {b}_k"),
    "key of 4": Way("abcd", {"on": "k", "shards": 3}, "{a}_k = {b}_k"),
    "key of 5": Way("abcde", {"on": "k", "shards": 2}, "{a}_k = {b}_k"),
    "cells, 1": Way("ab", {"on": "x", "predicate": "eps:0.3", "shards": 1}, "abs({a}_x - {b}_x) <= 0.3"),
    "cells, 7": Way("ab", {"on": "x", "predicate": "eps:0.3", "shards": 7}, "abs({a}_x - {b}_x) <= 0.3"),
    "whole cells": Way("ab", {"on": "b", "predicate": "eps:2", "shards": 3}, "abs({a}_b - {b}_b) <= 2"),
    "plane": Way("abc", {"on": ["x", "y"], "predicate": "eps:0.7", "shards": 2}, NEAR),
    "matrix": Way("ab", {"on": "b", "predicate": "<", "shards": 4}, "{a}_b < {b}_b"),
    "cube": Way("abc", {"on": "b", "predicate": ">=", "shards": 4}, "{a}_b >= {b}_b"),
    "unequal": Way("ab", {"on": "k", "predicate": "!=", "shards": 3}, "{a}_k != {b}_k"),
    "dates": Way("ab", {"on": "ts", "predicate": "eps:2000000", "shards": 2}, "abs(unix_micros({a}_ts) - unix_micros({b}_ts)) <= 2000000"),
    "links": Way("abc", {"predicate": LINKS}, sql="a_k = b_k and b_b < c_b"),
    "links, 6": Way("abc", {"predicate": LINKS, "shards": 6}, sql="a_k = b_k and b_b < c_b"),
    "linked key": Way("abc", {"predicate": "a.k = b.k, b.k = c.k", "shards": 3}, "{a}_k = {b}_k"),
    "crossed": Way("abc", {"predicate": "a.k = b.k", "cross": True}, sql="a_k = b_k"),
}
QUICK = ("key of 3", "plane", "links")


def ways(*quick: str) -> list[Any]:
    return [name if name in quick else later(name) for name in WAYS]


def drawn(spark: SparkSession, way: Way, n: int | None = None) -> dict[str, DataFrame]:
    size = n or {2: 60, 3: 25, 4: 20, 5: 20}[len(way.streams)]
    return {tag: spark.createDataFrame(some(tag, size), FIELDS) for tag in way.streams}


@pytest.mark.parametrize("name", ways(*QUICK))
def test_ample_memory_gives_what_batch_sql_gives(spark, name):
    way = WAYS[name]
    frames = drawn(spark, way)
    made = way.join(frames, memory=10_000)
    got = numbers(made, way.streams)
    assert got == numbers(way.exact(frames), way.streams) and len(got) > 3


# ------------------------------------------------------------------------------------------------- the simulator

# A few, since each is a query: by rate, pattern, life, counts, chance, age, importance and gain, over the ways that rows go.
PLAYED = [
    ("key of 3", "prob", {}),
    ("key of 3", "ep", {}),
    *(later("key of 3", policy, {}) for policy in ("life", "frequency", "output", "kwon-random")),
    later("key of 3", "dimpprob", {"importance": "v + 1"}),
    later("cells, 1", "prob", {}),
    ("links", "fifo", {}),
    later("links", "dgl", {"importance": "v + 1"}),
    later("matrix", "rand", {}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "policy", "options"), PLAYED)
def test_one_shard_with_little_memory_is_the_simulator(spark, name, policy, options):
    way = WAYS[name]
    rows = {tag: some(tag, 40, seed=1) for tag in way.streams}
    frames = {tag: spark.createDataFrame(own, FIELDS) for tag, own in rows.items()}
    told = {key: value for key, value in way.options.items() if key != "shards"}
    made = numbers(ps.join(sides(frames, **options), memory=12, policy=policy, shards=1, **told), way.streams)
    played = sorted((_micros(row[0]), place, row[5], row) for place, tag in enumerate(way.streams) for row in rows[tag])
    columns = {name: [row[at] for *_, row in played] for at, name in enumerate(("ts", "k", "x", "y", "b", "v"))}
    table = {"stream": [way.streams[place] for _, place, *_ in played], "time": [time for time, *_ in played]} | columns
    table |= {"importance": [float(v + 1) for v in columns["v"]]} if options else {}
    trace = ps.Trace(table, key=told.get("on", ()), streams=tuple(way.streams))
    run = ps.simulate(
        trace, window=WINDOW * 1_000_000, memory=12, policy=policy, stats="decayed", clock="streams",
        predicate=told.get("predicate", "="), keep=ps.Keep(outputs=True),
    )  # fmt: skip
    assert run.outputs is not None and run.n_shed > 0
    assert made == Counter(tuple(columns["v"][row] for row in members) for _, *members in run.outputs.tolist())
    assert made


def _micros(time: Any) -> int:
    return round((time - START).total_seconds() * 1_000_000)


# --------------------------------------------------------------------------------------------------- windows of rows

COUNTED = {
    "rows_per_key": Way("ab", {"on": "k", "shards": 3, "half_life": "10 s"}, windows={"window": "rows_per_key:2"}),
    "rows": Way("abc", {"on": "k", "half_life": "10 s"}, windows={"window": "rows:6"}),
    "rows, links": Way("ab", {"predicate": "a.b < b.b", "half_life": "10 s"}, windows={"window": "rows:8"}),
}


def by_definition(rows: dict[str, Rows], way: Way) -> Counter[tuple[Any, ...]]:
    """The exact result from the oracle, which plays rows in their order."""
    played = sorted((_micros(row[0]), place, row[5], row) for place, tag in enumerate(way.streams) for row in rows[tag])
    kind, _, size = way.windows["window"].partition(":")
    own = [oracle.Row(place, time, row[1] if "on" in way.options else row[4]) for time, place, _, row in played]
    found = oracle.exact(own, len(way.streams), [(kind, int(size))] * len(way.streams), predicate="=" if "on" in way.options else "<")
    return Counter(tuple(played[member][2] for member in members) for _, members in found)


@pytest.mark.slow
@pytest.mark.parametrize("name", ("rows_per_key", later("rows"), later("rows, links")))
def test_windows_that_count_rows(spark, name, tmp_path):
    """With ample memory, and with little and what is settled."""
    way = COUNTED[name]
    rows = {tag: some(tag, 50, seed=2) for tag in way.streams}
    frames = {tag: spark.createDataFrame(own, FIELDS) for tag, own in rows.items()}
    exact = by_definition(rows, way)
    assert numbers(way.join(frames, memory=1000), way.streams) == exact
    made = numbers(way.join(frames, memory=9, archive=str(tmp_path)), way.streams)
    settled = numbers(ps.settle(str(tmp_path), spark=spark), way.streams)
    assert made + settled == exact and made and settled


@pytest.mark.slow
def test_rows_that_come_too_late_for_a_window_of_rows_are_refused_and_counted(spark, tmp_path):
    way = COUNTED["rows_per_key"]
    parts = {tag: [[(at(20), "a", 0.0, 0.0, 0, 1)], [(at(10), "a", 0.0, 0.0, 0, 2), (at(21), "a", 0.0, 0.0, 0, 3)]] for tag in "ab"}
    out, seen = ran(way.join({tag: in_batches(spark, tmp_path / tag, own, FIELDS) for tag, own in parts.items()}, memory=100), tmp_path)
    assert numbers(out, "ab") == Counter([(1, 1), (1, 3), (3, 1), (3, 3)])
    assert seen[-1]["total_n_late"] == 2 and seen[-1]["total_n_input"] == 4


# ------------------------------------------------------------------------------------ what was lost, settled, restarted


@pytest.mark.parametrize("name", ways())
def test_emitted_and_settled_are_exact_over_restarts_and_the_meter_counts_what_is_owed(spark, tmp_path, name):
    way = WAYS[name]
    size = {2: 70, 3: 40, 4: 30, 5: 24}[len(way.streams)]
    rows = {tag: some(tag, size, seed=3) for tag in way.streams}
    cut = {tag: [[row for row in own if at(b) <= row[0] < at(b + 14)] for b in (0, 14, 28)] for tag, own in rows.items()}
    archive, checkpoint = str(tmp_path / "ledger"), str(tmp_path / "checkpoint")
    frames = {tag: in_batches(spark, tmp_path / tag, own[:2], FIELDS) for tag, own in cut.items()}
    shards = way.options.get("shards", 1)
    options = {"memory": 8 * shards, "archive": archive, "condition": "a_v % 5 != 0"}
    ran(way.join(frames, **options), tmp_path)
    first = numbers(ps.settle(archive, checkpoint=checkpoint, to=str(tmp_path / "settled"), spark=spark), way.streams)
    for tag, own in cut.items():
        add_batches(spark, tmp_path / tag, own[2:], FIELDS)
    out, seen = ran(way.join(frames, **options), tmp_path)
    owed = ps.debt(archive, checkpoint=checkpoint, spark=spark)
    second = numbers(ps.settle(archive, checkpoint=checkpoint, to=str(tmp_path / "settled"), spark=spark), way.streams)
    exact = numbers(way.exact({tag: spark.createDataFrame(own, FIELDS) for tag, own in rows.items()}).where("a_v % 5 != 0"), way.streams)
    made = numbers(out, way.streams)
    assert made + first + second == exact
    assert owed == second.total() and first.total() + second.total() == seen[-1]["total_lost"] > 0
    assert seen[-1]["total_n_output"] == made.total() and seen[-1]["lost_is_exact"]
    assert seen[-1]["total_recall"] == pytest.approx(made.total() / exact.total())
    assert Path(checkpoint).exists()


# ---------------------------------------------------------------------------------------------------------- explain


def told(text: str) -> dict[str, str]:
    return {line.split()[0]: line for line in text.splitlines()}


def test_how_a_join_would_run_is_told_before_it_does(spark):
    frames = {tag: spark.createDataFrame([], FIELDS) for tag in "abc"}
    by_key = told(ps.explain(sides(frames, columns=["v"]), on="k", memory=100, shards=3, policy="life"))
    assert "3 shards, by the hash of its key" in by_key["routing"] and "33 tuples per shard" in by_key["memory"]
    assert by_key["engine"].endswith("compiled") and "half-life 10 seconds" in by_key["statistics"]
    assert "a carries k, v, ts and leaves x, y, b" in by_key["columns"] and "life" in by_key["policy"] and "order" not in by_key
    assert "170,666,666 bytes per shard" in by_key["overhead"] and " ghosts; beyond that estimated" in by_key["lost"]
    near = told(ps.explain(sides(dict(list(frames.items())[:2])), on="x", predicate="eps:0.5", memory=100, shards=4))
    assert (
        "copies of a row: a 1, b 1.5" in near["routing"] and "25 tuples per shard (variable allocation, copies counted)" in near["memory"]
    )
    assert near["engine"].endswith("compiled") and "order" not in near
    assert "3 x 2 shards" in ps.explain(sides(dict(list(frames.items())[:2])), on="b", predicate="<", memory=100, shards=7)
    rates = {"a": 1, "b": 100, "c": 10}
    text = ps.explain(sides(frames), predicate=LINKS, memory=100, rates=rates, distinct={"b": 5}, archive="somewhere")
    assert "one shard" in told(text)["routing"] and told(text)["engine"].endswith("compiled") and "somewhere" in told(text)["ledger"]
    assert told(ps.explain(sides(frames), predicate=LINKS[:1], cross=True, memory=100, policy="additive"))["engine"].endswith("compiled")
    assert "a.k = b.k" in text and "new tuples of b: 100 per tick" in text and "comparisons per tick" in text
    with pytest.raises(ps.PenstockError, match="rates must be given for the streams a, b, c, got 'z'"):
        ps.explain(sides(frames), predicate=LINKS, memory=100, rates={"z": 1})
    with pytest.raises(ps.PenstockError, match="memory must be"):
        ps.explain(sides(frames), on="k")


# -------------------------------------------------------------------------------------------------------- bad input

WRONG = [
    ({"on": "k", "predicate": "<"}, "must compare numbers, dates or timestamps .* got a.k of type string"),
    ({"on": ["x", "y"], "predicate": "<"}, "compares one key column, got x, y"),
    ({"on": "x", "predicate": "eps:-1"}, "eps must be a number >= 0"),
    ({"on": "x", "predicate": "~"}, "predicate must be one of"),
    ({"on": "x", "predicate": lambda one, other: True}, "say it in SQL as condition="),
    ({"predicate": ["a.k = z.k"]}, "stream of the predicate must be one of a, b, c, got 'z'"),
    ({"predicate": ["a.k = b.q", "b.k = c.k"]}, "for stream b, must name a column of the frame, got 'q'"),
    ({"predicate": ["a.k = b.k"]}, r"no link between \{a, b\} and \{c\}.*cross=True"),
    ({"predicate": ["a.k = b.k", "b.k < c.k"]}, "got b.k of type string"),
    ({"predicate": ["a.k = b.b", "b.k = c.k"]}, "link columns of one type, got a.k = b.b of string and bigint"),
    ({"predicate": ["a.x = b.b", "b.k = c.k"]}, "link columns of one type, got a.x = b.b of double and bigint"),
    ({"predicate": ["a.k = b.k", "b.k = c.k"], "on": "k"}, "on must be left out"),
    ({"on": "k", "cross": True}, "cross .* needs"),
    ({}, "on must name the key columns"),
]


@pytest.mark.parametrize(("options", "said"), WRONG)
def test_a_predicate_that_makes_no_sense_is_refused(spark, options, said):
    with pytest.raises(ps.PenstockError, match=said):
        ps.join(sides({tag: spark.createDataFrame([], FIELDS) for tag in "abc"}), memory=10, **options)


def test_windows_of_rows_and_their_limits(spark):
    frame = spark.createDataFrame([], FIELDS)
    two = {"a": frame, "b": frame}
    for own, options, said in (
        ({"window": "rows:5"}, {"on": "k", "shards": 2}, "shards must be 1 where a window counts the rows of a whole stream"),
        ({"window": "rows_per_key:5"}, {"on": "b", "predicate": "<"}, "keys must be equal in all streams"),
        ({"window": "rows:5"}, {"on": "k", "policy": "prob"}, "half_life must be given"),
    ):
        with pytest.raises(ps.PenstockError, match=said):
            ps.join(sides(two, **own), memory=10, **options)
    for policy in ("fifo", "ep", "simp"):  # three of those that look at no statistics, so that they need no half-life
        options = {"on": "k", "memory": 10, "policy": policy}
        ps.join(sides(two, window="rows:5"), **options)
        assert "statistics none: the policy asks for none" in ps.explain(sides(two, window="rows:5"), **options)
    for own, said in (
        ({"window": "5 s", "rows_per_key": 5}, "window must be left out where rows_per_key is given"),
        ({"rows_per_key": 0}, "rows_per_key must be a whole number >= 1, got 0"),
        ({"window": "rows:5", "lateness": "1 s"}, "lateness must be 0 where a window counts rows"),
        ({"window": "rows:many"}, "must count rows in a whole number"),
        ({}, "window must be a duration"),
    ):
        with pytest.raises(ps.PenstockError, match=said):
            ps.stream(frame, time="ts", **own)
    with pytest.raises(ps.PenstockError, match="streams must be two or more"):
        ps.join(sides({"a": frame}), on="k", memory=10)
