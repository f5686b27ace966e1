"""A relation whose history goes on while streams are joined through it: workers read its versions from its folder.

Facts are in the order of their numbers in the history, and a later version has those of an earlier one first. So the numbers of facts and
of values, which are given in that order, stay what they are. Of a fact only its end may change, once, from none to a time.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.core.errors import PenstockError
from penstock.core.facts import Through
from penstock.relation.addresses import HISTORY
from penstock.relation.history import History
from penstock.relation.relation import Relation
from penstock.relation.seen import version_seen
from penstock.shard.facts.fact_columns import fact_columns

Versions = tuple[int, ...]
"""By relation, the version of its history; 0 of one that stands still. Nothing where all do."""


@dataclass(frozen=True)
class Followed:
    """Where a history is, what of it matters, and the version that was the last when the join was planned."""

    folder: str
    relation: Relation
    through: Through
    links: tuple[pa.DataType, ...]
    shown: tuple[tuple[str, pa.DataType], ...]  # names in the joined row, and types
    first: int
    lateness: int = 0  # how long after its begin a fact may become known

    def facts(self, version: int) -> pa.Table:
        """The facts as of a version, as `known.cells_of` takes them."""
        table = replace(self.relation, source=f"{HISTORY}{self.folder}@{version}").load()
        return fact_columns(self.relation, self.through, table, self.links, dict(self.shown))

    def seen(self, reader: str, batch: int) -> int:
        """The version that a batch sees."""
        return version_seen(self.folder, reader, batch)

    @property
    def digest(self) -> str:
        """What tells it from another history, and from other columns of it."""
        told = [History(self.folder).identity(), self.relation.links, self.relation.weight, list(map(str, self.links)), str(self.shown)]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def check_later(before: Versions, now: Versions) -> None:
    """Refuse a batch that sees less of a history than one before it.

    >>> check_later((0, 5), (0, 4))
    Traceback (most recent call last):
    ...
    penstock.core.errors.PenstockError: history must have version 5, which an earlier batch has seen, got version 4 as its last: it is an
    old copy
    """
    for was, is_now in zip(before, now, strict=bool(before)):
        if is_now < was:
            raise PenstockError(
                f"history must have version {was}, which an earlier batch has seen, got version {is_now} as its last: it is an old copy"
            )
