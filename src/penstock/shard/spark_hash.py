"""Spark's `xxhash64` in NumPy: the shard of a row is found without Spark, and where rows are packed it need not travel.

Each column is hashed with what the columns before it have given as its seed; a null gives nothing. Whole numbers of up to 32 bits,
dates and truth values are mixed as 4 bytes; longer ones, times, floats (all as doubles) and decimals of up to 18 digits as 8; texts,
bytes and longer decimals byte by byte, 32 at a time while there are so many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.errors import PenstockError
from penstock.core.trace import Ints

_PRIMES = np.array(
    [0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5],
    dtype=np.uint64,
)
_SEED = 42  # Spark's
_SHORT = 18  # digits of a decimal that fits 64 bits
_WIDE, _NARROW = (pa.types.is_int64, pa.types.is_timestamp), (pa.types.is_int8, pa.types.is_int16, pa.types.is_int32, pa.types.is_date32)
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)


def can_hash(kinds: Iterable[pa.DataType]) -> bool:
    """Whether all of the types are hashed faster here than Spark would send their hash along.

    >>> can_hash([pa.int64(), pa.date32()]), can_hash([pa.int64(), pa.string()])
    (True, False)
    """
    return all(_is(kind, (*_WIDE, *_NARROW)) for kind in kinds)


def placed(columns: Iterable[pa.ChunkedArray], size: int, shards: int) -> Ints:
    """`pmod(xxhash64(columns), shards)` of so many rows.

    >>> placed([pa.chunked_array([[1, 2, None]])], 3, 100).tolist()
    [18, 89, 42]
    >>> placed([pa.chunked_array([["Spark", "a"]]), pa.chunked_array([[0.5, None]])], 2, 100).tolist()
    [30, 16]
    """
    hashed = np.full(size, _SEED, np.uint64)
    with np.errstate(over="ignore"):
        for column in columns:
            own = _mixed(column, hashed)
            hashed = np.where(np.asarray(column.is_null()), hashed, own) if column.null_count else own
    return hashed.view(np.int64) % shards


def _mixed(column: pa.ChunkedArray, seed: Any) -> Any:
    """The hash of a column, begun with what the columns before it have given."""
    column = _as_on_spark(column)
    kind = column.type
    if _is(kind, _TEXTS):
        return _by_bytes(column, seed)
    if pa.types.is_decimal(kind) and kind.precision > _SHORT:
        return _by_bytes(pa.chunked_array([pa.array([_bytes_of(value) for value in column.to_pylist()], pa.large_binary())]), seed)
    if pa.types.is_decimal(kind):
        column = pa.chunked_array([pa.array([None if v is None else _unscaled(v) for v in column.to_pylist()], pa.int64())])
    wide = _is(column.type, _WIDE)
    numbers = column.cast(pa.int64() if wide else pa.int32()).cast(pa.int64()).fill_null(0)
    value = np.asarray(numbers).view(np.uint64)
    return _finished(_eight(seed + _PRIMES[4] + np.uint64(8), value) if wide else _four(seed + _PRIMES[4] + np.uint64(4), value))


def _as_on_spark(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column in a type that Spark has too, with equal bytes where Spark calls values equal."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _as_on_spark(column.cast(kind.value_type))
    for is_kind, other in _OTHERS:
        if is_kind(kind):
            column = column.cast(other)
    if pa.types.is_timestamp(kind) and kind.unit != "us":
        column = column.cast(pa.timestamp("us", tz=kind.tz), safe=False)
    if pa.types.is_floating(kind):
        value = np.asarray(column.cast(pa.float64()).fill_null(0.0)) + 0.0
        bits = np.where(np.isnan(value), np.nan, value).view(np.int64)  # one zero, one NaN
        return pa.chunked_array([pa.array(bits, mask=np.asarray(column.is_null()))])
    if not (_is(column.type, (*_WIDE, *_NARROW, *_TEXTS)) or pa.types.is_decimal128(column.type)):
        raise PenstockError(f"keys of several shards must be numbers, texts, bytes, dates or times, got {kind}")
    return column


_OTHERS: tuple[tuple[Callable[[pa.DataType], bool], pa.DataType], ...] = (
    (pa.types.is_boolean, pa.int8()),
    (pa.types.is_uint8, pa.int16()),
    (pa.types.is_uint16, pa.int32()),
    (pa.types.is_uint32, pa.int64()),
    (pa.types.is_uint64, pa.decimal128(20, 0)),
    (pa.types.is_date64, pa.date32()),
)
"""What Spark reads these as."""


def _by_bytes(column: pa.ChunkedArray, seed: Any) -> Any:
    """The hash of texts: those of one length together."""
    texts = column.cast(pa.large_binary()).combine_chunks()
    texts = texts if isinstance(texts, pa.Array) else pa.concat_arrays(texts.chunks)
    lengths = np.asarray(pc.binary_length(texts).fill_null(0)).astype(np.int64)
    out = np.empty(len(texts), np.uint64)
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        raw = texts.take(pa.array(rows)).fill_null(b"")
        _, ends, data = raw.buffers()
        begin = int(np.frombuffer(ends, np.int64)[raw.offset])
        letters = np.frombuffer(data or b"", np.uint8)[begin : begin + int(length) * len(rows)].reshape(len(rows), int(length))
        out[rows] = _finished(_of_length(letters, seed[rows]))
    return out


def _of_length(letters: Any, seed: Any) -> Any:
    """Texts of one length, mixed: 32 bytes at a time in four lanes, then 8, then 4, then single ones."""
    one, two, _, four, five = _PRIMES
    length, at = letters.shape[1], 0
    if length >= 32:
        lanes = [seed + one + two, seed + two, seed.copy(), seed - one]
        while at + 32 <= length:
            lanes = [_turned(lane + _word(letters, at + 8 * n, 8) * two, 31) * one for n, lane in enumerate(lanes)]
            at += 32
        mixed = sum((_turned(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)), np.zeros_like(seed))
        for lane in lanes:
            mixed = (mixed ^ (_turned(lane * two, 31) * one)) * one + four
    else:
        mixed = seed + five
    mixed = mixed + np.uint64(length)
    while at + 8 <= length:
        mixed = _eight(mixed, _word(letters, at, 8))
        at += 8
    if at + 4 <= length:
        mixed = _four(mixed, _word(letters, at, 4))
        at += 4
    for place in range(at, length):
        mixed = _turned(mixed ^ (letters[:, place].astype(np.uint64) * five), 11) * one
    return mixed


def _word(letters: Any, at: int, size: int) -> Any:
    """So many bytes of each text from a place on, as a number, the lowest first."""
    parts = np.ascontiguousarray(letters[:, at : at + size])
    return parts.view(f"<u{size}").reshape(len(letters)).astype(np.uint64)


def _eight(mixed: Any, value: Any) -> Any:
    one, two, _, four, _ = _PRIMES
    return _turned(mixed ^ (_turned(value * two, 31) * one), 27) * one + four


def _four(mixed: Any, value: Any) -> Any:
    one, two, three, _, _ = _PRIMES
    return _turned(mixed ^ ((value & np.uint64(0xFFFFFFFF)) * one), 23) * two + three


def _finished(mixed: Any) -> Any:
    for shift, factor in ((33, _PRIMES[1]), (29, _PRIMES[2])):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * factor
    return mixed ^ (mixed >> np.uint64(32))


def _turned(value: Any, by: int) -> Any:
    return (value << np.uint64(by)) | (value >> np.uint64(64 - by))


def _unscaled(value: Any) -> int:
    """The digits of a decimal as a whole number."""
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits)))
    return -number if sign else number


def _bytes_of(value: Any) -> bytes | None:
    """A decimal as Java writes a large number: its digits in as few bytes as hold them and their sign, the highest first.

    >>> from decimal import Decimal
    >>> _bytes_of(Decimal("-1.28")), _bytes_of(Decimal("1.28"))
    (b'\\x80', b'\\x00\\x80')
    """
    if value is None:
        return None
    number = _unscaled(value)
    bits = (number if number >= 0 else -number - 1).bit_length() + 1
    return number.to_bytes((bits + 7) // 8, "big", signed=True)


def _is(kind: pa.DataType, tests: Iterable[Any]) -> bool:
    return any(test(kind) for test in tests)
