"""Divides the state of FOLDER/checkpoint anew, to be killed: python chaos_reshard.py FOLDER SHARDS [POINT]. See POINTS."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from penstock.spark.reshard.checkpoint import Checkpoint
from penstock.spark.reshard.reshard import reshard
from sparks import new_session

POINTS = {
    "before": ("rename", ".rewriting/ready"),  # draft and backup are whole, the checkpoint is untouched
    "between": ("copy", "checkpoint/state/0"),  # the old state is gone, the new one is not there
    "after": ("delete", ".rewriting/begun"),  # all is done, the draft still there
}
"""Which step is not done any more: a method of `Checkpoint`, and how the name of what it makes or deletes ends."""


def doom(point: str) -> None:
    """Die, together with Java, where this step would be done."""
    method, ending = POINTS[point]
    step = getattr(Checkpoint, method)

    def doomed(files: Checkpoint, *names: str) -> Any:
        if names[-1].endswith(ending):
            os.killpg(os.getpgrp(), signal.SIGKILL)
        return step(files, *names)

    setattr(Checkpoint, method, doomed)


def main(folder: Path, shards: int, point: str | None = None) -> None:
    if point is not None:
        doom(point)
    print(reshard(new_session(), str(folder / "checkpoint"), shards), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
