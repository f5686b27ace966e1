"""The rows of a shard as the ledger has them: numbered, with the instants of their arrival, and all that settling compares."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch
from penstock.core.problem import Problem
from penstock.core.trace import Ints
from penstock.engine.contract import Totals
from penstock.shard.cells import ticks
from penstock.shard.facts.unlinked import PLACES, value_of
from penstock.shard.shard_plan import IMPORTANCE, TIME, ShardPlan
from penstock.shard.stream_window import EXPIRY, ends_of, expiry_column


class LedgerRows:
    """Makes tables with `row`, `arrived` and the columns of a stream; None stands for a stream without rows."""

    def __init__(self, plan: ShardPlan, problem: Problem) -> None:
        self.plan, self.problem = plan, problem

    def arrived(self, tables: Sequence[pa.Table | None], places: list[Ints], batch: Batch, before: Totals) -> list[pa.Table | None]:
        """All rows of a batch, by stream; `places` are theirs in the order of play."""
        instant = before.instant + 1 + np.cumsum(np.concatenate([[0], np.diff(batch.time) != 0]))[: len(batch)]
        out: list[pa.Table | None] = []
        for stream, (table, rows) in enumerate(zip(tables, places, strict=True)):
            if table is None or not table.num_rows:
                out.append(None)
                continue
            out.append(self._table(stream, table, before.next_row + rows, instant[rows]))
        return out

    def waiting(self, came: list[pa.Table]) -> list[pa.Table | None]:
        """Rows that wait: they have neither numbers nor instants yet."""
        none = [np.zeros(table.num_rows, np.int64) for table in came]
        return [self._table(stream, table, none[stream], none[stream]) if table.num_rows else None for stream, table in enumerate(came)]

    def dropped(self, tables: list[pa.Table], first: int, instant: int) -> list[pa.Table | None]:
        """Rows that are dropped before they are played, numbered downwards from `first`."""
        out: list[pa.Table | None] = []
        for stream, table in enumerate(tables):
            rows = first - np.arange(table.num_rows)
            first -= table.num_rows
            out.append(self._table(stream, table, rows, np.full(len(rows), instant)) if len(rows) else None)
        return out

    def unlinked(self, tables: Sequence[pa.Table | None]) -> list[pa.Table | None]:
        """Rows that no fact links yet: no engine has seen them."""
        return self.waiting([pa.table({}) if table is None else table for table in tables])

    def _table(self, stream: int, table: pa.Table, rows: Ints, instants: Ints) -> pa.Table:
        kept = list(self.plan.sent[stream]) if self.plan.sent else [f"key{number}" for number in range(self.plan.keys)]
        kept += [*([IMPORTANCE] if self.plan.has_importance else []), *self.plan.payload[stream]]
        time = ticks(table[self.plan.times[stream]])
        own = table.select(kept).add_column(0, TIME, pa.array(time))
        if ends_of(self.problem):
            own = own.add_column(0, EXPIRY, expiry_column(self.problem, stream, time, table))
        if self.plan.keeps_unlinked:
            for name in self.plan.sent[stream]:  # values, not their numbers: not all have one
                own = own.set_column(own.column_names.index(name), name, table[value_of(name)])
            own = own.append_column(PLACES, table[PLACES])
        for number, name in enumerate(self.plan.key_names if stream == 0 else ()):
            own = own.append_column(name, table[f"key{number}"])
        return own.add_column(0, "arrived", pa.array(instants)).add_column(0, "row", pa.array(rows))
