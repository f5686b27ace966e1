"""The columns that the links of a join graph look at, as numbers: equal values get equal numbers across the streams and columns of a link.

Comparisons by size and distances take the numbers themselves; timestamps and dates count microseconds. Equality takes values of any type,
numbered. Only the rows of the two linked streams are looked at: a column may be null, or mean something else, in the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.errors import PenstockError
from penstock.core.graph import Graph
from penstock.core.trace import Floats, Ints, Trace, number_keys

_WHOLE = 2**53  # up to here floating point has every whole number


def link_values(trace: Trace, graph: Graph) -> Floats:
    """One line per row, with the slots of `Graph.matrix`.

    >>> table = {"stream": ["R", "S", "T"], "time": [0, 0, 1], "a": ["x", "x", None], "b": [None, 3, 4]}
    >>> link_values(Trace(table, key=()), Graph.parse("R.a = S.a, S.b < T.b", ("R", "S", "T"))).tolist()
    [[0.0, nan], [0.0, 3.0], [nan, 4.0]]
    """
    values = np.full((len(trace), graph.slots[-1].stop), np.nan)
    for link, slots in zip(graph.links, graph.slots, strict=True):
        what = link.text(graph.streams)
        streams = (link.low, link.high)
        rows = np.concatenate([np.flatnonzero(trace.stream == stream) for stream in streams])
        for slot, names in enumerate(zip(link.low_columns, link.high_columns, strict=True), slots.start):
            column = gathered(trace, streams, names, what)
            values[rows, slot] = _numbers(column, what) if link.predicate.takes_numbers else _numbered(column)
    return values


def shared_keys(trace: Trace, graph: Graph) -> Ints:
    """The key numbers of a graph that amounts to equality on one key (`Graph.shared_key`).

    >>> table = {"stream": ["R", "S"], "time": [0, 1], "a": [5, None], "b": [None, 5]}
    >>> shared_keys(Trace(table, key=()), Graph.parse("R.a = S.b", ("R", "S"))).tolist()
    [0, 0]
    """
    assert graph.shared_key is not None
    if on_key(trace, graph):
        return trace.key
    streams = range(trace.n_streams)
    rows = np.concatenate([np.flatnonzero(trace.stream == stream) for stream in streams])
    what = ", ".join(link.text(graph.streams) for link in graph.links)
    columns = [gathered(trace, streams, names, what) for names in zip(*graph.shared_key, strict=True)]
    return number_keys([column.take(pa.array(np.argsort(rows))) for column in columns])


def on_key(trace: Trace, graph: Graph) -> bool:
    """Whether the links say that the key of the trace is equal in all streams, and nothing else.

    >>> trace = Trace({"stream": ["R", "S"], "time": [0, 1], "a": [5, 5]}, key="a")
    >>> on_key(trace, Graph.parse("R.a = S.a", ("R", "S")))
    True
    """
    shared = graph.shared_key
    return shared is not None and all(names == shared[0] for names in shared) and sorted(shared[0]) == sorted(trace.key_columns)


def gathered(trace: Trace, streams: Sequence[int], names: Sequence[str], what: str) -> pa.Array:
    """The rows of some streams, each with its own column, in one array of one type."""
    have = trace.table.column_names
    parts = []
    for stream, name in zip(streams, names, strict=True):
        if name not in have:
            raise PenstockError(f"predicate {what!r} must name columns of the trace, got {name!r}; it has: {', '.join(have)}")
        parts.append(trace.key_values(name).filter(pa.array(trace.stream == stream)))
    return together(parts, f"predicate {what!r}")


def together(parts: Sequence[pa.Array], what: str) -> pa.Array:
    """Columns that are to be compared one after the other, in a type that holds all of them exactly."""
    kinds = {_kind(part.type): part.type for part in parts if not pa.types.is_null(part.type)}
    if len(kinds) > 1:
        told = " and ".join(str(kind) for kind in kinds.values())
        raise PenstockError(f"{what} must compare columns of one type, got {told}")
    target = _common([part.type for part in parts if not pa.types.is_null(part.type)])
    try:
        return pa.concat_arrays([part.cast(target) for part in parts])
    except pa.ArrowInvalid as error:
        raise PenstockError(f"{what} compares columns that no common type ({target}) holds exactly: {error}") from None


def _kind(one: pa.DataType) -> str:
    if pa.types.is_integer(one) or pa.types.is_floating(one):
        return "number"
    if pa.types.is_string(one) or pa.types.is_large_string(one):
        return "text"
    if pa.types.is_date(one) or (pa.types.is_timestamp(one) and one.tz is None):
        return "time"
    return "zoned" if pa.types.is_timestamp(one) else str(one)


def _common(types: Sequence[pa.DataType]) -> pa.DataType:
    """A type that holds all of these, which are of one kind."""
    if not types or all(one == types[0] for one in types):
        return types[0] if types else pa.int64()
    if _kind(types[0]) == "number":
        return pa.float64() if any(map(pa.types.is_floating, types)) else pa.int64()
    zone = types[0].tz if _kind(types[0]) == "zoned" else None
    return pa.large_string() if _kind(types[0]) == "text" else pa.timestamp("us", tz=zone)


def _numbered(column: pa.Array) -> Floats:
    """Equal values, equal numbers; NaN for null."""
    codes = number_keys([column])
    return np.where(codes < 0, np.nan, codes.astype(np.float64))


def _numbers(column: pa.Array, what: str) -> Floats:
    """The values as floating point, NaN for null; large whole numbers relative to the least, which changes no comparison or distance."""
    null = column.is_null().to_numpy(zero_copy_only=False)
    if _kind(column.type) in ("time", "zoned"):
        try:
            column = column.cast(pa.timestamp("us", tz=getattr(column.type, "tz", None))).cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise PenstockError(f"predicate {what!r} compares times that do not fit microseconds: {error}") from None
    if _kind(column.type) != "number":
        raise PenstockError(f"predicate {what!r} compares by size and needs numeric columns, got {column.type}")
    values: Any = column.fill_null(0).to_numpy(zero_copy_only=False)
    if values.dtype.kind in "iu" and not null.all():
        least, most = int(values[~null].min()), int(values[~null].max())
        if max(-least, most) > _WHOLE // 2:
            if most - least > _WHOLE:
                raise PenstockError(f"predicate {what!r} compares whole numbers that must lie within 2**53, got {least} to {most}")
            values = np.where(null, least, values) - values.dtype.type(least)
    return np.where(null, np.nan, values.astype(np.float64))
