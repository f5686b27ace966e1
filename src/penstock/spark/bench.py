"""How fast joins are on Spark: the contenders of `penstock bench spark`, all on the same rows and one after the other.

Rows come from Spark's `rate-micro-batch` source, which makes every batch of the same size and costs next to nothing, and go to the
`noop` sink, so that the join is what is measured. Each stream has 1,000 rows per second of event time: a window of n rows lasts n ms.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from penstock.core.errors import PenstockError
from penstock.spark.operator import join, stream

PARTITIONS = "spark.sql.shuffle.partitions"
FORMAT = "spark.sql.streaming.join.stateFormatVersion"
STORE = "spark.sql.streaming.stateStore.providerClass"
_PROVIDERS = "org.apache.spark.sql.execution.streaming.state"
ROCKSDB = {STORE: f"{_PROVIDERS}.RocksDBStateStoreProvider"}
HEAP = {STORE: f"{_PROVIDERS}.HDFSBackedStateStoreProvider"}
_START = (
    1_767_225_600_000  # the time of the first row, in ms; one of 1970-01-01 00:00 would be late for Spark, whose watermark begins there
)
_PATIENCE = 0.2  # seconds between looks at a query

Say = Callable[[str], object]


@dataclass(frozen=True)
class Job:
    """What every contender does; the defaults are those of the targets: rows of 30 bytes, 0.4 outputs per input."""

    rows: int = 500_000  # per batch, of both streams together
    window: int = 20_000  # rows of each stream
    keys: int = 50_000
    shards: int = 2
    batches: int = 5  # that count
    own_batches: int = 3  # that count, of Spark's own join: it is slow
    warm_up: int = 2  # batches that do not count


@dataclass(frozen=True)
class Contender:
    """A way to do the job: how its query is made, what Spark is told, and in which part of the memory that all would need."""

    build: Callable[[DataFrame, DataFrame, Job, Contender], DataFrame]
    settings: Mapping[str, str] = field(default_factory=dict)
    joins: bool = True
    share: float | None = None  # of the rows in both windows; None: not bounded
    slow: bool = False

    @property
    def exact(self) -> bool:
        """Whether its result is the whole join."""
        return self.joins and (self.share is None or self.share >= 1)

    def memory(self, job: Job) -> int | None:
        """The budget in rows."""
        return None if self.share is None else max(job.shards, int(2 * job.window * self.share))


@dataclass(frozen=True)
class Timing:
    """What one contender did in the batches that count; sizes are those after the last of them."""

    contender: str
    rows: int
    outputs: int
    seconds: tuple[float, ...]  # by batch
    commit_seconds: float  # of the state, mean of a batch, summed over tasks
    state_rows: int | None
    state_bytes: int | None  # memory that the state store says it uses
    disk_bytes: int | None  # the files of RocksDB
    checkpoint_bytes: int  # written to the checkpoint, mean of all batches so far
    memory: int | None = None
    shed: int | None = None

    @property
    def rows_per_second(self) -> float:
        """Input rows of all batches that count over their time."""
        return self.rows / sum(self.seconds)


class ResultsDifferError(RuntimeError):
    """Two contenders that should agree do not."""


def open_session(cores: int) -> SparkSession:
    """A session on so many cores of this machine, or the one that is open."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "4g",
        "spark.sql.session.timeZone": "UTC",
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName("penstock bench")
    for name, value in settings.items():
        builder = builder.config(name, value)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # for the workers
    with _quiet_java() as said:
        try:
            spark = builder.getOrCreate()
        except Exception as error:
            raise PenstockError(
                f"bench spark needs Java 17 or later (in PATH or JAVA_HOME), and Spark did not start: {said() or error}"
            ) from None
    spark.sparkContext.setLogLevel("OFF")  # a query that is stopped in the middle of a batch complains at length
    return spark


