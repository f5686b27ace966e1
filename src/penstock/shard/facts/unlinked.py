"""Rows that no fact links when they are packed: where a relation goes on the ledger keeps them, for facts that become known late.

Beside what every row has they bring the values that links compare, which have no numbers yet, and each row the shards that it was sent to:
so settling knows which of its partners it can have met. One that was sent to none goes to any shard, for its ledger only.

    row   facts known now    places   goes to
    s1    in shards 0 and 2  [0, 2]   0, 2
    s2    none               []       1, as good as any
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.trace import Ints
from penstock.shard.facts.known import key

PLACES = "~places"
"""The shards that a row was sent to. No column of a user travels under such a name, nor does a value."""
_ODD = np.uint64(0x9E3779B97F4A7C15)


def value_of(name: str) -> str:
    """The column with the value itself of a linked column, which travels as a number.

    >>> value_of("key1")
    '~key1'
    """
    return f"~{name}"


def with_unlinked(
    batch: pa.RecordBatch, kinds: Mapping[int, pa.DataType], time: Ints, rows: Ints, shard: Ints, shards: int
) -> tuple[pa.RecordBatch, Ints, Ints]:
    """The rows with their values and places; and which of them go where, those of no place too, unless a value is null.

    `rows` and `shard` say where rows are sent, in the order of the rows.

    >>> batch = pa.record_batch({"key0": ["p", "q", None]})
    >>> found, rows, shard = with_unlinked(batch, {0: pa.string()}, np.arange(3), np.array([0, 0]), np.array([0, 2]), 3)
    >>> found["~places"].to_pylist(), rows.tolist(), shard.tolist()[:2]
    ([[0, 2], [], []], [0, 0, 1], [0, 2])
    """
    begins = np.searchsorted(rows, np.arange(batch.num_rows + 1))
    values = {slot: batch.column(key(slot)).cast(kind) for slot, kind in kinds.items()}
    for slot, own in values.items():
        batch = batch.append_column(value_of(key(slot)), own)
    batch = batch.append_column(PLACES, pa.ListArray.from_arrays(pa.array(begins, pa.int32()), pa.array(shard)))
    there = np.logical_and.reduce([np.asarray(own.is_valid()) for own in values.values()])
    alone = np.flatnonzero((begins[1:] == begins[:-1]) & there)
    anywhere = ((time[alone].astype(np.uint64) * _ODD) >> np.uint64(33)).astype(np.int64) % shards
    return batch, np.concatenate([rows, alone]), np.concatenate([shard, anywhere])


def parted(tables: Sequence[pa.Table | None]) -> tuple[list[pa.Table | None], list[pa.Table | None]]:
    """By stream, the rows that are played, and those that are only written down.

    >>> rows = pa.table({"v": [7, 8], "~places": [[1], []]})
    >>> plays, unlinked = parted([rows, None])
    >>> plays[0]["v"].to_pylist(), unlinked[0]["v"].to_pylist(), plays[1], unlinked[1]
    ([7], [8], None, None)
    """
    plays: list[pa.Table | None] = []
    unlinked: list[pa.Table | None] = []
    for table in tables:
        alone = None if table is None else pc.equal(pc.list_value_length(table[PLACES]), 0)
        plays.append(None if table is None else table.filter(pc.invert(alone)))
        unlinked.append(None if table is None else table.filter(alone))
    return [_or_none(table) for table in plays], [_or_none(table) for table in unlinked]


def without_values(table: pa.Table) -> pa.Table:
    """Rows without what they bring for the ledger only.

    >>> without_values(pa.table({"key0": [3], "~key0": ["p"], "~places": [[1]]})).column_names
    ['key0']
    """
    return table.select([name for name in table.column_names if not name.startswith("~")])


def _or_none(table: pa.Table | None) -> pa.Table | None:
    return table if table is not None and table.num_rows else None
