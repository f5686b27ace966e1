"""Settles a running query again and again, to be killed: python chaos_settle.py FOLDER.

As soon as a batch is committed, what is owed is settled into FOLDER/settled. FOLDER/stop ends it, after a last settlement. FOLDER/die says
where the next settlement that finds work shall end by SIGKILL, together with its Java process: see POINTS, or a number of seconds.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from penstock.core.errors import PenstockError
from penstock.ledger.store import Store
from penstock.spark.settle.settle import settlement
from sparks import new_session

POINTS = ("before the mark", "before the rows", "among the rows", "after the rows", "amid the marks")
"""A settlement sets a mark, writes rows, and sets the mark again, with their number, in two copies: the last point is between these."""


def die() -> None:
    os.killpg(os.getpgrp(), signal.SIGKILL)


class Doomed:
    """While it is entered, a settlement that comes to the point dies there."""

    def __init__(self, folder: Path, point: str) -> None:
        self.folder, self.point, self.marks, self.put = folder, point, 0, Store.put

    def __enter__(self) -> None:
        Store.put = self.doomed_put()  # type: ignore[method-assign]

    def __exit__(self, *_: object) -> None:
        Store.put = self.put  # type: ignore[method-assign]

    def doomed_put(self) -> Any:
        def put(store: Store, name: str, data: Any) -> None:
            if "/settled/" not in name:
                return self.put(store, name, data)
            self.marks += 1
            if self.point == ("before the mark", "after the rows")[self.marks > 1]:
                die()
            if self.marks == 1 and self.point == "among the rows":
                threading.Thread(target=self.watch, daemon=True).start()
            self.put(store, name, data)
            if self.point == ("before the rows", "amid the marks")[self.marks > 1]:
                die()
            if self.marks == 1 and self.point and self.point not in POINTS:
                threading.Timer(float(self.point), die).start()
            return None

        return put

    def watch(self) -> None:
        while not any((self.folder / "settled").glob("settlement=*/_temporary/**/part-*")):
            time.sleep(0.001)
        die()


def main(folder: Path) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = new_session()
    known = -1
    while True:
        last = (folder / "stop").exists()
        commits = [int(path.name) for path in (folder / "checkpoint" / "commits").glob("[0-9]*")]
        if max(commits, default=-1) == known and not last:
            time.sleep(0.02)
            continue
        known = max(commits, default=-1)
        order = folder / "die"
        with Doomed(folder, order.read_text() if order.exists() else ""):
            done = settlement(str(folder / "archive"), str(folder / "checkpoint"), to=str(folder / "settled"), spark=spark)
        print(done.first, done.last, done.rows, flush=True)
        if last:
            os._exit(0)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except PenstockError as error:
        print(error, flush=True)
        os._exit(3)
