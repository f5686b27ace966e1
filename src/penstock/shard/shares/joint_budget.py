"""`ps.Budget`: one memory for several joins of a query, which moves between them as it does between the shards of one join.

Each join begins with an equal part. With a folder that all can read, the shards of all joins exchange what their tuples are worth
(exchange.py), and memory goes where it is worth most; without one each join keeps its part (docs/decisions/0026).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.core.budget import Pools
from penstock.core.errors import PenstockError
from penstock.ledger.ledger import folder_of_query
from penstock.ledger.store import folder_of
from penstock.shard.shard_plan import NAME, NO_NAMES


@dataclass(frozen=True)
class Budget:
    """A memory of so many rows or bytes for several joins of one query: `ps.join(..., memory=budget, name="clicks")` is one of them.

    * `memory`: a number of rows, or a size such as "2 GB", for all joins and shards together.
    * `joins`: the names of the joins. All have the same number of shards, and weigh their tuples in the same unit.
    * `shared`: a folder (or URL) through which they exchange what their tuples are worth. Without it each keeps its equal part.

    >>> budget = Budget(9000, joins=["clicks", "orders"])
    >>> budget.pools(("view", "click")).most, budget.parts
    (9000, 2)
    """

    memory: int | str
    joins: Sequence[str]
    shared: str | None = None
    _entered: dict[str, tuple[int, str]] = field(default_factory=dict, init=False, repr=False, compare=False)  # shards and unit, by join

    def __post_init__(self) -> None:
        """Refuse what is no memory, no list of names or no folder."""
        if isinstance(self.memory, bool) or not isinstance(self.memory, int | str) or re.search("[:=]", str(self.memory)):
            raise PenstockError(f'memory of a Budget must be a positive number of rows or a size such as "2 GB", got {self.memory!r}')
        whole = self.pools(("", ""))
        object.__setattr__(self, "joins", _names(self.joins))
        object.__setattr__(self, "shared", folder_of(self.shared, "shared"))
        if whole.most < self.parts:
            raise PenstockError(f"memory of a Budget must hold at least one row for each of its {self.parts} joins, got {self.memory!r}")

    @property
    def parts(self) -> int:
        """How many joins there are."""
        return len(self.joins)

    def pools(self, streams: Sequence[str]) -> Pools:
        """All of the memory, in one pool."""
        return Pools.parse(self.memory, streams)

    def check(self, name: str, shards: int, unit: str) -> None:
        """Refuse a join that is not of this budget, or cannot be compared with those that have entered."""
        if name not in self.joins:
            raise PenstockError(f"name must be one of the joins of the Budget ({', '.join(self.joins)}), got {name!r}")
        for other, (count, weighed) in self._entered.items():
            if other != name and count != shards:
                raise PenstockError(
                    f"shards must be the same number in all joins of a Budget, got {shards} for {name} and {count} for {other}; "
                    "to change it for all of them, make a new Budget"
                )
            if other != name and weighed != unit:
                raise PenstockError(
                    f"memory must be a Budget whose joins weigh tuples in one unit, got {name} by {unit}, and {other} by {weighed}: "
                    "give them the same policy, stats, half_life and objective"
                )

    def enter(self, name: str, shards: int, unit: str) -> None:
        """Take note of a join that has been made, so that the next can be compared with it."""
        self._entered[name] = shards, unit


def _names(joins: Any) -> tuple[str, ...]:
    """Names of joins, in an order that does not depend on how they were listed."""
    if isinstance(joins, str) or not isinstance(joins, Sequence | set | frozenset) or not joins:
        raise PenstockError(f'joins must be the names of the joins that share the Budget, such as ["clicks", "orders"], got {joins!r}')
    for name in joins:
        if not isinstance(name, str) or not re.fullmatch(NAME, name) or name in NO_NAMES:
            raise PenstockError(f"joins must be names of letters, digits, '_', '-' and '.', got {name!r}")
    folders = [folder_of_query(name, "") for name in joins]
    twice = [name for name, own in zip(joins, folders, strict=True) if folders.count(own) > 1]
    if twice:
        raise PenstockError(f"joins must be different names, also as names of folders, got {' and '.join(twice)}")
    return tuple(sorted(joins))
