"""The facts of a join on their way to the workers: read from a parcel once in a process, however many tasks it has."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import pyarrow as pa

from penstock.core.facts import Through
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
    parcel: Any

    @classmethod
    def of(cls, through: Sequence[Through], tables: Sequence[pa.Table]) -> SentFacts:
        """Of tables of facts (known.cells_of)."""
        parts = [cells_of([table], [one]) for one, table in zip(through, tables, strict=True)]
        digests = (hashlib.sha256(b"".join(hashlib.sha256(cell).digest() for cell in cells)).hexdigest() for cells in parts)
        return cls(tuple(through), tuple(digests), InHand(tuple(cell for cells in parts for cell in cells)))

    def open(self) -> Known:
        """The facts; only the first call in a process reads them."""
        return _opened(_Named(self))


class _Named:
    """Facts under their digest and links, by which they are found again."""

    def __init__(self, sent: SentFacts) -> None:
        self.sent = sent

    def __hash__(self) -> int:
        return hash(self.sent.digests)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Named) and (self.sent.digests, self.sent.through) == (other.sent.digests, other.sent.through)


@lru_cache(maxsize=4)
def _opened(named: _Named) -> Known:
    return Known(named.sent.through, named.sent.parcel.value)
