"""The rows of a shard that are ahead (core/clock_limit.py): they wait beside its memory, in its budget and its state."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.core.budget import TUPLE_OVERHEAD, Pools
from penstock.core.clock_limit import CELL, LATEST, STREAM, Front, Limit
from penstock.core.trace import Ints
from penstock.shard.cells import UNKNOWN, from_cell, ticks, to_cells
from penstock.shard.row_bytes import row_bytes
from penstock.shard.row_order import ranks
from penstock.shard.shard_plan import ShardPlan

FACTS, ROWS = "guard", "aside"
"""Kinds of cells in the state: the front, which all shards have alike; and the rows of this one."""
Tables = Sequence[pa.Table | None]


class Told(NamedTuple):
    """What all tasks of a batch say of it: the largest times of the streams, their rows by cell of time, and the batch's own timestamp."""

    clocks: Ints
    times: Ints
    stamp: int | None


class Aside:
    """The rows that wait, and how far the clock of the join is supported."""

    def __init__(self, plan: ShardPlan) -> None:
        self.limit, self.names = plan.ahead, plan.times
        self.front = Front()
        self.tables: list[pa.Table] = [pa.table({})] * len(plan.streams)
        self.n_ahead = self.n_dropped = 0  # all over
        self.numbered = 0  # of the dropped, that the ledger has
        self.came: list[pa.Table] = []  # in this batch
        self.dropped: list[pa.Table] = []
        self.n_came = self.n_gone = 0
        self.written = 0  # cells with rows in the state
        self.changed = False  # since then

    def sift(self, tables: Tables, told: Told, seen: Ints, budget: Pools, room: Ints) -> tuple[list[pa.Table | None], Ints]:
        """The rows to be played now, new ones and some that waited; and the clocks of the streams."""
        limit, stamp = self.limit, told.stamp
        if limit is not None:
            if self.front.cell is None and seen.max() > UNKNOWN:  # the state is older than the limit
                self.front.cell = int(seen.max()) // limit.width
            self.front.advance(told.times, limit, stamp)
        plays, held = [], []
        self.came, self.dropped = [], []
        for table, waiting, name in zip(tables, self.tables, self.names, strict=True):
            new, ahead = self._divided(table, name, self.front.admits, stamp)
            back, stays = self._divided(waiting if waiting.num_rows else None, name, self.front.releases, stamp)
            plays.append(_one([new, back]))
            self.came.append(ahead)
            held.append(_one([stays, ahead]))
        clocks = told.clocks
        if limit is not None:
            clocks = self.front.clocks(told.times, limit, stamp, len(held), UNKNOWN)
            if limit.drop:
                self.front.forget_waiting(UNKNOWN)
        elif len(self.front.recent):
            clocks = self._clocks_of_all(clocks)
        self._hold(held, budget, room * (limit is not None and not limit.drop))
        self.n_came = sum(table.num_rows for table in self.came)
        self.n_gone = sum(table.num_rows for table in self.dropped)
        self.n_ahead += self.n_came
        self.n_dropped += self.n_gone
        self.numbered += self.n_gone
        return [table if table.num_rows else None for table in plays], clocks

    def _divided(self, table: pa.Table | None, name: str, rule: Any, stamp: int | None) -> tuple[pa.Table, pa.Table]:
        """The rows that are played, and those that are ahead."""
        if table is None:
            return pa.table({}), pa.table({})
        if self.limit is None:
            return table, table.slice(0, 0)
        plays = rule(self.limit.cells(ticks(table[name])), self.limit, stamp)
        return (table, table.slice(0, 0)) if plays.all() else (table.filter(pa.array(plays)), table.filter(pa.array(~plays)))

    def _clocks_of_all(self, clocks: Ints) -> Ints:
        """There is no limit any more: all that waited, in any shard, is played."""
        recent, self.front = self.front.recent, Front()
        return np.array([recent[recent[:, STREAM] == stream, LATEST].max(initial=clock) for stream, clock in enumerate(clocks)])

    def _hold(self, held: list[pa.Table], budget: Pools, room: Ints) -> None:
        """Keep what there is room for; what is furthest ahead goes."""
        before = self.tables
        held = [_sorted(table, name) if table.num_rows else table for table, name in zip(held, self.names, strict=True)]
        kept = [np.ones(table.num_rows, bool) for table in held]
        for pool in range(len(room)):
            mine = [stream for stream in range(len(held)) if budget.pool[stream] == pool and held[stream].num_rows]
            if mine:
                time = np.concatenate([ticks(held[stream][self.names[stream]]) for stream in mine])
                fits = np.empty(len(time), bool)
                first = np.argsort(time, kind="stable")
                fits[first] = np.cumsum(np.concatenate([_weights(held[stream], budget) for stream in mine])[first]) <= room[pool]
                for stream, own in zip(mine, np.split(fits, np.cumsum([held[stream].num_rows for stream in mine])[:-1]), strict=True):
                    kept[stream] = own
        self.tables = [table.filter(pa.array(own)).combine_chunks() if len(own) else table for table, own in zip(held, kept, strict=True)]
        self.dropped = [table.filter(pa.array(~own)) if len(own) else table for table, own in zip(held, kept, strict=True)]
        self.changed |= any(not new.equals(old) for new, old in zip(self.tables, before, strict=True))

    def used(self, budget: Pools) -> Ints:
        """What the rows that wait take of each pool."""
        out = np.zeros(budget.caps.shape[1], np.int64)
        for stream, table in enumerate(self.tables):
            if table.num_rows:
                out[budget.pool[stream]] += int(_weights(table, budget).sum())
        return out

    @property
    def held(self) -> Ints:
        """How many wait, by stream."""
        return np.array([table.num_rows for table in self.tables], dtype=np.int64)

    @property
    def n_bytes(self) -> int:
        """The bytes of the rows that wait."""
        return sum(int(row_bytes(table).sum()) + TUPLE_OVERHEAD * table.num_rows for table in self.tables if table.num_rows)

    def under(self, plan: ShardPlan) -> Aside:
        """The same under another limit."""
        old, new = self.limit, plan.ahead
        if old is not None and new is not None and old.width != new.width:
            self.front.cell = None if self.front.cell is None else self.front.cell * old.width // new.width
            self.front.recent[:, CELL] = self.front.recent[:, CELL] * old.width // new.width
        self.limit = new
        return self

    def cells(self) -> dict[str, dict[int, bytes]]:
        """All of it, for the state."""
        if self.limit is None and not self.held.any() and not self.n_ahead:
            return {}
        front = self.front
        facts = {
            "front": front.cell,
            "recent": front.recent.tolist(),
            "total": front.total,
            "limit": self.limit,
            "counts": [self.n_ahead, self.n_dropped, self.numbered],
        }
        rows = [
            cell for stream, table in enumerate(self.tables) for _, cell in to_cells(table.replace_schema_metadata({"stream": str(stream)}))
        ]
        return {FACTS: {0: json.dumps(facts).encode()}, ROWS: dict(enumerate(rows))}

    def changes(self) -> dict[str, dict[int, bytes | None]]:
        """What has changed of it since it was written last."""
        cells: dict[str, dict[int, bytes | None]] = {kind: dict(found) for kind, found in self.cells().items()}
        if cells and self.changed:
            n = len(cells[ROWS])
            cells[ROWS] |= dict.fromkeys(range(n, self.written))
            self.written, self.changed = n, False
        else:
            cells.pop(ROWS, None)
        return cells

    def restore(self, facts: bytes | None, rows: Mapping[int, Any]) -> None:
        """Go on from what was written."""
        if facts is None:
            return
        found = json.loads(facts)
        self.front = Front(found["front"], np.array(found["recent"], np.int64).reshape(-1, 6), found["total"])
        self.n_ahead, self.n_dropped, self.numbered = found["counts"]
        self.limit = None if found["limit"] is None else Limit(*found["limit"])
        tables = [from_cell(rows[number]) for number in sorted(rows)]
        for stream in range(len(self.tables)):
            mine = [table for table in tables if int((table.schema.metadata or {})[b"stream"]) == stream]
            self.tables[stream] = _one([table.replace_schema_metadata(None) for table in mine])
        self.written = len(rows)


