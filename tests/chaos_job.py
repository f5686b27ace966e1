"""A small join with a ledger and an exactly-once sink, to be killed: python chaos_job.py FOLDER MASTER. Prints `done` at its end.

FOLDER has `l` and `r` (Parquet files, one per micro-batch); the job writes `out`, `archive`, `checkpoint`, and a line per batch to
`metrics.jsonl`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

import penstock as ps

SCHEMA = "ts timestamp, k string, v string"
MEMORY = 40


def main(folder: Path, master: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master(master)
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.task.maxFailures", "4")
        .config("spark.cores.max", "2")
        .config("spark.executor.memory", "512m")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    sides = {}
    for side in "lr":
        frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / side))
        sides[side] = ps.stream(frame, time="ts", window="20 seconds", lateness="2 seconds")
    joined = ps.join(sides, on="k", memory=MEMORY, shards=2, archive=str(folder / "archive"))
    query = (
        joined.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "out"))
    )
    print("started", flush=True)
    last = -1
    with (folder / "metrics.jsonl").open("a") as file:
        while True:
            active = query.isActive
            for progress in query.recentProgress:
                if progress.batchId > last and "penstock" in progress.observedMetrics:
                    last = progress.batchId
                    line = {"batch": last} | progress.observedMetrics["penstock"].asDict()
                    file.write(json.dumps(line) + "\n")
                    file.flush()
            if not active:
                break
            time.sleep(0.1)
    if query.exception() is not None:
        print("failed", query.exception(), flush=True)
        os._exit(3)
    print("done", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
