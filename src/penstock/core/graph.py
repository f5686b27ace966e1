"""A join graph: which columns of which streams must compare how, where a join is more than one predicate on one key.

    R.a = S.a        S.b < T.b        |R.x - T.x| <= 0.5        |R.(x, y) - T.(x, y)| <= 2

Every link must hold; streams without a link between them match freely (Golab 5.4, "joins on different attributes").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.core.errors import PenstockError, choose
from penstock.core.predicate import Predicate

_FLIPPED = {"<": ">", "<=": ">=", "=": "=", "!=": "!=", ">=": "<=", ">": "<"}
_NAME = r"`[^`]+`|\w+"
_COMPARISON = re.compile(rf"\s*({_NAME})\.({_NAME})\s*(<=|>=|!=|=|<|>)\s*({_NAME})\.({_NAME})\s*")
_SIDE = rf"({_NAME})\.(?:({_NAME})|\(([^()]*)\))"
_DISTANCE = re.compile(rf"\s*\|\s*{_SIDE}\s*-\s*{_SIDE}\s*\|\s*<=\s*(\S+)\s*")
_HELP = 'such as "R.a = S.a", "S.b < T.b" or "|R.x - T.x| <= 0.5"'


@dataclass(frozen=True)
class Link:
    """A condition between two streams; the one of the lower position comes first."""

    low: int
    high: int
    low_columns: tuple[str, ...]
    high_columns: tuple[str, ...]
    predicate: Predicate

    def columns_of(self, stream: int) -> tuple[str, ...]:
        """The columns of one of its two streams."""
        return self.low_columns if stream == self.low else self.high_columns

    def text(self, streams: Sequence[str]) -> str:
        """As it would be written."""
        low, high = streams[self.low], streams[self.high]
        if self.predicate.name != "eps":
            return f"{low}.{self.low_columns[0]} {self.predicate.name} {high}.{self.high_columns[0]}"
        if len(self.low_columns) == 1:
            return f"|{low}.{self.low_columns[0]} - {high}.{self.high_columns[0]}| <= {self.predicate.epsilon:g}"
        return f"|{low}.({', '.join(self.low_columns)}) - {high}.({', '.join(self.high_columns)})| <= {self.predicate.epsilon:g}"


@dataclass(frozen=True)
class Graph:
    """Links between streams.

    >>> graph = Graph.parse("R.a = S.a, T.b > S.b", ("R", "S", "T"))
    >>> [link.text(graph.streams) for link in graph.links]
    ['R.a = S.a', 'S.b < T.b']
    >>> graph.columns(1), len(graph.between(0, 2))
    (('a', 'b'), 0)
    """

    streams: tuple[str, ...]
    links: tuple[Link, ...]

    @classmethod
    def parse(cls, spec: Any, streams: Sequence[str], *, cross: bool = False) -> Graph:
        """From texts, one per link or several with commas between; a graph in parts is refused unless `cross`."""
        if isinstance(spec, Graph):
            return spec
        parts = _parts(spec) if isinstance(spec, str) else list(spec) if isinstance(spec, Iterable) else []
        if not parts or not all(isinstance(part, str) for part in parts):
            raise PenstockError(f"predicate of a join graph must be links {_HELP}, got {spec!r}")
        graph = cls(tuple(streams), tuple(_link(part, streams) for part in parts))
        pieces = graph.pieces()
        if len(pieces) > 1 and not cross:
            told = " and ".join("{" + ", ".join(streams[i] for i in piece) + "}" for piece in pieces)
            raise PenstockError(f"predicate must link all streams, got no link between {told}: every pair of them would match (cross=True)")
        return graph

    def between(self, i: int, j: int) -> tuple[Link, ...]:
        """The links of two streams, in either order."""
        return tuple(link for link in self.links if (link.low, link.high) == (min(i, j), max(i, j)))

    def columns(self, stream: int) -> tuple[str, ...]:
        """The columns of a stream that links look at, each once."""
        found = [name for link in self.links if stream in (link.low, link.high) for name in link.columns_of(stream)]
        return tuple(dict.fromkeys(found))

    def pieces(self) -> list[list[int]]:
        """The streams, in connected parts.

        >>> Graph.parse("R.a = S.a", ("R", "S", "T"), cross=True).pieces()
        [[0, 1], [2]]
        """
        part = list(range(len(self.streams)))
        for link in self.links:
            one, other = part[link.low], part[link.high]
            part = [min(one, other) if p in (one, other) else p for p in part]
        return [[i for i, p in enumerate(part) if p == root] for root in sorted(set(part))]


def is_graph(spec: Any) -> bool:
    """Whether a predicate's spec is a join graph: a list of links, or a text that compares columns.

    >>> is_graph("eps:0.5"), is_graph("R.a = S.a"), is_graph(["R.a = S.a"])
    (False, True, True)
    """
    if isinstance(spec, str):
        return any(_COMPARISON.fullmatch(part) or part.lstrip().startswith("|") for part in _parts(spec))
    return isinstance(spec, Graph | list | tuple)


def _parts(text: str) -> list[str]:
    """Cut at commas and AND outside of parentheses."""
    return [part for part in re.split(r",(?![^()]*\))|\s+[aA][nN][dD]\s+", text) if part.strip()]


def _link(text: str, streams: Sequence[str]) -> Link:
    compared = _COMPARISON.fullmatch(text)
    if compared:
        one, own = _bare(compared[1]), _listed(compared[2])
        other, theirs = _bare(compared[4]), _listed(compared[5])
        name, epsilon = compared[3], 0.0
    else:
        near = _DISTANCE.fullmatch(text)
        if not near:
            raise PenstockError(f"predicate must be links {_HELP}, got {text.strip()!r}")
        one, own = _bare(near[1]), _listed(near[2], near[3])
        other, theirs = _bare(near[4]), _listed(near[5], near[6])
        if len(own) != len(theirs) or not own:
            raise PenstockError(f"predicate must measure a distance between equally many columns, got {text.strip()!r}")
        parsed = Predicate.parse(f"eps:{near[7]}")
        name, epsilon = parsed.name, parsed.epsilon
    i, j = (streams.index(choose("stream of the predicate", stream, streams)) for stream in (one, other))
    if i == j:
        raise PenstockError(f"predicate must link two streams, got {text.strip()!r}, which looks at {streams[i]} alone")
    if i < j:
        return Link(i, j, own, theirs, Predicate(name, epsilon))
    return Link(j, i, theirs, own, Predicate(_FLIPPED.get(name, name), epsilon))


def _bare(name: str) -> str:
    return name.strip().strip("`")


def _listed(one: str | None, several: str | None = None) -> tuple[str, ...]:
    return (_bare(one),) if one else tuple(_bare(name) for name in (several or "").split(",") if name.strip())
