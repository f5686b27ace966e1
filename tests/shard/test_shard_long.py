"""A shard over many batches, rebuilt from its state here and there: what shows only after names, ghosts or budgets have changed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from held_shards import Held, Row, clocks_of, plan, table
from penstock.core.budget import Pools
from penstock.shard.division import part_of
from penstock.shard.keys import KeyBook
from penstock.shard.shard import Shard
from penstock.shard.shard_plan import ShardPlan


def tables(left: list[Row], right: list[Row]) -> list[pa.Table]:
    return [table("l", left), table("r", right)]


def many(tag: str, n: int, time: int) -> list[Row]:
    return [(time, f"{tag}-{number}") for number in range(n)]


@pytest.mark.parametrize("policy", ps.POLICIES)
def test_a_rebuilt_shard_knows_the_keys_of_the_one_it_replaces(tmp_path, policy):
    """A thousand names and more; half of them come and go within one batch; one of the forgotten comes back."""
    batches = [
        tables([(0, "back"), *many("a", 1000, 0)], [(0, "other")]),
        tables([*many("b", 500, 50), (200, "c")], [(200, "other")]),
        tables([(205, "back")], [(205, "other")]),
        tables([(206, "d")], [(206, "back")]),
    ]
    made = []
    held, ample = Held(), replace(plan(10_000, policy), options={"window": 20, "memory": 10_000, "policy": policy, "stats": "window"})
    for number, batch in enumerate(batches):
        shard, result = held.play(ample, batch, None if number == 3 else tmp_path)
        made += [tuple(row.values()) for row in pa.concat_tables(result.joined).to_pylist() if row["k"] == "back"]
    assert made == [("back", 205, 206)]
    names = shard.book.names.to_pylist()
    assert len(names) == len(set(names))


def test_names_come_and_go_and_the_join_stays_exact(tmp_path):
    """Texts as keys, few of them for long, over forty batches: from the state, from the local copy, and never saved."""
    random, held, ample = Random(3), Held(), plan(100_000, "fifo")
    whole, pairs, exact = Shard(ample), Counter(), Counter()
    for number in range(40):
        rows = {}
        for side in "lr":
            times = sorted(number * 60 + random.randrange(60) for _ in range(300))
            rows[side] = [
                (time, f"{random.randrange(400)}" if random.random() < 0.5 else f"{number}-{random.random():.3f}") for time in times
            ]
        batch = tables(rows["l"], rows["r"])
        _, result = held.play(ample, batch, tmp_path if random.random() < 0.7 else None)
        for found, into in ((result.joined, pairs), (whole.play(batch, clocks_of(batch)).joined, exact)):
            into.update(tuple(row.values()) for row in pa.concat_tables(found).to_pylist())
    assert exact.total() > 1000 and pairs == exact


def test_a_name_that_a_log_brings_again_has_its_new_number():
    """As logs of earlier versions do, which lack names that came and went in the same batch."""
    book = KeyBook()
    book.enter(pa.array([b"x", b"y"], pa.large_binary()), np.array([1, 3]))
    book.enter(pa.array([b"x"], pa.large_binary()), np.array([9]))
    assert book.numbers([pa.array(["x", "y", "z"])]).tolist() == [9, 3, 11]


def test_rows_that_break_their_promise_are_counted_even_in_their_window():
    """The partner has expired because nothing so early was to come: the output is missing, and n_late says why."""
    shard = Shard(replace(plan(1000, "fifo"), options={"window": {"l": 5, "r": 12}, "memory": 1000, "policy": "fifo", "stats": "decayed"}))
    batches = [tables([(10, "x")], [(10, "q")]), tables([(16, "z")], [(16, "z")]), tables([(17, "y")], [(14, "x")])]
    results = [shard.play(batch, clocks_of(batch)) for batch in batches]
    assert [result.counts["n_late"] for result in results] == [0, 0, 1]
    assert results[-1].counts["total_n_late"] == 1 and pa.concat_tables(results[-1].joined).num_rows == 0


def test_late_rows_are_counted_once_and_after_a_restart_too():
    """Those whose own window has passed are counted by the engine already."""
    held, batches = Held(), [tables([(100, "x")], [(100, "x")]), tables([(70, "x"), (95, "x"), (101, "x")], [(101, "x")])]
    for batch in batches:
        _, result = held.play(plan(1000, "fifo"), batch, None)
    assert result.counts["n_late"] == 2
    _, result = held.play(plan(1000, "fifo"), tables([(102, "x")], [(102, "x")]), None)
    assert (result.counts["n_late"], result.counts["total_n_late"]) == (0, 2)


@pytest.mark.parametrize("streams", ("ab", "abc", "abcd"))
def test_the_meter_is_exact_again_once_all_ghosts_that_it_let_go_are_gone(streams):
    """A few batches in a small memory with room for few ghosts; then ample memory; then little again, with ample ghosts."""
    random, held, whole = Random(1), Held(), None
    schema = pa.schema([("k", pa.string()), *((f"{side}_v", pa.int64()) for side in streams)])
    payload = tuple((f"{side}_v",) for side in streams)
    options = {"window": 20, "memory": 10, "policy": "fifo", "stats": "decayed"}
    small = ShardPlan(tuple(streams), 1, payload, options, schema, ("time",) * len(streams), ghosts=5)
    ample = replace(small, options=options | {"memory": 100_000}, ghosts=1_000_000)
    whole, told = Shard(ample), []
    for number in range(30):
        now = small if number < 6 else ample if number < 16 else replace(small, ghosts=1_000_000)
        batch = [table(side, [(number * 5 + at, random.choice("abcdef")) for at in range(5)]) for side in streams]
        _, result = held.play(now, batch, None)
        every = whole.play(batch, clocks_of(batch)).counts["n_output"]
        told.append((result.counts["estimated"], result.counts["lost"], every - result.counts["n_output"]))
    assert any(estimated for estimated, _, _ in told[:6]) and not any(estimated for estimated, _, _ in told[12:])
    assert [lost for _, lost, _ in told[12:]] == [missing for _, _, missing in told[12:]] and told[-1][1] > 0


def test_a_budget_in_bytes_that_changes_bounds_the_payload_by_what_holds_now():
    random, held = Random(3), Held()
    schema = pa.schema([("k", pa.string()), ("l_v", pa.string()), ("r_v", pa.string())])
    memory = part_of(Pools.parse("0:200 KB,100:160 KB", ("l", "r")), ("l", "r"), 1)
    options = {"window": 2000, "memory": memory, "policy": "rand", "stats": "decayed"}
    changing = ShardPlan(("l", "r"), 1, (("l_v",), ("r_v",)), options, schema, ("time", "time"))
    for number in range(40):
        rows = [(number * 5 + at // 4, f"k{random.randrange(30)}") for at in range(20)]
        _, result = held.play(changing, [table(side, rows, "x" * 1000) for side in "lr"], None)
        assert result.counts["retained_bytes"] <= (200_000 if number < 20 else 160_000)
    assert result.counts["total_n_shed"] > 0
