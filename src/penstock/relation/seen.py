"""Which version of a history a batch of a streaming query sees: the last one when the first of its tasks asks, and the same ever after.

    history/seen/penstock-7f3a…/000000012.json      what batch 12 of that query sees

The record is made by a link to a whole file, which fails where there is one: of all tasks of all attempts at a batch one decides, and
the others read what it decided. So a batch that is played again sees the same facts.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from uuid import uuid4

from penstock.core.errors import PenstockError
from penstock.ledger.sealed import sealed, unsealed
from penstock.relation.history import DAMAGED, History

KEPT = 1000
"""Batches whose records stay; Spark goes back by 100 at most, by default."""


@lru_cache(maxsize=64)
def version_seen(folder: str, reader: str, batch: int) -> int:
    """The version that a batch of this reader sees of the history in a folder of a file system that all workers share.

    >>> from tempfile import mkdtemp
    >>> from penstock.relation.record import record
    >>> folder = f"{mkdtemp()}/zones"
    >>> found = []
    >>> for time in range(3):
    ...     _ = record({"a": [time]}, folder, keys=["a"], time=time)
    ...     found.append((version_seen(folder, "q", 0), version_seen(folder, "q", time)))
    >>> found
    [(1, 1), (1, 2), (1, 3)]
    """
    name = f"seen/{reader}/{batch:09}.json"
    place = Path(folder) / name
    told = _read(place, name)
    if told is None:
        _decide(folder, place)
        _forget(place, batch)
        told = _read(place, name)
    if told is None:
        raise PenstockError(f"history must stay as it is while a query runs, got {folder!r}, from which {name} has gone")
    return told


def _read(place: Path, name: str) -> int | None:
    try:
        return int(unsealed(place.read_bytes(), name, of=DAMAGED)["version"])
    except FileNotFoundError:
        return None


def _decide(folder: str, place: Path) -> None:
    """Make the record, unless another has made it meanwhile."""
    last = History(folder).version().number
    draft = place.parent / f".{place.name}.{uuid4().hex}"
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(sealed({"version": last}))
        with suppress(FileExistsError):
            os.link(draft, place)
    except OSError as error:
        raise PenstockError(
            f"history must be a folder that all workers can write to, on a file system that knows links, got {folder!r}: {error.strerror}"
        ) from None
    finally:
        draft.unlink(missing_ok=True)


def _forget(place: Path, batch: int) -> None:
    """One record comes, one goes."""
    with suppress(OSError):
        (place.parent / f"{batch - KEPT:09}.json").unlink(missing_ok=True)
