"""Independent pieces of work, spread over Spark's workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from penstock.spark.session.quiet import interruptible
from penstock.spark.session.session import use_this_package, use_this_python


def spread(spark: SparkSession, work: Callable[[str], str], pieces: Sequence[str]) -> list[str]:
    """What `work` makes of each piece, in their order; one job, a task for each piece.

    `work` is a function of a module that workers can import.
    """
    use_this_python(spark)
    use_this_package(spark)

    def play(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            done = [work(piece) for piece in batch["piece"].to_pylist()]
            yield pa.record_batch({"number": batch["number"], "done": pa.array(done, pa.string())})

    with interruptible():
        rows = spark.createDataFrame(list(enumerate(pieces)), "number bigint, piece string")
        apart = rows.repartitionByRange(len(pieces), "number") if len(pieces) > 1 else rows.coalesce(1)
        found = apart.mapInArrow(play, "number bigint, done string").collect()
    return [row["done"] for row in sorted(found, key=lambda row: row["number"])]


def slots(spark: SparkSession) -> int:
    """How many tasks run at a time."""
    return max(1, spark.sparkContext.defaultParallelism)
