"""Make tests/support/data/checkpoint-FORMAT.tar.gz: a small query that ran and stopped, for later releases to go on with.

Run: python tests/support/keep_checkpoint.py [condition]

With `condition` it is condition-FORMAT.tar.gz, of a query with a condition: it has the state of a gate too.
"""

from __future__ import annotations

import os
import sys
import tarfile
import tempfile
from pathlib import Path

from penstock.shard.state.state_settings import FORMAT
from places import DATA
from sparks import in_batches, joined, new_session, ran, rows

ROOT = "ROOT-OF-THE-CHECKPOINT"
"""Stands for the folder in which it was made."""
OPTIONS = {"memory": 30, "shards": 2, "policy": "prob", "lateness": "0 seconds"}
CONDITION = {"condition": "l_v < r_v or k = 'a'"}


def parts(side: str) -> list[list[tuple]]:
    return [rows(f"{side}{number}", 40, seconds=30, seed=number) for number in range(3)]


def hide_root(folder: Path) -> None:
    """Let ROOT stand for the folder wherever it is named in it."""
    for path in folder.rglob("*"):
        if path.suffix == ".crc" or path.name.startswith("draft"):
            continue
        if path.is_file() and str(folder).encode() in (content := path.read_bytes()):
            path.write_bytes(content.replace(str(folder).encode(), ROOT.encode()))
    for path in [*folder.rglob("*.crc")]:
        path.unlink()


def show_root(folder: Path) -> None:
    """Put the folder in the place of ROOT."""
    for path in folder.rglob("*"):
        if path.is_file() and ROOT.encode() in (content := path.read_bytes()):
            path.write_bytes(content.replace(ROOT.encode(), str(folder).encode()))


def main(kind: str = "checkpoint") -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = new_session()
    folder = Path(tempfile.mkdtemp())
    frames = [in_batches(spark, folder / side, parts(side)[:2]) for side in "lr"]
    ran(joined(*frames, **OPTIONS, **(CONDITION if kind == "condition" else {})), folder)
    spark.stop()
    hide_root(folder)
    target = DATA / f"{kind}-{FORMAT}.tar.gz"
    with tarfile.open(target, "w:gz") as archive:
        for name in ("checkpoint", "out", "l/in", "r/in"):
            archive.add(folder / name, name)
    print(target, target.stat().st_size)


if __name__ == "__main__":
    main(*sys.argv[1:])
