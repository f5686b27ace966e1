"""A join as the workers need to know it, and what it is refused for beforehand. Spark-free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from penstock.core.budget import Pools
from penstock.core.clock_limit import Limit
from penstock.core.errors import PenstockError
from penstock.core.predicate import Predicate
from penstock.shard.facts.sent import SentFacts

TIME, IMPORTANCE, VALUE = "time", "importance", "value"
"""Columns beside those of the user."""
LOST = "__lost"
"""In a result with a condition: 0 for a row that was made; else how many lost rows the row stands for."""
NAME = "[A-Za-z0-9_.-]+"
"""What the name of a join is made of: metrics, folders and files bear it."""
NO_NAMES = (".", "..")
"""Made of these signs, but folders of the system's own."""


@dataclass(frozen=True)
class ShardPlan:
    """A join, as the workers need to know it."""

    streams: tuple[str, ...]
    keys: int  # columns; they travel as key0, key1, ...
    payload: tuple[tuple[str, ...], ...]  # by stream: the columns that go into the result beside the keys, under their names there
    options: dict[str, Any]  # of Problem.of, and the policy
    schema: pa.Schema  # of the result
    times: tuple[str, ...]  # by stream: the column that has the times, as microseconds or timestamps
    has_importance: bool = False
    lifetimes: tuple[bool, ...] = ()  # by stream, whether its rows bring lifetimes of their own; nothing where none does
    name: str = "penstock"
    shards: tuple[int, ...] = (0,)  # their ids
    ghosts: int = 1_000_000  # of one shard
    overhead: int | None = None  # bytes of one shard for statistics and ghosts; None, as in older states: without a bound
    condition: str | None = None
    judged: tuple[tuple[str, ...], ...] | None = None  # by stream: the columns that the condition looks at
    archive: str | None = None
    shared: str | None = None  # the folder through which shards exchange what tuples are worth; None: shares stay as they are
    joins: tuple[str, ...] = ()  # those that exchange it through that folder, since they share a budget; none: this one has its own
    ledger: Any = None  # what settling must know
    run: str = ""  # the name of a batch query, which Spark does not give
    sent: tuple[tuple[str, ...], ...] = ()  # by stream: the columns that are compared, where no key is named by `on`
    columns: tuple[tuple[str, ...], ...] = ()  # their names in the streams
    numeric: tuple[tuple[bool, ...], ...] = ()  # which of them are numbers; the others are equal or not
    route: str = "key"
    trust: bool = False  # pickles of 0.1.0 in the state may be read
    max_output: int | None = None  # of a batch, before a condition
    ahead: Limit | None = None  # how far a row may be ahead of what others support
    auto: bool = False  # nobody chose the policy: where a state was made with another, that one stays
    through: SentFacts | None = None  # the relations that streams are joined through; in no state
    given: pa.Table | None = None  # the rates of keys, where statistics are given; in no state
    facts: dict[str, Any] = field(default_factory=dict)  # what a state was made for, beside what workers need to know

    @cached_property
    def budget(self) -> Pools:
        """The memory of one shard."""
        return Pools.parse(self.options["memory"], self.streams, allocation=self.options.get("allocation") or "variable")

    @property
    def keeps_unlinked(self) -> bool:
        """Whether rows that nothing links yet are written to the ledger: a fact may become known that does."""
        return self.archive is not None and self.through is not None and bool(self.through.followed)

    @property
    def key_names(self) -> tuple[str, ...]:
        """The names of the key columns in the result."""
        return tuple(self.schema.names[: self.keys])


def check_width(predicate: Predicate, columns: Sequence[str]) -> None:
    """Refuse several key columns where a predicate compares one."""
    if predicate.name not in ("=", "eps", "links") and len(columns) != 1:
        raise PenstockError(f"predicate {predicate.name!r} compares one key column, got {', '.join(columns)}; links compare several")
