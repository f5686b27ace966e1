"""One shard: an engine, the numbers of its keys, and the payload of the tuples in its memory. Spark-free, so that it can be tested alone.

Payload is written once, in a block per stream and batch, and a block is written again only when less than half of it is alive.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.batch import Batch
from penstock.core.budget import OVERHEAD
from penstock.core.engine import Keep, Totals, open_engine
from penstock.core.problem import Problem
from penstock.core.trace import Ints
from penstock.policies.table import open_policy
from penstock.spark.blocks import UNKNOWN, from_cell, to_cell
from penstock.spark.keys import KeyBook
from penstock.statistics.table import RUNNING

TIME, ORDER, IMPORTANCE, VALUE = "time", "order", "importance", "value"


@dataclass(frozen=True)
class Plan:
    """A join, as the workers need to know it."""

    streams: tuple[str, ...]
    keys: int  # columns; they travel as key0, key1, ...
    payload: tuple[tuple[str, ...], ...]  # by stream: the columns that go into the result, under the names that they have there
    options: dict[str, Any]  # of Problem.of, and the policy
    schema: pa.Schema  # of the result
    has_importance: bool = False
    name: str = "penstock"


@dataclass
class Block:
    """Payload of tuples that came together: their rows, rising, and their columns."""

    stream: int
    rows: Ints
    table: pa.Table


@dataclass
class Result:
    """What a shard returns of a batch: joined rows, counts, and what has changed in its blocks (None: removed)."""

    joined: pa.Table
    counts: dict[str, float]
    changes: dict[int, bytes | None] = field(default_factory=dict)


class Shard:
    """The memory of one shard and its engine."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        options = dict(plan.options)
        policy = options.pop("policy")
        self.problem = Problem.of(plan.streams, clock="streams", has_importance=plan.has_importance, **options)
        chosen = open_policy(policy, self.problem)
        source = RUNNING[self.problem.stats](self.problem)
        self.engine = open_engine(self.problem, chosen, source, Keep(outputs=True))
        self.book = KeyBook()
        self.blocks: dict[int, Block] = {}
        self.next_row = self.next_block = self.version = 0

    def play(self, tables: list[pa.Table | None], clocks: Ints) -> Result:
        """Play one micro-batch: the rows of each stream, and how far each stream has come in all shards."""
        before = self.engine.totals
        batch, new = self._arrange(tables)
        outputs = self.engine.play(batch).outputs
        joined = self._join(outputs, new)
        if (clocks > UNKNOWN).any():
            self.engine.advance(np.where(clocks > UNKNOWN, clocks, -(1 << 62)))
        changes = self._keep(new)
        self.version += 1
        return Result(joined, self._counts(before), changes)

    def _arrange(self, tables: list[pa.Table | None]) -> tuple[Batch, list[Block]]:
        """All rows in the order of play, by time, stream and `order`; and their payload."""
        parts: list[pa.Table] = []
        for position, table in enumerate(tables):
            if table is not None and table.num_rows:
                table = table.append_column("stream", pa.array(np.full(table.num_rows, position)))
                parts.append(table.sort_by([(TIME, "ascending"), (ORDER, "ascending")]).combine_chunks())
        time = _join_columns([part[TIME] for part in parts])
        stream = _join_columns([part["stream"] for part in parts])
        order = np.lexsort((stream, time))
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        key = np.concatenate([np.empty(0, np.int64), *(self.book.numbers(self._keys(part)) for part in parts)]).astype(np.int64)
        importance = np.concatenate([np.asarray(part[IMPORTANCE]) for part in parts])[order] if self.plan.has_importance and parts else None
        size = np.concatenate([_row_bytes(part) for part in parts])[order] if self.problem.budget.in_bytes and parts else None
        blocks, begin = [], 0
        for part in parts:
            rows = self.next_row + place[begin : begin + part.num_rows]
            number = int(part["stream"][0].as_py())
            kept = [*self.plan.payload[number], *([IMPORTANCE] if self.plan.has_importance else [])]
            blocks.append(Block(number, rows, part.select(kept)))
            begin += part.num_rows
        self.next_row += len(order)
        return Batch(stream[order], time[order], key[order], importance, size=size), blocks

    def _keys(self, table: pa.Table) -> list[pa.Array]:
        return [table[f"key{number}"].combine_chunks() for number in range(self.plan.keys)]

    def _join(self, outputs: Ints, new: list[Block]) -> pa.Table:
        """The joined rows of these outputs (time, row per stream)."""
        columns: dict[str, Any] = {}
        worths = []
        for stream in range(len(self.plan.streams)):
            mine = [block for block in [*self.blocks.values(), *new] if block.stream == stream and len(block.rows)]
            if not mine or not len(outputs):
                return self.plan.schema.empty_table()
            rows = np.concatenate([block.rows for block in mine])
            order = np.argsort(rows, kind="stable")
            at = order[np.searchsorted(rows, outputs[:, 1 + stream], sorter=order)]
            table = pa.concat_tables([block.table for block in mine]).take(pa.array(at))
            columns |= {name: table[name] for name in self.plan.payload[stream]}
            if self.plan.has_importance:
                worths.append(np.asarray(table[IMPORTANCE]))
        if VALUE in self.plan.schema.names:
            columns[VALUE] = pa.array(self._values(worths))
        return pa.table([columns[name] for name in self.plan.schema.names], schema=self.plan.schema)

    def _values(self, worths: list[Any]) -> Any:
        """The value of each output, from the importances of its members."""
        objective = self.problem.objective
        if len(worths) == 2:
            return objective.pairs(worths[0], worths[1])
        return np.array([objective.of(list(members)) for members in zip(*worths, strict=True)])

    def _keep(self, new: list[Block]) -> dict[int, bytes | None]:
        """Keep the payload of what is in memory now; what has changed in the blocks."""
        retained = self.engine.retained()
        changes: dict[int, bytes | None] = {}
        for number, block in list(self.blocks.items()):
            alive = _among(block.rows, retained)
            if not alive.any():
                del self.blocks[number]
                changes[number] = None
            elif 2 * np.count_nonzero(alive) < len(alive):
                self.blocks[number] = _filtered(block, alive)
                changes[number] = _pack(self.blocks[number])
        for block in new:
            alive = _among(block.rows, retained)
            if alive.any():
                self.blocks[self.next_block] = _filtered(block, alive)
                changes[self.next_block] = _pack(self.blocks[self.next_block])
                self.next_block += 1
        return changes

    def _counts(self, before: Totals) -> dict[str, float]:
        """The counts of the batch, and those of the life of the shard with the prefix `total_`."""
        totals = self.engine.totals
        counts = {name: getattr(totals, name) - getattr(before, name) for name in _COUNTED}
        counts |= {f"total_{name}": getattr(totals, name) for name in _COUNTED}
        payload = sum(block.table.nbytes for block in self.blocks.values())
        return counts | {"retained_rows": totals.retained, "retained_bytes": payload + OVERHEAD * totals.retained}

    def snapshot(self) -> bytes:
        """All but the blocks."""
        own = {name: getattr(self, name) for name in ("next_row", "next_block", "version")}
        return pickle.dumps((own, self.engine.snapshot(), self.book.known))

    def restore(self, state: bytes, blocks: dict[int, bytes]) -> None:
        """Go on from a snapshot and the blocks that belong to it."""
        own, engine, self.book.known = pickle.loads(state)
        for name, value in own.items():
            setattr(self, name, value)
        self.engine.restore(engine)
        self.blocks = {number: _unpack(cell) for number, cell in sorted(blocks.items())}


