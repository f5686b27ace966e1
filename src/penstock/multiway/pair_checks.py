"""The predicate of a join as checks over columns of numbers, for compiled loops.

Columns that must be equal, pair by pair, form a *class*: R.a = S.a and S.a = T.b make {R.a, S.a, T.b} one class, in which equal
values have equal codes; so any two of its streams can be joined directly. All other links compare values pair by pair
(docs/readings.md, 27: a predicate per pair of streams).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.core.compiled import inlined
from penstock.core.errors import PenstockError
from penstock.core.graph import Graph, Link
from penstock.core.link_columns import gathered, link_values
from penstock.core.predicate import Predicate
from penstock.core.problem import Problem
from penstock.core.trace import Floats, Ints, Trace, number_keys

_OPS = ("!=", "<", "<=", ">=", ">", "eps")
NOT_EQUAL, LESS, AT_MOST, AT_LEAST, MORE, NEAR = range(6)
_EQUAL = Predicate("=")


class Links(NamedTuple):
    """What compiled loops see of a predicate. Check c < 0 is: equal codes in class ~c; otherwise it is link c."""

    codes: Ints  # by tuple and class; negative where there is no value
    values: Floats  # by tuple and slot; NaN where there is no value
    op: Ints  # by link
    at: Ints  # by link: its first slot
    end: Ints
    epsilon: Floats


@dataclass(frozen=True)
class Condition:
    """A predicate over a trace: the streams in each class and each link, with the numbers they compare."""

    classes: tuple[frozenset[int], ...]
    rest: tuple[Link, ...]
    links: Links
    graph: Graph  # with a link between any two streams of a class
    numbers: tuple[int, ...]  # the check of each link of the graph

    def checks(self, stream: int, bound: Iterable[int]) -> list[tuple[int, int]]:
        """What to check when a tuple of `stream` joins the bound ones: each a check and the stream to compare with."""
        order = list(bound)
        met = [
            (~number, next((s for s in order if s in members), None)) for number, members in enumerate(self.classes) if stream in members
        ]
        found = [(check, other) for check, other in met if other is not None]
        for number, link in enumerate(self.rest):
            if stream in (link.low, link.high) and link.low + link.high - stream in order:
                found.append((number, link.low + link.high - stream))
        return found

    @property
    def distinct(self) -> int:
        """Codes of the class that has most."""
        return int(self.links.codes.max(initial=0)) + 1


def read_condition(trace: Trace, problem: Problem, rows: Ints) -> Condition:
    """The predicate of a problem: on the key, where it holds for every pair of streams, or a join graph. `rows` is the order of tuples.

    >>> trace = Trace({"stream": ["R", "S", "T"], "time": [0, 1, 2], "key": [7, 7, 9], "a": [1, 2, 3]})
    >>> problem = Problem.of(trace.streams, window=9, memory=9, predicate="R.key = S.key, S.key = T.a, R.a < T.a")
    >>> condition = read_condition(trace, problem, np.arange(3))
    >>> condition.classes, len(condition.graph.links), condition.checks(2, [1, 0])
    ((frozenset({0, 1, 2}),), 4, [(-1, 1), (0, 0)])
    """
    if problem.predicate.name == "user":
        raise PenstockError('predicate must be a comparison for strategy=, such as "=", "<" or "eps:0.5", got a function')
    graph = problem.graph
    if graph is None:
        columns = trace.key_columns
        if problem.predicate.takes_numbers and problem.predicate.name != "eps" and len(columns) > 1:
            raise PenstockError(f"predicate {problem.predicate.name!r} compares one key column, got {len(columns)}")
        pairs = combinations(range(trace.n_streams), 2)
        graph = Graph(trace.streams, tuple(Link(low, high, columns, columns, problem.predicate) for low, high in pairs))
    classes, rest = _classes(graph)
    codes = [_codes(trace, members, graph)[rows] for members in classes]
    others = Graph(graph.streams, tuple(rest))
    closed = [
        (~number, Link(low, high, members[low], members[high], _EQUAL))
        for number, members in enumerate(classes)
        for low, high in combinations(sorted(members), 2)
    ]
    links = Links(
        codes=np.stack(codes, axis=1) if codes else np.full((len(rows), 1), -1, dtype=np.int64),
        values=link_values(trace, others)[rows] if rest else np.zeros((len(rows), 1)),
        op=np.array([_OPS.index(link.predicate.name) for link in rest], dtype=np.int64),
        at=np.array([slot.start for slot in others.slots] if rest else [], dtype=np.int64),
        end=np.array([slot.stop for slot in others.slots] if rest else [], dtype=np.int64),
        epsilon=np.array([link.predicate.epsilon for link in rest], dtype=np.float64),
    )
    closure = Graph(graph.streams, (*(link for _, link in closed), *rest))
    numbers = (*(number for number, _ in closed), *range(len(rest)))
    return Condition(tuple(frozenset(members) for members in classes), tuple(rest), links, closure, numbers)


@inlined
def holds(links: Links, check: int, u: int, v: int) -> bool:
    """Whether a check holds for two tuples, the first from the stream of the lower position. NaN compares with nothing."""
    if check < 0:
        return bool(links.codes[u, ~check] == links.codes[v, ~check]) and links.codes[u, ~check] >= 0
    op, at = links.op[check], links.at[check]
    a, b = links.values[u, at], links.values[v, at]
    if op == NEAR:
        if links.end[check] == at + 1:
            return bool(abs(a - b) <= links.epsilon[check])
        total = 0.0
        for slot in range(at, links.end[check]):
            total += (links.values[u, slot] - links.values[v, slot]) ** 2
        return bool(np.sqrt(total) <= links.epsilon[check])
    if op == NOT_EQUAL:
        differ, known = False, True
        for slot in range(at, links.end[check]):
            a, b = links.values[u, slot], links.values[v, slot]
            differ = differ or a != b
            known = known and a == a and b == b
        return differ and known
    if op <= AT_MOST:
        return bool(a < b) if op == LESS else bool(a <= b)
    return bool(a >= b) if op == AT_LEAST else bool(a > b)


def _classes(graph: Graph) -> tuple[list[dict[int, tuple[str, ...]]], list[Link]]:
    """Equality links as classes (stream -> columns), and the other links. A class has one set of columns of a stream."""
    classes: list[dict[int, tuple[str, ...]]] = []
    rest: list[Link] = []
    for link in graph.links:
        if not link.predicate.is_equality:
            rest.append(link)
            continue
        merged = {link.low: link.low_columns, link.high: link.high_columns}
        for known in [c for c in classes if any(c.get(stream) == columns for stream, columns in merged.items())]:
            if all(known.get(stream, columns) == columns for stream, columns in merged.items()):
                merged |= known
                classes.remove(known)
        classes.append(merged)
    return classes, rest


def _codes(trace: Trace, members: dict[int, tuple[str, ...]], graph: Graph) -> Ints:
    """One integer per row of these streams' columns, by rank where they are whole numbers; a negative one where there is none."""
    streams = sorted(members)
    what = " = ".join(f"{graph.streams[stream]}.{'/'.join(members[stream])}" for stream in streams)
    rows = np.concatenate([np.flatnonzero(trace.stream == stream) for stream in streams])
    columns = [gathered(trace, streams, names, what) for names in zip(*(members[stream] for stream in streams), strict=True)]
    out = np.full(len(trace), -1, dtype=np.int64)
    if len(columns) == 1 and pa.types.is_integer(columns[0].type):
        missing = columns[0].is_null().to_numpy(zero_copy_only=False)
        ranks = np.unique(np.asarray(columns[0].fill_null(0)), return_inverse=True)[1]
        out[rows] = np.where(missing, -1, ranks)
    else:
        out[rows] = number_keys(columns)
    return out
