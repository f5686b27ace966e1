"""What a plan needs to know of a stream: how fast it is, how much its window holds, how many values its columns have (Golab, Table 1)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from penstock.core.errors import PenstockError, choose
from penstock.core.graph import Graph, Link
from penstock.core.predicate import Predicate

MOST = 1e12
"""No number is larger: products of those of many streams are still numbers."""
KEY = "key"
"""The column of a join on one common attribute."""
BARE_TUPLE = 32
"""Bytes of a tuple besides its columns: time, arrival, and the links of its lists."""


@dataclass(frozen=True)
class WindowStats:
    """A stream and its window, as numbers. Golab's lambda, T, v and b are `rate`, `window`, `distinct` and `buckets`.

    >>> fast = WindowStats("S1", rate=10, window=100, distinct=500)
    >>> fast.size, WindowStats("S2", rate=10, window="rows:30", distinct=5).size
    (1000.0, 30.0)
    """

    name: str
    rate: float
    """Tuples per tick."""
    window: float | str
    """Ticks, or "rows:100" for the last hundred tuples."""
    distinct: float | Mapping[str, float]
    """Values of the key that occur, or of each column."""
    buckets: int = 1
    """Of its hash index; 1 is no index, and the window is scanned."""
    index: str | None = None
    """The column that is hashed; by default each that an equality looks at, in an index of its own."""
    predicate_cost: float = 1.0
    """What it costs to look at one tuple of this window, in comparisons."""
    volatility: float = 0.0
    """How far the rate rises at times: 1 means that it doubles."""
    bytes: float | Mapping[str, float] = 8
    """Of the columns of a tuple, together or each."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise PenstockError(f"name of a stream must be a text, got {self.name!r}")
        for field, least, open_end in (("rate", 0, True), ("predicate_cost", 0, True), ("volatility", 0, False)):
            _number(f"{field} of {self.name}", getattr(self, field), least, open_end)
        if not 0 < self.length <= MOST:
            raise PenstockError(
                f'window of {self.name} must be a number of ticks above 0 (up to {MOST:g}), or "rows:100", got {self.window!r}'
            )
        for field in ("distinct", "bytes"):
            given = getattr(self, field)
            for column, value in given.items() if isinstance(given, Mapping) else ((None, given),):
                _number(f"{field} of {self.name}" + (f".{column}" if column else ""), value, 1 if field == "distinct" else 0, False)
        if isinstance(self.distinct, Mapping) and not self.distinct:
            raise PenstockError(f"distinct of {self.name} must have at least one column, got {self.distinct!r}")
        if isinstance(self.buckets, bool) or not isinstance(self.buckets, int) or not 1 <= self.buckets <= MOST:
            raise PenstockError(f"buckets of {self.name} must be a whole number from 1 (no index) to {MOST:g}, got {self.buckets!r}")

    @property
    def counts_rows(self) -> bool:
        """Whether the window is the last so many tuples."""
        return isinstance(self.window, str)

    @property
    def length(self) -> float:
        """Of the window, in ticks or rows."""
        kind, _, rows = self.window.partition(":") if isinstance(self.window, str) else ("", "", "")
        if kind == "rows" and rows.strip().isdecimal():
            return float(rows)
        right = isinstance(self.window, int | float) and not isinstance(self.window, bool)
        return float(self.window) if right else math.nan

    @property
    def size(self) -> float:
        """Tuples in the window, on average."""
        return float(self.length if self.counts_rows else self.rate * self.length)

    @property
    def tuple_bytes(self) -> float:
        """What a tuple takes in the window."""
        return float(BARE_TUPLE + (sum(self.bytes.values()) if isinstance(self.bytes, Mapping) else self.bytes))

    def held(self, lag: float) -> float:
        """Tuples in the window when those that expired in the last `lag` ticks are still there."""
        return self.size + self.rate * lag

    def distinct_of(self, column: str) -> float:
        """Values of a column."""
        if not isinstance(self.distinct, Mapping):
            return self.distinct
        return self.distinct[choose(f"column of {self.name} in the predicate", column, self.distinct)]

    def at_peak(self) -> WindowStats:
        """The same stream when it is as fast as it gets."""
        return replace(self, rate=self.rate * (1 + self.volatility))


