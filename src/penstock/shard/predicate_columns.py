"""What a predicate other than equality of keys compares, from the tables of a shard to the columns of a batch. Spark-free.

A column that travels as a number stays one. Of a column that can only be equal or not, each value gets the number of its key (keys.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.errors import PenstockError
from penstock.core.graph import Graph
from penstock.core.problem import Problem
from penstock.core.trace import Floats, Ints
from penstock.shard.facts.known import slot_of
from penstock.shard.keys import NOBODY, KeyBook
from penstock.shard.shard_plan import ShardPlan

LINKS = "links"
"""The name of the predicate of a join graph."""
_MOST = 1 << 62
_EXACT = 1 << 53  # below this, floating point has every whole number
_HALF = 0.5


def compared_columns(
    plan: ShardPlan, problem: Problem, book: KeyBook, parts: Sequence[pa.Table], streams: Sequence[int], rows: Ints
) -> dict[str, Any]:
    """The columns `key` and `values` of a batch for the tables of these streams; `rows` are the numbers of the rows."""
    if problem.through:
        found = [_numbers_of_facts(plan, problem, stream, part) for stream, part in zip(streams, parts, strict=True)]
        return {"key": rows, "values": np.concatenate(found)}
    if problem.predicate.is_equality or (not problem.predicate.takes_numbers and problem.graph is None):
        key = np.concatenate([book.numbers([part[name] for name in plan.sent[n]]) for n, part in zip(streams, parts, strict=True)])
        return {"key": key} if problem.predicate.is_equality else {"key": key, "values": key[:, None]}
    if problem.graph is not None:
        slots = [_slots(plan, problem.graph, book, stream, part) for stream, part in zip(streams, parts, strict=True)]
        return {"key": rows, "values": np.concatenate(slots)}
    pairs = [numbers(part, plan.sent[stream]) for stream, part in zip(streams, parts, strict=True)]
    values, null = np.concatenate([one for one, _ in pairs]), np.concatenate([none for _, none in pairs])
    if problem.predicate.name == "eps" and values.dtype.kind == "f":
        null |= ~np.isfinite(values).all(axis=1)  # a distance from infinity is none
        values = np.where(null[:, None], 0.0, values)
    return {"key": np.where(null, NOBODY, rows), "values": values}


def _slots(plan: ShardPlan, graph: Graph, book: KeyBook, stream: int, part: pa.Table) -> Floats:
    """The values of a stream's rows, by the slots of the graph's links; NaN where there is none."""
    values = np.full((part.num_rows, graph.slots[-1].stop), np.nan)
    for link, slots in zip(graph.links, graph.slots, strict=True):
        for slot, name in enumerate(link.columns_of(stream) if stream in (link.low, link.high) else (), slots.start):
            at = plan.columns[stream].index(name)
            column, numeric = part[plan.sent[stream][at]], plan.numeric[stream][at]
            values[:, slot] = _sized(column, name) if link.predicate.takes_numbers else _equal(column, numeric, book)
            if link.predicate.name == "eps":
                values[~np.isfinite(values[:, slot]), slot] = np.nan  # a distance from infinity is none
    return values


def _numbers_of_facts(plan: ShardPlan, problem: Problem, stream: int, part: pa.Table) -> Ints:
    """The numbers that facts have for the values of a stream's rows, by slot: they have travelled as such."""
    values = np.full((part.num_rows, sum(len(one.links) for one in problem.through)), NOBODY)
    for name in plan.sent[stream]:
        values[:, slot_of(name)] = np.asarray(part[name])
    return values


def _sized(column: Any, name: str) -> Floats:
    """Numbers to be compared by size: floating point must hold them, as it does the whole seconds of all times that Spark knows.

    >>> _sized(pa.chunked_array([[253402214400000000, None]]), "valid_to").tolist()
    [2.534022144e+17, nan]
    """
    if pa.types.is_integer(column.type):
        whole = column.drop_null().to_numpy()
        held = whole.astype(np.float64)
        rounded = np.abs(held) >= _EXACT
        rounded[rounded] = (np.abs(held[rounded]) >= _MOST) | (np.clip(held[rounded], -_MOST, _MOST).astype(np.int64) != whole[rounded])
        if rounded.any():
            raise PenstockError(
                f"predicate compares column {name!r} by size, whose whole numbers must be exact in floating point, as all within 2**53 and "
                f"all whole seconds are, got {whole[rounded][0]}; cast it to double"
            )
    return np.asarray(column.to_numpy(), dtype=np.float64)


def _equal(column: Any, numeric: bool, book: KeyBook) -> Floats:
    """Numbers that are equal where values are: whole ones where floating point holds the value itself, halves from the book otherwise."""
    if numeric and pa.types.is_floating(column.type):
        return np.asarray(column.to_numpy(), dtype=np.float64) + 0.0
    null = np.asarray(column.is_null())
    if numeric:
        exact = np.asarray(column.fill_null(0))
        value = exact.astype(np.float64)
        large = np.abs(value) >= _EXACT  # the next one is rounded to it
        if large.any():
            names, which = np.unique(exact[large], return_inverse=True)
            value[large] = book.look_up(pa.array([name.tobytes() for name in names], pa.large_binary()))[which] + _HALF
    else:
        value = book.dictionary(column).astype(np.float64) + _HALF
    return np.where(null, np.nan, value)


def numbers_in(values: Floats) -> Ints:
    """The numbers of the book that are among these values.

    >>> numbers_in(np.array([[7.0, 3.5], [np.nan, 5.5]])).tolist()
    [3, 5]
    """
    whole = np.floor(values)
    return np.asarray(whole[values - whole == _HALF], dtype=np.int64)


def numbers(part: pa.Table, names: Sequence[str]) -> tuple[Any, Any]:
    """Columns of whole numbers and fractions as one matrix, and which rows have a null in them.

    >>> numbers(pa.table({"key0": [1, None], "key1": [0.5, 2.0]}), ["key0", "key1"])[0].tolist()
    [[1.0, 0.5], [0.0, 2.0]]
    """
    null = np.zeros(part.num_rows, dtype=bool)
    columns = []
    for name in names:
        column = part[name].combine_chunks() if isinstance(part[name], pa.ChunkedArray) else part[name]
        null |= np.asarray(column.is_null())
        value = np.asarray(column.fill_null(0))
        if value.dtype.kind == "i" and len(value) and not (value.min() > -_MOST and value.max() < _MOST):
            raise PenstockError("whole numbers that are compared must be between -2**62 and 2**62, got one that is not; cast it to double")
        columns.append(value)
    return np.stack(columns, axis=1), null
