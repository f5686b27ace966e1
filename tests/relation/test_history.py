"""The history of a relation: any snapshots and any feed give the intervals worked out by hand, as of any version."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

import penstock as ps
from penstock.ledger import store
from penstock.relation import history_writer
from penstock.relation.history import History
from penstock.relation.history_writer import Writer
from penstock.relation.record import record

Fact = tuple[Any, ...]
KEYS = ["a", "b"]
facts = st.tuples(st.sampled_from("pqr"), st.integers(0, 2), st.sampled_from([None, "x", "y"]))
SCHEMA = pa.schema([("a", pa.string()), ("b", pa.int64()), ("c", pa.string())])


def table(rows: Any) -> pa.Table:
    return pa.table({name: [row[place] for row in rows] for place, name in enumerate("abc")}, SCHEMA)


def intervals(found: pa.Table) -> list[Fact]:
    """What is known of each fact, without its number."""
    return sorted(map(tuple, (row.values() for row in found.drop(["fact"]).to_pylist())), key=repr)


@settings(max_examples=20)
@given(st.lists(st.sets(facts, max_size=6), min_size=1, max_size=8), st.booleans())
def test_any_snapshots_give_the_intervals_worked_out_by_hand(tmp_path_factory, snapshots, is_small):
    folder = tmp_path_factory.mktemp("h") / "zones"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history_writer, "_LEAST", 4 if is_small else 1000)  # so that bases are made
        patch.setattr(history_writer, "_BATCH", 2)
        tables = [table(sorted(seen, key=repr)) for seen in snapshots]
        versions = [record(seen, folder, keys=KEYS, columns="c", time=10 * time).number for time, seen in enumerate(tables)]
    read = History(folder)
    for number in set(versions):
        upto = max(time for time, version in enumerate(versions) if version == number)
        expected: list[Fact] = []
        for fact in set().union(*snapshots):
            there = [fact in seen for seen in snapshots[: upto + 1]]
            for begin in (at for at in range(upto + 1) if there[at] and not (at and there[at - 1])):
                end = next((at for at in range(begin, upto + 1) if not there[at]), None)
                expected.append((*fact, 10 * begin if begin else None, end and 10 * end, 10 * begin, end and 10 * end))
        assert intervals(read.facts(number)) == sorted(expected, key=repr)
        some = [row for row in expected if row[1] in (0, 2)]
        assert intervals(read.facts(number, "b", pa.array([2, 0, 9]))) == sorted(some, key=repr)
        kept = read.facts(number, "a", keep=lambda column: [value == "q" for value in column.to_pylist()])
        assert intervals(kept) == sorted([row for row in expected if row[0] == "q"], key=repr)


moves = st.lists(st.tuples(st.integers(0, 3), facts, st.booleans()), max_size=25)


@given(moves, st.lists(st.integers(0, 25), max_size=4), st.booleans())
def test_a_feed_cut_anywhere_gives_the_intervals_worked_out_by_hand(tmp_path_factory, moves, cuts, is_debezium):
    """Facts are told apart by a and b, and c changes by updates."""
    folder = tmp_path_factory.mktemp("f")
    there: dict[Fact, list[Any]] = {}
    expected, lines, time = [], ['{"op": "r", "time": 0, "a": "z", "b": 0, "c": null}\n'], 0
    if is_debezium:
        lines = ['{"op": "r", "before": null, "after": {"a": "z", "b": 0, "c": null}, "ts_ms": 0}\n', "\n"]
    for step, (a, b, c), leaves in moves:
        time += step
        old = there.get((a, b))
        op = "insert" if old is None else "delete" if leaves else "update"
        if old is not None and (leaves or old[0] != c):
            expected.append((a, b, *old, time))
            del there[a, b]
        if not (old is not None and leaves) and (a, b) not in there:
            there[a, b] = [c, time]
        row = {"a": a, "b": b, "c": old[0] if old and leaves else c, "ignored": step}
        before = None if old is None else {"a": a, "b": b, "c": old[0]}
        change: dict[str, Any] = {"op": op, "time": time, **row}
        if is_debezium:
            names = {"op": {"insert": "c"}.get(op, op[0]), "before": before, "after": None if op == "delete" else row}
            change = {"schema": {}, "payload": {**names, "source": {"ts_ms": time}, "ts_ms": 99}}
        lines.append(json.dumps(change) + "\n")
    places = sorted({1 + is_debezium, *(min(cut + 1 + is_debezium, len(lines)) for cut in cuts), len(lines)})
    for place in places:
        (folder / "feed.jsonl").write_text("".join(lines[:place]) + '{"op": "ins')
        record(f"feed:{folder / 'feed.jsonl'}", folder / "h", keys=KEYS, id=KEYS, columns="c")
    found = History(folder / "h").facts()
    if is_debezium:
        assert found["begin"].type == pa.timestamp("us", "UTC")
        found = found.set_column(4, "begin", found["begin"].cast(pa.int64())).set_column(5, "end", found["end"].cast(pa.int64()))
    scale = 1000 if is_debezium else 1
    expected += [(a, b, c, begin, None) for (a, b), (c, begin) in there.items()]
    scaled = [(a, b, c, begin * scale, None if end is None else end * scale) for a, b, c, begin, end in expected]
    assert sorted(map(tuple, (row.values() for row in found.select(["a", "b", "c", "begin", "end"]).to_pylist())), key=repr) == sorted(
        [*scaled, ("z", 0, None, None, None)], key=repr
    )


FEEDS = {
    "back beyond the lateness": (
        [("insert", 9, 1), ("", 0, 0), ("insert", 3, 2)],
        "before what was processed, 9, got a change of 3",
    ),
    "a fact twice": ([("insert", 1, 1), ("insert", 2, 1, 8)], "must end before it begins again, got a = 1 in line 2"),
    "its changes in disorder": (
        [("insert", 4, 1), ("delete", 7, 1), ("", 0, 0), ("insert", 6, 1)],
        "got a = 1 in line 3.* ended at 7",
    ),
    "its end before its begin": ([("insert", 7, 1), ("", 0, 0), ("delete", 6, 1)], "which ends at 6 and begins at 7"),
    "back by the clock": (
        [("insert", "2026-01-31T12:00:00Z", 1), ("", 0, 0), ("insert", "2026-01-31T11:00:00Z", 2)],
        r"lateness \(5 microseconds\) before what was processed, 2026-01-31T12:00:00Z, got a change of 2026-01-31T11:00:00Z in line 2",
    ),
    "a null key": ([("insert", 4, None)], "no null keys, got one in 'a' in line 1"),
    "a key that is no number": ([("insert", 4, float("nan"))], "no null keys, got one in 'a' in line 1"),
    "another type": ([("insert", 4, 1), ("insert", 4, "x")], "must have values of one type"),
    "another type later": ([("insert", 4, 1), ("", 0, 0), ("insert", 4, "x")], "column 'a' must be int64, got 'x' in line 2"),
    "an operation nobody knows": (
        [("upsert", 4, 1)],
        "op in line 1 of feed.jsonl must be one of insert, present",
    ),
    "no time": ([("insert", None, 1)], "time in line 1 of feed.jsonl must be a whole number or a time"),
    "times of two kinds": ([("insert", 1, 1), ("insert", "2026-01-01", 2)], "must have times of one kind"),
}


def lines_of(changes: Any) -> str:
    return "".join(json.dumps(dict(zip(("op", "time", "a", "b"), change, strict=False))) + "\n" for change in changes)


@pytest.mark.parametrize("changes", FEEDS.values(), ids=FEEDS)
def test_a_feed_that_is_wrong_is_refused_in_one_sentence_and_what_was_before_stays(changes, tmp_path):
    feed, text = tmp_path / "feed.jsonl", ""
    parts = [part.split("\n")[:-1] for part in lines_of(changes[0]).split('{"op": "", "time": 0, "a": 0}\n')]
    for number, part in enumerate(parts):
        text += "".join(line + "\n" for line in part)
        feed.write_text(text)
        if number < len(parts) - 1:
            before = record(f"feed:{feed}", tmp_path / "h", keys=["a"], id=["a"], columns=["b"] if "b" in text else [], lateness=5)
    with pytest.raises(ps.PenstockError, match=changes[1]):
        record(f"feed:{feed}", tmp_path / "h", keys=["a"], id=["a"], columns=["b"] if "b" in text else [], lateness=5)
    if len(parts) > 1:
        assert History(tmp_path / "h").version() == before


def test_late_and_repeated_changes_and_ends_of_nothing_are_counted(tmp_path):
    feed = tmp_path / "feed.jsonl"
    changes = [("insert", 1, 1), ("insert", 10, 2), ("insert", 10, 2), ("delete", 11, 3)]
    feed.write_text(lines_of(changes))
    record(f"feed:{feed}", tmp_path / "h", keys="a")
    feed.write_text(lines_of([*changes, ("delete", 8, 1), ("insert", 9, 4)]))
    found = record(f"feed:{feed}", tmp_path / "h", keys="a", lateness=3)
    assert found.counts == {"begun": 3, "ended": 1, "late": 2, "repeated": 1, "unmatched": 1}
    assert History(tmp_path / "h").facts().to_pydict() == {
        "fact": [0, 1, 2], "a": [1, 2, 4], "begin": [1, 10, 9], "end": [8, None, None], "known_begin": [11, 11, 11],
        "known_end": [11, None, None],
    }  # fmt: skip
    feed.write_text("")
    with pytest.raises(ps.PenstockError, match="must not lose lines"):
        record(f"feed:{feed}", tmp_path / "h", keys="a")


def test_other_keys_times_and_snapshots_are_refused(tmp_path):
    rows = {"a": [1, 2], "b": [3, 3]}
    record(rows, tmp_path / "h", keys=["a"], time=5)
    for options, sentence in (
        ({"keys": ["b"]}, "must go on as it began, with keys a, id none, columns a, got keys b"),
        ({"keys": ["a"], "time": "2026-01-01"}, "must be of the type of the history's times, int64"),
        ({"keys": ["a"], "time": 4}, "must not be before the last, 5, got 4"),
    ):
        with pytest.raises(ps.PenstockError, match=sentence):
            record(rows, tmp_path / "h", **{"time": 6} | options)
    record(rows, tmp_path / "dated", keys=["a"], time="2026-01-31 12:00")
    with pytest.raises(ps.PenstockError, match="must not be before the last, 2026-01-31T12:00:00Z, got 2026-01-31T11:00:00Z"):
        record(rows, tmp_path / "dated", keys=["a"], time="2026-01-31 11:00")
    with pytest.raises(ps.PenstockError, match="each fact once, got b = 3 more than once"):
        record(rows, tmp_path / "other", keys=["b"], time=6)
    with pytest.raises(ps.PenstockError, match="no null keys, got 1 in column 'a'"):
        record({"a": [1, None]}, tmp_path / "other", keys=["a"], time=6)
    with pytest.raises(ps.PenstockError, match="no null keys, got 1 in column 'a'"):
        record({"a": [1.0, float("nan")]}, tmp_path / "other", keys=["a"], time=6)
    with pytest.raises(ps.PenstockError, match=r"must be a folder in which Penstock .*nowhere', which has no version"):
        ps.relation(f"history:{tmp_path / 'nowhere'}", links=["r.x = a"]).load()
    with pytest.raises(ps.PenstockError, match=r"key 'a' of the history .* is of type int64, got values of type string"):
        History(tmp_path / "h").facts(None, "a", pa.array(["x"]))
    with pytest.raises(ps.PenstockError, match="must have version 7, it has versions 1 to 1"):
        History(tmp_path / "h").facts(7)


def test_a_writer_that_is_killed_leaves_a_whole_history_and_no_lock(tmp_path):
    folder = tmp_path / "h"
    before = record({"a": [1]}, folder, keys="a", time=0)
    program = f"""
