"""Where rows go in a join through relations: each to the shards of its active facts, and nowhere without one.

A row of the stream that is linked first goes to the shard of its own value, where all of its facts are; a row of any other stream to the
shards of its facts, to each once. So all members of an output are in the shard of its fact, and as the first is in no other, the output is
made once. With several relations there is one shard; a row must have an active fact in every relation that links its stream.

What links compare is replaced by its number on the way (values.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.core.trace import Ints
from penstock.shard.cells import SHARD, Batches, ticks
from penstock.shard.facts.followed import Versions
from penstock.shard.facts.known import key
from penstock.shard.facts.sent import SentFacts
from penstock.shard.facts.unlinked import with_unlinked
from penstock.shard.facts.values import NONE


@dataclass(frozen=True)
class Routing:
    """Finds the shards of the rows of one stream."""

    facts: SentFacts
    stream: int
    shards: int
    versions: Callable[[], Versions] = tuple  # that the running batch sees
    keeps: bool = False  # rows that nothing links travel too, for the ledger (unlinked.py)

    def __call__(self, batch: pa.RecordBatch, time: Ints) -> tuple[pa.RecordBatch, int]:
        """Rows with these times, once for each shard that they go to, with its position in a column; and how many go nowhere."""
        known = self.facts.open(self.versions())
        number = {slot: known.values(slot).numbers(batch.column(key(slot))) for slot in self._slots()}
        rows, shard = np.arange(batch.num_rows), np.zeros(batch.num_rows, np.int64)
        for slot, own in number.items():
            at, place = known.coverage(slot, self.shards).places(own[rows], time[rows])
            rows, shard = rows[at], place
        filtered = batch.num_rows - (int(np.count_nonzero(np.diff(rows))) + 1 if len(rows) else 0)
        if self.keeps:
            kinds = {slot: known.distinct[slot].type for slot in number}
            batch, rows, shard = with_unlinked(batch, kinds, time, rows, shard, self.shards)
        routed = self._with(batch, number).take(pa.array(rows))
        return routed.append_column(SHARD, pa.array(shard)), filtered

    def unlinked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows whose values have no numbers."""
        return self._with(batch, dict.fromkeys(self._slots(), np.full(batch.num_rows, NONE)))

    def _with(self, batch: pa.RecordBatch, number: dict[int, Ints]) -> pa.RecordBatch:
        names, columns = batch.schema.names, list(batch.columns)
        for slot, own in number.items():
            columns[names.index(key(slot))] = pa.array(own)
        return pa.RecordBatch.from_arrays(columns, names)

    def _slots(self) -> list[int]:
        """Those of this stream's links."""
        links = [link for one in self.facts.through for link in one.links]
        return [slot for slot, link in enumerate(links) if link.stream == self.stream]


def marked(routing: Routing, time: str, names: Sequence[str]) -> Callable[[Batches], Batches]:
    """For `mapInArrow` in a batch query, whose rows are sorted before they are packed: rows with their shards, which come first.

    A row whose shard is below zero stands for so many rows that go nowhere. Rows without a time go to one shard, where they are counted.
    """

    def mark(batches: Batches) -> Batches:
        for batch in batches:
            batch = batch.rename_columns(list(names))
            timed = batch.filter(batch.column(time).is_valid())
            routed, filtered = routing(timed, ticks(timed.column(time)))
            yield _first(routed)
            for rest, shard in ((batch.filter(batch.column(time).is_null()), 0), (timed.slice(0, min(1, filtered)), -filtered)):
                if rest.num_rows:
                    yield _first(routing.unlinked(rest).append_column(SHARD, pa.array(np.full(rest.num_rows, shard))))

    return mark


def unmarked(batch: pa.RecordBatch, time: Ints) -> tuple[pa.RecordBatch, int]:
    """Rows without those that stand for others, and for how many these stand; a `Routing` of rows that know their shards.

    >>> rows, filtered = unmarked(pa.record_batch({"shard": [1, -3, 0], "v": [7, 8, 9]}), np.arange(3))
    >>> rows["v"].to_pylist(), filtered
    ([7, 9], 3)
    """
    shard = np.asarray(batch.column(SHARD))
    marks = shard < 0
    return (batch.filter(pa.array(~marks)), -int(shard[marks].sum())) if marks.any() else (batch, 0)


def _first(batch: pa.RecordBatch) -> pa.RecordBatch:
    """With the shard as the first column."""
    return batch.select([SHARD, *(name for name in batch.schema.names if name != SHARD)])
