"""What the way to the join and back costs by itself: the job of `penstock bench spark` with a processor that does nothing.

Run: python benchmarks/transport.py [rounds] [batches of a round] [warm-up]

    pass-through   every row to Python and back
    thrown away    every row to Python, where it ends; the processor gets nothing, touches its state and returns nothing
    one way        rows are packed and shuffled, the processor touches its state and returns nothing
    both ways      it also returns 0.4 rows for each that came, as wide as joined ones
    penstock       the join

`thrown away` is what no join in a stateful processor behind `mapInArrow` can be faster than, however it packs. What lies between it and
`both ways` is our packing, the shuffle and the way back; between `both ways` and `penstock` lies the join.

After the warm-up of all of them they take turns: in every round each goes on from its checkpoint for some batches, and is compared with
the pass-through of that round. What else the machine does, and its disk, then moves all of them alike.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import SparkSession

from penstock.shard.cells import UNKNOWN, _headers, packer, to_cells
from penstock.shard.counts import counted
from penstock.shard.worker_start import spare_from_collection
from penstock.spark.bench.contenders import CONTENDERS, Job, query
from penstock.spark.bench.contest import _settings, _watch, open_session
from penstock.spark.join import join as operator
from penstock.spark.join.processor import JoinProcessor
from penstock.spark.join.shard_player import _counts, _frame, _gather, _packed


class Idle(JoinProcessor):
    """Takes what has come, writes its state, and returns `outputs` rows for each of these, all alike."""

    outputs = 0.0

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        tables, _, _ = _gather(_packed(rows), len(self.plan.streams))
        self.cells.updateValue(("idle", 0), (b"something",))
        size = sum(table.num_rows for table in tables if table is not None)
        if size and self.outputs:
            yield _frame([cell for _, cell in to_cells(self._alike(tables, int(size * self.outputs)))])
        yield _counts(self.plan, dict.fromkeys(counted(len(self.plan.streams)), 0.0))

    def _alike(self, tables: list[pa.Table | None], size: int) -> pa.Table:
        first = next(table for table in tables if table is not None).slice(0, size)
        size = first.num_rows
        made = []
        for field in self.plan.schema:
            alike = [name for name in first.column_names if first[name].type == field.type]
            made.append(first[alike[0]] if alike else pa.nulls(size, field.type))
        return pa.table(made, schema=self.plan.schema)


class Returning(Idle):
    outputs = 0.4


def throwing_away(stream: int, shards: Any, *told: Any, **options: Any) -> Any:
    """Instead of `packer`: a header for every shard, and no rows."""

    def pack(batches: Any) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        yield _headers(stream, shards, UNKNOWN, 0, None)
        spare_from_collection("pack")

    return pack


WAYS = {
    "pass-through": ("pass-through", JoinProcessor, packer),
    "thrown away": ("penstock", Idle, throwing_away),
    "one way": ("penstock", Idle, packer),
    "both ways": ("penstock", Returning, packer),
    "penstock": ("penstock", JoinProcessor, packer),
}
_RESTART = 4
"""Batches after a restart that do not count."""


def seconds(spark: SparkSession, way: str, checkpoint: str, batches: int) -> float:
    """Go on from a checkpoint for so many batches after a restart; the median of their seconds."""
    name, operator.JoinProcessor, operator.packer = WAYS[way]
    contender, job = CONTENDERS[name], Job()
    before = 1 + max((int(path.name) for path in Path(checkpoint, "commits").glob("[0-9]*")), default=-1)
    with _settings(spark, job, contender):
        running = query(spark, job, contender).writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        try:
            events = _watch(running, _RESTART + batches, lambda done: None, before)
        finally:
            running.stop()
    return statistics.median(event["durationMs"]["triggerExecution"] / 1000 for event in events[_RESTART:])


def main(rounds: int = 6, batches: int = 8, warm_up: int = 80) -> None:
    spark = open_session(2)
    taken: dict[str, list[float]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for number in range(rounds + 1):
            for way in WAYS:
                print(f"{way}, {f'round {number} of {rounds}' if number else 'warm-up'}      ", end="\r", file=sys.stderr, flush=True)
                spent = seconds(spark, way, f"{folder}/{way.replace(' ', '-')}", batches if number else warm_up)
                if number:
                    taken[way].append(spent)
    print("              rows/s  seconds/batch  of pass-through, median (lowest to highest of a round)")
    for way, those in taken.items():
        middle = statistics.median(those)
        of = [base / one for base, one in zip(taken["pass-through"], those, strict=True)]
        print(f"{way:12} {Job().rows / middle:9,.0f} {middle:13.2f} {statistics.median(of):12.2f} ({min(of):.2f} to {max(of):.2f})")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
