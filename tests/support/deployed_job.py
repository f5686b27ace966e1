"""A join whose package is sent with the job: spark-submit --py-files penstock.zip deployed_job.py FOLDER.

FOLDER has the input of chaos_input.py, query "prob"; out come `out`, `archive`, `checkpoint`, `settled`, and where each process found
the package in `places.json`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import penstock as ps


def place(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Where a worker finds the package."""
    import penstock

    for _ in batches:
        yield pa.RecordBatch.from_pydict({"place": [os.path.abspath(penstock.__file__)]})


def main(folder: Path) -> None:
    spark = SparkSession.builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    found = [row.place for row in spark.range(8).repartition(4).mapInArrow(place, "place string").collect()]
    (folder / "places.json").write_text(json.dumps([ps.__file__, *found]))
    sides = {}
    for side in "lr":
        frame = spark.readStream.schema("ts timestamp, k string, v string").option("maxFilesPerTrigger", 2).parquet(str(folder / side))
        sides[side] = ps.stream(frame, time="ts", window="20 seconds", lateness="2 seconds")
    joined = ps.join(sides, on="k", memory=40, policy="prob", shards=2, archive=str(folder / "archive"))
    query = joined.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query.trigger(availableNow=True).start(str(folder / "out")).awaitTermination()
    ps.settle(str(folder / "archive"), checkpoint=str(folder / "checkpoint"), to=str(folder / "settled"), spark=spark)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
