"""A shard without Spark: packed cells, numbers for keys, and an engine with payload."""

from __future__ import annotations

import math
from collections import Counter
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from held_shards import Held, a_batch, clocks_of, plan
from penstock.core.budget import Pools
from penstock.shard.cells import CELL, UNKNOWN, from_cell, packer, unpacker
from penstock.shard.division import part_of
from penstock.shard.keys import KeyBook
from penstock.shard.payload import Payload
from penstock.shard.row_bytes import row_bytes
from penstock.shard.shard import Shard
from penstock.shard.shard_plan import ShardPlan
from penstock.shard.spark_hash import placed

VALUES = st.none() | st.sampled_from(("", "a", "b", "ab")) | st.text(max_size=2)


@given(st.lists(st.tuples(VALUES, st.none() | st.integers(-(1 << 63), (1 << 63) - 1)), min_size=1, max_size=12), st.integers(1, 11))
def test_keys_have_equal_numbers_exactly_where_they_are_equal(keys, cut):
    """In one batch or in two; a null in any column matches nothing."""
    book = KeyBook()
    parts = [keys[:cut], keys[cut:]]
    types = (pa.string(), pa.int64())
    numbers = [
        book.numbers([pa.array(column, kind) for column, kind in zip(zip(*part, strict=True), types, strict=True)]).tolist()
        for part in parts
        if part
    ]
    flat = [number for part in numbers for number in part]
    for left, x in enumerate(keys):
        assert (flat[left] < 0) == (None in x)
        for right, y in enumerate(keys):
            if None not in x and None not in y:
                assert (flat[left] == flat[right]) == (x == y)


@given(st.lists(st.none() | st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-3, 3), min_size=1, max_size=12))
def test_whole_numbers_need_no_dictionary_and_no_two_share_a_number(values):
    numbers = KeyBook().numbers([pa.array(values, pa.int64())]).tolist()
    assert [number < 0 for number in numbers] == [value is None for value in values]
    seen = {value: number for value, number in zip(values, numbers, strict=True) if value is not None}
    assert len(set(seen.values())) == len(seen)


def test_zeros_are_one_key_and_so_are_nans():
    numbers = KeyBook().numbers([pa.array([0.0, -0.0, float("nan"), -float("nan"), 1.0])])
    assert numbers[0] == numbers[1] != numbers[2] == numbers[3] != numbers[4]


def test_every_shard_hears_from_every_task():
    batch = pa.record_batch({"shard": [1, 0, 1, 0], "time": [5, 7, 6, None], "v": ["a", "b", "c", "d"]})
    cells = [part for out in packer(0, np.array([10, 20, 30]), "time", batch.schema.names)(iter([batch])) for part in out.to_pylist()]
    headers, packed = [cell for cell in cells if cell[CELL] is None], [cell for cell in cells if cell[CELL] is not None]
    assert [(cell["shard"], cell["clock"], cell["nulls"]) for cell in headers] == [(10, 7, 1), (20, 7, 0), (30, 7, 0)]
    content = {(cell["shard"], cell["first"]): from_cell(cell[CELL]).to_pydict() for cell in packed}
    assert content == {(10, 7): {"time": [7], "v": ["b"]}, (20, 5): {"time": [5, 6], "v": ["a", "c"]}}
    idle = [part for out in packer(0, np.array([10]), "time", ["time"])(iter([])) for part in out.to_pylist()]
    assert [(cell["clock"], cell[CELL]) for cell in idle] == [(UNKNOWN, None)]


