"""The history of a relation that Penstock keeps itself: a folder of versions, in which nothing is ever changed (Towne 2.2).

    history.json                        what is recorded: keys, id, all columns and their types; written with version 1
    versions/000000012.json             version 12: which files make it, how far the source was read, what was late
    changes/000000012-0-5f3a….arrow     the facts that version 12 began or ended, sorted by the first key; -1- by the second
    bases/000000008-0-77c1….arrow       all facts as of version 8: what came before it need not be read any more
    seen/penstock-7f3a…/000000012.json  the version that a batch of a streaming query has seen (seen.py)

A file has batches of lines (Arrow IPC, not compressed), one line per fact: its number `fact`, the columns recorded, `begin` and `end`
(null: none), and `known_begin` and `known_end`, when these became known. Of the lines with one number the last version's counts. There
is a copy of each file for each key, sorted by it, so that the facts of a few keys are found by the first values of batches, in a file
that is mapped into memory. A manifest is sealed with a checksum and written last, so a version is there whole or not at all, and never
changes: whoever reads version 12 sees the same facts each time.
"""

from __future__ import annotations

import base64
import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from penstock.core.errors import PenstockError, choose
from penstock.ledger.sealed import unsealed
from penstock.ledger.store import Store

LAYOUT = 1
OWN = ("fact", "begin", "end", "known_begin", "known_end")
"""The columns that are Penstock's own."""
DAMAGED = "history must be a whole history"
NO_HISTORY = "history must be a folder in which Penstock keeps a history"


@dataclass(frozen=True)
class HistoryShape:
    """What a history records. `clock` is the type of its times."""

    keys: tuple[str, ...]
    id: tuple[str, ...]
    columns: pa.Schema
    clock: pa.DataType

    @property
    def schema(self) -> pa.Schema:
        """The columns of its files."""
        times = [pa.field(name, self.clock) for name in OWN[1:]]
        return pa.schema([pa.field("fact", pa.int64()), *self.columns, *times])

    @property
    def identity(self) -> tuple[str, ...]:
        """What two lines of one fact have in common."""
        return self.id or tuple(self.columns.names)

    def facts(self) -> dict[str, Any]:
        """As JSON."""
        types = base64.b64encode(self.schema.remove_metadata().serialize()).decode()
        return {"layout": LAYOUT, "keys": list(self.keys), "id": list(self.id), "types": types}

    @classmethod
    def of(cls, facts: dict[str, Any]) -> HistoryShape:
        """From JSON."""
        if facts["layout"] > LAYOUT:
            raise PenstockError(f"history is of a newer release of Penstock (layout {facts['layout']}); use that release")
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(facts["types"])))
        columns = pa.schema([one for one in schema if one.name not in OWN])
        return cls(tuple(facts["keys"]), tuple(facts["id"]), columns, schema.field("begin").type)


@dataclass(frozen=True)
class Version:
    """One version: its files (a base, then changes; each with a copy per key), and how far its source was read."""

    number: int
    files: tuple[tuple[str, ...], ...]
    rows: tuple[int, ...]  # of each file
    next_fact: int
    processed: int | None  # the last time that was processed; None: nothing yet
    position: Any = None  # where a feed is read on
    counts: dict[str, int] = field(default_factory=dict)  # over all versions: begun, ended, late, repeated, unmatched


