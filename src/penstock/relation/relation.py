"""`ps.relation`: a table of facts that streams are joined through, and where it is read from (Towne 2.1, 2.2)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.core.errors import PenstockError
from penstock.core.facts import Through, link_parts
from penstock.core.tables import SUFFIXES, read_table
from penstock.core.window import in_microseconds, whole
from penstock.relation.addresses import FORMS, name_in
from penstock.relation.sources import read_address, schema_at

Loader = Callable[["Relation"], pa.Table | None]
"""Reads the source of a relation as a table; None where the source is not of its kind."""


@dataclass(frozen=True, eq=False)
class Relation:
    """Facts in a source, by which columns they link streams, and which of their columns mean something.

    `begin`, `end` and `weight` are None where the column of that name is taken if there is one.
    """

    source: Any
    links: tuple[str, ...]
    begin: str | None = None
    end: str | None = None
    weight: str | None = None
    columns: tuple[str, ...] = ()
    id: tuple[str, ...] = ()
    lateness: Any = 0
    name: str | None = None

    def load(self) -> pa.Table:
        """The facts as a table; the first of `LOADERS` that knows the source reads it."""
        for load in LOADERS:
            table = load(self)
            if table is not None:
                twice = sorted({name for name in table.column_names if table.column_names.count(name) > 1})
                if twice:
                    raise PenstockError(f"relation {self.called} must have columns of different names, got {twice[0]} more than once")
                return table
        told = f"a table, columns by name, or a file that ends in {', '.join(SUFFIXES)}, or an address ({FORMS})"
        raise PenstockError(f"source of relation {self.called} must be {told}, got {type(self.source).__name__}")

    def schema(self) -> pa.Schema:
        """The columns that there are; of an address they are read without the rows."""
        found = schema_at(self.source)
        return self.load().schema if found is None else found

    @property
    def called(self) -> str:
        """Its name: as given, else that of its file, table or folder, else "facts"."""
        return self.name or name_in(self.source) or "facts"

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that link."""
        return tuple(link_parts(self.called, text)[2] for text in self.links)

    def needed(self, schema: pa.Schema) -> list[str]:
        """The columns that matter: those that link, mean something or are asked for."""
        told = [self.column(meaning, schema.empty_table()) for meaning in ("begin", "end", "weight")]
        return list(dict.fromkeys([*self.attributes, *self.id, *self.columns, *(name for name in told if name is not None)]))

    def through(self, streams: Sequence[str], table: pa.Table) -> Through:
        """What it links, of these streams."""
        return Through.parse(self.called, self.links, streams, weighted=self.column("weight", table) is not None)

    def column(self, meaning: str, table: pa.Table) -> str | None:
        """The column that is the `begin`, `end` or `weight` of facts: as given, else the one of that name, if it means nothing else."""
        given: str | None = getattr(self, meaning)
        if given is not None or meaning not in table.column_names:
            return given
        return None if meaning in {*self.attributes, *self.columns, *self.id} else meaning


def relation(
    source: Any,
    links: Sequence[str],
    begin: str | None = None,
    end: str | None = None,
    weight: str | None = None,
    columns: Sequence[str] | str | None = None,
    id: Sequence[str] | str | None = None,
    lateness: Any = "0 seconds",
    name: str | None = None,
) -> Relation:
    """A relation to join streams through: a table, columns by name, a file (Parquet, CSV, JSON Lines), or an address.

    An address is that of a table or query in a database, "duckdb:zones.duckdb#pairs" or "postgresql://me@host/city#pairs", of a history
    that Penstock keeps, "history:folder", or of a feed of changes, "feed:changes.jsonl" (docs/relations.md).

    A fact has one value for each of its `links`, "stream.column = attribute", and is active from its `begin` until before its `end`;
    null, or no such column, means always before and not deleted yet. Streams join where a fact has the values of both and was active at
    the times of both. What joins through a fact is worth its `weight` times as much. By default the columns called begin, end and weight
    are taken, where there are any.

    A fact may be there several times, at different times. Two facts are the same if they have one `id` or, without it, if links and
    `columns` have the same values. `lateness` is how long after its begin or end a fact may become known.

    >>> from penstock import Trace, simulate
    >>> zones = relation({"a": [1, 1], "b": [7, 8], "end": [None, 1]}, links=["R.key = a", "b = S.key"])
    >>> simulate(Trace.from_streams(R=[1], S=[8, 7, 8]), window=5, memory=4, policy="fifo", through=zones).n_output
    2
    """
    if isinstance(links, str):
        raise PenstockError(f'links must be a list of texts such as ["pickup.zone = a", "b = dropoff.zone"], got {links!r}')
    for argument, text in {"begin": begin, "end": end, "weight": weight, "name": name}.items():
        if text is not None and (not isinstance(text, str) or not text):
            raise PenstockError(f"{argument} of a relation must be a name, got {text!r}")
    return Relation(
        source, tuple(links), begin, end, weight, _names(columns, "columns"), _names(id, "id"), _lateness(lateness), name
    )  # fmt: skip


def read_through(through: Any) -> tuple[Relation, ...]:
    """The relations of `through=`: one or several, or none.

    >>> [one.called for one in read_through(relation("pairs.csv", links=["R.a = a", "b = S.b"]))], read_through(None)
    (['pairs'], ())
    """
    given = () if through is None else tuple(through) if isinstance(through, Sequence) else (through,)
    for one in given:
        if not isinstance(one, Relation):
            raise PenstockError(f"through must be relations made by ps.relation(...), got {type(one).__name__}")
    return given


def _from_table(relation: Relation) -> pa.Table | None:
    return relation.source if isinstance(relation.source, pa.Table) else None


def _from_columns(relation: Relation) -> pa.Table | None:
    if not isinstance(relation.source, Mapping):
        return None
    try:
        return pa.table(dict(relation.source))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise PenstockError(f"the columns of a relation must be of one length and of one type each: {error}") from None


def _from_file(relation: Relation) -> pa.Table | None:
    return read_table(Path(relation.source)) if isinstance(relation.source, str | os.PathLike) else None


LOADERS: tuple[Loader, ...] = (_from_table, _from_columns, read_address, _from_file)
"""How sources are read. The last takes every text, so what begins otherwise goes before it."""


def _names(given: Sequence[str] | str | None, argument: str) -> tuple[str, ...]:
    several = isinstance(given, Sequence) and not isinstance(given, str)
    names = () if given is None else tuple(given) if several else (given,)
    if not all(isinstance(one, str) and one for one in names):
        raise PenstockError(f"{argument} of a relation must be names of its columns, got {given!r}")
    return tuple(map(str, names))


def _lateness(given: Any) -> Any:
    """A number of ticks, or the duration as it is."""
    found = in_microseconds(given)
    number = whole(found, "lateness of a relation", "a number of ticks or a duration such as '5 seconds'")
    if number < 0:
        raise PenstockError(f"lateness of a relation must not be negative, got {given!r}")
    return number if not isinstance(given, str | timedelta) or given == found else given
