"""Process memory and checkpoint over a long run: the job of `penstock bench spark` with ample memory, 200 batches of 500,000 rows.

Run: python benchmarks/flat.py [batches] [rows] [contender]

Prints the resident memory of Java and of the Python workers, and the size of the checkpoint, every ten batches. The contender
`pass-through` shows what Spark takes by itself.
"""

from __future__ import annotations

import subprocess
import sys

from penstock.spark.bench.contenders import CONTENDERS, Job, query
from penstock.spark.bench.contest import _running, _settings, _size, open_session


def resident(pid: int) -> tuple[float, list[float]]:
    """MB of a process, and of each process below it."""
    table = subprocess.run(["ps", "-e", "-o", "pid=,ppid=,rss="], capture_output=True, text=True, check=True).stdout
    rows = [tuple(map(int, line.split())) for line in table.splitlines()]
    below = {pid}
    while grown := {one for one, parent, _ in rows if parent in below} - below:
        below |= grown
    sizes = {one: size / 1024 for one, _, size in rows if one in below}
    return sizes.pop(pid), list(sizes.values())


def main(batches: int = 200, rows: int = 500_000, contender: str = "penstock") -> None:
    spark = open_session(2)
    java = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    job, chosen = Job(rows=rows), CONTENDERS[contender]
    print("batch  Java MB  workers  their MB  retained rows  checkpoint MB")
    with _settings(spark, job, chosen), _running(query(spark, job, chosen).writeStream.format("noop")) as (running, folder):
        shown = 0
        while shown < batches:
            running.awaitTermination(0.5)
            last = running.lastProgress
            if last and last.batchId >= shown + 9:
                shown = 10 * ((last.batchId + 1) // 10)
                own, sizes = resident(java)
                held = last.observedMetrics.get("penstock", {"retained_rows": 0})["retained_rows"]
                print(f"{shown:5} {own:8.0f} {len(sizes):8} {sum(sizes):9.0f} {held:14} {_size(folder) / 1e6:14.1f}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *sys.argv[3:])
