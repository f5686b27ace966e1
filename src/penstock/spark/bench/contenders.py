"""The contenders of `penstock bench spark`: one job, and the ways to do it.

Rows come from Spark's `rate-micro-batch` source, which makes every batch of the same size and costs next to nothing. Each stream has
1,000 rows per second of event time: a window of n rows lasts n ms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from penstock.core.errors import PenstockError
from penstock.core.predicate import Predicate
from penstock.relation.relation import relation
from penstock.spark.join.join import join, stream

FORMAT = "spark.sql.streaming.join.stateFormatVersion"
STORE = "spark.sql.streaming.stateStore.providerClass"
_PROVIDERS = "org.apache.spark.sql.execution.streaming.state"
ROCKSDB = {STORE: f"{_PROVIDERS}.RocksDBStateStoreProvider"}
HEAP = {STORE: f"{_PROVIDERS}.HDFSBackedStateStoreProvider"}
_START = 1_767_225_600_000
"""The time of the first row, in ms. One of 1970-01-01 00:00 would be late for Spark, whose watermark begins there."""
OBSERVED = "penstock"
SIDES = "lrstu"
"""The names of the streams there can be."""
_FACTS = "penstock_bench_facts"
_EVER = 1_000_000_000_000
"""Ms before the first row and after it, of facts that are always active."""
_LONG = 100_000
_USUAL = 500_000


@dataclass(frozen=True)
class Job:
    """What every contender does; the defaults are those of the targets: rows of 30 bytes, 0.4 outputs per input."""

    rows: int = _USUAL  # per batch, of all streams together
    window: int = 20_000  # rows of each stream
    keys: int = 50_000
    shards: int = 2
    batches: int = 10  # that count
    own_batches: int = 3  # that count, of Spark's own join where its batches are long
    streams: int = 2
    predicate: str = "="
    facts: int = 0  # of the relation that links the streams; none: they are joined on their keys
    warm_up: int = 40  # batches that do not count, while Java compiles what is slow; of Spark's own join where they are long, an eighth

    @property
    def reach(self) -> int:
        """How far apart keys that match may be."""
        return reach_of(self.predicate)

    @property
    def has_one_key(self) -> bool:
        """Whether the joined row has the key once."""
        return not (self.reach or self.facts)

    @property
    def is_long(self) -> bool:
        """Whether Spark's own join takes many seconds for a batch."""
        return self.rows >= _LONG


@dataclass(frozen=True)
class Contender:
    """A way to do the job: how its query is made, the settings of Spark, and in which part of the memory that all would need."""

    build: Callable[[Mapping[str, DataFrame], Job, Contender], DataFrame]
    settings: Mapping[str, str] = field(default_factory=dict)
    joins: bool = True
    share: float | None = None  # of the rows in all windows; None: not bounded
    slow: bool = False
    has_condition: bool = False  # one that all joined rows pass

    @property
    def exact(self) -> bool:
        """Whether its result is the whole join."""
        return self.joins and (self.share is None or self.share >= 1)

    def batches(self, job: Job) -> tuple[int, int]:
        """How many batches warm up, and how many count. The window is full before any counts; of larger batches fewer warm up.

        >>> [CONTENDERS["penstock"].batches(Job(rows=rows)) for rows in (500, 2_000, 500_000, 5_000_000)]
        [(80, 10), (40, 10), (40, 10), (4, 10)]
        >>> [CONTENDERS["spark-heap"].batches(Job(rows=rows)) for rows in (2_000, 500_000)]
        [(40, 10), (5, 3)]
        """
        is_long = self.slow and job.is_long
        warm_up = math.ceil(job.warm_up * min(1.0, _USUAL / job.rows) / (8 if is_long else 1))
        full = math.ceil(job.window * job.streams / job.rows)
        return max(warm_up, full), job.own_batches if is_long else job.batches

    def memory(self, job: Job) -> int | None:
        """The budget in rows."""
        return None if self.share is None else max(job.shards, int(job.streams * job.window * self.share))


