"""Make tests/support/data/ledger-VERSION.tar.gz: a query with an archive, settled in part and stopped, for later releases to go on with.

Run: python tests/support/keep_ledger.py
"""

from __future__ import annotations

import os
import sys
import tarfile
import tempfile
from pathlib import Path

import penstock as ps
from keep_checkpoint import hide_root, parts
from penstock.ledger.ledger_plan import VERSION
from places import DATA
from sparks import add_batches, in_batches, joined, new_session, ran

OPTIONS = {"memory": 30, "shards": 2, "policy": "prob", "lateness": "0 seconds"}
PLAYED = 2
"""Batches of `parts` that were played; the first of them was settled."""


def main() -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = new_session()
    folder = Path(tempfile.mkdtemp())
    archive, checkpoint, settled = (str(folder / name) for name in ("archive", "checkpoint", "settled"))
    frames = [in_batches(spark, folder / side, parts(side)[:1]) for side in "lr"]
    ran(joined(*frames, archive=archive, **OPTIONS), folder)
    ps.settle(archive, checkpoint=checkpoint, to=settled, spark=spark)
    for side in "lr":
        add_batches(spark, folder / side, parts(side)[1:PLAYED])
    ran(joined(*frames, archive=archive, **OPTIONS), folder)
    spark.stop()
    hide_root(folder)
    target = DATA / f"ledger-{VERSION}.tar.gz"
    with tarfile.open(target, "w:gz") as file:
        for name in ("checkpoint", "archive", "settled", "out", "l/in", "r/in"):
            file.add(folder / name, name)
    print(target, target.stat().st_size)


if __name__ == "__main__":
    main()
