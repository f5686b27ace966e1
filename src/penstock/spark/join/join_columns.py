"""What a join compares: from `on=` and `predicate=` to the columns that travel for it, checked.

Equality on the same columns is a matter of keys. For everything else each stream sends what its links look at: whole numbers and fractions
as such, dates and times in microseconds, decimals without their point; columns that are only compared by = or != as they are, since
the shard gives equal values equal numbers (keys.py). NaN is no number here: it matches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from penstock.core.duration import UNITS
from penstock.core.errors import PenstockError
from penstock.core.facts import Through
from penstock.core.graph import Graph, Link, is_graph
from penstock.core.predicate import Predicate, PredicateSpec
from penstock.shard.shard_plan import check_width
from penstock.spark.join.stream import Stream, check_columns, check_types, keys_of, micros, quoted, unfit

_WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_FRACTION = (T.FloatType, T.DoubleType)
_DIGITS = 18  # of a decimal that fits 64 bits


@dataclass(frozen=True)
class Comparison:
    """The predicate of a join, and by stream the columns that it looks at."""

    predicate: Predicate  # of every pair; "=" where there is a graph
    columns: tuple[tuple[str, ...], ...]
    kinds: tuple[tuple[T.DataType, ...], ...]
    graph: Graph | None = None
    cross: bool = False
    numeric: tuple[tuple[bool, ...], ...] = field(default=())  # which of them travel as numbers
    through: tuple[Through, ...] = ()  # the relations that link the streams; the columns of a stream are in the order of their slots

    @property
    def by_key(self) -> bool:
        """Whether equal keys, named by `on`, and only they, match: then the result has them once."""
        return self.graph is None and self.predicate.is_equality

    @property
    def shared(self) -> bool:
        """Whether what must be equal in all streams is one key, however it is said."""
        return (self.graph is not None and self.graph.shared_key is not None) or self.by_key

    @property
    def text(self) -> str:
        """As a user would write it."""
        if self.graph is not None:
            return ", ".join(link.text(self.graph.streams) for link in self.graph.links)
        if self.through:
            return f"through {', '.join(one.name for one in self.through)}"
        return f"eps:{self.predicate.epsilon!r}" if self.predicate.name == "eps" else self.predicate.name

    @property
    def whole(self) -> bool:
        """Whether everything that is compared is a whole number."""
        return not any(isinstance(kind, _FRACTION) for kinds in self.kinds for kind in kinds)

    def links(self) -> tuple[Link, ...]:
        """Every pair's links: those of the graph, or the one predicate between all pairs; none where relations link the streams."""
        if self.through:
            return ()
        if self.graph is not None:
            return self.graph.links
        n = len(self.columns)
        return tuple(Link(i, j, self.columns[i], self.columns[j], self.predicate) for i in range(n) for j in range(i + 1, n))

    def options(self) -> dict[str, Any]:
        """The options of `Problem.of` that say it."""
        if self.by_key or self.through:
            return {}
        return {"predicate": self.text} | ({"cross": True} if self.cross else {})

    def sent(self, stream: int, name: str) -> Column:
        """A column as it travels."""
        at = self.columns[stream].index(name)
        return number_of(name, self.kinds[stream][at]) if self.numeric[stream][at] else F.col(quoted(name))


def compare(streams: Mapping[str, Stream], on: str | Sequence[str] | None, predicate: PredicateSpec, cross: bool) -> Comparison:
    """Read `on`, `predicate` and `cross`; what cannot be compared is refused here."""
    if is_graph(predicate):
        return _graph(streams, on, predicate, cross)
    if cross:
        raise PenstockError("cross allows streams without a link between them, so it needs a predicate of links, such as 'R.a = S.a'")
    chosen = Predicate.parse(predicate)
    if chosen.function is not None:
        raise PenstockError("predicate must be a text on Spark, got a function: say it in SQL as condition=")
    columns = tuple(keys_of(name, side, on) for name, side in streams.items())
    kinds = tuple(tuple(s.frame.schema[name].dataType for name in own) for s, own in zip(streams.values(), columns, strict=True))
    check_types(streams, columns)
    if chosen.is_equality:
        return Comparison(chosen, columns, kinds)
    check_width(chosen, columns[0])
    for name, own, types in zip(streams, columns, kinds, strict=True):
        for column, kind in zip(own, types, strict=True):
            _check_kind(f"{name}.{column}", kind, chosen)
    numeric = tuple(tuple(chosen.takes_numbers or isinstance(kind, _FRACTION) for kind in own) for own in kinds)  # NaN != 1 is no match
    return Comparison(chosen, columns, kinds, numeric=numeric)


