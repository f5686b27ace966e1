"""Reading what lives elsewhere: a table or query in a database, a history that Penstock keeps, a feed of changes from its beginning.

Of a database and a history only the columns that matter are read, and, where that is asked for, only the facts of keys in use.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from penstock.relation.addresses import FEED, database_at, history_at, is_feed
from penstock.relation.changes import from_feed
from penstock.relation.feed import Feed, plan_of
from penstock.relation.history import OWN, History

Among = tuple[str, pa.Array]
"""An attribute, and the values of it that are in use."""


class Described(Protocol):
    """What is known of a relation before it is read (`Relation`)."""

    @property
    def source(self) -> Any: ...
    @property
    def attributes(self) -> tuple[str, ...]: ...
    @property
    def id(self) -> tuple[str, ...]: ...
    @property
    def columns(self) -> tuple[str, ...]: ...
    def needed(self, schema: pa.Schema) -> list[str]: ...


def is_keyed(source: Any) -> bool:
    """Whether the facts of some keys are read without the others."""
    return database_at(source) is not None or history_at(source) is not None


def schema_at(source: Any) -> pa.Schema | None:
    """The columns that there are in a database or history, without their rows; None elsewhere."""
    database = database_at(source)
    if database is not None:
        return database.schema()
    kept = history_at(source)
    return None if kept is None else _shown(History(kept[0]).plan.schema.empty_table()).schema


def read_address(relation: Described, among: Among | None = None) -> pa.Table | None:
    """The facts of a relation whose source is an address; None where it is none.

    >>> from penstock import relation
    >>> from tempfile import mkdtemp
    >>> feed = Path(mkdtemp()) / "zones.jsonl"
    >>> _ = feed.write_text('{"op": "insert", "time": 3, "a": 1}\\n{"op": "delete", "time": 5, "a": 1}\\n')
    >>> read_address(relation(f"feed:{feed}", links=["R.x = a"])).to_pydict()
    {'a': [1], 'begin': [3], 'end': [5]}
    """
    database = database_at(relation.source)
    if database is not None:
        return database.read(relation.needed(database.schema()), among)
    kept = history_at(relation.source)
    if kept is not None:
        history, version = History(kept[0]), kept[1]
        return _shown(history.facts(version, *(among if among is not None and among[0] in history.plan.keys else ())))
    return _intervals(relation) if is_feed(relation.source) else None


def _shown(facts: pa.Table) -> pa.Table:
    """Facts without what is Penstock's own."""
    return facts.drop([name for name in OWN if name not in ("begin", "end")])


def _intervals(relation: Described) -> pa.Table:
    """The facts of a feed, read to its end."""
    feed = Feed(Path(relation.source.removeprefix(FEED)))
    names = tuple(dict.fromkeys([*relation.attributes, *relation.id, *relation.columns]))
    changes, position = feed.read(None)
    more = changes
    while more:
        more, position = feed.read(position)
        changes = changes + more
    plan = plan_of(changes, position, relation.attributes, relation.id, names, relation.source)
    return _shown(from_feed(plan, None, plan.schema.empty_table(), changes, 0, position)[0])
