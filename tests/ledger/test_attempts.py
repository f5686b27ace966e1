"""Which pages of a ledger count, and what is said of one that is damaged: attempts, epochs, pruning, rewinding. Without Spark."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

import penstock as ps
from ledgers import a_checkpoint, a_pruned_ledger, one_row
from penstock.cli import run
from penstock.ledger import epochs
from penstock.ledger.epochs import enter, runs
from penstock.ledger.ledger import Ledger, find
from penstock.ledger.manifest import Attempt, Manifest
from penstock.ledger.pruning import prune, rewind
from penstock.ledger.sealed import sealed
from penstock.ledger.settled_marks import marks
from penstock.ledger.settlement_pages import choose
from penstock.ledger.verify import verify
from settled import no_state, settle
from shards import Shard, owed, plan_of, played, write

BATCHES = 6


@pytest.fixture(scope="module")
def shards() -> list[Shard]:
    return [played(Random(number), number=number, disorder=6, memory=4, batches=BATCHES, rows=50) for number in range(3)]


def ledger_of(folder: Path, shards: list[Shard], batches: range = range(BATCHES), **facts: Any) -> Ledger:
    ledger = Ledger(folder / "a", plan_of((8, 8)), "q1")
    assert enter(ledger, "first", 0, []) == 1
    write(ledger, shards, batches, **facts)
    a_checkpoint(folder / "c", range(batches.stop))
    return ledger


def the_head(ledger: Ledger, batch: int) -> list[Attempt]:
    return sorted(made for (at, _), made in vars(ledger)["made"].items() if at == batch)


def test_emitted_and_settled_are_everything_in_steps(shards, tmp_path):
    ledger = ledger_of(tmp_path, shards, range(2))
    made: Counter[Any] = Counter()
    for upto in (2, 3, BATCHES):
        write(ledger, shards, range(upto))
        a_checkpoint(tmp_path / "c", range(upto))
        made += settle(tmp_path / "a", tmp_path / "c", tmp_path / "to")[0]
        assert made == owed(shards, range(upto))
    assert settle(tmp_path / "a", tmp_path / "c", tmp_path / "to")[0] == Counter() and sum(made.values()) > 50


def test_without_a_checkpoint_the_newest_batch_waits(shards, tmp_path):
    ledger = ledger_of(tmp_path, shards, range(4))
    assert settle(tmp_path / "a", None, tmp_path / "to")[0] == owed(shards, range(3))
    write(ledger, shards[:1], [4], count=3)  # one shard has begun the next
    assert settle(tmp_path / "a", None, tmp_path / "to")[0] == owed(shards, range(3, 4))


def test_pages_of_an_attempt_that_failed_are_not_read(shards, tmp_path):
    """The next run plays the batch otherwise, as with another memory or another number of shards."""
    ledger = ledger_of(tmp_path, shards, range(3))
    others = [played(Random(7 + number), number=number, batches=BATCHES) for number in range(4)]
    write(ledger, others, [3])
    enter(ledger, "second", 3, the_head(ledger, 2))
    write(ledger, shards, [3], epoch=2)
    asked = []

    def state(batch: int) -> list[Attempt]:
        asked.append(batch)
        return [one for one in the_head(ledger, 3) if one.epoch == 2]

    a_checkpoint(tmp_path / "c", range(4))
    assert settle(tmp_path / "a", tmp_path / "c", tmp_path / "to", state)[0] == owed(shards, range(4)) and asked == [3]
    write(ledger, shards, [4], epoch=2)
    a_checkpoint(tmp_path / "c", range(5))
    assert settle(tmp_path / "a", tmp_path / "c", tmp_path / "to")[0] == owed(shards, range(4, 5))


def test_a_failed_batch_and_then_fewer_shards(shards, tmp_path):
    """Four shards fail in batch 3; two go on, and follow all four."""
    four = [*shards, played(Random(3), number=3, disorder=6, memory=4, batches=BATCHES, rows=50)]
    ledger = ledger_of(tmp_path, four, range(3))
    after = the_head(ledger, 2)
    write(ledger, four, [3])
    enter(ledger, "second", 3, after)
    halves = [merged(four[:2]), merged(four[2:])]
    vars(ledger)["made"] = {}
    write(ledger, halves, [3], epoch=2, after=after)
    a_checkpoint(tmp_path / "c", range(4))
    made = settle(tmp_path / "a", tmp_path / "c", tmp_path / "to", lambda batch: the_head(ledger, batch))[0]
    assert made == owed(four, range(4))
    write(ledger, halves, range(4, BATCHES), epoch=2)
    a_checkpoint(tmp_path / "c", range(BATCHES))
    made += settle(tmp_path / "a", tmp_path / "c", tmp_path / "to")[0]
    assert made == owed(four)
    assert verify(find(tmp_path / "a"), tmp_path / "c", no_state).wrong == []


def merged(parts: list[Shard]) -> Shard:
    """What one shard has that goes on with the keys of several."""
    gone = {row: when for part in parts for row, when in part.left.items()}
    return Shard(parts[0].number, parts[0].windows, [one for part in parts for one in part.arrivals], gone)


def test_a_restart_after_a_kill_needs_no_hand_and_an_older_run_fails(shards, tmp_path):
    ledger = ledger_of(tmp_path, shards, range(3))
    heads = the_head(ledger, 2)
    assert enter(ledger, "first", 3, heads) == 1
    write(ledger, shards[:1], [3], count=3)  # killed in the middle
    assert enter(ledger, "second", 3, heads) == 2 == enter(ledger, "second", 4, heads)
    with pytest.raises(ps.PenstockError, match="run first of the query has been overtaken by run second, which began with batch 3"):
        enter(ledger, "first", 4, heads)
    assert [(one.epoch, one.first, one.run) for one in runs(ledger.store, ledger.folder)] == [(1, 0, "first"), (2, 3, "second")]
    assert enter(ledger, None, 9, []) == 2  # where Spark does not say which run it is


def test_two_shards_that_register_their_run_at_the_same_time_make_one_run(shards, tmp_path, monkeypatch):
    ledger = ledger_of(tmp_path, shards, range(3))
    heads = the_head(ledger, 2)
    others = [lambda: enter(ledger, "second", 3, heads[1:2])]

    def meanwhile(pages: Any) -> Any:
        if others:
            others.pop()()
        return marks(pages)

    monkeypatch.setattr(epochs, "marks", meanwhile)
    assert enter(ledger, "second", 3, heads[:1]) == 2 and not others
    assert [(one.epoch, one.run) for one in runs(ledger.store, ledger.folder)] == [(1, "first"), (2, "second")]


def test_a_run_with_two_numbers_as_an_earlier_release_could_write_it_is_no_rival_of_its_own(shards, tmp_path):
    ledger = ledger_of(tmp_path, shards, range(3))
    assert enter(ledger, "second", 3, the_head(ledger, 2)) == 2
    write(ledger, shards[:1], [3], epoch=2, count=3)
    ledger.store.put(f"{ledger.folder}/{epochs.Run(3, 3, 'second').file}", sealed({"epoch": 3, "first_batch": 3, "run": "second"}))
    write(ledger, shards[1:], [3], epoch=3, count=3)
    assert enter(ledger, "third", 4, the_head(ledger, 3)) == 4


def test_a_run_from_behind_is_refused_and_may_take_over(shards, tmp_path):
    ledger = ledger_of(tmp_path, shards, range(5))
    said = r"behind its ledger .*it would play batch 3, but batches up to 4 are there.*`penstock ledger rewind .*--to 2`.*batches 3 to 4"
    with pytest.raises(ps.PenstockError, match=said):
        enter(ledger, "copy", 3, the_head(ledger, 2))
    settle(tmp_path / "a", tmp_path / "c", tmp_path / "to", through=1)
    with pytest.raises(ps.PenstockError, match="it would play batch 1, but batches up to 1 are settled"):
        enter(ledger, "copy", 1, the_head(ledger, 0))
    with pytest.raises(ps.PenstockError, match="to must be at least the last settled batch, 1, got 0"):
        rewind(find(tmp_path / "a"), 0)
    assert run(["ledger", "rewind", str(tmp_path / "a"), "--to", "2"]) == 0
    assert max(one.batch for one in find(tmp_path / "a").attempts()) == 2
    with pytest.raises(ps.PenstockError, match="overtaken by run rewind-"):
        enter(ledger, "first", 5, [])
    given_up = the_head(ledger, 4)
    assert enter(ledger, "copy", 3, the_head(ledger, 2)) == 3
    write(ledger, shards, range(3, BATCHES), epoch=3)
    with pytest.raises(ps.PenstockError, match=r"manifest .*batch-000000004-shard-0000-run-0001-.* is missing"):
        settle(tmp_path / "a", tmp_path / "c", tmp_path / "to", lambda _: given_up)  # the checkpoint that was shut out
    (tmp_path / "c" / "commits" / "5").write_text("v1\n{}")
    made = settle(tmp_path / "a", tmp_path / "c", tmp_path / "to", lambda batch: the_head(ledger, batch))[0]
    assert made == owed(shards, range(2, BATCHES))


def test_of_two_checkpoints_that_take_turns_the_first_is_refused_and_each_settles_its_own(shards, tmp_path):
    """The copy plays again what the first has committed, which looks like a restart after a kill; then the first comes back."""
    ledger = ledger_of(tmp_path, shards, range(4))
    first = the_head(ledger, 3)
    assert enter(ledger, "copy", 3, the_head(ledger, 2)) == 2
    others = [played(Random(70 + number), number=number, disorder=6, memory=4, batches=BATCHES, rows=50) for number in range(3)]
    write(ledger, others, [3], epoch=2)
    copy = the_head(ledger, 3)
    assert copy != first
    with pytest.raises(ps.PenstockError, match=r"batch 3 of the ledger .* has been played again by run 2, from a copy of the checkpoint"):
        enter(ledger, "back", 4, first)
    assert enter(ledger, "copy", 4, copy) == 2
    write(ledger, others, [4], epoch=2)  # which names the attempts of the copy at batch 3
    assert settle(tmp_path / "a", tmp_path / "c", tmp_path / "to", lambda _: first)[0] == owed(shards, range(4))
    with pytest.raises(
        ps.PenstockError, match="checkpoint must be the one whose batches were settled, up to batch 3, but it committed others"
    ):
        settle(tmp_path / "a", tmp_path / "c", tmp_path / "to", lambda _: copy)


def test_a_run_whose_last_attempt_the_ledger_lacks_is_refused(shards, tmp_path):
    ledger = ledger_of(tmp_path, shards, range(3))
    lost = the_head(ledger, 2)[1]
    (tmp_path / "a" / "test-q1" / "manifests" / f"{lost.stem}.json").unlink()
    with pytest.raises(ps.PenstockError, match=f"lacks what the checkpoint names as its last: {lost.stem}"):
        enter(ledger, "second", 3, the_head(ledger, 2))


def test_of_two_runs_that_take_the_same_number_one_wins(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path, plan_of((8, 8)), "q1")
    from penstock.ledger import epochs as module

    take = module.take

    def both(store: Any, folder: str, run: str, batch: int, after: list[Attempt]) -> None:
        take(store, folder, run, batch, after)
        if run == "a":  # the other saw the same listing
            store.put(f"{folder}/runs/0001-000000000-b.json", b"{}")

    monkeypatch.setattr(module, "take", both)
    with pytest.raises(ps.PenstockError, match="overtaken by run b"):
        enter(ledger, "a", 0, [])
    assert enter(ledger, "b", 0, []) == 1


def test_commits_that_are_gone_are_noticed(shards, tmp_path):
    ledger_of(tmp_path, shards, range(5))
    shutil.rmtree(tmp_path / "c" / "commits")
    with pytest.raises(ps.PenstockError, match=r"batch-000000004-shard-.* says that 3 was committed, but the commit log ends with -1"):
        settle(tmp_path / "a", tmp_path / "c", tmp_path / "to")


def test_a_settlement_whose_mark_is_gone_is_not_made_again(shards, tmp_path):
    ledger = ledger_of(tmp_path, shards, range(3))
    settle(tmp_path / "a", tmp_path / "c", tmp_path / "to")
    for file in (tmp_path / "a" / "test-q1" / "settled").iterdir():
        file.unlink()
    with pytest.raises(ps.PenstockError, match="has settlement=test-q1-000000000, which no mark in test-q1/settled knows"):
        settle(tmp_path / "a", tmp_path / "c", tmp_path / "to")
    assert ledger


def test_a_batch_run_says_itself_that_it_has_ended(shards, tmp_path):
    ledger = Ledger(tmp_path / "a", plan_of((8, 8)), "batch-1")
    write(ledger, shards, range(BATCHES - 1))
    with pytest.raises(ps.PenstockError, match="the last manifests of 0 shards are there: the run has not ended"):
        settle(tmp_path / "a", None, tmp_path / "to")
    write(ledger, shards, [BATCHES - 1], last=BATCHES - 1)
    assert settle(tmp_path / "a", None, tmp_path / "to")[0] == owed(shards)


def test_verify_says_from_when_to_when_it_is_good(shards, tmp_path, capsys):
    ledger = ledger_of(tmp_path, shards)
    settle(tmp_path / "a", tmp_path / "c", tmp_path / "to", through=1)
    command = ["ledger", "verify", str(tmp_path / "a"), "--checkpoint", str(tmp_path / "c")]
    assert run(command) == 0
    assert "batches 0 to 5 are good, of 1969-12-31T23:59:59.99" in capsys.readouterr().out
    lost, hurt = the_head(ledger, 1)[0], next(one for one in the_head(ledger, 4))
    (tmp_path / "a" / "test-q1" / "manifests" / f"{lost.stem}.json").unlink()
    page = tmp_path / "a" / "test-q1" / "batches" / f"{hurt.stem}.parquet"
    page.write_bytes(page.read_bytes()[:-1] + b"x")
    assert run([*command, "--format", "json"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert [(one["first_batch"], one["last_batch"]) for one in facts["good"]] == [(0, 0), (2, 3), (5, 5)]
    assert not facts["whole"] and len(facts["wrong"]) == 2
    assert lost.stem in facts["wrong"][0] and "missing" in facts["wrong"][0] and hurt.stem in facts["wrong"][1]
    with pytest.raises(ps.PenstockError, match=f"whole ledger, but manifest .*{lost.stem}.json is missing"):
        settle(tmp_path / "a", tmp_path / "c", tmp_path / "to")


def test_what_is_settled_and_can_match_no_more_is_pruned(tmp_path, capsys):
    ledger = Ledger(tmp_path / "a", plan_of((8, 8)), "q1")
    after: list[Attempt] = []
    for batch in range(6):
        arrived, left = one_row(row=[batch], time=[10 * batch])
        facts = {"after": after, "promised": [10 * batch, 10 * batch - 15]}
        after = [ledger.write(batch, 0, arrived, left.slice(0, 0), **facts)]
    a_checkpoint(tmp_path / "c", range(5))
    settle(tmp_path / "a", tmp_path / "c", tmp_path / "to")
    pages = find(tmp_path / "a")
    # What comes in the second stream has times from 40 - 15 on: it matches those of the first above 25 - 8.
    with pytest.raises(ps.PenstockError, match="before must be at most 2, got 3: later tuples may still match those of batch 2"):
        prune(pages, 3)
    with pytest.raises(ps.PenstockError, match="before must be at most the last settled batch, 4, got 5"):
        prune(pages, 5)
    assert run(["ledger", "prune", str(tmp_path / "a"), "--before", "1"]) == 0
    assert "pruned batches 0 to 0" in capsys.readouterr().out
    assert prune(pages).last == 1 and prune(pages).files == 0
    assert {one.batch for one in pages.attempts()} == {2, 3, 4, 5}
    assert verify(pages, tmp_path / "c", no_state).wrong == []
    a_checkpoint(tmp_path / "c", range(6))
    assert settle(tmp_path / "a", tmp_path / "c", tmp_path / "to")[1].lost == 0
    for record in (tmp_path / "a" / "test-q1" / "pruned").iterdir():
        record.unlink()
    assert any("is missing" in text for text in verify(pages, tmp_path / "c", no_state).wrong)
    assert marks(pages)[-1].through == 5


def foreign(folder: Path, number: int = 70) -> Path:
    """The ledger of another query of the same join, as long as the one of `ledger_of`."""
    ledger = Ledger(folder / "other", plan_of((8, 8)), "q2")
    enter(ledger, "elsewhere", 0, [])
    write(ledger, [played(Random(number + n), number=n, disorder=6, memory=4, batches=BATCHES, rows=50) for n in range(3)], range(BATCHES))
    return folder / "other" / "test-q2"


def test_files_of_another_query_in_place_of_ones_own_are_refused_by_name(shards, tmp_path):
    ledger = ledger_of(tmp_path, shards)
    own, other, heads = tmp_path / "a" / "test-q1", foreign(tmp_path), the_head(ledger, BATCHES - 1)
    for kind in ("manifests", "batches"):
        shutil.rmtree(own / kind)
        shutil.copytree(other / kind, own / kind)
    with pytest.raises(ps.PenstockError, match=r"manifest test-q1/manifests/batch-000000005-\S+.json is of the query 'q2', not 'q1'"):
        settle(tmp_path / "a", None, tmp_path / "to")
    with pytest.raises(ps.PenstockError, match=heads[0].stem):
        settle(tmp_path / "a", tmp_path / "c", tmp_path / "to", lambda _: heads)
    assert any("is of the query 'q2', not 'q1'" in text for text in verify(find(tmp_path / "a"), None, no_state).wrong)


def test_files_of_another_query_beside_ones_own_are_not_settled_and_reported(shards, tmp_path):
    ledger = ledger_of(tmp_path, shards)
    own, other, heads = tmp_path / "a" / "test-q1", foreign(tmp_path), the_head(ledger, BATCHES - 1)
    for kind in ("manifests", "batches"):
        shutil.copytree(other / kind, own / kind, dirs_exist_ok=True)
    found = verify(find(tmp_path / "a"), tmp_path / "c", lambda _: heads)
    assert len(found.wrong) == 3 * BATCHES and all("is of the query 'q2', not 'q1'" in text for text in found.wrong)
    assert [(one.first, one.last) for one in found.good] == [(0, BATCHES - 1)]
    assert settle(tmp_path / "a", tmp_path / "c", tmp_path / "to", lambda _: heads)[0] == owed(shards)


def test_manifests_from_before_they_named_their_query_are_accepted(shards, tmp_path, monkeypatch):
    monkeypatch.setattr(Manifest, "text", lambda self, text=Manifest.text: text(replace(self, query=None, layout=2)))
    ledger_of(tmp_path, shards, range(3))
    monkeypatch.undo()
    assert not any(b"query" in file.read_bytes() for file in (tmp_path / "a" / "test-q1" / "manifests").iterdir())
    assert verify(find(tmp_path / "a"), tmp_path / "c", no_state).wrong == []
    assert settle(tmp_path / "a", tmp_path / "c", tmp_path / "to")[0] == owed(shards, range(3))


@pytest.mark.parametrize(
    "text", (b"[]", b"{}", b"[" * 100_000, b'{"layout": 2}', b'{"layout": "x"}', b'{"layout": 3, "after": [[]]}', b"\xff")
)
def test_a_manifest_that_is_none_is_named(text):
    name = f"batch-000000000-shard-0000-run-0001-{hashlib.sha256(text).hexdigest()[:32]}.json"
    with pytest.raises(ps.PenstockError, match=f"manifest {name} is damaged: it is no manifest"):
        Manifest.of(text, name)


def test_a_manifest_of_a_newer_release_is_named():
    text = json.dumps({"layout": 99}).encode()
    with pytest.raises(ps.PenstockError, match=r"is of a newer release of Penstock \(layout 99\)"):
        Manifest.of(text, f"batch-000000000-shard-0000-run-0001-{hashlib.sha256(text).hexdigest()[:32]}.json")


def removed(folder: Path, *kinds: str, since: int = 0) -> None:
    """Remove the files of batches from this one on."""
    for kind in kinds:
        for file in (folder / "a" / "test-q1" / kind).iterdir():
            if int(file.name.split("-")[1]) >= since:
                file.unlink()


def checked(folder: Path) -> tuple[list[tuple[int, int]], list[str]]:
    """What `penstock ledger verify` says without a checkpoint."""
    found = verify(find(folder / "a"), None, no_state)
    return [(one.first, one.last) for one in found.good], found.wrong


def test_verify_notices_pages_whose_manifests_are_gone(shards, tmp_path, capsys):
    ledger_of(tmp_path, shards)
    removed(tmp_path, "manifests")
    good, wrong = checked(tmp_path)
    pages = [file for file in (tmp_path / "a" / "test-q1" / "batches").iterdir() if "batch-000000005" not in file.name]
    assert good == [] and len(wrong) == len(pages) > BATCHES  # the newest batch may just have begun
    assert all(text.startswith("page test-q1/batches/batch-00000000") and "has no manifest" in text for text in wrong)
    assert run(["ledger", "verify", str(tmp_path / "a")]) == 1 and "wrong: page test-q1/batches/" in capsys.readouterr().out


def test_verify_lets_pages_of_a_batch_that_has_begun_pass(shards, tmp_path):
    ledger_of(tmp_path, shards, range(3))
    removed(tmp_path, "manifests", since=2)
    assert checked(tmp_path) == ([(0, 0)], [])


def test_verify_notices_that_what_is_settled_is_gone(shards, tmp_path):
    ledger = ledger_of(tmp_path, shards)
    settle(tmp_path / "a", tmp_path / "c", tmp_path / "to")
    assert checked(tmp_path) == ([(0, BATCHES - 1)], [])  # settled, hence committed
    removed(tmp_path, "manifests", "batches", since=3)
    good, wrong = checked(tmp_path)
    assert good == [(0, 2)]
    assert sorted(wrong) == sorted(f"manifest test-q1/manifests/{one.stem}.json is missing" for one in the_head(ledger, BATCHES - 1))


def test_verify_notices_that_what_a_run_followed_is_gone(shards, tmp_path):
    ledger = ledger_of(tmp_path, shards, range(4))
    assert enter(ledger, "second", 4, the_head(ledger, 3)) == 2
    assert checked(tmp_path) == ([(0, 3)], [])
    removed(tmp_path, "manifests", "batches", since=3)
    good, wrong = checked(tmp_path)
    assert good == [(0, 2)] and sorted(wrong) == sorted(
        f"manifest test-q1/manifests/{one.stem}.json is missing" for one in the_head(ledger, 3)
    )


def test_verify_notices_that_what_an_older_record_of_a_run_implies_is_gone(shards, tmp_path):
    ledger = ledger_of(tmp_path, shards)
    record = sealed({"epoch": 2, "first_batch": BATCHES, "run": "second"})  # of before it named what it followed
    ledger.store.put(f"test-q1/runs/0002-{BATCHES:09}-second.json", record)
    assert checked(tmp_path)[1] == []
    removed(tmp_path, "manifests", "batches", since=2)
    assert checked(tmp_path)[1] == [
        "test-q1/runs/0002-000000006-second.json says that batches before 6 were committed, but the ledger ends with batch 1"
    ]


def test_after_a_rewind_what_was_discarded_is_not_missed(shards, tmp_path):
    ledger = ledger_of(tmp_path, shards, range(4))
    assert enter(ledger, "second", 4, the_head(ledger, 3)) == 2
    write(ledger, shards, [4], epoch=2)
    removed(tmp_path, "manifests", since=4)  # it failed before it wrote them
    rewind(find(tmp_path / "a"), 1)
    assert checked(tmp_path) == ([(0, 0)], [])


def test_verify_says_what_is_good_beside_a_damaged_manifest_of_the_last_batch(shards, tmp_path):
    ledger = ledger_of(tmp_path, shards)
    hurt = tmp_path / "a" / "test-q1" / "manifests" / f"{the_head(ledger, BATCHES - 1)[1].stem}.json"
    hurt.write_bytes(b"")
    good, wrong = checked(tmp_path)
    assert good == [(0, BATCHES - 2)] and all(hurt.name in text for text in wrong) and wrong


@pytest.mark.parametrize("after", (7, None, ["x"], [7], [["batch"]], {"a": 1}))
def test_an_odd_record_of_a_run_is_named(shards, tmp_path, after):
    ledger = ledger_of(tmp_path, shards, range(3))
    ledger.store.put("test-q1/runs/0002-000000002-second.json", sealed({"after": after}))
    assert any("runs/0002-000000002-second.json is damaged" in text for text in checked(tmp_path)[1])


def test_what_pruning_took_is_counted_and_cannot_be_asked_for(tmp_path):
    a_pruned_ledger(tmp_path, plan_of((8, 8)))
    pages = find(tmp_path / "a")
    chosen = choose(pages, tmp_path / "c", no_state)
    assert (chosen.since, chosen.through, chosen.lost, chosen.floor) == (4, 5, 2, 2)
    for since in (-1, 0):
        with pytest.raises(ps.PenstockError, match=f"since must be at least 1, got {since}: the batches before 2 were pruned"):
            choose(pages, tmp_path / "c", no_state, since=since)
    assert choose(pages, tmp_path / "c", no_state, since=1).through == 5
    shutil.rmtree(tmp_path / "a" / "test-q1" / "settled")
    with pytest.raises(ps.PenstockError, match=r"whole ledger, but batches before 2 were pruned, .* test-q1/settled"):
        choose(pages, tmp_path / "c", no_state)
