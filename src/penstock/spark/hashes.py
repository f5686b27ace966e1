"""Spark's `xxhash64` of whole numbers and times, in NumPy: the shard of a row is then found where it is packed, and need not travel.

Each column that Spark hands to Python costs it time for every row. Keys of other types are hashed by Spark.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.trace import Ints

_PRIMES = np.array(
    [0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5],
    dtype=np.uint64,
)
_SEED = 42  # Spark's
_WIDE, _NARROW = (pa.types.is_int64, pa.types.is_timestamp), (pa.types.is_int8, pa.types.is_int16, pa.types.is_int32, pa.types.is_date32)


def can_hash(kinds: Iterable[pa.DataType]) -> bool:
    """Whether all of the types are hashed here.

    >>> can_hash([pa.int64(), pa.date32()]), can_hash([pa.int64(), pa.string()])
    (True, False)
    """
    return all(_is(kind, (*_WIDE, *_NARROW)) for kind in kinds)


def placed(columns: Iterable[pa.ChunkedArray], size: int, shards: int) -> Ints:
    """`pmod(xxhash64(columns), shards)` of so many rows.

    >>> placed([pa.chunked_array([[1, 2, None]])], 3, 100).tolist()
    [18, 89, 42]
    """
    hashed = np.full(size, _SEED, np.uint64)
    with np.errstate(over="ignore"):
        for column in columns:
            own = _mixed(column, hashed)
            hashed = np.where(np.asarray(column.is_null()), hashed, own) if column.null_count else own
    return hashed.view(np.int64) % shards


def _mixed(column: pa.ChunkedArray, seed: Any) -> Any:
    """The hash of a column, begun with what the columns before it have given."""
    one, two, three, four, five = _PRIMES
    wide = _is(column.type, _WIDE)
    numbers = column.cast(pa.int64() if wide else pa.int32()).cast(pa.int64()).fill_null(0)
    value = np.asarray(numbers).view(np.uint64)
    if wide:
        mixed = _turned((seed + five + np.uint64(8)) ^ (_turned(value * two, 31) * one), 27) * one + four
    else:
        mixed = _turned((seed + five + np.uint64(4)) ^ ((value & np.uint64(0xFFFFFFFF)) * one), 23) * two + three
    for shift, factor in ((33, two), (29, three)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * factor
    return mixed ^ (mixed >> np.uint64(32))


def _turned(value: Any, by: int) -> Any:
    return (value << np.uint64(by)) | (value >> np.uint64(64 - by))


def _is(kind: pa.DataType, tests: Iterable[Any]) -> bool:
    return any(test(kind) for test in tests)
