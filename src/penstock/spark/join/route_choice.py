"""From what a join compares to the way of its rows: the route, the columns that travel for it, and what a ledger must know of both."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from penstock.core.errors import PenstockError
from penstock.core.predicate import Predicate
from penstock.shard.facts.known import key, slot_of
from penstock.shard.stream_window import check_shards
from penstock.spark.join.join_columns import Comparison
from penstock.spark.join.routes import Route
from penstock.spark.join.stream import Places, Stream, comparable, quoted


def route_of(streams: Mapping[str, Stream], compared: Comparison, wanted: int | None, usual: Callable[[], int]) -> Route:
    """The route of a join: of the number of shards that was asked for, or the usual one."""
    windows = {name: side.window for name, side in streams.items()}
    by_key = [name for name, window in windows.items() if str(window).startswith("rows_per_key:")]
    if by_key and not compared.shared:
        raise PenstockError(
            f"rows_per_key of stream {by_key[0]} counts the rows of one key, so keys must be equal in all streams, got {compared.text!r}"
        )
    if check_shards(windows, wanted):
        return Route("one", 1)
    if compared.through:
        return _through(compared, wanted, usual)
    if compared.shared:
        return Route("key", wanted or usual())
    if compared.graph is not None:
        return Route("one", 1) if wanted in (None, 1) else Route.matrix(wanted, len(streams))
    if compared.predicate.name == "eps":
        return Route("cells", wanted or usual(), epsilon=compared.predicate.epsilon, columns=len(compared.columns[0]))
    return Route.matrix(wanted or usual(), len(streams))


def _through(compared: Comparison, wanted: int | None, usual: Callable[[], int]) -> Route:
    """By the facts of the one relation; several need one shard, where all of them meet."""
    if len(compared.through) == 1:
        return Route("facts", wanted or usual())
    if wanted in (None, 1):
        return Route("one", 1)
    told = ", ".join(one.name for one in compared.through)
    raise PenstockError(f"shards must be 1, or left out, in a join through several relations ({told}), got {wanted}")


def sent_columns(compared: Comparison) -> list[dict[str, Column]]:
    """By stream, what travels for the comparison: keys as key0, key1, ... in all streams alike; else each column has its own number."""
    if compared.by_key:
        return [{f"key{number}": F.col(quoted(name)) for number, name in enumerate(own)} for own in compared.columns]
    if compared.through:
        links = [link for one in compared.through for link in one.links]
        return [
            {key(slot): F.col(quoted(link.column)) for slot, link in enumerate(links) if link.stream == stream}
            for stream in range(len(compared.columns))
        ]
    out, number = [], 0
    for stream, own in enumerate(compared.columns):
        out.append({f"key{number + at}": compared.sent(stream, name) for at, name in enumerate(own)})
        number += len(own)
    return out


def places(route: Route, compared: Comparison, stream: int, sent: Mapping[str, Column]) -> Places:
    """How the shards of a stream's rows are found."""

    def found(row: Sequence[Column], timed: Column) -> Column:
        values = list(sent.values())
        if route.kind == "key":
            values = [_plain(column, kind) for column, kind in zip(values, compared.kinds[stream], strict=True)]
        return route.places(stream, values, compared.whole, row, timed)

    return found


def _plain(column: Column, kind: T.DataType) -> Column:
    """A column with equal hashes where values are equal, whatever the width of a number."""
    return comparable(column, T.DoubleType() if isinstance(kind, T.FloatType | T.DoubleType) else kind)


def links_in_ledger(
    compared: Comparison, sent: Sequence[Sequence[str]], relations: list[dict[str, Any]], values: Sequence[str]
) -> dict[str, str]:
    """What settling must know of links: the columns, their types, and who is compared with whom; `values` are the types of what relations
    link, by slot, where the ledger has it.
    """
    if compared.by_key:
        return {}
    if compared.through:
        types = {name: values[slot_of(name)] if values else "bigint" for own in sent for name in own}  # else the numbers of the values
        return {"links": json.dumps({"sent": [list(own) for own in sent], "types": types, "links": [], "relations": relations})}
    types = {
        column: _type(kind, numeric).simpleString()
        for own, kinds, numbers in zip(sent, compared.kinds, compared.numeric, strict=True)
        for column, kind, numeric in zip(own, kinds, numbers, strict=True)
    }
    names = [dict(zip(own, columns, strict=True)) for own, columns in zip(compared.columns, sent, strict=True)]
    links = [
        {
            "low": [names[link.low][column] for column in link.low_columns],
            "high": [names[link.high][column] for column in link.high_columns],
            "streams": [link.low, link.high],
            "predicate": link.predicate.name,
            "epsilon": link.predicate.epsilon,
        }
        for link in compared.links()
    ]
    return {"links": json.dumps({"sent": [list(own) for own in sent], "types": types, "links": links})}


def _type(kind: T.DataType, numeric: bool) -> T.DataType:
    if not numeric:
        return kind
    return T.DoubleType() if isinstance(kind, T.FloatType | T.DoubleType) else T.LongType()


def read_predicate(link: Mapping[str, object]) -> Predicate:
    """The predicate of a link in a ledger.

    >>> read_predicate({"predicate": "eps", "epsilon": 0.5})
    Predicate(name='eps', epsilon=0.5, function=None)
    """
    return Predicate(str(link["predicate"]), float(str(link["epsilon"])))
