"""Two joins of one query that share a budget: they hold no more than it, move it to where it is worth most, and go on after a restart."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import penstock as ps
from penstock.core.problem import Problem
from penstock.simulator.sharded import play_joins

pytest.importorskip("pyspark")
from pyspark.sql import DataFrame, SparkSession

from penstock.spark.observe.progress import joins_in
from sparks import ON_SPARK
from strategies import EVERYTHING

pytestmark = ON_SPARK

SECOND = 1_000_000
STRETCH = 20 * SECOND
MEMORY, SHARDS = 240, 2
JOINS = {"clicks": 30, "orders": 4_000}
"""How many keys the rows of each have: those of clicks find partners, those of orders nearly none."""


def arrivals(join: str, seconds: int, quiet: range = range(0)) -> pa.Table:
    """Eight rows a second in each stream, but none in the batches that are quiet."""
    random, keys = Random(join), JOINS[join]
    rows = [(stream, at) for at in range(seconds) for stream in "lr" * 8 if at * SECOND // STRETCH not in quiet]
    columns = {
        "stream": pa.array([stream for stream, _ in rows]),
        "time": pa.array([at * SECOND for _, at in rows], pa.timestamp("us", tz="UTC")),
        "key": pa.array([min(random.randrange(keys) for _ in range(3)) for _ in rows]),
        "n": pa.array(range(len(rows))),
    }
    return pa.table(columns)


def written(folder: Path, join: str, table: pa.Table) -> None:
    """A file for each stream and batch; there is none where it has no rows."""
    for stream in "lr":
        (folder / join / stream).mkdir(parents=True, exist_ok=True)
        own = table.filter(pa.compute.equal(table["stream"], stream)).drop_columns("stream")
        batch = pa.compute.divide(own["time"].cast(pa.int64()), STRETCH)
        for number in pa.compute.unique(batch).to_pylist():
            file = folder / join / stream / f"{number:03}.parquet"
            pyarrow.parquet.write_table(own.filter(pa.compute.equal(batch, number)), file)
            os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def a_join(spark: SparkSession, folder: Path, join: str, budget: Any, **options: Any) -> DataFrame:
    streams = {}
    for stream in "lr":
        place = str(folder / join / stream)
        frame = spark.readStream.schema("time timestamp, key bigint, n bigint").option("maxFilesPerTrigger", 1).parquet(place)
        streams[stream] = ps.stream(frame, time="time", window="40 seconds", order="n")
    told = {"on": "key", "memory": budget, "policy": "prob", "shards": SHARDS, "ahead": None, "name": join}
    return ps.join(streams, **told | options)


def ran(frame: DataFrame, folder: Path) -> list[dict[str, dict[str, Any]]]:
    """The query to its end; the metrics of its batches."""
    query = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    query = query.start(str(folder / "out"))
    query.awaitTermination()
    return [joins_in(progress) for progress in query.recentProgress if progress.numInputRows]


def both(spark: SparkSession, folder: Path, budget: Any, **options: Any) -> DataFrame:
    """One query that has both joins."""
    from pyspark.sql import functions as F  # noqa: N812

    parts = [a_join(spark, folder, name, budget, **options).withColumn("join", F.lit(name)) for name in JOINS]
    return parts[0].unionByName(parts[1])


def made(spark: SparkSession, folder: Path) -> dict[str, Counter[Any]]:
    rows = spark.read.parquet(str(folder / "out")).collect()
    return {name: Counter((row["l_n"], row["r_n"]) for row in rows if row["join"] == name) for name in JOINS}


def files(folder: Path) -> dict[str, list[Path]]:
    return {name: sorted(path for stream in "lr" for path in (folder / name / stream).iterdir()) for name in JOINS}


@pytest.mark.slow
def test_a_query_with_two_joins_plays_what_the_simulator_plays_over_a_restart_and_what_is_lost_can_be_settled(spark, tmp_path):
    # batch     0  1  2 | 3  4 | 5 | 6  7      the query ends and starts again
    # orders    x  x  x | .  . | x | x  x      has no rows in 3 and 4, and is not called
    tables = {"clicks": arrivals("clicks", 160), "orders": arrivals("orders", 160, range(3, 5))}
    for name, table in tables.items():
        written(tmp_path, name, table)
    # A source hands out one file a batch, whatever its name: so that orders pauses, its later files are not there yet.
    steps = [range(3), range(3, 5), range(5, 6), range(6, 8)]
    hidden = tmp_path / "hidden"
    shutil.copytree(tmp_path, hidden)
    for path in (path for own in files(tmp_path).values() for path in own):
        path.unlink()
    budget = ps.Budget(MEMORY, joins=list(JOINS), shared=str(tmp_path / "shares"))
    query, seen = both(spark, tmp_path, budget, archive=str(tmp_path / "archive")), []
    for step in steps:
        for name in JOINS:
            for stream in "lr":
                for path in ((hidden / name / stream / f"{number:03}.parquet") for number in step):
                    if path.exists():
                        shutil.copy2(path, tmp_path / name / stream / path.name)
        seen += ran(query, tmp_path)
    problems = {
        name: (
            ps.Trace(table, streams=("l", "r")),
            Problem.of(("l", "r"), window=40 * SECOND, memory=MEMORY, stats="decayed", clock="streams"),
        )
        for name, table in tables.items()
    }
    runs = play_joins(problems, shards=SHARDS, memory=MEMORY, batch=STRETCH, policy="prob", keep=EVERYTHING)
    got = made(spark, tmp_path)
    assert len(seen) == 8
    assert got == {name: Counter(map(tuple, run.outputs[:, 1:].tolist())) for name, run in runs.items()}
    held = dict.fromkeys(JOINS, 0)
    for batch in seen:
        held |= {name: found["retained_rows"] for name, found in batch.items() if found["retained_rows"] is not None}
        assert sum(held.values()) <= MEMORY
    last = {name: seen[-1][name] for name in JOINS}
    assert last["clicks"]["share"] > 1.2 > 0.8 > last["orders"]["share"]
    assert sum(found["budget_rows"] for found in last.values()) <= MEMORY
    assert last["clicks"]["share_min"] <= last["clicks"]["share"] <= last["clicks"]["share_max"]
    fixed = play_joins(problems, shards=SHARDS, memory=MEMORY, batch=STRETCH, policy="prob", shared=False)
    assert sum(map(Counter.total, got.values())) > 1.15 * sum(run.n_output for run in fixed.values())
    for name, (trace, _) in problems.items():
        owed = ps.settle(str(tmp_path / "archive"), checkpoint=str(tmp_path / "checkpoint"), name=name, spark=spark)
        whole = ps.exact(trace, window=40 * SECOND, keep=EVERYTHING)
        assert got[name] + Counter((row["l_n"], row["r_n"]) for row in owed.collect()) == Counter(map(tuple, whole.outputs[:, 1:].tolist()))


@pytest.fixture
def inputs(tmp_path):
    for name in JOINS:
        written(tmp_path, name, arrivals(name, 40))
    return tmp_path


@pytest.mark.slow
def test_other_joins_over_an_old_checkpoint_are_refused_and_so_is_a_memory_of_its_own(spark, inputs):
    budget = ps.Budget(MEMORY, joins=["clicks"], shared=str(inputs / "shares"))
    ran(a_join(spark, inputs, "clicks", budget), inputs)
    (told, *_) = sorted((inputs / "shares").glob("clicks-*/shares/batch-*.json"))
    assert json.loads(told.read_text(encoding="utf-8"))["unit"].startswith("arrivals of partners of 2 streams")
    for stream in "lr":
        place = inputs / "clicks" / stream
        shutil.copy(place / "000.parquet", place / "009.parquet")
    for memory in (ps.Budget(MEMORY, joins=["clicks", "views"]), MEMORY):
        with pytest.raises(Exception, match=r"joins of the budget was \['clicks'\], now it is (\['clicks', 'views'\]|None)"):
            ran(a_join(spark, inputs, "clicks", memory), inputs)


def test_what_a_join_of_a_budget_may_not_be(spark, inputs):
    budget = ps.Budget(MEMORY, joins=list(JOINS), shared=str(inputs / "shares"))
    a_join(spark, inputs, "clicks", budget)
    sizes = ps.Budget("1 MB", joins=list(JOINS))
    for told, options, said in (
        (budget, {"name": "views"}, r"name must be one of the joins of the Budget \(clicks, orders\), got 'views'"),
        (budget, {"shards": 3}, "shards must be the same number in all joins of a Budget, got 3 for orders and 2 for clicks"),
        (budget, {"policy": "learned"}, "weigh tuples in one unit, got orders by outputs per tick, and clicks by arrivals of partners"),
        (budget, {"half_life": "7 seconds"}, "weigh tuples in one unit"),
        (budget, {"allocation": "fixed"}, "allocation must be 'variable' in a join of a Budget, .* got 'fixed'"),
        (budget, {"shared": str(inputs / "own")}, "shared must be left out of a join whose Budget names the folder .* got"),
        (budget, {"shared": False}, "shared must be left out of a join whose Budget names the folder .* got False"),
        (sizes, {"overhead": "100 KB"}, "overhead must be left out of a join whose Budget is in bytes, .* got '100 KB'"),
        (ps.Budget(3, joins=list(JOINS)), {}, r"memory must hold at least one row per shard \(4\), got 3"),
        (ps.Budget(MEMORY, joins=list(JOINS), shared=str(inputs / "orders" / "l")), {}, "shared"),
    ):
        with pytest.raises(ps.PenstockError, match=said):
            a_join(spark, inputs, "orders", told, **options)
    a_join(spark, inputs, "orders", budget)
    frame = spark.read.parquet(str(inputs / "clicks" / "l"))
    with pytest.raises(ps.PenstockError, match="shared must be left out of a batch query"):
        ps.join({name: ps.stream(frame, time="time", window="40 seconds") for name in "lr"}, on="key", memory=budget, name="clicks")


def test_whether_a_budget_moves_is_told_beforehand(spark, inputs):
    def explained(budget: Any, **options: Any) -> dict[str, str]:
        frame = spark.readStream.schema("time timestamp, key bigint, n bigint").parquet(str(inputs / "clicks" / "l"))
        streams = {name: ps.stream(frame, time="time", window="40 seconds") for name in "lr"}
        told = ps.explain(streams, on="key", memory=budget, name="clicks", **{"shards": 2} | options)
        return {line.split()[0]: line for line in told.splitlines()}

    shares, other = str(inputs / "shares"), str(inputs / "other")
    moves = explained(ps.Budget(MEMORY, joins=list(JOINS), shared=shares))
    assert "also between the joins clicks, orders" in moves["shares"] and shares in moves["shares"]
    assert "60 tuples per shard" in moves["memory"] and "of a Budget of 240 for 2 joins" in moves["memory"]
    fixed = ps.Budget(MEMORY, joins=list(JOINS))
    assert (
        "the joins clicks, orders keep equal parts of their Budget, which names no folder (shared=); of shards, equal, whatever"
        in (explained(fixed)["shares"])
    )
    assert (
        f"of shards, equal at first; they move after each batch to where tuples are worth more, by summaries in {other}"
        in (explained(fixed, shared=other)["shares"])
    )
    one = explained(ps.Budget(MEMORY, joins=list(JOINS), shared=shares), shards=1)
    assert "120 tuples per shard" in one["memory"] and "also between the joins" in one["shares"]
