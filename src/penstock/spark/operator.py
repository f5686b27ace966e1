"""`ps.stream` and `ps.join`: check, plan and assemble the join of Spark DataFrames.

streams, each: select, shard, pack  ->  union  ->  one stateful processor per shard  ->  unpack  ->  DataFrame
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.core.errors import PenstockError
from penstock.core.trace import Ints
from penstock.spark.blocks import PACKED, SHARD, packer, unpacker
from penstock.spark.processor import OUTPUT, JoinProcessor
from penstock.spark.shard import COUNTS, IMPORTANCE, ORDER, TIME, VALUE, Plan, Shard

_UNITS = {"microsecond": 1, "millisecond": 10**3, "second": 10**6, "minute": 60 * 10**6, "hour": 3600 * 10**6, "day": 86400 * 10**6}
_UNITS |= {"week": 7 * _UNITS["day"], "us": 1, "ms": 10**3, "s": 10**6, "min": _UNITS["minute"], "h": _UNITS["hour"], "d": _UNITS["day"]}


_ZONELESS = " + ".join(
    f"cast(extract({part} from ({{0}} - timestamp_ntz'1970-01-01 00:00:00')) * {_UNITS[part]} as bigint)"
    for part in ("day", "hour", "minute", "second")
)
"""Microseconds since 1970 of a timestamp without zone, which no session time zone may bend."""
_STORE = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@dataclass(frozen=True)
class Stream:
    """A DataFrame as one side of a join; made by `ps.stream`."""

    frame: DataFrame
    time: str
    window: int | str  # microseconds, or "none"
    key: tuple[str, ...] | None
    importance: str | Column | None
    lateness: int
    order: str | None
    columns: tuple[str, ...] | None


def stream(
    df: DataFrame,
    *,
    time: str,
    window: Any,
    key: str | Sequence[str] | None = None,
    importance: str | Column | None = None,
    lateness: Any = "0 seconds",
    order: str | None = None,
    columns: Sequence[str] | None = None,
) -> Stream:
    """A DataFrame as one side of a join.

    * `time`: the column of event time, a timestamp; `window`: how long its rows wait for partners, such as "10 minutes", or None for ever.
    * `key`: the columns to match, where their names differ from `on`.
    * `importance`: a column or SQL expression, > 0: what the row is worth.
    * `lateness`: how much later than its successors a row of this stream may come.
    * `order`: a column that orders rows of equal time; without one, a hash of all columns does.
    * `columns`: the columns to keep; all of them unless told.
    """
    names = tuple(df.columns)
    _check_columns("time", [time], names)
    kind = df.schema[time].dataType
    if not isinstance(kind, T.TimestampType | T.TimestampNTZType):
        raise PenstockError(f"time must be a column of timestamps, got {time!r} of type {kind.simpleString()}")
    own = None if key is None else (key,) if isinstance(key, str) else tuple(key)
    _check_columns("key", own or (), names)
    _check_columns("order", [] if order is None else [order], names)
    _check_columns("columns", columns or (), names)
    length = "none" if window is None or window == "none" else _microseconds(window, "window", least=1)
    kept = None if columns is None else tuple(columns)
    return Stream(df, time, length, own, importance, _microseconds(lateness, "lateness"), order, kept)


def join(
    streams: Mapping[str, Stream],
    *,
    on: str | Sequence[str] | None = None,
    memory: Any,
    policy: Any = "prob",
    allocation: str = "variable",
    stats: str = "decayed",
    objective: Any = None,
    shards: int | None = None,
    how: str = "inner",
    name: str = "penstock",
    **options: Any,
) -> DataFrame:
    """Join streams on equal keys in a memory of so many rows or bytes; what does not fit is shed by value.

    The joined row has the key columns once, then each stream's other columns as `<stream>_<column>`, then `value` when importance is
    used. `policy` is a name from `penstock policies` or an object; the other options are those of `ps.simulate`.
    """
    if how != "inner":
        raise PenstockError(f"how must be 'inner', got {how!r}: of a tuple that was shed nobody can say that it has no match")
    names = tuple(streams)
    if len(names) < 2 or not all(isinstance(one, Stream) for one in streams.values()):
        raise PenstockError(f"streams must be two or more of ps.stream by name, got {dict(streams)!r}")
    sides = list(streams.values())
    if len({side.frame.isStreaming for side in sides}) > 1:
        which = ", ".join(f"{n} {'streams' if s.frame.isStreaming else 'does not'}" for n, s in streams.items())
        raise PenstockError(f"streams must be all streaming or all batch, got a mix: {which}")
    spark = sides[0].frame.sparkSession
    keys = [_keys(n, s, on) for n, s in streams.items()]
    _check_types(streams, keys)
    weighed = any(side.importance is not None for side in sides)
    count = _shards(spark, shards)
    ids = _ids_that_land_apart(spark, count)
    names_out = [_payload(n, s, k, first=number == 0) for number, ((n, s), k) in enumerate(zip(streams.items(), keys, strict=True))]
    frames = [_prepared(side, own, out, weighed, count) for side, own, out in zip(sides, keys, names_out, strict=True)]
    result = [frame.schema[column] for frame, out in zip(frames, names_out, strict=True) for column in out.values()]
    repeated = sorted({f.name for f in result if [g.name for g in result].count(f.name) > 1})
    if repeated:
        raise PenstockError(f"streams must give different names to the columns of the result, got {', '.join(repeated)} twice")
    if weighed:
        result.append(T.StructField(VALUE, T.DoubleType()))
    schema = T.StructType(result)
    plan = Plan(
        streams=names,
        keys=len(keys[0]),
        payload=tuple(tuple(out.values()) for out in names_out),
        options={
            "window": {n: s.window for n, s in streams.items()},
            "lateness": {n: s.lateness for n, s in streams.items()},
            "memory": _part(memory, count),
            "allocation": allocation,
            "policy": policy,
            "stats": stats,
            "objective": objective,
        }
        | options,
        schema=to_arrow_schema(schema, timezone="UTC"),
        has_importance=weighed,
        name=name,
    )
    if sides[0].frame.isStreaming and spark.conf.get(_STORE, "") != _ROCKSDB:
        spark.conf.set(_STORE, _ROCKSDB)  # the only one that stateful processors work with
    Shard(plan)  # whatever is wrong with the options is said now, and not by a worker
    packed = [frame.mapInArrow(packer(number, ids), PACKED) for number, frame in enumerate(frames)]
    united = packed[0]
    for other in packed[1:]:
        united = united.unionByName(other)
    played = united.groupBy(SHARD).transformWithStateInPandas(JoinProcessor(plan), OUTPUT, "Append", "None")
    observed = played.observe(name, *(F.sum(count_).alias(count_) for count_ in COUNTS))
    return observed.mapInArrow(unpacker(plan.schema), schema)


def _prepared(side: Stream, keys: Sequence[str], out: Mapping[str, str], weighed: bool, shards: int) -> DataFrame:
    """The columns that travel: shard, time, order, keys, importance, payload."""
    frame = side.frame
    kind = frame.schema[side.time].dataType
    column = F.col(_quoted(side.time))
    time = F.unix_micros(column) if isinstance(kind, T.TimestampType) else F.expr(_ZONELESS.format(_quoted(side.time)))
    everything = [_hashable(F.col(_quoted(field.name)), field.dataType) for field in frame.schema]
    importance = F.lit(1.0) if side.importance is None else F.expr(side.importance) if isinstance(side.importance, str) else side.importance
    columns = [
        F.pmod(F.xxhash64(*(F.col(_quoted(key)) for key in keys)), F.lit(shards)).alias(SHARD),
        time.alias(TIME),
        (F.xxhash64(*everything) if side.order is None else F.col(_quoted(side.order))).alias(ORDER),
        *(F.col(_quoted(key)).alias(f"key{number}") for number, key in enumerate(keys)),
        *([importance.cast("double").alias(IMPORTANCE)] if weighed else []),
        *(F.col(_quoted(column)).alias(name) for column, name in out.items()),
    ]
    return frame.where(column.isNotNull()).select(*columns)


def _payload(name: str, side: Stream, keys: Sequence[str], *, first: bool) -> dict[str, str]:
    """The columns of a stream that go into the result, and their names there."""
    kept = side.columns if side.columns is not None else tuple(side.frame.columns)
    rest = {column: f"{name}_{column}" for column in kept if column not in keys}
    return ({key: key for key in keys} if first else {}) | rest


def _keys(name: str, side: Stream, on: str | Sequence[str] | None) -> tuple[str, ...]:
    wanted = side.key if side.key is not None else (on,) if isinstance(on, str) else tuple(on or ())
    if not wanted:
        raise PenstockError(f"on must name the key columns, got nothing for stream {name}")
    _check_columns(f"on, for stream {name},", wanted, tuple(side.frame.columns))
    return wanted


def _check_types(streams: Mapping[str, Stream], keys: Sequence[Sequence[str]]) -> None:
    """Keys of all streams have the same number of columns and the same types."""
    kinds = [[s.frame.schema[key].dataType.simpleString() for key in k] for s, k in zip(streams.values(), keys, strict=True)]
    if any(kind != kinds[0] for kind in kinds):
        got = "; ".join(f"{n} has {', '.join(kind)}" for n, kind in zip(streams, kinds, strict=True))
        raise PenstockError(f"keys must have the same types in all streams, got: {got}; cast one of them")


def _check_columns(argument: str, wanted: Sequence[str], there: Sequence[str]) -> None:
    for column in wanted:
        if there.count(column) != 1:
            trouble = "no such column" if column not in there else "it is there more than once"
            raise PenstockError(f"{argument} must name a column of the frame, got {column!r}: {trouble} in {', '.join(there)}")


def _microseconds(text: Any, argument: str, *, least: int = 0) -> int:
    """A duration such as "10 minutes" in microseconds.

    >>> _microseconds("1.5 hours", "window")
    5400000000
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+?)s?\s*", str(text).lower()) or re.fullmatch(r"\s*(\d+)\s*(s|ms|us)\s*", str(text))
    unit = _UNITS.get(match[2]) if match else None
    amount = math.nan if match is None or unit is None else float(match[1]) * unit
    if not least <= amount < 1 << 60:
        raise PenstockError(f'{argument} must be a duration such as "10 minutes"{" above 0" if least else ""}, got {text!r}')
    return round(amount)