def divided(old: Sequence[Aside], plan: ShardPlan, places: Any) -> list[Aside]:
    """What waits in the old shards, by its keys in new ones."""
    new = [Aside(plan) for _ in plan.shards]
    for number, one in enumerate(new):
        one.front, one.limit, one.numbered = deepcopy(old[0].front), old[0].limit, max(was.numbered for was in old)
        one.n_ahead, one.n_dropped = (sum(getattr(was, name) for was in old) if not number else 0 for name in ("n_ahead", "n_dropped"))
    for stream in range(len(plan.streams)):
        table = _one([one.tables[stream] for one in old])
        if table.num_rows:
            place = places([table[f"key{key}"].combine_chunks() for key in range(plan.keys)])
            for number, one in enumerate(new):
                one.tables[stream] = table.filter(pa.array(place == number))
    return new


def _one(tables: Sequence[pa.Table]) -> pa.Table:
    """Tables of the same columns as one; those that nothing is in may have none."""
    some = [table for table in tables if table.num_rows]
    return pa.concat_tables([table.cast(some[0].schema) for table in some]) if some else pa.table({})


def _sorted(table: pa.Table, name: str) -> pa.Table:
    """In an order that does not depend on how the rows were fetched."""
    return table.take(pa.array(np.lexsort((ranks(table), ticks(table[name])))))


def _weights(table: pa.Table, budget: Pools) -> Ints:
    return row_bytes(table) + TUPLE_OVERHEAD if budget.in_bytes else np.ones(table.num_rows, np.int64)
