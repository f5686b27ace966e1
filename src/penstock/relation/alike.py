"""Rows that are equal, whatever their columns are, and what is greatest among them so far."""

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


def greatest_so_far(groups: Ints, values: Ints) -> Ints:
    """For each row the greatest value up to it among the rows of its group, which are in a row.

    >>> greatest_so_far(np.array([4, 4, 4, 7]), np.array([5, 9, 6, 1])).tolist()
    [5, 9, 9, 1]
    """
    ordered, ranks = np.unique(values, return_inverse=True)
    size = len(ordered) + 1
    number = np.cumsum(np.diff(groups, prepend=groups[:1]) != 0)  # a maximum starts anew where this is larger
    return ordered[np.maximum.accumulate(number * size + ranks) % size] if len(values) else values
