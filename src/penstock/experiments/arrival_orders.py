"""Where `ep` wins and where it does not: recall over the skew of arrival orders, the delay between visits, and memory (Kwon 5).

Four streams, keys that never repeat, each visiting some streams in one of 64 orders; the most frequent order visits all four. A setting is
played with several seeds; its figures are the mean over them and a 95 % interval (Student's t).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np

from penstock.core.errors import PenstockError
from penstock.core.trace import Trace
from penstock.generator.generate import generate
from penstock.simulator.simulate import exact, simulate

VARIANTS: dict[str, tuple[str, dict[str, str]]] = {
    "ep": ("ep", {"ep-finishes": "last"}),
    "ep-all": ("ep", {}),
    "ep-newest": ("ep", {"ep-drops": "newest"}),
    "output": ("output", {"output-counts": "ever"}),
}
"""Policies with switches: what they are called here. `ep` and `output` are the paper's."""
POLICIES = ("ep", "ep-all", "ep-newest", "frequency", "output", "kwon-random", "prob", "fifo")
STREAMS = ("R", "S", "T", "U")
SKEWS = (0.0, 1.0, 2.0)
DELAYS = (0.05, 0.2, 0.5)
MEMORIES = (0.05, 0.1, 0.2, 0.4)
WINDOW = 1000
_QUANTILES = (math.nan, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)  # 97.5 %, by degrees of freedom


@dataclass(frozen=True)
class OrdersPoint:
    """A policy in a setting: recall, and its interval; `lead` is how far it is ahead of the best other policy, seed by seed."""

    policy: str
    orders: float
    delay: float  # between two visits, as a share of the window
    memory: float  # as a share of what the exact join holds at its peak
    recall: float
    low: float
    high: float
    lead: float
    lead_low: float
    lead_high: float

    @property
    def verdict(self) -> str:
        """Whether the policy beats all others, is beaten, or neither can be said."""
        if self.lead_low > 0:
            return "ahead"
        return "behind" if self.lead_high < 0 else "even"


def sweep(
    *,
    policies: Sequence[str] = POLICIES,
    skews: Iterable[float] = SKEWS,
    delays: Iterable[float] = DELAYS,
    memories: Sequence[float] = MEMORIES,
    seeds: int = 6,
    ticks: int = 8000,
    allocation: str = "fixed",
    say: Callable[[int, str], object] | None = None,
) -> list[OrdersPoint]:
    """Play every setting under every policy; a point for each policy, memory, delay and skew."""
    check_seeds(seeds)
    points = []
    for orders in skews:
        for delay in delays:
            recalls: dict[tuple[float, str], list[float]] = {(memory, policy): [] for memory in memories for policy in policies}
            for seed in range(seeds):
                trace = generate(
                    ticks, streams=STREAMS, orders=float(orders), delay=delay * WINDOW, first="complete", seed=seed
                )  # fmt: skip
                for place, found in play(trace, WINDOW, policies, memories, allocation=allocation, seed=seed).items():
                    recalls[place].append(found)
                if say:
                    say(1, f"orders {orders:g}, delay {delay:.0%} of the window, seed {seed}")
            for memory in memories:
                points += _points({policy: recalls[memory, policy] for policy in policies}, orders, delay, memory)
    return points


def play(
    trace: Trace, window: int, policies: Sequence[str], memories: Sequence[float], *, allocation: str = "fixed", seed: int = 0
) -> dict[tuple[float, str], float]:
    """The recall of each policy in each memory, a share of what the exact join holds at its peak; `prob` learns as it goes."""
    whole = exact(trace, window=window)
    found = {}
    for memory in memories:
        rows = max(trace.n_streams, round(memory * whole.peak_memory))
        for policy in policies:
            stats = "decayed" if policy == "prob" else "whole"
            name, switches = VARIANTS.get(policy, (policy, {}))
            run = simulate(trace, window=window, memory=rows, policy=name, allocation=allocation, stats=stats, switches=switches, seed=seed)
            found[memory, policy] = run.n_output / max(1, whole.n_output)
    return found


def _points(recalls: dict[str, list[float]], orders: float, delay: float, memory: float) -> list[OrdersPoint]:
    points = []
    for policy, mine in recalls.items():
        rivals = [values for name, values in recalls.items() if name != policy]
        leads = (np.array(mine) - np.max(rivals, axis=0)).tolist() if rivals else mine
        points.append(OrdersPoint(policy, orders, delay, memory, *interval(mine), *interval(leads)))
    return points


def check_seeds(seeds: int) -> None:
    """Refuse so many seeds if they have no interval."""
    if not 2 <= seeds <= len(_QUANTILES):
        raise PenstockError(f"seeds must be 2 to {len(_QUANTILES)}, so that there is an interval, got {seeds}")


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean, and the ends of its 95 % interval.

    >>> [round(number, 3) for number in interval([0.4, 0.5, 0.6])]
    [0.5, 0.252, 0.748]
    """
    mean = fmean(values)
    half = _QUANTILES[len(values) - 1] * stdev(values) / math.sqrt(len(values))
    return mean, mean - half, mean + half
