"""A feed of changes in a file: JSON Lines as Debezium writes them, or plain columns `op` and `time` beside those of the relation.

    {"op": "u", "before": {"a": 1, "b": 7}, "after": {"a": 1, "b": 8}, "source": {"ts_ms": 1767225600000}}        Debezium
    {"op": "insert", "time": "2026-01-01T00:00:00Z", "a": 1, "b": 8}                                              plain

JSON Lines may grow while they are read: a line counts when its end has been written, and reading goes on where it ended. Plain columns
may be in Parquet and CSV too. Times are whole numbers (ticks), or timestamps.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.core.duration import read_time
from penstock.core.errors import PenstockError, choose
from penstock.core.tables import check_suffix, read_table
from penstock.core.trace import LIMIT
from penstock.relation.changes import Change, Row
from penstock.relation.history import HistoryShape

_MOST = 1 << 17  # changes that are taken at once
_OPS = {"c": "insert", "r": "present", "u": "update", "d": "delete", "t": "truncate"}
_TIMES = {"ts_us": (1, 1), "ts_ms": (1000, 1), "ts_ns": (1, 1000)}


class Feed:
    """A file of changes.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "zones.jsonl"
    >>> _ = path.write_text('{"op": "insert", "time": 3, "a": 1}\\n{"op": "del')
    >>> changes, position = Feed(path).read(None)
    >>> changes, position, Feed(path).read(position)[0]
    ([Change(op='insert', time=3, row={'a': 1}, before=None, where='line 1 of ...')], {'at': 36, 'line': 1, 'timestamps': False}, [])
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = check_suffix(path, "a change feed") in (".jsonl", ".json")
        if not path.is_file():
            raise PenstockError(f"there is no change feed {str(path)!r}")

    def read(self, position: dict[str, Any] | None) -> tuple[list[Change], dict[str, Any]]:
        """The next changes from a position on (None: from the beginning), and where reading is to go on."""
        place = dict(position or {"at": 0, "line": 0, "timestamps": None})
        changes: list[Change] = []
        for row, where in self._lines(place) if self.lines else self._rows(place):
            found = None if row is None else _change(row, where)
            if found is None:
                continue
            change, is_timestamp = found
            if place["timestamps"] not in (None, is_timestamp):
                raise PenstockError(f"a change feed must have times of one kind, whole numbers or timestamps, got both: {where}")
            place["timestamps"] = is_timestamp
            changes.append(change)
            if len(changes) == _MOST:
                break
        return changes, place

    def _lines(self, place: dict[str, Any]) -> Iterator[tuple[Row | None, str]]:
        with self.path.open("rb") as file:
            if file.seek(0, 2) < place["at"]:
                raise PenstockError(f"a change feed must not lose lines, got {str(self.path)!r} that is shorter than what was processed")
            file.seek(place["at"])
            for text in file:
                if not text.endswith(b"\n"):
                    return
                place["at"] += len(text)
                place["line"] += 1
                where = f"line {place['line']} of {self.path.name}"
                try:
                    row = json.loads(text) if text.strip() else None
                except (ValueError, RecursionError):
                    raise PenstockError(f"{where} must be one JSON object, got {text[:60].decode(errors='replace')!r}") from None
                yield row, where

    def _rows(self, place: dict[str, Any]) -> Iterator[tuple[Row, str]]:
        table = read_table(self.path)
        if len(table) < place["at"]:
            raise PenstockError(f"a change feed must not lose rows, got {str(self.path)!r} that has fewer than were processed")
        for row in table.slice(place["at"]).to_pylist():
            place["at"] += 1
            yield row, f"row {place['at'] - 1} of {self.path.name}"


def plan_of(
    changes: list[Change], position: dict[str, Any], keys: Sequence[str], id: Sequence[str], names: Sequence[str], given: str
) -> HistoryShape:
    """What is recorded of a feed, by its first changes."""
    if not changes:
        raise PenstockError(f"a change feed must have a change before a history can begin, got none in {given!r}")
    kind = pa.timestamp("us", "UTC") if position["timestamps"] else pa.int64()
    return HistoryShape(tuple(keys), tuple(id), inferred(changes, names), kind)


def inferred(changes: list[Change], names: Sequence[str]) -> pa.Schema:
    """The types of columns, from the first changes of a feed.

    >>> inferred([Change("insert", 0, {"a": 1, "b": "x"}, None, "line 1")], ("b", "a")).types
    [DataType(string), DataType(int64)]
    """
    fields = []
    for name in names:
        values = [row[name] for change in changes for row in (change.row, change.before or {}) if row.get(name) is not None]
        if not values and not any(name in change.row for change in changes):
            have = ", ".join(changes[0].row) or "none"
            raise PenstockError(f"the changes of a relation must have the column {name!r}, {changes[0].where} has: {have}")
        try:
            fields.append(pa.field(name, pa.array(values).type if values else pa.string()))
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise PenstockError(f"column {name!r} of a change feed must have values of one type: {error}") from None
        if pa.types.is_nested(fields[-1].type):
            raise PenstockError(f"column {name!r} of a change feed must be flat, got {fields[-1].type}")
    return pa.schema(fields)


def _change(row: Any, where: str) -> tuple[Change, bool] | None:
    """A change, and whether its time is a timestamp; None for lines that are none, such as Debezium's tombstones."""
    if not isinstance(row, dict):
        raise PenstockError(f"{where} must be one JSON object, got {row!r:.60}")
    if "payload" in row and "op" not in row:
        row = row["payload"]
        if row is None:
            return None
    if row.get("op") == "m":  # a message of PostgreSQL's log
        return None
    op = choose(f"op in {where}", _OPS.get(row.get("op"), row.get("op")), _OPS.values())
    if "before" in row or "after" in row:
        return _debezium(op, row, where), True
    time = row.get("time")
    at = read_time(time) if isinstance(time, str | datetime) else time
    if not isinstance(at, int) or isinstance(at, bool) or abs(at) > LIMIT:
        raise PenstockError(f"time in {where} must be a whole number or a time such as 2026-01-31T12:00:00Z, got {time!r}")
    return Change(op, at, {name: value for name, value in row.items() if name not in ("op", "time")}, None, where), not isinstance(
        time, int
    )


def _debezium(op: str, row: Row, where: str) -> Change:
    """What the source says of the time at which it was changed counts, before what the connector says."""
    times = [
        of[name] * up // down for of in (row.get("source") or {}, row) for name, (up, down) in _TIMES.items() if of.get(name) is not None
    ]
    if not times:
        raise PenstockError(f"{where} must say when the change was made (source.ts_ms or ts_ms), got neither")
    before, after = row.get("before"), row.get("after")
    told = before if op == "delete" else {} if op == "truncate" else after
    if not isinstance(told, dict):
        name = "before" if op == "delete" else "after"
        raise PenstockError(f"{where} must have the row in {name!r}, got {told!r}")
    return Change(op, times[0], told, before if op == "update" and isinstance(before, dict) else None, where)
