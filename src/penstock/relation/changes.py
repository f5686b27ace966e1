"""What has happened to a relation, as lines of its history: from what the table is now, or from a feed of changes (Towne 2.2).

A fact that is there begins at a time and has no end. An update ends the fact that was and begins another, unless nothing that is recorded
has changed. What a source says of facts that are not there (an end that has no beginning) changes nothing and is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.duration import in_time, in_units
from penstock.core.errors import PenstockError
from penstock.relation.alike import alike
from penstock.relation.history import HistoryShape, Version, active

Row = dict[str, Any]


class Change(NamedTuple):
    """A change in a feed: `row` is what there is after it (of a deletion, what was), `before` what an update has replaced, where told."""

    op: str  # insert, delete, update; present: was there before the feed began; truncate: all end
    time: int
    row: Row
    before: Row | None
    where: str  # such as "line 12", for errors


def from_snapshot(plan: HistoryShape, last: Version | None, known: pa.Table, seen: pa.Table, time: int) -> tuple[pa.Table, Version]:
    """The lines of a table as it is now, beside the facts known: new rows begin now, missing rows end now.

    Rows of the first snapshot have no begin: they were there before.
    """
    if last is not None and last.processed is not None and time < last.processed:
        raise PenstockError(f"time of a snapshot must not be before the last, {_when(plan, last.processed)}, got {_when(plan, time)}")
    seen = _columns(plan, seen)
    same = alike([seen[name] for name in plan.identity])
    twice = np.flatnonzero(np.bincount(same, minlength=1)[same] > 1) if len(seen) else same
    if len(twice):
        fact = _shown(plan.identity, seen.select(list(plan.identity)).slice(int(twice[0]), 1).to_pylist()[0])
        remedy = "" if plan.id else "; name columns that tell facts apart as id, or remove duplicates (penstock relation prepare)"
        raise PenstockError(f"relation must have each fact once, got {fact} more than once{remedy}")
    there = active(known)
    old, new = _numbered(plan, there, seen)
    ended = there.filter(pa.array(~np.isin(old, new)))
    begun = seen.filter(pa.array(~np.isin(new, old)))
    number = 0 if last is None else last.next_fact
    lines = pa.concat_tables([_ended(plan, ended, time), _begun(plan, begun, number, None if last is None else time, time)])
    counts = Counter(dict(last.counts) if last is not None else {}) + Counter(begun=len(begun), ended=len(ended))
    return lines, Version(0, (), (), number + len(begun), time, None, dict(counts))


def from_feed(
    plan: HistoryShape, last: Version | None, known: pa.Table, changes: Sequence[Change], lateness: int, position: Any
) -> tuple[pa.Table, Version]:
    """The lines of some changes, taken in the order of their times.

    A change may be earlier than what was processed by the lateness at most; it takes its own time, and `known_begin` and `known_end` say
    how far the feed had come. The changes of one fact must come in their order.
    """
    processed = None if last is None else last.processed
    for change in changes:
        if processed is not None and change.time < processed - lateness:
            late = in_units(lateness) if pa.types.is_timestamp(plan.clock) else lateness
            raise PenstockError(
                f"a change feed must not go back beyond its lateness ({late}) before what was processed, {_when(plan, processed)}, got a "
                f"change of {_when(plan, change.time)} in {change.where}"
            )
    now = max([change.time for change in changes], default=processed)
    now = now if processed is None or now is None else max(now, processed)
    play = _Play(plan, last, known, changes, now)
    for place in sorted(range(len(changes)), key=lambda place: changes[place].time):
        play.take(place, changes[place])
        play.counts["late"] += processed is not None and changes[place].time < processed
    return play.lines(), Version(0, (), (), play.next_fact, now, position, {name: n for name, n in play.counts.items() if n})


class _Play:
    """The facts that changes speak of, while the changes are taken one by one."""

    def __init__(self, plan: HistoryShape, last: Version | None, known: pa.Table, changes: Sequence[Change], now: int | None) -> None:
        self.plan, self.now = plan, now
        self.first = last is None or last.processed is None
        self.next_fact = 0 if last is None else last.next_fact
        self.counts: Counter[str] = Counter(last.counts if last is not None else {})
        self.rows = _typed(plan, [change.row for change in changes], changes)
        self.before = _typed(plan, [change.before or {} for change in changes], changes)
        self.there: dict[Any, Row] = {}
        self.ends: dict[Any, int] = {}
        for row in _spoken_of(plan, known, [*self.rows, *self.before], any(change.op == "truncate" for change in changes)):
            identity = tuple(row[name] for name in plan.identity)
            if row["end"] is None:
                self.there[identity] = row
            else:
                self.ends[identity] = max(row["end"], self.ends.get(identity, row["end"]))
        self.changed: dict[int, Row] = {}

    def take(self, place: int, change: Change) -> None:
        """One change."""
        row, before = self.rows[place], self.before[place]
        if change.op == "truncate":
            for identity in list(self.there):
                self._end(identity, change)
        elif change.op == "delete":
            self._end(self._identity(row, change.row, change), change)
        elif change.op == "update":
            old = self._identity(before, change.before, change) if change.before else self._identity(row, change.row, change)
            if not change.before and not self.plan.id:
                raise PenstockError(
                    f"{change.where} must say what the row was before its update, got no such row: name id columns, or let the source send "
                    "whole rows (in PostgreSQL: REPLICA IDENTITY FULL)"
                )
            was = self.there.get(old)
            if was is None or any(was[name] != row[name] for name in self.plan.columns.names):
                self._end(old, change)
                self._begin(row, change)
        else:
            self._begin(row, change)

    def lines(self) -> pa.Table:
        """The facts that have changed, as they are now."""
        rows = list(self.changed.values())
        schema = self.plan.schema
        return pa.table({f.name: _times([row[f.name] for row in rows], f.type) for f in schema}, schema)

    def _begin(self, row: Row, change: Change) -> None:
        identity = self._identity(row, change.row, change)
        null = [name for name in self.plan.keys if row[name] is None or row[name] != row[name]]  # NaN is no key either
        if null:
            raise PenstockError(f"facts must have no null keys, got one in {null[0]!r} in {change.where}")
        was = self.there.get(identity)
        if was is not None:
            if any(was[name] != row[name] for name in self.plan.columns.names):
                raise PenstockError(
                    f"a fact must end before it begins again, got {self._named(identity)} in {change.where}, which is there already"
                )
            self.counts["repeated"] += 1
            return
        if self.ends.get(identity, change.time) > change.time:
            raise PenstockError(
                f"the changes of a fact must come in their order, got {self._named(identity)} in {change.where}, "
                f"which begins at {_when(self.plan, change.time)} and has ended at {_when(self.plan, self.ends[identity])}"
            )
        begin = None if change.op == "present" and self.first else change.time
        fact = {**row, "fact": self.next_fact, "begin": begin, "end": None, "known_begin": self.now, "known_end": None}
        self.next_fact += 1
        self.there[identity] = self.changed[fact["fact"]] = fact
        self.counts["begun"] += 1

    def _end(self, identity: Any, change: Change) -> None:
        was = self.there.pop(identity, None)
        if was is None:
            self.counts["unmatched"] += 1
            return
        if was["begin"] is not None and change.time < was["begin"]:
            raise PenstockError(
                f"the changes of a fact must come in their order, got {self._named(identity)} in {change.where}, "
                f"which ends at {_when(self.plan, change.time)} and begins at {_when(self.plan, was['begin'])}"
            )
        self.changed[was["fact"]] = {**was, "end": change.time, "known_end": self.now}
        self.ends[identity] = change.time
        self.counts["ended"] += 1

    def _identity(self, row: Row, given: Row | None, change: Change) -> Any:
        missing = [name for name in self.plan.identity if name not in (given or {})]
        if missing:
            raise PenstockError(
                f"{change.where} must have the column {missing[0]!r}, which tells facts apart; it has: {', '.join(given or {}) or 'none'}"
            )
        return tuple(row[name] for name in self.plan.identity)

    def _named(self, identity: Any) -> str:
        return _shown(self.plan.identity, dict(zip(self.plan.identity, identity, strict=True)))


def _spoken_of(plan: HistoryShape, known: pa.Table, rows: Sequence[Row], everything: bool) -> list[Row]:
    """The facts known that have the identity of a row."""
    if not everything:
        asked = pa.table({name: pa.array([row[name] for row in rows], plan.columns.field(name).type) for name in plan.identity})
        both = alike([pa.chunked_array([*known[name].chunks, *asked[name].chunks], asked[name].type) for name in plan.identity])
        known = known.filter(pa.array(np.isin(both[: len(known)], both[len(known) :])))
    for place, name in enumerate(plan.schema.names):
        if plan.schema.field(name).type == plan.clock and name not in plan.columns.names:
            known = known.set_column(place, name, known[name].cast(pa.int64()))
    return known.to_pylist()


def _typed(plan: HistoryShape, rows: Sequence[Row], changes: Sequence[Change]) -> list[Row]:
    """The values that are recorded, as they come back from the history."""
    columns = []
    for one in plan.columns:
        values = [row.get(one.name) for row in rows]
        try:
            columns.append(pa.array(values, one.type).to_pylist())
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            bad = next(place for place, value in enumerate(values) if not _fits(value, one.type))
            raise PenstockError(f"column {one.name!r} must be {one.type}, got {values[bad]!r} in {changes[bad].where}") from None
    return [dict(zip(plan.columns.names, values, strict=True)) for values in zip(*columns, strict=True)]


def _fits(value: Any, kind: pa.DataType) -> bool:
    try:
        pa.scalar(value, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return True


def _columns(plan: HistoryShape, seen: pa.Table) -> pa.Table:
    """The columns of a snapshot that are recorded."""
    missing = [name for name in plan.columns.names if name not in seen.column_names]
    if missing:
        raise PenstockError(f"relation must have the column {missing[0]!r}, it has: {', '.join(seen.column_names)}")
    seen = seen.select(plan.columns.names)
    try:
        seen = seen.cast(plan.columns)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise PenstockError(f"relation must keep its types, {plan.columns.types}, got {seen.schema.types}: {error}") from None
    for name in plan.keys:
        nulls = pc.sum(pc.is_null(seen[name], nan_is_null=pa.types.is_floating(seen[name].type))).as_py()
        if nulls:
            raise PenstockError(f"facts must have no null keys, got {nulls} in column {name!r}")
    return seen


def _numbered(plan: HistoryShape, there: pa.Table, seen: pa.Table) -> tuple[Any, Any]:
    """Numbers of the rows of both, equal where all that is recorded is."""
    both = alike([pa.chunked_array([*there[one.name].chunks, *seen[one.name].chunks], one.type) for one in plan.columns])
    return both[: len(there)], both[len(there) :]


def _begun(plan: HistoryShape, rows: pa.Table, number: int, begin: int | None, known: int) -> pa.Table:
    size = len(rows)
    columns: dict[str, Any] = {"fact": pa.array(np.arange(number, number + size)), **{name: rows[name] for name in rows.column_names}}
    for name, time in (("begin", begin), ("end", None), ("known_begin", known), ("known_end", None)):
        columns[name] = _times([time] * size, plan.clock)
    return pa.table(columns, plan.schema)


def _ended(plan: HistoryShape, facts: pa.Table, time: int) -> pa.Table:
    for name in ("end", "known_end"):
        facts = facts.set_column(facts.schema.get_field_index(name), name, _times([time] * len(facts), plan.clock))
    return facts.cast(plan.schema)


def _times(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Values of a type; times come as whole numbers, microseconds where they are timestamps."""
    whole = pa.types.is_timestamp(kind) and all(value is None or isinstance(value, int) for value in values)
    return pc.cast(pa.array(values, pa.int64()), kind) if whole else pa.array(values, kind)


def _when(plan: HistoryShape, time: int) -> str:
    """A time as a user would write it."""
    return in_time(time) if pa.types.is_timestamp(plan.clock) else str(time)


def _shown(names: Sequence[str], row: Row) -> str:
    return ", ".join(f"{name} = {row[name]!r}" for name in names)
