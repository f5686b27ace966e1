"""How a join is divided into shards: how many there may be, and what of the memory each has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.core.budget import Budget
from penstock.core.errors import PenstockError
from penstock.core.trace import Ints
from penstock.shard.overhead import PLACE

MOST_SHARDS = 10_000
"""Each is a state of its own, and hears from every task in every batch."""
SPAN = 1 << 40
"""Numbers of rows that belong to one shard."""
LIVE = 0.75
"""Of a budget in bytes that live tuples may take; the rest is for dead payload, which counts too."""


def shard_count(shards: Any, argument: str = "shards") -> int:
    """A number of shards.

    >>> shard_count(8)
    8
    """
    if isinstance(shards, bool) or not isinstance(shards, int) or shards < 1:
        raise PenstockError(f"{argument} must be a whole number >= 1, got {shards!r}")
    if shards > MOST_SHARDS:
        raise PenstockError(
            f"{argument} must be at most {MOST_SHARDS:,}, got {shards:,}: each shard has an engine and a state of its own and hears from "
            "every task in every batch. One for each core of the cluster is enough"
        )
    return shards


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


def for_tuples(caps: Ints, overhead: int) -> Ints:
    """What of a shard's memory in bytes its tuples may take: without its overhead, and without what dead payload takes.

    >>> for_tuples(np.array([[1000]]), 250).tolist(), for_tuples(np.array([[1000]]), 900).tolist()
    ([[562]], [[375]])
    """
    beside = np.minimum(0.5, overhead / caps.sum(axis=1, keepdims=True))
    return np.maximum(1, (caps * (1 - beside) * LIVE).astype(np.int64))