import os, signal
from penstock.ledger.store import Store
from penstock.relation.record import record
put = Store.put
def killed(store, name, data):
    if name.startswith("versions"):
        os.kill(os.getpid(), signal.SIGKILL)
    put(store, name, data)
Store.put = killed
record({{"a": [2]}}, {str(folder)!r}, keys="a", time=1)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False, env=os.environ).returncode == -signal.SIGKILL
    assert len(list((folder / "changes").iterdir())) == 2 and History(folder).version() == before
    assert record({"a": [3]}, folder, keys="a", time=2).counts == {"begun": 2, "ended": 1}
    assert History(folder).facts()["a"].to_pylist() == [1, 3]


def test_damage_is_noticed(tmp_path):
    record({"a": [1]}, tmp_path / "h", keys="a", time=0)
    manifest = tmp_path / "h" / "versions" / "000000001.json"
    text = manifest.read_text()
    manifest.write_text(text.replace('"next_fact": 1', '"next_fact": 2'))
    with pytest.raises(ps.PenstockError, match=r"history must be a whole history: .*checksum"):
        History(tmp_path / "h").facts()
    manifest.write_text(text)
    file = next((tmp_path / "h" / "changes").iterdir())
    file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(ps.PenstockError, match="whole history"):
        History(tmp_path / "h").facts()
    file.unlink()
    with pytest.raises(ps.PenstockError, match="whole history"):
        History(tmp_path / "h").facts()


def test_a_history_in_a_store_without_locks_is_taken_over(tmp_path, monkeypatch):
    (tmp_path / "h").mkdir()
    elsewhere = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())  # not of the type of a disk's
    monkeypatch.setattr(store, "_open", lambda folder, argument: (elsewhere, folder, folder))
    with Writer("h") as first:
        record({"a": [1]}, "h", keys="a", time=0)
        plan = History("h").plan
        with pytest.raises(ps.PenstockError, match="was written by another process"):
            first.add(plan, plan.schema.empty_table(), History("h").version())
    assert History("h").facts(1, "a", pa.array([1]))["a"].to_pylist() == [1]
