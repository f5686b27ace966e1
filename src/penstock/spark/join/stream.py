"""`ps.stream`: a DataFrame as one side of a join, checked; and how its rows are prepared for the way to the shards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from penstock.core.duration import UNITS, microseconds
from penstock.core.errors import PenstockError
from penstock.shard.cells import SHARD
from penstock.shard.row_order import ORDER
from penstock.shard.shard_plan import IMPORTANCE, TIME
from penstock.shard.stream_window import LIFETIME, NOT_GIVEN, check_lateness, check_matches, window_of
from penstock.spark.session.first_line import first_line
from penstock.spark.session.quiet import unlogged

_UNORDERED = (T.ArrayType, T.StructType, T.MapType, T.NullType, T.VariantType)
_ZONELESS = " + ".join(
    f"cast(extract({part} from ({{0}} - timestamp_ntz'1970-01-01 00:00:00')) * {UNITS[part]} as bigint)"
    for part in ("day", "hour", "minute", "second")
)
"""Microseconds since 1970 of a timestamp without zone, which no session time zone may bend."""


Places = Callable[[Sequence[Column], Column], Column]
"""From columns that distinguish rows, and whether a row has a time, to the shards of the row."""


@dataclass(frozen=True)
class Stream:
    """A DataFrame as one side of a join; made by `ps.stream`."""

    frame: DataFrame
    time: str
    window: int | str  # microseconds, or a text that `Window.parse` reads
    key: tuple[str, ...] | None
    importance: str | Column | None
    lateness: int
    order: str | None
    columns: tuple[str, ...] | None
    matches: int | None = None
    lifetime: Column | None = None  # in microseconds


def stream(
    df: DataFrame,
    *,
    time: str,
    window: str | Sequence[tuple[Any, str]] | None = NOT_GIVEN,
    rows_per_key: int | None = None,
    key: str | Sequence[str] | None = None,
    importance: str | Column | None = None,
    lateness: str = "0 seconds",
    order: str | None = None,
    columns: Sequence[str] | None = None,
    matches: int | None = None,
    lifetime: str | Column | None = None,
) -> Stream:
    """A DataFrame as one side of a join.

    * `time`: the column of event time, a timestamp; `window`: how long its rows wait for partners, such as "10 minutes", None for no end,
      "tumbling:10 minutes" for consecutive windows, counted from 1970 in UTC, "landmark:2024-01-01 00:00:00" for all rows from a time on,
      "rows:100" for the last 100 rows of the stream (then the join has one shard), or pairs (time, duration) where it changes, such as
      [("2024-01-01", "10 minutes"), ("2024-02-01", "5 minutes")]: a row keeps the window of its own time.
    * `lifetime`: how long each row waits by itself: a column or SQL expression, an interval of days to seconds such as `ends - starts`, or
      whole numbers, which are microseconds. `window` may be left out then; it says no more than how fast statistics age.
    * `rows_per_key`: instead of `window`, the last so many rows of the stream with the same key.
    * `key`: the columns to match, where their names differ from `on`.
    * `importance`: a column or SQL expression, > 0: what the row is worth.
    * `lateness`: how far rows of this stream may be out of order.
    * `order`: a column that orders rows of equal time; without one, a hash of all kept columns does.
    * `columns`: the columns to keep; all of them by default.
    * `matches`: a promise that a row finds at most so many partners (of more than two streams: takes part in so many joined rows).
      It leaves memory after the last of them. What a broken promise misses is in `lost`, and `ps.settle` makes it.
    """
    if not isinstance(df, DataFrame):
        raise PenstockError(f"df must be a Spark DataFrame, got {df!r}")
    names = tuple(df.columns)
    check_columns("time", [time], names)
    kind = df.schema[time].dataType
    if not isinstance(kind, T.TimestampType | T.TimestampNTZType):
        raise PenstockError(f"time must be a column of timestamps, got {time!r} of type {kind.simpleString()}")
    own = None if key is None else names_in("key", key)
    check_columns("key", own or (), names)
    check_columns("order", [] if order is None else [order], names)
    if order is not None and isinstance(df.schema[order].dataType, _UNORDERED):
        raise PenstockError(
            f"order must be a column of numbers, texts or times, got {order!r} of type {df.schema[order].dataType.simpleString()}"
        )
    kept = None if columns is None else names_in("columns", columns)
    check_columns("columns", names if kept is None else kept, names)
    _check_importance(df, time, importance)
    for field in df.schema:
        if any("watermark" in name.lower() for name in field.metadata or {}):
            raise PenstockError(
                f"df must not carry a watermark, got one on {field.name!r}: Penstock keeps event time itself, and Spark would not let you "
                'set a watermark on the joined rows. Leave withWatermark out here, and say lateness="..." instead'
            )
    length, late = window_of(window, rows_per_key, mortal=lifetime is not None), microseconds(lateness, "lateness")
    check_lateness(length, late)
    check_matches(matches)
    return Stream(df, time, length, own, importance, late, order, kept, matches, _lifetime(df, time, lifetime))


def names_in(argument: str, value: Any) -> tuple[str, ...]:
    """One name or several."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Sequence) or not all(isinstance(name, str) for name in value):
        raise PenstockError(f"{argument} must be the name of a column or a list of names, got {value!r}")
    return tuple(value)


