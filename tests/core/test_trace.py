"""Traces: their columns, times and keys."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from nouns import STREAMS, refused, trace


def test_the_columns_of_a_trace():
    full = trace(importance=[1, 2, 3, 4], lifetime=[5, 6, 7, 8], size=[1, 2, 3, 4], note=list("wxyz"))
    assert (len(full), full.n_streams, full.streams) == (4, 2, STREAMS)
    assert full.stream.tolist() == [0, 1, 0, 1]
    assert (full.importance.tolist(), full.importance.dtype) == ([1.0, 2.0, 3.0, 4.0], np.float64)
    assert (full.lifetime.tolist(), full.size.tolist()) == ([5, 6, 7, 8], [1, 2, 3, 4])
    assert full.table.column_names[-1] == "note"
    bare = trace()
    assert (bare.importance, bare.lifetime, bare.size) == (None, None, None)


def test_streams_are_ordered_by_first_appearance_or_as_declared():
    assert trace(stream=list("SRSR")).streams == ("S", "R")
    assert trace(stream=[7, 3, 7, 3]).streams == ("7", "3")
    declared = ps.Trace({"stream": list("SRS"), "time": [0] * 3, "key": [1] * 3}, streams=("R", "Q", "S"))
    assert (declared.streams, declared.stream.tolist()) == (("R", "Q", "S"), [2, 0, 2])


@pytest.mark.parametrize(
    "stream",
    (pa.array(list("RSRS")).dictionary_encode(), pa.array(list("RSRS"), pa.large_string()), pa.chunked_array([list("RS"), list("RS")]),
     pa.chunked_array([list("RS"), list("RS")]).dictionary_encode()),
    ids=("dictionary", "large", "chunked", "chunked dictionary"),
)  # fmt: skip
def test_a_stream_column_of_any_string_type(stream):
    assert (trace(stream=stream).streams, trace(stream=stream).stream.tolist()) == (STREAMS, [0, 1, 0, 1])


def test_from_streams_leaves_out_what_does_not_arrive():
    made = ps.Trace.from_streams(R=["a", None, "b"], S=["c"], T=[])
    assert made.table.to_pydict() == {"stream": ["R", "S", "R"], "time": [0, 0, 2], "key": ["a", "c", "b"]}
    assert made.streams == ("R", "S", "T")


def test_rows_that_go_back_in_time_are_counted():
    assert trace().n_backwards == 0
    assert trace(time=[5, 3, 4, 1]).n_backwards == 2


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"stream": None}, "stream missing, it has: time, key"),
        ({"time": None, "key": None}, "a trace needs the columns stream, time, key; time, key missing, it has: stream"),
        ({"time": [0.0, 0.0, 1.0, 1.5]}, "column 'time' must be of an integer or timestamp type, got double"),
        ({"time": list("0011")}, "column 'time' must be of an integer or timestamp type, got string"),
        ({"time": [0, None, 1, 1]}, "column 'time' must have no nulls, got one in row 1"),
        ({"time": [0, 0, 1, 1 << 61]}, r"column 'time' must stay between -2\*\*60 and 2\*\*60, got 2305843009213693952"),
        ({"time": [0, 0, 1, -(1 << 61)]}, r"column 'time' must stay between"),
        ({"time": [0, 0, 1, -(1 << 63)]}, r"column 'time' must stay between"),
        ({"time": pa.array([0, 0, 1, (1 << 64) - 1], pa.uint64())}, "column 'time' must stay below"),
        ({"time": [0, 0, 1, 1 << 70]}, "mixed or unusable values"),
        ({"time": [0, 0, 1]}, "the columns of a trace must have one length, got"),
        ({"stream": ["R", None, "R", "S"]}, "column 'stream' must have no nulls"),
        ({"stream": [0.5, 1.0, 0.5, 1.0]}, "column 'stream' must be of a string or integer type, got double"),
        ({"stream": ["R", 1, "R", 1]}, "a column of the trace has mixed or unusable values"),
        ({"key": [[1], [2], [2], [1]]}, "column 'key' is nested"),
        ({"note": [{"a": 1}] * 4}, "column 'note' is nested"),
        ({"importance": [1, 2, 0, 4]}, "column 'importance' must be .*, got 0 in row 2"),
        ({"importance": [1, -2, 3, 4]}, "column 'importance' must be .*, got -2 in row 1"),
        ({"importance": [1, 2, 3, math.nan]}, "column 'importance' must be .*, got nan in row 3"),
        ({"importance": [math.inf, 2, 3, 4]}, "column 'importance' must be .*, got inf in row 0"),
        ({"importance": [1, None, 3, 4]}, "column 'importance' must .* in row 1"),
        ({"importance": list("abcd")}, "column 'importance' must be numeric, got string"),
        ({"lifetime": [1, 2, 3, 0]}, "column 'lifetime' must be a whole number of at least 1, got 0 in row 3"),
        ({"lifetime": [1, 2.5, 3, 4]}, "column 'lifetime' must be of an integer type, got double"),
        ({"lifetime": [1, None, 3, 4]}, "column 'lifetime' must have no nulls, got one in row 1"),
        ({"lifetime": [1, 2, 3, 1 << 61]}, "column 'lifetime' must be"),
        ({"size": [1, 2, -3, 4]}, "column 'size' must be a whole number of at least 1, got -3 in row 2"),
    ],
)  # fmt: skip
def test_columns_that_are_refused(columns, message):
    complete = {"stream": list("RSRS"), "time": [0, 0, 1, 1], "key": [1, 2, 2, 1]} | columns
    with refused(message):
        ps.Trace({name: column for name, column in complete.items() if column is not None})


def test_an_empty_trace_and_a_trace_of_one_stream():
    with refused("the trace is empty: it needs at least one row"):
        ps.Trace({"stream": [], "time": [], "key": []})
    with refused("a join needs at least two streams, the trace has only R"):
        ps.simulate(trace(stream=list("RRRR")), window=2, memory=2)
    assert ps.exact(ps.Trace.from_streams(R="aa", S=""), window=2).n_output == 0


@pytest.mark.parametrize("streams", (("R",), ("R", "R", "S"), ("A", "B")))
def test_declared_streams_are_those_of_the_trace(streams):
    with refused("streams must name each stream of the trace once, got"):
        ps.Trace({"stream": list("RS"), "time": [0, 0], "key": [1, 1]}, streams=streams)


@pytest.mark.parametrize("unit", ("s", "ms", "us", "ns"))
@pytest.mark.parametrize("zone", (None, "Europe/Vienna"))
def test_timestamps_count_in_microseconds(unit, zone):
    seconds = pa.array([10, 10, 11, 11], pa.timestamp("s")).cast(pa.timestamp(unit, tz=zone))
    stamped = trace(time=seconds)
    assert stamped.timestamps and not trace().timestamps
    assert stamped.time.tolist() == [10_000_000, 10_000_000, 11_000_000, 11_000_000]
    assert ps.exact(stamped, window="1 second").n_output == 0
    assert ps.exact(stamped, window="2 seconds").n_output == 2


def test_timestamps_finer_than_a_microsecond_are_refused():
    with refused("column 'time' does not fit microseconds"):
        trace(time=pa.array([0, 1, 2, 3], pa.timestamp("ns")))


def test_times_may_be_negative_and_huge():
    for shift in (-(1 << 59), -5, 1 << 59):
        moved = trace(time=[shift, shift, shift + 1, shift + 1])
        assert ps.exact(moved, window=2).n_output == 2
        assert ps.exact(moved, window=1).n_output == 0


@pytest.mark.parametrize("kind", (pa.int8(), pa.int16(), pa.uint8(), pa.uint64()))
def test_times_of_any_integer_type(kind):
    assert trace(time=pa.array([0, 0, 1, 1], kind)).time.tolist() == [0, 0, 1, 1]


def matches(*keys: Any, **options: Any) -> int:
    """How many pairs of R and S (rows R, S, R, S, ... of one instant) have equal keys."""
    columns = {"stream": (["R", "S"] * len(keys))[: len(keys)], "time": [0] * len(keys), "key": pa.array(keys, **options)}
    return ps.exact(ps.Trace(columns, streams=STREAMS), window=1).n_output


def test_equal_keys_match_whatever_their_type():
    assert matches(1, 1, 2, 3) == 1
    assert matches("a", "a", "b", "A") == 1
    assert matches("", "", " ", "") == 2
    assert matches(True, False, False, True) == 2
    assert matches(b"x", b"x") == 1
    assert matches(datetime.date(2024, 1, 1), datetime.date(2024, 1, 1)) == 1
    assert matches(decimal.Decimal("1.10"), decimal.Decimal("1.10"), decimal.Decimal("1.20"), None) == 1
    assert matches(2**64 - 1, 2**64 - 1, type=pa.uint64()) == 1
    assert matches(-(2**63), -(2**63), 0, 2**63 - 1) == 1


def test_null_and_nan_match_nothing():
    assert matches(None, None, None, None) == 0
    assert matches(1, None, None, 1) == 1
    assert matches(math.nan, math.nan, 1.0, 1.0, from_pandas=False) == 1
    assert matches(None, math.nan, from_pandas=False, type=pa.float64()) == 0
    assert matches("a", None, "a", "a") == 2


def test_the_two_zeros_are_equal():
    assert matches(0.0, -0.0) == 1


def test_dictionary_and_chunked_keys():
    plain = ["a", "b", "b", "a"]
    for key in (
        pa.array(plain).dictionary_encode(), pa.chunked_array([plain[:1], plain[1:]]), pa.array(plain, pa.large_string()),
        pa.chunked_array([plain[:2], plain[2:]]).dictionary_encode(),
    ):  # fmt: skip
        assert ps.exact(trace(key=key), window=9).n_output == 2


def test_keys_of_several_columns():
    columns = {"stream": list("RSRSRS"), "time": [0] * 6, "a": [1, 1, 1, 2, None, None], "b": list("xxyxxx")}
    for key in ("a,b", "a, b", ("a", "b"), ["b", "a"]):
        assert ps.exact(ps.Trace(columns, key=key), window=1).n_output == 1
    assert ps.exact(ps.Trace(columns, key="b"), window=1).n_output == 2 * 3
    with refused("a trace needs the columns stream, time, a, c; c missing, it has: stream, time, a, b"):
        ps.Trace(columns, key="a,c")


def test_keys_of_many_wide_columns():
    """The product of the numbers of values is far beyond 64 bits."""
    random = np.random.default_rng(0)
    rows, names = 600, "abcdefgh"
    half = {name: random.integers(0, 300, rows) for name in names}
    columns: dict[str, Any] = {"stream": ["R"] * rows + ["S"] * rows, "time": [0] * (2 * rows)}
    columns |= {name: np.concatenate([values, values]) for name, values in half.items()}
    assert ps.exact(ps.Trace(columns, key=tuple(names)), window=1).n_output == rows


def test_keys_that_differ_in_the_first_of_nine_columns_are_different():
    """255 values in each column: with the null that is eight bits, and nine times eight is more than 64."""
    names = "abcdefghi"
    rows = [("R", *(value if name == column else None for name in names)) for column in names for value in range(255)]
    rows += [("R", 200, *[1] * 8), ("S", 100, *[1] * 8)]
    columns = {name: list(values) for name, values in zip(("stream", *names), zip(*rows, strict=True), strict=True)}
    assert ps.exact(ps.Trace(columns | {"time": [0] * len(rows)}, key=tuple(names)), window=1).n_output == 0
