"""What a database is to a relation: a table or a query, read as Arrow by the database's own driver, whole or the facts of keys in use.

Both databases that are there (`embedded.py`, `postgres.py`) are asked in the same words; what differs is how they are connected to, and
how they call their errors. Rows are sorted by all columns, so that one table makes the same facts wherever it lives.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager

import pyarrow as pa

from penstock.core.errors import PenstockError

_QUERY = re.compile(r"\s*(select|with)\b", re.IGNORECASE)
_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')
_LONGEST = 63  # bytes of a name in PostgreSQL
_FOREVER = {"infinity": "9999-12-31", "-infinity": "0001-01-01"}


class UnreachableError(PenstockError):
    """A database that cannot be reached now, and perhaps can be later."""


class Database(ABC):
    """A table or a query in a database. `given` is the address as it may be shown."""

    def __init__(self, given: str, what: str) -> None:
        self.given = given
        self.is_query = bool(_QUERY.match(what))
        self.parts = () if self.is_query else tuple(_parts(what, given))
        self._from = f"(\n{what.strip().rstrip(';')}\n) AS facts" if self.is_query else ".".join(map(quoted, self.parts))

    def schema(self) -> pa.Schema:
        """The columns and their types, as `read` gives them."""
        return self.read(rows="WHERE false").schema

    def read(self, columns: Sequence[str] | None = None, among: tuple[str, pa.Array] | None = None, *, rows: str = "") -> pa.Table:
        """The columns that are named, or all; with `among` only rows that have one of some values in a column."""
        with self._session() as session:
            raw = session.query(f"SELECT * FROM {self._from} WHERE false").schema
            missing = [name for name in columns or () if name not in raw.names]
            if missing:
                raise PenstockError(f"{self.given} must have the column {missing[0]!r}, it has: {', '.join(raw.names)}")
            wanted = [field for field in raw if columns is None or field.name in columns]
            if among is not None and among[0] not in raw.names:
                raise PenstockError(f"{self.given} must have the column {among[0]!r}, it has: {', '.join(raw.names)}")
            if among is not None:
                session.keep(among[1])
                rows = f"WHERE {self._cast(raw.field(among[0]))} IN (SELECT value FROM penstock_among)"
            chosen = ", ".join(f"{_finite(field, self._cast(field))} AS {quoted(field.name)}" for field in wanted)
            return in_order(session.query(f"SELECT {chosen or '1'} FROM {self._from} {rows}").select([field.name for field in wanted]))

    def missing_indexes(self, wanted: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
        """Those of the wanted indexes whose columns no index of the table begins with; none for a query."""
        if self.is_query:
            return []
        with self._session() as session:
            have = self._indexes(session)
        return [names for names in wanted if not any(one[: len(names)] == names for one in have)]

    def index_statement(self, names: Sequence[str]) -> str:
        """How an index of these columns is created."""
        title = "_".join(("penstock", *self.parts[-1:], *names))
        if len(title.encode()) > _LONGEST:
            title = f"penstock_{hashlib.sha256(title.encode()).hexdigest()[:16]}"
        return f"CREATE INDEX IF NOT EXISTS {quoted(title)} ON {self._from} ({', '.join(map(quoted, names))})"

    def create(self, statements: Sequence[str]) -> None:
        """Run statements that create indexes."""
        with self._session(write=True) as session:
            for statement in statements:
                session.run(statement)

    @abstractmethod
    def _session(self, *, write: bool = False) -> AbstractContextManager[Session]:
        """A connection, closed at the end; every trouble is a PenstockError, or `UnreachableError`."""

    @abstractmethod
    def _cast(self, field: pa.Field) -> str:
        """The column in an expression whose type Arrow has."""

    @abstractmethod
    def _indexes(self, session: Session) -> list[tuple[str, ...]]:
        """The columns of each index of the table."""


class Session(ABC):
    """An open connection."""

    @abstractmethod
    def query(self, text: str) -> pa.Table:
        """The rows of a query."""

    @abstractmethod
    def keep(self, values: pa.Array) -> None:
        """Make the table penstock_among with these in its column `value`, for this connection alone."""

    @abstractmethod
    def run(self, statement: str) -> None:
        """Run a statement that changes something, for good."""


def quoted(name: str) -> str:
    """A name in SQL.

    >>> quoted('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def in_order(table: pa.Table) -> pa.Table:
    """The rows sorted by all columns that can be sorted, in the order of the columns; times in microseconds, in UTC where they have a zone.

    >>> in_order(pa.table({"a": [2, 1, 1], "b": ["x", "z", "y"]})).to_pydict()
    {'a': [1, 1, 2], 'b': ['y', 'z', 'x']}
    """
    table = table.cast(pa.schema([(field.name, _plain(field.type)) for field in table.schema]), safe=False)
    keys = [(field.name, "ascending") for field in table.schema if _has_order(field.type)]
    return table.sort_by(keys) if keys and len(table) > 1 else table


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _has_order(kind: pa.DataType) -> bool:
    return not (pa.types.is_nested(kind) or pa.types.is_interval(kind) or isinstance(kind, pa.BaseExtensionType))


def _parts(what: str, given: str) -> list[str]:
    """The parts of a table's name: "schema.table", each in double quotes where it has a dot."""
    found = [(match[1] or match[2] or "").replace('""', '"').strip() for match in _PART.finditer(what)]
    if not 1 <= len(found) <= 3 or not all(found) or re.search(r"[;()]", _PART.sub(lambda match: match[2] or "", what)):
        raise PenstockError(f'the address of a relation must end in "#table", "#schema.table" or "#SELECT ...", got {given!r}')
    return found


def _finite(field: pa.Field, column: str) -> str:
    """Databases have times at infinity, and Arrow has not."""
    if not (pa.types.is_timestamp(field.type) or pa.types.is_date(field.type)):
        return column
    cases = " ".join(f"WHEN {column} = '{name}' THEN '{instead}'" for name, instead in _FOREVER.items())
    return f"CASE {cases} ELSE {column} END"