def measure(spark: SparkSession, name: str, job: Job, *, say: Say) -> Timing:
    """Run one contender as a streaming query until enough batches are done."""
    contender = CONTENDERS[name]
    counted = job.own_batches if contender.slow else job.batches
    total = job.warm_up + counted
    with _settings(spark, job, contender), tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        query = _query(spark, job, contender).writeStream.format("noop").option("checkpointLocation", folder).start()
        events = _watch(query, total, lambda done: say(f"{name}, {'batch' if done >= job.warm_up else 'warm-up,'} {done + 1} of {total}"))
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
        query.stop()
    steady, last = events[job.warm_up : total], events[total - 1]
    operators = last["stateOperators"]
    ours = [event.get("observedMetrics", {}).get(_OBSERVED, {}) for event in steady]
    held = ours[-1].get("retained_rows", sum(one["numRowsTotal"] for one in operators) if operators else None)
    commits = sum(operator["commitTimeMs"] for event in steady for operator in event["stateOperators"])
    shed = sum(int(one["n_shed"]) for one in ours) if contender.share is not None else None
    if contender.exact and shed:
        raise ResultsDifferError(f"{name} was given ample memory, {contender.memory(job)} rows, and shed {shed}")
    return Timing(
        contender=name,
        rows=sum(event["numInputRows"] for event in steady),
        outputs=sum(event["sink"]["numOutputRows"] for event in steady),
        seconds=tuple(event["durationMs"]["triggerExecution"] / 1000 for event in steady),
        commit_seconds=commits / 1000 / counted,
        state_rows=None if held is None else int(held),
        state_bytes=sum(o["memoryUsedBytes"] for o in operators) if operators else None,
        disk_bytes=sum(o["customMetrics"].get("rocksdbSstFileSize", 0) for o in operators)
        if contender.settings.get(STORE) == ROCKSDB[STORE]
        else None,
        checkpoint_bytes=size // len(events),
        memory=contender.memory(job),
        shed=shed,
    )


