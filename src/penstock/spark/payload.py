"""The payload of the tuples in a shard's memory: written once, in blocks, and again only when too much of a block is dead.

A block holds the tuples of one stream that came in one batch and stayed. Rows are numbered in the order of play, so the blocks of a
stream follow each other, and finding a row takes two binary searches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.trace import Ints
from penstock.spark.blocks import from_cell, to_cell

_SPREAD = 16  # numbers that a table of places may have for each row that is looked for
_WHOLE = 4  # blocks are joined into one table where they have at most so many times the rows that are wanted
_MOST = 8 << 20  # bytes of a block: values of some 100 MB are more than Spark's state takes
Changes = dict[int, bytes | None]
"""What to write under the number of a block; None: remove it."""


@dataclass
class Block:
    """Tuples that came together: their rows, rising; their columns; and who of them is still in memory."""

    stream: int
    rows: Ints
    table: pa.Table
    alive: Any
    n_alive: int

    @classmethod
    def of(cls, stream: int, rows: Ints, table: pa.Table) -> Block:
        """All of them alive."""
        return cls(stream, rows, table, np.ones(len(rows), dtype=bool), len(rows))

    def find(self, rows: Ints) -> Ints:
        """Where these rows are in the block; of those that are not here, -1."""
        first, last = int(self.rows[0]), int(self.rows[-1])
        if last - first < _SPREAD * len(rows):  # a table of places is made faster than so many searches
            place = np.full(last - first + 1, -1, dtype=np.int64)
            place[self.rows - first] = np.arange(len(self.rows))
            inside = (rows >= first) & (rows <= last)
            return np.where(inside, place[np.where(inside, rows - first, 0)], -1)
        at = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        return np.where(self.rows[at] == rows, at, -1)

    def without(self, dead: Ints) -> int:
        """Mark those of these rows that are here as dead; how many there were."""
        at = self.find(dead)
        at = at[at >= 0]
        self.alive[at] = False
        self.n_alive -= len(at)
        return len(at)

    def compact(self) -> Block:
        """What is alive of it."""
        if self.n_alive == len(self.rows):
            return self
        return Block.of(self.stream, self.rows[self.alive], self.table.filter(pa.array(self.alive)).combine_chunks())

    def split(self, most: int) -> list[Block]:
        """The block in pieces of about so many bytes at most."""
        step = max(1, len(self.rows) * most // max(1, self.table.nbytes))
        starts = range(0, len(self.rows), step)
        return [Block.of(self.stream, self.rows[at : at + step], self.table.slice(at, step)) for at in starts]

    @property
    def dead_bytes(self) -> float:
        """The bytes of its dead tuples, about."""
        return self.table.nbytes * (1 - self.n_alive / len(self.rows))

    def pack(self) -> bytes:
        """The block as one value."""
        return to_cell(self.table.append_column("row", pa.array(self.rows)).replace_schema_metadata({"stream": str(self.stream)}))

    @classmethod
    def unpack(cls, cell: Any) -> Block:
        """The block in a value."""
        table = from_cell(cell)
        stream = int((table.schema.metadata or {})[b"stream"])
        return cls.of(stream, np.asarray(table["row"]), table.drop_columns("row").replace_schema_metadata(None))


class Payload:
    """The blocks of a shard, by number; those of the present batch wait in `new`."""

    def __init__(self) -> None:
        self.blocks: dict[int, Block] = {}
        self.new: list[Block] = []
        self.next = 0

    def add(self, stream: int, rows: Ints, table: pa.Table) -> None:
        """Take in what arrives."""
        if len(rows):
            if not table.num_columns:  # a table without columns does not know how many rows it has
                table = pa.table({"nothing": pa.nulls(len(rows))})
            self.new.append(Block.of(stream, rows, table))

    def fetch(self, stream: int, rows: Ints, columns: list[str]) -> pa.Table:
        """The columns of these rows, in this order."""
        mine = [block for block in (*self.blocks.values(), *self.new) if block.stream == stream]
        starts = np.array([block.rows[0] for block in mine])
        which = np.searchsorted(starts, rows, side="right") - 1
        touched = np.unique(which)
        begin, at = 0, np.empty(len(rows), dtype=np.int64)
        for number in touched:
            here = which == number if len(touched) > 1 else slice(None)
            at[here] = begin + mine[number].find(rows[here])
            begin += len(mine[number].rows)
        table = pa.concat_tables([mine[number].table.select(columns) for number in touched])
        if begin <= _WHOLE * len(rows):
            table = table.combine_chunks()
        return table.take(pa.array(at))

    def close(self, departed: Ints, limit: int | None = None) -> Changes:
        """End a batch: these rows have left. With `limit`, rewrite blocks until all bytes fit it."""
        departed = np.sort(departed)
        changes: Changes = {}
        for number, block in list(self.blocks.items()):
            low, high = np.searchsorted(departed, [block.rows[0], block.rows[-1] + 1])
            if low < high and block.without(departed[low:high]):
                if not block.n_alive:
                    del self.blocks[number]
                    changes[number] = None
                elif 2 * block.n_alive < len(block.rows):
                    self._rewrite(number, changes)
        for block in self.new:
            block.without(departed)
            for piece in block.compact().split(_MOST) if block.n_alive else ():
                self.blocks[self.next] = piece
                changes[self.next] = piece.pack()
                self.next += 1
        self.new = []
        if limit is not None and self.n_bytes > limit:
            for number in sorted(self.blocks, key=lambda number: -self.blocks[number].dead_bytes):
                if self.n_bytes <= limit:
                    break
                self._rewrite(number, changes)
        return changes

    def _rewrite(self, number: int, changes: Changes) -> None:
        self.blocks[number] = self.blocks[number].compact()
        changes[number] = self.blocks[number].pack()

    @property
    def n_bytes(self) -> int:
        """The bytes of all payload, dead or alive."""
        return sum(block.table.nbytes for block in self.blocks.values())

    def restore(self, cells: dict[int, Any], retained: Ints) -> None:
        """Go on with these blocks; only what is retained is alive."""
        self.blocks = {number: Block.unpack(cell) for number, cell in sorted(cells.items())}
        self.next = 1 + max(self.blocks, default=-1)
        for block in self.blocks.values():
            block.alive = np.isin(block.rows, retained, assume_unique=True)
            block.n_alive = int(np.count_nonzero(block.alive))
