"""`ps.lookup`: formula 5 for every row, wherever the relation lives and however its facts are found."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.relation import lookup as module
from penstock.relation.lookup import look_up
from penstock.relation.record import record

LINKS = ["R.x = a", "b = S.y"]
moments = st.one_of(st.none(), st.integers(0, 8))
rows = st.lists(st.tuples(st.sampled_from("RS"), st.integers(0, 8), st.one_of(st.none(), st.integers(0, 3))), min_size=1, max_size=20)
facts = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), moments, moments), max_size=12)


def trace_of(rows: Any) -> ps.Trace:
    values = {
        name: pa.array([value if stream == of else None for stream, _, value in rows], pa.int64()) for name, of in (("x", "R"), ("y", "S"))
    }
    return ps.Trace({"stream": [row[0] for row in rows], "time": [row[1] for row in rows], **values}, key=(), streams=("R", "S"))


def table_of(facts: Any) -> pa.Table:
    """Facts of one interval each, told apart by n."""
    kept = [fact for fact in facts if fact[2] is None or fact[3] is None or fact[2] <= fact[3]]
    columns = {name: pa.array([fact[place] for fact in kept], pa.int64()) for place, name in enumerate(("a", "b", "begin", "end"))}
    return pa.table({**columns, "n": pa.array(range(len(kept)), pa.int64())})


@settings(max_examples=25)
@given(rows, facts, st.sampled_from(["scan", "hash", "index", "auto"]), st.booleans())
def test_each_row_meets_the_facts_that_are_active_at_its_time(tmp_path_factory, rows, facts, access, in_database):
    table = table_of(facts)
    expected = [
        (place, fact["n"])
        for place, (stream, time, value) in enumerate(rows)
        for fact in table.to_pylist()
        if value is not None
        and fact["a" if stream == "R" else "b"] == value
        and (fact["begin"] is None or fact["begin"] <= time)
        and (fact["end"] is None or time < fact["end"])
    ]
    source: Any = table
    with pytest.MonkeyPatch.context() as patch:
        if in_database:
            path = tmp_path_factory.mktemp("zones") / "zones.duckdb"
            with duckdb.connect(str(path)) as made:
                made.register("facts", table)
                made.execute("CREATE TABLE pairs AS FROM facts")
            source = f"duckdb:{path}#pairs"
            patch.setattr(module, "_AT_ONCE", 3)
        numbered = ps.Trace(trace_of(rows).table.append_column("row", pa.array(range(len(rows)))), key=(), streams=("R", "S"))
        found = ps.lookup(numbered, ps.relation(source, links=LINKS, columns=["n"], id="n", name="f"), access=access)
    assert sorted(zip(found["row"].to_pylist(), found["f_n"].to_pylist(), strict=True)) == expected
    assert found.column_names == ["stream", "time", "x", "y", "row", "f_n"] and found["row"].to_pylist() == sorted(found["row"].to_pylist())


def test_only_facts_of_keys_in_use_are_read(tmp_path):
    with duckdb.connect(str(tmp_path / "zones.duckdb")) as made:
        made.execute("CREATE TABLE fares AS SELECT range AS zone, range * 2 AS fare FROM range(100000)")
    record(pa.table({"zone": range(1000), "fare": range(1000)}), tmp_path / "h", keys=["zone"], columns=["fare"], time=0)
    rides = pa.table({"time": [1, 2, 3], "zone": [7, None, 7]})
    for source in (f"duckdb:{tmp_path / 'zones.duckdb'}#fares", f"history:{tmp_path / 'h'}", f"history:{tmp_path / 'h'}@1"):
        found = look_up(rides, ps.relation(source, links=["rides.zone = zone"], columns=["fare"], name="f"))
        assert found.n_facts == 1 and len(found.table) == 2 and found.table.column_names == ["time", "zone", "f_fare"]


def test_all_other_columns_are_joined_where_none_is_named(tmp_path):
    fares = {"zone": ["a"], "begin": [0], "fare": [10], "kind": ["day"]}
    rides = pa.table({"at": [1], "zone": ["a"]})
    assert ps.lookup(rides, ps.relation(fares, links=["r.zone = zone"], name="f"), time="at").to_pylist() == [
        {"at": 1, "zone": "a", "f_fare": 10, "f_kind": "day"}
    ]
    pairs = {"a": ["a"], "b": ["c"]}
    of = ps.relation(pairs, links=["r.zone = a", "b = s.zone"], name="f")
    assert ps.lookup(rides, of, time="at", name="r").to_pylist() == [{"at": 1, "zone": "a", "f_a": "a", "f_b": "c"}]


RIDES = pa.table({"time": [1], "zone": ["a"], "f_fare": [1]})
FARES = {"zone": ["a"], "fare": [10], "begin": [0]}
REFUSED: dict[str, tuple[Any, dict[str, Any], dict[str, Any], str]] = {
    "no stream": ([1, 2], {}, {}, "stream must be a ps.Trace or an Arrow table, got list"),
    "no time": (RIDES, {}, {"time": "ts"}, "time must be a column of the stream, got 'ts'; it has: time, zone, f_fare"),
    "no such column": (RIDES, {"links": ["r.zones = zone"]}, {}, "must be linked by columns of the stream, got 'zones'"),
    "no such attribute": (RIDES, {"links": ["r.zone = zones"]}, {}, "must have the linked column 'zones'"),
    "of which of two": (RIDES, {"links": ["r.zone = zone", "fare = s.zone"]}, {}, "name must say which of the streams r, s the table is"),
    "another type": (RIDES, {"links": ["r.zone = fare"]}, {}, "one type"),
    "a name that is taken": (RIDES, {}, {}, "must have no column 'f_fare'"),
    "a stream that is not linked": (ps.Trace.from_streams(r="a", q="b"), {"links": ["r.key = zone"]}, {}, "got no link of q"),
    "no access": (RIDES, {}, {"access": "tree"}, "access must be one of auto, scan, hash, index, got 'tree'"),
}


@pytest.mark.parametrize(("stream", "relation", "options", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_is_wrong_is_refused_in_one_sentence(stream, relation, options, sentence):
    with pytest.raises(ps.PenstockError, match=sentence):
        ps.lookup(stream, ps.relation(FARES, **{"links": ["r.zone = zone"], "name": "f"} | relation), **options)


def test_a_relation_that_is_none_and_facts_that_are_there_twice_are_refused():
    with pytest.raises(ps.PenstockError, match=r"relation must be one made by ps.relation\(...\), got dict"):
        ps.lookup(RIDES, FARES)
    twice = {"zone": ["a", "a"], "fare": [10, 12]}
    with pytest.raises(ps.PenstockError, match="each fact once"):
        ps.lookup(RIDES, ps.relation(twice, links=["r.zone = zone"], id="zone"))


def test_times_of_a_zone_and_texts():
    at = np.array(["2026-01-01T00:00", "2026-01-02T00:00"], dtype="datetime64[us]")
    rides = pa.table({"time": pa.array(at).cast(pa.timestamp("us", "UTC")), "zone": ["a", "a"]})
    fares = pa.table({"zone": ["a"], "begin": pa.array(at[1:]).cast(pa.timestamp("us", "UTC")), "fare": [1.5]})
    assert ps.lookup(rides, ps.relation(fares, links=["r.zone = zone"], name="f"))["f_fare"].to_pylist() == [1.5]
