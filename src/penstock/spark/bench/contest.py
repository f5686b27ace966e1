"""How fast joins are on Spark: each contender of `penstock bench spark` as a streaming query into the `noop` sink, one after the other."""

from __future__ import annotations

import json
import math
import os
import statistics
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from penstock.core.slow_notice import Say
from penstock.spark.bench.contenders import CONTENDERS, OBSERVED, ROCKSDB, STORE, Contender, Job, query, sides_of
from penstock.spark.session.java import Java
from penstock.spark.session.session import silence, start_session

PARTITIONS = "spark.sql.shuffle.partitions"
_PATIENCE = 0.2  # seconds between looks at a query


@dataclass(frozen=True)
class Timing:
    """What one contender did in the batches that count; sizes are those after the last of them."""

    contender: str
    rows: int
    outputs: int
    seconds: tuple[float, ...]  # by batch
    cpu_seconds: float  # of Java and the Python workers, all batches that count; NaN where the system does not report it
    commit_seconds: float  # of the state, mean of a batch, summed over tasks
    state_rows: int | None
    state_bytes: int | None  # memory that the state store says it uses
    disk_bytes: int | None  # the files of RocksDB
    checkpoint_bytes: int  # written to the checkpoint, mean of all batches so far
    made: tuple[int, ...] = ()  # rows that came out, by batch, those of the warm-up first
    memory: int | None = None
    shed: int | None = None

    @property
    def warm_up(self) -> int:
        """How many batches were left out."""
        return len(self.made) - len(self.seconds)

    @property
    def median_seconds(self) -> float:
        """Of a batch."""
        return statistics.median(self.seconds)

    @property
    def rows_per_second(self) -> float:
        """Input rows of all batches that count over their time."""
        return self.rows / sum(self.seconds)

    @property
    def cpu_microseconds_per_row(self) -> float:
        """Processor time per input row."""
        return 1e6 * self.cpu_seconds / self.rows


class ResultsDifferError(RuntimeError):
    """Two contenders that should agree do not."""


def open_session(cores: int) -> SparkSession:
    """A session on so many cores of this machine, or the one that is open."""
    settings = {"spark.ui.enabled": "false", "spark.driver.memory": "4g", "spark.sql.session.timeZone": "UTC"}
    spark = start_session("penstock bench", settings, master=f"local[{cores}]")
    silence(spark)
    return spark


def measure(spark: SparkSession, name: str, job: Job, *, say: Say) -> Timing:
    """Run one contender as a streaming query until enough batches are done."""
    contender = CONTENDERS[name]
    warm_up, counted = contender.batches(job)
    total = warm_up + counted
    context: Java = spark.sparkContext
    java = context._jvm.java.lang.ProcessHandle.current().pid()
    _forget_states(context._jvm)
    spent: list[float] = []
    ticks: dict[int, int] = {}

    def tell(done: int) -> None:
        if done >= warm_up:
            spent.append(_cpu_seconds(java, ticks))
        say(f"{name}, {'batch' if done >= warm_up else 'warm-up,'} {done + 1} of {total}")

    with _settings(spark, job, contender), _running(query(spark, job, contender).writeStream.format("noop")) as (running, folder):
        events = _watch(running, total, tell)
        spent.append(_cpu_seconds(java, ticks))
        size = _size(folder)
    steady, last = events[warm_up:total], events[total - 1]
    operators = last["stateOperators"]
    ours = [event.get("observedMetrics", {}).get(OBSERVED, {}) for event in steady]
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
        cpu_seconds=spent[-1] - spent[0],
        commit_seconds=commits / 1000 / counted,
        state_rows=None if held is None else int(held),
        state_bytes=sum(o["memoryUsedBytes"] for o in operators) if operators else None,
        disk_bytes=sum(o["customMetrics"].get("rocksdbSstFileSize", 0) for o in operators)
        if contender.settings.get(STORE) == ROCKSDB[STORE]
        else None,
        checkpoint_bytes=size // len(events),
        made=tuple(event["sink"]["numOutputRows"] for event in events[:total]),
        memory=contender.memory(job),
        shed=shed,
    )


