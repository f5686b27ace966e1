"""Truncated joins window by window: each tumbling window of DataFrames, or of streams, is a join that stands still (Das, section 3).

    rows ── by window and key: rows in a stable order ── by window: counts ── plan (Python) ── the first so many rows of each key

On streams Spark holds a window until the watermark closes it, since the best tuples are known only when all of them are; then it emits
the kept ones. The plan sees counts, never rows, so what travels to Python is small. A row whose time is null is in no window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from penstock.core.duration import microseconds
from penstock.core.errors import PenstockError
from penstock.spark.join.stream import check_columns, quoted
from penstock.spark.session.session import use_this_python
from penstock.spark.static.frames import KEY, KeyColumns, is_ordered, key_columns, keys_of
from penstock.static.keep_plan import Amounts, asked_for, budget_of, check_method, kind_of, make_plan

_WINDOW, _PLACE, _HASH, _ROW, _ROWS, _NULL = (f"_penstock_{name}" for name in ("window", "place", "hash", "row", "rows", "null"))
_COUNTS = T.MapType(T.StringType(), T.LongType())
_PLAN = T.StructType(
    [
        T.StructField("kept", T.ArrayType(T.ArrayType(T.IntegerType()))),
        T.StructField("method", T.StringType()),
        T.StructField("n_tuples", _COUNTS),
        T.StructField("n_kept", _COUNTS),
        *(T.StructField(name, T.LongType()) for name in ("n_exact", "n_output", "n_lost", "most")),
    ]
)


@dataclass(frozen=True)
class WindowedTruncation:
    """Relations truncated window by window: the kept tuples of each, and a row of figures per window; all of them streams, if one is."""

    relations: dict[str, DataFrame]
    windows: DataFrame
    """start, end, method, n_tuples, n_kept (by relation), n_exact, n_output, n_lost, most; and `kept`: the kept tuples of each relation."""


def truncate_windows(
    frames: Mapping[str, DataFrame],
    *,
    on: KeyColumns,
    keep: Amounts,
    drop: Amounts,
    method: str,
    time: str | Mapping[str, str],
    window: str,
    lateness: str = "0 seconds",
) -> WindowedTruncation:
    """`ps.truncate` with `time` and `window`."""
    keys = keys_of(frames, on)
    times = _times(frames, time)
    check_method(method, len(frames), kind_of(asked_for(list(frames), keep, drop)[1]))
    length = f"{microseconds(window, 'window', least=1)} microseconds"
    late = f"{microseconds(lateness, 'lateness')} microseconds"
    if len({frame.isStreaming for frame in frames.values()}) > 1:
        raise PenstockError("relations must be all streams or none, got some of each")
    tagged = [_tagged(place, frames, name, keys[name], times[name], length, late) for place, name in enumerate(frames)]
    names = [f"{KEY}{number}" for number in range(len(next(iter(keys.values()))))]
    groups = _grouped(reduce(DataFrame.unionByName, tagged), names, len(frames))
    use_this_python(next(iter(frames.values())).sparkSession)
    plan = F.udf(_planner(list(frames), keep, drop, method), _PLAN)
    counts = [F.transform(F.col(_ROWS), _size(place)) for place in range(len(frames))]
    nulls = F.transform(F.col(_ROWS), lambda group: group[_NULL])
    planned = groups.withColumn("plan", plan(nulls, F.array(*counts)))
    bounds = [F.col(_WINDOW)[end].alias(end) for end in ("start", "end")]
    figures = [F.col("plan")[field.name].alias(field.name) for field in _PLAN if field.name != "kept"]
    windows = planned.select(*bounds, *figures, F.struct(*(_kept(place).alias(name) for place, name in enumerate(frames))).alias("kept"))
    kept = {}
    for name, frame in frames.items():
        rows = windows.select(F.explode(F.col("kept")[name]).alias(_ROW))
        kept[name] = rows.select(*(F.col(_ROW)[column].alias(column) for column in frame.columns))
    return WindowedTruncation(kept, windows)


def _times(frames: Mapping[str, DataFrame], time: str | Mapping[str, str]) -> dict[str, str]:
    if isinstance(time, Mapping) and set(time) != set(frames):
        raise PenstockError(f"time must name a column of each of {', '.join(frames)}, got {', '.join(map(str, time)) or 'none'}")
    times = dict(time) if isinstance(time, Mapping) else dict.fromkeys(frames, time)
    for name, frame in frames.items():
        check_columns(f"time, for relation {name},", [times[name]], frame.columns)
        kind = frame.schema[times[name]].dataType
        if not isinstance(kind, T.TimestampType | T.TimestampNTZType):
            raise PenstockError(f"time must be a column of timestamps, got {times[name]!r} of type {kind.simpleString()} in {name}")
        unordered = [field.name for field in frame.schema if not is_ordered(field.dataType)]
        if unordered:
            raise PenstockError(f"relation {name} must have columns that can be ordered, got {', '.join(unordered)}; leave them out")
    return times


def _tagged(place: int, frames: Mapping[str, DataFrame], name: str, keys: Sequence[str], time: str, length: str, late: str) -> DataFrame:
    """The rows of one relation with their window and key, in columns that all relations have."""
    frame = frames[name]
    if frame.isStreaming and not any("watermark" in key.lower() for key in frame.schema[time].metadata or {}):
        frame = frame.withWatermark(time, late)
    rows = []
    for at, (other, one) in enumerate(frames.items()):
        own = F.struct(*(F.col(quoted(column)) for column in frame.columns))
        rows.append((own if other == name else F.lit(None).cast(one.schema)).alias(f"{_ROW}{at}"))
    hashed = F.xxhash64(*(F.col(quoted(column)) for column in frame.columns)).alias(_HASH)
    slot = F.window(F.col(quoted(time)), length).alias(_WINDOW)
    return frame.select(slot, *key_columns(frame, keys), F.lit(place).alias(_PLACE), hashed, *rows)


def _grouped(rows: DataFrame, names: Sequence[str], relations: int) -> DataFrame:
    """A row per window: an array of keys in their order, each with the rows of every relation in a stable order."""
    sides = []
    for place in range(relations):
        one = F.when(F.col(_PLACE) == place, F.struct(_HASH, F.col(f"{_ROW}{place}").alias(_ROW)))
        sides.append(F.collect_list(one).alias(f"{_ROWS}{place}"))
    by_key = rows.groupBy(_WINDOW, *names).agg(*sides)
    null = reduce(or_, (F.col(key).isNull() for key in names)).alias(_NULL)
    group = F.struct(*names, null, *(F.sort_array(f"{_ROWS}{place}").alias(f"{_ROWS}{place}") for place in range(relations)))
    return by_key.groupBy(_WINDOW).agg(F.sort_array(F.collect_list(group)).alias(_ROWS))


def _size(place: int) -> Callable[[Column], Column]:
    return lambda group: F.size(group[f"{_ROWS}{place}"])


def _planner(names: Sequence[str], keep: Amounts, drop: Amounts, method: str) -> Callable[..., object]:
    """The plan of one window, from its counts by relation and key; the keys with a null are marked."""

    def plan(nulls, counts):  # type: ignore[no-untyped-def]  # Spark takes annotations for those of its own kinds of functions
        table, null = np.array(counts, dtype=np.int64), np.array(nulls, dtype=np.bool_)
        # As on the driver: matched keys, then those that some relation lacks, by relation; a key with a null is another one for each.
        unmatched = ~null & (table == 0).any(axis=0)
        first = np.where(unmatched, np.argmax(table > 0, axis=0), 0)
        order = np.lexsort((np.arange(len(null)), first, unmatched))
        order = order[~null[order]]
        apart = np.flatnonzero(null)
        split = [np.where(np.arange(len(names))[:, None] == place, table[:, apart], 0) for place in range(len(names))]
        budget = budget_of(names, table.sum(axis=1).tolist(), keep, drop)
        done = make_plan(np.concatenate([table[:, order], *split], axis=1), budget, method)
        kept = np.zeros_like(table)
        kept[:, order] = done.kept[:, : len(order)]
        for place in range(len(names)):
            kept[:, apart] += done.kept[:, len(order) + place * len(apart) : len(order) + (place + 1) * len(apart)]
        sizes, stay = (dict(zip(names, part.sum(axis=1).tolist(), strict=True)) for part in (table, kept))
        return kept.tolist(), done.method, sizes, stay, done.n_exact, done.n_output, done.n_lost, done.most

    return plan


def _kept(place: int) -> Column:
    """The rows of one relation that stay, as an array."""
    both = F.arrays_zip(F.col(_ROWS), F.col("plan")["kept"][place].alias("n"))

    def some(pair: Column) -> Column:
        return F.slice(pair[_ROWS][f"{_ROWS}{place}"], F.lit(1), pair["n"])

    return F.transform(F.flatten(F.transform(both, some)), lambda row: row[_ROW])