def _graph(streams: Mapping[str, Stream], on: str | Sequence[str] | None, predicate: PredicateSpec, cross: bool) -> Comparison:
    if on is not None:
        raise PenstockError(f"on must be left out where predicate names the columns that are linked, got {on!r}")
    graph = Graph.parse(predicate, tuple(streams), cross=cross)
    sides = list(streams.values())
    columns = graph.shared_key or tuple(graph.columns(number) for number in range(len(sides)))
    for name, side, own in zip(streams, sides, columns, strict=True):
        check_columns(f"predicate, for stream {name},", own, tuple(side.frame.columns))
        if side.key is not None:
            raise PenstockError(
                f"key of stream {name} must be left out where predicate names the columns that are linked, got {side.key!r}"
            )
    kinds = tuple(tuple(s.frame.schema[name].dataType for name in own) for s, own in zip(sides, columns, strict=True))
    for link in graph.links:
        for low, high in zip(link.low_columns, link.high_columns, strict=True):
            one, other = sides[link.low].frame.schema[low].dataType, sides[link.high].frame.schema[high].dataType
            text = link.text(graph.streams)
            _check_kind(f"{graph.streams[link.low]}.{low}", one, link.predicate)
            _check_kind(f"{graph.streams[link.high]}.{high}", other, link.predicate)
            if one.simpleString() != other.simpleString() and not _alike(one, other, link.predicate):
                told = f"{one.simpleString()} and {other.simpleString()}"
                raise PenstockError(f"predicate must link columns of one type, got {text} of {told}; cast one of them")
    numeric = tuple(tuple(is_numeric(kind) for kind in own) for own in kinds)
    return Comparison(Predicate("="), columns, kinds, graph, cross, numeric)


def _check_kind(where: str, kind: T.DataType, predicate: Predicate) -> None:
    """Refuse a column that this predicate cannot compare."""
    if not predicate.takes_numbers:
        trouble = unfit(kind)
        if trouble is not None:
            raise PenstockError(f"predicate {trouble[0]}, got {where} of type {kind.simpleString()}{trouble[1]}")
    elif predicate.name == "eps" and isinstance(kind, T.DecimalType):
        raise PenstockError(f"predicate 'eps' must measure whole numbers or doubles, got {where} of type {kind.simpleString()}: cast it")
    elif not is_numeric(kind):
        raise PenstockError(
            f"predicate {predicate.name!r} must compare numbers, dates or timestamps (decimals of up to {_DIGITS} digits), "
            f"got {where} of type {kind.simpleString()}"
        )


def _alike(one: T.DataType, other: T.DataType, predicate: Predicate) -> bool:
    """Whether columns of two types can be compared; equality distinguishes whole numbers from fractions."""
    if predicate.takes_numbers:
        return isinstance(one, _WHOLE + _FRACTION) and isinstance(other, _WHOLE + _FRACTION)
    return any(isinstance(one, kinds) and isinstance(other, kinds) for kinds in (_WHOLE, _FRACTION))


def is_numeric(kind: T.DataType) -> bool:
    """Whether a column of this type can travel as a number of 64 bits.

    >>> is_numeric(T.DateType()), is_numeric(T.DecimalType(38, 2)), is_numeric(T.StringType())
    (True, False, False)
    """
    if isinstance(kind, T.DecimalType):
        return kind.precision <= _DIGITS
    return isinstance(kind, (*_WHOLE, *_FRACTION, T.DateType, T.TimestampType, T.TimestampNTZType))


def number_of(name: str, kind: T.DataType) -> Column:
    """A column as a bigint or a double: what shards compare, and what is cut into cells."""
    column = F.col(quoted(name))
    if isinstance(kind, _FRACTION):
        double = column.cast("double")
        return F.when(F.isnan(double), F.lit(None).cast("double")).otherwise(double)
    if isinstance(kind, T.DecimalType):
        return (column * F.expr(f"cast('1{'0' * kind.scale}' as decimal({kind.scale + 1}, 0))")).cast("bigint")
    if isinstance(kind, T.DateType):
        return F.unix_date(column).cast("bigint") * F.lit(UNITS["day"])
    if isinstance(kind, T.TimestampType | T.TimestampNTZType):
        return micros(name, kind)
    return column.cast("bigint")


def sql_condition(predicate: Predicate, low: Sequence[Column], high: Sequence[Column]) -> Column:
    """A link between columns as they travel, as the engine decides it: for settling."""
    if predicate.name == "eps":
        apart = [(one - other).cast("double") for one, other in zip(low, high, strict=True)]
        distance = F.abs(apart[0]) if len(apart) == 1 else F.sqrt(reduce(add, (one * one for one in apart)))
        return distance <= F.lit(predicate.epsilon)
    (one,), (other,) = low, high
    forms = {
        "=": one == other, "!=": one != other, "<": one < other, "<=": one <= other, ">": one > other, ">=": one >= other,
    }  # fmt: skip
    return forms[predicate.name]
