"""What links may compare, and what is refused: in the library and on the command line."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import penstock as ps
from penstock.cli import run
from penstock.core.errors import PenstockError

NAN = float("nan")
DAY = dt.date(2026, 1, 31)
NOON = dt.datetime(2026, 1, 31, 12)
HOUR = 3600 * 10**6


def trace(one: Any, other: Any, **options: Any) -> ps.Trace:
    """Two streams that arrive together: R has the values `one` in column u, S `other` in column v; each null for the other stream."""
    some, others = (values if isinstance(values, pa.Array) else pa.array(values, from_pandas=False) for values in (one, other))
    columns = {
        "stream": ["R"] * len(some) + ["S"] * len(others),
        "time": [0] * (len(some) + len(others)),
        "u": pa.concat_arrays([some, pa.nulls(len(others), some.type)]),
        "v": pa.concat_arrays([pa.nulls(len(some), others.type), others]),
    }
    return ps.Trace(columns, key=(), **options)


def outputs(one: Any, other: Any, test: str) -> list[tuple[int, int]]:
    """The pairs (position in one, position in other) that a link joins."""
    found = trace(one, other)
    links = f"|R.u - S.v| <= {test}" if test[0].isdigit() else f"R.u {test} S.v"
    # A link beside it that always holds keeps the graph a graph.
    kept = ps.exact(found, window=1, predicate=[links, "R.time <= S.time"], keep=ps.Keep(outputs=True)).outputs
    alone = ps.exact(found, window=1, predicate=links, keep=ps.Keep(outputs=True)).outputs
    assert sorted(kept.tolist()) == sorted(alone.tolist())
    return sorted((r, s - len(one)) for _, r, s in kept.tolist())


SMALL, LARGE = pa.array([1, 2], pa.int8()), pa.array([2**60 + 1, 2**60 + 2], pa.int64())


@pytest.mark.parametrize(
    ("one", "other", "test", "wanted"),
    [
        (["p", "q", None], ["q", None], "=", [(1, 0)]),
        (["p", "q", None], ["q", None], "!=", [(0, 0)]),
        (pa.array(["p", "q"]).dictionary_encode(), pa.array(["q"], pa.large_string()), "=", [(1, 0)]),
        (SMALL, pa.array([2, 300], pa.uint16()), "=", [(1, 0)]),
        (SMALL, [2.0, 1.5, NAN], "=", [(1, 0)]),
        (SMALL, [2.0, 1.5, NAN], "!=", [(0, 0), (0, 1), (1, 1)]),
        (SMALL, [2.0, 1.5, NAN], "<", [(0, 0), (0, 1)]),
        ([0.0], [-0.0], "=", [(0, 0)]),
        (LARGE, pa.array([2**60 + 1]), "=", [(0, 0)]),
        (LARGE, pa.array([2**60 + 1, None]), ">", [(1, 0)]),
        (LARGE, pa.array([2**60 + 3, 2**60]), "1", [(0, 1), (1, 0)]),
        ([DAY], [NOON, dt.datetime(2026, 1, 31)], "=", [(0, 1)]),
        ([DAY], [NOON], "<", [(0, 0)]),
        ([NOON], [NOON + dt.timedelta(hours=1), NOON + dt.timedelta(hours=2)], str(HOUR), [(0, 0)]),
        (pa.array([NOON], pa.timestamp("us", "UTC")), pa.array([NOON], pa.timestamp("ms", "Europe/Paris")), "=", [(0, 0)]),
        ([True, False], [True], "=", [(0, 0)]),
        ([b"p"], [b"p", b"q"], "=", [(0, 0)]),
        ([Decimal("1.10")], [Decimal("1.10")], "=", [(0, 0)]),
        (pa.nulls(1), ["p"], "=", []),
    ],
)
def test_columns_of_many_types_are_compared(one, other, test, wanted):
    assert outputs(one, other, test) == wanted


@pytest.mark.parametrize(
    ("one", "other", "test", "told"),
    [
        ([1], ["p"], "=", "'R.u = S.v' must compare columns of one type, got int64 and string"),
        ([DAY], [1], "<", "'R.u < S.v' must compare columns of one type, got date32[day] and int64"),
        ([NOON], pa.array([NOON], pa.timestamp("us", "UTC")), "=", "one type, got timestamp[us] and timestamp[us, tz=UTC]"),
        (["p"], ["q"], "<", "'R.u < S.v' compares by size and needs numeric columns, got string"),
        ([Decimal("1.5")], [Decimal("2.5")], "1", "needs numeric columns, got decimal128"),
        (LARGE, [0.5], "=", "no common type (double) holds exactly"),
        (LARGE, [3], "<", "must lie within 2**53, got 3 to 1152921504606846978"),
        ([1e300], [1.0], "=", "column 'u' has numbers beyond 2**53"),
        (pa.array([1], pa.timestamp("ns")), pa.array([1], pa.timestamp("ns")), "<", "do not fit microseconds"),
    ],
)
def test_columns_that_cannot_be_compared_are_refused(one, other, test, told):
    links = f"|R.u - S.v| <= {test}" if test[0].isdigit() else f"R.u {test} S.v"
    with pytest.raises(PenstockError) as error:
        ps.exact(trace(one, other), window=1, predicate=[links, "R.time <= S.time"])
    assert told in str(error.value)


# --------------------------------------------------------------------------------------------------------- bad input

THREE: dict[str, Any] = {"stream": list("RSTRST"), "time": [0, 0, 0, 1, 1, 1], "a": [1, 1, 2, 2, 2, 1], "b": [1, 2, 3, 1, 2, 3]}
GOOD = "R.a = S.a, S.b < T.b"

REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    # what: (columns that differ, options, what the message says)
    "one stream": ({"stream": ["R"] * 6}, {"predicate": "R.a = S.a"}, ["at least two streams", "only R"]),
    "a stream twice": ({}, {"predicate": GOOD, "streams": "R,S,T,S"}, ["streams must name each stream", "'R', 'S', 'T', 'S'"]),
    "unknown stream": ({}, {"predicate": "R.a = S.a, S.b < X.b"}, ["stream of the predicate must be one of R, S, T", "'X'"]),
    "unknown column": ({}, {"predicate": "R.a = S.a, S.c < T.b"}, ["'S.c < T.b'", "'c'", "it has: stream, time, a, b"]),
    "unknown column, one key": ({}, {"predicate": "R.c = S.c, S.c = T.c"}, ["got 'c'", "it has: stream, time, a, b"]),
    "in parts": ({}, {"predicate": "R.a = S.a"}, ["must link all streams", "no link between {R, S} and {T}"]),
    "no link": ({}, {"predicate": "R.a = S.a, S.b ~ T.b"}, ["predicate must be links", "'S.b ~ T.b'"]),
    "cross without links": ({}, {"predicate": "=", "cross": True, "key": "a"}, ["cross", "needs links", "'='"]),
    "sketch": ({}, {"predicate": GOOD, "stats": "sketch"}, ["stats 'sketch'", "'links'", "decayed or window"]),
    "no key": ({}, {"predicate": "="}, ["key"]),
}


def library(columns: dict[str, Any], key: Any, streams: str | None, options: dict[str, Any]) -> str:
    with pytest.raises(PenstockError) as error:
        rows = ps.Trace(columns, key=key, streams=streams and streams.split(","))
        ps.simulate(rows, window=3, memory=3, **options)
    return str(error.value)


@pytest.mark.parametrize("what", REFUSED)
def test_bad_input_is_refused_in_the_library_and_on_the_command_line(what, tmp_path: Path, capsys):
    changed, options, told = REFUSED[what]
    options = dict(options)
    streams, key = options.pop("streams", None), options.pop("key", None)
    said = [library(THREE | changed, key or (), streams, options)]

    pyarrow.parquet.write_table(pa.table(THREE | changed), tmp_path / "t.parquet")
    arguments = ["simulate", str(tmp_path / "t.parquet"), "--window", "3", "--memory", "3"]
    for name, value in {"streams": streams, "key": key, **options}.items():
        arguments += [] if value is None else [f"--{name}"] if value is True else [f"--{name}", value]
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("penstock: ") and captured.err.count("\n") == 1
    said.append(captured.err)
    for text in said:
        assert all(part in text for part in told), text


def test_streams_of_a_problem_have_different_names():
    from penstock.core.problem import Problem

    with pytest.raises(PenstockError, match="streams must have different names, got R more than once"):
        Problem.of(("R", "S", "R"), window=3, memory=3)


def test_given_rates_need_links_on_the_key():
    rows = ps.Trace(THREE, key="a")
    given = {("R", 1): 1.0, ("S", 1): 2.0, ("T", 2): 3.0}
    options: dict[str, Any] = {"window": 3, "memory": 3, "stats": "given", "given": given}
    plain = ps.simulate(rows, **options)
    assert ps.simulate(rows, predicate="R.a = S.a, T.a = S.a", **options).summary() == plain.summary()
    with pytest.raises(PenstockError, match="stats 'given' holds rates by the key of the trace, got links on other columns"):
        ps.simulate(rows, predicate="R.b = S.b, T.b = S.b", **options)
    with pytest.raises(PenstockError, match="stats 'given' holds rates by key; for predicate 'links' use whole"):
        ps.simulate(rows, predicate=GOOD, **options)


def test_a_trace_without_a_key_is_joined_by_links_alone():
    rows = ps.Trace(THREE, key=())
    for predicate in ("=", "<", "eps:1", lambda a, b: True):
        with pytest.raises(PenstockError, match="key must name the columns that are compared, got none"):
            ps.exact(rows, window=3, predicate=predicate)


def test_a_graph_of_other_streams_is_refused():
    from penstock.core.graph import Graph

    graph = Graph.parse("R.a = S.a", ("R", "S"))
    with pytest.raises(PenstockError, match="must link the streams R, S, T, got a graph of R, S"):
        ps.exact(ps.Trace(THREE, key=()), window=3, predicate=graph)


# ---------------------------------------------------------------------------------------------------- command line


def test_the_command_line_joins_by_links(tmp_path: Path, capsys):
    ps.Trace(THREE, key=()).write(tmp_path / "t.csv")
    arguments = [str(tmp_path / "t.csv"), "--window", "3", "--memory", "4", "--format", "json"]
    cases = [
        (["--predicate", GOOD], {"predicate": GOOD}),
        (["--predicate", "R.a = S.a", "--cross"], {"predicate": "R.a = S.a", "cross": True}),
    ]
    for more, options in cases:
        assert run(["simulate", *arguments, "--policy", "prob,fifo", "--exact", *more]) == 0
        said = json.loads(capsys.readouterr().out)
        exact = ps.exact(ps.Trace(THREE, key=()), window=3, **options)
        for line in said:
            wanted = ps.simulate(ps.Trace(THREE, key=()), window=3, memory=4, policy=line["policy"], **options)
            assert {name: line[name] for name in wanted.summary()} == wanted.summary()
            assert line["recall"] == wanted.n_output / exact.n_output
        assert run(["optimum", *arguments, *more]) == 0
        best = ps.optimum(ps.Trace(THREE, key=()), window=3, memory=4, **options)
        assert json.loads(capsys.readouterr().out)["value"] == best.value >= max(line["value"] for line in said)
