"""`ps.lookup`: each tuple of a stream with the facts that are active at its time, the semi-streaming join (Towne 2.1, formula 5).

It keeps nothing: no window, no memory, no policy, and the result is exact. Of a relation in a database or a history only the facts of keys
in use are read, for some rows of the stream at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.errors import PenstockError, choose
from penstock.core.facts import FactLink, Facts, Through, link_parts
from penstock.core.link_columns import together
from penstock.core.trace import Ints, Trace, comparable, number_keys
from penstock.relation.access import open_access
from penstock.relation.checks import check_columns, check_overlaps, intervals
from penstock.relation.relation import Relation
from penstock.relation.sources import is_keyed, read_address

_AT_ONCE = 1 << 18  # rows of a stream whose facts are read together


@dataclass(frozen=True)
class LookUp:
    """The result of a look-up: a row for each tuple and fact, by the order of the tuples, and what was read to make it."""

    table: pa.Table
    access: str  # how facts were found
    n_input: int
    n_facts: int  # facts that were read
    examined: int  # facts whose times were looked at
    compared: int  # entries that were compared to find them


def lookup(stream: Any, relation: Relation, *, access: str = "auto", time: str = "time", name: str | None = None) -> pa.Table:
    """Each tuple of an archived stream with the facts that are active at its time: a table of the stream's columns and the relation's.

    The stream is a trace (each of its streams by its own link of the relation), or an Arrow table of one stream with its times in the
    column `time`; `name` says which of the linked streams that is, where there are several. The relation's `columns`, or all others if it
    names none, are called `<relation>_<column>`. `access` is how facts are found: "scan", "hash", "index" or "auto".

    >>> import penstock as ps
    >>> rides = pa.table({"time": [1, 5], "zone": ["a", "a"]})
    >>> fares = {"zone": ["a", "a"], "begin": [0, 4], "end": [4, None], "fare": [10, 12]}
    >>> tariff = ps.relation(fares, links=["rides.zone = zone"], columns=["fare"], name="tariff")
    >>> ps.lookup(rides, tariff).to_pydict()
    {'time': [1, 5], 'zone': ['a', 'a'], 'tariff_fare': [10, 12]}
    """
    return look_up(stream, relation, access=access, time=time, name=name).table


def look_up(stream: Any, relation: Relation, *, access: str = "auto", time: str = "time", name: str | None = None) -> LookUp:
    """`lookup`, with what was read."""
    if not isinstance(relation, Relation):
        raise PenstockError(f"relation must be one made by ps.relation(...), got {type(relation).__name__}")
    parts = [link_parts(relation.called, text) for text in relation.links]
    table, trace = _opened(stream, relation, [stream for stream, _, _ in parts], time, name)
    through = Through(relation.called, tuple(FactLink(_place(trace, of), column, to) for of, column, to in parts))
    unlinked = sorted(set(range(trace.n_streams)) - set(through.streams))
    if unlinked:
        raise PenstockError(f"relation {relation.called} must link each stream, got no link of {trace.streams[unlinked[0]]}")
    relation = relation if relation.columns else replace(relation, columns=other_columns(relation, relation.schema()))
    made = LookUp(table, "", len(table), 0, 0, 0)
    rows, found = [], []
    for facts, asked in _batches(trace, relation, through):
        known, numbers = _numbered(trace, relation, through, facts, asked)
        opened = open_access(access, known, {slot: len(mine) for slot, (_, mine) in enumerate(asked)})
        for slot, (_, mine) in enumerate(asked):
            places, numbers_of = opened.find(slot, numbers[slot], trace.time[mine])
            rows.append(mine[places])
            found.append(facts.select(list(relation.columns)).take(pa.array(numbers_of)))
        made = LookUp(
            table, opened.name, len(table), made.n_facts + len(facts), made.examined + opened.examined, made.compared + opened.compared
        )
    return replace(made, table=_joined(table, np.concatenate(rows), pa.concat_tables(found), relation.called))


def _opened(stream: Any, relation: Relation, linked: Sequence[str], time: str, name: str | None) -> tuple[pa.Table, Trace]:
    """The table of a stream, and what is asked of it as a trace."""
    if isinstance(stream, Trace):
        return stream.table, stream
    if not isinstance(stream, pa.Table):
        raise PenstockError(f"stream must be a ps.Trace or an Arrow table, got {type(stream).__name__}")
    if name is None and len(linked) > 1:
        raise PenstockError(f"name must say which of the streams {', '.join(linked)} the table is, got nothing")
    own = choose("name", name or linked[0], linked)
    if time not in stream.column_names:
        raise PenstockError(f"time must be a column of the stream, got {time!r}; it has: {', '.join(stream.column_names)}")
    others = {other: stream[other] for other in stream.column_names if other not in ("stream", "time", "importance", "lifetime", "size")}
    flat = {other: column for other, column in others.items() if not pa.types.is_nested(column.type)}
    return stream, Trace({"stream": [own] * len(stream), "time": stream[time], **flat}, key=())


def _place(trace: Trace, stream: str) -> int:
    """The number of a stream; -1 where the trace does not have it."""
    return trace.streams.index(stream) if stream in trace.streams else -1


def other_columns(relation: Relation, schema: pa.Schema) -> tuple[str, ...]:
    """The columns that neither mean something nor equal one of the stream's."""
    plain = replace(relation, links=relation.links if len(relation.links) == 1 else ())
    return tuple(name for name in schema.names if name in relation.id or name not in plain.needed(schema))


