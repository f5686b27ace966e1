"""The facts of a join on their way to the workers: read from a parcel once in a process, however many tasks it has."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import pyarrow as pa

from penstock.core.facts import Through
from penstock.shard.facts.followed import Followed, Versions
from penstock.shard.facts.known import Known, cells_of


class Parcel(Protocol):
    """What carries cells to a worker."""

    @property
    def value(self) -> Sequence[bytes]:
        """The cells."""


@dataclass(frozen=True)
class InHand:
    """A parcel that travels with whatever holds it."""

    value: Sequence[bytes]


@dataclass(frozen=True)
class SentFacts:
    """The relations of a join, where their facts are, and digests of these.

    >>> through = [Through.parse("f", ["R.x = a", "b = S.y"], "RS")]
    >>> sent = SentFacts.of(through, [pa.table({"key0": [1], "key1": [2], "begin": [0], "end": [9]})])
    >>> sent.open() is sent.open(), len(sent.open().whole[0])
    (True, 1)
    """

    through: tuple[Through, ...]
    digests: tuple[str, ...]  # by relation
    parcel: Any  # the cells of those that stand still
    followed: tuple[Followed | None, ...] = ()  # by relation, where there is one whose history goes on

    @classmethod
    def of(cls, through: Sequence[Through], tables: Sequence[pa.Table | Followed]) -> SentFacts:
        """Of tables of facts (known.cells_of), or histories that go on."""
        parts = [[] if isinstance(own, Followed) else cells_of([own], [one]) for one, own in zip(through, tables, strict=True)]
        digests = tuple(own.digest if isinstance(own, Followed) else _digest(cells) for own, cells in zip(tables, parts, strict=True))
        followed = tuple(own if isinstance(own, Followed) else None for own in tables)
        cells = tuple(cell for own in parts for cell in own)
        return cls(tuple(through), digests, InHand(cells), followed if any(followed) else ())

    def open(self, versions: Versions = ()) -> Known:
        """The facts as of these versions, or as they were when the join was planned; only the first call in a process reads them."""
        first = tuple(0 if one is None else one.first for one in self.followed)
        return _opened(_Named(self, versions or first))

    def seen(self, reader: str, batch: int) -> Versions:
        """The versions that a batch of this reader sees."""
        return tuple(0 if one is None else one.seen(reader, batch) for one in self.followed)


def _digest(cells: Sequence[bytes]) -> str:
    return hashlib.sha256(b"".join(hashlib.sha256(cell).digest() for cell in cells)).hexdigest()


class _Named:
    """Facts under their digests, links, versions and folders, by which they are found again: copies of a history begin alike."""

    def __init__(self, sent: SentFacts, versions: Versions) -> None:
        self.sent, self.versions = sent, versions

    def _name(self) -> Any:
        folders = tuple(None if one is None else one.folder for one in self.sent.followed)
        return self.sent.digests, self.sent.through, self.versions, folders

    def __hash__(self) -> int:
        return hash((self.sent.digests, self.versions))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Named) and self._name() == other._name()


@lru_cache(maxsize=4)
def _opened(named: _Named) -> Known:
    sent = named.sent
    if not sent.followed:
        return Known(sent.through, sent.parcel.value)
    cells: list[bytes] = []
    left = iter(sent.parcel.value)
    for one, own, version in zip(sent.through, sent.followed, named.versions, strict=True):
        cells += [next(left) for _ in range(1 + len(one.links))] if own is None else cells_of([own.facts(version)], [one])
    return Known(sent.through, cells)
