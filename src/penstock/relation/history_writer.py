"""The one writer of a history: it adds versions, each whole or not at all, and makes a new base where changes have piled up."""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs

from penstock.core.errors import PenstockError
from penstock.ledger.sealed import sealed
from penstock.relation.history import DAMAGED, History, HistoryShape, Version, newest

_BATCH = 1 << 16  # facts in a batch of a file, which is what is read for one key
_FILES, _SHARE = 64, 0.5  # a new base is due after so many files of changes, or where they have this share of the base's facts
_LEAST = 1000  # facts that changes may have in any case


class Writer:
    """A history to add versions to. A second writer is refused where the folder is on a disk; elsewhere it takes over.

    >>> from tempfile import mkdtemp
    >>> folder = mkdtemp()
    >>> with Writer(folder), Writer(folder):
    ...     pass
    Traceback (most recent call last):
    ...
    penstock.core.errors.PenstockError: history must be written by one process at a time, got '...', which another process or session is
    writing
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.history = History(folder)
        self.store = self.history.store
        self._token = uuid4().hex
        self._lock: int | None = None

    def __enter__(self) -> Writer:
        if isinstance(self.store.files, fs.LocalFileSystem):
            self._lock = _locked(Path(self.store.root), self.store.given)
        else:
            self.store.put("writer.json", self._token.encode())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def last(self) -> Version | None:
        """The last version, or None."""
        return self.history.version() if self.history.latest() else None

    def add(self, plan: HistoryShape, changes: pa.Table, version: Version) -> Version:
        """Write the next version: `changes` are its lines, `version` says the rest (its number and files are filled in here)."""
        before = self.last()
        number = 1 if before is None else before.number + 1
        if before is None:
            self.store.put("history.json", sealed(plan.facts(), indent=2))
        files, rows = (before.files, before.rows) if before is not None else ((), ())
        changes = changes.select(plan.schema.names).cast(plan.schema)
        if len(changes):
            files, rows = (*files, self._written("changes", number, plan, changes)), (*rows, len(changes))
        if len(files) > _FILES or sum(rows[1:]) > max(_LEAST, _SHARE * sum(rows[:1])):
            told = [self.history.facts(before.number), changes] if before is not None else [changes]
            everything = newest(pa.concat_tables(told))
            files, rows = (self._written("bases", number, plan, everything),), (len(everything),)
        added = Version(number, files, rows, version.next_fact, version.processed, version.position, version.counts)
        self._check_still_ours(number)
        self.store.put(f"versions/{number:09}.json", sealed(asdict(added), indent=2))
        return added

    def _written(self, room: str, number: int, plan: HistoryShape, facts: pa.Table) -> tuple[str, ...]:
        """A copy of the facts for each key, sorted by it; a name has the digest of what is in it, so that no attempt overwrites another."""
        names = []
        for at, key in enumerate(plan.keys):
            out = pa.BufferOutputStream()
            ordered = facts.sort_by([(key, "ascending"), ("fact", "ascending")]).combine_chunks()
            with pa.ipc.new_file(out, plan.schema) as file:
                file.write_table(ordered, max_chunksize=_BATCH)
            data = out.getvalue()
            names.append(f"{room}/{number:09}-{at}-{hashlib.sha256(data).hexdigest()[:16]}.arrow")
            self.store.put(names[-1], data)
        return tuple(names)

    def _check_still_ours(self, number: int) -> None:
        """Refuse to go on where another writer has taken over."""
        taken = self._lock is None and self.store.read("writer.json") != self._token.encode()
        if taken or self.history.latest() != number - 1:
            raise PenstockError(f"{DAMAGED}: {self.store.given!r} was written by another process since this one began; start it again")


def _locked(folder: Path, given: str) -> int:
    """A lock that the system takes back when the process ends, however it ends."""
    import fcntl

    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / ".writer", os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise PenstockError(f"history must be a folder that can be written, got {given!r}: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise PenstockError(
            f"history must be written by one process at a time, got {given!r}, which another process or session is writing"
        ) from None
    return lock