def _part(memory: Any, shards: int) -> Any:
    """An equal part of the memory for each shard."""
    if isinstance(memory, Mapping):
        return {name: _part(part, shards) for name, part in memory.items()}
    if isinstance(memory, int) and not isinstance(memory, bool) and memory > 0:
        if memory < shards:
            raise PenstockError(f"memory must hold at least one row per shard ({shards}), got {memory}")
        return memory // shards
    sized = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmg]?i?b)\s*", str(memory).lower())
    return f"{float(sized[1]) / shards} {sized[2]}" if sized else memory


def _shards(spark: SparkSession, wanted: int | None) -> int:
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 200)
    if wanted is None:
        return max(1, min(partitions, _parallelism(spark)))
    if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 1:
        raise PenstockError(f"shards must be a whole number >= 1, got {wanted!r}")
    return wanted


def _parallelism(spark: SparkSession) -> int:
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:
        return 4  # Spark Connect does not say


def _ids_that_land_apart(spark: SparkSession, shards: int) -> Ints:
    """One id per shard, so that the shuffle spreads them over its partitions as evenly as can be."""
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 200)
    many = 32 * max(shards, partitions)
    rows = spark.range(many).select("id", F.pmod(F.hash("id"), F.lit(partitions)).alias("at")).collect()
    found: dict[int, list[int]] = {}
    for row in sorted(rows, key=lambda row: row["id"]):
        found.setdefault(row["at"], []).append(row["id"])
    layers = [one for layer in range(many) for at in sorted(found) for one in found[at][layer : layer + 1]]
    return np.array(layers[:shards], dtype=np.int64)


def _hashable(column: Column, kind: T.DataType) -> Column:
    """A column that Spark can hash: maps as their sorted entries."""
    return F.array_sort(F.map_entries(column)) if isinstance(kind, T.MapType) else column


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


__all__ = ["Stream", "join", "stream"]
