"""`ps.join`: check, plan and assemble the join of Spark DataFrames.

streams, each: select, shard, pack  ->  union  ->  one stateful processor per shard  ->  unpack  ->  DataFrame
"""

from __future__ import annotations

import base64
import inspect
import json
import os
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.core.errors import PenstockError, choose
from penstock.core.trace import Ints
from penstock.core.window import Window
from penstock.spark.blocks import FIRST, PACKED, SHARD, packer, unpacker
from penstock.spark.dispatch import links_in_ledger, places, route_of, sent_columns
from penstock.spark.duration import microseconds
from penstock.spark.gate import GATE, Gate, beside, closed, guard, opened
from penstock.spark.ids import shard_ids
from penstock.spark.inputs import Stream, prepared, quoted, stream
from penstock.spark.ledger import PICKLED, LedgerPlan
from penstock.spark.links import Comparison, compare
from penstock.spark.metrics import counted, counts_schema, metrics
from penstock.spark.processor import JoinProcessor
from penstock.spark.progress import watch
from penstock.spark.routes import Route
from penstock.spark.shard import LOST, TIME, VALUE, Plan, Shard, part_of
from penstock.statistics.table import RUNNING

_STREAMING = "spark.sql.streaming."
_STORE = f"{_STREAMING}stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""The only store that stateful processors work with."""
_BOUNDS = {
    f"{_STREAMING}minBatchesToRetain": "3",
    f"{_STREAMING}ratioExtraSpaceAllowedInCheckpoint": "0",
    f"{_STREAMING}stateStore.maintenanceInterval": "15s",
    f"{_STREAMING}stateStore.rocksdb.boundedMemoryUsage": "true",
}
"""By Spark's defaults a checkpoint keeps 130 versions of the state, and RocksDB's memory has no bound: what we set where nobody did."""
_TOKENS = r"""`((?:[^`]|``)*)`|'(?:[^'\\]|\\.)*'|"((?:[^"\\]|\\.)*)"|(\w+)"""
"""Of a condition: names in backticks, texts, what may be either, and words."""
_OPTIONS = ("seed", "alpha", "beta", "half_life", "weights", "switches")
_CELL = 8 << 20  # bytes of input in a cell of a batch query
GHOSTS = 1_000_000
"""The shed tuples that are remembered by default, so that what they would have made is counted."""


def join(
    streams: Mapping[str, Stream],
    *,
    on: str | Sequence[str] | None = None,
    predicate: Any = "=",
    cross: bool = False,
    memory: Any,
    policy: Any = None,
    allocation: str = "variable",
    stats: str = "decayed",
    objective: Any = None,
    condition: str | None = None,
    shards: int | None = None,
    archive: str | None = None,
    min_recall: Any = None,
    ghosts: int = GHOSTS,
    how: str = "inner",
    name: str = "penstock",
    **options: Any,
) -> DataFrame:
    """Join streams in a memory of so many rows or bytes; what does not fit is shed by value.

    The joined row has the key columns once, then each stream's other columns as `<stream>_<column>`, then `value` when importance is used.
    Where keys are not equal, there is no key of the whole row: all columns are `<stream>_<column>`.

    * `on`: the key columns. `predicate` compares them for every pair of streams: "=" unless told, "<", "<=", ">", ">=", "!=", or "eps:0.5"
      for a distance of at most that. Or it is a list of links between columns, without `on`: ["R.a = S.a", "S.b < T.b"]; streams without
      any link to the others are refused unless `cross`.
    * `memory`: rows, or a size such as "512 MB", for all shards together; `allocation`, `stats`, `objective` and the options `seed`,
      `alpha`, `beta`, `half_life`, `weights` are those of `ps.simulate`.
    * `policy`: a name from `penstock policies`, or an object; "prob" unless told, with importance "dimpprob".
    * `condition`: an SQL expression over the columns of the joined row that must hold beside the equality of keys.
    * `shards`: into how many parts the keys are divided; as many as Spark has cores unless told.
    * `archive`: a folder (or URL) to which all tuples are written, so that `ps.settle` can make up later for what was lost.
    * `min_recall`: 0.9 warns when a batch has a smaller recall; (0.9, "fail") fails the batch, and nothing of it is committed.
    * `ghosts`: how many shed tuples are remembered for counting what was lost; beyond that the loss is estimated.
    * `name`: of the metrics in `observedMetrics`; two joins in one query need two names.
    """
    arguments = {name: value for name, value in locals().items() if name not in ("streams", "options")}
    made = plan_join(streams, **arguments, **options)
    return _assembled(made)


