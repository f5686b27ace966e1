"""A trace: archived streams as columns, in arrival order (docs/readings.md, traces)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.core.errors import PenstockError, choose
from penstock.core.tables import read_table, write_table

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

LIMIT = 1 << 60
"""Times, lifetimes and sizes stay below this, so that no sum of two leaves 64 bits."""
TIME_UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1, "min": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9}
"""The nanoseconds of one tick, by the name of the unit."""
MOST = 1e150  # importances, so that products of two are numbers


class Trace:
    """Streams as a table: `stream`, `time`, key columns, and optionally `importance`, `lifetime`, `size`; row order is arrival order.

    `key=()` makes a trace without a key, to be joined by links between columns (`predicate="R.a = S.a, S.b < T.b"`). `time_unit` says what
    one tick is where times are whole numbers ("s", "ms", "us", "ns", "min", "h", "d"), so that a window may be "10 minutes".

    >>> trace = Trace({"stream": ["R", "S", "S"], "time": [0, 0, 1], "key": ["a", "b", "a"]})
    >>> len(trace), trace.streams, trace.time.tolist()
    (3, ('R', 'S'), [0, 0, 1])
    """

    def __init__(
        self,
        columns: Mapping[str, Any] | pa.Table,
        *,
        key: str | Sequence[str] = "key",
        streams: Sequence[str] | None = None,
        time_unit: str | None = None,
    ) -> None:
        self.table = columns if isinstance(columns, pa.Table) else _table(columns)
        self.key_columns = tuple(k.strip() for k in key.split(",")) if isinstance(key, str) else tuple(key)
        twice = sorted({name for name in self.table.column_names if self.table.column_names.count(name) > 1})
        if twice:
            raise PenstockError(f"the columns of a trace must have different names, got {', '.join(twice)} more than once")
        wanted = ("stream", "time", *self.key_columns)
        missing = [name for name in wanted if name not in self.table.column_names]
        if missing:
            have = ", ".join(self.table.column_names) or "none"
            raise PenstockError(f"a trace needs the columns {', '.join(wanted)}; {', '.join(missing)} missing, it has: {have}")
        for field in self.table.schema:
            if pa.types.is_nested(field.type):
                raise PenstockError(f"column {field.name!r} is nested ({field.type}); a trace has flat columns only")
        if len(self.table) == 0:
            raise PenstockError("the trace is empty: it needs at least one row")
        self.time = read_times(self.table["time"], "column 'time'")
        self.timestamps = pa.types.is_timestamp(self.table["time"].type)
        self.tick = _tick(time_unit, self.timestamps)
        self.streams, self.stream = _streams(self.table["stream"], streams)
        self.importance = self._numbers("importance")
        self.lifetime = self._lifetimes()
        self.size = self._integers("size")

    @classmethod
    def from_streams(cls, **streams: Sequence[Any]) -> Trace:
        """One tuple per stream and tick; the elements are keys, None means that nothing arrives.

        >>> Trace.from_streams(R="ab", S=["a", None]).time.tolist()
        [0, 0, 1]
        """
        longest = max((len(keys) for keys in streams.values()), default=0)
        rows = [(name, t, keys[t]) for t in range(longest) for name, keys in streams.items() if t < len(keys) and keys[t] is not None]
        names, times, values = zip(*rows, strict=True) if rows else ((), (), ())
        return cls({"stream": list(names), "time": list(times), "key": list(values)}, streams=tuple(streams))

    def __len__(self) -> int:
        return len(self.table)

    @property
    def n_streams(self) -> int:
        """How many streams the trace has, empty declared ones included."""
        return len(self.streams)

    @cached_property
    def n_backwards(self) -> int:
        """How many rows have a smaller time than the row before them."""
        return int(np.count_nonzero(np.diff(self.time) < 0))

    @cached_property
    def key(self) -> Ints:
        """The key as one integer per row: equal keys, equal integers; a null key gets a negative one of its own.

        >>> Trace({"stream": ["R", "S", "R"], "time": [0, 0, 1], "key": [7, 7, None]}).key.tolist()
        [0, 0, -3]
        """
        return number_keys([self.key_values(name) for name in self._named_key()])

    def _named_key(self) -> tuple[str, ...]:
        if not self.key_columns:
            raise PenstockError("key must name the columns that are compared, got none: only links (R.a = S.a) join a trace without a key")
        return self.key_columns

    def key_values(self, name: str) -> pa.Array:
        """A column as one Arrow array to be compared."""
        return comparable(self.table[name], name)

    def numbers(self) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The key columns as numbers, one column each, and which rows have none; for predicates other than equality."""
        parts = []
        null = np.zeros(len(self), dtype=bool)
        for name in self._named_key():
            column = self.key_values(name)
            if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
                column = column.cast(pa.timestamp("us")).cast(pa.int64())
            if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
                raise PenstockError(f"key column {name!r} must be numeric for this predicate, got {column.type}")
            null |= column.is_null().to_numpy(zero_copy_only=False)
            parts.append(np.asarray(column.fill_null(0)))
        values = np.stack(parts, axis=1)
        return values.astype(np.int64 if values.dtype.kind in "iu" else np.float64), null

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the trace as Parquet, CSV or JSON Lines, by the suffix of `path`."""
        write_table(self.table, Path(path))

    def _numbers(self, name: str) -> Floats | None:
        if name not in self.table.column_names:
            return None
        return positive_numbers(self.table[name], f"column {name!r}")

    def _lifetimes(self) -> Ints | None:
        """The column `lifetime`, in ticks; it may be of a type of durations."""
        if "lifetime" not in self.table.column_names or not pa.types.is_duration(self.table["lifetime"].type):
            return self._integers("lifetime")
        if self.tick is None:
            raise PenstockError(
                "column 'lifetime' must be whole numbers of ticks, because nothing says how long a tick is, got durations: say "
                'it by --time-unit s (in Python time_unit="s"), or give ticks'
            )
        found = whole_numbers(self.table["lifetime"].cast(pa.duration("ns")).cast(pa.int64()), "column 'lifetime'")
        bad = np.flatnonzero(found % self.tick)
        if len(bad):
            raise PenstockError(f"column 'lifetime' must be whole numbers of ticks, got a part of one in row {bad[0]}")
        return self._integers("lifetime", found // self.tick)

    def _integers(self, name: str, values: Ints | None = None) -> Ints | None:
        if name not in self.table.column_names:
            return None
        values = whole_numbers(self.table[name], f"column {name!r}") if values is None else values
        bad = np.flatnonzero((values < 1) | (values > LIMIT))
        if len(bad):
            raise PenstockError(f"column {name!r} must be a whole number of at least 1, got {values[bad[0]]} in row {bad[0]}")
        return values


def read_trace(
    path: str | os.PathLike[str],
    *,
    key: str | Sequence[str] = "key",
    streams: Sequence[str] | None = None,
    time_unit: str | None = None,
) -> Trace:
    """Read a trace from a Parquet, CSV or JSON Lines file.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "t.csv"
    >>> _ = file.write_text("stream,time,key\\nR,0,a\\nS,1,a\\n")
    >>> len(read_trace(file))
    2
    """
    return Trace(read_table(Path(path)), key=key, streams=streams, time_unit=time_unit)


def comparable(column: pa.ChunkedArray, name: str) -> pa.Array:
    """A column as one Arrow array to be compared, with NaN made null and -0.0 made 0.0.

    >>> comparable(pa.chunked_array([[-0.0, float("nan")], [2.0]]), "x").to_pylist()
    [0.0, None, 2.0]
    """
    column = column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_floating(column.type):
        if (pc.max(pc.abs(column)).as_py() or 0.0) >= 2.0**53:
            raise PenstockError(f"column {name!r} has numbers beyond 2**53 that floating point cannot tell apart; write it as text")
        column = pc.add(pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column), pa.scalar(0.0, column.type))
    return column


def number_keys(columns: Sequence[pa.Array]) -> Ints:
    """One integer per row of some columns: equal rows, equal integers; a row with a null gets a negative one of its own.

    >>> number_keys([pa.array(["a", "b", "a"]), pa.array([1, 1, None])]).tolist()
    [0, 1, -3]
    """
    size = len(columns[0])
    codes = np.zeros(size, dtype=np.int64)
    null = np.zeros(size, dtype=bool)
    for column in columns:
        null |= column.is_null().to_numpy(zero_copy_only=False)
        part = column.dictionary_encode()
        ids = np.asarray(part.indices.fill_null(0)).astype(np.int64)
        if int(codes.max(initial=0)) * (len(part.dictionary) + 1) > LIMIT:
            codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
        codes = codes * (len(part.dictionary) + 1) + ids
    if len(columns) > 1:
        codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
    return np.where(null, -1 - np.arange(size, dtype=np.int64), codes)


def whole_numbers(column: pa.ChunkedArray, what: str) -> Ints:
    """An Arrow column of integers without nulls as 64-bit integers, or an error that names `what`."""
    if not pa.types.is_integer(column.type):
        raise PenstockError(f"{what} must be of an integer type, got {column.type}")
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise PenstockError(f"{what} must have no nulls, got one in row {row}")
    values = column.combine_chunks().to_numpy(zero_copy_only=False)
    if values.dtype.kind == "u" and len(values) and values.max() > LIMIT:
        raise PenstockError(f"{what} must stay below 2**60, got {values.max()}")
    return values.astype(np.int64)


def _table(columns: Mapping[str, Any]) -> pa.Table:
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise PenstockError(f"the columns of a trace must have one length, got {lengths}")
    try:
        return pa.table(dict(columns))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise PenstockError(f"a column of the trace has mixed or unusable values: {error}") from None


def positive_numbers(column: pa.ChunkedArray, what: str) -> Floats:
    """An Arrow column of numbers above 0 as floating point, or an error that names `what`."""
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_decimal(column.type)):
        raise PenstockError(f"{what} must be numeric, got {column.type}")
    values = np.asarray(column.cast(pa.float64()).combine_chunks().to_numpy(zero_copy_only=False), dtype=np.float64)
    bad = np.flatnonzero(~((values > 0) & (values <= MOST)))
    if len(bad):
        raise PenstockError(f"{what} must be positive and at most {MOST:g}, got {column[int(bad[0])].as_py()} in row {bad[0]}")
    return values


def read_times(column: pa.ChunkedArray, what: str) -> Ints:
    """An Arrow column of integers or timestamps (as microseconds) without nulls, or an error that names `what`."""
    if pa.types.is_timestamp(column.type):
        try:
            column = column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise PenstockError(f"{what} does not fit microseconds: {error}") from None
    elif not pa.types.is_integer(column.type):
        raise PenstockError(f"{what} must be of an integer or timestamp type, got {column.type}")
    times = whole_numbers(column, what)
    bad = np.flatnonzero((times > LIMIT) | (times < -LIMIT))
    if len(bad):
        raise PenstockError(f"{what} must stay between -2**60 and 2**60, got {times[bad[0]]} in row {bad[0]}")
    return times


def _tick(unit: Any, timestamps: bool) -> int | None:
    """The nanoseconds of a tick; None where nobody says."""
    if unit is None:
        return 1000 if timestamps else None
    if timestamps:
        raise PenstockError(f"time_unit must be left out where times are timestamps, which say it themselves, got {unit!r}")
    return TIME_UNITS[choose("time_unit", unit, TIME_UNITS)]


def _streams(column: pa.ChunkedArray, declared: Sequence[str] | None) -> tuple[tuple[str, ...], Ints]:
    if column.null_count:
        raise PenstockError("column 'stream' must have no nulls")
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (pa.types.is_integer(column.type) or pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise PenstockError(f"column 'stream' must be of a string or integer type, got {column.type}")
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    found = [str(name) for name in encoded.dictionary.to_pylist()]
    codes = np.asarray(encoded.indices).astype(np.int64)
    if declared is None:
        return tuple(found), codes
    names = tuple(str(name) for name in declared)
    unknown = [name for name in found if name not in names]
    if unknown or len(set(names)) < len(names):
        raise PenstockError(f"streams must name each stream of the trace once, got {list(names)} for {found}")
    return names, np.array([names.index(name) for name in found], dtype=np.int64)[codes]


def check_trace(trace: Any) -> None:
    """Refuse what is no trace."""
    if not isinstance(trace, Trace):
        raise PenstockError(f"trace must be a ps.Trace, got {type(trace).__name__}: make one by ps.Trace(...) or ps.read_trace(...)")
