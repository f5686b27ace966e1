"""The predicate of a join as op codes over columns of numbers, for compiled loops (readings 27: a predicate per pair of streams).

Columns that must be equal, pair by pair, form a *class*: R.a = S.a and S.a = T.b make {R.a, S.a, T.b} one class, equal values
of which have equal codes; so any two of its streams can be joined directly. All other links compare values pair by pair.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.core.compiled import inlined
from penstock.core.errors import PenstockError
from penstock.core.graph import Graph, Link, is_graph
from penstock.core.predicate import Predicate
from penstock.core.trace import Floats, Ints, Trace

_OPS = ("!=", "<", "<=", ">=", ">", "eps")
NOT_EQUAL, LESS, AT_MOST, AT_LEAST, MORE, NEAR = range(6)
EQUAL = -1


class Links(NamedTuple):
    """What compiled loops see of a predicate. Check c < 0 is: equal codes in class ~c; otherwise it is link c."""

    codes: Ints  # by tuple and class; negative where there is no value
    op: Ints  # by link
    at: Ints  # by link: its first column in `whole`, or in `real`
    width: Ints  # by link: how many columns
    is_real: Ints
    epsilon: Floats
    whole: Ints  # by tuple and column
    real: Floats
    known: NDArray[np.bool_]  # by tuple and link: whether it has a value


@dataclass(frozen=True)
class Condition:
    """A predicate over a trace: which streams are in each class and in each link, and the columns."""

    classes: tuple[frozenset[int], ...]
    pairs: tuple[tuple[int, int], ...]
    links: Links
    distinct: tuple[int, ...]  # codes of each class

    def checks(self, stream: int, bound: Iterable[int]) -> list[tuple[int, int]]:
        """What to check when a tuple of `stream` joins the bound ones: each a check and the stream to compare with."""
        order = list(bound)
        found = []
        for number, members in enumerate(self.classes):
            met = [other for other in order if other in members]
            if stream in members and met:
                found.append((~number, met[0]))
        for number, (low, high) in enumerate(self.pairs):
            if (stream == low and high in order) or (stream == high and low in order):
                found.append((number, high if stream == low else low))
        return found


def read_condition(trace: Trace, predicate: Any, rows: Ints, *, cross: bool = False) -> Condition:
    """Read a predicate on the key, which holds for every pair of streams, or a join graph; `rows` is the order of tuples.

    >>> trace = Trace({"stream": ["R", "S", "T"], "time": [0, 1, 2], "key": [7, 7, 9], "a": [1, 2, 3]})
    >>> condition = read_condition(trace, "R.key = S.key, S.key = T.a, R.a < T.a", np.arange(3))
    >>> condition.classes, condition.pairs, condition.checks(2, [1, 0])
    ((frozenset({0, 1, 2}),), ((0, 2),), [(-1, 1), (0, 0)])
    """
    n = trace.n_streams
    if is_graph(predicate):
        graph = Graph.parse(predicate, trace.streams, cross=cross)
        for stream, name in enumerate(trace.streams):
            missing = [column for column in graph.columns(stream) if column not in trace.table.column_names]
            if missing:
                raise PenstockError(f"predicate names {name}.{missing[0]}, the trace has: {', '.join(trace.table.column_names)}")
        classes, rest = _classes(graph)
        codes = [_codes(trace, members) for members in classes]
        return _condition(trace, [frozenset(members) for members in classes], codes, rest, rows)
    parsed = Predicate.parse(predicate)
    if parsed.name == "user":
        raise PenstockError('predicate must be a comparison for strategy=, such as "=", "<" or "eps:0.5", got a function')
    if parsed.is_equality:
        key = trace.key if len(trace.key_columns) > 1 else _codes(trace, dict.fromkeys(range(n), trace.key_columns[0]))
        return _condition(trace, [frozenset(range(n))], [key], [], rows)
    columns = trace.key_columns
    pairs = [Link(low, high, columns, columns, parsed) for high in range(n) for low in range(high)]
    return _condition(trace, [], [], pairs, rows)


@inlined
def holds(links: Links, check: int, u: int, v: int) -> bool:
    """Whether a check holds for two tuples, the first from the stream of the lower position."""
    if check < 0:
        return bool(links.codes[u, ~check] == links.codes[v, ~check]) and links.codes[u, ~check] >= 0
    if not (links.known[u, check] and links.known[v, check]):
        return False
    op, at = links.op[check], links.at[check]
    if op == NEAR and links.width[check] > 1:
        total = 0.0
        for column in range(at, at + links.width[check]):
            total += (links.real[u, column] - links.real[v, column]) ** 2
        return bool(np.sqrt(total) <= links.epsilon[check])
    if links.is_real[check]:
        return _compare_real(op, links.real[u, at], links.real[v, at], links.epsilon[check])
    return _compare_whole(op, links.whole[u, at], links.whole[v, at], links.epsilon[check])


@inlined
def _compare_whole(op: int, a: int, b: int, epsilon: float) -> bool:
    if op == NEAR:
        return bool(abs(a - b) <= epsilon)
    if op <= LESS:
        return bool(a != b) if op == NOT_EQUAL else bool(a < b)
    if op == AT_MOST:
        return bool(a <= b)
    return bool(a >= b) if op == AT_LEAST else bool(a > b)


@inlined
def _compare_real(op: int, a: float, b: float, epsilon: float) -> bool:
    if op == NEAR:
        return bool(abs(a - b) <= epsilon)
    if op <= LESS:
        return bool(a != b) if op == NOT_EQUAL else bool(a < b)
    if op == AT_MOST:
        return bool(a <= b)
    return bool(a >= b) if op == AT_LEAST else bool(a > b)


def _classes(graph: Graph) -> tuple[list[dict[int, str]], list[Link]]:
    """Equality links as classes (stream -> column), and the other links. A class has at most one column of a stream."""
    classes: list[dict[int, str]] = []
    rest: list[Link] = []
    for link in graph.links:
        if not link.predicate.is_equality:
            rest.append(link)
            continue
        merged = {link.low: link.low_columns[0], link.high: link.high_columns[0]}
        for known in [c for c in classes if any(c.get(stream) == column for stream, column in merged.items())]:
            if all(known.get(stream, column) == column for stream, column in merged.items()):
                merged |= known
                classes.remove(known)
        classes.append(merged)
    return classes, rest


def _codes(trace: Trace, members: dict[int, str]) -> Ints:
    """One integer per row of these streams' columns, by rank where they are whole numbers; a negative one where there is none."""
    out = np.full(len(trace), -1, dtype=np.int64)
    by_column = {name: [stream for stream, column in members.items() if column == name] for name in dict.fromkeys(members.values())}
    parts = [(np.flatnonzero(np.isin(trace.stream, streams)), trace.key_values(name)) for name, streams in by_column.items()]
    values = [column.take(pa.array(rows)) for rows, column in parts]
    types = {column.type for column in values if not pa.types.is_null(column.type)}
    if all(pa.types.is_integer(kind) for kind in types) and types:
        kind = pa.int64()
    elif all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in types) and types:
        kind = pa.float64()
    elif len(types) > 1:
        told = " = ".join(f"{trace.streams[stream]}.{column}" for stream, column in members.items())
        raise PenstockError(f"predicate {told} must compare columns of one type, got {', '.join(sorted(map(str, types)))}")
    else:
        kind = next(iter(types), pa.int64())
    column = pa.concat_arrays([part.cast(kind) for part in values])
    rows = np.concatenate([at for at, _ in parts])
    missing = column.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_integer(kind):
        ranks = np.unique(np.asarray(column.fill_null(0)), return_inverse=True)[1].astype(np.int64)
    else:
        ranks = np.asarray(column.dictionary_encode().indices.fill_null(0)).astype(np.int64)
    out[rows] = np.where(missing, -1, ranks)
    return out


