"""A small join with a ledger and an exactly-once sink, to be killed: python chaos_job.py FOLDER QUERY MASTER SHARDS.

FOLDER has the input (see chaos_input.py); the job writes `out`, `archive`, `checkpoint`, and a line per batch to `metrics.jsonl`. It ends
with status 0 when all input is joined, with 3 when the query failed.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

import penstock as ps
from chaos_input import QUERIES
from sparks import SCHEMA, new_session


def started(spark: SparkSession, folder: Path, query: str, shards: int = 2) -> StreamingQuery:
    """The join over all input that there is, one file of each stream per batch."""
    facts = QUERIES[query]
    sides = {}
    for side in facts.streams:
        frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / side))
        sides[side] = ps.stream(frame, time="ts", window=f"{facts.window} seconds", lateness=f"{facts.lateness} seconds")
    how: dict[str, Any] = {"on": "k"}
    if facts.through:
        how = {"through": ps.relation(f"history:{folder / facts.through}", ["l.k = a", "b = r.k"], name="f")}
    joined = ps.join(sides, **how, memory=facts.memory, policy=facts.policy, shards=shards, archive=str(folder / "archive"))
    writer = joined.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    return writer.start(str(folder / "out"))


def followed(query: StreamingQuery, folder: Path) -> None:
    """Write the metrics of each batch as it ends, until the query does."""
    last = -1
    with (folder / "metrics.jsonl").open("a") as file:
        while True:
            active = query.isActive
            for progress in query.recentProgress:
                if progress.batchId > last and "penstock" in progress.observedMetrics:
                    last = progress.batchId
                    line: dict[str, Any] = {"batch": last} | progress.observedMetrics["penstock"].asDict()
                    file.write(json.dumps(line) + "\n")
                    file.flush()
            if not active:
                return
            time.sleep(0.05)


def main(folder: Path, query: str, master: str, shards: int) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {"spark.task.maxFailures": "4", "spark.cores.max": "2", "spark.executor.memory": "512m"}
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    spark = new_session(master, **settings, **{"spark.executor.extraJavaOptions": quick})
    running = started(spark, folder, query, shards)
    followed(running, folder)
    if running.exception() is not None:
        print(str(running.exception())[:2000], flush=True)  # without the plan of the query
        os._exit(3)
    os._exit(0)  # nothing is open any more, and stopping Spark takes a second


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
