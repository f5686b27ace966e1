"""Summaries in a folder: what is read again, and what happens where they are lost, damaged, old or of others."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.shard.shares import exchange as ours
from penstock.shard.shares.exchange import Exchange
from penstock.shard.shares.next_shares import EQUAL, Summary, next_shares

HALF = EQUAL // 2


def summaries(batch: int, shares: tuple[int, ...], **change: Any) -> list[Summary]:
    facts = [Summary(batch, shard, len(shares), (share,), (1,), (((float(shard),), (1.0,)),)) for shard, share in enumerate(shares)]
    return [Summary(**vars(one) | change) for one in facts]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(ours, "_warned", set())
    return tmp_path


def opened(folder: Path, shards: int = 3) -> Exchange:
    return Exchange(str(folder), "penstock", "7f3a", shards)


def told(folder: Path, *all_of: list[Summary]) -> Exchange:
    exchange = opened(folder)
    for one in (one for found in all_of for one in found):
        exchange.tell(one)
    return exchange


def test_a_batch_that_is_played_again_decides_the_same(folder):
    first, second = summaries(4, (EQUAL, EQUAL, HALF)), summaries(5, (HALF, EQUAL, EQUAL))
    exchange = told(folder, first, second)
    for shard in range(3):
        assert exchange.share(5, shard, first[shard].share).tolist() == next_shares(first)[shard].tolist()  # though 5 has been told
        assert exchange.share(6, shard, second[shard].share).tolist() == next_shares(second)[shard].tolist()
        assert exchange.share(9, shard, second[shard].share).tolist() == next_shares(second)[shard].tolist()
    assert exchange.share(4, 0, (EQUAL,)) is None


DAMAGES = {
    "lost": lambda path: path.unlink(),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:50]),
    "changed": lambda path: path.write_bytes(path.read_bytes().replace(b'"batch": 4', b'"batch": 7')),
    "of another shard": lambda path: path.write_bytes(path.with_name("batch-000000004-shard-0002.json").read_bytes()),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_where_a_summary_is_not_whole_all_hold_what_they_held_and_one_warning_says_so(folder, caplog, damage):
    exchange = told(folder, summaries(4, (EQUAL, EQUAL, HALF)))
    damage(folder / "penstock-7f3a" / "shares" / "batch-000000004-shard-0001.json")
    with caplog.at_level(logging.WARNING, "penstock"):
        assert [exchange.share(5, shard, (EQUAL,)) for shard in (0, 1, 0)] == [None] * 3
    assert len(caplog.records) == 1 and "shares of memory stay as they are" in caplog.text
    for one in summaries(5, (EQUAL, EQUAL, HALF)):
        exchange.tell(one)
    assert exchange.share(6, 2, (HALF,)) is not None  # a batch later all is well


def test_who_is_said_to_hold_another_share_than_it_does_believes_nobody(folder, caplog):
    exchange = told(folder, summaries(4, (EQUAL, EQUAL, HALF)))
    with caplog.at_level(logging.WARNING, "penstock"):
        assert exchange.share(5, 0, (HALF,)) is None
    assert "is said to hold" in caplog.text
    told(folder, summaries(5, (EQUAL, EQUAL, 2 * EQUAL)))
    assert exchange.share(6, 0, (EQUAL,)) is None  # together more than the memory


@pytest.mark.parametrize("shards", (2, 4))
def test_after_another_number_of_shards_shares_begin_anew_without_a_warning(folder, caplog, shards):
    told(folder, summaries(4, (EQUAL, EQUAL, HALF)))
    with caplog.at_level(logging.WARNING, "penstock"):
        assert opened(folder, shards).share(5, 0, (EQUAL,)) is None
    assert not caplog.records


def test_old_summaries_go_and_those_that_a_restart_needs_stay(folder):
    exchange = opened(folder, 2)
    for batch in range(40):
        for shard in range(2):
            exchange.share(batch, shard, (EQUAL,))
            exchange.tell(Summary(batch, shard, 2, (EQUAL,), (1,), (((0.0,), (1.0,)),)))
    left = sorted(path.name for path in (folder / "penstock-7f3a" / "shares").iterdir())
    assert 2 * 16 <= len(left) <= 2 * 18 and left[-1] == "batch-000000039-shard-0001.json"
    assert exchange.share(30, 0, (EQUAL,)) is not None  # a checkpoint that was set back


def test_a_folder_that_cannot_be_written_fails_the_batch_and_names_the_argument(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ps.PenstockError, match="shared must be a folder that can be written"):
        opened(tmp_path / "file").tell(summaries(0, (EQUAL,) * 3)[0])
