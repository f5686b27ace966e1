"""Spark's hash in NumPy: against the same steps on plain numbers, and against Spark itself."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Context, Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from penstock.shard.spark_hash import can_hash, placed
from penstock.spark.join.route_choice import _plain as plain
from penstock.spark.join.routes import Route
from sparks import ON_SPARK, START

BITS = (1 << 64) - 1
P1, P2, P3, P4, P5 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def turned(value: int, by: int) -> int:
    return (value << by | value >> (64 - by)) & BITS


def by_hand(row: list[int | None], wide: list[bool]) -> int:
    """xxhash64 of a row, as a signed number: each column begins with what the one before has given; null gives nothing."""
    hashed = 42
    for value, is_wide in zip(row, wide, strict=True):
        if value is None:
            continue
        if is_wide:
            mixed = hashed + P5 + 8 ^ turned(value * P2 & BITS, 31) * P1 & BITS
            mixed = turned(mixed & BITS, 27) * P1 + P4 & BITS
        else:
            mixed = (hashed + P5 + 4 & BITS) ^ (value & 0xFFFFFFFF) * P1 & BITS
            mixed = turned(mixed, 23) * P2 + P3 & BITS
        mixed = (mixed ^ mixed >> 33) * P2 & BITS
        mixed = (mixed ^ mixed >> 29) * P3 & BITS
        hashed = mixed ^ mixed >> 32
    return hashed - (1 << 64) if hashed >> 63 else hashed


LONGS = st.none() | st.integers(-(1 << 63), (1 << 63) - 1)
INTS = st.none() | st.integers(-(1 << 31), (1 << 31) - 1)


@given(st.lists(st.tuples(LONGS, INTS), max_size=8), st.integers(2, 1 << 40))
def test_numbers_of_either_width_are_placed_as_by_hand(rows, shards):
    columns = [pa.chunked_array([[row[0] for row in rows]], pa.int64()), pa.chunked_array([[row[1] for row in rows]], pa.int32())]
    for chosen in ([0], [1], [0, 1], [1, 0]):
        expected = [by_hand([row[at] for at in chosen], [at == 0 for at in chosen]) % shards for row in rows]
        assert placed([columns[at] for at in chosen], len(rows), shards).tolist() == expected


def day(random: Random) -> dt.date:
    return dt.date(1900, 1, 1) + dt.timedelta(random.randrange(90_000))


def instant(random: Random) -> dt.datetime:
    return START.replace(tzinfo=None) + dt.timedelta(microseconds=random.randrange(-(1 << 50), 1 << 50))


KINDS: dict[str, Any] = {
    "tinyint": lambda random: random.randrange(-128, 128),
    "smallint": lambda random: random.randrange(-(1 << 15), 1 << 15),
    "int": lambda random: random.randrange(-(1 << 31), 1 << 31),
    "bigint": lambda random: random.randrange(-(1 << 63), 1 << 63),
    "date": day,
    "timestamp": instant,
    "timestamp_ntz": instant,
}
OTHERS: dict[str, Any] = {
    "boolean": lambda random: random.random() < 0.5,
    "float": lambda random: random.choice((0.0, -0.0, float("nan"), 1.5, struct.unpack("f", random.randbytes(4))[0])),
    "double": lambda random: random.choice((0.0, -0.0, float("nan"), 1.5, random.uniform(-1e300, 1e300))),
    "decimal(18, 4)": lambda random: Decimal(random.randrange(-(10**18) + 1, 10**18)).scaleb(-4),
    "decimal(38, 6)": lambda random: Decimal(random.randrange(-(10 ** random.randrange(1, 38)), 10**30)).scaleb(-6, Context(prec=40)),
    "string": lambda random: "".join(random.choices("abcäß€😀 ", k=random.choice((*range(40), 200)))),
    "binary": lambda random: random.randbytes(random.choice((*range(70), 300))),
}


class TestOnSpark:
    pytestmark = ON_SPARK

    def test_every_type_is_placed_as_spark_does(self, spark):
        random = Random(5)
        rows = [tuple(None if random.random() < 0.1 else make(random) for make in KINDS.values()) for _ in range(200)]
        frame = spark.createDataFrame(rows, ", ".join(f"c{at} {kind}" for at, kind in enumerate(KINDS)))
        choices = [[name] for name in frame.columns] + [["c3", "c2"], list(reversed(frame.columns))]
        marks = [F.pmod(F.xxhash64(*names), F.lit(1009)).alias(f"m{at}") for at, names in enumerate(choices)]
        table = frame.select("*", *marks).toArrow()
        assert can_hash(table.select(frame.columns).schema.types)
        for at, names in enumerate(choices):
            assert placed([table[name] for name in names], len(rows), 1009).tolist() == table[f"m{at}"].to_pylist(), names

    def test_keys_of_every_other_type_are_placed_as_a_join_places_them(self, spark):
        random = Random(6)
        rows = [tuple(None if random.random() < 0.1 else make(random) for make in OTHERS.values()) for _ in range(600)]
        frame = spark.createDataFrame(rows, StructType.fromDDL(", ".join(f"c{at} {kind}" for at, kind in enumerate(OTHERS))))
        choices = [[name] for name in frame.columns] + [["c5", "c2"], frame.columns, list(reversed(frame.columns))]
        kinds = {field.name: field.dataType for field in frame.schema}
        marks = [
            Route("key", 1009).places(0, [plain(F.col(name), kinds[name]) for name in names], False, [], F.lit(True)).alias(f"m{at}")
            for at, names in enumerate(choices)
        ]
        table = frame.select("*", *marks).toArrow()
        for at, names in enumerate(choices):
            assert placed([table[name] for name in names], len(rows), 1009).tolist() == table[f"m{at}"].to_pylist(), names


def test_a_type_of_arrow_is_hashed_as_what_spark_reads_it_as():
    same = {
        pa.uint8(): pa.int16(),
        pa.uint16(): pa.int32(),
        pa.uint32(): pa.int64(),
        pa.uint64(): pa.decimal128(20, 0),
        pa.float32(): pa.float64(),
        pa.large_string(): pa.string(),
        pa.dictionary(pa.int32(), pa.string()): pa.string(),
        pa.timestamp("ns"): pa.timestamp("us"),
        pa.timestamp("s", tz="UTC"): pa.timestamp("us", tz="UTC"),
        pa.date64(): pa.date32(),
    }
    for kind, other in same.items():
        words, long = pa.types.is_string(other), pa.types.is_temporal(other)
        values = ["a", None, ""] if words else [0, None, 86_400_000 if long else 200]
        column = pa.chunked_array([pa.array(values, pa.string() if words else pa.int64())]).cast(kind)
        assert placed([column], 3, 1 << 40).tolist() == placed([column.cast(other)], 3, 1 << 40).tolist(), kind


def test_of_a_column_without_rows_nothing_is_placed():
    for kind in (pa.string(), pa.float64(), pa.decimal128(30, 2), pa.int32()):
        assert placed([pa.chunked_array([], kind)], 0, 7).tolist() == []


@pytest.mark.parametrize("kind", [pa.string(), pa.float64(), pa.bool_(), pa.decimal128(9, 2), pa.binary(), pa.uint64(), pa.time64("us")])
def test_other_types_are_left_to_spark(kind):
    assert not can_hash([pa.int64(), kind])
