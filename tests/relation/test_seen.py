"""The version of a history that a batch sees: whoever asks first decides, and everybody else hears the same."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import penstock as ps
from penstock.relation import seen
from penstock.relation.history import History
from penstock.relation.record import record

ask = seen.version_seen.__wrapped__  # as a process that has not asked yet


def test_all_tasks_hear_the_same_however_the_history_grows_meanwhile(tmp_path):
    for batch in range(20):
        with ThreadPoolExecutor(9) as pool:
            grows = pool.submit(record, {"a": [batch]}, tmp_path, keys=["a"], time=batch) if batch else None
            if grows is None:
                record({"a": [0]}, tmp_path, keys=["a"], time=0)
            heard = set(pool.map(lambda _, batch=batch: ask(str(tmp_path), "q", batch), range(8)))
        assert len(heard) == 1 and heard <= {batch, batch + 1}
        assert ask(str(tmp_path), "q", batch) in heard and ask(str(tmp_path), "other", batch) == History(tmp_path).latest()
    assert not list((tmp_path / "seen").rglob(".*"))


def test_records_of_old_batches_go_and_what_is_damaged_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(seen, "KEPT", 3)
    with pytest.raises(ps.PenstockError, match=r"keeps a history, got .*, which has no version"):
        ask(str(tmp_path), "q", 0)
    record({"a": [1]}, tmp_path, keys=["a"], time=0)
    for batch in range(6):
        ask(str(tmp_path), "q", batch)
    assert sorted(path.name for path in (tmp_path / "seen" / "q").iterdir()) == [f"{batch:09}.json" for batch in (3, 4, 5)]
    Path(tmp_path / "seen" / "q" / f"{5:09}.json").write_text('{"version": 9}')
    with pytest.raises(ps.PenstockError, match=r"history must be a whole history: seen/q/000000005.json is damaged"):
        ask(str(tmp_path), "q", 5)


def test_a_history_is_told_from_others_by_how_it_began(tmp_path):
    for name in ("one", "two"):
        record({"a": [1]}, tmp_path / name, keys=["a"], time=0)
    one, two = (History(tmp_path / name) for name in ("one", "two"))
    before = one.identity()
    assert before == two.identity()  # nothing tells them apart yet
    record({"a": [2]}, tmp_path / "one", keys=["a"], time=5)
    record({"a": [3]}, tmp_path / "three", keys=["a"], time=0)
    assert one.identity() == before != History(tmp_path / "three").identity()
