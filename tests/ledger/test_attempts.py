"""Which pages of a ledger count, and what is said of one that is damaged: attempts, epochs, pruning, rewinding. Without Spark."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

import penstock as ps
from ledgers import a_checkpoint, one_row
from penstock.cli import run
from penstock.ledger.epochs import enter, runs
from penstock.ledger.ledger import Ledger, find
from penstock.ledger.manifest import Attempt
from penstock.ledger.pruning import prune, rewind
from penstock.ledger.settled_marks import marks
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

    def both(store: Any, folder: str, run: str, batch: int) -> None:
        take(store, folder, run, batch)
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
