"""Process memory over a long run: the job of `penstock bench spark` with ample memory, 200 batches of 500,000 rows.

Run: python benchmarks/flat.py [batches] [rows]      prints the resident memory of Java and of the Python workers every ten batches
"""

from __future__ import annotations

import sys
from pathlib import Path

from penstock.spark.bench import _running, _settings, open_session
from penstock.spark.contenders import CONTENDERS, Job, query


def resident(pid: int) -> float:
    """MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), 0.0)


def children(pid: int) -> list[int]:
    """All processes below one."""
    found = [int(one) for task in Path(f"/proc/{pid}/task").iterdir() for one in (task / "children").read_text().split()]
    return found + [below for one in found for below in children(one)]


def main(batches: int = 200, rows: int = 500_000) -> None:
    spark = open_session(2)
    java = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    job, contender = Job(rows=rows), CONTENDERS["penstock"]
    print("batch  Java MB  workers  their MB  retained rows")
    with _settings(spark, job, contender), _running(query(spark, job, contender).writeStream.format("noop")) as (running, _):
        shown = 0
        while shown < batches:
            running.awaitTermination(0.5)
            last = running.lastProgress
            if last and last.batchId >= shown + 9:
                shown = 10 * ((last.batchId + 1) // 10)
                sizes = [resident(one) for one in children(java)]
                held = last.observedMetrics["penstock"]["retained_rows"]
                print(f"{shown:5} {resident(java):8.0f} {len(sizes):8} {sum(sizes):9.0f} {held:14}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
