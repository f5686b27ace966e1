"""What a relation may be made of, and what is refused, each in one sentence."""

from __future__ import annotations

import datetime as dt
import itertools
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import pytest

import penstock as ps
from penstock.core.errors import PenstockError
from penstock.relation.numbered import Numbered

LINKS = ("R.u = a", "b = S.v")
NOON = dt.datetime(2026, 1, 31, 12)


def trace(**columns: Any) -> ps.Trace:
    """A row of R and one of S at each time."""
    given = {"stream": ["R", "S", "R", "S"], "time": [0, 0, 1, 1], "u": ["p", None, "q", None], "v": [None, 7, None, 8]}
    return ps.Trace(given | columns, key=())


def refused(facts: Any, rows: ps.Trace | None = None, **options: Any) -> str:
    with pytest.raises(PenstockError) as error:
        Numbered.of(rows or trace(), ps.relation(facts, **({"links": LINKS} | options)))
    return str(error.value)


def test_equal_values_of_both_sides_have_equal_numbers_and_nulls_have_none() -> None:
    facts = {
        "a": pa.array(["q", "p", "z"]).dictionary_encode(),
        "b": pa.array([7, 9, 8], pa.int16()),
        "weight": [1, 2, 3],
        "end": [4, None, 2],
    }
    found = Numbered.of(trace(), ps.relation(facts, links=LINKS))
    row, fact = found.values, found.facts[0]
    assert [row[0, 0] == fact.keys[1, 0], row[2, 0] == fact.keys[0, 0], row[1, 1] == fact.keys[0, 1], row[3, 1] == fact.keys[2, 1]] == [
        True
    ] * 4
    assert (row[[1, 3], 0] == -1).all() and (row[[0, 2], 1] == -1).all()
    assert fact.end.tolist()[::2] == [4, 2] and fact.active(10).tolist() == [False, True, False] and fact.weight.tolist() == [1, 2, 3]
    assert found.through[0].weighted
    none = Numbered.of(trace(u=[None] * 4), ps.relation(facts, links=LINKS))
    assert (none.values[:, 0] == -1).all()


def test_files_tables_and_columns_are_the_same_relation(tmp_path) -> None:  # type: ignore[no-untyped-def]
    columns = {"a": ["p", "q"], "b": [7, 8], "since": [0, 1]}
    pa.parquet.write_table(pa.table(columns), tmp_path / "pairs.parquet")
    sources = (columns, pa.table(columns), tmp_path / "pairs.parquet", str(tmp_path / "pairs.parquet"))
    runs = [
        ps.exact(trace(), window=5, through=ps.relation(one, links=LINKS, begin="since"), keep=ps.Keep(outputs=True)) for one in sources
    ]
    assert [run.outputs.tolist() for run in runs] == [[[0, 0, 1, 0], [1, 2, 3, 1]]] * 4
    assert ps.relation(sources[3], links=LINKS).called == "pairs"


def test_times_are_those_of_the_trace() -> None:
    hours = [NOON + dt.timedelta(hours=hour) for hour in (0, 0, 1, 1)]
    rows = trace(time=hours)
    until = pa.array([None, NOON + dt.timedelta(hours=1)], pa.timestamp("ns"))
    facts = {"a": ["p", "q"], "b": [7, 8], "begin": [dt.date(2026, 1, 31), None], "end": until}
    assert ps.exact(rows, window="5 hours", through=ps.relation(facts, links=LINKS)).n_output == 1
    assert "begin 'begin' of relation facts must be of the type of the streams' times, int64, got date32" in refused(facts)
    assert "got string" in refused({"a": ["p"], "b": [7], "end": ["tomorrow"]})


def test_times_without_a_zone_are_in_utc() -> None:
    hours = pa.array([NOON + dt.timedelta(hours=hour) for hour in (0, 0, 1, 1)], pa.timestamp("us"))
    begin, end = (pa.array([NOON + dt.timedelta(minutes=minute)] * 2, pa.timestamp("us")) for minute in (30, 61))
    made = []
    for ours, theirs in itertools.product((None, "UTC", "Asia/Tokyo"), repeat=2):
        zoned = [pc.assume_timezone(column, "UTC").cast(pa.timestamp("us", theirs)) if theirs else column for column in (begin, end)]
        time = pc.assume_timezone(hours, "UTC").cast(pa.timestamp("us", ours)) if ours else hours
        facts = {"a": ["p", "q"], "b": [7, 8], "begin": zoned[0], "end": zoned[1]}
        made.append(ps.exact(trace(time=time), window="5 hours", through=ps.relation(facts, links=LINKS)).n_output)
    assert made == [1] * 9


