"""The interval of a loss that is estimated from a sample: how far the truth may lie from it, at 95 %.

Each unit (a ghost; for more than two streams a key) is in the sample with probability q, and one that lost x adds x / q. Such sums have
long tails, and where nothing was seen they have no spread at all. So the interval is that of a gamma distribution, as Fay and Feuer
(1997) have it for weighted sums of rare events: below, one with the mean and the variance of the estimate; above, one to which a unit
is added that nobody has seen, as heavy as any can be (its *reach*). With units that all lose the same it is the exact interval of
a Poisson count; with many it comes near the normal one; with none it still says that three or four of the heaviest may be missing.

Shards and batches combine by sums of estimates and variances, and by the largest reach. `limits` is the rule; a query computes it in SQL
(`limits_in_sql`), and a test compares the two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.core.trace import Floats, Ints

Z = 2.0
"""Standard deviations for 95 %: a little more than 1.96, since the deviation is an estimate too."""
_MOST = 64  # cohorts


def limits(sampled: float, variance: float, reach: float) -> tuple[float, float]:
    """The interval of what a sample estimates, by Wilson and Hilferty's form of the gamma distribution.

    >>> limits(0.0, 0.0, 0.0), [round(limit, 1) for limit in limits(0.0, 0.0, 10.0)]
    ((0.0, 0.0), [0.0, 37.6])
    >>> [round(limit) for limit in limits(1000.0, 10_000.0, 10.0)]
    [810, 1221]
    """
    if math.isinf(reach):
        return min(0.0, sampled), math.inf
    variance = min(variance, max(0.0, sampled) * reach)  # as units of that weight have at most
    return _quantile(sampled, variance, -Z), _quantile(sampled + reach, variance + reach * reach, Z)


def _quantile(mean: float, variance: float, z: float) -> float:
    spread = 0.0 if mean <= 0 else variance / mean / mean
    return mean * max(0.0, 1 - spread / 9 + z * math.sqrt(spread) / 3) ** 3


def limits_in_sql(sampled: str, variance: str, reach: str) -> tuple[str, str]:
    """`limits` as SQL over such expressions: what a query runs (spark/observe/metrics.py)."""
    without = f"{reach} = double('infinity')"
    variance = f"least({variance}, greatest({sampled}, 0D) * {reach})"

    def quantile(mean: str, variance: str, z: float) -> str:
        spread = f"coalesce(try_divide({variance}, greatest({mean}, 0D) * {mean}), 0D)"
        return f"{mean} * power(greatest(1 - {spread} / 9 + sqrt({spread}) * {z / 3!r}D, 0D), 3D)"

    low, high = quantile(sampled, variance, -Z), quantile(f"({sampled} + {reach})", f"({variance} + {reach} * {reach})", Z)
    return f"if({without}, least({sampled}, 0D), {low})", f"if({without}, {reach}, {high})"


@dataclass
class Reach:
    """The weight of the heaviest unit over all batches of its life: for each *cohort* of units, until when they may live and their weight.

    >>> reach = Reach()
    >>> for horizon, end, weight in ((0, 30, 1.0), (10, 40, 5.0), (20, 50, 2.0), (30, 60, 1.0)):
    ...     reach.weigh(np.array([weight, weight]), horizon)
    ...     reach.begin(end)
    >>> reach.largest.tolist()  # of the units that had come before the second batch, which were gone before the fourth
    [7.0, 7.0]
    """

    ends: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    sums: Floats = field(default_factory=lambda: np.empty((0, 2)))
    largest: Floats = field(default_factory=lambda: np.zeros(2))

    def weigh(self, weight: Floats, horizon: int) -> None:
        """A batch that begins at this horizon: what a unit may weigh in it, by count and by value."""
        alive = self.ends > horizon
        self.ends, self.sums = self.ends[alive], self.sums[alive] + weight
        self.largest = np.maximum(self.largest, self.sums.max(axis=0, initial=0.0))

    def begin(self, end: int) -> None:
        """After a batch: all units there are end by then."""
        if len(self.ends) and self.ends[-1] >= end:
            return
        self.ends, self.sums = np.append(self.ends, end), np.concatenate([self.sums, np.zeros((1, 2))])
        if len(self.ends) > _MOST:  # pairs become one: the weight of the older, the end of the younger
            self.ends, self.sums = np.append(self.ends[1:-1:2], self.ends[-1]), self.sums[::2]

    @classmethod
    def joined(cls, parts: Sequence[Reach]) -> Reach:
        """For units of any of these: as heavy as the heaviest, for as long as the last."""
        known = [part for part in parts if len(part.ends)]
        largest = np.max([part.largest for part in parts], axis=0)
        if not known:
            return cls(largest=largest)
        sums = np.max([part.sums.max(axis=0) for part in known], axis=0)
        return cls(np.array([max(part.ends.max() for part in known)]), sums[None, :], largest)


@dataclass
class Crowd:
    """How many tuples of one key each stream may hold, where nobody counts them: the most that each batch brought, while they may live."""

    ends: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    most: Floats = field(default_factory=lambda: np.empty((0, 0)))

    def add(self, most: Floats, end: int) -> None:
        """So many more have come at most, which end by then."""
        rows = self.most if len(self.most) else np.empty((0, len(most)))
        self.ends, self.most = np.append(self.ends, end), np.concatenate([rows, most[None, :]])
        if len(self.ends) > _MOST:
            pairs = np.arange(len(self.ends)) // 2
            self.ends = np.array([self.ends[pairs == pair].max() for pair in range(pairs[-1] + 1)])
            self.most = np.stack([self.most[pairs == pair].sum(axis=0) for pair in range(pairs[-1] + 1)])

    @classmethod
    def joined(cls, parts: Sequence[Crowd]) -> Crowd:
        """For keys of any of these: a key was in one of them, where it had as many as any can have."""
        known = [part for part in parts if len(part.ends)]
        if not known:
            return cls()
        most = np.max([part.most.sum(axis=0) for part in known], axis=0)
        return cls(np.array([max(part.ends.max() for part in known)]), most[None, :])

    def live(self, horizon: int, streams: int) -> Floats:
        """The most that each stream may hold at this horizon; what has ended is forgotten."""
        alive = self.ends > horizon
        self.ends, self.most = self.ends[alive], self.most[alive] if len(self.most) else np.empty((0, streams))
        return np.asarray(self.most.sum(axis=0))
