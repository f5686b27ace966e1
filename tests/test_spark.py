"""The join on Spark: against Spark's own join, against the simulator, over restarts."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

import penstock as ps
from strategies import COMPILED

pyspark = pytest.importorskip("pyspark")
from pyspark.sql import DataFrame, SparkSession  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402, N812

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(shutil.which("java") is None and "JAVA_HOME" not in os.environ, reason="Spark needs Java, which is not there"),
    pytest.mark.skipif(not COMPILED, reason="the workers are processes of their own, which compile or do not by themselves"),
]

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SCHEMA = "ts timestamp, k string, v string"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "Europe/Berlin")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def rows(tag: str, n: int, *, keys: str = "abcdefgh", seconds: int = 100, seed: int = 0) -> list[tuple[Any, ...]]:
    random = Random(f"{tag} {seed}")
    return [(START + dt.timedelta(seconds=random.randrange(seconds)), random.choice(keys), f"{tag}{number}") for number in range(n)]


def bag(frame: DataFrame) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in frame.collect())


def spark_join(left: DataFrame, right: DataFrame, on: list[str], seconds: int) -> DataFrame:
    """What Spark makes of it: the earlier of two is in its window when the later comes."""
    near = F.abs(F.unix_micros("l.ts") - F.unix_micros("r.ts")) < seconds * 1_000_000
    same = [F.col(f"l.{key}") == F.col(f"r.{key}") for key in on]
    out = left.alias("l").join(right.alias("r"), [near, *same])
    return out.select(*(f"l.{key}" for key in on), "l.ts", "l.v", "r.ts", "r.v")


def joined(
    left: DataFrame, right: DataFrame, *, on: Any = "k", window: str = "10 seconds", memory: Any = 10_000, **options: Any
) -> DataFrame:
    sides = {name: ps.stream(frame, time="ts", window=window, lateness="1 hour") for name, frame in {"l": left, "r": right}.items()}
    return ps.join(sides, on=on, memory=memory, **options)


KEYS: dict[str, tuple[str, list[Any]]] = {
    "string": ("k string", ["a", "b", "ä", "", None]),
    "bigint": ("k bigint", [0, -1, 7, (1 << 63) - 1, -(1 << 63), None]),
    "boolean": ("k boolean", [True, False, None]),
    "date": ("k date", [dt.date(2026, 1, 1), dt.date(1969, 12, 31), None]),
    "decimal": ("k decimal(20, 3)", [Decimal("1.500"), Decimal("-7.001"), None]),
    "double": ("k double", [0.0, -0.0, float("nan"), 1.5, None]),
    "binary": ("k binary", [b"", b"\x00", b"ab", None]),
    "timestamp": ("k timestamp", [START, START + dt.timedelta(microseconds=1), None]),
}


@pytest.mark.parametrize("kind", KEYS)
def test_ample_memory_gives_sparks_own_join_for_every_type_of_key(spark, kind):
    schema, values = KEYS[kind]
    random = Random(kind)
    sides = [
        spark.createDataFrame([(ts, random.choice(values), v) for ts, _, v in rows(tag, 60)], f"ts timestamp, {schema}, v string")
        for tag in "lr"
    ]
    got = bag(joined(*sides, shards=2).select(F.hash("k"), "l_ts", "l_v", "r_ts", "r_v"))
    assert got == bag(spark_join(*sides, ["k"], 10).select(F.hash("k"), "l.ts", "l.v", "r.ts", "r.v"))
    assert got


@pytest.mark.parametrize("shards", (1, 3))
def test_keys_of_several_columns_and_payload_of_any_type(spark, shards):
    extra = ["length(v) as n", "named_struct('a', v, 'b', array(1, null)) as s", "map('x', v) as m", "cast(null as decimal(9, 2)) as d"]
    sides = [spark.createDataFrame(rows(tag, 80), SCHEMA).selectExpr("*", *extra, "cast(ts as timestamp_ntz) as z") for tag in "lr"]
    got = joined(*sides, on=["k", "n"], shards=shards)
    assert got.columns == ["k", "n", *(f"{side}_{column}" for side in "lr" for column in ("ts", "v", "s", "m", "d", "z"))]
    found = got.selectExpr("k", "n", "l_ts", "l_v", "r_ts", "r_v")
    assert bag(found) == bag(spark_join(*sides, ["k", "n"], 10))
    for row in got.limit(5).collect():
        assert row["r_s"].a == row["r_v"] and row["r_s"].b == [1, None] and row["r_m"] == {"x": row["r_v"]} and row["l_d"] is None


def in_batches(spark: SparkSession, folder: Path, parts: list[list[tuple[Any, ...]]], schema: str) -> DataFrame:
    """A stream that brings these rows, a part per micro-batch."""
    for number, part in enumerate(parts):
        spark.createDataFrame(part, schema).coalesce(1).write.mode("append").parquet(str(folder / "all" / f"p={number}"))
    for number in range(len(parts)):
        for file in (folder / "all" / f"p={number}").glob("*.parquet"):
            (folder / "in").mkdir(exist_ok=True)
            file.rename(folder / "in" / f"{number:03}.parquet")
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))


def ran(frame: DataFrame, folder: Path, name: str) -> tuple[DataFrame, list[dict[str, Any]]]:
    """The query to its end: the sink, and what it observed."""
    query = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    query = query.start(str(folder / "out"))
    query.awaitTermination()
    seen = [p.observedMetrics[name].asDict() for p in query.recentProgress if name in p.observedMetrics and p.numInputRows]
    return frame.sparkSession.read.schema(frame.schema).parquet(str(folder / "out")), seen


@pytest.mark.parametrize("policy", ("prob", "life", "fifo", "dimpprob"))
def test_one_shard_does_what_the_simulator_does_whatever_the_batches(spark, tmp_path, policy):
    random = Random(policy)
    arrivals = [
        (second, random.choice("lr"), random.choice("aaabbcdefg"), float(random.choice((1, 2, 4)))) for second in range(90) for _ in "xy"
    ]
    cuts = [0, *sorted(random.sample(range(1, 90), 3)), 90]
    frames = {}
    for side in "lr":
        parts = [
            [(START + dt.timedelta(seconds=t), k, f"{n}", i) for n, (t, s, k, i) in enumerate(arrivals) if s == side and begin <= t < end]
            for begin, end in pairwise(cuts)
        ]
        (tmp_path / side).mkdir()
        frames[side] = in_batches(spark, tmp_path / side, parts, "ts timestamp, k string, v string, i double")
    importance = "i" if policy == "dimpprob" else None
    sides = {side: ps.stream(frame, time="ts", window="20 seconds", importance=importance, order="v") for side, frame in frames.items()}
    out, seen = ran(ps.join(sides, on="k", memory=12, policy=policy, shards=1), tmp_path, "penstock")

    order = sorted(range(len(arrivals)), key=lambda n: (arrivals[n][0], arrivals[n][1], str(n)))
    columns: dict[str, Any] = {
        "stream": [arrivals[n][1] for n in order],
        "time": [arrivals[n][0] * 1_000_000 for n in order],
        "key": [arrivals[n][2] for n in order],
    }
    if importance:
        columns["importance"] = [arrivals[n][3] for n in order]
    trace = ps.Trace(columns, streams=("l", "r"))
    run = ps.simulate(
        trace, window=20_000_000, memory=12, policy=policy, stats="decayed", clock="streams", keep=ps.Keep(outputs=True, sheds=True)
    )
    wanted = Counter((str(order[left]), str(order[right])) for _, left, right in run.outputs)
    assert Counter((row["l_v"], row["r_v"]) for row in out.collect()) == wanted
    assert seen[-1]["total_n_output"] == run.n_output and seen[-1]["total_n_shed"] == run.n_shed and seen[-1]["total_n_input"] == len(trace)
    assert run.n_shed > 0 and max(batch["retained_rows"] for batch in seen) <= 12


def test_a_restart_goes_on_where_the_query_stopped(spark, tmp_path):
    parts = {side: [rows(f"{side}{number}", 40, seconds=30, seed=number) for number in range(4)] for side in "lr"}
    frames = {}
    for side in "lr":
        (tmp_path / side).mkdir()
        frames[side] = in_batches(spark, tmp_path / side, parts[side][:2], SCHEMA)
    _, before = ran(joined(frames["l"], frames["r"], memory=40, shards=2), tmp_path, "penstock")
    for side in "lr":
        for number in (2, 3):
            held = tmp_path / side / f"more{number}"
            spark.createDataFrame(parts[side][number], SCHEMA).coalesce(1).write.parquet(str(held))
            next(held.glob("*.parquet")).rename(tmp_path / side / "in" / f"{number:03}.parquet")
    out, after = ran(joined(frames["l"], frames["r"], memory=40, shards=2), tmp_path, "penstock")
    assert before[-1]["total_n_input"] == 160 and after[-1]["total_n_input"] == 320
    assert out.count() == after[-1]["total_n_output"]
    everything = [spark.createDataFrame([row for part in parts[side] for row in part], SCHEMA) for side in "lr"]
    exact = bag(spark_join(*everything, ["k"], 10))
    got = bag(out)
    assert not got - exact and sum(got.values()) < sum(exact.values())


def refused(**options: Any) -> Any:
    """A join of two small frames, with something wrong."""
    return lambda spark: joined(*(spark.createDataFrame(rows("l", 3), SCHEMA) for _ in "lr"), **options)


def a_mix(spark: SparkSession) -> DataFrame:
    endless = spark.readStream.format("rate").load().selectExpr("timestamp as ts", "'a' as k", "'b' as v")
    return joined(spark.createDataFrame(rows("l", 3), SCHEMA), endless)


def other_types(spark: SparkSession) -> DataFrame:
    left, right = (spark.createDataFrame(rows("l", 3), SCHEMA) for _ in "lr")
    return joined(left, right.withColumn("k", F.lit(1)))


REFUSED = {
    "a mix": (a_mix, "all streaming or all batch"),
    "key types": (other_types, "same types"),
    "no such key": (refused(on="key"), "'key': no such column"),
    "memory": (refused(memory=0), "memory must be"),
    "memory per shard": (refused(memory=3, shards=4), "at least one row per shard"),
    "window": (refused(window="10 fortnights"), "window must be a duration"),
    "policy": (refused(policy="porb"), "did you mean 'prob'"),
    "outer": (refused(how="left"), "how must be 'inner'"),
    "time": (lambda spark: ps.stream(spark.range(3), time="id", window="1 hour"), "column of timestamps"),
}


@pytest.mark.parametrize(("make", "said"), REFUSED.values(), ids=REFUSED)
def test_nonsense_is_refused_before_anything_runs(spark, make, said):
    with pytest.raises(ps.PenstockError, match=said):
        make(spark)