_COUNTED = ("n_input", "n_output", "n_shed", "n_expired", "n_late", "value")
COUNTS = (*_COUNTED, *(f"total_{name}" for name in _COUNTED), "retained_rows", "retained_bytes")
"""What a shard counts: in a batch, in its life, and at the end of the batch."""


def _join_columns(columns: list[pa.ChunkedArray]) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *(np.asarray(column) for column in columns)]).astype(np.int64)


def _among(rows: Ints, retained: Ints) -> Any:
    """Which of these rows are retained."""
    at = np.searchsorted(retained, rows)
    return (at < len(retained)) & (retained[np.minimum(at, len(retained) - 1)] == rows) if len(retained) else np.zeros(len(rows), bool)


def _filtered(block: Block, alive: Any) -> Block:
    return Block(block.stream, block.rows[alive], block.table.filter(pa.array(alive)).combine_chunks())


def _pack(block: Block) -> bytes:
    table = block.table.append_column("row", pa.array(block.rows)).replace_schema_metadata({"stream": str(block.stream)})
    return to_cell(table)


def _unpack(cell: bytes) -> Block:
    table = from_cell(cell)
    stream = int((table.schema.metadata or {})[b"stream"])
    return Block(stream, np.asarray(table["row"]), table.drop_columns("row").replace_schema_metadata(None))


def _row_bytes(table: pa.Table) -> Ints:
    """The Arrow bytes of each row: the width of its fixed columns and the length of its texts; of nested columns the mean."""
    size = np.zeros(table.num_rows)
    for column in table.columns:
        kind = column.type
        if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
            size += np.asarray(pc.fill_null(pc.binary_length(column), 0)) + 4
        elif pa.types.is_nested(kind):
            size += column.nbytes / max(1, len(column))
        else:
            size += kind.bit_width / 8 if hasattr(kind, "bit_width") else column.nbytes / max(1, len(column))
    return np.ceil(size).astype(np.int64)
