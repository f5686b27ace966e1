"""Key columns of any type -> one whole number per row, equal exactly where Spark calls the keys equal.

Nothing is hashed: a hash decides only which shard a row goes to, so a collision of hashes cannot join what does not match.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.trace import Ints

_DIRECT = 1 << 61


class KeyBook:
    """The numbers of the keys that one shard has seen.

    >>> book = KeyBook()
    >>> book.numbers([pa.array(["a", None, "b", "a"])]).tolist()
    [1, -1, 3, 1]
    >>> book.numbers([pa.array([7, -7, 7])]).tolist()
    [14, 5, 14]
    """

    def __init__(self) -> None:
        self.known: dict[Any, int] = {}

    def numbers(self, columns: list[pa.Array]) -> Ints:
        """One number per row; -1 where a column is null."""
        columns = [_plain(column) for column in columns]
        null = np.zeros(len(columns[0]), dtype=bool)
        for column in columns:
            null |= np.asarray(column.is_null())
        if len(columns) == 1 and pa.types.is_integer(columns[0].type):
            value = np.asarray(columns[0].fill_null(0)).astype(np.int64)
            out = value * 2
            rare = (value < 0) | (value >= _DIRECT)
            if rare.any():
                distinct, which = np.unique(value[rare], return_inverse=True)
                out[rare] = self._look_up(distinct.tolist())[which]
        else:
            there = pa.array(~null)
            columns = [column.filter(there) for column in columns]
            out = np.full(len(null), -1, dtype=np.int64)
            which = first = np.zeros(len(columns[0]), dtype=np.int64)
            for column in columns:
                code = column.dictionary_encode()
                joint = which * len(code.dictionary) + np.asarray(code.indices)
                _, first, which = np.unique(joint, return_index=True, return_inverse=True)
            at = pa.array(first)
            names = list(zip(*(column.take(at).to_pylist() for column in columns), strict=True))
            out[~null] = self._look_up(names)[which]
        out[null] = -1
        return out

    def _look_up(self, names: list[Any]) -> Ints:
        known = self.known
        return np.array([known.setdefault(name, 2 * len(known) + 1) for name in names], dtype=np.int64)


def _plain(column: pa.Array) -> pa.Array:
    """A column whose values are equal where Spark calls them equal: dates and times as whole numbers, one zero, one NaN."""
    kind = column.type
    if pa.types.is_boolean(kind):
        return column.cast(pa.int64())
    if pa.types.is_date(kind):
        return column.cast(pa.int32())
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time(kind):
        return column.cast(pa.int64())
    if pa.types.is_floating(kind):
        value = np.asarray(column.cast(pa.float64()).fill_null(0.0)) + 0.0
        bits = np.where(np.isnan(value), np.nan, value).view(np.int64)
        return pa.array(bits, mask=np.asarray(column.is_null()))
    if pa.types.is_nested(kind):
        texts = [None if value is None else repr(value) for value in column.to_pylist()]
        return pa.array(texts, pa.string())
    return pc.cast(column, kind.value_type) if pa.types.is_dictionary(kind) else column