def check_agreement(spark: SparkSession, names: list[str], job: Job, *, say: Say) -> int:
    """Compare the rows of the joining contenders in a smaller run; how many rows the join has there.

    Spark's own join and Penstock with ample memory must give the same bag of rows; one that sheds, a part of it.
    """
    rows = max(1, min(job.rows, 10_000 * job.streams) // job.streams) * job.streams
    window = max(1, min(job.window, rows // (2 * job.streams)))
    part = window / job.window  # of what there is to find: so that rows find as much
    small = replace(job, rows=rows, window=window, keys=max(1, round(job.keys * part)), facts=math.ceil(job.facts * part))
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


def check_counts(timings: Sequence[Timing]) -> None:
    """Compare how many rows came out of each batch of those that make the whole join."""
    exact = [timing for timing in timings if CONTENDERS[timing.contender].exact]
    for other in exact[1:]:
        for batch, (one, two) in enumerate(zip(exact[0].made, other.made, strict=False)):  # the slow ones have fewer batches
            if one != two:
                raise ResultsDifferError(
                    f"{other.contender} and {exact[0].contender} give different results: {two} and {one} rows in batch {batch}"
                )


def _forget_states(jvm: Java) -> None:
    """Unload what Spark still holds of the states of queries that have ended: the next contender would pay for it with every collection,
    and the blocks that RocksDB has cached of them would be counted as its own memory.
    """
    state = jvm.org.apache.spark.sql.execution.streaming.state
    state.StateStore.stop()
    state.RocksDBMemoryManager.resetWriteBufferManagerAndCache()
    jvm.java.lang.System.gc()


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


def _watch(query: StreamingQuery, total: int, tell: Callable[[int], object], before: int = 0) -> list[dict[str, Any]]:
    """The progress of a query's batches that had rows, once there are so many; `before` counts those before it was restarted."""
    told = -1
    while True:
        last = query.lastProgress  # of one batch: to ask for all of them at every look would keep Java busy
        done = 0 if last is None else last.batchId + 1 - before
        if done >= total:
            found = [one for one in query.recentProgress if one["numInputRows"]]
            if len(found) >= total:
                return [json.loads(one.json) for one in found]
        elif done > told:
            told = done
            tell(done)
        query.awaitTermination(_PATIENCE)  # type: ignore[arg-type]  # raises what the query has died of


def _collect(spark: SparkSession, contender: Contender, job: Job, *, batches: int) -> Counter[tuple[object, ...]]:
    """The joined rows of so many batches, as a bag."""
    table = f"penstock_bench_{os.getpid()}"
    last = f"{batches * (job.rows // job.streams):09d}"
    keys = ["k"] if job.has_one_key else [f"{side}_k" for side in sides_of(job)]
    columns = [*keys, *(text for side in sides_of(job) for text in (f"unix_millis({side}_ts) as {side}_ts", f"{side}_v"))]
    come = " and ".join(f"substr({side}_v, 2) < '{last}'" for side in sides_of(job))
    with _settings(spark, job, contender):
        out = query(spark, job, contender).where(come)
        with _running(out.selectExpr(*columns).writeStream.format("memory").queryName(table)) as (running, _):
            _watch(running, batches, lambda done: None)
    rows = spark.table(table).collect()
    spark.catalog.dropTempView(table)
    return Counter(tuple(row) for row in rows)


@contextmanager
def _running(writer: DataStreamWriter) -> Iterator[tuple[StreamingQuery, Path]]:
    """A query that has begun, and its checkpoint; both are gone at the end."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        running = writer.option("checkpointLocation", folder).start()
        try:
            yield running, Path(folder)
        finally:
            running.stop()


def _size(folder: Path) -> int:
    """The bytes of all files in a folder, some of which may be about to go."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            total += path.stat().st_size if path.is_file() else 0
    return total


def _cpu_seconds(process: int, ticks: dict[int, int]) -> float:
    """What a process and its descendants have used of the processors; unlike the clock, it does not see what else the machine does.

    `ticks` remembers those that have ended since the last call.
    """
    parents, now = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            parents[int(stat.parent.name)] = int(fields[1])
            now[int(stat.parent.name)] = sum(map(int, fields[11:13]))
    family = {process}
    while more := {one for one, parent in parents.items() if parent in family} - family:
        family |= more
    ticks |= {one: now[one] for one in family if one in now}
    return sum(ticks.values()) / os.sysconf("SC_CLK_TCK") if process in ticks else math.nan
