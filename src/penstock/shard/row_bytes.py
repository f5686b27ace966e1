"""What a row weighs in a budget of bytes: its Arrow bytes, each row for itself, however deep its columns are nested."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.trace import Floats, Ints


def row_bytes(table: pa.Table) -> Ints:
    """The Arrow bytes of each row: the width of its fixed columns, the length of its texts, and what is in its lists, maps and structs.

    >>> row_bytes(pa.table({"n": [1, 2], "texts": [["a", "bc"], []]})).tolist()
    [24, 13]
    """
    columns = [column.combine_chunks() for column in table.columns]
    whole = sum((_value_bytes(column) for column in columns), np.zeros(table.num_rows))
    return np.ceil(whole).astype(np.int64)


def widest_row(table: pa.Table) -> int:
    """At least the bytes of any row, found without looking at each: of texts, the longest of every column.

    >>> widest_row(pa.table({"n": [1, 2], "text": ["abc", ""]}))
    17
    """
    return sum(_widest(column) for column in table.columns)


def _widest(column: Any) -> int:
    if not len(column):
        return 0
    if _is_text(column.type):
        return (pc.max(pc.binary_length(column)).as_py() or 0) + 5
    if pa.types.is_nested(column.type) or isinstance(column.type, pa.ExtensionType):
        return max(int(np.ceil(_value_bytes(chunk).max())) for chunk in column.chunks if len(chunk))
    return 0 if pa.types.is_null(column.type) else -(-column.type.bit_width // 8) + 1


def _is_text(kind: Any) -> bool:
    return any(holds(kind) for holds in (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary))


def _value_bytes(column: Any) -> Floats:
    """The bytes of each value of an array, its bit for null included."""
    kind, rows = column.type, len(column)
    if isinstance(column, pa.ExtensionArray):
        return _value_bytes(column.storage)
    if pa.types.is_null(kind):
        return np.zeros(rows)
    if pa.types.is_struct(kind):
        return sum((_value_bytes(part) for part in column.flatten()), np.full(rows, 1 / 8))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        inner = [column.keys, column.items] if pa.types.is_map(kind) else [column.values]
        begins = np.asarray(column.offsets)
        sums = sum((np.concatenate([[0.0], np.cumsum(_value_bytes(part))]) for part in inner), np.zeros(1))
        return sums[begins[1:]] - sums[begins[:-1]] + 4 + 1 / 8
    if _is_text(kind):
        return np.asarray(pc.fill_null(pc.binary_length(column), 0)) + 4 + 1 / 8
    return np.full(rows, kind.bit_width / 8 + 1 / 8)
