"""Keeping the history of a relation: what a table is now, or what a feed says, becomes the next version of a folder."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from penstock.core.duration import timestamp
from penstock.core.errors import PenstockError
from penstock.core.tables import read_table
from penstock.relation.addresses import FEED, database_at, is_feed
from penstock.relation.changes import from_feed, from_snapshot
from penstock.relation.database import UnreachableError
from penstock.relation.feed import Feed, plan_of
from penstock.relation.history import OWN, HistoryShape, Version
from penstock.relation.history_writer import Writer

_TIMESTAMPS = pa.timestamp("us", "UTC")
_LONGEST = 30.0  # seconds between two attempts at a database that is away

T = TypeVar("T")


def record(
    source: Any,
    folder: str | PathLike[str],
    *,
    keys: Sequence[str],
    columns: Sequence[str] = (),
    id: Sequence[str] = (),
    lateness: int = 0,
    time: Any = None,
    patience: float = 0.0,
) -> Version:
    """Write what has changed in a relation since the last time into its history, and return the version in force.

    A source is a table, a file or a table in a database as it is now (at `time`: by default the clock of this machine), or a feed of
    changes, "feed:changes.jsonl", which is read on from where it was left. Recorded are `keys`, `id` and `columns`; a change of nothing
    else is none. A database that is away is asked again for `patience` seconds.

    >>> from tempfile import mkdtemp
    >>> folder = f"{mkdtemp()}/zones"
    >>> record({"a": [1], "b": [7]}, folder, keys=["a", "b"], time=0).counts, record({"a": [], "b": []}, folder, keys="ab", time=5).counts
    ({'begun': 1}, {'begun': 1, 'ended': 1})
    """
    names = tuple(dict.fromkeys([*keys, *id, *columns]))
    taken = [name for name in names if name in OWN]
    if taken:
        raise PenstockError(f"a column that is recorded must have another name than {', '.join(OWN)}, got {taken[0]!r}")
    with Writer(folder) as writer:
        last = writer.last()
        plan = None if last is None else _checked(writer.history.plan, tuple(keys), tuple(id), names)
        if is_feed(source):
            feed = Feed(Path(source.removeprefix(FEED)))
            while True:
                changes, position = feed.read(None if last is None else last.position)
                if not changes and last is not None:
                    return last
                plan = plan or plan_of(changes, position, keys, id, names, source)
                last = writer.add(plan, *from_feed(plan, last, _known(writer, plan, last), changes, lateness, position))
        at, kind = _moment(time)
        seen = patiently(lambda: _now(source, names), patience)
        plan = plan or HistoryShape(tuple(keys), tuple(id), _schema(seen, names), kind)
        if plan.clock != kind:
            raise PenstockError(f"time of a snapshot must be of the type of the history's times, {plan.clock}, got {time!r}")
        lines, version = from_snapshot(plan, last, _known(writer, plan, last), seen, at)
        return last if last is not None and not len(lines) else writer.add(plan, lines, version)


def patiently(read: Callable[[], T], patience: float, *, sleep: Callable[[float], None] = clock.sleep) -> T:
    """What a source gives; one that is away is asked again, ever more rarely, until so many seconds have been waited.

    >>> answers = iter([UnreachableError("away"), UnreachableError("away"), "here"])
    >>> def read():
    ...     answer = next(answers)
    ...     if isinstance(answer, Exception):
    ...         raise answer
    ...     return answer
    >>> patiently(read, 10, sleep=lambda seconds: print("waits", seconds))
    waits 1.0
    waits 2.0
    'here'
    """
    waited, pause = 0.0, 1.0
    while True:
        try:
            return read()
        except UnreachableError as error:
            if waited >= patience:
                raise PenstockError(f"{error}; asked again for {waited:.0f} seconds" if waited else str(error)) from None
        pause = min(pause, patience - waited, _LONGEST)
        sleep(pause)
        waited, pause = waited + pause, pause * 2


def _known(writer: Writer, plan: HistoryShape, last: Version | None) -> pa.Table:
    return plan.schema.empty_table() if last is None else writer.history.facts(last.number)


def _now(source: Any, names: tuple[str, ...]) -> pa.Table:
    """The table as it is now."""
    if isinstance(source, pa.Table):
        return source
    if isinstance(source, dict):
        return pa.table(source)
    database = database_at(source)
    return read_table(Path(source)) if database is None else database.read(names)


def _schema(seen: pa.Table, names: tuple[str, ...]) -> pa.Schema:
    """The columns that are recorded, and their types."""
    missing = [name for name in names if name not in seen.column_names]
    if missing:
        raise PenstockError(f"relation must have the column {missing[0]!r}, it has: {', '.join(seen.column_names)}")
    kinds = [seen.schema.field(name).type for name in names]
    return pa.schema([(name, kind.value_type if pa.types.is_dictionary(kind) else kind) for name, kind in zip(names, kinds, strict=True)])


def _moment(time: Any) -> tuple[int, pa.DataType]:
    """The time of a snapshot and its type."""
    if time is None:
        return clock.time_ns() // 1000, _TIMESTAMPS
    if isinstance(time, int) and not isinstance(time, bool):
        return time, pa.int64()
    return timestamp(time, "time of a snapshot"), _TIMESTAMPS


def _checked(plan: HistoryShape, keys: tuple[str, ...], id: tuple[str, ...], names: tuple[str, ...]) -> HistoryShape:
    """The plan of the history that is there, if it is the one that is asked for."""
    have = (plan.keys, plan.id, tuple(plan.columns.names))
    if have != (keys, id, names):
        told = [f"keys {', '.join(k)}, id {', '.join(i) or 'none'}, columns {', '.join(n)}" for k, i, n in (have, (keys, id, names))]
        raise PenstockError(f"history must go on as it began, with {told[0]}, got {told[1]}")
    return plan
