"""The ledger without Spark: its rule, its files, its marks."""

from __future__ import annotations

import datetime as dt
import json
import os
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from ledgers import a_checkpoint, one_row
from penstock.ledger.attempts import manifests
from penstock.ledger.ledger import BATCH, GONE, LEFT, ROW, STREAM, TIME, Ledger, find, hull
from penstock.ledger.ledger_plan import LedgerPlan
from penstock.ledger.pruning import pruned
from penstock.ledger.sealed import sealed
from penstock.ledger.settled_marks import Mark, bounds, last_certain, last_commit, marks, query_of, reach, settled, stretches, together
from penstock.ledger.store import Store
from shards import owed, plan_of, played, tables, write
from strategies import examples


@examples(4)
@given(
    st.randoms(use_true_random=False),
    st.sampled_from(tuple(ps.POLICIES)),
    st.sampled_from(((8, 8), (3, 20), (1, 1), (6, 6, 6), (4, 9, 2))),
    st.integers(1, 20),
    st.integers(0, 12),
    st.integers(0, 12),
    st.integers(1, 6),
    st.sampled_from(("variable", "fixed")),
)
def test_what_met_was_emitted_and_nothing_else(random, policy, windows, memory, lateness, disorder, batches, allocation):
    """emitted = those of the exact result whose members met: over policies, budgets, disorder, broken promises, splits into batches."""
    shard = played(
        random, policy=policy, windows=windows, memory=max(memory, len(windows)), lateness=lateness, disorder=disorder,
        batches=batches, allocation=allocation, rows=40,
    )  # fmt: skip
    exact = shard.exact()
    assert len(set(exact)) == len(exact)
    assert sorted(shard.emitted) == sorted((batch, members) for batch, members in exact if shard.met(members))


@pytest.mark.parametrize("windows", ((None, None), (None, 5)))
def test_what_met_was_emitted_in_unbounded_windows_and_by_the_stepwise_engine(windows):
    for seed in range(6):
        shard = played(Random(seed), windows=windows, disorder=4, memory=5, half_life=8.0, stepwise=seed % 2 == 1)
        assert sorted(shard.emitted) == sorted((batch, members) for batch, members in shard.exact() if shard.met(members))
        assert owed([shard])


# ---------------------------------------------------------------------------------------------------------------- files


def the_files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_batch_of_a_shard_is_one_page_a_replay_writes_it_again_and_another_attempt_beside_it(tmp_path):
    ledger = Ledger(tmp_path / "archive", plan_of((8, 8)), "q1")
    made = ledger.write(12, 3, *one_row())
    page = tmp_path / "archive" / "test-q1" / "batches" / f"{made.stem}.parquet"
    once = page.read_bytes()
    assert ledger.write(12, 3, *one_row()) == made
    assert the_files(tmp_path / "archive") == [
        f"test-q1/batches/{made.stem}.parquet", f"test-q1/manifests/{made.stem}.json", "test-q1/plan.json",
    ]  # fmt: skip
    assert page.read_bytes() == once
    other = ledger.write(12, 3, *one_row(a_v=[2]))
    assert other[:3] == made[:3] and other != made and page.read_bytes() == once
    table = pq.read_table(tmp_path / "archive" / "test-q1" / "batches" / f"{other.stem}.parquet")
    assert table["c1"].to_pylist() == [2, None] and table[LEFT].to_pylist() == [None, 3] and table[STREAM].to_pylist() == [0, GONE]
    assert table[BATCH].to_pylist() == [12, 12] and table[ROW].to_pylist() == [7, 7]


def test_a_shard_in_which_nothing_happened_leaves_a_manifest_and_no_page(tmp_path):
    ledger = Ledger(tmp_path, plan_of((8, 8)), "q1")
    made = ledger.write(1, 0, [None, None], one_row()[1].slice(0, 0))
    assert the_files(tmp_path) == [f"test-q1/manifests/{made.stem}.json", "test-q1/plan.json"]


def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path, plan_of((8, 8)), "q1")
    made = ledger.write(0, 0, *one_row())
    before = the_files(tmp_path)

    def half(self: Store, path: str, data: Any) -> None:
        with self.files.open_output_stream(path) as out:
            out.write(bytes(data)[:10])
            raise OSError("no space left on device")

    monkeypatch.setattr(Store, "_write", half)
    with pytest.raises(ps.PenstockError, match=r"archive must be a folder that can be written.*no space left"):
        ledger.write(0, 0, *one_row(a_v=[2]))
    assert the_files(tmp_path) == before
    assert pq.read_table(tmp_path / "test-q1" / "batches" / f"{made.stem}.parquet")["c1"].to_pylist() == [1, None]


