"""Windows of every kind, lifetimes and given rates through another number of shards: made and lost are everything still."""

from __future__ import annotations

import zlib
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
from held_shards import Cells
from penstock.shard.given_rates import GIVEN, mark_of, read_given
from penstock.shard.shard import Shard
from penstock.shard.shard_ids import shard_ids
from penstock.shard.shard_plan import ShardPlan
from penstock.shard.state.state_rows import ShardState, whole
from penstock.spark.reshard.reshard import divided, opened
from windows import NEVER, Kind, exact

Row = tuple[int, Any, str]
KINDS: dict[str, tuple[Any, Kind, Kind]] = {
    "tumbling": ("tumbling:15", *[Kind({}, None, lambda time, _: time - time % 15 + 15)] * 2),
    "landmark": (
        {"l": "landmark:30", "r": 12},
        Kind({}, None, lambda time, _: NEVER if time >= 30 else time),
        Kind({}, None, lambda time, _: time + 12),
    ),
    "changing": ("0:20,40:5,60:9", *[Kind({}, None, lambda time, _: time + (20 if time < 40 else 5 if time < 60 else 9))] * 2),
    "lifetimes": (12, Kind({}, None, lambda time, value: time + 1 + 7 * int(value) % 30), Kind({}, None, lambda time, _: time + 12)),
}


def plan_of(kind: str, shards: int, memory: int, given: pa.Table | None) -> ShardPlan:
    schema = pa.schema([("k", pa.string()), ("l_v", pa.string()), ("r_v", pa.string())])
    options = {"window": KINDS[kind][0], "memory": memory // shards, "policy": "prob", "stats": "decayed", "half_life": 12.0}
    if given is not None:
        options |= {"stats": "given", "half_life": None}
    mortal = (True, False) if kind == "lifetimes" else ()
    plan = ShardPlan(("l", "r"), 1, (("l_v",), ("r_v",)), options, schema, ("time", "time"), lifetimes=mortal, given=given)
    facts = {} if given is None else {GIVEN: mark_of(given)}
    return replace(plan, shards=tuple(int(one) for one in shard_ids(shards)), facts=facts)


def place(key: Any, shards: int) -> int:
    return zlib.crc32(str(key).encode()) % shards


def batch(random: Random, number: int) -> list[list[Row]]:
    """The rows of both streams, some of which come too late."""
    out = []
    for _ in "lr":
        late = [random.randrange(40) if random.random() < 0.15 else 0 for _ in range(random.randrange(5, 30))]
        times = [max(0, 10 * number + random.randrange(10) - behind) for behind in late]
        out.append([(time, random.choice("aabcdefgh"), f"{1000 * number + i}") for i, time in enumerate(times)])
    return out


def played(shards: list[Shard], rows: list[list[Row]]) -> list[tuple[str, str]]:
    """One batch on all shards: the joined rows."""
    clocks, made = np.array([max(time for time, *_ in own) for own in rows]), []
    for number, shard in enumerate(shards):
        tables = []
        for side, own in zip("lr", rows, strict=True):
            mine = [row for row in own if place(row[1], len(shards)) == number]
            times, keys, values = ([row[at] for row in mine] for at in range(3))
            columns: dict[str, Any] = {"time": pa.array(times, pa.int64()), "order": list(range(len(mine)))}
            columns |= {"key0": pa.array(keys, pa.string()), f"{side}_v": pa.array(values, pa.string())}
            if side == "l" and shard.problem.has_lifetime:
                columns["lifetime"] = pa.array([1 + 7 * int(row[2]) % 30 for row in mine], pa.int64())
            tables.append(pa.table(columns))
        joined = pa.concat_tables(shard.play(tables, clocks).joined)
        made += zip(joined["l_v"].to_pylist(), joined["r_v"].to_pylist(), strict=True)
    return made


def state_of(shards: list[Shard]) -> list[tuple[int, Any, dict[Any, Any]]]:
    """What is written of them: id, head and cells."""
    return [(key, *whole(shard)) for key, shard in zip(shards[0].plan.shards, shards, strict=True)]


def read(shards: list[Shard]) -> list[Shard]:
    """As who divides a state reads it."""
    rows = state_of(shards)
    heads = [((key,), None, head) for key, head, _ in rows]
    return opened({"head": heads, "cells": [((key,), at, (cell,)) for key, _, cells in rows for at, cell in cells.items()]})


def continued(shards: list[Shard], plan: ShardPlan) -> list[Shard]:
    """As a query with this plan goes on with it."""
    out = []
    for number, (_, head, cells) in enumerate(state_of(shards)):
        held = Cells({at: (cell,) for at, cell in cells.items()})
        out.append(ShardState(plan, number, lambda head=head: head, lambda _: None, held).open(None))  # type: ignore[misc]
    return out


@pytest.mark.parametrize("given", (False, True), ids=("decayed", "given"))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("memory", (24, 100_000))
def test_what_is_made_and_what_is_lost_is_everything(kind, memory, given):
    random, (_, *kinds) = Random(kind), KINDS[kind]
    rates = {(side, key): float(rate) for rate, key in enumerate("abcdef") for side in "lr"}
    table = read_given(rates, ("l", "r"), [pa.string()]) if given else None
    plans = {count: plan_of(kind, count, memory, table) for count in (3, 2)}
    all_batches = [batch(random, number) for number in range(9)]
    shards = [Shard(plans[3], number) for number in range(3)]
    made = [pair for rows in all_batches[:5] for pair in played(shards, rows)]
    blind = replace(plans[2], given=None)  # rates are in no state: a tuple keeps its price
    moved = divided(read(shards), blind, lambda columns: np.array([place(key, 2) for key in columns[0].to_pylist()]))
    shards = continued(moved, plans[2])
    made += [pair for rows in all_batches[5:] for pair in played(shards, rows)]
    everything = exact(tuple(kinds), [[row for rows in all_batches for row in rows[side]] for side in (0, 1)])
    assert not Counter(made) - everything
    assert sum(shard.meter.total.lost for shard in shards) == sum(everything.values()) - len(made)
    assert sum(shard.engine.totals.n_output for shard in shards) == len(made) > 100
    assert (memory == 24) == any(shard.engine.totals.n_shed for shard in shards)
