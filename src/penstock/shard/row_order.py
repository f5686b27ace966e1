"""The order of rows of equal time, which may not depend on how they were fetched: a replayed batch must play identically."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.trace import Ints

ORDER = "order"
"""The column that was named for it, on its way."""


def ranks(table: pa.Table) -> Ints:
    """Numbers that order rows of equal time: by the column that was named for it, else by a hash of all columns.

    >>> ranks(pa.table({"order": ["b", "a", "b"]})).tolist()
    [2, 1, 2]
    """
    if ORDER not in table.column_names:
        out = np.zeros(table.num_rows, dtype=np.uint64)
        for seed, column in enumerate(table.columns):
            out = (out ^ _hash(column)) * np.uint64(0x9E3779B97F4A7C15 + 2 * seed)
        return out.view(np.int64)
    column = table[ORDER]
    if pa.types.is_int64(column.type) and not column.null_count:
        return np.asarray(column)
    return np.asarray(pc.rank(column, tiebreaker="dense")).astype(np.int64)


def _hash(column: pa.ChunkedArray) -> Any:
    """A number for each value that depends on the value alone."""
    kind = column.type
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        column = column.cast(pa.int64() if kind.bit_width == 64 else pa.int32())
    elif pa.types.is_nested(kind) or pa.types.is_decimal(kind) or pa.types.is_interval(kind):
        column = pa.chunked_array([pa.array([repr(value) for value in column.to_pylist()])])
    values = column.to_pandas()
    return pd.util.hash_array(values.to_numpy(), categorize=False)
