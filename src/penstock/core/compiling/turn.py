"""One process compiles at a time: those that need the same code wait for it, and find it on disk when their turn comes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

fcntl: Any = None  # no such locks on Windows: every process compiles for itself there
with suppress(ImportError):
    import fcntl

_taken: set[str] = set()  # by this process


@contextmanager
def turn(folder: str) -> Iterator[None]:
    """While in here, no other process has its turn in the folder; in one process turns may be nested.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     before = is_taken(folder)
    ...     with turn(folder), turn(folder):
    ...         before, is_taken(folder)
    (False, True)
    """
    if fcntl is None or folder in _taken:
        yield
        return
    try:
        file = (Path(folder) / "turn").open("w")
    except OSError:
        yield
        return
    with file:  # which also ends the turn, as does the end of the process
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:  # a file system without locks
            yield
            return
        _taken.add(folder)
        try:
            yield
        finally:
            _taken.discard(folder)


def is_taken(folder: str) -> bool:
    """Whether some process has its turn."""
    if fcntl is None:
        return False
    try:
        with (Path(folder) / "turn").open("r") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
