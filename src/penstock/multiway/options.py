"""The table of Golab's algorithms, and what a user says of one: orders, access, intervals, read and checked (Golab 3.3-3.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.errors import PenstockError, choose
from penstock.core.window import whole
from penstock.multiway.drift import Reorder
from penstock.multiway.loops import NESTED, first_in
from penstock.multiway.nested_loops import EAGER_EXPIRATION
from penstock.multiway.pair_checks import Condition

MOST_BUCKETS = 10_000_000  # of a window: 300 MB


@dataclass(frozen=True)
class Strategy:
    """An algorithm: whether new tuples go outermost, and whether it evaluates every tau (None: either, as `tau` says)."""

    new_first: bool
    lazy: bool | None


STRATEGIES = {
    "naive": Strategy(new_first=False, lazy=None),
    "eager": Strategy(new_first=True, lazy=False),
    "lazy": Strategy(new_first=True, lazy=True),
    "general": Strategy(new_first=False, lazy=True),
    "count": Strategy(new_first=True, lazy=None),
}


def read_orders(order: Any, streams: Sequence[str], kind: Strategy) -> list[list[int]]:
    """One order of all streams per origin, from one for all or one for each."""
    names: Mapping[str, Any]
    if isinstance(order, Mapping):
        if kind.lazy is None and not kind.new_first:
            raise PenstockError(f"order of strategy 'naive' is one for all streams, got one for each: {order!r}")
        names = order
        if set(names) != set(streams):
            raise PenstockError(f"order must name each of the streams {', '.join(streams)}, got {', '.join(map(str, names)) or 'none'}")
    else:
        names = dict.fromkeys(streams, streams if order is None else order)
    orders = {}
    for origin, name in enumerate(streams):
        listed = _listed(names[name])
        positions = [streams.index(choose("stream in order", part, streams)) for part in listed]
        if kind.new_first and origin not in positions:
            positions.insert(0, origin)
        if sorted(positions) != list(range(len(streams))):
            raise PenstockError(f"order must have each of the streams {', '.join(streams)} once, got {', '.join(listed) or 'none'}")
        orders[origin] = positions
    return first_in(orders, len(streams)) if kind.new_first else [orders[origin] for origin in range(len(streams))]


def read_access(access: Any, streams: Sequence[str], condition: Condition) -> list[int]:
    """The number of buckets of each stream; `NESTED` for none."""
    if access == "nested":
        return [NESTED] * len(streams)
    if not condition.classes:
        raise PenstockError(f"access must be 'nested' where no columns must be equal, got {access!r}")
    if access == "hash":
        return [condition.distinct] * len(streams)
    if isinstance(access, Mapping):
        for name in access:
            choose("stream in access", name, streams)
        return [_buckets(access[name], f"access of {name}") if name in access else NESTED for name in streams]
    return [_buckets(access, "access")] * len(streams)


def _buckets(number: Any, name: str) -> int:
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or not 1 <= number <= MOST_BUCKETS:
        right = f"'nested', 'hash', or a number of buckets of at least 1 and at most {MOST_BUCKETS:,} (by stream)"
        raise PenstockError(f"{name} must be {right}, got {number!r}")
    return int(number)


def _listed(order: Any) -> list[str]:
    if isinstance(order, str):
        return [part.strip() for part in order.split(",")]
    if not isinstance(order, Sequence):
        raise PenstockError(f"order must be names of streams, got {order!r}")
    return [str(part) for part in order]


def read_tau(strategy: str, kind: Strategy, tau: Any) -> int:
    """The interval of re-evaluation, in ticks; 0 where each arrival is evaluated."""
    if tau is None:
        if kind.lazy:
            raise PenstockError(f"strategy {strategy!r} evaluates every tau ticks: give tau=, at least 1")
        return 0
    if kind.lazy is False:
        raise PenstockError(f"strategy {strategy!r} evaluates at each arrival, it takes no tau, got {tau!r}: see 'lazy'")
    every = whole(tau, "tau", "a whole number of ticks, at least 1, or a duration")
    if every < 1:
        raise PenstockError(f"tau must be at least one tick, got {tau!r}")
    return every


def read_expire(expire: Any, every: int) -> int:
    """The interval of expiration. Lazy evaluation needs what it has not seen yet: no eager, no more frequent expiration (Golab 3.3)."""
    if expire is None:
        return every if every else EAGER_EXPIRATION
    if expire == "eager":
        if every:
            raise PenstockError("expire must be 'lazy' or at least tau where evaluation is lazy, got 'eager'")
        return EAGER_EXPIRATION
    if expire == "lazy":
        if not every:
            raise PenstockError("expire='lazy' needs an interval where evaluation is eager: give a number of ticks")
        return every
    ticks = whole(expire, "expire", "'eager', 'lazy', a whole number of ticks or a duration")
    if ticks < 1:
        raise PenstockError(f"expire must be at least one tick, got {expire!r}")
    if ticks < every:
        raise PenstockError(f"expire must be no more often than evaluation (every {every} ticks), got {expire!r}")
    return ticks


def read_reorder(share: Any) -> Reorder:
    """How far rates and selectivities may move before the order changes."""
    try:
        return Reorder(share)
    except PenstockError:
        raise PenstockError(f"reorder must be a share from 0, such as 0.2, got {share!r}") from None