class History:
    """A history to read, as of any version.

    >>> from tempfile import mkdtemp
    >>> from penstock.relation.record import record
    >>> folder = f"{mkdtemp()}/zones"
    >>> seen = [pa.table({"a": [1, 2], "b": [7, 8]}), pa.table({"a": [2, 3], "b": [8, 9]})]
    >>> [record(table, folder, keys=["a", "b"], time=time).number for time, table in enumerate(seen)]
    [1, 2]
    >>> History(folder).facts(2).select(["a", "b", "begin", "end"]).to_pydict()
    {'a': [1, 2, 3], 'b': [7, 8, 9], 'begin': [None, None, 1], 'end': [1, None, None]}
    >>> History(folder).facts(1)["end"].to_pylist(), History(folder).facts(2, "b", pa.array([9]))["fact"].to_pylist()
    ([None, None], [2])
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.store = Store(folder, "history")
        self._plan: HistoryShape | None = None

    @property
    def plan(self) -> HistoryShape:
        """What it records."""
        if self._plan is None:
            text = self.store.read("history.json")
            if text is None:
                raise PenstockError(f"{NO_HISTORY}, got {self.store.given!r}")
            self._plan = HistoryShape.of(unsealed(text, "history.json", of=DAMAGED))
        return self._plan

    def identity(self) -> str:
        """A digest of how it began, which tells it from any other history and never changes."""
        self.version(1)
        names = ("history.json", f"versions/{1:09}.json")
        return hashlib.sha256(b"".join(self.store.read(name) or b"" for name in names)).hexdigest()

    def latest(self) -> int:
        """The number of the last version; 0: there is none yet."""
        names = self.store.names("versions")
        return int(names[-1].removesuffix(".json")) if names else 0

    def version(self, number: int | None = None) -> Version:
        """A version by its number, or the last."""
        last = self.latest()
        wanted = last if number is None else number
        if not last:
            raise PenstockError(f"{NO_HISTORY}, got {self.store.given!r}, which has no version")
        if not 1 <= wanted <= last:
            raise PenstockError(f"history {self.store.given!r} must have version {wanted}, it has versions 1 to {last}")
        name = f"versions/{wanted:09}.json"
        facts = unsealed(self.store.read(name), name, of=DAMAGED)
        return Version(**facts | {"files": tuple(map(tuple, facts["files"])), "rows": tuple(facts["rows"])})

    def facts(
        self,
        version: int | None = None,
        key: str | None = None,
        values: pa.Array | None = None,
        *,
        keep: Callable[[pa.ChunkedArray], Any] | None = None,
    ) -> pa.Table:
        """The facts as of a version (the last by default), by their numbers: all, or those whose `key` is among values, or is kept.

        `keep` is asked of the key's column, a batch at a time, as for the facts of one shard: no more is held than it has kept.
        """
        of = self.version(version)
        at = 0 if key is None else self.plan.keys.index(choose("key", key, self.plan.keys))
        name = self.plan.keys[at]
        wanted = None if values is None else self._typed(name, values)
        try:
            parts = [part for copies in of.files for part in self._parts(copies[at], name, wanted, keep)]
        except pa.ArrowException as error:
            raise PenstockError(f"{DAMAGED}: a file of version {of.number} is damaged: {error}") from None
        return newest(pa.concat_tables(parts) if parts else self.plan.schema.empty_table())

    def _typed(self, key: str, values: pa.Array) -> pa.Array:
        """Different values in the type of a key."""
        kind = self.plan.columns.field(key).type
        try:
            return pc.unique(values.cast(kind)).drop_null()
        except pa.ArrowException:
            told = f"key {key!r} of the history {self.store.given!r} is of type {kind}"
            raise PenstockError(f"{told}, got values of type {values.type}") from None

    def _parts(self, file: str, key: str, values: pa.Array | None, keep: Callable[[pa.ChunkedArray], Any] | None) -> Iterator[pa.Table]:
        """The lines of a file that are wanted, batch by batch."""
        with self._opened(file) as source:
            reader = pa.ipc.open_file(source)
            place = reader.schema.get_field_index(key)
            numbers = list(range(reader.num_record_batches))
            if values is not None:
                numbers = _touched([_ends(reader.get_batch(number)[place]) for number in numbers], sorted(values.to_pylist()))
            for number in numbers:
                table = pa.Table.from_batches([reader.get_batch(number)])
                if values is not None:
                    table = table.filter(pc.is_in(table[key], values))
                if keep is not None:
                    table = table.filter(pa.array(keep(table[key])))
                yield table

    def _opened(self, file: str) -> pa.NativeFile:
        if isinstance(self.store.files, fs.LocalFileSystem):
            try:
                return pa.memory_map(f"{self.store.root}/{file}")
            except OSError as error:
                raise PenstockError(f"{DAMAGED}: {file} cannot be read: {error}") from None
        return self.store.open(file)


def newest(lines: pa.Table) -> pa.Table:
    """Of the lines with one number the last, by number.

    >>> newest(pa.table({"fact": [0, 1, 0], "end": [None, None, 5]})).to_pydict()
    {'fact': [0, 1], 'end': [5, None]}
    """
    numbered = lines.select(["fact"]).append_column("line", pa.array(range(len(lines)), pa.int64()))
    last = numbered.group_by("fact").aggregate([("line", "max")]).sort_by("fact")
    return lines.take(last["line_max"]).combine_chunks()


def active(facts: pa.Table) -> pa.Table:
    """The facts that have no end yet."""
    return facts.filter(pc.is_null(facts["end"]))


def _ends(column: pa.Array) -> tuple[Any, Any]:
    """The first and the last value of a batch, which is sorted; nulls come last."""
    held = len(column) - column.null_count
    return (column[0].as_py(), column[held - 1].as_py()) if held else (None, None)


def _touched(ends: list[tuple[Any, Any]], values: list[Any]) -> list[int]:
    """The batches in which a value may be."""
    return [n for n, (low, high) in enumerate(ends) if low is not None and bisect_left(values, low) < bisect_right(values, high)]
