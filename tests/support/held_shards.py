"""One shard and its state without Spark: a plan, the state in memory as Spark would hold it, batches to play."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.clock_limit import Limit, counts_by_cell
from penstock.shard.cells import UNKNOWN
from penstock.shard.shard import Result, Shard
from penstock.shard.shard_plan import ShardPlan
from penstock.shard.state.state_rows import ShardState
from penstock.shard.waiting_rows import Told

Row = tuple[int, str]
"""Of a stream: time and key."""


def plan(memory: Any, policy: str, **more: Any) -> ShardPlan:
    schema = pa.schema([("k", pa.string()), ("l_v", pa.int64()), ("r_v", pa.int64())])
    options = {"window": 20, "memory": memory, "policy": policy, "stats": "decayed"}
    return ShardPlan(("l", "r"), 1, (("l_v",), ("r_v",)), options, schema, ("time", "time"), **more)


class Cells(dict):
    """A map state that lives in memory."""

    def updateValue(self, key, value):  # noqa: N802
        self[key] = value

    def removeKey(self, key):  # noqa: N802
        del self[key]

    def iterator(self):
        return iter(list(self.items()))


class Held:
    """The state of one shard, as Spark would hold it."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.head: Any = None
        self.cells = Cells()

    def vault(self, plan: ShardPlan) -> ShardState:
        return ShardState(plan, self.number, lambda: self.head, lambda head: setattr(self, "head", head), self.cells)

    def play(
        self, plan: ShardPlan, tables: list[pa.Table], nearby: Path | None, clocks: Any = None, versions: tuple[int, ...] = ()
    ) -> tuple[Shard, Result]:
        """One batch, from the state and back into it, which sees these versions of relations."""
        clocks, vault = clocks_of(tables) if clocks is None else clocks, self.vault(plan)
        shard = vault.open(nearby)
        shard.see(versions)
        result = shard.play(tables, clocks)
        vault.save(shard, result, clocks, nearby)
        return shard, result


def a_batch(random: Random, begin: int, ticks: int) -> list[pa.Table]:
    tables = []
    for side in "lr":
        times = sorted(begin + random.randrange(ticks) for _ in range(random.randrange(1, 30)))
        key = [random.choice("abcdefg") for _ in times]
        order = list(range(len(times)))
        columns = {"time": times, "order": order, "key0": key, f"{side}_v": [t * 100 + n for t, n in zip(times, order, strict=True)]}
        tables.append(pa.table(columns))
    return tables


def table(side: str, rows: list[Row], value: Any = None) -> pa.Table:
    """Rows of a stream: time and key; the payload is the time."""
    times = [time for time, _ in rows]
    columns = {"time": times, "order": list(range(len(rows))), "key0": [key for _, key in rows]}
    return pa.table(columns | {f"{side}_v": times if value is None else [value] * len(rows)})


def clocks_of(tables: list[pa.Table]) -> Any:
    """How far each stream has come."""
    return np.array([max(table["time"].to_pylist()) for table in tables])


def told_of(tables: list[pa.Table], limit: Limit, stamp: int | None = None) -> Told:
    found = [counts_by_cell(np.array(table["time"].to_pylist(), np.int64), limit) for table in tables]
    times = np.concatenate([np.concatenate([own, np.full((len(own), 1), n)], axis=1) for n, own in enumerate(found)])
    return Told(np.array([max(table["time"].to_pylist(), default=UNKNOWN) for table in tables]), times, stamp)