def _check_importance(df: DataFrame, time: str, importance: Any) -> None:
    if importance is None:
        return
    kind = _type_of("importance", df, time, importance)
    if not isinstance(kind, T.NumericType):
        raise PenstockError(f"importance must be a number, got {importance!r} of type {kind.simpleString()}")


def _lifetime(df: DataFrame, time: str, lifetime: Any) -> Column | None:
    """Lifetimes in microseconds."""
    if lifetime is None:
        return None
    kind = _type_of("lifetime", df, time, lifetime)
    column = F.expr(lifetime) if isinstance(lifetime, str) else lifetime
    if isinstance(kind, T.DayTimeIntervalType):
        whole = column.cast(T.DayTimeIntervalType())  # which has all the fields
        parts = [F.extract(F.lit(part), whole) * F.lit(UNITS[part]) for part in ("day", "hour", "minute", "second")]
        return reduce(add, parts).cast("bigint")
    if not isinstance(kind, T.IntegralType):
        raise PenstockError(
            "lifetime must be an interval of days to seconds, or a whole number of microseconds, "
            f"got {lifetime!r} of type {kind.simpleString()}"
        )
    return column.cast("bigint")


def _type_of(argument: str, df: DataFrame, time: str, value: Any) -> T.DataType:
    """The type of a column or an SQL expression over a frame."""
    if not isinstance(value, str | Column):
        raise PenstockError(f"{argument} must be a column or an SQL expression, got {value!r}")
    try:
        with unlogged():
            column = F.expr(value) if isinstance(value, str) else value
            return df.select(F.col(quoted(time)), column.alias("it")).schema[1].dataType
    except Exception as error:
        told = first_line(error)
        raise PenstockError(f"{argument} must be an SQL expression over {', '.join(df.columns)}, got {value!r}: {told}") from None


def prepared(side: Stream, sent: Mapping[str, Column], out: Mapping[str, str], weighed: bool, places: Places) -> DataFrame:
    """The columns that travel: shard, what is compared (`sent`), payload (columns `out`, under their new names); time, order and
    importance where needed. A row that goes to several shards is there once for each.
    """
    frame = side.frame
    importance = F.lit(1.0) if side.importance is None else F.expr(side.importance) if isinstance(side.importance, str) else side.importance
    kinds = {field.name: field.dataType for field in frame.schema}
    row = [F.col(quoted(name)) for name in dict.fromkeys([side.time, *out]) if is_hashable(kinds[name])]
    found = places(row, F.col(quoted(side.time)).isNotNull())
    columns = [
        found.alias(SHARD),
        *([] if side.time in out else [micros(side.time, kinds[side.time]).alias(TIME)]),
        *([] if side.order is None else [F.col(quoted(side.order)).alias(ORDER)]),
        *(column.alias(name) for name, column in sent.items()),
        *([importance.cast("double").alias(IMPORTANCE)] if weighed else []),
        *([] if side.lifetime is None else [side.lifetime.alias(LIFETIME)]),
        *(F.col(quoted(column)).alias(name) for column, name in out.items()),
    ]
    chosen = frame.select(*columns)
    if not isinstance(chosen.schema[0].dataType, T.ArrayType):
        return chosen
    return chosen.select(F.explode(SHARD).alias(SHARD), *(F.col(quoted(name)) for name in chosen.columns[1:]))


def is_hashable(kind: T.DataType) -> bool:
    """Whether Spark hashes values of this type."""
    return not any(isinstance(part, T.MapType | T.VariantType) for part in _parts(kind))