@dataclass(frozen=True)
class Made:
    """A join that has been checked and planned, and not yet assembled."""

    plan: Plan
    frames: list[DataFrame]
    schema: T.StructType
    route: Route
    comparison: Comparison
    shard: Shard
    least: float | None
    action: str

    @property
    def spark(self) -> SparkSession:
        """Where it will run."""
        return self.frames[0].sparkSession


def plan_join(
    streams: Mapping[str, Stream],
    *,
    on: Any,
    predicate: Any,
    cross: bool,
    memory: Any,
    policy: Any,
    allocation: str,
    stats: str,
    objective: Any,
    condition: str | None,
    shards: int | None,
    archive: str | None,
    min_recall: Any,
    ghosts: int,
    how: str,
    name: str,
    **options: Any,
) -> Made:
    """Check the arguments of `join` and say how it will run."""
    if str(how).lower() != "inner":
        raise PenstockError(f"how must be 'inner', got {how!r}: of a tuple that was shed nobody can say that it has no match")
    for option in options:
        choose("join's option", option, (*inspect.signature(join).parameters, *_OPTIONS))
    sides, names = _sides(streams), tuple(streams)
    spark = sides[0].frame.sparkSession
    compared = compare(streams, on, predicate, cross)
    weighed = any(side.importance is not None for side in sides)
    route = route_of(streams, compared, None if shards is None else _whole("shards", shards), lambda: _shards(spark))
    keys: Sequence[tuple[str, ...]] = compared.columns if compared.by_key else [()] * len(sides)
    out = [_payload(n, s, k) for (n, s), k in zip(streams.items(), keys, strict=True)]
    sent = sent_columns(compared)
    frames = [
        prepared(side, own, columns, weighed, places(route, compared, number, own))
        for number, (side, own, columns) in enumerate(zip(sides, sent, out, strict=True))
    ]
    schema = _schema(sides, keys, out, weighed)
    _check_condition(spark, condition, schema)
    least, action = _least(min_recall)
    plan = Plan(
        streams=names,
        keys=len(keys[0]),
        payload=tuple(tuple(columns.values()) for columns in out),
        options={
            "window": {n: s.window for n, s in streams.items()},
            "lateness": {n: s.lateness for n, s in streams.items()},
            "memory": part_of(memory, names, allocation, route.shards),
            "allocation": allocation,
            "policy": policy if policy is not None else "dimpprob" if weighed else "prob",
            "stats": choose("stats", stats, RUNNING),
            "objective": objective,
        }
        | compared.options()
        | {option: _ticks(option, value) for option, value in options.items()},
        schema=_arrow(schema if condition is None else T.StructType([*schema, T.StructField(LOST, T.DoubleType())])),
        times=tuple(columns.get(side.time, TIME) for side, columns in zip(sides, out, strict=True)),
        has_importance=weighed,
        name=_name(name),
        shards=tuple(int(i) for i in shard_ids(route.shards)),
        ghosts=max(1, _whole("ghosts", ghosts) // route.shards),
        condition=condition,
        judged=None if condition is None else _judged(condition, schema, len(keys[0]), out),
        archive=_folder(archive),
        run=f"batch-{uuid.uuid4()}",
        sent=() if compared.by_key else tuple(tuple(own) for own in sent),
        columns=() if compared.by_key else compared.columns,
        numeric=compared.numeric,
        route=route.kind,
    )
    shard = Shard(plan)  # whatever is wrong with the options is said now, and not by a worker
    if archive is not None:
        plan = _archived(plan, shard, schema, compared)
    if not sides[0].frame.isStreaming and least is not None and action == "warn":
        raise PenstockError(
            f'min_recall of batch DataFrames must fail, got {least:g} to warn of: say ({least:g}, "fail"), or look at the metrics'
        )
    return Made(plan, frames, schema, route, compared, shard, least, action)


def _assembled(made: Made) -> DataFrame:
    """The query."""
    plan, schema, least = made.plan, made.schema, made.least
    streaming = made.frames[0].isStreaming
    if streaming:
        _set_up(made.spark)
        watch(made.spark, least if made.action == "warn" else None)
    played = _packed(made.frames, np.array(plan.shards), plan.times, streaming).groupBy(SHARD)
    rows = counts_schema(len(plan.streams))
    results = played.transformWithStateInPandas(JoinProcessor(plan), rows, "Append", "None")
    must = least if made.action == "fail" else None
    if plan.condition is not None:
        results = _judged_rows(results, plan, schema, must)
    elif must is not None:
        results = results.repartition(1).mapInArrow(guard(must), rows)
    observed = results.observe(plan.name, *metrics(plan.streams, least))
    return observed.mapInArrow(unpacker(_arrow(schema)), schema)


def _set_up(spark: SparkSession) -> None:
    """Tell Spark which state store, and its bounds where nobody set them."""
    unset = {name: value for name, value in _BOUNDS.items() if spark.conf.get(name, None) is None}
    wanted = unset | ({} if spark.conf.get(_STORE, None) == _ROCKSDB else {_STORE: _ROCKSDB})
    try:
        for name, value in wanted.items():
            spark.conf.set(name, value)
    except PySparkException as error:
        if "DECLARATIVE_PIPELINE" not in str(error.getCondition()):
            raise
        if _STORE in wanted:
            raise PenstockError(
                f"a join in a declarative pipeline needs {_STORE}: {_ROCKSDB} in the configuration of the pipeline (best with "
                f"{', '.join(f'{name}: {value}' for name, value in unset.items())}), got none: functions of a pipeline may not set it"
            ) from None


def _packed(frames: list[DataFrame], ids: Ints, times: Sequence[str], streaming: bool) -> DataFrame:
    """All streams as packed cells; in a batch query in the order of time, so that no shard needs all of its input at once."""
    if not streaming:
        sorted_by = zip(frames, times, strict=True)
        frames = [frame.repartition(SHARD).sortWithinPartitions(SHARD, quoted(time)) for frame, time in sorted_by]
    flush = {} if streaming else {"flush": _CELL}
    packs = [packer(number, ids, time, frame.columns, **flush) for number, (frame, time) in enumerate(zip(frames, times, strict=True))]
    packed = [_nameless(frame).mapInArrow(pack, PACKED) for frame, pack in zip(frames, packs, strict=True)]
    united = packed[0]
    for other in packed[1:]:
        united = united.unionByName(other)
    return united if streaming else united.repartition(SHARD).sortWithinPartitions(SHARD, FIRST)


def _nameless(frame: DataFrame) -> DataFrame:
    """A frame whose columns have numbers for names: `mapInArrow` does not take names with dots or backticks in them."""
    return frame.toDF(*(f"c{number}" for number in range(len(frame.columns))))


def _judged_rows(made: DataFrame, plan: Plan, schema: T.StructType, least: float | None) -> DataFrame:
    """The results without what a condition refuses, through a gate that counts them."""
    streams, rows = len(plan.streams), counts_schema(len(plan.streams))
    counts = [LOST, *(beside(name) for name in counted(streams))]
    wide = T.StructType([*schema, *(T.StructField(name, T.DoubleType()) for name in counts)])
    open_rows = made.mapInArrow(opened(plan.schema, streams), wide)
    judged = open_rows.where(F.col(LOST).isNull() | F.expr(str(plan.condition)))
    cells = _nameless(judged).mapInArrow(closed(plan.schema, streams, plan.has_importance), rows).withColumn(GATE, F.lit(0))
    return cells.groupBy(GATE).transformWithStateInPandas(Gate(streams, least=least), rows, "Append", "None")


def _archived(plan: Plan, shard: Shard, schema: T.StructType, compared: Comparison) -> Plan:
    """The plan with what settling must know."""
    objective = shard.problem.objective
    named = objective.name if objective.function is None else PICKLED + base64.b64encode(cloudpickle.dumps(objective.function)).decode()
    windows = tuple(int(window.length) if window.kind == "time" else None for window in shard.problem.windows)
    ledger = LedgerPlan(
        name=plan.name,
        streams=plan.streams,
        keys=plan.keys,
        payload=((*plan.key_names, *plan.payload[0]), *plan.payload[1:]),
        windows=windows,
        objective=named if plan.has_importance else None,
        condition=plan.condition,
        schema=schema.json(),
        has_importance=plan.has_importance,
        **links_in_ledger(compared, plan.sent),
        counted=json.dumps(counted_rows(shard.problem.windows)),
    )
    return replace(plan, ledger=ledger)


def counted_rows(windows: Sequence[Window]) -> list[list[Any] | None] | None:
    """By stream, the kind and size of a window that counts rows; None where there is none."""
    found = [[window.kind, window.length] if window.kind.startswith("rows") else None for window in windows]
    return found if any(found) else None


def _sides(streams: Mapping[str, Stream]) -> list[Stream]:
    if not isinstance(streams, Mapping) or len(streams) < 2 or not all(isinstance(one, Stream) for one in streams.values()):
        raise PenstockError(f"streams must be two or more of ps.stream by name, got {streams!r}")
    sides = list(streams.values())
    if len({side.frame.isStreaming for side in sides}) > 1:
        which = ", ".join(f"{n} {'streams' if s.frame.isStreaming else 'does not'}" for n, s in streams.items())
        raise PenstockError(f"streams must be all streaming or all batch, got a mix: {which}")
    return sides


def _payload(name: str, side: Stream, keys: Sequence[str]) -> dict[str, str]:
    """The columns of a stream that go into the result beside the keys, and their names there."""
    kept = side.columns if side.columns is not None else tuple(side.frame.columns)
    return {column: f"{name}_{column}" for column in kept if column not in keys}


def _schema(sides: list[Stream], keys: Sequence[tuple[str, ...]], out: list[dict[str, str]], weighed: bool) -> T.StructType:
    fields = [T.StructField(key, sides[0].frame.schema[key].dataType) for key in keys[0]]
    for side, columns in zip(sides, out, strict=True):
        fields += [T.StructField(new, side.frame.schema[old].dataType) for old, new in columns.items()]
    if weighed:
        fields.append(T.StructField(VALUE, T.DoubleType()))
    names = [field.name.lower() for field in fields]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise PenstockError(f"streams must give different names to the columns of the result, got {', '.join(repeated)} twice")
    return T.StructType(fields)


def _arrow(schema: T.StructType) -> Any:
    return to_arrow_schema(schema, timezone="UTC")


def _check_condition(spark: SparkSession, condition: str | None, schema: T.StructType) -> None:
    if condition is None:
        return
    try:
        frame = spark.createDataFrame([], schema)
        found = frame.select(*(F.col(quoted(name)) for name in schema.names[:1]), F.expr(condition).alias("it")).schema[1].dataType
        if isinstance(found, T.BooleanType):
            _ = frame.where(F.expr(condition)).schema
    except Exception as error:
        told = str(error).splitlines()[0]
        raise PenstockError(f"condition must be an SQL expression over {', '.join(schema.names)}, got {condition!r}: {told}") from None
    if not isinstance(found, T.BooleanType):
        raise PenstockError(f"condition must be true or false, got {condition!r} of type {found.simpleString()}")


def _judged(condition: str, schema: T.StructType, keys: int, out: list[dict[str, str]]) -> tuple[tuple[str, ...], ...]:
    """By stream, the columns that a condition may look at: those whose names are in it."""
    found = re.findall(_TOKENS, condition)
    words = {(ticked or double or word).replace("``", "`").lower() for ticked, double, word in found}
    if re.search(r"[(,]\s*(\w+\.)?\*", condition):  # all columns
        words = {name.lower() for name in schema.names}
    own = [[new for new in columns.values() if new.lower() in words] for columns in out]
    own[0] = [*(name for name in schema.names[:keys] if name.lower() in words), *own[0]]
    return tuple(tuple(names) for names in own)


def _least(min_recall: Any) -> tuple[float | None, str]:
    """The recall that every batch must reach, and what happens otherwise."""
    if min_recall is None:
        return None, "warn"
    least, action = min_recall if isinstance(min_recall, tuple | list) and len(min_recall) == 2 else (min_recall, "warn")
    if isinstance(least, bool) or not isinstance(least, int | float) or not 0 < least <= 1:
        raise PenstockError(f'min_recall must be a number in (0, 1], or such a number and "warn" or "fail", got {min_recall!r}')
    return float(least), choose("action of min_recall", action, ("warn", "fail"))


def _folder(archive: Any) -> str | None:
    """A place that Spark can read again: what it takes for a pattern would not be found."""
    if archive is None:
        return None
    if not isinstance(archive, str | os.PathLike) or not os.fspath(archive) or re.search(r"[{}\[\]*?\\]", os.fspath(archive)):
        raise PenstockError(f"archive must be a folder or URL without any of {{}}[]*?\\ in it, got {archive!r}")
    return os.fspath(archive)


def _name(name: Any) -> str:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
        raise PenstockError(f"name must be made of letters, digits, '_', '-' and '.', got {name!r}")
    return name


def _whole(argument: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise PenstockError(f"{argument} must be a whole number >= 1, got {value!r}")
    return value


def _ticks(option: str, value: Any) -> Any:
    """Options that are times may be durations."""
    return microseconds(value, option, least=1) if option in ("half_life", "alpha") and isinstance(value, str) else value


def _shards(spark: SparkSession) -> int:
    return max(1, min(_partitions(spark), _parallelism(spark)))


def _partitions(spark: SparkSession) -> int:
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 200)


def _parallelism(spark: SparkSession) -> int:
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:
        return 4  # Spark Connect does not say


__all__ = ["Stream", "join", "stream"]
