"""What the tests on Spark share: a session, frames of random rows, streams cut into micro-batches, and Spark's own join to compare with."""

from __future__ import annotations

import datetime as dt
import os
import shutil
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

import penstock as ps
from penstock.spark.join.arrow_types import arrow_schema
from strategies import COMPILED

ON_SPARK = [
    pytest.mark.skipif(shutil.which("java") is None and "JAVA_HOME" not in os.environ, reason="Spark needs Java, which is not there"),
    pytest.mark.skipif(not COMPILED, reason="the workers are processes of their own, which compile or do not by themselves"),
]

VERSION = tuple(map(int, pyspark.__version__.split(".")[:2]))
"""Of Spark: `make test-all` runs some of the tests on older ones too."""
_FILES = "org.apache.spark.sql.execution.streaming" + (".checkpointing" if VERSION >= (4, 1) else "")
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SCHEMA = "ts timestamp, k string, v string"


def new_session(master: str = "local[2]", **settings: str) -> SparkSession:
    builder = (
        SparkSession.builder.master(master)
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "Europe/Berlin")
        .config("spark.driver.memory", "1g")
        .config("spark.python.authenticate.socketTimeout", "180s")  # of a worker that starts: the default fails on a busy machine
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")  # small inputs: do not compile much
        # A checkpoint on a local disk is written with eight programs less for each file: Spark's usual way asks for links by `readlink`.
        .config("spark.sql.streaming.checkpointFileManagerClass", f"{_FILES}.FileSystemBasedCheckpointFileManager")
    )
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def at(seconds: float) -> dt.datetime:
    return START + dt.timedelta(seconds=seconds)


def rows(tag: str, n: int, *, keys: str = "abcdefgh", seconds: int = 100, seed: int = 0) -> list[tuple[Any, ...]]:
    random = Random(f"{tag} {seed}")
    return [(at(random.randrange(seconds)), random.choice(keys), f"{tag}{number}") for number in range(n)]


def bag(frame: DataFrame) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in frame.collect())


def bag_of_members(frame: DataFrame) -> Counter[tuple[Any, ...]]:
    """Outputs by the rows of their members, which are in the columns that end in _v."""
    return bag(frame.select(*(name for name in frame.columns if name.endswith("_v"))))


def spark_join(left: DataFrame, right: DataFrame, on: list[str], seconds: int) -> DataFrame:
    """What Spark makes of it: the earlier of two is in its window when the later comes."""
    near = F.abs(F.unix_micros("l.ts") - F.unix_micros("r.ts")) < seconds * 1_000_000
    same = [F.col(f"l.{key}") == F.col(f"r.{key}") for key in on]
    out = left.alias("l").join(right.alias("r"), [near, *same])
    return out.select(*(f"l.{key}" for key in on), "l.ts", "l.v", "r.ts", "r.v")


def joined(
    left: DataFrame,
    right: DataFrame,
    *,
    on: Any = "k",
    window: str = "10 seconds",
    memory: Any = 10_000,
    lateness: str = "1 hour",
    matches: int | None = None,
    **options: Any,
) -> DataFrame:
    own = {"time": "ts", "window": window, "lateness": lateness, "matches": matches}
    sides = {name: ps.stream(frame, **own) for name, frame in {"l": left, "r": right}.items()}
    return ps.join(sides, on=on, memory=memory, **options)


def in_batches(spark: SparkSession, folder: Path, parts: list[list[tuple[Any, ...]]], schema: str = SCHEMA) -> DataFrame:
    """A stream that brings these rows, a part per micro-batch."""
    add_batches(spark, folder, parts, schema)
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))


def add_batches(spark: SparkSession, folder: Path, parts: list[list[tuple[Any, ...]]], schema: str = SCHEMA) -> None:
    """More micro-batches for a stream of `in_batches`."""
    (folder / "in").mkdir(parents=True, exist_ok=True)
    first = len(list((folder / "in").glob("*.parquet")))
    fields = arrow_schema(StructType.fromDDL(schema))
    for number, part in enumerate(parts, first):
        columns = list(zip(*part, strict=True)) or [()] * len(fields)
        draft = folder / f"draft{number}"  # written by Arrow, which takes a hundredth of the time of a job of Spark
        pq.write_table(pa.table([pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)], fields), draft)
        os.utime(draft, (1_700_000_000 + number, 1_700_000_000 + number))  # files are read in the order of their times
        draft.rename(folder / "in" / f"{number:03}.parquet")


def ran(frame: DataFrame, folder: Path, name: str = "penstock") -> tuple[DataFrame, list[dict[str, Any]]]:
    """The query to its end: the sink, and what it observed."""
    query = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    query = query.start(str(folder / "out"))
    query.awaitTermination()
    seen = [p.observedMetrics[name].asDict() for p in query.recentProgress if name in p.observedMetrics and p.numInputRows]
    return frame.sparkSession.read.schema(frame.schema).parquet(str(folder / "out")), seen
