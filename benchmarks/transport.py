"""What the way to the join and back costs by itself: the job of `penstock bench spark` with a processor that does nothing.

Run: python benchmarks/transport.py [batches] [warm-up]

    pass-through   every row to Python and back
    thrown away    every row to Python, where it ends; the processor gets nothing, touches its state and returns nothing
    one way        rows are packed and shuffled, the processor touches its state and returns nothing
    both ways      it also returns 0.4 rows for each that came, as wide as joined ones
    penstock       the join

`thrown away` is what no join in a stateful processor behind `mapInArrow` can be faster than, however it packs. What lies between it and
`both ways` is our packing, the shuffle and the way back; between `both ways` and `penstock` lies the join. Compare within one run only:
other work on the machine, and its disk, move all of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pandas as pd
import pyarrow as pa

from penstock.spark import operator
from penstock.spark.bench import measure, open_session
from penstock.spark.blocks import UNKNOWN, _headers, packer
from penstock.spark.contenders import Job
from penstock.spark.metrics import counted
from penstock.spark.processor import JoinProcessor, _cells, _counts, _gather, _packed
from penstock.spark.worker import spare_from_collection


class Idle(JoinProcessor):
    """Takes what has come, writes its state, and returns `outputs` rows for each of these, all alike."""

    outputs = 0.0

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        tables, _, _ = _gather(_packed(rows), len(self.plan.streams))
        self.cells.updateValue(("idle", 0), (b"something",))
        size = sum(table.num_rows for table in tables if table is not None)
        if size and self.outputs:
            yield from _cells(self._alike(tables, int(size * self.outputs)))
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
        yield _headers(stream, shards, UNKNOWN, 0)
        spare_from_collection("pack")

    return pack


def main(batches: int = 10, warm_up: int = 20) -> None:
    spark = open_session(2)
    job = Job(batches=batches, warm_up=warm_up)
    speeds = {}
    for name, contender, processor, pack in (
        ("pass-through", "pass-through", JoinProcessor, packer),
        ("thrown away", "penstock", Idle, throwing_away),
        ("one way", "penstock", Idle, packer),
        ("both ways", "penstock", Returning, packer),
        ("penstock", "penstock", JoinProcessor, packer),
    ):
        operator.JoinProcessor, operator.packer = processor, pack
        timing = measure(spark, contender, job, say=lambda text: print(text, end="\r", file=sys.stderr, flush=True))
        speeds[name] = replace(timing, contender=name)
    base = speeds["pass-through"].rows_per_second
    print("              rows/s  of pass-through  seconds/batch  processor µs/row")
    for name, one in speeds.items():
        seconds = sum(one.seconds) / len(one.seconds)
        print(
            f"{name:12} {one.rows_per_second:9,.0f} {one.rows_per_second / base:14.2f} {seconds:13.2f} {one.cpu_microseconds_per_row:16.2f}"
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
