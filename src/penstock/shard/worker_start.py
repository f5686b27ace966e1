"""What spares a Python worker of Spark waiting and searching, at the start of each task and at the end of the first."""

from __future__ import annotations

import gc
import os
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path

_OPEN_FILES = Path("/proc/self/fd")


def acknowledge_at_once() -> None:
    """At the start of a task: have the system acknowledge what Java sends as it comes.

    Java sends what a task needs in several small parts, each of which waits until the one before was acknowledged. Linux puts that off
    by 40 ms where there is nothing to send back, and a batch has several tasks. The system forgets the wish after a while, so it is
    told in every task.
    """
    if not (hasattr(socket, "TCP_QUICKACK") and _OPEN_FILES.is_dir()):
        return
    for name in os.listdir(_OPEN_FILES):
        with suppress(OSError):  # a file, or one that is closed by now
            own = socket.socket(fileno=int(name))
            try:
                own.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            finally:
                own.detach()  # it is Spark's: not ours to close


@cache
def spare_from_collection(work: str) -> None:
    """Once per process and kind of work: what is loaded by now stays, and is no longer searched for garbage.

    Spark's workers collect all garbage after every task. With the modules and compiled loops of a join loaded that took a tenth of a
    second each time, and a batch has several tasks.
    """
    gc.collect()
    gc.freeze()