def test_rows_without_a_shard_are_placed_by_their_keys_and_cells_stay_small(monkeypatch):
    monkeypatch.setattr("penstock.shard.cells.CELL_SIZE", 800)
    batch = pa.record_batch({"key0": pa.array([*range(200), None]), "time": pa.array(range(201)), "v": ["x" * 10] * 201})
    packed = [
        part for out in packer(0, np.array([10, 20]), "time", batch.schema.names, ["key0"])(iter([batch])) for part in out.to_pylist()
    ]
    found = [(cell["shard"], cell["first"], from_cell(cell[CELL])) for cell in packed if cell[CELL] is not None]
    place = placed([pa.chunked_array([batch["key0"]])], 201, 2)
    for number, shard in enumerate((10, 20)):
        own = [(first, table) for at, first, table in found if at == shard]
        times = [time for _, table in own for time in table["time"].to_pylist()]
        assert times == np.flatnonzero(place == number).tolist() and times
        assert [first for first, _ in own] == [table["time"][0].as_py() for _, table in own] and len(own) > 3
        assert max(table.nbytes for _, table in own) <= 900
    alone = [part for out in packer(0, np.array([10]), "time", batch.schema.names)(iter([batch])) for part in out.to_pylist()]
    assert pa.concat_tables(from_cell(cell[CELL]) for cell in alone if cell[CELL] is not None).equals(pa.table(batch))


@pytest.mark.wide
@pytest.mark.parametrize("nearby", (False, True), ids=("from the state", "from a local copy"))
@pytest.mark.parametrize("policy", ps.POLICIES)
def test_a_shard_joins_like_the_simulator_and_forgets_nothing_over_a_restart(tmp_path, policy, nearby):
    random = Random(policy)
    held = Held()
    made: list[tuple[int, int]] = []
    arrivals: list[tuple[int, str, int, str]] = []
    for number in range(12):
        tables = a_batch(random, number * 25, 25)
        for side, table in zip("lr", tables, strict=True):
            arrivals += zip(
                table["time"].to_pylist(), side * len(table), table[f"{side}_v"].to_pylist(), table["key0"].to_pylist(), strict=True
            )
        shard, result = held.play(plan(15, policy), tables, tmp_path if nearby else None)
        joined = pa.concat_tables(result.joined)
        made += zip(joined["l_v"].to_pylist(), joined["r_v"].to_pylist(), strict=True)
        assert result.counts["retained_rows"] <= 15
        assert sum(len(block.rows) for block in shard.payload.blocks.values()) <= 2 * 15 + 2  # dead payload is at most half of a block
    arrivals.sort(key=lambda row: row[:3])
    trace = ps.Trace(
        {"stream": [s for _, s, _, _ in arrivals], "time": [t for t, *_ in arrivals], "key": [k for *_, k in arrivals]}, streams=("l", "r")
    )
    run = ps.simulate(trace, window=20, memory=15, policy=policy, stats="decayed", clock="streams", keep=ps.Keep(outputs=True))
    assert run.outputs is not None and run.n_shed > 0
    assert Counter(made) == Counter((arrivals[left][2], arrivals[right][2]) for _, left, right in run.outputs.tolist())
    exact = ps.exact(trace, window=20, clock="streams")
    assert result.counts["total_n_output"] == run.n_output
    assert result.counts["total_lost"] == exact.n_output - run.n_output


@pytest.mark.parametrize("nearby", (False, True), ids=("from the state", "from a local copy"))
@pytest.mark.parametrize(("policy", "memory"), (("fifo", 1000), ("prob", 12), ("ep", 12), ("learned", 12)))
def test_what_a_broken_promise_misses_is_lost_and_a_restart_keeps_the_promise(tmp_path, policy, memory, nearby):
    """A row of l leaves with its first partner, though there are more: what it would have made later counts as lost."""
    random = Random(policy)
    held, arrivals, promised = Held(), [], plan(memory, policy)
    promised.options["matches"] = {"l": 1, "r": None}
    for number in range(12):
        tables = a_batch(random, number * 25, 25)
        for side, table in zip("lr", tables, strict=True):
            arrivals += zip(
                table["time"].to_pylist(), side * len(table), table[f"{side}_v"].to_pylist(), table["key0"].to_pylist(), strict=True
            )
        _, result = held.play(promised, tables, tmp_path if nearby else None)
    arrivals.sort(key=lambda row: row[:3])
    trace = ps.Trace(
        {"stream": [s for _, s, _, _ in arrivals], "time": [t for t, *_ in arrivals], "key": [k for *_, k in arrivals]}, streams=("l", "r")
    )
    run = ps.simulate(trace, window=20, memory=memory, policy=policy, stats="decayed", clock="streams", matches={"l": 1})
    exact = ps.exact(trace, window=20, clock="streams")
    assert result.counts["total_n_output"] == run.n_output < exact.n_output
    assert result.counts["total_lost"] == exact.n_output - run.n_output
    assert result.counts["total_n_done"] == run.n_done > 30
    with pytest.raises(ps.PenstockError, match=r"matches was \{'l': 1, 'r': None\}, now it is None"):
        held.vault(plan(memory, policy)).open(None)


