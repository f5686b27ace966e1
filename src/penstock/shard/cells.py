"""Arrow batches <-> packed cells: many rows travel as one binary value, shard by shard.

Rows cross the boundary between Spark and Python one at a time, and that is what costs. A batch is cut into cells here
(`to_cells`), of some thousand rows each (Arrow IPC): a first step packs the rows of a shard into them, the stateful operator sees them as
its rows, and a last step unpacks what it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.clock_limit import Limit, counts_by_cell, summed
from penstock.core.trace import LIMIT, Ints
from penstock.shard.spark_hash import placed
from penstock.shard.worker_start import spare_from_collection

SHARD, STREAM, CLOCK, NULLS, FILTERED, FIRST, TIMES, CELL = "shard", "stream", "clock", "nulls", "filtered", "first", "times", "cell"
_COLUMNS = {SHARD: "bigint", STREAM: "int", CLOCK: "bigint", NULLS: "bigint", FILTERED: "bigint", FIRST: "bigint"}
PACKED = ", ".join(f"{name} {kind}" for name, kind in (_COLUMNS | {TIMES: "binary", CELL: "binary"}).items())
_NUMBERS = [(name, pa.int32() if kind == "int" else pa.int64()) for name, kind in _COLUMNS.items()]
_PACKED = pa.schema([*_NUMBERS, (TIMES, pa.binary()), (CELL, pa.binary())])
STAMP = "stamp"
"""In a streaming query, beside a packed cell: the batch's own timestamp, in microseconds."""
_FLUSH = 64 << 20  # bytes of input that are packed together
CELL_SIZE = 200_000
"""Bytes of a cell, about. Java gives a value of half a megabyte and more (with small heaps) a place of its own, and collects garbage for
it: with cells of some megabytes that took a tenth of all processor time."""
UNKNOWN = -(1 << 62)
"""The clock of a stream of which nothing has been seen."""

Batches = Iterator[pa.RecordBatch]
Route = Callable[[pa.RecordBatch, Ints], tuple[pa.RecordBatch, int]]
"""From rows and their times to the copies that travel, each with its shard, and how many rows are linked by nothing."""


