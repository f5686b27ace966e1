"""Arrow batches <-> packed cells: many rows travel as one binary value, shard by shard.

Rows cross the boundary between Spark and Python one at a time, and that is what costs. So a first step packs all rows of a shard into
one cell (Arrow IPC), the stateful operator sees a few large rows, and a last step unpacks what it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from penstock.core.trace import Ints

SHARD, STREAM, CLOCK, CELL = "shard", "stream", "clock", "cell"
PACKED = f"{SHARD} bigint, {STREAM} int, {CLOCK} bigint, {CELL} binary"
_PACKED = pa.schema([(SHARD, pa.int64()), (STREAM, pa.int32()), (CLOCK, pa.int64()), (CELL, pa.binary())])
_FLUSH = 64 << 20  # bytes of input that are packed together
UNKNOWN = -(1 << 62)
"""The clock of a stream of which nothing has been seen."""

Batches = Iterator[pa.RecordBatch]


def to_cell(table: pa.Table) -> bytes:
    """A table as one value.

    >>> from_cell(to_cell(pa.table({"a": [1, 2]}))).to_pydict()
    {'a': [1, 2]}
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


def from_cell(cell: bytes) -> pa.Table:
    """The table in a value."""
    return pa.ipc.open_stream(cell).read_all()


def packer(stream: int, shards: Ints) -> Callable[[Batches], Batches]:
    """For `mapInArrow`: rows of one stream, with a column `shard` (a position in `shards`) and `time`, to packed cells.

    Every shard hears from every task, if only how far the task's clock has come.
    """

    def pack(batches: Batches) -> Batches:
        waiting: list[pa.RecordBatch] = []
        size = 0
        clock = UNKNOWN
        for batch in batches:
            if batch.num_rows:
                waiting.append(batch)
                size += batch.nbytes
                clock = max(clock, int(np.asarray(batch.column("time")).max()))
            if size > _FLUSH:
                yield _cells(stream, shards, waiting, UNKNOWN, everywhere=False)
                waiting, size = [], 0
        yield _cells(stream, shards, waiting, clock, everywhere=True)

    return pack


def _cells(stream: int, shards: Ints, batches: list[pa.RecordBatch], clock: int, *, everywhere: bool) -> pa.RecordBatch:
    cells: dict[int, bytes | None] = dict.fromkeys(range(len(shards))) if everywhere else {}
    if batches:
        table = pa.Table.from_batches(batches)
        place = np.asarray(table.column(SHARD))
        table = table.drop_columns(SHARD)
        order = np.argsort(place, kind="stable")
        present, begins = np.unique(place[order], return_index=True)
        table = table.take(pa.array(order)) if len(present) > 1 else table
        for number, begin, end in zip(present, begins, [*begins[1:], len(order)], strict=True):
            cells[int(number)] = to_cell(table.slice(begin, end - begin))
    ids = [int(shards[number]) for number in cells]
    columns = [pa.array(ids, pa.int64()), pa.array([stream] * len(ids), pa.int32()), pa.array([clock] * len(ids), pa.int64())]
    return pa.record_batch([*columns, pa.array(list(cells.values()), pa.binary())], schema=_PACKED)


def unpacker(schema: pa.Schema) -> Callable[[Batches], Batches]:
    """For `mapInArrow`: the cells of the operator to rows of `schema`."""

    def unpack(batches: Batches) -> Batches:
        for batch in batches:
            for cell in batch.column(CELL):
                if cell.is_valid:
                    yield from from_cell(cell.as_py()).cast(schema).to_batches()

    return unpack
