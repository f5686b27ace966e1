"""Rows and facts by numbers: equal values of a stream's column and a relation's attribute get equal numbers, link by link.

R(x)  --x = a-->  F(a, b)  --b = y-->  S(y)        slots    0 (x = a)    1 (b = y)
row of R          x = "p"                                   0            -1
row of S          y = null                                  -1           -1
fact              a = "p", b = 7                            0            0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.errors import PenstockError
from penstock.core.facts import Facts, Through, check_tree, slots_of
from penstock.core.link_columns import together
from penstock.core.trace import Ints, Trace, comparable, number_keys
from penstock.relation.checks import check_columns, check_overlaps, intervals, weights
from penstock.relation.relation import Relation, read_through


@dataclass(frozen=True)
class Numbered:
    """What relations link of a trace: `values` has a line per row and a column per slot, -1 for null and for slots of other streams.

    >>> from penstock.relation.relation import relation
    >>> pairs = relation({"a": ["p"], "b": ["q"]}, links=["R.key = a", "b = S.key"])
    >>> found = Numbered.of(Trace.from_streams(R="pq", S="q"), pairs)
    >>> found.values.tolist(), found.facts[0].keys.tolist()
    ([[0, -1], [-1, 0], [1, -1]], [[0, 0]])
    """

    through: tuple[Through, ...]
    values: Ints
    facts: tuple[Facts, ...]

    @classmethod
    def of(cls, trace: Trace, through: Any) -> Numbered:
        """Read the relations of `through=`, and refuse what is wrong with them."""
        relations = read_through(through)
        tables = [one.load() for one in relations]
        links = tuple(one.through(trace.streams, table) for one, table in zip(relations, tables, strict=True))
        check_tree(links, trace.streams)
        slots = slots_of(links)
        values = np.full((len(trace), slots[-1].stop), -1, dtype=np.int64)
        facts = [_facts(trace, *one, values) for one in zip(relations, links, tables, slots, strict=True)]
        return cls(links, values, tuple(facts))


def open_through(trace: Trace, through: Any) -> Numbered | None:
    """What `through=` says, of a trace; None where it says nothing."""
    return through if through is None or isinstance(through, Numbered) else Numbered.of(trace, through)


def _facts(trace: Trace, relation: Relation, through: Through, table: pa.Table, slots: range, values: Ints) -> Facts:
    """The facts of one relation; the rows' numbers are written into `values`."""
    check_columns(relation, through, table)
    begin, end = intervals(relation, through, table, trace.table["time"].type)
    check_overlaps(relation, through, table, begin, end)
    keys = np.empty((len(table), len(slots)), dtype=np.int64)
    for at, (slot, link) in enumerate(zip(slots, through.links, strict=True)):
        text = f"link {trace.streams[link.stream]}.{link.column} = {link.attribute} of relation {through.name}"
        have = trace.table.column_names
        if link.column not in have:
            raise PenstockError(f"{text} must name a column of the trace, got {link.column!r}; it has: {', '.join(have)}")
        rows = np.flatnonzero(trace.stream == link.stream)
        both = [trace.key_values(link.column).take(pa.array(rows)), comparable(table[link.attribute], link.attribute)]
        number = np.maximum(number_keys([together(both, text)]), -1)
        values[rows, slot], keys[:, at] = number[: len(rows)], number[len(rows) :]
    return Facts(keys, begin, end, weights(relation, through, table))
