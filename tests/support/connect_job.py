"""A join under Spark Connect, in a process of its own: prints what came out as one line of JSON.

Run: python tests/support/connect_job.py FOLDER      with FOLDER/l and FOLDER/r holding Parquet files of ts, k, v
"""

from __future__ import annotations

import json
import os
import sys
import time
from urllib.request import urlopen

os.environ["PYSPARK_PYTHON"] = sys.executable

from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession

import penstock as ps

SCHEMA = "ts timestamp, k string, v string"


def watched(url: str) -> dict[str, float]:
    """What Prometheus gets, once the end of the query has been reported."""
    for _ in range(600):
        text = urlopen(f"{url}metrics", timeout=30).read().decode()
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        if any(sample.name == "penstock_query_running" and sample.value == 0 for sample in samples):
            break
        time.sleep(0.1)
    return {sample.name: sample.value for sample in samples}


def main(folder: str) -> None:
    spark = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    frames = {side: spark.read.schema(SCHEMA).parquet(f"{folder}/{side}") for side in "lr"}
    streams = {side: spark.readStream.schema(SCHEMA).parquet(f"{folder}/{side}") for side in "lr"}
    options = {"on": "k", "shards": 2, "condition": "l_v <> 'l7'"}
    batch = ps.join({s: ps.stream(f, time="ts", window="10 seconds") for s, f in frames.items()}, memory=1000, **options)
    found = {"kind": type(batch).__module__, "batch": sorted([row["l_v"], row["r_v"]] for row in batch.collect())}
    live = ps.join(
        {s: ps.stream(f, time="ts", window="10 seconds") for s, f in streams.items()}, memory=20, archive=f"{folder}/archive", **options
    )
    served = ps.watch(spark)  # never stopped: it must not keep the client from ending
    query = live.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
    query = query.trigger(availableNow=True).queryName("few").start(f"{folder}/out")
    query.awaitTermination()
    found["watched"] = watched(served.url)
    found["stream"] = sorted([row["l_v"], row["r_v"]] for row in spark.read.parquet(f"{folder}/out").collect())
    found["run"] = str(query.runId)
    told = ps.progress(query)
    found["told"] = {name: told.joins["penstock"][name] for name in ("total_n_input", "total_n_output", "total_lost", "total_recall")}
    try:
        ps.join({s: ps.stream(f, time="ts", window="10 seconds") for s, f in streams.items()}, on="k", memory=20, min_recall=0.5)
    except ps.PenstockError as error:
        found["refused"] = str(error)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
