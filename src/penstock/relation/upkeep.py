"""What is right and wrong with a relation before it is joined through, and the relation without what does not matter (Towne 2.3)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.errors import PenstockError
from penstock.core.trace import Bools, Ints
from penstock.core.window import NEVER
from penstock.relation.addresses import database_at
from penstock.relation.alike import alike
from penstock.relation.checks import overlapping
from penstock.relation.relation import Relation


@dataclass(frozen=True)
class RelationReport:
    """What there is in a relation. `null_keys`, `backwards` and `overlapping` are wrong: a join refuses such facts."""

    facts: int
    keys: dict[str, int]  # different values, by attribute
    active: int  # at a time, or without an end
    null_keys: int
    backwards: int  # facts that end before they begin
    duplicates: int  # facts that are there again, for all that matters
    overlapping: int  # other facts that begin while the same fact is there
    unneeded: list[str]  # columns that do not matter
    missing_indexes: list[str]  # statements that create them

    @property
    def is_good(self) -> bool:
        """Whether a join can go through it as it is."""
        return not (self.null_keys or self.backwards or self.duplicates or self.overlapping)


def check(relation: Relation, at: int | None = None) -> RelationReport:
    """Read a relation and report what is in it. `active` counts at a time: by default now, of whole numbers at the end of time.

    >>> from penstock import relation
    >>> pairs = {"a": [1, 1, 1, 2], "b": [7, 7, 7, None], "begin": [0, 0, 3, 0], "end": [5, 5, None, None], "note": list("wxyz")}
    >>> found = check(relation(pairs, links=["R.key = a", "b = S.key"]))
    >>> found.keys, found.active, found.null_keys, found.duplicates, found.overlapping, found.unneeded
    ({'a': 2, 'b': 1}, 2, 1, 1, 1, ['note'])
    """
    facts = _Facts.of(relation)
    when = at if at is not None else time.time_ns() // 1000 if facts.timestamps else NEVER - 1
    return RelationReport(
        facts=len(facts.table),
        keys={name: len(facts.table[name].unique().drop_null()) for name in relation.attributes},
        active=int(((facts.begin <= when) & (when < facts.end)).sum()),
        null_keys=int(facts.null.sum()),
        backwards=int((facts.begin > facts.end).sum()),
        duplicates=int(facts.repeated.sum()),
        overlapping=len(facts.overlapping()),
        unneeded=[name for name in relation.schema().names if name not in facts.table.column_names],
        missing_indexes=missing_indexes(relation),
    )


def prepare(relation: Relation) -> tuple[pa.Table, dict[str, int]]:
    """The facts without what does not matter, sorted by their keys and begin; and how many rows and columns were removed.

    Removed are columns that neither link nor mean something nor are asked for, facts that are there again, and facts that can link
    nothing: with a null key, or without a moment between begin and end.

    >>> from penstock import relation
    >>> pairs = {"a": [2, 1, 1, None], "b": [7, 7, 7, 7], "note": list("wxyz")}
    >>> prepare(relation(pairs, links=["R.key = a", "b = S.key"]))[0].to_pydict()
    {'a': [1, 2], 'b': [7, 7]}
    """
    facts = _Facts.of(relation)
    idle = facts.null | (facts.begin == facts.end)
    kept = facts.table.filter(pa.array(~(idle | facts.repeated)))
    begin = relation.column("begin", facts.table)
    names = [name for name in (*relation.attributes, begin) if name is not None]
    removed = {
        "columns": len(relation.schema()) - len(kept.schema),
        "idle": int(idle.sum()),
        "duplicates": int((facts.repeated & ~idle).sum()),
    }
    return kept.sort_by([(name, "ascending") for name in dict.fromkeys(names)]), removed


def missing_indexes(relation: Relation) -> list[str]:
    """What creates the indexes that a database lacks for look-ups: of each attribute that links, with the begin."""
    database = database_at(relation.source)
    if database is None:
        return []
    begin = relation.column("begin", database.schema().empty_table())
    wanted = [(name,) if begin is None else (name, begin) for name in relation.attributes]
    return [database.index_statement(names) for names in database.missing_indexes(wanted)]


def create_indexes(relation: Relation, statements: list[str]) -> None:
    """Create the indexes that are missing."""
    database = database_at(relation.source)
    if database is None:
        raise PenstockError(f"indexes are created in a database, got {relation.source!r}")
    database.create(statements)


@dataclass(frozen=True)
class _Facts:
    """The columns of a relation that matter, and its times as whole numbers."""

    relation: Relation
    table: pa.Table
    begin: Ints
    end: Ints
    timestamps: bool
    null: Bools
    repeated: Bools

    @classmethod
    def of(cls, relation: Relation) -> _Facts:
        table = relation.load()
        needed = relation.needed(table.schema)
        missing = [name for name in needed if name not in table.column_names]
        if missing:
            raise PenstockError(f"relation {relation.called} must have the column {missing[0]!r}, it has: {', '.join(table.column_names)}")
        table = table.select(needed)
        (begin, starts), (end, stops) = (_times(relation, table, meaning, none) for meaning, none in (("begin", -NEVER), ("end", NEVER)))
        if starts is not None and stops is not None and starts != stops:
            raise PenstockError(f"begin and end of relation {relation.called} must be of one type, got whole numbers and timestamps")
        null = np.zeros(len(table), dtype=bool)
        for name in relation.attributes:
            null |= np.asarray(pc.is_null(table[name], nan_is_null=pa.types.is_floating(table[name].type)))
        numbers = alike([table[name] for name in needed])
        first = np.unique(numbers, return_index=True)[1]
        repeated = np.ones(len(table), dtype=bool)
        repeated[first] = False
        return cls(relation, table, begin, end, bool(starts or stops), null, repeated)

    def overlapping(self) -> Ints:
        """Facts that begin while the same fact is there; repeated ones and those with a null key are not counted again."""
        names = dict.fromkeys(self.relation.id or (*self.relation.attributes, *self.relation.columns))
        there = ~self.repeated & ~self.null
        same = alike([self.table[name] for name in names])
        return overlapping(same[there], self.begin[there], self.end[there])


def _times(relation: Relation, table: pa.Table, meaning: str, none: int) -> tuple[Ints, bool | None]:
    """Begins or ends as whole numbers, and whether they are timestamps."""
    name = relation.column(meaning, table)
    if name is None or pa.types.is_null(table[name].type):
        return np.full(len(table), none, dtype=np.int64), None
    column: Any = table[name]
    is_time = pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)
    if not is_time and not pa.types.is_integer(column.type):
        raise PenstockError(f"{meaning} {name!r} of relation {relation.called} must be whole numbers or timestamps, got {column.type}")
    if is_time:
        column = column.cast(pa.timestamp("us", getattr(column.type, "tz", None)))
    return np.asarray(column.cast(pa.int64()).fill_null(none)), is_time
