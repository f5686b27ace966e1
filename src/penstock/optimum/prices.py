"""Prices: what a slot of memory costs in each gap, by some dozens of steps on the Lagrangian dual.

If a slot of gap g costs p(g), each tuple chooses its best end alone, and the sum of what they gain plus what all slots cost is an upper
bound of the optimum. Where tuples want more slots than there are, the price goes up; where fewer, down. That comes within a percent of
the best bound in `STEPS` steps of O(ends). The prices are only where the flow starts from: they decide how fast the answer is found, not
what it is.
"""

from __future__ import annotations

import numpy as np

from penstock.core.compiled import kernel
from penstock.core.trace import Floats, Ints
from penstock.optimum.stays import Stays

STEPS = 64
INERTIA = 0.7  # of the direction: wants of single instants are noise
COOLING = 0.15  # steps shrink like 1 / (1 + COOLING k)


def estimate_prices(stays: Stays) -> Ints:
    """Potentials of the timeline, in units: sums of near-optimal prices up to each node, rounded."""
    n = len(stays.memory)
    potential, gain, wanted = np.zeros(n + 1), np.empty(len(stays.end)), np.zeros(n + 1, np.int64)
    total = choose_ends(stays, potential, gain, wanted)
    over = wanted[:n] - stays.memory
    if not len(stays.row) or over.max(initial=0) <= 0:
        return np.zeros(n + 1, dtype=np.int64)
    pace = 2 * total / wanted.sum() / max(1.0, float(stays.memory.mean()))
    price, direction, best = np.zeros(n), np.zeros(n), np.inf
    found = potential.copy()
    for step in range(STEPS):
        direction = INERTIA * direction + (1 - INERTIA) * (wanted[:n] - stays.memory)
        price = np.maximum(0, price + pace / (1 + COOLING * step) * direction)
        np.cumsum(price, out=potential[1:])
        bound = choose_ends(stays, potential, gain, wanted) + float(stays.memory @ price)
        if bound < best:
            best, found = bound, potential.copy()
    return np.rint(found).astype(np.int64)


@kernel
def choose_ends(stays: Stays, potential: Floats, gain: Floats, wanted: Ints) -> float:
    """Each tuple takes its best end; returns what they gain, and leaves in `wanted` the slots they take in each gap."""
    for number in range(len(stays.end)):
        gain[number] = stays.worth[number] - potential[stays.end[number]]
    wanted[:] = 0
    total = 0.0
    for x in range(len(stays.row)):
        none = stays.base[x] - potential[stays.arrive[x]]
        best, chosen = none, -1
        for number in range(stays.first[x], stays.past[x]):
            if gain[number] > best:
                best, chosen = gain[number], number
        if chosen >= 0:
            total += best - none
            wanted[stays.arrive[x]] += 1
            wanted[stays.end[chosen]] -= 1
    for gap in range(1, len(wanted)):
        wanted[gap] += wanted[gap - 1]
    return total