def test_cells_are_unpacked_into_rows():
    schema = pa.schema([("a", pa.int64())])
    shard_rows = pa.table({"a": [1, 2, 3]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(shard_rows)
    batch = pa.record_batch({CELL: pa.array([bytes(sink.getvalue()), None], pa.binary())})
    assert [row for part in unpacker(schema)(iter([batch])) for row in part.to_pylist()] == [{"a": 1}, {"a": 2}, {"a": 3}]


def test_a_large_block_is_written_in_pieces(monkeypatch):
    monkeypatch.setattr("penstock.shard.payload._MOST", 100)
    payload = Payload()
    payload.add(0, np.arange(100), pa.table({"v": [f"{number:03}" for number in range(100)]}))
    cells = payload.close(np.arange(0, 100, 3))
    assert len(cells) > 3 and max(block.table.nbytes for block in payload.blocks.values()) <= 110
    wanted = np.array([98, 1, 50, 49])
    assert payload.fetch(0, wanted, ["v"])["v"].to_pylist() == ["098", "001", "050", "049"]
    again = Payload()
    again.restore({number: cell for number, cell in cells.items() if cell is not None}, np.setdiff1d(np.arange(100), np.arange(0, 100, 3)))
    assert again.fetch(0, wanted, ["v"])["v"].to_pylist() == ["098", "001", "050", "049"] and again.next == payload.next


def test_a_stream_may_keep_no_column_and_a_condition_may_look_at_one_stream_only(tmp_path):
    """Blocks without columns still have rows, in the state and in a local copy."""
    schema = pa.schema([("k", pa.string()), ("l_v", pa.int64()), ("__lost", pa.float64())])
    options = {"window": 20, "memory": 15, "policy": "prob", "stats": "decayed"}
    bare = ShardPlan(("l", "r"), 1, (("l_v",), ()), options, schema, ("time", "time"), condition="l_v > 0", judged=(("l_v",), ()))
    random, held, whole = Random(1), Held(), Shard(plan(15, "prob"))
    for number in range(6):
        tables = a_batch(random, number * 25, 25)
        _, result = held.play(bare, tables, tmp_path if number % 2 else None)
        expected = whole.play(tables, clocks_of(tables))
        joined = pa.concat_tables(result.joined)
        made = joined.filter(pc.equal(joined["__lost"], 0))
        assert made["l_v"].to_pylist() == pa.concat_tables(expected.joined)["l_v"].to_pylist()
        assert joined.num_rows - made.num_rows == expected.counts["lost"]
    assert expected.counts["total_lost"] > 0


def test_joined_rows_are_made_some_at_a_time(monkeypatch):
    """One long text that meets many rows: all joined rows at once would be many times what came."""
    schema = pa.schema([("k", pa.string()), ("l_v", pa.string()), ("r_v", pa.string()), ("__lost", pa.float64())])
    options = {"window": 1000, "memory": 1000, "policy": "prob", "stats": "decayed"}
    wide = ShardPlan(("l", "r"), 1, (("l_v",), ("r_v",)), options, schema, ("time", "time"))
    sides = []
    for side, long in (("l", 40), ("r", 70)):
        values = [side * (10_000 if n == long else n % 5) for n in range(100)]
        sides.append(pa.table({"time": range(100), "order": range(100), "key0": ["a"] * 100, f"{side}_v": values}))
    expected = pa.concat_tables(Shard(wide).play(sides, clocks_of(sides)).joined)
    monkeypatch.setattr("penstock.shard.results.joined_rows._PIECE", 50_000)
    pieces = list(Shard(wide).play(sides, clocks_of(sides)).joined)
    assert pa.concat_tables(pieces).to_pylist() == expected.to_pylist() and expected.num_rows == 10_000
    sizes = [int(row_bytes(piece).sum()) for piece in pieces]
    assert len(pieces) > 30 and max(sizes) < 50_000 + 20_000 + 20 * max(piece.num_rows for piece in pieces)


def test_what_a_condition_looks_at_is_there_while_a_ghost_or_its_memory_is(tmp_path):
    """Tuples of a batch are forgotten over several batches: what was made and what was lost are the exact join, column by column."""
    schema = pa.schema([("k", pa.string()), ("l_v", pa.int64()), ("r_v", pa.int64()), ("__lost", pa.float64())])
    options = {"window": 20, "memory": 15, "policy": "prob", "stats": "decayed"}
    judging = ShardPlan(
        ("l", "r"), 1, (("l_v",), ("r_v",)), options, schema, ("time", "time"), condition="l_v < r_v", judged=(("l_v",), ("r_v",))
    )
    random, held, ample, pairs, exact = Random(7), Held(), Shard(plan(10_000, "prob")), Counter(), Counter()
    for number in range(24):
        tables = a_batch(random, number * 8, 8)
        _, result = held.play(judging, tables, tmp_path if number % 3 else None)
        for found, into in ((result.joined, pairs), (ample.play(tables, clocks_of(tables)).joined, exact)):
            joined = pa.concat_tables(found)
            into.update(zip(joined["l_v"].to_pylist(), joined["r_v"].to_pylist(), strict=True))
    assert result.counts["total_lost"] > 100
    assert pairs == exact


@pytest.mark.parametrize("memory", (20, "20", np.int64(20), {"l": "10", "r": 10}, "l=10,r=10", "0:20,50:10"), ids=str)
def test_a_budget_is_for_all_shards_together_however_it_is_told(memory):
    caps = [Pools.parse(part_of(Pools.parse(memory, ("l", "r")), ("l", "r"), 2), ("l", "r")).caps for _ in "ab"]
    assert [row.sum() for row in sum(caps)] == ([20, 10] if memory == "0:20,50:10" else [20])


@given(st.lists(st.none() | st.lists(st.none() | st.text(max_size=3), max_size=4), min_size=1, max_size=8), st.integers(0, 7))
def test_rows_weigh_what_is_in_them(lists, begin):
    """Lists, maps and structs too, in a slice of an array as well."""
    whole = {
        "list": pa.array(lists, pa.list_(pa.string())),
        "map": pa.array([None if one is None else list(enumerate(one)) for one in lists], pa.map_(pa.int64(), pa.string())),
        "struct": pa.array([{"a": one, "b": 1.5} for one in lists], pa.struct([("a", pa.list_(pa.string())), ("b", pa.float64())])),
        "void": pa.nulls(len(lists)),
    }
    table = pa.table(whole).slice(begin)
    texts = [sum(len((text or "").encode()) + 4 + 1 / 8 for text in one or ()) for one in lists[begin:]]
    each = [
        3 * text + len(one or ()) * (8 + 1 / 8) + 3 * (4 + 1 / 8) + 8 + 1 / 8 + 1 / 8
        for text, one in zip(texts, lists[begin:], strict=True)
    ]
    assert row_bytes(table).tolist() == [math.ceil(size) for size in each]
