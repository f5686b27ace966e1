"""DuckDB: a relation in a database that is one file, `duckdb:zones.duckdb#zone_pairs`, read by DuckDB itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.core.errors import PenstockError
from penstock.relation.database import Database, Session, UnreachableError, quoted

PREFIX = "duckdb:"
_WIDE = 38  # digits of a decimal without a fraction, which is how Arrow has DuckDB's wide integers
_OTHERWISE = "different configuration"  # what DuckDB says of a file that this process has open to write


class DuckDb(Database):
    """A table or query in a file of DuckDB's.

    >>> import duckdb, tempfile
    >>> path = f"{tempfile.mkdtemp()}/zones.duckdb"
    >>> with duckdb.connect(path) as made:
    ...     _ = made.execute("CREATE TABLE pairs AS SELECT 1 AS a, 'x' AS b")
    >>> DuckDb(f"duckdb:{path}#pairs").read().to_pylist()
    [{'a': 1, 'b': 'x'}]
    """

    def __init__(self, address: str) -> None:
        path, _, what = address[len(PREFIX) :].partition("#")
        self.path = path
        if not path or not what:
            raise PenstockError(f"the address of a relation in DuckDB must be such as 'duckdb:zones.duckdb#zone_pairs', got {address!r}")
        super().__init__(address, what)

    @contextmanager
    def _session(self, *, write: bool = False) -> Iterator[Session]:
        try:
            import duckdb
        except ImportError:
            raise PenstockError(
                f"{self.given} needs DuckDB's driver, which is not installed: pip install 'penstock-spark[duckdb]'"
            ) from None
        if not Path(self.path).is_file():
            raise PenstockError(f"there is no database {self.path!r}, named by {self.given!r}")
        try:
            with _connected(duckdb, self.path, write) as connection:
                yield _DuckSession(connection)
        except duckdb.IOException as error:
            if "lock" in str(error).lower():  # another process writes to the file
                raise UnreachableError(f"{self.given} cannot be reached: {_reason(error)}") from None
            raise PenstockError(f"{self.given} cannot be read: {_reason(error)}") from None
        except duckdb.Error as error:
            raise PenstockError(f"{self.given} cannot be read: {_reason(error)}") from None

    def _cast(self, field: pa.Field) -> str:
        is_wide = pa.types.is_decimal(field.type) and field.type.precision == _WIDE and field.type.scale == 0
        return f"CAST({quoted(field.name)} AS BIGINT)" if is_wide else quoted(field.name)

    def _indexes(self, session: Session) -> list[tuple[str, ...]]:
        wanted = " AND ".join(
            f"{column} = '{name.replace(chr(39), chr(39) * 2)}'"
            for column, name in zip(("table_name", "schema_name", "database_name"), reversed(self.parts), strict=False)
        )
        found = session.query(f"SELECT expressions FROM duckdb_indexes() WHERE {wanted}")
        return [tuple(part.strip(" '\"") for part in text.strip("[]").split(",")) for text in found["expressions"].to_pylist()]


class _DuckSession(Session):
    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def query(self, text: str) -> pa.Table:
        return self.connection.sql(text).to_arrow_table()

    def keep(self, values: pa.Array) -> None:
        self.connection.register("penstock_among", pa.table({"value": values}))

    def run(self, statement: str) -> None:
        self.connection.execute(statement)


def _connected(duckdb: Any, path: str, write: bool) -> Any:
    """A connection to read, so that others may read too; where this process writes to the file already, one like that."""
    try:
        return duckdb.connect(path, read_only=not write)
    except duckdb.ConnectionException as error:
        if _OTHERWISE not in str(error):
            raise
        return duckdb.connect(path, read_only=write)


def _reason(error: Exception) -> str:
    return " ".join(str(error).split("\n\n")[0].split())