def test_an_archive_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(ps.PenstockError, match=r"archive must be a folder that can be .*file/archive"):
        Ledger(tmp_path / "file" / "archive", plan_of((8, 8)), "q1")
    ledger = Ledger(tmp_path / "archive", plan_of((8, 8)), "q1")
    (tmp_path / "archive" / "test-q1" / "batches").write_text("in the way")
    with pytest.raises(ps.PenstockError, match=r"archive must be a folder that can be written, got .*archive"):
        ledger.write(0, 0, *one_row())


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_an_archive_without_permission_is_named(tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(ps.PenstockError, match=r"archive must be a folder that can be written, got .*locked"):
        Ledger(tmp_path / "locked", plan_of((8, 8)), "q1")


@pytest.mark.parametrize("folder", ("", "nowhere://bucket/x"))
def test_a_folder_that_nobody_knows_is_refused(folder):
    with pytest.raises(ps.PenstockError, match="archive must be a folder"):
        Ledger(folder, plan_of((8, 8)), "q1")


def test_the_same_folder_in_all_its_spellings(tmp_path):
    (tmp_path / "a%20b c").mkdir()
    spellings = [tmp_path / "a%20b c", str(tmp_path / "a%20b c") + "/", f"file://{tmp_path}/a%20b c", f"file:{tmp_path}/a%20b c"]
    stores = [Store(folder) for folder in spellings]
    stores[0].put("x", b"1")
    assert {store.read("x") for store in stores} == {b"1"}
    assert {store.url for store in stores} == {f"file://{tmp_path}/a%20b c"}


def test_a_store_of_fsspec(monkeypatch):
    pytest.importorskip("fsspec")
    ledger = Ledger("memory://archive", plan_of((8, 8)), "q1")
    made = [ledger.write(0, 0, *one_row()), ledger.write(0, 0, *one_row(a_v=[2]))]
    pages = find("memory://archive")
    assert pages.attempts() == sorted(made)
    assert pages.spans([pages.page(made[1])]) == {0: [(5, 5), None]}


def test_a_store_with_atomic_puts_is_written_in_one_piece(tmp_path, monkeypatch):
    """As an object store: no hidden files, no moves, no folders of its own."""
    ledger = Ledger(tmp_path, plan_of((8, 8)), "q1")
    for name in ("batches", "manifests"):
        (tmp_path / "test-q1" / name).mkdir()
    ledger.store._by_move = False
    monkeypatch.setattr(Store, "_move", lambda *_: pytest.fail("moved"))
    ledger.write(0, 0, *one_row())
    assert len(find(tmp_path).attempts()) == 1


ODD: dict[str, pa.Array] = {
    "decimal": pa.array([Decimal("1.50"), None], pa.decimal128(20, 2)),
    "struct": pa.array([{"a": 1, "b": [None, "x"]}, None]),
    "map": pa.array([[("x", 1.5)], None], pa.map_(pa.string(), pa.float64())),
    "zoneless": pa.array([dt.datetime(1500, 1, 1), None], pa.timestamp("us")),
    "timestamp": pa.array([dt.datetime(2026, 1, 1, tzinfo=dt.UTC), None], pa.timestamp("us", "UTC")),
    "binary": pa.array([b"\x00\xff", None]),
    "date": pa.array([dt.date(1400, 2, 28), None]),
    "interval": pa.array([dt.timedelta(days=1, microseconds=1), None], pa.duration("us")),
    "byte": pa.array([-128, None], pa.int8()),
    "boolean": pa.array([True, None]),
}


def test_payload_of_any_type_comes_back(tmp_path):
    names = ["k", *ODD, "time", "row"]
    fields = json.dumps({"type": "struct", "fields": [{"name": name} for name in names]})
    plan = plan_of((8, 8), payload=(("k", *ODD), ("time", "row")), has_importance=False, schema=fields)
    ledger = Ledger(tmp_path, plan, "q1")
    ours = {"row": [1, 2], "arrived": [1, 1], "time": [5, 5], "key0": ["x", "y"]}
    left_side = pa.table(ours | {"k": ["x", "y"]} | ODD | {"void": pa.nulls(2)})
    # Payload may have the names of our columns.
    right_side = pa.Table.from_arrays([*pa.table(ours).columns, pa.array(["t", "u"]), pa.array([b"r", None])], [*ours, "time", "row"])
    made = ledger.write(0, 0, [left_side, right_side], pa.table({"row": pa.array([], pa.int64()), "left": pa.array([], pa.int64())}))
    table = pq.read_table(tmp_path / "test-q1" / "batches" / f"{made.stem}.parquet")
    at = {name: f"c{number}" for number, name in enumerate(names)}
    for name, column in ODD.items():
        assert table[at[name]].combine_chunks().slice(0, 2).equals(column), name
    assert table[at["time"]].to_pylist() == [None, None, "t", "u"] and table[at["row"]].to_pylist() == [None, None, b"r", None]
    assert table[TIME].to_pylist() == [5] * 4 and table[ROW].to_pylist() == [1, 2, 1, 2]


# ------------------------------------------------------------------------------------------------------- plan and pages


def test_a_plan_is_written_once_and_another_is_refused(tmp_path):
    plan = plan_of((8, None), condition="a_v < b_v")
    Ledger(tmp_path, plan, "q1")
    first = (tmp_path / "test-q1" / "plan.json").read_bytes()
    Ledger(tmp_path, plan, "q1")
    assert (tmp_path / "test-q1" / "plan.json").read_bytes() == first
    assert LedgerPlan.of(first) == (plan, "q1", 2)
    with pytest.raises(ps.PenstockError, match=r"windows must stay as it is in the ledger .*\(8, None\).*got \(9, None\)"):
        Ledger(tmp_path, plan_of((9, None), condition="a_v < b_v"), "q1")
    with pytest.raises(ps.PenstockError, match="condition must stay"):
        Ledger(tmp_path, plan_of((8, None)), "q1")
    Ledger(tmp_path, plan_of((9, None)), "q2")


def test_a_function_is_not_compared(tmp_path):
    Ledger(tmp_path, plan_of((8, 8), objective="pickle:abc"), "q1")
    Ledger(tmp_path, plan_of((8, 8), objective="pickle:abd"), "q1")
    Ledger(tmp_path, plan_of((8, 8), objective="a function"), "q1")  # a ledger of 0.1.0 goes on
    with pytest.raises(ps.PenstockError, match="objective must stay"):
        Ledger(tmp_path, plan_of((8, 8), objective="max"), "q1")


def test_one_of_several_ledgers_must_be_chosen(tmp_path):
    with pytest.raises(ps.PenstockError, match="no such folder"):
        find(tmp_path / "nowhere")
    with pytest.raises(ps.PenstockError, match="no ledger is in it"):
        find(tmp_path)
    for name, query in (("one", "q1"), ("two / 2", "q1"), ("one", "q2")):
        Ledger(tmp_path, plan_of((8, 8), name=name), query)
    with pytest.raises(ps.PenstockError, match=r"one of the 3 ledgers .*name 'one', query 'q1'; name 'one', query 'q2'; name 'two / 2'"):
        find(tmp_path)
    with pytest.raises(ps.PenstockError, match="one of the 2 ledgers"):
        find(tmp_path, name="one")
    with pytest.raises(ps.PenstockError, match="got name 'three'; there: "):
        find(tmp_path, name="three")
    assert find(tmp_path, name="two / 2").folder == "two-2-q1"
    assert find(tmp_path, name="one", query="q2").query == "q2"


def test_a_damaged_plan_does_not_stand_in_the_way_of_other_ledgers(tmp_path):
    for name, query in (("one", "q1"), ("two", "q1"), ("two", "q2")):
        Ledger(tmp_path, plan_of((8, 8), name=name), query)
    (tmp_path / "one-q1" / "plan.json").write_text("{")
    assert find(tmp_path, name="two", query="q1").folder == "two-q1"
    assert find(tmp_path, query="q2").folder == "two-q2"
    for wanted in ({}, {"name": "one"}, {"query": "q1"}):
        with pytest.raises(ps.PenstockError, match=r"one-q1/plan\.json"):
            find(tmp_path, **wanted)


def test_manifests_and_footers_say_when_tuples_came(tmp_path):
    shards = [played(Random(number), number=number, disorder=5) for number in range(2)]
    ledger = Ledger(tmp_path, plan_of((8, 8)), "q1")
    write(ledger, shards, range(5))
    pages = find(tmp_path)
    spans = pages.spans(map(pages.page, (one for one in pages.attempts() if (tmp_path / pages.page(one).name).exists())))
    said, wrong = manifests(pages, pages.attempts())
    assert not wrong and len(said) == 10
    for batch in range(5):
        for stream in range(2):
            times = [one.time for shard in shards for one in shard.arrivals if (one.batch, one.stream) == (batch, stream)]
            assert spans.get(batch, [None, None])[stream] == ((min(times), max(times)) if times else None)
            assert together(one.spans for one in said.values() if one.batch == batch)[stream] == spans.get(batch, [None, None])[stream]


# ---------------------------------------------------------------------------------------------------------------- marks


def test_the_commit_log_says_what_counts(tmp_path):
    assert last_certain([0, 1, 1, 4, 7], "q1") == 4
    assert last_certain([0], "q1") == last_certain([], "q1") == last_certain([], "batch-1") == -1
    assert last_certain([0, 1, 4, 7], "batch-1") == 7
    checkpoint = a_checkpoint(tmp_path / "c", range(3, 6))
    assert last_commit(checkpoint) == 5 and query_of(checkpoint) == "q1"
    assert last_commit(a_checkpoint(tmp_path / "new", range(0))) == -1
    with pytest.raises(ps.PenstockError, match=r"checkpoint must be the checkpoint folder of a query, got .*no query has written there"):
        query_of(tmp_path)


def test_marks_are_kept_in_the_ledger_and_a_second_attempt_overwrites(tmp_path):
    Ledger(tmp_path, plan_of((8, 8)), "q1")
    pages = find(tmp_path)
    assert marks(pages) == [] and settled([]) == -1
    done = Mark(-1, 4, "file:///x", 17, [(0, 4, [(1, 9), None])])
    done.write(pages)
    Mark(4, 6, "file:///x", None, []).write(pages)
    assert settled(marks(pages)) == 4
    again = Mark(4, 8, "file:///x", 0, [(5, 8, [None, (3, 4)])])
    again.write(pages)
    assert marks(pages) == [done, again] and settled(marks(pages)) == 8
    folder = tmp_path / "test-q1" / "settled"
    (folder / "done-000000005.json").unlink()
    assert marks(pages) == [done, again]
    again.write(pages)
    Mark(4, 8, "file:///x", None, []).write(pages)  # killed between the two copies
    assert settled(marks(pages)) == 8
    kept = (folder / "from-000000000.json").read_bytes()
    for name, damage, said in (
        ("from-000000000.json", None, "from-000000000.json is missing"),
        ("from-000000005.json", None, "from-000000005.json is missing"),
        ("from-000000005.json", kept, "from-000000005.json is of another settlement, from batch 0 on"),
        ("from-000000000.json", kept[:-9], "from-000000000.json is damaged"),
        ("from-000000000.json", b"null", "from-000000000.json is damaged"),
        ("from-000000000.json", kept.replace(b"17", b"18"), "from-000000000.json is damaged"),
        ("from-000000000.json", kept.replace(b"checksum", b"shecksum"), "from-000000000.json is damaged"),
    ):
        before = (folder / name).read_bytes()
        (folder / name).unlink() if damage is None else (folder / name).write_bytes(damage)
        with pytest.raises(ps.PenstockError, match=said):
            marks(pages)
        (folder / name).write_bytes(before)


def test_only_batches_that_may_match_are_read_again():
    done = [Mark(-1, 4, "", 1, [(0, 2, [(0, 10), (0, 12)]), (3, 4, [(11, 20), None])]), Mark(4, 5, "", 1, [(5, 5, [None, (30, 31)])])]
    # A partner in stream 1 of a new tuple (50, 60) of stream 0 has a time above 50 - 8.
    assert reach(done, 5, (8, 8), [(50, 60), None]) == 6
    assert reach(done, 5, (8, 20), [(50, 60), None]) == 5
    assert reach(done, 5, (8, 8), [(38, 60), None]) == 5
    assert reach(done, 5, (8, 8), [(39, 60), None]) == 6
    assert reach(done, 5, (8, 8), [None, (27, 27)]) == 3
    assert reach(done, 5, (8, 8), [(39, 60), (28, 28)]) == 6
    assert reach(done, 5, (None, 8), [None, (50, 60)]) == 0
    assert reach(done, 9, (8, 8), [(50, 60), None]) == 6  # of 6 to 9 nobody knows
    assert reach([], 9, (8, 8), [(50, 60), None]) == 0


@examples(2)
@given(
    st.randoms(use_true_random=False),
    st.sampled_from(((3, 3), (2, 9), (2, 5, 1), (None, 4))),
    st.integers(0, 15),
    st.lists(st.integers(0, 7), min_size=1, max_size=3, unique=True),
)
def test_no_member_of_what_is_owed_is_left_unread(random, windows, disorder, steps):
    """Whatever was settled before, and however late tuples come: members are in the batches and between the times that are looked at."""
    shard = played(random, windows=windows, disorder=disorder, batches=8, rows=50, memory=4, half_life=8.0)
    spans: dict[int, list[Any]] = {}
    for one in shard.arrivals:
        own = spans.setdefault(one.batch, [None] * len(windows))
        own[one.stream] = hull(own[one.stream], (one.time, one.time))
    done: list[Mark] = []
    for through in sorted(steps):
        since = settled(done)
        new = {batch: own for batch, own in spans.items() if since < batch <= through}
        done.append(Mark(since, through, "", 0, stretches(new)))
    since = settled(done)
    new_times = together(own for batch, own in spans.items() if batch > since)
    if not new_times:
        return
    begin = reach(done, since, windows, new_times)
    by_row = {one.row: one for one in shard.arrivals}
    for batch, rows in shard.exact():
        if batch > since:
            members = [by_row[row] for row in rows]
            assert min(one.batch for one in members) >= begin
            pivot = next(one for one in members if one.batch > since)
            for one in members:
                low, high = bounds(new_times[pivot.stream], windows[pivot.stream], windows[one.stream])
                assert one is pivot or ((low is None or one.time > low) and (high is None or one.time < high))


def test_many_batches_are_described_together():
    spans: dict[int, Any] = {batch: [(batch, batch + 1), None] for batch in range(1000)}
    found = stretches(spans)
    assert len(found) <= 64 and found[0][0] == 0 and found[-1][1] == 999
    assert all(spans == [(first, last + 1), None] for first, last, spans in found)
    assert stretches({}) == []


def test_tables_of_the_tests_have_what_the_ledger_asks_for():
    arrived, left = tables(played(Random(1)), 0)
    assert arrived[0] is not None and arrived[0].column_names == ["row", "arrived", "time", "key0", "importance", "k", "a_v"]
    assert left.column_names == ["row", "left"]


def test_files_beside_the_ledgers_are_passed_over(tmp_path):
    Ledger(tmp_path, plan_of((8, 8)), "q1")
    (tmp_path / "README.txt").write_text("ours")
    (tmp_path / "plan.json").write_text("{")
    (tmp_path / "empty").mkdir()
    assert find(tmp_path).query == "q1"


DEEP = b"[" * 100_000


@pytest.mark.parametrize("text", (b"null", b"[]", b'{"id": null}', b'{"id": 5}', b'{"id": ""}', b"\xff", b"", DEEP))
def test_a_checkpoint_whose_metadata_names_no_query_is_refused(tmp_path, text):
    (tmp_path / "metadata").write_bytes(text)
    with pytest.raises(ps.PenstockError, match=r"checkpoint must be .*: its file metadata names no query"):
        query_of(tmp_path)


@pytest.mark.parametrize("facts", ({}, *({"before": odd} for odd in (None, True, -1, 1.5, "x", "1", [], {}, [1], float("nan"), 10**30))))
def test_an_odd_record_of_pruning_is_named(tmp_path, facts):
    Ledger(tmp_path, plan_of((8, 8)), "q1")
    pages = find(tmp_path)
    pages.store.put(f"{pages.folder}/pruned/before-000000001.json", sealed(facts))
    with pytest.raises(ps.PenstockError, match=r"whole ledger: test-q1/pruned/before-000000001\.json is "):
        pruned(pages)


@pytest.mark.parametrize("text", (DEEP, b'{"a":' * 100_000))
def test_deeply_nested_files_are_named(tmp_path, text):
    Ledger(tmp_path, plan_of((8, 8)), "q1")
    pages = find(tmp_path)
    pages.store.put(f"{pages.folder}/settled/from-000000000.json", text)
    with pytest.raises(ps.PenstockError, match=r"settled/from-000000000\.json is damaged"):
        marks(pages)
    pages.store.put(f"{pages.folder}/plan.json", text)
    with pytest.raises(ps.PenstockError, match=r"plan\.json is damaged"):
        find(tmp_path)