def _batches(trace: Trace, relation: Relation, through: Through) -> Iterator[tuple[pa.Table, list[tuple[FactLink, Ints]]]]:
    """Facts, and the rows that are looked up in them by each link."""
    by_link = [(link, np.flatnonzero(trace.stream == link.stream)) for link in through.links if link.stream >= 0]
    for link, _ in by_link:
        if link.column not in trace.table.column_names:
            have = ", ".join(trace.table.column_names)
            raise PenstockError(f"relation {through.name} must be linked by columns of the stream, got {link.column!r}; it has: {have}")
    if not is_keyed(relation.source):
        yield relation.load(), by_link
        return
    for link, rows in by_link:
        for at in range(0, len(rows), _AT_ONCE):
            mine = rows[at : at + _AT_ONCE]
            values = comparable(trace.table[link.column].take(pa.array(mine)), link.column).unique().drop_null()
            facts = read_address(relation, (link.attribute, values))
            assert facts is not None
            yield facts, [(link, mine)]


def _numbered(
    trace: Trace, relation: Relation, through: Through, table: pa.Table, asked: Sequence[tuple[FactLink, Ints]]
) -> tuple[Facts, list[Ints]]:
    """The facts, checked, with a slot for each link that is asked by, and the numbers of the values that are looked up."""
    check_columns(relation, through, table)
    begin, end = intervals(relation, through, table, trace.table["time"].type)
    check_overlaps(relation, through, table, begin, end)
    keys = np.empty((len(table), len(asked)), dtype=np.int64)
    numbers = []
    for slot, (link, rows) in enumerate(asked):
        text = f"link {trace.streams[link.stream]}.{link.column} = {link.attribute} of relation {through.name}"
        both = [trace.key_values(link.column).take(pa.array(rows)), comparable(table[link.attribute], link.attribute)]
        number = np.maximum(number_keys([together(both, text)]), -1)
        numbers.append(number[: len(rows)])
        keys[:, slot] = number[len(rows) :]
    return Facts(keys, begin, end), numbers


def _joined(table: pa.Table, rows: Ints, facts: pa.Table, called: str) -> pa.Table:
    """Rows and facts beside each other, in the order of the rows."""
    order = np.argsort(rows, kind="stable")
    out, facts = table.take(pa.array(rows[order])), facts.take(pa.array(order))
    for column in facts.column_names:
        name = f"{called}_{column}"
        if name in out.column_names:
            raise PenstockError(
                f"a stream must have no column {name!r}, which is what the relation's {column!r} is called: give it another name"
            )
        out = out.append_column(name, facts[column])
    return out
