"""Where a relation may live, by the beginning of its address: a database, a history that Penstock keeps, a feed of changes."""

from __future__ import annotations

from typing import Any

from penstock.relation.database import Database
from penstock.relation.embedded import PREFIX as EMBEDDED
from penstock.relation.embedded import DuckDb
from penstock.relation.postgres import PREFIXES as SERVERS
from penstock.relation.postgres import Postgres


def database_at(source: Any) -> Database | None:
    """The database of an address; None for what is none.

    >>> database_at("duckdb:zones.duckdb#pairs").given, database_at("zones.parquet")
    ('duckdb:zones.duckdb#pairs', None)
    """
    if isinstance(source, str) and source.startswith(EMBEDDED):
        return DuckDb(source)
    return Postgres(source) if isinstance(source, str) and source.startswith(SERVERS) else None
