"""Values that joins on Spark meet seldom (NaN, times far away), streams that compare nothing, and names that are none."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps

pytest.importorskip("pyspark")
from penstock.shard.predicate_columns import _sized
from sparks import ON_SPARK, at, bag

pytestmark = ON_SPARK

FIELDS = "ts timestamp, x double, until timestamp, v bigint"
NAN = float("nan")
FAR = dt.datetime(9999, 12, 31, tzinfo=dt.UTC)


def pairs(spark: Any, values: list[tuple[Any, Any]], **options: Any) -> Counter[tuple[Any, ...]]:
    """The members of what these rows make, joined with themselves."""
    frame = spark.createDataFrame([(at(number), *own, number) for number, own in enumerate(values)], FIELDS)
    sides = {name: ps.stream(frame, time="ts", window="10 seconds") for name in "ab"}
    return bag(ps.join(sides, memory=100, **options).select("a_v", "b_v"))


@pytest.mark.slow
@pytest.mark.parametrize("how", [{"on": "x", "predicate": "!=", "shards": 2}, {"predicate": "a.x != b.x"}])
def test_nan_differs_from_nothing_that_could_match(spark, how):
    assert pairs(spark, [(NAN, None), (1.0, None), (None, None), (2.0, None)], **how) == Counter([(1, 3), (3, 1)])


def test_a_link_compares_the_end_of_all_times(spark):
    assert pairs(spark, [(0.0, FAR), (0.0, None), (0.0, at(1))], predicate="a.ts < b.until") == Counter([(0, 0), (1, 0), (2, 0), (0, 2)])


def test_whole_numbers_that_floating_point_would_round_are_refused_by_their_value():
    odd = (1 << 53) + 1
    assert _sized(pa.chunked_array([[odd - 1, -(1 << 60), None]]), "n")[:2].tolist() == [odd - 1, -(1 << 60)]
    for number in (odd, -odd, np.iinfo(np.int64).max, np.iinfo(np.int64).min):
        with pytest.raises(ps.PenstockError, match=f"column 'n' by size.* got {number}; cast"):
            _sized(pa.chunked_array([[None, 1, number]]), "n")


@pytest.mark.parametrize("digits", (10, 30))
def test_distances_take_no_decimals_however_many_digits_they_have(spark, digits):
    frame = spark.createDataFrame([], f"ts timestamp, d decimal({digits}, 1)")
    sides = {name: ps.stream(frame, time="ts", window="10 seconds") for name in "ab"}
    with pytest.raises(ps.PenstockError, match=r"must measure whole numbers or doubles, got a\.d of type decimal"):
        ps.join(sides, on="d", predicate="eps:1", memory=10)


def test_a_stream_that_compares_nothing_has_its_place_in_the_order_of_loops(spark):
    frame = spark.createDataFrame([], FIELDS)
    sides = {name: ps.stream(frame, time="ts", window="10 seconds") for name in "abc"}
    text = ps.explain(sides, predicate="a.x = b.x", cross=True, memory=30, rates={"c": 7})
    assert "(cross)" in text and "new tuples of c: 7 per tick" in text


def test_streams_are_told_by_name(spark):
    frame = spark.createDataFrame([], FIELDS)
    side = ps.stream(frame, time="ts", window="10 seconds")
    for streams, said in (
        ({"a": side}, "streams must be two or more of ps.stream by name, got a$"),
        ({}, "streams must be two or more of ps.stream by name, got none"),
        ([side, side], "streams must be two or more of ps.stream by name, got a list"),
        ({1: side, 2: side}, "streams must have texts for names, got 1"),
        ({"": side, "b": side}, "streams must have texts for names, got ''"),
        ({"a": side, "b": frame}, "streams must be made by ps.stream, got a DataFrame for b"),
    ):
        with pytest.raises(ps.PenstockError, match=said):
            ps.join(streams, on="x", memory=10)
