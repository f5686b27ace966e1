"""A join as the workers need to know it, and what it is refused for beforehand. Spark-free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.core.ahead import Limit
from penstock.core.budget import Budget
from penstock.core.errors import PenstockError
from penstock.core.predicate import Predicate
from penstock.spark.overhead import PLACE

NAME = "[A-Za-z0-9_.-]+"
"""What the name of a join is made of: metrics, folders and files bear it."""


@dataclass(frozen=True)
class Plan:
    """A join, as the workers need to know it."""

    streams: tuple[str, ...]
    keys: int  # columns; they travel as key0, key1, ...
    payload: tuple[tuple[str, ...], ...]  # by stream: the columns that go into the result beside the keys, under their names there
    options: dict[str, Any]  # of Problem.of, and the policy
    schema: pa.Schema  # of the result
    times: tuple[str, ...]  # by stream: the column that has the times, as microseconds or timestamps
    has_importance: bool = False
    name: str = "penstock"
    shards: tuple[int, ...] = (0,)  # their ids
    ghosts: int = 1_000_000  # of one shard
    overhead: int | None = None  # bytes of one shard for statistics and ghosts; None, as in older states: without a bound
    condition: str | None = None
    judged: tuple[tuple[str, ...], ...] | None = None  # by stream: the columns that the condition looks at
    archive: str | None = None
    ledger: Any = None  # what settling must know
    run: str = ""  # the name of a batch query, which Spark does not give
    sent: tuple[tuple[str, ...], ...] = ()  # by stream: the columns that are compared, where no key is named by `on`
    columns: tuple[tuple[str, ...], ...] = ()  # their names in the streams
    numeric: tuple[tuple[bool, ...], ...] = ()  # which of them are numbers; the others are equal or not
    route: str = "key"
    trust: bool = False  # pickles of 0.1.0 in the state may be read
    max_output: int | None = None  # of a batch, before a condition
    ahead: Limit | None = None  # how far a row may be ahead of what others support
    facts: dict[str, Any] = field(default_factory=dict)  # what a state was made for, beside what workers need to know

    @property
    def key_names(self) -> tuple[str, ...]:
        """The names of the key columns in the result."""
        return tuple(self.schema.names[: self.keys])


def check_width(predicate: Predicate, columns: Sequence[str]) -> None:
    """Refuse several key columns where a predicate compares one."""
    if predicate.name not in ("=", "eps", "links") and len(columns) != 1:
        raise PenstockError(f"predicate {predicate.name!r} compares one key column, got {', '.join(columns)}; links compare several")


def part_of(memory: Any, streams: Sequence[str], allocation: str, shards: int) -> Any:
    """The memory of one of so many shards, each with an equal part.

    >>> part_of("3 KB", ("l", "r"), "variable", 3), part_of({"l": 5, "r": "8"}, ("l", "r"), "variable", 2)
    ('1000 b', {'l': 2, 'r': 4})
    """
    budget = Budget.parse(memory, streams, allocation=allocation)
    if int(budget.caps.min()) < shards * (2 * PLACE if budget.in_bytes else 1):
        rest = (
            f"; a row takes {PLACE} bytes and its own, a quarter is for statistics and ghosts, and a quarter of the rest for dead payload"
        )
        weight = rest if budget.in_bytes else ""
        raise PenstockError(f"memory must hold at least one row per shard ({shards}{weight}), got {memory!r}")
    caps = [[f"{cap // shards} b" if budget.in_bytes else cap // shards for cap in row] for row in budget.caps.tolist()]
    if len(caps) == 1 and len(caps[0]) > 1:
        return dict(zip(streams, caps[0], strict=True))
    if len(caps) == 1:
        return caps[0][0]
    totals = budget.caps.sum(axis=1).tolist()
    return [
        [at, f"{total // shards} b" if budget.in_bytes else total // shards]
        for at, total in zip(budget.times.tolist(), totals, strict=True)
    ]
