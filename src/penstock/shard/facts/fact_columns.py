"""A table of facts as it travels, or as a worker reads it: what links compare in the types of the streams, times in ticks, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.core.facts import Through
from penstock.relation.checks import check_columns, check_overlaps, intervals, weights
from penstock.relation.relation import Relation
from penstock.shard.facts.known import BEGIN, END, SHOWN, WEIGHT, key


def fact_columns(
    relation: Relation, through: Through, table: pa.Table, links: Sequence[pa.DataType], shown: Mapping[str, pa.DataType]
) -> pa.Table:
    """The facts of a relation as `SentFacts` takes them: `links` has a type for each link, `shown` one for each name in a row.

    >>> from penstock.relation.relation import relation
    >>> pairs = relation({"a": [1], "b": [7], "fare": ["low"]}, links=["R.x = a", "b = S.y"], columns=["fare"])
    >>> links = pairs.through(["R", "S"], pairs.load())
    >>> fact_columns(pairs, links, pairs.load(), [pa.int64(), pa.int64()], {"f_fare": pa.string()}).column_names
    ['key0', 'key1', 'begin', 'end', '=f_fare']
    """
    check_columns(relation, through, table)
    table = _in_utc(relation, table)
    begin, end = intervals(relation, through, table, pa.timestamp("us", "UTC"))
    check_overlaps(relation, through, table, begin, end)
    linked = zip(through.links, links, strict=True)
    columns: dict[str, Any] = {key(number): _plain(table[link.attribute]).cast(kind) for number, (link, kind) in enumerate(linked)}
    columns |= {BEGIN: pa.array(begin), END: pa.array(end)}
    weight = weights(relation, through, table)
    columns |= {} if weight is None else {WEIGHT: pa.array(weight)}
    columns |= {SHOWN + new: _plain(table[old]).cast(kind) for old, (new, kind) in zip(relation.columns, shown.items(), strict=True)}
    return pa.table(columns)


def _in_utc(relation: Relation, table: pa.Table) -> pa.Table:
    """With times of facts in UTC, where they do not say otherwise."""
    for name in (relation.column("begin", table), relation.column("end", table)):
        if name is not None and pa.types.is_timestamp(table[name].type) and table[name].type.tz is None:
            table = table.set_column(table.column_names.index(name), name, table[name].cast(pa.timestamp(table[name].type.unit, "UTC")))
    return table


def _plain(column: Any) -> Any:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
