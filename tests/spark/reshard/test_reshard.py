"""Another number of shards: nothing is lost, nothing is repeated, and the query goes on counting."""

from __future__ import annotations

import zlib
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.core.clock_limit import Limit
from penstock.shard.cells import UNKNOWN
from penstock.shard.keys import KeyBook
from penstock.shard.shard import Shard
from penstock.shard.shard_plan import ShardPlan

pytest.importorskip("pyspark")
from held_shards import told_of
from penstock.shard.shard_ids import shard_ids
from penstock.shard.state.state_rows import whole
from penstock.spark.reshard.reshard import divided, opened, reshard
from policy_kinds import WEIGHED
from sparks import ON_SPARK, SCHEMA, add_batches, bag, in_batches, joined, ran, rows, spark_join
from strategies import later


def plan_of(shards: int, memory: int, policy: str) -> ShardPlan:
    schema = pa.schema([("k", pa.string()), ("l_v", pa.int64()), ("r_v", pa.int64())])
    if policy in WEIGHED:
        schema = schema.append(pa.field("value", pa.float64()))
    options = {"window": 20, "memory": memory // shards, "policy": policy, "stats": "decayed"}
    payload = (("l_v",), ("r_v",))
    return ShardPlan(("l", "r"), 1, payload, options, schema, ("time", "time"), policy in WEIGHED, shards=tuple(range(shards)))


def place(key: Any, shards: int) -> int:
    return zlib.crc32(str(key).encode()) % shards


def placed(shards: int, columns: list[pa.Array]) -> Any:
    return np.array([place(k, shards) for k in columns[0].to_pylist()], dtype=np.int64)


def batches(random: Random, n: int, weighed: bool) -> list[list[pa.Table]]:
    out = []
    for number in range(n):
        tables = []
        for side in "lr":
            size = random.randrange(1, 40)
            late = [random.randrange(50) if random.random() < 0.2 else 0 for _ in range(size)]
            times = [number * 10 + random.randrange(10) - behind for behind in late]
            columns: dict[str, Any] = {"time": times, "order": list(range(size)), "key0": [random.choice("aabcdefghijk") for _ in times]}
            columns[f"{side}_v"] = [number * 1000 + i for i in range(size)]
            if weighed:
                columns["importance"] = [random.choice((1.0, 2.0, 4.0)) for _ in times]
            tables.append(pa.table(columns))
        out.append(tables)
    return out


def played(shards: list[Shard], tables: list[pa.Table]) -> list[tuple[Any, ...]]:
    """One batch on all shards: the joined rows."""
    clocks = np.array([max(table["time"].to_pylist()) for table in tables])
    made: list[tuple[Any, ...]] = []
    for number, shard in enumerate(shards):
        mine = [table.filter(pa.array([place(k, len(shards)) == number for k in table["key0"].to_pylist()])) for table in tables]
        joined = pa.concat_tables(shard.play(mine, clocks).joined)
        made += zip(*(joined[name].to_pylist() for name in ("k", "l_v", "r_v")), strict=True)
    return made


def exact(all_batches: list[list[pa.Table]]) -> Counter[Any]:
    left, right = ([row for tables in all_batches for row in tables[side].to_pylist()] for side in (0, 1))
    return Counter(
        (x["key0"], x["l_v"], y["r_v"]) for x in left for y in right if x["key0"] == y["key0"] and abs(x["time"] - y["time"]) < 20
    )


@pytest.mark.parametrize(("before", "after"), (later(1, 3), (4, 2)))
def test_rows_that_are_ahead_go_along_and_are_played_when_their_time_comes(before, after):
    limit, keys, few = Limit(400), "abcdefgh", "bdg"  # too few to support each other
    plans = [replace(plan_of(count, 4000, "prob"), ahead=limit) for count in (before, after)]
    shards, made = [Shard(plans[0], number) for number in range(before)], []
    for number in range(60):
        ahead = {2: ("l", 1000), 50: ("r", 1001)}.get(number)
        tables = []
        for side in "lr":
            times, own = [20 * number] * len(keys), list(keys)
            if ahead is not None and ahead[0] == side:  # first far ahead of all others, and when they have come there, its partners
                times, own = times + [ahead[1]] * len(few), own + list(few)
            values = [1000 * number + at for at in range(len(own))]
            tables.append(pa.table({"time": times, "order": list(range(len(own))), "key0": own, f"{side}_v": values}))
        if number == 20:
            shards = divided(shards, plans[1], partial(placed, after))
        for at, shard in enumerate(shards):
            mine = [table.filter(pa.array([place(k, len(shards)) == at for k in table["key0"].to_pylist()])) for table in tables]
            result = shard.play(*shard.sift(mine, told_of(tables, limit)))
            table = pa.concat_tables(result.joined)
            made += zip(*(table[name].to_pylist() for name in ("k", "l_v", "r_v")), strict=True)
        assert sum(shard.aside.held.sum() for shard in shards) == (len(few) if 2 <= number < 50 else 0)
    assert sum(shard.aside.n_ahead for shard in shards) == len(few)
    for at, key in enumerate(few):
        assert (key, 2000 + len(keys) + at, 50_000 + len(keys) + at) in made


@pytest.mark.wide
@pytest.mark.parametrize("policy", ps.POLICIES)
@pytest.mark.parametrize(("before", "after"), ((1, 3), (3, 2), (4, 1)))
def test_what_is_made_and_what_is_lost_is_still_everything(policy, before, after):
    random = Random(f"{policy} {before}")
    all_batches = batches(random, 8, policy in WEIGHED)
    for memory in (24, 100_000):
        shards = [Shard(plan_of(before, memory, policy), number) for number in range(before)]
        made = [row for tables in all_batches[:3] for row in played(shards, tables)]
        for count, some in ((before + after, all_batches[3:6]), (after, all_batches[6:])):
            held = sum(len(shard.engine.retained()) for shard in shards)
            plan = plan_of(count, memory, policy)
            shards = divided(shards, plan, partial(placed, count))
            assert sum(len(shard.engine.retained()) for shard in shards) + sum(len(shard.trimmed) for shard in shards) == held
            made += [row for tables in some for row in played(shards, tables)]
        whole = exact(all_batches)
        assert not Counter(made) - whole
        assert sum(shard.engine.totals.n_output for shard in shards) == len(made)
        assert sum(shard.meter.total.lost for shard in shards) == sum(whole.values()) - len(made)
        assert sum(shard.engine.totals.n_input for shard in shards) == sum(table.num_rows for tables in all_batches for table in tables)
        assert len(made) < sum(whole.values()) and (memory == 24) == any(shard.engine.totals.n_shed for shard in shards)  # some were late
        assert max(len(shard.engine.retained()) for shard in shards) <= memory // after


def in_state(shards: list[Shard]) -> list[Shard]:
    """The same shards, written into a state and read from it."""
    state: dict[str, list[Any]] = {"head": [], "cells": []}
    for number, shard in enumerate(shards):
        head, cells = whole(shard)
        key = (int(shard_ids(len(shards))[number]),)
        state["head"].append((key, None, head))
        state["cells"] += [(key, at, (cell,)) for at, cell in cells.items()]
    return opened(state)


@pytest.mark.parametrize("matches", ({"l": 1, "r": 1}, {"l": 3, "r": None}), ids=str)
@pytest.mark.parametrize(("before", "after"), ((1, 3), (3, 2), (4, 1)))
def test_tuples_still_leave_with_their_last_partner(before, after, matches):
    """A tuple that has met some of its partners before meets no more than the rest afterwards; what a broken promise misses is counted."""
    random, all_batches = Random(f"{before} {matches}"), []
    for number in range(8):
        times = {side: sorted(number * 10 + random.randrange(10) for _ in range(random.randrange(5, 30))) for side in "lr"}
        keys = {side: [random.choice("aabcdefghijk") for _ in own] for side, own in times.items()}
        columns = {side: {"time": own, "order": list(range(len(own))), "key0": keys[side]} for side, own in times.items()}
        all_batches.append([pa.table(columns[side] | {f"{side}_v": [number * 1000 + i for i in range(len(times[side]))]}) for side in "lr"])

    def planned(count: int) -> ShardPlan:
        plan = plan_of(count, 100_000, "prob")
        return replace(plan, options=plan.options | {"matches": matches})

    whole_run = [Shard(planned(1))]
    wanted = [sorted(played(whole_run, tables)) for tables in all_batches]
    shards = [Shard(planned(before), number) for number in range(before)]
    got = [sorted(played(shards, tables)) for tables in all_batches[:4]]
    shards = in_state(divided(shards, planned(after), partial(placed, after)))
    assert {one.plan.options["matches"]["l"] for one in shards} == {matches["l"]}
    got += [sorted(played(shards, tables)) for tables in all_batches[4:]]
    assert got == wanted
    assert sum(shard.engine.totals.n_done for shard in shards) == whole_run[0].engine.totals.n_done > 20
    lost = sum(shard.meter.total.lost for shard in shards)
    assert lost == whole_run[0].meter.total.lost == sum(exact(all_batches).values()) - sum(map(len, got)) > 0


@pytest.mark.parametrize("policy", ("fifo", "prob", "life"))
@pytest.mark.parametrize(("before", "after"), ((1, 3), (3, 2), (4, 1)))
def test_windows_of_the_rows_of_each_key_go_on(before, after, policy):
    """A tuple that some rows of its key have followed stays for the rest of them."""

    def planned(count: int, memory: int) -> ShardPlan:
        plan = plan_of(count, memory, policy)
        return replace(plan, options=plan.options | {"window": "rows_per_key:3", "half_life": 20})

    random, all_batches = Random(f"{before} rows"), []
    for number in range(8):
        times = {side: sorted(number * 10 + random.randrange(10) for _ in range(random.randrange(5, 30))) for side in "lr"}
        columns = {side: {"time": own, "order": list(range(len(own)))} for side, own in times.items()}
        for side, own in columns.items():
            own |= {"key0": [random.choice("aabcdefghijk") for _ in own["time"]], f"{side}_v": [number * 1000 + i for i in own["order"]]}
        all_batches.append([pa.table(columns[side]) for side in "lr"])

    def run(memory: int, divides: bool) -> tuple[list[Any], list[Shard]]:
        shards, made = [Shard(planned(before, memory), number) for number in range(before)], []
        for number, tables in enumerate(all_batches):
            if divides and number == 4:
                shards = in_state(divided(shards, planned(after, memory), partial(placed, after)))
            made.append(sorted(played(shards, tables)))
        return made, shards

    wanted, whole_run = run(100_000, divides=False)
    got, shards = run(100_000, divides=True)
    assert got == wanted and sum(map(len, got)) > 100
    assert sum(one.engine.totals.n_expired for one in shards) == sum(one.engine.totals.n_expired for one in whole_run) > 100
    few, shards = run(24, divides=True)
    assert not Counter(row for batch in few for row in batch) - Counter(row for batch in wanted for row in batch)
    assert sum(shard.meter.total.lost for shard in shards) == sum(map(len, wanted)) - sum(map(len, few)) > 0


@pytest.mark.parametrize("times", (1, 2))
@pytest.mark.parametrize("policy", ("fifo", "ep", "prob"))  # by age, by pattern, by rate: what shards hand on differs
def test_what_a_new_shard_has_no_room_for_is_told_by_its_next_batch(policy, times):
    (old,) = [Shard(plan_of(1, 12, policy), 0)]
    columns = {"time": list(range(12)), "order": list(range(12)), "key0": ["a"] * 12, "l_v": list(range(12))}
    old.play([pa.table(columns), None], np.array([11, UNKNOWN]))
    shards = [old]
    for after in range(2, 2 + times):
        divide = divided(shards, plan_of(after, 12, policy), lambda columns: np.zeros(len(columns[0]), dtype=np.int64))
        shards = in_state(divide)
    held = sum(len(shard.engine.retained()) for shard in shards)
    assert held == 12 // (1 + times)
    meets = pa.table({"time": [12], "order": [0], "key0": ["a"], "r_v": [0]})
    told, shed, made, lost = [], 0, 0, 0
    for number, shard in enumerate(shards):
        shard.plan = replace(shard.plan, archive="somewhere")
        result = shard.play([None, meets if number == 0 else None], np.array([12, 12]))
        assert result.left is not None
        told += result.left["row"].to_pylist()
        shed, lost = shed + result.counts["n_shed"], lost + result.counts["lost"]
        made += pa.concat_tables(result.joined).num_rows
        assert not len(shard.trimmed)
    assert made == held and lost == 12 - held and shed >= 12 - held
    assert len(set(told)) == len(told) == shed


def test_a_smaller_part_of_a_larger_memory_is_counted_too():
    plan = plan_of(1, 20, "fifo")
    memory = {"l": 10, "r": 2}
    plan = replace(plan, options=plan.options | {"memory": memory, "window": 100})
    shard = Shard(plan, 0)
    columns = {"time": list(range(10)), "order": list(range(10)), "key0": ["a"] * 10, "l_v": list(range(10))}
    shard.play([pa.table(columns), None], np.array([9, UNKNOWN]))
    less = replace(plan, options=plan.options | {"memory": {"l": 4, "r": 30}})
    moved = Shard(less, 0)
    moved.engine.restore(shard.engine.snapshot())
    moved.book, moved.payload = shard.book, shard.payload
    moved.trim()
    meets = pa.table({"time": [10], "order": [0], "key0": ["a"], "r_v": [0]})
    result = moved.play([None, meets], np.array([10, 10]))
    assert pa.concat_tables(result.joined).num_rows == 4 and result.counts["lost"] == 6 and result.counts["n_shed"] == 6


KINDS = {
    "string": (pa.string(), st.text(max_size=3)),
    "binary": (pa.binary(), st.binary(max_size=3)),
    "long": (pa.int64(), st.integers(-(1 << 63), (1 << 63) - 1)),
    "boolean": (pa.bool_(), st.booleans()),
    "date": (pa.date32(), st.dates()),
    "decimal": (pa.decimal128(9, 2), st.integers(-(10**6), 10**6).map(lambda n: Decimal(n) / 100)),
    "double": (pa.float64(), st.floats(allow_nan=False).map(lambda x: x + 0.0)),
}


@given(st.data(), st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3))
def test_keys_can_be_read_back_from_their_numbers(data, names):
    kinds = [KINDS[name] for name in names]
    values = data.draw(st.lists(st.tuples(*(values for _, values in kinds)), min_size=1, max_size=8))
    columns = [pa.array(column, kind) for column, (kind, _) in zip(zip(*values, strict=True), kinds, strict=True)]
    book = KeyBook()
    back = book.columns(book.numbers(columns), [kind for kind, _ in kinds])
    assert [column.to_pylist() for column in back] == [column.to_pylist() for column in columns]


