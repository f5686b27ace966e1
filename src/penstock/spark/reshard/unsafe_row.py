"""Spark's binary form of a row (`UnsafeRow`) <-> a tuple: what a state store keeps as its keys and values.

    | null bits, 8 bytes per 64 columns | 8 bytes per column | what does not fit in 8 bytes, each padded to a multiple of 8 |

A column of strings, binaries or structs has in its 8 bytes the place (upper half) and the length (lower half) of its value.
"""

from __future__ import annotations

import struct
from typing import Any

from pyspark.sql import types as T  # noqa: N812

from penstock.core.errors import PenstockError

_FIXED: dict[type[T.DataType], str] = {
    T.BooleanType: "?",
    T.ByteType: "b",
    T.ShortType: "h",
    T.IntegerType: "i",
    T.LongType: "q",
    T.FloatType: "f",
    T.DoubleType: "d",
}
Row = tuple[Any, ...]


def encode(row: Row, schema: T.StructType) -> bytes:
    """The binary form of a row.

    >>> kinds = T.StructType().add("a", "long").add("b", "binary")
    >>> encode((7, b"xyz"), kinds).hex(" ", 8)
    '0000000000000000 0700000000000000 0300000018000000 78797a0000000000'
    """
    if len(row) != len(schema.fields):
        raise PenstockError(f"a row must have the {len(schema.fields)} columns of {schema.simpleString()}, got {len(row)}")
    nulls = bytearray(_null_bytes(schema))
    slots: list[bytes] = []
    tail: list[bytes] = []
    end = len(nulls) + 8 * len(row)
    for at, (value, field) in enumerate(zip(row, schema.fields, strict=True)):
        code = _FIXED.get(type(field.dataType))
        if value is None:
            nulls[at // 8] |= 1 << at % 8
            slots.append(bytes(8))
        elif code is not None:
            slots.append(struct.pack("<" + code, value).ljust(8, b"\0"))
        else:
            body = _body(value, field.dataType)
            slots.append(struct.pack("<ii", len(body), end))
            tail += [body, bytes(-len(body) % 8)]
            end += len(body) + -len(body) % 8
    return b"".join([bytes(nulls), *slots, *tail])


def decode(data: bytes, schema: T.StructType) -> Row:
    """The row in its binary form.

    >>> kinds = T.StructType().add("a", "long").add("b", T.StructType().add("c", "string"))
    >>> decode(encode((None, ("xyz",)), kinds), kinds)
    (None, ('xyz',))
    """
    first = _null_bytes(schema)
    row: list[Any] = []
    for at, field in enumerate(schema.fields):
        code = _FIXED.get(type(field.dataType))
        if data[at // 8] >> at % 8 & 1:
            row.append(None)
        elif code is not None:
            row.append(struct.unpack_from("<" + code, data, first + 8 * at)[0])
        else:
            length, begin = struct.unpack_from("<ii", data, first + 8 * at)
            row.append(_value(data[begin : begin + length], field.dataType))
    return tuple(row)


def _null_bytes(schema: T.StructType) -> int:
    return (len(schema.fields) + 63) // 64 * 8


def _body(value: Any, kind: T.DataType) -> bytes:
    match kind:
        case T.BinaryType():
            return bytes(value)
        case T.StringType():
            return str(value).encode()
        case T.StructType():
            return encode(value, kind)
    raise PenstockError(f"state must have columns of numbers, booleans, strings, binaries and structs of them, got {kind.simpleString()}")


def _value(body: bytes, kind: T.DataType) -> Any:
    match kind:
        case T.BinaryType():
            return body
        case T.StringType():
            return body.decode()
        case T.StructType():
            return decode(body, kind)
    raise PenstockError(f"state must have columns of numbers, booleans, strings, binaries and structs of them, got {kind.simpleString()}")
