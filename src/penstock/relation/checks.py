"""What a table of facts must be: linked columns without nulls, times of the kind that the trace has, one interval of a fact at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.core.errors import PenstockError
from penstock.core.facts import Through
from penstock.core.trace import Floats, Ints, positive_numbers, read_times
from penstock.core.window import NEVER
from penstock.relation.alike import alike, greatest_so_far
from penstock.relation.relation import Relation


def check_columns(relation: Relation, through: Through, table: pa.Table) -> None:
    """Refuse facts that lack a column, or a value in a column that links."""
    linked = [link.attribute for link in through.links]
    wanted = {"linked column": linked, "column of columns=": relation.columns, "column of id=": relation.id}
    wanted |= {f"column of {name}=": [given] for name in ("begin", "end", "weight") if (given := getattr(relation, name)) is not None}
    for what, names in wanted.items():
        for name in names:
            if name not in table.column_names:
                have = ", ".join(table.column_names) or "none"
                raise PenstockError(f"relation {through.name} must have the {what} {name!r}, it has: {have}")
    for name in dict.fromkeys([*linked, *relation.id]):
        if pa.types.is_nested(table[name].type):
            raise PenstockError(f"column {name!r} of relation {through.name} must be flat, got {table[name].type}")
        null = np.flatnonzero(np.asarray(table[name].is_null(nan_is_null=pa.types.is_floating(table[name].type))))
        if len(null):
            raise PenstockError(f"column {name!r} of relation {through.name} must have no nulls, got one in row {null[0]}")


def intervals(relation: Relation, through: Through, table: pa.Table, time: pa.DataType) -> tuple[Ints, Ints]:
    """The begin and end of each fact in ticks of streams whose times are of this type: null is none, a time without a zone is in UTC."""
    begin, end = (
        _times(table, relation.column(meaning, table), meaning, none, through, time)
        for meaning, none in (("begin", -NEVER), ("end", NEVER))
    )
    bad = np.flatnonzero(begin > end)
    if len(bad):
        row = int(bad[0])
        names = ", ".join(str(relation.column(meaning, table)) for meaning in ("begin", "end"))
        fact = _fact(table, relation.id or [link.attribute for link in through.links], row)
        raise PenstockError(
            f"relation {through.name} must have no fact that ends before it begins ({names}), got one in row {row}, the fact {fact}"
        )
    return begin, end


def weights(relation: Relation, through: Through, table: pa.Table) -> Floats | None:
    """The weight of each fact."""
    name = relation.column("weight", table)
    return None if name is None else positive_numbers(table[name], f"weight {name!r} of relation {through.name}")


def check_overlaps(relation: Relation, through: Through, table: pa.Table, begin: Ints, end: Ints) -> None:
    """Refuse a fact that is there twice at one time. A fact without a moment between begin and end is never there."""
    names = list(dict.fromkeys(relation.id or (*(link.attribute for link in through.links), *relation.columns)))
    bad = overlapping(alike([table[name] for name in names]), begin, end)
    if len(bad):
        first, second = sorted(bad[0].tolist())
        fact = _fact(table, names, first)
        hint = "" if relation.id else "; facts that are different need id= or columns= to tell them apart"
        raise PenstockError(
            f"relation {through.name} must have each fact once at a time, got the fact {fact} in rows {first} and {second}, "
            f"whose times overlap{hint}"
        )


def overlapping(same: Ints, begin: Ints, end: Ints) -> Ints:
    """Rows that begin while an equal one is there, each with the equal one that begins before it.

    >>> overlapping(np.array([0, 0, 1, 0]), np.array([0, 2, 3, 4]), np.array([9, 3, 9, 9])).tolist()
    [[0, 1], [1, 3]]
    """
    row = np.flatnonzero(begin < end)
    row = row[np.lexsort((row, begin[row], same[row]))]
    is_bad = (same[row[1:]] == same[row[:-1]]) & (begin[row[1:]] < greatest_so_far(same[row], end[row])[:-1])
    return np.stack([row[:-1][is_bad], row[1:][is_bad]], axis=1)


def _fact(table: pa.Table, names: Sequence[str], row: int) -> str:
    """What tells a fact apart, as a user would look for it: a row of a database has no number."""
    return ", ".join(f"{name} = {table[name][row].as_py()!r}" for name in names)


def _times(table: pa.Table, name: str | None, meaning: str, none: int, through: Through, time: pa.DataType) -> Ints:
    out = np.full(len(table), none, dtype=np.int64)
    if name is None or pa.types.is_null(table[name].type):
        return out
    column, what = table[name], f"{meaning} {name!r} of relation {through.name}"
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("us"))
    if pa.types.is_timestamp(column.type) != pa.types.is_timestamp(time):
        raise PenstockError(f"{what} must be of the type of the streams' times, {time}, got {table[name].type}")
    known = np.asarray(column.is_valid())
    out[known] = read_times(column.drop_null(), what)
    return out
