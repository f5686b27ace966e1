"""Streams as users have them, a file or folder each, with columns of any names and rows in any order -> one trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from penstock.core.errors import PenstockError
from penstock.core.tables import SUFFIXES, read_table
from penstock.core.trace import Ints, Trace

STREAM, TIME = "stream", "time"


@dataclass(frozen=True)
class Gathered:
    """A trace made of several tables: its rows by time and stream, and where they come from."""

    trace: Trace
    row: Ints  # the number of each row of the trace in its own file or folder
    untimed: dict[str, int]  # by stream: rows without a time, which are left out


def read_streams(
    paths: Mapping[str, Path], columns: Mapping[str, Mapping[str, str]], *, key: Sequence[str], time_unit: str | None = None
) -> Gathered:
    """Read one stream per path. `columns` says, by stream, which of its columns is which of the trace.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "up.csv").write_text("ts,zone\\n7,a\\n2,b\\n"), (folder / "off.csv").write_text("ts,zone\\n2,a\\n")
    >>> names = {"time": "ts", "key": "zone"}
    >>> found = read_streams({n: folder / f"{n}.csv" for n in ("up", "off")}, {"up": names, "off": names}, key=["key"])
    >>> found.trace.time.tolist(), found.trace.stream.tolist(), found.row.tolist()
    ([2, 2, 7], [0, 1, 0], [1, 0, 0])
    """
    parts, numbers, untimed = [], [], {}
    for stream, path in paths.items():
        table = _read(path, columns[stream])
        timed = np.flatnonzero(np.asarray(table[TIME].is_valid()))
        if len(timed) < len(table):
            untimed[stream] = len(table) - len(timed)
            table = table.take(pa.array(timed))
        numbers.append(timed)
        parts.append(table.add_column(0, STREAM, pa.repeat(stream, len(table))))
    try:
        whole = pa.concat_tables(parts, promote_options="permissive")
    except pa.ArrowException as error:
        raise PenstockError(_unlike(parts, list(paths)) or f"columns must have one type in all streams: {error}") from None
    place = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    trace = Trace(whole, key=key, streams=tuple(paths), time_unit=time_unit)
    order = np.lexsort((place, trace.time))
    trace = Trace(whole.take(pa.array(order)), key=key, streams=tuple(paths), time_unit=time_unit)
    return Gathered(trace, np.concatenate(numbers)[order], untimed)


def read_files(path: Path) -> pa.Table:
    """A table from a file, or from all files of a folder, by their names."""
    return _together(path, [read_table(file) for file in _files(path)])


def _read(path: Path, columns: Mapping[str, str]) -> pa.Table:
    """The columns of a file, or of all files of a folder, under the names of a trace."""
    files = _files(path)
    tables = []
    for file in files:
        table = _chosen(file, list(columns.values()))
        missing = [name for name in columns.values() if name not in table.column_names]
        if missing:
            wanted, have = ", ".join(columns.values()), ", ".join(read_table(file).column_names)
            raise PenstockError(f"{str(file)!r} must have the columns {wanted}; {missing[0]} missing, it has: {have}")
        tables.append(table.select(list(dict.fromkeys(columns.values()))))
    whole = _together(path, tables)
    found = pa.table({name: whole[column] for name, column in columns.items()})
    kind = found[TIME].type
    if not (pa.types.is_integer(kind) or pa.types.is_timestamp(kind)):
        raise PenstockError(f"the time of {str(path)!r} must be of an integer or timestamp type, got {columns[TIME]!r} of type {kind}")
    if pa.types.is_timestamp(kind) and kind.unit != "us":
        at = found.column_names.index(TIME)
        found = found.set_column(at, TIME, pc.cast(found[TIME], pa.timestamp("us", tz=kind.tz), safe=False))
    return found


def _together(path: Path, tables: Sequence[pa.Table]) -> pa.Table:
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise PenstockError(f"the files in {str(path)!r} must have columns of the same types: {str(error).splitlines()[0]}") from None


def _chosen(file: Path, columns: list[str]) -> pa.Table:
    """A table with these of its columns, where a file can be read by columns; else with all."""
    with suppress(pa.ArrowException, OSError):  # `read_table` says what is wrong
        if file.suffix.lower() == ".parquet":
            parquet = pyarrow.parquet.ParquetFile(file)
            return parquet.read([name for name in parquet.schema_arrow.names if name in columns])
    return read_table(file)


def _files(path: Path) -> list[Path]:
    """The files of a stream, those of a folder by their names; what begins with _ or . is none."""
    if not path.is_dir():
        return [path]
    inside = [file for file in sorted(path.rglob("*")) if file.is_file() and file.suffix.lower() in SUFFIXES]
    files = [file for file in inside if not any(part[0] in "_." for part in file.relative_to(path).parts)]
    if not files:
        raise PenstockError(f"the folder {str(path)!r} must have files that end in {', '.join(SUFFIXES)}, got none")
    return files


def _unlike(parts: Sequence[pa.Table], streams: Sequence[str]) -> str | None:
    """The first column whose types cannot be compared."""
    for name in parts[0].column_names:
        kinds = {stream: part.schema.field(name).type for stream, part in zip(streams, parts, strict=True) if name in part.column_names}
        try:
            pa.unify_schemas([pa.schema([(name, kind)]) for kind in kinds.values()], promote_options="permissive")
        except pa.ArrowException:
            told = ", ".join(f"{kind} in {stream}" for stream, kind in kinds.items())
            return f"{name} must have one type in all streams, got {told}"
    return None
