"""Truncated joins of DataFrames: Spark counts the keys, the plan is made on the driver, Spark truncates (Das, section 3).

Only keys that all relations have go to the driver, with their counts; the others, and null keys, which match nothing, are two pools of each
relation that come last. Which of several tuples of a key stay is decided by a hash of all columns and then by the columns themselves. So
it does not depend on partitions, and rows that tie even then are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import and_

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from penstock.core.errors import PenstockError
from penstock.core.trace import Ints
from penstock.spark.join.stream import check_columns, comparable, quoted
from penstock.static.histogram import Truncation, summed
from penstock.static.keep_plan import Amounts, asked_for, budget_of, check_method, kind_of, make_plan

KeyColumns = str | Sequence[str] | Mapping[str, str | Sequence[str]] | None
"""The key columns of all relations, or of each by its name."""

KEY = "_penstock_key"
_KEEP, _RANK = "_penstock_keep", "_penstock_rank"


def truncate_frames(
    frames: Mapping[str, DataFrame], *, on: KeyColumns, keep: Amounts, drop: Amounts, method: str, say: Callable[[str], None] | None = None
) -> Truncation:
    """`ps.truncate` for DataFrames that stand still."""
    keys = keys_of(frames, on)
    for name, frame in frames.items():
        if frame.isStreaming:
            raise PenstockError(f'relation {name} is a stream: give time= and window=, such as "10 minutes", to truncate window by window')
    check_method(method, len(frames), kind_of(asked_for(list(frames), keep, drop)[1]))
    matched, counts, pools = _histogram(frames, keys)
    table = np.concatenate([counts, *_columns(pools)], axis=1)
    budget = budget_of(list(frames), table.sum(axis=1).tolist(), keep, drop)
    plan = make_plan(table, budget, method, say)
    kept = {}
    for place, (name, frame) in enumerate(frames.items()):
        own = plan.kept[place]
        spare = [int(own[counts.shape[1] + kind * len(frames) + place]) for kind in (0, 1)]
        kept[name] = _truncated(frame, keys[name], matched, own[: counts.shape[1]], spare)
    return summed(kept, plan, table, budget)


def keys_of(frames: Mapping[str, DataFrame], on: KeyColumns) -> dict[str, list[str]]:
    """The key columns of each relation, which must have the same types in all."""
    if isinstance(on, Mapping):
        if set(on) != set(frames):
            raise PenstockError(f"on must name the key columns of each of {', '.join(frames)}, got {', '.join(map(str, on)) or 'none'}")
        wanted: dict[str, str | Sequence[str] | None] = dict(on)
    else:
        wanted = dict.fromkeys(frames, on)
    keys = {name: [own] if isinstance(own, str) else list(own or ()) for name, own in wanted.items()}
    for name, own in keys.items():
        if not own:
            raise PenstockError(f"on must name the key columns, got nothing for relation {name}")
        check_columns(f"on, for relation {name},", own, frames[name].columns)
        twice = sorted({column for column in frames[name].columns if frames[name].columns.count(column) > 1})
        if twice:
            raise PenstockError(f"relation {name} must have each column once, got {', '.join(twice)} more than once")
    kinds = {name: [frames[name].schema[key].dataType for key in own] for name, own in keys.items()}
    texts = {name: ", ".join(kind.simpleString() for kind in own) for name, own in kinds.items()}
    if len(set(texts.values())) > 1:
        got = "; ".join(f"{name} has {text}" for name, text in texts.items())
        raise PenstockError(f"keys must have the same types in all relations, got: {got}; cast one of them")
    for kind in next(iter(kinds.values())):
        text = kind.simpleString()
        if not is_ordered(kind) or "collate" in text:
            raise PenstockError(f"on must name columns that can be ordered and are equal where their bytes are, got one of type {text}")
    return {name: keys[name] for name in frames}


def stable_order(frame: DataFrame) -> list[Column]:
    """An order of rows that no partitioning changes: a hash of all columns, then the columns; rows that tie are equal."""
    columns = [
        F.col(quoted(field.name)) if is_ordered(field.dataType) else F.to_json(F.struct(F.col(quoted(field.name))))
        for field in frame.schema
    ]
    return [F.xxhash64(*columns), *columns]


def is_ordered(kind: T.DataType) -> bool:
    """Whether Spark can sort by columns of this type."""
    if isinstance(kind, T.ArrayType):
        return is_ordered(kind.elementType)
    if isinstance(kind, T.StructType):
        return all(is_ordered(field.dataType) for field in kind)
    return not isinstance(kind, T.MapType | T.VariantType | T.CalendarIntervalType)


def _histogram(frames: Mapping[str, DataFrame], keys: Mapping[str, Sequence[str]]) -> tuple[pa.Table, Ints, Ints]:
    """The keys that all relations have, in their order; their counts; and tuples that match nothing: of other keys, and null ones."""
    sums, whole = [], []
    for place, (name, frame) in enumerate(frames.items()):
        names = [f"{KEY}{number}" for number in range(len(keys[name]))]
        count = frame.select(*key_columns(frame, keys[name])).groupBy(*names).agg(F.count(F.lit(1)).alias(f"count{place}"))
        null = reduce(lambda one, other: one | other, (F.col(key).isNull() for key in names))
        own = count.agg(F.coalesce(F.sum(f"count{place}"), F.lit(0)), F.coalesce(F.sum(F.when(null, F.col(f"count{place}"))), F.lit(0)))
        whole.append(tuple(own.collect()[0]))
        sums.append(count.where(~null))
    joined = reduce(lambda one, other: one.join(other, names), sums).orderBy(*names)
    table = joined.toArrow()
    counts = np.array([np.asarray(table[f"count{place}"]) for place in range(len(frames))], dtype=np.int64).reshape(len(frames), -1)
    pools = np.array([[total - null - int(own.sum()), null] for (total, null), own in zip(whole, counts, strict=True)], dtype=np.int64)
    return table.select(names), counts, pools


def _columns(pools: Ints) -> list[Ints]:
    """The pools as keys that only one relation has: those of other keys first, nulls last."""
    return [np.diag(pools[:, kind]) for kind in (0, 1)]


def key_columns(frame: DataFrame, keys: Sequence[str]) -> list[Column]:
    """The key columns under common names."""
    return [comparable(F.col(quoted(key)), frame.schema[key].dataType).alias(f"{KEY}{number}") for number, key in enumerate(keys)]


def _truncated(frame: DataFrame, keys: Sequence[str], matched: pa.Table, kept: Ints, spare: Sequence[int]) -> DataFrame:
    """The tuples of a relation that stay: so many of each matched key, so many of others, so many with a null."""
    names = [f"{KEY}{number}" for number in range(len(keys))]
    columns = [quoted(column) for column in frame.columns]
    plan = matched.append_column(_KEEP, pa.array(kept)).filter(pa.array(kept > 0))
    # The order is of expressions, not of columns with these values: Spark's optimizer would try the two names of each column in all
    # combinations, and with twenty columns that does not end.
    order = stable_order(frame)
    keyed = frame.select("*", *key_columns(frame, keys))
    spark = frame.sparkSession
    ranked = keyed.join(F.broadcast(spark.createDataFrame(plan)), names).withColumn(
        _RANK, F.row_number().over(Window.partitionBy(*names).orderBy(*order))
    )
    out = ranked.where(F.col(_RANK) <= F.col(_KEEP)).select(*columns)
    there = reduce(and_, (F.col(key).isNotNull() for key in names))
    if spare[0]:
        other = keyed.where(there).join(F.broadcast(spark.createDataFrame(matched)), names, "left_anti")
        out = out.union(other.orderBy(*names, *order).limit(spare[0]).select(*columns))
    if spare[1]:
        out = out.union(keyed.where(~there).orderBy(*names, *order).limit(spare[1]).select(*columns))
    return out
