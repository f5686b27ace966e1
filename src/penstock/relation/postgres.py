"""PostgreSQL: a relation in a server's database, `postgresql://me@db.example/city#zone_pairs`, read by its driver for ADBC.

A password has no place in an address, which logs and lists of processes show: it goes into the environment (PGPASSWORD) or ~/.pgpass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from penstock.core.errors import PenstockError
from penstock.relation.database import Database, Session, UnreachableError, quoted

PREFIXES = ("postgresql://", "postgres://")
_PATIENCE = 10  # seconds to wait for a connection
_NOT_AWAY = ("FATAL", "password")  # what libpq says where trying again does not help, unless the server is about to start or stop
_AWAY = ("08", "53", "57P")  # classes of SQLSTATE: connection, resources, shut down
_TEXTS = ("text", "varchar", "bpchar", "name", "char")
_PASSWORD = re.compile(r"://[^/@]*:(?!\d+(?:[/?#]|$))[^@]*@|^[^#]*[?&]\w*password=", re.IGNORECASE)


class Postgres(Database):
    """A table or query in a PostgreSQL server.

    >>> Postgres("postgresql://me:secret@db.example/city#pairs")
    Traceback (most recent call last):
    ...
    penstock.core.errors.PenstockError: the address of a relation must have no password in it, got one in 'postgresql://...': put it into
    ~/.pgpass, or into PGPASSWORD in the environment
    """

    def __init__(self, address: str) -> None:
        uri, _, what = address.partition("#")
        if _PASSWORD.search(address):
            raise PenstockError(
                "the address of a relation must have no password in it, got one in 'postgresql://...': "
                "put it into ~/.pgpass, or into PGPASSWORD in the environment"
            )
        if not what:
            raise PenstockError(
                f"the address of a relation in PostgreSQL must be such as 'postgresql://me@db.example/city#zone_pairs', got {address!r}"
            )
        self.uri = uri if "connect_timeout=" in uri else f"{uri}{'&' if '?' in uri else '?'}connect_timeout={_PATIENCE}"
        super().__init__(address, what)

    @contextmanager
    def _session(self, *, write: bool = False) -> Iterator[Session]:
        try:
            from adbc_driver_manager import Error
            from adbc_driver_postgresql import dbapi
        except ImportError:
            remedy = "pip install 'penstock-spark[postgres]'"
            raise PenstockError(f"{self.given} needs PostgreSQL's driver for ADBC, which is not installed: {remedy}") from None
        try:
            with dbapi.connect(self.uri, autocommit=write) as connection, connection.cursor() as cursor:
                yield _PostgresSession(cursor)
        except Error as error:
            if _is_away(error):
                raise UnreachableError(f"{self.given} cannot be reached: {_reason(error)}") from None
            raise PenstockError(f"{self.given} cannot be read: {_reason(error)}") from None

    def _cast(self, field: pa.Field) -> str:
        own = (field.metadata or {}).get(b"POSTGRESQL:type", b"").decode()
        if own == "numeric":
            return f"{quoted(field.name)}::float8"
        is_other = isinstance(field.type, pa.BaseExtensionType) or (pa.types.is_string(field.type) and own not in _TEXTS)
        return f"{quoted(field.name)}::text" if is_other else quoted(field.name)

    def _indexes(self, session: Session) -> list[tuple[str, ...]]:
        found = session.query(
            "SELECT i.indexrelid::bigint AS index, a.attname::text AS name FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey::int2[]) "
            "WITH ORDINALITY AS k(number, place) JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number "
            f"WHERE i.indrelid = {_text(self._from)}::regclass AND i.indpred IS NULL ORDER BY i.indexrelid, k.place"
        )
        out: dict[int, list[str]] = {}
        for index, name in zip(found["index"].to_pylist(), found["name"].to_pylist(), strict=True):
            out.setdefault(index, []).append(name)
        return [tuple(names) for names in out.values()]


class _PostgresSession(Session):
    def __init__(self, cursor: Any) -> None:
        self.cursor = cursor

    def query(self, text: str) -> pa.Table:
        self.cursor.execute(text)
        return self.cursor.fetch_arrow_table()

    def keep(self, values: pa.Array) -> None:
        self.cursor.adbc_ingest("penstock_among", pa.table({"value": values}), mode="create", temporary=True)

    def run(self, statement: str) -> None:
        self.cursor.execute(statement)


def _text(value: str) -> str:
    """A text in SQL."""
    return "'" + value.replace("'", "''") + "'"


def _is_away(error: Exception) -> bool:
    """Whether the server cannot be reached now; one that refuses the user or has no such database will do so again."""
    state = getattr(error, "sqlstate", None)
    if state:
        return bool(state.startswith(_AWAY))
    said = str(error)
    helps = "the database system is" in said or not any(word in said for word in _NOT_AWAY)
    return type(error).__name__ == "OperationalError" and helps


def _reason(error: Exception) -> str:
    """The server's words, without the query, which is ours."""
    return " ".join(re.split(r"\n\s*(?:LINE \d|Query was)", str(error))[0].split())
