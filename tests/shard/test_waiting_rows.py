"""Rows that are ahead in shards, without Spark: they wait in the budget and the state, and all shards decide alike."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from held_shards import Held, a_batch, plan, told_of
from penstock.core.clock_limit import Limit
from penstock.core.trace import LIMIT
from penstock.shard.cells import packer
from penstock.shard.division import SPAN
from penstock.shard.shard import Shard
from penstock.shard.waiting_rows import Told


def with_stray(tables: list[pa.Table], times: dict[int, int]) -> list[pa.Table]:
    out = list(tables)
    for stream, time in times.items():
        row = {"time": [time], "order": [99], "key0": ["a"], f"{'lr'[stream]}_v": [-1]}
        out[stream] = pa.concat_tables([out[stream], pa.table(row)])
    return out


def sifted(held: Held, own: Any, tables: list[pa.Table], nearby: Path | None, told: Told) -> tuple[Shard, Any]:
    vault = held.vault(own)
    shard = vault.open(nearby)
    plays, clocks = shard.sift(tables, told)
    result = shard.play(plays, clocks)
    pairs = pa.concat_tables(result.joined)
    vault.save(shard, result, clocks, nearby)
    return shard, (Counter(zip(pairs["l_v"].to_pylist(), pairs["r_v"].to_pylist(), strict=True)), result)


STRAYS = {"one": {0: 10**9}, "both": {0: 10**9, 1: 10**9}, "near": {1: 2000}, "the end of time": {0: LIMIT, 1: LIMIT}}


@pytest.mark.parametrize("nearby", (False, True), ids=("from the state", "from a local copy"))
@pytest.mark.parametrize("stray", STRAYS)
def test_a_shard_goes_on_as_if_a_stray_had_not_come(tmp_path, stray, nearby):
    random, limit = Random(stray), Limit(400)
    clean, guarded = Held(), Held()
    for number in range(14):
        tables = a_batch(random, number * 25, 25)
        _, (wanted, expected) = sifted(clean, plan(200, "prob"), tables, None, told_of(tables, limit))
        came = with_stray(tables, STRAYS[stray]) if number == 4 else tables
        own = plan(200, "prob", ahead=limit)
        shard, (made, result) = sifted(guarded, own, came, tmp_path if nearby else None, told_of(came, limit))
        assert made == wanted
        assert result.counts["n_late"] == expected.counts["n_late"]
        assert result.counts["n_ahead"] == (len(STRAYS[stray]) if number == 4 else 0)
        assert result.counts["retained_ahead"] == (len(STRAYS[stray]) if number >= 4 else 0)
        assert result.counts["retained_rows"] == expected.counts["retained_rows"] + result.counts["retained_ahead"]
    assert shard.aside.n_ahead == len(STRAYS[stray])


def test_what_waits_is_released_when_the_others_get_there_and_meets_them():
    """Also by a shard that is read back from its state and its log."""
    limit, held, own = Limit(400), Held(), plan(100, "fifo", ahead=Limit(400))
    for number in range(60):
        rows = [
            pa.table(
                {"time": [number * 20] * 3, "order": [0, 1, 2], "key0": ["x", "y", "z"], f"{side}_v": [number * 3 + n for n in range(3)]}
            )
            for side in "lr"
        ]
        came = with_stray(rows, {0: 1000}) if number == 2 else rows
        if number == 50:
            came = [came[0], pa.concat_tables([came[1], pa.table({"time": [1000], "order": [9], "key0": ["a"], "r_v": [777]})])]
        _, (made, result) = sifted(held, own, came, None, told_of(came, limit))
        assert result.counts["n_late"] == 0
        assert result.counts["retained_ahead"] == (number >= 2 and number * 20 < 1000)
        assert ((-1, 777) in made) == (number == 50)


@pytest.mark.parametrize("memory", (8, {"l": 3, "r": 5}, "2 KB"), ids=str)
def test_the_budget_holds_whatever_waits(memory):
    random, limit, held = Random(3), Limit(400), Held()
    own, most = plan(memory, "prob", ahead=limit), 0
    for number in range(25):
        tables = a_batch(random, number * 5, 5)
        for _ in range(random.randrange(3)):
            tables = with_stray(tables, {random.randrange(2): random.randrange(10**6, 10**9)})
        shard, (_, result) = sifted(held, own, tables, None, told_of(tables, limit, stamp=number * 5))
        held_now, budget = shard.engine.held + shard.aside.held, shard.caps[0]
        if memory == 8:
            assert held_now.sum() <= 8
        elif isinstance(memory, dict):
            assert (held_now <= [3, 5]).all()
        else:
            assert shard.engine.totals.used + shard.aside.used(shard.problem.budget).sum() <= budget.sum()
            assert result.counts["retained_bytes"] <= 2000
        most = max(most, int(shard.aside.held.sum()))
    assert most > 0 and shard.aside.n_dropped > 0
    assert shard.aside.n_ahead == shard.aside.n_dropped + shard.aside.held.sum()


@pytest.mark.parametrize("shards", (1, 2, 7))
def test_shards_decide_alike(shards):
    random, limit = Random(9), Limit(400)
    own = plan(10_000, "fifo", ahead=limit)
    many, waits = [Shard(own, number) for number in range(shards)], []
    for number in range(12):
        tables = a_batch(random, number * 25, 25)
        if number in (3, 6):
            tables = with_stray(tables, {0: 10**9, 1: 10**8} if number == 3 else {1: 10**9 + 6})
        news, count = told_of(tables, limit), 0
        for at, shard in enumerate(many):
            mine = [table.filter(pa.array([sum(map(ord, key)) % shards == at for key in table["key0"].to_pylist()])) for table in tables]
            plays, clocks = shard.sift(mine, news)
            count += shard.play(plays, clocks).counts["retained_ahead"]
        assert len({(shard.aside.front.cell, shard.aside.front.total) for shard in many}) == 1
        waits.append(count)
    assert waits == [0] * 3 + [2] * 3 + [3] * 6


def test_dropped_rows_are_recorded_as_come_and_gone_under_numbers_of_their_own():
    limit = Limit(400, drop=True)
    own = plan(100, "fifo", ahead=limit, archive="somewhere")
    random, shards, numbers = Random(2), [Shard(own, 0), Shard(own, 1)], []
    for number in range(3):
        tables = with_stray(a_batch(random, number * 25, 25), {0: 10**9})
        for shard in shards:
            plays, clocks = shard.sift(tables, told_of(tables, limit))
            result = shard.play(plays, clocks)
            assert result.counts["n_ahead"] == 1 and result.counts["retained_ahead"] == 0 and result.counts["n_shed"] == 1
            assert result.counts["estimated"] == 1.0 and result.left is not None and result.arrived[0] is not None
            found = result.arrived[0].filter(pc.less(result.arrived[0]["row"], 0))
            left = result.left.filter(pc.less(result.left["row"], 0))
            assert found["row"].to_pylist() == left["row"].to_pylist() and found["arrived"][0].as_py() > left["left"][0].as_py()
            numbers += found["row"].to_pylist()
    assert len(set(numbers)) == 6 and min(numbers) < -SPAN


def test_times_that_no_sum_could_hold_are_no_times():
    ends = [(1 << 63) - 1, -(1 << 63), LIMIT + 1, -LIMIT - 1, LIMIT, -LIMIT, 7, None]
    batch = pa.record_batch({"time": pa.array(ends, pa.int64()), "v": list(range(8))})
    cells = [part for out in packer(0, np.array([10]), "time", ["time", "v"])(iter([batch])) for part in out.to_pylist()]
    header = next(cell for cell in cells if cell["cell"] is None)
    assert header["nulls"] == 5 and header["clock"] == LIMIT