def check_agreement(spark: SparkSession, names: list[str], job: Job, *, say: Say) -> int:
    """Compare the rows of the joining contenders in a smaller run; how many rows the join has there.

    Spark's own join and Penstock with ample memory must give the same bag of rows; one that sheds, a part of it.
    """
    rows = max(2, min(job.rows, 20_000) // 2 * 2)
    window = max(1, min(job.window, rows // 4))
    small = replace(job, rows=rows, window=window, keys=max(1, round(job.keys * window / job.window)))
    results = {}
    for name in names:
        if CONTENDERS[name].joins:
            say(f"{name}: comparing results")
            results[name] = _collect(spark, CONTENDERS[name], small, batches=3)
    exact = [name for name in results if CONTENDERS[name].exact]
    if not exact:
        return 0
    truth = results[exact[0]]
    for name, result in results.items():
        extra, missing = result - truth, truth - result if CONTENDERS[name].exact else Counter()
        if extra or missing:
            example = next(iter(extra or missing))
            raise ResultsDifferError(
                f"{name} and {exact[0]} give different results: {extra.total()} rows too many, {missing.total()} missing, such as {example}"
            )
    return truth.total()


def sample(spark: SparkSession, job: Job, rows: int) -> tuple[pa.Table, pa.Table]:
    """The first rows of each stream as tables, for those who are not on Spark: `t` (event time in ms), `k`, `v`."""
    numbers = spark.range(max(1, rows // 2)).withColumnRenamed("id", "value")
    left, right = (_rows(numbers, side, job).select(F.unix_millis("ts").alias("t"), "k", "v").toArrow() for side in "lr")
    return left, right


def _rows(numbers: DataFrame, side: str, job: Job) -> DataFrame:
    """Row n of a stream: its time, a key that looks random, and a payload of ten characters that names it."""
    return numbers.select(
        F.timestamp_millis(F.col("value") + F.lit(_START)).alias("ts"),
        F.pmod(F.xxhash64("value", F.lit(side)), F.lit(job.keys)).alias("k"),
        F.concat(F.lit(side), F.lpad(F.col("value").cast("string"), 9, "0")).alias("v"),
    )


def _source(spark: SparkSession, side: str, job: Job) -> DataFrame:
    options = {"rowsPerBatch": job.rows // 2, "numPartitions": job.shards, "startTimestamp": 0, "advanceMillisPerBatch": 1}
    return _rows(spark.readStream.format("rate-micro-batch").options(**options).load(), side, job)


def _query(spark: SparkSession, job: Job, contender: Contender) -> DataFrame:
    return contender.build(_source(spark, "l", job), _source(spark, "r", job), job, contender)


def _pass_through(left: DataFrame, right: DataFrame, job: Job, contender: Contender) -> DataFrame:
    """All rows to Python and back, and nothing else: no join on Spark with Python in it can be faster."""
    both = left.unionByName(right)
    return both.mapInArrow(lambda batches: batches, both.schema)


def _spark_join(left: DataFrame, right: DataFrame, job: Job, contender: Contender) -> DataFrame:
    near = f"l.ts > r.ts - interval {job.window} milliseconds and l.ts < r.ts + interval {job.window} milliseconds"
    sides = [frame.withWatermark("ts", "0 seconds").alias(name) for name, frame in {"l": left, "r": right}.items()]
    joined = sides[0].join(sides[1], F.expr(f"l.k = r.k and {near}"))
    return joined.selectExpr("l.k", "l.ts as l_ts", "l.v as l_v", "r.ts as r_ts", "r.v as r_v")


def _penstock(left: DataFrame, right: DataFrame, job: Job, contender: Contender) -> DataFrame:
    sides = {name: stream(frame, time="ts", window=f"{job.window} milliseconds") for name, frame in {"l": left, "r": right}.items()}
    return join(sides, on="k", memory=contender.memory(job), shards=job.shards, name=_OBSERVED)


CONTENDERS: dict[str, Contender] = {
    "pass-through": Contender(_pass_through, joins=False),
    "spark-rocksdb": Contender(_spark_join, ROCKSDB | {FORMAT: "4"}, slow=True),
    "spark-heap": Contender(_spark_join, HEAP | {FORMAT: "2"}, slow=True),
    "penstock": Contender(_penstock, ROCKSDB, share=2.0),
    "penstock-half": Contender(_penstock, ROCKSDB, share=0.5),
    "penstock-tenth": Contender(_penstock, ROCKSDB, share=0.1),
}
"""In the order in which they run. Format 4 is the newest of Spark's join state; it needs RocksDB."""
_OBSERVED = "penstock"


@contextmanager
def _quiet_java() -> Iterator[Callable[[], str]]:
    """Java, when it starts in here, writes its warnings to a file and not to the terminal; yields what reads its last line."""
    own = os.dup(2)
    with tempfile.TemporaryFile() as file:

        def said() -> str:
            file.seek(0)
            return (file.read().decode(errors="replace").strip().splitlines() or [""])[-1]

        os.dup2(file.fileno(), 2)
        try:
            yield said
        finally:
            os.dup2(own, 2)
            os.close(own)


@contextmanager
def _settings(spark: SparkSession, job: Job, contender: Contender) -> Iterator[None]:
    """The settings of a contender, for as long as it runs."""
    wanted = {PARTITIONS: str(job.shards), "spark.sql.streaming.numRecentProgressUpdates": "100000", **contender.settings}
    before = {name: spark.conf.get(name, None) for name in [*wanted, STORE]}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def _watch(query: Any, total: int, tell: Callable[[int], object]) -> list[dict[str, Any]]:
    """The progress of a query's batches that had rows, once there are so many."""
    done = -1
    while True:
        found = [one for one in query.recentProgress if one["numInputRows"]]
        if len(found) > done and len(found) < total:
            done = len(found)
            tell(done)
        if len(found) >= total:
            return [json.loads(one.json) for one in found]
        query.awaitTermination(_PATIENCE)  # raises what the query has died of


def _collect(spark: SparkSession, contender: Contender, job: Job, *, batches: int) -> Counter[tuple[Any, ...]]:
    """The joined rows of so many batches, as a bag."""
    table = f"penstock_bench_{os.getpid()}"
    last = f"{batches * (job.rows // 2):09d}"
    with _settings(spark, job, contender), tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        out = _query(spark, job, contender).where(f"substr(l_v, 2) < '{last}' and substr(r_v, 2) < '{last}'")
        columns = ["k", "unix_millis(l_ts) as l_ts", "l_v", "unix_millis(r_ts) as r_ts", "r_v"]
        writer = out.selectExpr(*columns).writeStream.format("memory").queryName(table)
        query = writer.option("checkpointLocation", folder).start()
        _watch(query, batches, lambda done: None)
        query.stop()
        rows = spark.table(table).collect()
        spark.catalog.dropTempView(table)
    return Counter(tuple(row) for row in rows)
