"""Rows that are equal, whatever their columns are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.trace import Ints


def alike(columns: Sequence[Any]) -> Ints:
    """A number for each row of some columns, equal where all columns are, nulls among themselves.

    >>> alike([pa.chunked_array([["x", None, None, "x"]]), pa.chunked_array([[1, 2, 2, 3]])]).tolist()
    [0, 2, 2, 1]
    """
    codes = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        plain = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
        plain = plain.dictionary_decode() if pa.types.is_dictionary(plain.type) else plain
        part = plain.dictionary_encode(null_encoding="encode")
        codes = np.unique(codes * (len(part.dictionary) + 1) + np.asarray(part.indices), return_inverse=True)[1].astype(np.int64)
    return codes
