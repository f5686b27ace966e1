"""Facts: the tuples of relations that streams are joined through, as numbers, each with the time in which it is active.

    R(x)  --x = a-->  F(a, b, [begin, end))  --b = y-->  S(y)

A relation links two streams or more (Towne 2.1). Each of its links has a slot, over all relations of a join, as the links of a join graph
have: a row of a stream has numbers in the slots of its own stream's links, -1 for null, and a fact has one number for each link of its
relation. Equal values have equal numbers. What a join through relations means is in docs/decisions/0031.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.core.errors import PenstockError, choose
from penstock.core.trace import Bools, Floats, Ints
from penstock.core.window import NEVER

_QUOTED = r"`(?:[^`]|``)+`"
_NAME = rf"{_QUOTED}|\w+"
_FORWARD = re.compile(rf"\s*({_NAME})\.({_NAME})\s*=\s*({_NAME})\s*")
_BACKWARD = re.compile(rf"\s*({_NAME})\s*=\s*({_NAME})\.({_NAME})\s*")
_HELP = 'such as "pickup.zone = a" (a stream\'s column and an attribute of the relation)'


@dataclass(frozen=True)
class FactLink:
    """A stream, its column, and the attribute of the relation that has the same values."""

    stream: int
    column: str
    attribute: str


@dataclass(frozen=True)
class Through:
    """Which streams a relation links, by which columns.

    >>> Through.parse("zones", ["pickup.zone = a", "b = dropoff.zone"], ("pickup", "dropoff")).links
    (FactLink(stream=0, column='zone', attribute='a'), FactLink(stream=1, column='zone', attribute='b'))
    """

    name: str
    links: tuple[FactLink, ...]
    weighted: bool = False

    @classmethod
    def parse(cls, name: str, links: Sequence[str], streams: Sequence[str], *, weighted: bool = False) -> Through:
        """From texts, one per link."""
        if isinstance(links, str) or not links or not all(isinstance(text, str) for text in links):
            raise PenstockError(f"links of relation {name} must be a list of texts {_HELP}, got {links!r}")
        found = tuple(_link(name, text, streams) for text in links)
        linked = [link.stream for link in found]
        if len(set(linked)) < len(linked):
            twice = next(streams[stream] for stream in linked if linked.count(stream) > 1)
            raise PenstockError(f"links of relation {name} must name each stream once, got {twice} more than once")
        if len(found) < 2:
            raise PenstockError(f"links of relation {name} must link two streams or more, got {links[0]!r} alone")
        return cls(name, found, weighted)

    @property
    def streams(self) -> tuple[int, ...]:
        """The streams that it links."""
        return tuple(link.stream for link in self.links)


@dataclass(frozen=True)
class Facts:
    """The facts of one relation as columns: `keys` has a line for each, with a number for each link.

    >>> facts = Facts.of([[0, 7], [1, 7]], end=[None, 5])
    >>> facts.begin.tolist() == [-NEVER, -NEVER], facts.end.tolist() == [NEVER, 5], facts.active(5).tolist()
    (True, True, [True, False])
    """

    keys: Ints
    begin: Ints
    end: Ints
    weight: Floats | None = None
    number: Ints | None = None  # the name of each fact in outputs; by default its place

    @classmethod
    def of(cls, keys: Sequence[Sequence[int]], begin: Sequence[int | None] | None = None, end: Sequence[int | None] | None = None) -> Facts:
        """From lists, None for no begin and no end."""
        size = len(keys)
        begins = [-NEVER if at is None else at for at in begin or [None] * size]
        ends = [NEVER if at is None else at for at in end or [None] * size]
        return cls(np.array(keys, dtype=np.int64).reshape(size, -1), np.array(begins, dtype=np.int64), np.array(ends, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.begin)

    @property
    def numbers(self) -> Ints:
        """How outputs name the facts."""
        return np.arange(len(self), dtype=np.int64) if self.number is None else self.number

    def active(self, time: int) -> Bools:
        """Which facts are active at a time."""
        return (self.begin <= time) & (time < self.end)


def slots_of(relations: Sequence[Through]) -> tuple[range, ...]:
    """Where the links of each relation are among those of all.

    >>> slots_of([Through.parse("f", ["R.x = a", "S.x = b"], "RST"), Through.parse("g", ["S.y = a", "T.y = b"], "RST")])
    (range(0, 2), range(2, 4))
    """
    ends = np.cumsum([len(one.links) for one in relations]).tolist()
    return tuple(range(end - len(one.links), end) for end, one in zip(ends, relations, strict=True))


def check_tree(relations: Sequence[Through], streams: Sequence[str]) -> None:
    """Refuse relations that leave a stream out, or lead from one stream to another in two ways.

    >>> check_tree([Through.parse("f", ["R.x = a", "S.x = b"], "RST")], "RST")
    Traceback (most recent call last):
    ...
    penstock.core.errors.PenstockError: through must link all streams, got no relation that leads to T
    """
    names = [one.name for one in relations]
    if len(set(names)) < len(names):
        raise PenstockError(f"through must have relations of different names, got {', '.join(names)}")
    part = list(range(len(streams)))
    for one in relations:
        roots = {part[stream] for stream in one.streams}
        if len(roots) < len(one.links):
            told = ", ".join(streams[stream] for stream in one.streams)
            raise PenstockError(
                f"through must lead from each stream to each other in one way, got relation {one.name} that links {told} again"
            )
        part = [min(roots) if p in roots else p for p in part]
    away = [streams[stream] for stream, root in enumerate(part) if root != part[0]]
    if away:
        raise PenstockError(f"through must link all streams, got no relation that leads to {', '.join(away)}")


def link_parts(name: str, text: str) -> tuple[str, str, str]:
    """The stream, its column and the attribute that a link of relation `name` says are equal.

    >>> link_parts("zones", "b = `drop off`.zone")
    ('drop off', 'zone', 'b')
    """
    forward, backward = _FORWARD.fullmatch(text), _BACKWARD.fullmatch(text)
    if forward:
        stream, column, attribute = forward[1], forward[2], forward[3]
    elif backward:
        attribute, stream, column = backward[1], backward[2], backward[3]
    else:
        raise PenstockError(f"links of relation {name} must be texts {_HELP}, got {text!r}")
    return _bare(stream), _bare(column), _bare(attribute)


def _link(name: str, text: str, streams: Sequence[str]) -> FactLink:
    stream, column, attribute = link_parts(name, text)
    at = list(streams).index(choose(f"stream in the links of relation {name}", stream, streams))
    return FactLink(at, column, attribute)


def _bare(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