def to_cell(table: pa.Table) -> bytes:
    """A table as one value.

    >>> from_cell(to_cell(pa.table({"a": [1, 2]}))).to_pydict()
    {'a': [1, 2]}
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue().to_pybytes()


def to_cells(table: pa.Table) -> Iterator[tuple[pa.Table, bytes]]:
    """A table as values that are not too large, each with its rows.

    >>> [(len(rows), len(from_cell(cell))) for rows, cell in to_cells(pa.table({"a": range(60_000)}))]
    [(25000, 25000), (25000, 25000), (10000, 10000)]
    """
    step = max(1, int(table.num_rows * CELL_SIZE / max(1, table.nbytes)))
    for begin in range(0, table.num_rows, step):
        part = table.slice(begin, step)
        yield part, to_cell(part)


def from_cell(cell: Any) -> pa.Table:
    """The table in a value."""
    return pa.ipc.open_stream(cell).read_all()


def ticks(column: Any) -> Ints:
    """A column of times as microseconds since 1970.

    >>> ticks(pa.array([7], pa.timestamp("us", "UTC"))).tolist()
    [7]
    """
    return np.asarray(column.cast(pa.int64()))


def packer(
    stream: int,
    shards: Ints,
    time: str,
    names: Sequence[str],
    keys: Sequence[str] = (),
    flush: int = _FLUSH,
    limit: Limit | None = None,
    route: Route | None = None,
) -> Callable[[Batches], Batches]:
    """For `mapInArrow`: rows of one stream, with a column of their times, to packed cells.

    `names` are those of the columns, whatever they are called on the way here. The column `shard` is a position in `shards`; where it
    did not travel, the hash of the columns `keys` is.

    Rows without a time are counted and dropped, and so are those whose time is further from 1970 than 36,000 years: sums with it would
    leave 64 bits. Every shard hears from every task, if only how far the task's clock has come; with a limit, what times its rows have.
    Rows for which `route` has no shard are counted too; they move the clock.
    """

    def pack(batches: Batches) -> Batches:
        waiting: list[pa.RecordBatch] = []
        size = nulls = filtered = 0
        clock = UNKNOWN
        times = np.empty((0, 3), np.int64)
        for batch in batches:
            batch = batch.rename_columns(list(names))
            came = batch.num_rows
            batch = _timed(batch, time)
            nulls += came - batch.num_rows
            if batch.num_rows:
                own = ticks(batch.column(time))
                clock = max(clock, int(own.max()))
                times = times if limit is None else summed(np.concatenate([times, counts_by_cell(own, limit)]))
                if route is not None:
                    batch, without = route(batch, own)
                    filtered += without
            if batch.num_rows:
                waiting.append(batch)
                size += batch.nbytes
            if size > flush:
                yield _cells(stream, shards, time, waiting, keys)
                waiting, size = [], 0
        if waiting:
            yield _cells(stream, shards, time, waiting, keys)
        yield _headers(stream, shards, clock, nulls, None if limit is None else times.tobytes(), filtered)
        spare_from_collection("pack")

    return pack


def _timed(batch: pa.RecordBatch, time: str) -> pa.RecordBatch:
    """The rows that have a time, and one that can be reckoned with."""
    if batch.column(time).null_count:
        batch = batch.filter(batch.column(time).is_valid())
    own = ticks(batch.column(time))
    if len(own) and (own.max() > LIMIT or own.min() < -LIMIT):
        batch = batch.filter(pa.array((own <= LIMIT) & (own >= -LIMIT)))
    return batch


def _headers(stream: int, shards: Ints, clock: int, nulls: int, times: bytes | None, filtered: int = 0) -> pa.RecordBatch:
    """A row for every shard: how far the task has come, and for the first of them, how many rows had no time or nothing that links them."""
    n = len(shards)
    first = [np.array([count] + [0] * (n - 1)) for count in (nulls, filtered)]
    columns = [shards, np.full(n, stream, np.int32), np.full(n, clock), *first, np.full(n, UNKNOWN)]
    rest = [pa.array([times] * n, pa.binary()), pa.nulls(n, pa.binary())]
    return pa.record_batch([*(pa.array(column) for column in columns), *rest], schema=_PACKED)


def _cells(stream: int, shards: Ints, time: str, batches: list[pa.RecordBatch], keys: Sequence[str]) -> pa.RecordBatch:
    table = pa.Table.from_batches(batches)
    place = _places(table, keys, len(shards))
    table = table.drop_columns(SHARD) if SHARD in table.column_names else table
    present, begins = np.zeros(1, np.int64), np.zeros(1, np.int64)
    if len(shards) > 1:
        order = np.argsort(place.astype(np.int16), kind="stable") if len(shards) < 1 << 15 else np.argsort(place, kind="stable")
        present, begins = np.unique(place[order], return_index=True)
        table = table.take(pa.array(order)) if len(present) > 1 else table
    found = [
        (shards[place], int(ticks(part[time]).min()), cell)
        for place, begin, end in zip(present, begins, [*begins[1:], len(place)], strict=True)
        for part, cell in to_cells(table.slice(begin, end - begin))
    ]
    ids, firsts, cells = zip(*found, strict=True)
    n = len(found)
    none = np.zeros(n, np.int64)
    columns = [np.array(ids), np.full(n, stream, np.int32), np.full(n, UNKNOWN), none, none, np.array(firsts)]
    rest = [pa.nulls(n, pa.binary()), pa.array(cells, pa.binary())]
    return pa.record_batch([*(pa.array(column) for column in columns), *rest], schema=_PACKED)


def _places(table: pa.Table, keys: Sequence[str], shards: int) -> Ints:
    """The position of each row's shard."""
    if shards == 1:
        return np.zeros(table.num_rows, np.int64)
    if SHARD in table.column_names:
        return np.asarray(table.column(SHARD))
    return placed([table.column(name) for name in keys], table.num_rows, shards)


def unpacker(schema: pa.Schema) -> Callable[[Batches], Batches]:
    """For `mapInArrow`: the cells of the operator to rows of `schema`."""

    def unpack(batches: Batches) -> Batches:
        for batch in batches:
            for cell in batch.column(CELL):
                if cell.is_valid:
                    yield from from_cell(cell.as_buffer()).cast(schema).to_batches()
        spare_from_collection("unpack")

    return unpack
