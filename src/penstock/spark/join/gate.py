"""The gate: one last step through which all results pass, where what is to be said or decided needs all shards at once.

It is there only if asked for. The rows of each shard go through a task of their own, and what the shards have counted through one, which
may end the batch: if its recall is below `min_recall`, or if it made more than `max_output_per_batch`. Rows may have passed by then, and
nothing of them is committed: a task that fails, fails the batch with all of its tasks.

With an extra condition, which Spark itself evaluates on the joined rows (and on the rows that were lost, as far as it looks at them), the
counts of what passes are made here, and summed up over the life of the query: then the gate has a state. Spark sees only the columns of
the condition and the number of each row in its cell, and returns the numbers of the rows that pass.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.streaming.stateful_processor import TimerValues

from penstock.core.errors import PenstockError
from penstock.core.trace import Ints
from penstock.shard.cells import CELL, CELL_SIZE, Batches, from_cell, to_cells
from penstock.shard.counts import JUDGED, TOTAL, counted, over_shards
from penstock.shard.results.output_limit import Quota
from penstock.shard.shard_ids import partition_keys
from penstock.shard.shard_plan import LOST, VALUE
from penstock.shard.worker_start import acknowledge_at_once, spare_from_collection
from penstock.spark.join.task import running
from penstock.spark.observe.metrics import COUNTS, recall_of

GATE = "gate"
"""Which gate a row goes through."""
_COUNTING = 0
"""The gate of the counts; all rows went through it once, so that checkpoints have its state."""
AT, BESIDE = "__at", "__cell"
"""Beside columns of the user: the number of a row in its cell, and that cell, which has a row of its own before its rows."""
_CELL, _COUNTS = -1, -2
"""Instead of the number of a row: here a cell begins; here are counts."""


def gate_of(shards: int) -> Column:
    """The gate of a row of results: that of the counts, or one for each task with shards, all in different partitions."""
    keys = ", ".join(str(key) for key in partition_keys(shards))
    own = f"element_at(array({keys}), 1 + spark_partition_id() % {shards})"
    return F.expr(f"coalesce(if({CELL} is null, {_COUNTING}, {own}), {_COUNTING})")


class Gate(StatefulProcessor):
    """Adds up what a condition has let pass, over the shards and over the life of the query; fails a batch that lost too much."""

    def __init__(self, streams: int, *, least: float | None) -> None:
        self.streams, self.least = streams, least

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state: the sums so far."""
        self.totals = handle.getValueState("totals", "sums string")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: TimerValues) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Let the rows of a task pass; or add up the counts of all, and let the batch pass."""
        acknowledge_at_once()
        if int(key[0]) != _COUNTING:
            yield from rows
        else:
            yield self._counted(rows)
        spare_from_collection("gate")

    def _counted(self, rows: Iterator[pd.DataFrame]) -> pd.DataFrame:
        names = counted(self.streams)
        counts = [np.zeros(len(names))]
        counts += [np.asarray(own, dtype=np.float64) for frame in rows for own in frame[COUNTS]]
        columns = dict(zip(names, np.stack(counts).T, strict=True))
        sums = {name: over_shards(name, column) for name, column in columns.items()}
        state = self.totals.get() if self.totals.exists() else None
        before = _judged_before(None if state is None else state[0])
        after = {name: before[name] + sums[name] for name in JUDGED}
        self.totals.update((json.dumps(after),))
        sums |= {TOTAL + name: value for name, value in after.items()}
        _check(sums, self.least)
        return pd.DataFrame({CELL: [None], COUNTS: [[sums[name] for name in names]]})

    def close(self) -> None:
        """Nothing is open."""


def _judged_before(state: str | None) -> dict[str, float]:
    """The sums so far. Those of 0.1.0 do not say what was estimated: all of it may be.

    >>> _judged_before('{"n_output": 9.0, "value": 9.0, "lost": 3.0, "lost_value": 4.0}')["sampled"]
    3.0
    """
    found = dict.fromkeys(JUDGED, 0.0) if state is None else json.loads(state)
    return {"sampled": found["lost"], "sampled_value": found["lost_value"]} | found


def guard(streams: int, least: float | None = None, most: int | None = None) -> Callable[[Batches], Batches]:
    """For `mapInArrow` over the results of all shards: let them pass, unless the batch lost too much or made too much."""
    names = counted(streams)

    def let_pass(batches: Batches) -> Batches:
        sums = {"n_output": 0.0, "lost": 0.0}
        query, _, number = running()
        quota = Quota(most, None if query is None else number)
        for batch in batches:
            found = {name: pc.sum(pc.list_element(batch.column(COUNTS), names.index(name))).as_py() or 0.0 for name in sums}
            sums = {name: sums[name] + count for name, count in found.items()}
            quota.take(int(found["n_output"]))
            yield batch
        _check(sums, least)
        spare_from_collection("guard")

    return let_pass


def _check(sums: dict[str, float], least: float | None) -> None:
    recall = recall_of(sums)
    if least is not None and recall < least:
        raise PenstockError(
            f"min_recall must be reached by every batch: it is {least:g}, and this batch would have a recall of {recall:.4g}. "
            "Nothing of it is committed; a restart with more memory or a smaller min_recall goes on from here"
        )


def opened(schema: pa.Schema) -> Callable[[Batches], Batches]:
    """For `mapInArrow`: of cells the columns in `schema`, followed by the number of the row in its cell; a cell comes before its rows."""
    whole = pa.schema([*schema, (AT, pa.int32()), (BESIDE, pa.binary())])

    def alone(at: int, value: pa.Array) -> pa.RecordBatch:
        return pa.record_batch([*(pa.nulls(1, field.type) for field in schema), pa.array([at], pa.int32()), value], schema=whole)

    def open_up(batches: Batches) -> Batches:
        for batch in batches:
            for number, cell in enumerate(batch.column(CELL)):
                if cell.is_valid:
                    yield alone(_CELL, batch.column(CELL).slice(number, 1))
                    table = from_cell(cell.as_buffer())
                    columns = table.select(schema.names).cast(schema).columns
                    at = pa.array(np.arange(table.num_rows, dtype=np.int32))
                    yield from pa.table([*columns, at, pa.nulls(table.num_rows, pa.binary())], schema=whole).to_batches()
                else:
                    own = np.array(batch.column(COUNTS)[number].as_py(), dtype=np.float64)
                    yield alone(_COUNTS, pa.array([own.tobytes()], pa.binary()))
        spare_from_collection("open")

    return open_up


def closed(streams: int, weighed: bool) -> Callable[[Batches], Batches]:
    """For `mapInArrow`: numbers of the rows that a condition has passed to cells with these rows, and counts of what was made and lost."""
    names = counted(streams)
    whole = pa.schema([(CELL, pa.binary()), (COUNTS, pa.list_(pa.float64()))])

    def counts(own: Sequence[float]) -> pa.RecordBatch:
        return pa.record_batch([[None], [own]], schema=whole)

    def close_up(batches: Batches) -> Batches:
        judged: dict[str, float] = {}
        waiting: list[pa.Table] = []
        for kind, cell, places in _passed(batches):
            judged = judged or dict.fromkeys(JUDGED, 0.0)
            if kind == _COUNTS:
                own = np.frombuffer(cell, np.float64)
                yield counts([0.0 if name in JUDGED else count for name, count in zip(names, own, strict=True)])
                continue
            table = from_cell(cell)
            rows = table if len(places) == table.num_rows else table.take(pa.array(places))
            made = _judge(rows, judged, weighed)
            waiting += [made.drop_columns(LOST)] if made.num_rows else []
            if sum(one.nbytes for one in waiting) >= CELL_SIZE:
                yield from _closed(waiting, whole)
                waiting = []
        yield from _closed(waiting, whole)
        if judged:  # a task without shards has nothing to say
            yield counts([judged.get(name, 0.0) for name in names])
        spare_from_collection("close")

    return close_up


def _passed(batches: Batches) -> Iterator[tuple[int, pa.Buffer, Ints]]:
    """Cells and counts, and of each cell the numbers of the rows that have passed."""
    kind, cell, found = 0, None, [np.empty(0, np.int32)]
    for batch in batches:
        at = np.asarray(batch.column(0))
        begin = 0
        for stop in [*np.flatnonzero(at < 0), len(at)]:
            found.append(at[begin:stop])
            if stop < len(at):
                if cell is not None:
                    yield kind, cell, np.concatenate(found)
                kind, cell, found = int(at[stop]), batch.column(1)[stop].as_buffer(), []
                begin = stop + 1
    if cell is not None:
        yield kind, cell, np.concatenate(found)


def _judge(rows: pa.Table, judged: dict[str, float], weighed: bool) -> pa.Table:
    """Count rows that a condition has passed; those of them that were made."""
    weight = np.asarray(rows[LOST])
    value = np.asarray(rows[VALUE]) if weighed else np.ones(len(weight))
    made, guess = weight == 0, weight * (weight != 1.0)  # one that stands for itself alone was counted
    judged["n_output"] += np.count_nonzero(made)
    judged["value"] += value[made].sum()
    judged["lost"] += weight.sum()
    judged["lost_value"] += (weight * value).sum()
    judged["sampled"] += guess.sum()
    judged["sampled_value"] += (guess * value).sum()
    return rows if made.all() else rows.filter(pa.array(made))


def _closed(tables: list[pa.Table], whole: pa.Schema) -> Batches:
    for _, cell in to_cells(pa.concat_tables(tables)) if tables else ():
        yield pa.record_batch([[cell], [None]], schema=whole)
