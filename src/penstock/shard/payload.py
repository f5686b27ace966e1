"""The payload of the tuples in a shard's memory: written once, in blocks, and again only when too much of a block is dead.

A block holds the tuples of one stream that came in one batch and stayed, or in several where these are small: each block costs something
in every batch. Rows are numbered in the order of play, so the blocks of a stream follow each other, and finding a row takes two binary
searches.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.errors import PenstockError
from penstock.core.trace import Ints
from penstock.shard.cells import from_cell, to_cell
from penstock.shard.row_bytes import row_bytes, widest_row

_SPREAD = 16  # numbers that a table of places may have for each row that is looked for
_WHOLE = 4  # blocks are joined into one table where they have at most so many times the rows that are wanted,
_HEAVY = 256 << 20  # and so many bytes: Arrow has no room for more than 2 GB of texts in one array
_MOST = 8 << 20  # bytes of a block: values of some 100 MB are more than Spark's state takes
_SMALL = 256 << 10
"""Bytes up to which what comes is put into the last block of its stream, which is written again."""
_SEAL = b"penstock-crc32"
"""Between a block and its checksum."""
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

    def without(self, dead: Ints) -> int:
        """Mark those of these rows, which rise, that are here as dead; how many were alive."""
        low, high = np.searchsorted(dead, [self.rows[0], self.rows[-1] + 1])
        if low == high:
            return 0
        at = _common(self.rows, dead[low:high])
        at = at[self.alive[at]]
        self.alive[at] = False
        self.n_alive -= len(at)
        return len(at)

    def compact(self) -> Block:
        """What is alive of it."""
        if self.n_alive == len(self.rows):
            return self
        return Block.of(self.stream, self.rows[self.alive], self.table.filter(pa.array(self.alive)).combine_chunks())

    def followed_by(self, block: Block) -> Block:
        """Both as one; all of them are alive."""
        return Block.of(self.stream, np.concatenate([self.rows, block.rows]), _together([self.table, block.table]).combine_chunks())

    def split(self, most: int) -> list[Block]:
        """The block in pieces of about so many bytes at most."""
        step = max(1, len(self.rows) * most // max(1, self.table.nbytes))
        starts = range(0, len(self.rows), step)
        return [Block.of(self.stream, self.rows[at : at + step], self.table.slice(at, step)) for at in starts]

    @cached_property
    def widest(self) -> int:
        """At least the bytes of any of its rows."""
        return widest_row(self.table)

    @property
    def dead_bytes(self) -> float:
        """The bytes of its dead tuples, about."""
        return self.table.nbytes * (1 - self.n_alive / len(self.rows))

    def pack(self) -> bytes:
        """The block as one value."""
        cell = to_cell(self.table.append_column("row", pa.array(self.rows)).replace_schema_metadata({"stream": str(self.stream)}))
        return cell + _SEAL + zlib.crc32(cell).to_bytes(4, "big")  # Arrow reads up to its own end

    @classmethod
    def unpack(cls, cell: Any) -> Block:
        """The block in a value."""
        table = from_cell(cell)
        stream = int((table.schema.metadata or {})[b"stream"])
        return cls.of(stream, np.asarray(table["row"]), table.drop_columns("row").replace_schema_metadata(None))


def _checked(cell: bytes, number: int) -> bytes:
    """A block as it was written; older code wrote no checksum behind it."""
    end = len(cell) - len(_SEAL) - 4
    if cell[end:-4] == _SEAL and zlib.crc32(memoryview(cell)[:end]) != int.from_bytes(cell[-4:], "big"):
        raise PenstockError(f"the state is damaged: block {number} of a shard does not have the checksum that it was written with")
    return cell


def _places(held: Ints, wanted: Ints) -> Ints:
    """Where each wanted row is among those held, which rise; all of them are there.

    >>> _places(np.array([3, 5, 9]), np.array([9, 3, 9])).tolist()
    [2, 0, 2]
    """
    first, span = held[0], int(held[-1] - held[0]) + 1
    if span >= _SPREAD * len(wanted):
        return np.searchsorted(held, wanted)
    place = np.empty(span, dtype=np.int64)  # made faster than so many searches
    place[held - first] = np.arange(len(held))
    return place[wanted - first]


def _common(rows: Ints, others: Ints) -> Ints:
    """Where those of the rows are that are among the others, which are between the first row and the last; both rise.

    >>> _common(np.array([3, 5, 9]), np.array([4, 5, 7])).tolist()
    [1]
    """
    first, span = rows[0], int(rows[-1] - rows[0]) + 1
    if span >= _SPREAD * len(others):
        at = np.searchsorted(rows, others)
        return at[rows[at] == others]
    marked = np.zeros(span, dtype=bool)
    marked[others - first] = True
    return np.flatnonzero(marked[rows - first])


def _fetch_apart(mine: list[Block], which: Ints, rows: Ints, columns: list[str]) -> pa.Table:
    """What is wanted of each block, and then in order: costs what is wanted, not what is held."""
    order = np.argsort(which, kind="stable")
    ends = np.flatnonzero(np.diff(which[order])) + 1
    parts = []
    for at in np.split(order, ends):
        block = mine[which[at[0]]]
        parts.append(block.table.select(columns).take(pa.array(_places(block.rows, rows[at]))))
    back = np.empty(len(order), dtype=np.int64)
    back[order] = np.arange(len(order))
    return _together(parts).take(pa.array(back))


def _together(tables: list[pa.Table]) -> pa.Table:
    """Tables as one. Those of a session in another time zone name that in their types, and mean the same instants."""
    schema = tables[-1].schema
    return pa.concat_tables([table if table.schema.equals(schema) else table.cast(schema) for table in tables])


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
        mine, which = self._find(stream, rows)
        touched = [mine[number] for number in np.flatnonzero(np.bincount(which))]
        if sum(len(block.rows) for block in touched) > _WHOLE * len(rows) or sum(block.table.nbytes for block in touched) > _HEAVY:
            return _fetch_apart(mine, which, rows, columns)
        held = np.concatenate([block.rows for block in touched])
        table = _together([block.table.select(columns) for block in touched]).combine_chunks()
        return table.take(pa.array(_places(held, rows)))

    def sizes(self, stream: int, rows: Ints) -> Ints:
        """The bytes of each of these rows."""
        mine, which = self._find(stream, rows)
        found = np.empty(len(rows), dtype=np.int64)
        for number in np.flatnonzero(np.bincount(which)):
            block, at = mine[number], np.flatnonzero(which == number)
            found[at] = row_bytes(block.table)[_places(block.rows, rows[at])]
        return found

    def widest(self, stream: int) -> int:
        """At least the bytes of any row of a stream."""
        return max((block.widest for block in self._all() if block.stream == stream), default=0)

    def _all(self) -> Iterator[Block]:
        return chain(self.blocks.values(), self.new)

    def _find(self, stream: int, rows: Ints) -> tuple[list[Block], Ints]:
        """The blocks of a stream, and which of them each row is in."""
        mine = [block for block in self._all() if block.stream == stream]
        return mine, np.searchsorted([block.rows[0] for block in mine], rows, side="right") - 1

    def close(self, departed: Ints, limit: int | None = None) -> Changes:
        """End a batch: these rows have left. With `limit`, rewrite blocks until all bytes fit it."""
        departed = np.sort(departed, kind="stable")  # of those that leave together, most are in order
        changes: Changes = {}
        for number, block in list(self.blocks.items()):
            if block.without(departed):
                if not block.n_alive:
                    del self.blocks[number]
                    changes[number] = None
                elif 2 * block.n_alive < len(block.rows):
                    self._rewrite(number, changes)
        for block in self.new:
            block.without(departed)
            if block.n_alive:
                self._append(block.compact(), changes)
        self.new = []
        if limit is not None and self.n_bytes > limit:
            for number in sorted(self.blocks, key=lambda number: -self.blocks[number].dead_bytes):
                if self.n_bytes <= limit:
                    break
                self._rewrite(number, changes)
        return changes

    def _append(self, block: Block, changes: Changes) -> None:
        """Hold what has come of a stream: in its last block, if both are small."""
        last = max((number for number, one in self.blocks.items() if one.stream == block.stream), default=None)
        if last is not None and self.blocks[last].table.nbytes + block.table.nbytes <= _SMALL:
            self.blocks[last] = self.blocks[last].compact().followed_by(block)
            changes[last] = self.blocks[last].pack()
            return
        for piece in block.split(_MOST):
            self.blocks[self.next] = piece
            changes[self.next] = piece.pack()
            self.next += 1

    def _rewrite(self, number: int, changes: Changes) -> None:
        self.blocks[number] = self.blocks[number].compact()
        changes[number] = self.blocks[number].pack()

    @property
    def n_bytes(self) -> int:
        """The bytes of all payload, dead or alive."""
        return sum(block.table.nbytes for block in self.blocks.values())

    def restore(self, cells: dict[int, Any], retained: Ints) -> None:
        """Go on with these blocks; only what is retained is alive."""
        found = {number: Block.unpack(_checked(bytes(cell), number)) for number, cell in sorted(cells.items())}
        self.blocks = {number: block for number, block in found.items() if len(block.rows)}  # older code wrote empty ones
        self.next = 1 + max(self.blocks, default=-1)
        for block in self.blocks.values():
            block.alive = np.isin(block.rows, retained, assume_unique=True)
            block.n_alive = int(np.count_nonzero(block.alive))
