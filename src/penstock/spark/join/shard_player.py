"""State in, engine, state out, for one shard and one micro-batch."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import MapState, ValueState

from penstock.core.errors import PenstockError
from penstock.ledger.epochs import enter
from penstock.ledger.ledger import Ledger
from penstock.ledger.relation_pages import relations_of
from penstock.shard.cells import CELL, CLOCK, FILTERED, FIRST, NULLS, STAMP, STREAM, TIMES, UNKNOWN, from_cell, ticks, to_cells
from penstock.shard.counts import LOSSES, TOTAL, counted, over_slices
from penstock.shard.facts.recorded import write_changes
from penstock.shard.facts.unlinked import parted
from penstock.shard.results.output_limit import Quota
from penstock.shard.shard import Result, Shard
from penstock.shard.shard_plan import ShardPlan
from penstock.shard.shares.exchange import Exchange
from penstock.shard.shares.next_shares import period
from penstock.shard.state import local_copy as local
from penstock.shard.state.state_rows import ShardState
from penstock.shard.waiting_rows import Tables, Told
from penstock.shard.worker_start import acknowledge_at_once, spare_from_collection
from penstock.spark.join.task import running, versions_seen
from penstock.spark.observe.metrics import COUNTS

_CELLS = 64  # that are handed out at a time
_SLICE = 200_000  # rows of a batch query that are played at a time,
_SLICE_BYTES = 256 << 20  # or bytes, if there are fewer
_MOST = (1 << 31) - 1
"""Bytes of a column that Arrow can put in order: texts are found by numbers of 32 bits."""


Packed = tuple[int, int, int, int, int, bytes | None, bytes | None, int]


class ShardPlayer:
    """Plays the packed rows of a shard through its engine."""

    def __init__(self, plan: ShardPlan, head: ValueState, cells: MapState) -> None:
        self.plan = plan
        self.head = head
        self.cells = cells

    def play(self, shard_id: int, rows: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """Play what has come for a shard: a micro-batch, or in a batch query all there is, slice by slice."""
        acknowledge_at_once()
        number = self.plan.shards.index(shard_id)
        query, run, batch = running()
        if query is None:
            yield from self._play_all(number, _packed(rows))
            return
        nearby = local.folder_of(query, self.plan.name, number)
        state = ShardState(self.plan, number, self._get_head, self.head.update, self.cells)
        shard = state.open(nearby)
        tables, told, nulls, filtered = _gather(_packed(rows), len(self.plan.streams))
        _check_size(tables, self.plan.streams)
        shard.n_null += nulls
        shard.n_filtered += filtered
        shard.see(versions_seen(self.plan.through, self.plan.name))
        tables, unlinked = parted(tables) if self.plan.keeps_unlinked else (tables, ())
        exchange = self._exchange(query, batch)
        if exchange is not None:
            share = exchange.share(batch, number, tuple(shard.holding.share.tolist()), shard.holding.heard)
            if share is not None:
                shard.hold(share)
        tables, clocks = shard.sift(tables, told)
        result = yield from _handed_on(shard.pieces(tables, clocks, self._quota(number, batch)))
        self._record(query, run, batch, number, shard, result, begins=state.head is None, unlinked=unlinked)
        if exchange is not None:
            exchange.tell(shard.summary(batch, exchange.heard))
        state.save(shard, result, clocks, nearby)
        beside = {"n_null": nulls, "total_n_null": shard.n_null}
        yield _counts(self.plan, _with_filtered(result.counts, filtered, shard.n_filtered) | beside)
        spare_from_collection("play")

    def _play_all(self, number: int, packed: Iterator[Packed]) -> Iterator[pd.DataFrame]:
        """A batch query: its cells come in the order of their first times, so what is before the next cell's can be played."""
        shard = Shard(self.plan, number)
        waiting: list[list[pa.Table]] = [[] for _ in self.plan.streams]
        clocks = np.full(len(self.plan.streams), UNKNOWN)
        sums: dict[str, float] = {}
        nulls = filtered = batch = 0
        quota = self._quota(number, None)

        def played(tables: Sequence[pa.Table | None], *, last: bool = False) -> Iterator[pd.DataFrame]:
            nonlocal sums, batch
            now = np.array([_last(table, time) for table, time in zip(tables, self.plan.times, strict=True)])
            result = yield from _handed_on(shard.pieces(tables, now, quota))
            self._record(self.plan.run, None, batch, number, shard, result, last=last)
            sums = {name: over_slices(name, sums.get(name, 0.0), value) for name, value in result.counts.items()}
            batch += 1

        for stream, clock, missing, without, first, cell, *_ in packed:
            clocks[stream] = max(clocks[stream], clock)
            nulls += missing
            filtered += without
            if cell is None:
                continue
            rows, size = np.sum([(table.num_rows, table.nbytes) for tables in waiting for table in tables] or [(0, 0)], axis=0)
            if rows > _SLICE or size > _SLICE_BYTES:
                yield from played([_cut(tables, time, first) for tables, time in zip(waiting, self.plan.times, strict=True)])
            waiting[stream].append(from_cell(cell))
        yield from played([pa.concat_tables(tables) if tables else None for tables in waiting], last=True)
        # All slices are one batch, and what they estimate depends on each other.
        losses = {count.name: sums[TOTAL + count.name] for count in LOSSES}
        yield _counts(self.plan, _with_filtered(sums | losses, filtered, filtered) | {"n_null": nulls, "total_n_null": nulls})

    def _record(
        self, query: str, run: str | None, batch: int, number: int, shard: Shard, result: Result, *,
        begins: bool = True, last: bool = False, unlinked: Sequence[pa.Table | None] = (),
    ) -> None:  # fmt: skip
        """Write the ledger, and let the shard know what was written last; what cannot be written fails the batch."""
        if self.plan.archive is None or result.left is None:
            return
        ledger = Ledger(self.plan.archive, self.plan.ledger, query, begins=begins)
        if self.plan.keeps_unlinked and number == 0 and shard.facts is not None:
            write_changes(ledger, shard.facts)
        elif self.plan.through is not None and number == 0 and begins:
            for pages, table in zip(relations_of(self.plan.ledger), self.plan.through.open().tables, strict=True):
                pages.write(ledger.store, ledger.folder, self.plan.ledger, table)
        after, epoch = shard.attempts, 1 if last or query == self.plan.run else enter(ledger, run, batch, shard.attempts)
        promised = [int(time) if time > UNKNOWN // 2 else None for time in shard.engine.seen - shard.problem.lateness]
        made = ledger.write(
            batch, number, result.arrived, result.left, shards=len(self.plan.shards), epoch=epoch, after=after, promised=promised,
            continues=not begins and not after, last=last, aside=result.aside,
            unlinked=shard.recorded.unlinked(unlinked), versions=() if shard.facts is None else shard.facts.versions,
            facts=() if shard.facts is None else shard.facts.pages,
            begins=None if shard.facts is None else shard.facts.begins(promised),
        )  # fmt: skip
        shard.attempts = [made]

    def _exchange(self, query: str, batch: int) -> Exchange | None:
        """Where shards hear of each other in this batch; None: they do not."""
        plan, shards = self.plan, len(self.plan.shards)
        if plan.shared is None or batch % period(shards * max(1, len(plan.joins))):
            return None
        argument = "archive" if plan.shared == plan.archive else "shared"
        return Exchange(plan.shared, plan.name, query, shards, argument, plan.joins)

    def _quota(self, number: int, batch: int | None) -> Quota:
        return Quota(self.plan.max_output, batch, f"shard {number} alone has")

    def _get_head(self) -> Any:
        return self.head.get() if self.head.exists() else None


def _packed(rows: Iterator[pd.DataFrame]) -> Iterator[Packed]:
    for frame in rows:
        yield from zip(*(frame[name] for name in (STREAM, CLOCK, NULLS, FILTERED, FIRST, CELL, TIMES, STAMP)), strict=True)


def _gather(packed: Iterator[Packed], streams: int) -> tuple[Tables, Told, int, int]:
    """All rows of a micro-batch by stream, what its tasks say of their times, and how many rows had no time, or nothing that links them."""
    parts: list[list[pa.Table]] = [[] for _ in range(streams)]
    clocks, nulls, filtered, stamp = np.full(streams, UNKNOWN), 0, 0, UNKNOWN
    times = [np.empty((0, 4), np.int64)]
    for stream, clock, missing, without, _, cell, own, of_batch in packed:
        stamp = int(of_batch)
        clocks[stream] = max(clocks[stream], clock)
        nulls += missing
        filtered += without
        if own is not None:
            found = np.frombuffer(own, np.int64).reshape(-1, 3)
            times.append(np.concatenate([found, np.full((len(found), 1), stream)], axis=1))
        if cell is not None:
            parts[stream].append(from_cell(cell))
    told = Told(clocks, np.concatenate(times), None if stamp == UNKNOWN else stamp)
    return [pa.concat_tables(tables) if tables else None for tables in parts], told, nulls, filtered


def _check_size(tables: Sequence[pa.Table | None], streams: Sequence[str]) -> None:
    """Refuse a micro-batch that brings more to a shard than can be put in order."""
    for table, stream in zip(tables, streams, strict=True):
        most = max((column.nbytes for column in table.columns), default=0) if table is not None else 0
        if most > _MOST:
            raise PenstockError(
                f"a batch must bring a shard less than 2 GB of each column, got {most / 1e9:.1f} GB of a column of stream {stream}: "
                "let the source give less at a time (maxFilesPerTrigger, maxOffsetsPerTrigger), or have more shards"
            )


def _cut(tables: list[pa.Table], time: str, until: int) -> pa.Table | None:
    """Take the rows before `until` out of tables that are ordered by their column `time`."""
    taken, left = [], []
    for table in tables:
        at = int(np.searchsorted(ticks(table[time]), until))
        taken += [table.slice(0, at)] if at else []
        left += [table.slice(at)] if at < table.num_rows else []
    tables[:] = left
    return pa.concat_tables(taken) if taken else None


def _last(table: pa.Table | None, time: str) -> int:
    return UNKNOWN if table is None or not table.num_rows else int(ticks(table[time]).max())


def _handed_on(pieces: Generator[pa.Table, None, Result]) -> Generator[pd.DataFrame, None, Result]:
    """Play while joined rows are asked for, some cells at a time; what the shard returns then."""
    cells: list[bytes] = []
    while True:
        try:
            piece = next(pieces)
        except StopIteration as end:
            if cells:
                yield _frame(cells)
            result: Result = end.value
            return result
        for _, cell in to_cells(piece):
            cells.append(cell)
            if len(cells) == _CELLS:
                yield _frame(cells)
                cells = []


def _frame(cells: list[bytes]) -> pd.DataFrame:
    return pd.DataFrame({CELL: cells, COUNTS: [None] * len(cells)})


def _with_filtered(counts: dict[str, float], batch: int, total: int) -> dict[str, float]:
    """Counts with the rows that nothing links, which have come in too."""
    found = {"n_filtered": batch, "n_input": counts["n_input"] + batch}
    return counts | found | {TOTAL + "n_filtered": total, TOTAL + "n_input": counts[TOTAL + "n_input"] + total}


def _counts(plan: ShardPlan, counts: dict[str, float]) -> pd.DataFrame:
    return pd.DataFrame({CELL: [None], COUNTS: [[float(counts[name]) for name in counted(len(plan.streams))]]})
