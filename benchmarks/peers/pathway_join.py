"""The job of `penstock bench spark` on Pathway: an interval join of two CSV files; prints one line of JSON. See pathway.md.

python pathway_join.py FOLDER WINDOW_MS THREADS, where FOLDER has l.csv and r.csv without header: t (ms), k, v.
"""

import json
import os
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

os.environ["PATHWAY_THREADS"] = sys.argv[3]  # is read when Pathway is imported

import pathway as pw


class Row(pw.Schema):
    t: int
    k: int
    v: str


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def main() -> None:
    folder, window = Path(sys.argv[1]), int(sys.argv[2])
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch)
        for side in ("l.csv", "r.csv"):  # Pathway wants a header
            (out / side).write_bytes(b"t,k,v\n" + (folder / side).read_bytes())
        left, right = (pw.io.csv.read(out / side, schema=Row, mode="static") for side in ("l.csv", "r.csv"))
        near = pw.temporal.interval(1 - window, window - 1)  # both ends belong to it
        joined = left.interval_join(right, left.t, right.t, near, left.k == right.k)
        result = joined.select(left.k, l_t=left.t, l_v=left.v, r_t=right.t, r_v=right.v)
        pw.io.csv.write(result, out / "out.csv")
        began = time.perf_counter()
        pw.run(monitoring_level=pw.MonitoringLevel.NONE)
        seconds = time.perf_counter() - began
        rows = lines(folder / "l.csv") + lines(folder / "r.csv")
        found = {"rows": rows, "seconds": seconds, "outputs": lines(out / "out.csv") - 1, "version": version("pathway")}
    print(json.dumps(found))


main()
