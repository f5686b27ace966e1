"""Where a relation may live, by the beginning of its address: a database, a history that Penstock keeps, a feed of changes."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from penstock.relation.database import Database
from penstock.relation.embedded import PREFIX as EMBEDDED
from penstock.relation.embedded import DuckDb
from penstock.relation.postgres import PREFIXES as SERVERS
from penstock.relation.postgres import Postgres

HISTORY, FEED = "history:", "feed:"
FORMS = "duckdb:FILE#table, postgresql://user@host/database#table, history:FOLDER, feed:FILE"
"""What an address may look like, for errors and help."""


def database_at(source: Any) -> Database | None:
    """The database of an address; None for what is none.

    >>> database_at("duckdb:zones.duckdb#pairs").given, database_at("zones.parquet")
    ('duckdb:zones.duckdb#pairs', None)
    """
    if isinstance(source, str) and source.startswith(EMBEDDED):
        return DuckDb(source)
    return Postgres(source) if isinstance(source, str) and source.startswith(SERVERS) else None


def history_at(source: Any) -> tuple[str, int | None] | None:
    """The folder of a history, and its version, None for the last; None for what is none.

    >>> history_at("history:s3://me@city/zones@12"), history_at("history:zones"), history_at("zones.csv")
    (('s3://me@city/zones', 12), ('zones', None), None)
    """
    if not isinstance(source, str) or not source.startswith(HISTORY):
        return None
    folder, version = re.fullmatch(r"(.*?)(?:@(\d+))?", source.removeprefix(HISTORY), re.DOTALL).groups()  # type: ignore[union-attr]
    return folder, None if version is None else int(version)


def is_feed(source: Any) -> bool:
    """Whether a source is a feed of changes.

    >>> is_feed("feed:changes.jsonl"), is_feed("changes.jsonl")
    (True, False)
    """
    return isinstance(source, str) and source.startswith(FEED)


def is_address(source: str) -> bool:
    """Whether a text is an address, and no file.

    >>> is_address("history:/data/zones"), is_address("zones.parquet")
    (True, False)
    """
    return source.startswith((HISTORY, FEED)) or database_at(source) is not None


def name_in(source: Any) -> str:
    """What a relation is called by where it is: its table, file or folder; nothing where that does not say.

    >>> name_in("duckdb:city.duckdb#main.pairs"), name_in("history:/data/zones@3"), name_in("zones.csv"), name_in("duckdb:c#SELECT 1")
    ('pairs', 'zones', 'zones', '')
    """
    if not isinstance(source, str | os.PathLike):
        return ""
    database = database_at(source)
    if database is not None:
        return database.parts[-1] if database.parts else ""
    kept = history_at(source)
    return Path(os.fspath(source).removeprefix(FEED) if kept is None else kept[0]).stem