ONE = {"a": ["p", "p"], "b": [7, 7]}


@pytest.mark.parametrize(
    ("facts", "options", "wanted"),
    [
        (ONE, {}, "got the fact a = 'p', b = 7 in rows 0 and 1, whose times overlap; facts that are different need id= or columns="),
        (ONE | {"begin": [0, 3], "end": [4, None]}, {}, "the fact a = 'p', b = 7 in rows 0 and 1, whose times overlap"),
        (ONE | {"fare": ["x", None]}, {"columns": "fare"}, ""),
        (ONE | {"fare": [None, None]}, {"columns": "fare"}, "the fact a = 'p', b = 7, fare = None in rows 0 and 1"),
        (ONE | {"n": [3, 4]}, {"id": "n"}, ""),
        (ONE | {"n": [3, 3]}, {"id": ["n"]}, "the fact n = 3 in rows 0 and 1, whose times overlap"),
        (ONE | {"begin": [4, 0], "end": [None, 4]}, {}, ""),
        (ONE | {"begin": [2, 0], "end": [2, None]}, {}, ""),
        ({"a": ["p"], "b": [7], "begin": [5], "end": [4]}, {}, "got one in row 0, the fact a = 'p', b = 7"),
        ({"a": ["p", None], "b": [7, 7]}, {}, "column 'a' of relation facts must have no nulls, got one in row 1"),
        ({"a": ["p", "q"], "b": [7.0, float("nan")]}, {}, "column 'b' of relation facts must have no nulls, got one in row 1"),
        ({"a": ["p"], "c": [7]}, {}, "relation facts must have the linked column 'b', it has: a, c"),
        (ONE, {"name": "f", "end": "until"}, "relation f must have the column of end= 'until', it has: a, b"),
        (ONE, {"columns": ["fare"]}, "must have the column of columns= 'fare'"),
        ({"a": [1], "b": [7]}, {}, "link R.u = a of relation facts must compare columns of one type, got string and int64"),
        ({"a": ["p"], "b": [7], "weight": [0]}, {}, "weight 'weight' of relation facts must be positive"),
        ({"a": ["p"], "b": [7], "w": ["much"]}, {"weight": "w"}, "weight 'w' of relation facts must be numeric, got string"),
        ({"a": ["p"], "b": [7, 8]}, {}, "the columns of a relation must be of one length"),
        (3.5, {}, "source of relation facts must be a table, columns by name, or a file that ends in"),
        ("pairs.xml", {}, "must end in .parquet"),
        (ONE, {"lateness": "-5 seconds"}, "lateness of a relation must not be negative"),
        (ONE, {"lateness": "soon"}, "lateness of a relation must be a number of ticks or a duration"),
        (ONE, {"id": 5}, "id of a relation must be names of its columns, got 5"),
        (ONE, {"links": "R.u = a"}, "links must be a list of texts"),
        (ONE, {"links": ["R.u = a", "b = T.v"]}, "stream in the links of relation facts must be one of R, S, got 'T'"),
        ({"a": [1], "b": [7]}, {"links": ["R.v = a", "b = S.w"]}, "link S.w = b of relation facts must name a column of the trace"),
        (ONE, {"links": ["R.u = a"]}, "links of relation facts must link two streams or more"),
    ],
)  # fmt: skip
def test_bad_facts_are_refused(facts: Any, options: dict[str, Any], wanted: str) -> None:
    if wanted:
        assert wanted in refused(facts, **options)
    else:
        Numbered.of(trace(), ps.relation(facts, links=LINKS, **options))


def test_relations_that_are_no_tree_and_what_is_not_there_yet_are_refused() -> None:
    pairs = ps.relation({"a": ["p"], "b": [7]}, links=LINKS)
    run = {"window": 5, "memory": 4, "through": pairs}
    for wanted, options in {
        "through must have relations of different names": {"through": [pairs, pairs]},
        "through must be relations made by ps.relation": {"through": ["pairs.csv"]},
        "in one way, got relation more": {"through": [pairs, ps.relation({"a": ["p"], "b": [7]}, links=LINKS, name="more")]},
        "predicate must be left out": {"predicate": "R.u = S.v"},
        "shards must be left out": {"shards": 2},
        "matches must be left out": {"matches": 1},
        "policy 'learned' counts equal keys, got a join through relations": {"policy": "learned"},
        "policy 'ep' looks at equal keys, predicate must be '=', got a join through relations": {"policy": "ep"},
        "must be a length of time": {"window": "rows:5"},
    }.items():
        with pytest.raises(PenstockError) as error:
            ps.simulate(trace(), **(run | options))
        assert wanted in str(error.value)
