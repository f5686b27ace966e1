"""What a batch costs when much is held: python benchmarks/held.py [ROWS HELD, with commas] [ROWS PER BATCH]

Rows of about 200 bytes. A first batch fills the memory, the next ones are counted. Prints seconds and bytes written to the state per batch.
"""

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import penstock as ps
from penstock.spark.bench.contest import open_session


def write(folder: Path, number: int, begin: int, rows: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    times = (1_767_225_600_000_000 + (begin + np.arange(rows)) * 1000).astype("datetime64[us]")
    letters = random.integers(97, 123, size=(rows, 180), dtype=np.uint8)
    text = pa.StringArray.from_buffers(
        rows, pa.py_buffer(np.arange(0, 180 * rows + 1, 180, dtype=np.int32)), pa.py_buffer(letters.tobytes())
    )
    table = pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "k": random.integers(0, 5_000_000, rows), "v": text})
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number:04}.parquet"
    pq.write_table(table, path)
    os.utime(path, (1_700_000_000 + number,) * 2)


def main(held: int, batch: int, batches: int = 12) -> None:
    spark = open_session(2)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    folder = Path(tempfile.mkdtemp())
    half = held // 2
    sides = {}
    for seed, side in enumerate("lr"):
        write(folder / side, 0, 0, half, seed)
        for number in range(1, batches):
            write(folder / side, number, half + (number - 1) * batch // 2, batch // 2, seed + 10 * number)
        frame = spark.readStream.schema("ts timestamp, k bigint, v string").option("maxFilesPerTrigger", 1).parquet(str(folder / side))
        sides[side] = ps.stream(frame, time="ts", window=f"{half} ms")
    query = ps.join(sides, on="k", memory=2 * held + 2 * batch, shards=2).writeStream.format("noop")
    running = query.option("checkpointLocation", str(folder / "checkpoint")).start()
    while running.lastProgress is None or running.lastProgress.batchId < batches - 1 or not running.lastProgress.numInputRows:
        if running.exception():
            raise running.exception()
        time.sleep(0.1)
    events = [event for event in running.recentProgress if event.numInputRows and event.batchId >= 4]
    running.stop()
    seconds = [event.durationMs["triggerExecution"] / 1000 for event in events]
    last = events[-1].observedMetrics["penstock"]
    written = [event.stateOperators[0].customMetrics.get("rocksdbTotalBytesWritten", 0) for event in events]
    held_now = f"held {last['retained_rows']:,} ({last['retained_bytes'] / 1e6:.0f} MB), batch {batch:,}"
    print(f"{held_now}: median {statistics.median(seconds):.2f} s {[round(s, 2) for s in seconds]}", end="; ")
    print(f"written to the state per batch {statistics.median(written) / 1e6:.1f} MB; shed {last['total_n_shed']}", flush=True)


if __name__ == "__main__":
    for rows in (sys.argv[1] if len(sys.argv) > 1 else "10000,1000000").split(","):
        main(int(rows), int(sys.argv[2]) if len(sys.argv) > 2 else 10_000)
