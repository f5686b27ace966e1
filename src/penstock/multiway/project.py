"""Early projection: carry only the columns that the join looks at or the result shows (Golab 3.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from penstock.core.errors import PenstockError, choose
from penstock.core.graph import Graph
from penstock.multiway.stats import WindowStats

_HELP = 'such as ["R.price", "S.city"]'


def project(streams: tuple[WindowStats, ...], graph: Graph, columns: Any) -> tuple[tuple[WindowStats, ...], dict[str, tuple[str, ...]]]:
    """The streams with tuples that carry only what is needed, and what that is, by stream.

    >>> from penstock.multiway.stats import read_graph
    >>> weights = {"key": 8, "price": 8, "note": 500}
    >>> streams = tuple(WindowStats(name, 1, 10, 5, bytes=weights) for name in "RS")
    >>> narrow, carried = project(streams, read_graph(None, streams), ["R.price"])
    >>> carried, streams[0].tuple_bytes, narrow[0].tuple_bytes
    ({'R': ('key', 'price'), 'S': ('key',)}, 548.0, 48.0)
    """
    names = graph.streams
    wanted: dict[str, list[str]] = {name: list(graph.columns(i)) for i, name in enumerate(names)}
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise PenstockError(f"columns must be a list of STREAM.COLUMN, {_HELP}, got {columns!r}")
    for text in columns:
        stream, dot, column = text.partition(".") if isinstance(text, str) else ("", "", "")
        if not dot or not column:
            raise PenstockError(f"columns must each be STREAM.COLUMN, {_HELP}, got {text!r}")
        one = streams[names.index(choose("stream of a column", stream, names))]
        if isinstance(one.bytes, Mapping):
            choose(f"column of {stream}", column, one.bytes)
        wanted[stream].append(column)
    carried = {name: tuple(dict.fromkeys(found)) for name, found in wanted.items()}
    return tuple(_narrowed(one, carried[one.name]) for one in streams), carried


def _narrowed(stream: WindowStats, carried: tuple[str, ...]) -> WindowStats:
    if not isinstance(stream.bytes, Mapping):
        return stream
    return replace(stream, bytes={name: size for name, size in stream.bytes.items() if name in carried})
