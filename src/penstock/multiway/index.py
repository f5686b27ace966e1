"""Which windows to index, and how many buckets each, when buckets are limited (Golab 5.4, "hybrid", and 6.5).

An index saves comparisons in the loops over its window, and costs more at every round of expiration for every bucket. For a given order
the cost is a sum of one function per window, convex in its buckets but for one step: the hash of an insertion, paid from the second bucket
on. Without the step, the best split is where one price per bucket lets the windows want as many as there are: a bound for the order. With
the step, the same for every choice of windows to index. Orders are tried from the lowest bound up, until no bound is below what was found.

Differs from the paper, which measures a few splits: this is exact up to five streams. Beyond, orders and buckets take turns until neither
gains, and a window has an index where its own saving pays for the step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product
from typing import Any

from penstock.core.budget import Pools
from penstock.core.errors import PenstockError
from penstock.multiway.cost import CostModel, Setting, rounded
from penstock.multiway.search import Order, chosen_method, global_orders, work
from penstock.multiway.upkeep import Weights, rounds, upkeep

BUCKET_BYTES = 16
"""The ends of a bucket's list."""
_EXACT = 5


@dataclass(frozen=True)
class Allocation:
    """Buckets by window, and what the join costs with them."""

    buckets: dict[str, int]
    order: tuple[str, ...]
    cost: float
    """Comparisons, insertions and expirations per tick, in comparisons."""


def allocate(setting: Setting, total: int, weights: Weights | None = None) -> Allocation:
    """The best split of `total` buckets over the windows, at least one each (which is no index), and the order that goes with it.

    >>> from penstock.multiway.stats import WindowStats
    >>> golab = [WindowStats(f"S{i}", rate, 100, 50) for i, rate in enumerate([1, 1, 1, 50])]
    >>> allocate(Setting.read(golab, strategy="lazy", tau=5), 48).buckets
    {'S0': 6, 'S1': 9, 'S2': 12, 'S3': 21}
    """
    count = len(setting.streams)
    if isinstance(total, bool) or not isinstance(total, int) or total < count:
        raise PenstockError(f"buckets must be a whole number from {count}, one for each window, got {total!r}")
    weights = weights or Weights()
    if setting.strategy == "general":
        # Orders of each stream's own have no sum over windows; those with new tuples first, which are the best for most intervals, do.
        setting = replace(setting, strategy="lazy")
    cost, buckets, order = (_exactly if count <= _EXACT else _in_turns)(setting, total, weights)
    names = setting.names
    return Allocation(dict(zip(names, buckets, strict=True)), tuple(names[i] for i in order), cost)


