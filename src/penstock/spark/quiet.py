"""Spark starts, without its preamble: what its Java process writes to stderr passes through us, and known chatter stays behind."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_CHATTER = re.compile(
    r"\s*$|WARNING: Using incubator modules|Setting (default|Spark) log level|To adjust logging level"
    r"|(Starting )?Streaming TransformWithStateInPandas Python worker"
)


@contextmanager
def without_preamble() -> Iterator[None]:
    """Processes started in here write their stderr to us; all but the chatter goes on to ours, for as long as they live."""
    try:
        ours = os.dup(2)
    except OSError:  # no stderr, nothing to keep quiet
        yield
        return
    reading, writing = os.pipe()
    sys.stderr.flush()
    os.dup2(writing, 2)
    os.close(writing)
    threading.Thread(target=_pass_on, args=(reading, ours), daemon=True).start()
    try:
        yield
    finally:
        os.dup2(ours, 2)


def is_chatter(line: str) -> bool:
    """Whether a line says nothing that a user could act on.

    >>> is_chatter('Setting default log level to "WARN".'), is_chatter("java.lang.OutOfMemoryError: Java heap space")
    (True, False)
    """
    return _CHATTER.match(line) is not None


def _pass_on(reading: int, to: int) -> None:
    with os.fdopen(reading, "r", errors="replace") as lines:
        for line in lines:
            if not is_chatter(line):
                os.write(to, line.encode())
