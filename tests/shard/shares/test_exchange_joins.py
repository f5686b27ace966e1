"""Joins that share a budget: whoever acts, in whatever batches, however often, together they never hold more than the memory."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.shard.shares import exchange as ours
from penstock.shard.shares.exchange import Exchange
from penstock.shard.shares.next_shares import EQUAL, Summary, next_shares
from strategies import examples

JOINS = ("clicks", "orders", "views")
WORTH = st.lists(st.tuples(st.sampled_from((0.0, 1.0, 2.0, 8.0)), st.integers(0, 40)), min_size=1, max_size=4)
Share = tuple[int, tuple[int, ...]]
"""What the state of a shard has of it: the share, and what it has heard."""


class Memory(dict[str, bytes]):
    """A folder in memory."""

    given = "memory"

    def put(self, name: str, data: bytes) -> None:
        self[name] = data

    def read(self, name: str) -> bytes | None:
        return self.get(name)

    def names(self, folder: str) -> list[str]:
        return sorted(name.rpartition("/")[2] for name in self if name.startswith(f"{folder}/"))

    def delete(self, name: str) -> None:
        self.pop(name, None)


class World:
    """The shards of some joins: what is committed of each, and the folder in which they tell each other."""

    def __init__(self, joins: int, shards: int, row: int) -> None:
        self.joins, self.shards, self.row = JOINS[:joins], shards, row
        self.folder = Memory()
        self.committed: dict[tuple[str, int], Share] = {(join, shard): (EQUAL, ()) for join in self.joins for shard in range(shards)}

    def act(self, batch: int, who: tuple[str, int], worth: Any) -> Share:
        """One shard plays a batch: what its state has afterwards, if the batch is committed."""
        join, shard = who
        share, heard = self.committed[who]
        exchange = Exchange("/", join, "7f3a", self.shards, joins=self.joins)
        exchange.store = self.folder  # type: ignore[assignment]
        new = exchange.share(batch, shard, (share,), heard)
        share = share if new is None else int(new[0])
        points = tuple(zip(*((score, weight / 8) for score, weight in worth), strict=True))
        exchange.tell(Summary(batch, shard, self.shards, (share,), (self.row,), (points,), "outputs", exchange.heard))
        return share, exchange.heard

    def check(self, attempt: dict[tuple[str, int], Share]) -> None:
        """While a batch is played, a shard holds what is committed, what it has come to hold, or both."""
        most = [max(share, attempt.get(who, (0, ()))[0]) for who, (share, _) in self.committed.items()]
        assert sum(most) <= len(most) * EQUAL and min(share for share, _ in {**self.committed, **attempt}.values()) > 0


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setattr(ours, "_warned", set())


@examples()
@given(st.data())
def test_whichever_joins_have_rows_and_however_often_a_batch_is_tried_they_never_hold_more_than_the_memory(data):
    world = World(data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3)), data.draw(st.integers(1, EQUAL // 8)))
    everybody = list(world.committed)
    for batch in range(data.draw(st.integers(1, 8))):
        if data.draw(st.booleans()):  # as Spark does: all shards of the joins that have rows
            having = data.draw(st.sets(st.sampled_from(world.joins)))
            acting = [who for who in everybody if who[0] in having]
        else:
            acting = data.draw(st.lists(st.sampled_from(everybody), unique=True))
        if not acting:
            continue
        worth = {who: data.draw(WORTH) for who in acting}  # the same in each attempt, whose rows are the same
        for _ in range(data.draw(st.integers(0, 2))):  # attempts that fail after some have acted
            failed: dict[tuple[str, int], Share] = {}
            for who in data.draw(st.lists(st.sampled_from(acting))):
                failed[who] = world.act(batch, who, worth[who])
                world.check(failed)
        done: dict[tuple[str, int], Share] = {}
        for who in [*data.draw(st.permutations(acting)), *data.draw(st.lists(st.sampled_from(acting), max_size=2))]:
            now = world.act(batch, who, worth[who])
            assert done.setdefault(who, now) == now  # a second copy of a task decides the same
            world.check(done)
        world.committed |= done


def played(world: World, batch: int, worth: dict[str, Any]) -> None:
    """A batch that has rows for these joins."""
    who = [one for one in world.committed if one[0] in worth]
    world.committed |= {one: world.act(batch, one, worth[one[0]]) for one in who}


def held(world: World) -> dict[str, float]:
    return {join: sum(share for (of, _), (share, _) in world.committed.items() if of == join) / EQUAL for join in world.joins}


RICH, POOR = [(8.0, 40)], [(1.0, 40)]


def test_memory_goes_to_the_join_that_is_worth_more_and_comes_back():
    world = World(2, 2, 1)
    for batch in range(12):
        played(world, batch, {"clicks": RICH, "orders": POOR})
    assert held(world)["clicks"] > 3.9 and sum(held(world).values()) <= 4
    for batch in range(12, 24):
        played(world, batch, {"clicks": POOR, "orders": RICH})
    assert held(world)["orders"] > 3.9


def test_a_join_without_rows_counts_with_what_it_told_last():
    # batch     0   1   2   3   4   5   6
    # clicks    x   x   x   x   x   x   x
    # orders    x   x   .   .   .   .   x      what it gave up in 1 is taken in 2; then nobody gives any more
    world, seen = World(2, 1, 1), []
    for batch in range(7):
        played(world, batch, {"clicks": RICH} | ({"orders": POOR} if batch in (0, 1, 6) else {}))
        seen.append(held(world))
    assert seen[0] == {"clicks": 1.0, "orders": 1.0} and seen[1]["orders"] < 1.0 == seen[1]["clicks"]
    assert seen[2]["clicks"] == pytest.approx(2 - seen[1]["orders"], abs=1e-4)
    assert [one["orders"] for one in seen[2:6]] == [seen[1]["orders"]] * 4
    assert seen[6]["orders"] < seen[5]["orders"]


def test_a_join_that_has_had_no_rows_yet_has_its_part_when_they_come():
    world = World(2, 2, 1)
    for batch in range(6):
        for shard, worth in enumerate((RICH, POOR)):  # the shards of the other move meanwhile
            world.committed["clicks", shard] = world.act(batch, ("clicks", shard), worth)
    assert held(world) == {"clicks": pytest.approx(2.0, abs=0.3), "orders": 2.0} and world.committed["clicks", 0][0] > 1.5 * EQUAL
    played(world, 6, {"clicks": RICH, "orders": RICH})
    assert held(world)["orders"] == 2.0 and sum(held(world).values()) <= 4.0


def test_a_join_that_has_told_and_whose_summaries_are_gone_is_not_taken_for_one_that_has_had_no_rows(caplog):
    world = World(2, 1, 1)
    for batch in range(6):
        played(world, batch, {"clicks": RICH, "orders": POOR})
    before = held(world)
    for name in [name for name in world.folder if name.startswith("clicks")]:
        del world.folder[name]
    with caplog.at_level(logging.WARNING, "penstock"):
        played(world, 6, {"orders": RICH})  # clicks holds more than its part
    assert held(world) == before and "join clicks has told of batch" in caplog.text
    played(world, 7, {"clicks": RICH, "orders": POOR})
    played(world, 8, {"clicks": RICH, "orders": POOR})
    assert held(world)["clicks"] >= before["clicks"]  # all is well again


def test_in_another_folder_nobody_takes_before_all_have_told_there():
    world = World(2, 1, 1)
    for batch in range(6):
        played(world, batch, {"clicks": RICH, "orders": POOR})
    before = held(world)
    assert before["clicks"] > 1.5
    world.folder = Memory()
    for batch in range(6, 9):
        played(world, batch, {"orders": RICH})
        assert held(world) == before
    for batch in range(9, 14):
        played(world, batch, {"clicks": POOR, "orders": RICH})
    assert held(world)["orders"] > 1.5


def test_joins_that_weigh_in_other_units_keep_their_shares(tmp_path, caplog):
    for number, join in enumerate(("a", "b")):
        exchange = Exchange(str(tmp_path), join, "7f3a", 1, joins=("a", "b"))
        exchange.tell(Summary(3, 0, 1, (EQUAL,), (1,), (((float(number),), (2.0,)),), ("outputs", "importance")[number], (3, 3)))
    with caplog.at_level(logging.WARNING, "penstock"):
        assert exchange.share(4, 0, (EQUAL,), (3, 3)) is None
    assert "different units, importance and outputs" in caplog.text


def test_each_join_has_a_folder_of_its_own_and_one_join_reads_as_before(tmp_path):
    one = Summary(3, 0, 1, (EQUAL,), (1,), (((1.0,), (2.0,)),))
    for join in ("a", "b"):
        Exchange(str(tmp_path), join, "7f3a", 1, joins=("a", "b")).tell(one)
    assert {path.name for path in Path(tmp_path).iterdir()} == {"a-7f3a", "b-7f3a"}
    alone = Exchange(str(tmp_path), "a", "7f3a", 1)
    assert alone.share(4, 0, (EQUAL,)).tolist() == next_shares([one])[0].tolist() and alone.heard == (4,)
