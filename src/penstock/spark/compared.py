"""What a predicate other than equality of keys compares, from the tables of a shard to the columns of a batch. Spark-free.

A column that travels as a number stays one. Of a column that can only be equal or not, each value gets the number of its key (keys.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock.core.errors import PenstockError
from penstock.core.problem import Problem
from penstock.core.trace import Ints
from penstock.spark.keys import NOBODY, KeyBook

if TYPE_CHECKING:
    from penstock.spark.shard import Plan

_MOST = 1 << 62


def compared_columns(
    plan: Plan, problem: Problem, book: KeyBook, parts: Sequence[pa.Table], streams: Sequence[int], rows: Ints
) -> dict[str, Any]:
    """The columns `key` and `values` of a batch for the tables of these streams; `rows` are the numbers of the rows."""
    if not plan.numeric[0][0]:  # one column that is not a number: only != is left
        key = np.concatenate([book.numbers([part[name] for name in plan.sent[n]]) for n, part in zip(streams, parts, strict=True)])
        return {"key": key, "values": key[:, None]}
    found = [numbers(part, plan.sent[stream]) for stream, part in zip(streams, parts, strict=True)]
    values, null = np.concatenate([one for one, _ in found]), np.concatenate([none for _, none in found])
    if problem.predicate.name == "eps" and values.dtype.kind == "f":
        null |= ~np.isfinite(values).all(axis=1)  # a distance from infinity is none
        values = np.where(null[:, None], 0.0, values)
    return {"key": np.where(null, NOBODY, rows), "values": values}


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