def reach_of(predicate: str) -> int:
    """How far apart keys that match may be; they are whole numbers.

    >>> reach_of("="), reach_of("eps:2.5")
    (0, 2)
    >>> reach_of("<")
    Traceback (most recent call last):
    ...
    penstock.core.errors.PenstockError: --predicate must be = or a distance of 1 or more such as eps:10, got '<': ...
    """
    found = Predicate.parse(predicate)
    reach = math.floor(found.epsilon) if found.name == "eps" else 0
    if not (found.is_equality or reach):
        reason = "Spark's own join needs columns that are equal, and keys are whole numbers"
        raise PenstockError(f"--predicate must be = or a distance of 1 or more such as eps:10, got {predicate!r}: {reason}")
    return reach


def keys_for(window: int, streams: int, reach: int = 0) -> int:
    """How many keys make 0.4 outputs per row: each row finds `window / keys` of a key that matches in every other stream.

    >>> keys_for(20_000, 2), keys_for(20_000, 3), keys_for(20_000, 2, reach=10)
    (50000, 31623, 1050000)
    """
    return max(1, round(window * (1 + 2 * reach) / 0.4 ** (1 / (streams - 1))))


def relation_keys(facts: int) -> int:
    """The different keys of each stream that a relation links: a row has one active fact on average, as a quarter is not active.

    >>> relation_keys(1_000_000)
    750000
    """
    return max(1, facts * 3 // 4)


def query(spark: SparkSession, job: Job, contender: Contender) -> DataFrame:
    """The query of a contender, on rows that keep coming."""
    return contender.build({side: _source(spark, side, job) for side in sides_of(job)}, job, contender)


def sides_of(job: Job) -> str:
    """The names of the streams, a letter each.

    >>> sides_of(Job(streams=3))
    'lrs'
    """
    return SIDES[: job.streams]


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
    options = {"rowsPerBatch": job.rows // job.streams, "numPartitions": job.shards, "startTimestamp": 0, "advanceMillisPerBatch": 1}
    return _rows(spark.readStream.format("rate-micro-batch").options(**options).load(), side, job)


def _pass_through(sides: Mapping[str, DataFrame], job: Job, contender: Contender) -> DataFrame:
    """All rows to Python and back, and nothing else."""
    every = reduce(DataFrame.unionByName, sides.values())
    return every.mapInArrow(lambda batches: batches, every.schema)


def _spark_join(sides: Mapping[str, DataFrame], job: Job, contender: Contender) -> DataFrame:
    """Spark's own join; of more than two streams a cascade, each step with bounds between the new stream and all before it."""
    if job.facts:
        return _spark_relation_join(sides, job)
    if job.reach:
        return _spark_distance_join(sides, job)
    first, *rest = sides
    out = _watermarked(sides[first], first)
    for number, side in enumerate(rest, 1):
        near = [_in_window(side, other, job) for other in list(sides)[:number]]
        out = out.join(_watermarked(sides[side], side), F.expr(" and ".join([f"{first}_k = {side}_k", *near])))
        # Spark wants one event time in what it joins next: the time of the new stream becomes an ordinary column.
        out = out.withColumn(f"{side}_ts", F.timestamp_micros(F.unix_micros(f"{side}_ts")))
    return out.selectExpr(f"{first}_k as k", *(f"{side}_{column}" for side in sides for column in ("ts", "v")))


def _spark_distance_join(sides: Mapping[str, DataFrame], job: Job) -> DataFrame:
    """A join by distance written by hand: cells are as wide as the distance, and a row of the second stream is in three of them, its own
    and the two beside it. So a pair meets in one cell, that of its row of the first stream, and a condition looks at the distance.
    """
    left, right = sides
    own = {side: F.call_function("div", F.col(f"{side}_k"), F.lit(job.reach)) for side in sides}
    beside = F.array(*(own[right] + step for step in (-1, 0, 1)))
    one = _watermarked(sides[left], left).withColumn(f"{left}_cell", own[left])
    other = _watermarked(sides[right], right).withColumn(f"{right}_cell", F.explode(beside))
    near = f"abs({left}_k - {right}_k) <= {job.reach} and {_in_window(right, left, job)}"
    return one.join(other, F.expr(f"{left}_cell = {right}_cell and {near}")).drop(f"{left}_cell", f"{right}_cell")


def _spark_relation_join(sides: Mapping[str, DataFrame], job: Job) -> DataFrame:
    """A join through a relation written by hand: the first stream with the facts that are active at its time, a stream-static join, then
    that with the second stream, of which the time must be in the fact's interval too.
    """
    left, right = sides
    facts = facts_of(sides[left].sparkSession, job)
    known = _watermarked(sides[left], left).join(facts, F.expr(f"{left}_k = a and {left}_ts >= begin and {left}_ts < end"))
    near = f"b = {right}_k and {right}_ts >= begin and {right}_ts < end and {_in_window(right, left, job)}"
    return known.join(_watermarked(sides[right], right), F.expr(near)).drop("n", "a", "b", "begin", "end")


def facts_of(spark: SparkSession, job: Job) -> DataFrame:
    """The facts of a job, computed once for a session: one half is always active, the other for half of the run, from somewhere on.

    So three quarters are active at a time (`relation_keys`).
    """
    length = max(2, job.rows // job.streams * (job.warm_up + job.batches))
    number, name = F.col("id"), f"{_FACTS}_{job.facts}_{job.keys}_{length}"
    if not spark.catalog.tableExists(name):
        a, b = (F.pmod(F.xxhash64(number, F.lit(f"fact {side}")), F.lit(job.keys)) for side in "ab")
        always = number < job.facts // 2
        begin = F.pmod(F.xxhash64(number, F.lit("begin")), F.lit(length * 3 // 2)) - F.lit(length // 2) + F.lit(_START)
        times = [F.when(always, F.lit(_START + far)).otherwise(own) for far, own in ((-_EVER, begin), (_EVER, begin + length // 2))]
        own = [F.timestamp_millis(time).alias(name) for time, name in zip(times, ("begin", "end"), strict=True)]
        spark.range(job.facts).select(number.alias("n"), a.alias("a"), b.alias("b"), *own).createOrReplaceTempView(name)
        spark.catalog.cacheTable(name)
    return spark.table(name)


def _in_window(side: str, other: str, job: Job) -> str:
    """The bounds on the times of two streams."""
    window = f"interval {job.window} milliseconds"
    return f"{side}_ts > {other}_ts - {window} and {side}_ts < {other}_ts + {window}"


def _watermarked(frame: DataFrame, side: str) -> DataFrame:
    return frame.select(*(F.col(column).alias(f"{side}_{column}") for column in frame.columns)).withWatermark(f"{side}_ts", "0 seconds")


def _penstock(sides: Mapping[str, DataFrame], job: Job, contender: Contender) -> DataFrame:
    streams = {name: stream(frame, time="ts", window=f"{job.window} milliseconds") for name, frame in sides.items()}
    memory = contender.memory(job)
    assert memory is not None, "this contender has a share of the window"
    first, second, *_ = streams
    condition = f"{first}_v < {second}_v or {first}_v >= {second}_v" if contender.has_condition else None
    if job.facts:
        left, right = streams
        links = [f"{left}.k = a", f"b = {right}.k"]
        facts = relation(facts_of(sides[left].sparkSession, job), links=links, begin="begin", end="end", id="n", name="facts")
        return join(streams, through=facts, memory=memory, condition=condition, shards=job.shards, name=OBSERVED)
    return join(streams, on="k", predicate=job.predicate, memory=memory, condition=condition, shards=job.shards, name=OBSERVED)


CONTENDERS: dict[str, Contender] = {
    "pass-through": Contender(_pass_through, joins=False),
    "spark-rocksdb": Contender(_spark_join, ROCKSDB | {FORMAT: "4"}, slow=True),
    "spark-heap": Contender(_spark_join, HEAP | {FORMAT: "2"}, slow=True),
    "penstock": Contender(_penstock, ROCKSDB, share=2.0),
    "penstock-condition": Contender(_penstock, ROCKSDB, share=2.0, has_condition=True),
    "penstock-half": Contender(_penstock, ROCKSDB, share=0.5),
    "penstock-tenth": Contender(_penstock, ROCKSDB, share=0.1),
}
"""In the order in which they run. Format 4 is the newest of Spark's join state; it needs RocksDB."""
