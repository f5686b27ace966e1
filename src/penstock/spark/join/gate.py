"""The gate: one last step through which all results pass, where what is to be said or decided needs all shards at once.

It is there only if asked for. A batch whose recall is below `min_recall`, or that made more than `max_output_per_batch`, ends here, before
anything of it is committed: rows pass as they come, and a task that fails after them fails the batch with all of its rows. With an extra
condition, which Spark itself evaluates on the joined rows (and on the rows that were lost, as far as it looks at them), the counts of
what passes are made here, and summed up over the life of the query: then the gate has a state.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from penstock.core.errors import PenstockError
from penstock.shard.cells import CELL, Batches, from_cell, to_cell
from penstock.shard.counts import JUDGED, TOTAL, counted, over_shards
from penstock.shard.output_limit import Quota
from penstock.shard.shard import LOST, VALUE
from penstock.shard.worker_start import spare_from_collection
from penstock.spark.join.task import running
from penstock.spark.observe.metrics import COUNTS, recall_of

GATE = "gate"
"""The key that all rows share."""
BESIDE = "__counts"
"""The name of the counts where they stand beside columns of the user."""


class Gate(StatefulProcessor):
    """Adds up what a condition has let pass, over the shards and over the life of the query; fails a batch that lost too much."""

    def __init__(self, streams: int, *, least: float | None) -> None:
        self.streams, self.least = streams, least

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state: the sums so far."""
        self.totals = handle.getValueState("totals", "sums string")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Let a batch pass."""
        names = counted(self.streams)
        counts = [np.zeros(len(names))]
        for frame in rows:
            counts += [np.asarray(own, dtype=np.float64) for own in frame[COUNTS] if own is not None]
            cells = [cell for cell in frame[CELL] if cell is not None]
            if cells:
                yield pd.DataFrame({CELL: cells, COUNTS: [None] * len(cells)})
        columns = dict(zip(names, np.stack(counts).T, strict=True))
        sums = {name: over_shards(name, column) for name, column in columns.items()}
        state = self.totals.get() if self.totals.exists() else None
        before = _judged_before(None if state is None else state[0])
        after = {name: before[name] + sums[name] for name in JUDGED}
        self.totals.update((json.dumps(after),))
        sums |= {TOTAL + name: value for name, value in after.items()}
        _check(sums, self.least)
        yield pd.DataFrame({CELL: [None], COUNTS: [[sums[name] for name in names]]})
        spare_from_collection("gate")

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

    return let_pass


def _check(sums: dict[str, float], least: float | None) -> None:
    recall = recall_of(sums)
    if least is not None and recall < least:
        raise PenstockError(
            f"min_recall must be reached by every batch: it is {least:g}, and this batch would have a recall of {recall:.4g}. "
            "Nothing of it is committed; a restart with more memory or a smaller min_recall goes on from here"
        )


def opened(schema: pa.Schema) -> Callable[[Batches], Batches]:
    """For `mapInArrow`: cells to rows of `schema`, followed by a column of counts, which have rows of their own."""
    whole = pa.schema([*schema, (BESIDE, pa.list_(pa.float64()))])

    def open_up(batches: Batches) -> Batches:
        for batch in batches:
            for at, cell in enumerate(batch.column(CELL)):
                if cell.is_valid:
                    table = from_cell(cell.as_buffer()).cast(schema)
                    columns = [*table.columns, pa.nulls(table.num_rows, whole.field(BESIDE).type)]
                    yield from pa.table(columns, schema=whole).to_batches()
                else:
                    own = batch.column(COUNTS).slice(at, 1)
                    yield pa.record_batch([*(pa.nulls(1, field.type) for field in schema), own], schema=whole)

    return open_up


def closed(schema: pa.Schema, streams: int, weighed: bool) -> Callable[[Batches], Batches]:
    """For `mapInArrow`: rows that a condition has passed, back to cells, with the counts of what was made and what was lost."""
    names = counted(streams)
    whole = pa.schema([(CELL, pa.binary()), (COUNTS, pa.list_(pa.float64()))])
    kept = [name for name in schema.names if name != LOST]

    def close_up(batches: Batches) -> Batches:
        for batch in batches:
            table = pa.Table.from_batches([batch]).rename_columns([*schema.names, BESIDE])
            counts = table.filter(table[LOST].is_null())
            rows = table.filter(table[LOST].is_valid())
            for row in counts[BESIDE].to_pylist():
                own = [0.0 if name in JUDGED else count for name, count in zip(names, row, strict=True)]
                yield pa.record_batch([[None], [own]], schema=whole)
            if rows.num_rows:
                weight = np.asarray(rows[LOST])
                value = np.asarray(rows[VALUE]) if weighed else np.ones(len(weight))
                made, guess = weight == 0, weight * (weight != 1.0)  # one that stands for itself alone was counted
                judged = {
                    "n_output": np.count_nonzero(made),
                    "value": value[made].sum(),
                    "lost": weight.sum(),
                    "lost_value": (weight * value).sum(),
                    "sampled": guess.sum(),
                    "sampled_value": (guess * value).sum(),
                }
                cell = to_cell(rows.filter(pa.array(made)).select(kept))
                yield pa.record_batch([[cell], [[float(judged.get(name, 0.0)) for name in names]]], schema=whole)

    return close_up
