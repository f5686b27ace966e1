"""A join graph: which columns of which streams must compare how, where a join is more than one predicate on one key.

    R.a = S.a        S.b < T.b        |R.x - T.x| <= 0.5        |R.(x, y) - T.(x, y)| <= 2

Every link must hold; streams without a link between them match freely (Golab 5.4, "joins on different attributes").

In an array of values every link has a slot per column that it compares. A row has numbers in the slots of its own stream's links
(link_columns.py makes them: numbers as they are, anything else numbered so that equal values are equal); NaN is null and matches nothing.

    links      R.a = S.a    S.b < T.b          slots     0    1
    row of R   a = "x"                                   7.   nan
    row of S   a = "x", b = 3                            7.   3.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.errors import PenstockError, choose
from penstock.core.predicate import Predicate

_FLIPPED = {"<": ">", "<=": ">=", "=": "=", "!=": "!=", ">=": "<=", ">": "<"}
_QUOTED = r"`(?:[^`]|``)+`"
_NAME = rf"{_QUOTED}|\w+"
_COMPARISON = re.compile(rf"\s*({_NAME})\.({_NAME})\s*(<=|>=|!=|=|<|>)\s*({_NAME})\.({_NAME})\s*")
_LIST = rf"\((?:[^()`]|{_QUOTED})*\)"
_SIDE = rf"({_NAME})\.(?:({_NAME})|({_LIST}))"
_CUT = re.compile(rf"{_QUOTED}|{_LIST}|(?P<cut>,|\s+and\s+)|.", re.DOTALL | re.IGNORECASE)
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
        low, high = _side(streams[self.low], self.low_columns), _side(streams[self.high], self.high_columns)
        if self.predicate.name != "eps":
            return f"{low} {self.predicate.name} {high}"
        return f"|{low} - {high}| <= {repr(self.predicate.epsilon).removesuffix('.0')}"


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
            if spec.streams != tuple(streams):
                raise PenstockError(f"predicate must link the streams {', '.join(streams)}, got a graph of {', '.join(spec.streams)}")
            graph = spec
        else:
            parts = _parts(spec) if isinstance(spec, str) else list(spec) if isinstance(spec, Iterable) else []
            if not parts or not all(isinstance(part, str) for part in parts):
                raise PenstockError(f"predicate of a join graph must be links {_HELP}, got {spec!r}")
            graph = cls(tuple(streams), tuple(_link(text, streams) for part in parts for text in _parts(part)))
        pieces = graph.pieces()
        if len(pieces) > 1 and not cross:
            told = " and ".join("{" + ", ".join(streams[i] for i in piece) + "}" for piece in pieces)
            raise PenstockError(
                f"predicate must link all streams, got no link between {told}: all of them would match, which cross=True alone allows"
            )
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

    @cached_property
    def slots(self) -> tuple[slice, ...]:
        """Where each link's columns are in an array of values.

        >>> Graph.parse("R.a = S.a, |R.(x, y) - S.(x, y)| <= 1", ("R", "S")).slots
        (slice(0, 1, None), slice(1, 3, None))
        """
        ends = np.cumsum([len(link.low_columns) for link in self.links]).tolist()
        return tuple(slice(end - len(link.low_columns), end) for link, end in zip(self.links, ends, strict=True))

    def matrix(self, pair: tuple[int, int], low: NDArray[Any], high: NDArray[Any]) -> NDArray[np.bool_]:
        """Which rows of `low` (values, one line each) match which of `high`, for a pair of streams, the lower first.

        >>> graph = Graph.parse("R.a = S.a, S.b < T.b", ("R", "S", "T"))
        >>> graph.matrix((0, 1), np.array([[7.0, np.nan], [np.nan, np.nan]]), np.array([[7.0, 3.0]])).tolist()
        [[True], [False]]
        """
        found = np.ones((len(low), len(high)), dtype=bool)
        for link, at in zip(self.links, self.slots, strict=True):
            if (link.low, link.high) == pair:
                known = ~np.isnan(low[:, at]).any(axis=1)[:, None] & ~np.isnan(high[:, at]).any(axis=1)
                found &= known & link.predicate.matrix(low[:, at], high[:, at])
        return found

    @cached_property
    def shared_key(self) -> tuple[tuple[str, ...], ...] | None:
        """The key columns of each stream, where the links say no more than that these are equal in all streams; else None.

        Equality is transitive: R.a = S.b and S.b = T.a is a join on one key, whatever its columns are called.

        >>> Graph.parse("R.a = S.b, S.b = T.a", ("R", "S", "T")).shared_key
        (('a',), ('b',), ('a',))
        >>> Graph.parse("R.a = S.a, S.b = T.b", ("R", "S", "T")).shared_key is None
        True
        """
        equal: list[set[tuple[int, str]]] = []
        for link in self.links:
            if not link.predicate.is_equality:
                return None
            ends = {(link.low, link.low_columns[0]), (link.high, link.high_columns[0])}
            joined = ends.union(*(one for one in equal if one & ends))
            equal = [one for one in equal if not one & ends] + [joined]
        everywhere = list(range(len(self.streams)))
        if any(sorted(stream for stream, _ in one) != everywhere for one in equal):
            return None
        return tuple(tuple(dict(one)[stream] for one in equal) for stream in everywhere)


def is_graph(spec: Any) -> bool:
    """Whether a predicate's spec is a join graph: a list of links, or a text that compares columns.

    >>> is_graph("eps:0.5"), is_graph("R.a = S.a"), is_graph(["R.a = S.a"])
    (False, True, True)
    """
    if isinstance(spec, str):
        return any(_COMPARISON.fullmatch(part) or part.lstrip().startswith("|") for part in _parts(spec))
    return isinstance(spec, Graph | list | tuple)


def _parts(text: str) -> list[str]:
    """Cut at commas and AND outside of parentheses and quoted names.

    >>> _parts("R.`a, b` = S.a AND |R.(x, y) - S.(x, y)| <= 2")
    ['R.`a, b` = S.a', '|R.(x, y) - S.(x, y)| <= 2']
    """
    parts = [""]
    for found in _CUT.finditer(text):
        if found["cut"]:
            parts.append("")
        else:
            parts[-1] += found[0]
    return [part for part in parts if part.strip()]


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
        try:
            parsed = Predicate.parse(f"eps:{near[7]}")
        except PenstockError:
            raise PenstockError(f"predicate must compare a distance with a number >= 0, got {text.strip()!r}") from None
        name, epsilon = parsed.name, parsed.epsilon
    i, j = (streams.index(choose("stream of the predicate", stream, streams)) for stream in (one, other))
    if i == j:
        raise PenstockError(f"predicate must link two streams, got {text.strip()!r}, which looks at {streams[i]} alone")
    if i < j:
        return Link(i, j, own, theirs, Predicate(name, epsilon))
    return Link(j, i, theirs, own, Predicate(_FLIPPED.get(name, name), epsilon))


def _side(stream: str, columns: tuple[str, ...]) -> str:
    names = [name if re.fullmatch(r"\w+", name) else f"`{name.replace('`', '``')}`" for name in (stream, *columns)]
    return f"{names[0]}.{names[1]}" if len(columns) == 1 else f"{names[0]}.({', '.join(names[1:])})"


def _bare(name: str) -> str:
    name = name.strip()
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def _listed(one: str | None, several: str | None = None) -> tuple[str, ...]:
    return (_bare(one),) if one else tuple(_bare(name) for name in _parts((several or "()")[1:-1]))