def _condition(trace: Trace, classes: list[frozenset[int]], codes: list[Ints], rest: list[Link], rows: Ints) -> Condition:
    whole: list[Ints] = []
    real: list[Floats] = []
    known: list[NDArray[np.bool_]] = []
    at, width, is_real = [], [], []
    for link in rest:
        columns, present = _numbers(trace, link)
        fits = columns.dtype == np.int64 and columns.shape[1] == 1 and np.abs(columns).max(initial=0) < 2**62
        at.append(len(whole) if fits else len(real))
        width.append(columns.shape[1])
        is_real.append(not fits)
        known.append(present[rows])
        for number in range(columns.shape[1]):
            if fits:
                whole.append(columns[rows, number])
            else:
                real.append(columns[rows, number].astype(np.float64))
    links = Links(
        codes=_stacked([part[rows] for part in codes], len(rows), np.int64),
        op=np.array([_OPS.index(link.predicate.name) for link in rest], dtype=np.int64),
        at=np.array(at, dtype=np.int64),
        width=np.array(width, dtype=np.int64),
        is_real=np.array(is_real, dtype=np.int64),
        epsilon=np.array([link.predicate.epsilon for link in rest], dtype=np.float64),
        whole=_stacked(whole, len(rows), np.int64),
        real=_stacked(real, len(rows), np.float64),
        known=_stacked(known, len(rows), np.bool_),
    )
    return Condition(
        tuple(classes), tuple((link.low, link.high) for link in rest), links, tuple(int(part.max(initial=0)) + 1 for part in codes)
    )


def _numbers(trace: Trace, link: Link) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The columns of a link, those of its lower stream for its rows, those of the other for all others; and who has a value."""
    if link.predicate.name == "!=":
        if len(link.low_columns) > 1:
            codes = trace.key
        else:
            codes = _codes(trace, {link.low: link.low_columns[0], link.high: link.high_columns[0]})
        return codes[:, None], codes >= 0
    low, low_null = Trace(trace.table, key=link.low_columns, streams=trace.streams).numbers()
    high, high_null = (low, low_null)
    if link.low_columns != link.high_columns:
        high, high_null = Trace(trace.table, key=link.high_columns, streams=trace.streams).numbers()
    mine = trace.stream == link.low
    return np.where(mine[:, None], low, high), ~np.where(mine, low_null, high_null)


def _stacked(columns: list[Any], rows: int, kind: Any) -> NDArray[Any]:
    return np.stack(columns, axis=1) if columns else np.zeros((rows, 1), dtype=kind)