def _number(what: str, value: Any, least: float, above: bool) -> None:
    right = isinstance(value, int | float) and not isinstance(value, bool) and least <= value
    if right and value > MOST:
        raise PenstockError(f"{what} must be at most {MOST:g}, got {value!r}")
    if not right or (above and value == least):
        raise PenstockError(f"{what} must be a number {'above' if above else 'from'} {least}, got {value!r}")


def read_streams(given: Any) -> tuple[WindowStats, ...]:
    """Streams as `WindowStats`, or by name as a mapping of their numbers.

    >>> [s.size for s in read_streams({"R": {"rate": 2, "window": 50, "distinct": 10}, "S": {"rate": 1, "window": 9, "distinct": 3}})]
    [100.0, 9.0]
    """
    if isinstance(given, Mapping):
        found = [read_stream(name, facts) for name, facts in given.items()]
    elif isinstance(given, Iterable) and not isinstance(given, str):
        found = list(given)
    else:
        found = [given]
    if not all(isinstance(one, WindowStats) for one in found):
        raise PenstockError(f"streams must be WindowStats, or mappings of rate, window, distinct by name, got {given!r}")
    if len(found) < 2:
        raise PenstockError(f"streams must be two or more, got {len(found)}")
    names = [one.name for one in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise PenstockError(f"streams must have different names, got {twice[0]!r} more than once")
    return tuple(found)


def read_stream(name: str, facts: Any) -> WindowStats:
    """One stream from its numbers.

    >>> read_stream("R", {"rate": 2, "window": 50, "distinct": 10}).size
    100.0
    """
    if isinstance(facts, WindowStats):
        return replace(facts, name=name)
    known = [field.name for field in fields(WindowStats) if field.name != "name"]
    if not isinstance(facts, Mapping):
        raise PenstockError(f"stream {name} must be WindowStats or a mapping of {', '.join(known)}, got {facts!r}")
    for key in facts:
        choose(f"{name}: a number of a stream", key, known)
    for key in ("rate", "window", "distinct"):
        if key not in facts:
            raise PenstockError(f"{key} of {name} must be given, got nothing")
    return WindowStats(name, **facts)


def read_graph(on: Any, streams: tuple[WindowStats, ...], *, cross: bool = False) -> Graph:
    """The links of a join: those given, or equality of all streams on one column.

    >>> streams = read_streams([WindowStats(name, 1, 10, 5) for name in "RST"])
    >>> len(read_graph(None, streams).links), len(read_graph("R.a = S.a, S.b = T.b", streams).links)
    (3, 2)
    """
    names = tuple(one.name for one in streams)
    if on is None or (isinstance(on, str) and on.replace("_", "a").isalnum()):
        column = on or KEY
        every = [(i, j) for j in range(len(names)) for i in range(j)]
        graph = Graph(names, tuple(Link(i, j, (column,), (column,), Predicate("=")) for i, j in every))
    else:
        graph = Graph.parse(on, names, cross=cross)
        if graph.streams != names:
            raise PenstockError(f"on must be a graph of the streams {', '.join(names)}, got one of {', '.join(graph.streams)}")
    for position, one in enumerate(streams):
        for column in graph.columns(position):
            one.distinct_of(column)
        if one.index is not None:
            choose(f"index of {one.name}", one.index, equality_columns(graph, position))
    return graph


def equality_columns(graph: Graph, stream: int) -> tuple[str, ...]:
    """The columns of a stream that equalities look at: those that an index can serve."""
    links = [link for link in graph.links if stream in (link.low, link.high) and link.predicate.is_equality]
    return tuple(dict.fromkeys(link.columns_of(stream)[0] for link in links))