def affordable(setting: Setting, memory: Any) -> int:
    """How many buckets fit into a memory beside the tuples.

    >>> from penstock.multiway.stats import WindowStats
    >>> affordable(Setting.read([WindowStats(name, 1, 100, 50) for name in "RS"]), "10 KB")
    125
    """
    budget = Pools.parse(memory, setting.names)
    if not budget.in_bytes or len(budget.caps) > 1 or budget.caps.shape[1] > 1:
        raise PenstockError(f'memory must be one size such as "64 MB", got {memory!r}')
    tuples = sum(one.held(setting.lag + (setting.tau or 0.0) / 2) * one.tuple_bytes for one in setting.streams)
    count = int((budget.most - tuples) // BUCKET_BYTES)
    if count < len(setting.streams):
        least = math.ceil(tuples) + len(setting.streams) * BUCKET_BYTES
        raise PenstockError(f"memory must hold the windows, which take {least:,} bytes, got {memory!r}")
    return count


def with_buckets(setting: Setting, buckets: Sequence[int]) -> Setting:
    """The same join with so many buckets in each window."""
    return replace(setting, streams=tuple(replace(one, buckets=b) for one, b in zip(setting.streams, buckets, strict=True)))


def whole_cost(setting: Setting, order: Order, weights: Weights | None = None) -> float:
    """Comparisons, insertions and expirations per tick."""
    return CostModel(setting).cost(order) + upkeep(setting, weights).total


Split = tuple[float, tuple[int, ...], Order]


def _exactly(setting: Setting, total: int, weights: Weights) -> Split:
    count = len(setting.streams)
    scanned = CostModel(with_buckets(setting, [1] * count))
    bounds = [_Windows(scanned, order, total, weights) for order in permutations(range(count))]
    best: Split | None = None
    for windows in sorted(bounds, key=lambda one: rounded(one.bound)):
        if best is not None and rounded(windows.bound) >= rounded(best[0]):
            break
        for indexed in product(*((False, True) if most > 1 else (False,) for most in windows.most)):
            found = windows.split(indexed)
            if found is not None and (best is None or rounded(found[0]) < rounded(best[0])):
                best = found
    assert best is not None  # no window indexed always fits
    return best


def _in_turns(setting: Setting, total: int, weights: Weights) -> Split:
    count = len(setting.streams)
    method = chosen_method("subsets" if count <= 7 else "auto", count)
    best: Split | None = None
    model = scanned = CostModel(with_buckets(setting, [1] * count))
    while True:
        windows = _Windows(scanned, min(global_orders(model, method), key=lambda order: work(model, order)), total, weights)
        found = windows.split(windows.worth_it)
        if found is None or (best is not None and found[0] >= best[0]):
            return best or (windows.whole([1] * count), (1,) * count, windows.order)
        best, model = found, CostModel(with_buckets(setting, found[1]))


class _Windows:
    """One order: the cost of every window as a function of its buckets, from a model in which no window has an index."""

    def __init__(self, scanned: CostModel, order: Order, total: int, weights: Weights) -> None:
        self.order, self.total = order, total
        setting = scanned.setting
        count = len(setting.streams)
        self._loops = [_loops(scanned, order, j) for j in range(count)]
        self._touch = rounds(setting) * weights.touch
        self._step = [one.rate * weights.hash for one in setting.streams]
        self._same = upkeep(setting, weights).total - self._touch * count
        self.most = [max((math.ceil(fine) for _, fine in one), default=1) for one in self._loops]
        self._free = by_price(self._cost, [1] * count, self.most, total) or [1] * count
        self.bound = self._same + sum(self._cost(j, b) for j, b in enumerate(self._free))
        """No split costs less."""

    @property
    def worth_it(self) -> list[bool]:
        """The windows that would have an index if it were free, and that are better off with it as it is."""
        return [b > 1 and self._cost(j, b) + self._step[j] < self._cost(j, 1) for j, b in enumerate(self._free)]

    def split(self, indexed: Sequence[bool]) -> Split | None:
        """The best split with an index on these windows; None if they would not have two buckets each."""
        most = [high if with_index else 1 for high, with_index in zip(self.most, indexed, strict=True)]
        found = by_price(self._cost, [2 if one else 1 for one in indexed], most, self.total)
        return None if found is None else (self.whole(found), tuple(found), self.order)

    def whole(self, buckets: Sequence[int]) -> float:
        """Comparisons, insertions and expirations per tick."""
        return self._same + sum(self._cost(j, b) + (self._step[j] if b > 1 else 0.0) for j, b in enumerate(buckets))

    def _cost(self, stream: int, buckets: int) -> float:
        return buckets * self._touch + sum(visits / min(buckets, fine) for visits, fine in self._loops[stream])


def _loops(model: CostModel, order: Order, stream: int) -> list[tuple[float, float]]:
    """For every origin: the comparisons per tick in the loop over a window as a whole, and into how many parts a probe can cut it."""
    setting = model.setting
    found = []
    for origin in range(len(setting.streams)):
        local = model.local(origin, order)
        before = sum(1 << j for j in local[: local.index(stream)])
        visits = model.step(origin, before, stream)
        if visits:
            found.append((visits, model.fineness(stream, before)))
    return found


def by_price(cost: Callable[[int, int], float], least: Sequence[int], most: Sequence[int], total: int) -> list[int] | None:
    """Split a total where costs are convex: no bucket is worth more elsewhere. None if not even the least fits.

    >>> by_price(lambda j, b: (100, 400)[j] / b, [1, 1], [50, 50], 9)
    [3, 6]

    A high price leaves everybody at the least, price 0 lets everybody have what is of use; between them the price is halved until the few
    buckets that are left can be handed out one by one.
    """
    if sum(least) > total:
        return None

    def wanted(price: float) -> list[int]:
        return [_wanted(cost, j, low, high, price) for j, (low, high) in enumerate(zip(least, most, strict=True))]

    split = wanted(0.0)
    if sum(split) <= total:
        return split
    low, high = 0.0, max(cost(j, b) for j, b in enumerate(least)) + 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if sum(wanted(middle)) > total:
            low = middle
        else:
            high = middle
    split = wanted(high)
    while sum(split) < total:
        gains = [(cost(j, b) - cost(j, b + 1), j) for j, b in enumerate(split) if b < most[j]]
        gain, j = max(gains, key=lambda one: one[0])
        if gain <= 0:
            break
        split[j] += 1
    return split


def _wanted(cost: Callable[[int, int], float], stream: int, low: int, high: int, price: float) -> int:
    """The first number of buckets at which one more does not save its price."""
    while low < high:
        middle = (low + high) // 2
        if cost(stream, middle) - cost(stream, middle + 1) > price:
            low = middle + 1
        else:
            high = middle
    return low