def micros(name: str, kind: T.DataType) -> Column:
    """A column of timestamps in microseconds since 1970."""
    return F.unix_micros(F.col(quoted(name))) if isinstance(kind, T.TimestampType) else F.expr(_ZONELESS.format(quoted(name)))


def keys_of(name: str, side: Stream, on: str | Sequence[str] | None) -> tuple[str, ...]:
    """The key columns of a stream."""
    wanted = side.key if side.key is not None else () if on is None else names_in("on", on)
    if not wanted:
        raise PenstockError(f"on must name the key columns, got nothing for stream {name}")
    check_columns(f"on, for stream {name},", wanted, tuple(side.frame.columns))
    if len({column.lower() for column in wanted}) < len(wanted):
        raise PenstockError(f"on, for stream {name}, must name each column once, got {', '.join(wanted)}")
    return wanted


def check_types(streams: Mapping[str, Stream], keys: Sequence[Sequence[str]]) -> None:
    """Keys of all streams have the same number of columns and the same types, and these can be compared."""
    fields = [[s.frame.schema[key] for key in k] for s, k in zip(streams.values(), keys, strict=True)]
    kinds = [[field.dataType.simpleString() for field in own] for own in fields]
    if len({len(kind) for kind in kinds}) > 1:
        got = "; ".join(f"{n} has {', '.join(k)}" for n, k in zip(streams, keys, strict=True))
        raise PenstockError(f"keys must have as many columns in all streams, got: {got}")
    if any(kind != kinds[0] for kind in kinds):
        got = "; ".join(f"{n} has {', '.join(kind)}" for n, kind in zip(streams, kinds, strict=True))
        raise PenstockError(f"keys must have the same types in all streams, got: {got}; cast one of them")
    for field in fields[0]:
        trouble = unfit(field.dataType)
        if trouble is not None:
            raise PenstockError(f"on {trouble[0]}, got {field.name!r} of type {field.dataType.simpleString()}{trouble[1]}")


def unfit(kind: T.DataType) -> tuple[str, str] | None:
    """Why values of a type cannot be compared for equality, and the remedy; None where they can.

    >>> unfit(T.LongType()) is None, unfit(T.MapType(T.LongType(), T.LongType()))
    (True, ('must name columns of types that can be ordered', ''))
    """
    parts = list(_parts(kind))
    if any(isinstance(part, T.MapType | T.VariantType) for part in parts):
        return "must name columns of types that can be ordered", ""
    if any(isinstance(part, T.FloatType | T.DoubleType) for part in parts[1:]):
        return (
            "must not name arrays or structs with floats in them, whose equality is not that of their bytes",
            ": name the floats themselves, or cast them to decimals",
        )
    if "collate" in kind.simpleString() and "UTF8_BINARY" not in kind.simpleString():
        return (
            "must name columns that are equal where their bytes are",
            ": join on lower(...) or another canonical form, cast to string",
        )
    return None


def _parts(kind: T.DataType) -> Iterator[T.DataType]:
    """A type and all types in it."""
    yield kind
    inner = {T.ArrayType: ("elementType",), T.MapType: ("keyType", "valueType")}.get(type(kind), ())
    for part in [*(getattr(kind, name) for name in inner), *(field.dataType for field in getattr(kind, "fields", ()))]:
        yield from _parts(part)


def check_columns(argument: str, wanted: Sequence[Any], there: Sequence[str]) -> None:
    """Each name is there, and only once; Spark does not distinguish upper from lower case."""
    folded = [name.lower() for name in there]
    for column in wanted:
        if not isinstance(column, str):
            raise PenstockError(f"{argument} must name a column of the frame by its name, got {column!r}")
        if column not in there or folded.count(column.lower()) != 1:
            trouble = "no such column" if column not in there else "it is there more than once"
            raise PenstockError(f"{argument} must name a column of the frame, got {column!r}: {trouble} in {', '.join(there)}")


def quoted(name: str) -> str:
    """A column name for SQL."""
    return "`" + name.replace("`", "``") + "`"


def comparable(column: Column, kind: T.DataType) -> Column:
    """A column with equal hashes where values are equal: Spark hashes the two zeros apart."""
    return F.when(column == 0, F.lit(0).cast(kind)).otherwise(column) if isinstance(kind, T.DoubleType | T.FloatType) else column
