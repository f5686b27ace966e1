"""How a join is divided into shards: how many there may be, and what of the memory each has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.core.budget import Pools
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


def part_of(budget: Pools, streams: Sequence[str], shards: int, *, of: int = 1) -> Any:
    """The memory of one of so many shards, each with an equal part, as an option; `budget` is that of one of `of` shards.

    >>> streams = ("l", "r")
    >>> part_of(Pools.parse("3 KB", streams), streams, 3), part_of(Pools.parse({"l": 5, "r": "8"}, streams), streams, 2)
    ('1000 b', {'l': 2, 'r': 4})
    >>> part_of(Pools.parse({"l": 5, "r": "0:8,60:4"}, streams), streams, 2)
    {'l': [[0, 2], [60, 2]], 'r': [[0, 4], [60, 2]]}
    """
    caps = budget.caps * of // shards
    if int(caps.min()) < (2 * PLACE if budget.in_bytes else 1):
        rest = (
            f"; a row takes {PLACE} bytes and its own, a quarter is for statistics and ghosts, and a quarter of the rest for dead payload"
        )
        raise PenstockError(
            f"memory must hold at least one row per shard ({shards}{rest if budget.in_bytes else ''}), got {budget.given!r}"
        )
    amounts = [[_amount(cap, budget) for cap in pool] for pool in caps.T.tolist()]
    over_time = [[[at, amount] for at, amount in zip(budget.times.tolist(), pool, strict=True)] for pool in amounts]
    by_pool = over_time if len(caps) > 1 else [amount for (amount,) in amounts]
    return by_pool[0] if len(by_pool) == 1 else dict(zip(streams, by_pool, strict=True))


def _amount(cap: int, budget: Pools) -> Any:
    return f"{cap} b" if budget.in_bytes else cap


def for_tuples(caps: Ints, overhead: int) -> Ints:
    """What of a shard's memory in bytes its tuples may take: without its overhead, and without what dead payload takes.

    >>> for_tuples(np.array([[1000]]), 250).tolist(), for_tuples(np.array([[1000]]), 900).tolist()
    ([[562]], [[375]])
    """
    beside = np.minimum(0.5, overhead / caps.sum(axis=1, keepdims=True))
    return np.maximum(1, (caps * (1 - beside) * LIVE).astype(np.int64))