class TestOnSpark:
    pytestmark = ON_SPARK

    @pytest.mark.slow
    def test_a_query_goes_on_with_another_number_of_shards(self, spark, tmp_path):
        parts = {side: [rows(f"{side}{number}", 40, seconds=30, seed=number) for number in range(4)] for side in "lr"}
        frames = [in_batches(spark, tmp_path / side, parts[side][:2]) for side in "lr"]
        options = {"memory": 60, "condition": "l_v <> r_v", "archive": str(tmp_path / "ledger")}
        ran(joined(*frames, shards=2, **options), tmp_path)
        backup = reshard(spark, str(tmp_path / "checkpoint"), 3)
        assert "before-rewrite" in backup
        for side in "lr":
            add_batches(spark, tmp_path / side, parts[side][2:])
        with pytest.raises(Exception, match="shards was 3, now it is 2"):
            ran(joined(*frames, shards=2, **options), tmp_path)
        out, seen = ran(joined(*frames, shards=3, **options), tmp_path)
        everything = [spark.createDataFrame([row for part in parts[side] for row in part], SCHEMA) for side in "lr"]
        whole, got = bag(spark_join(*everything, ["k"], 10)), bag(out)
        assert not got - whole
        assert seen[-1]["total_n_input"] == 320 and seen[-1]["total_n_output"] == sum(got.values())
        assert seen[-1]["total_lost"] == sum(whole.values()) - sum(got.values()) > 0
        settled = bag(ps.settle(options["archive"], checkpoint=str(tmp_path / "checkpoint"), spark=spark))
        assert got + settled == whole

    def test_nonsense_is_refused(self, spark, tmp_path):
        with pytest.raises(ps.PenstockError, match="shards must be a whole number >= 1, got 0"):
            reshard(spark, str(tmp_path), 0)
