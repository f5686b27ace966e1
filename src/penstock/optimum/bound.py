"""An upper bound on the optimum, for more than two streams (or a budget in bytes), where no flow gives the optimum itself.

An output that needs several stored tuples is cut into equal parts, one for each of them, that can be earned alone: whoever keeps all
of them earns the whole, so no schedule loses by it. Then tuples compete for slots alone, and any price per slot and instant bounds what
they can earn: what the slots cost, plus what each tuple earns beyond the rent of its stay. Some hundred steps along the subgradient
bring that down. Not from the papers; with two streams and a budget in rows it is the dual of the linear program behind Das 4.1.
"""

from __future__ import annotations

import numpy as np

from penstock.core.budget import OVERHEAD
from penstock.core.problem import Problem
from penstock.core.trace import Floats, Trace
from penstock.optimum.gains import Gains
from penstock.optimum.schedule import instants

MOST_OUTPUTS = 10_000_000
_STEPS = 300


def bound(trace: Trace, problem: Problem) -> float:
    """A value that no schedule exceeds.

    >>> trace = Trace.from_streams(R=[1, 1, 1, 3, 2], S=[2, 3, 1, 1, 3])
    >>> problem = Problem.of(trace.streams, window=3, memory=2, allocation="fixed")
    >>> 5 <= bound(trace, problem) < 5.1
    True
    """
    gains = Gains.of(trace, problem, most=MOST_OUTPUTS)
    positive = np.maximum(gains.value, 0.0)
    parts = gains.waits.sum(axis=1)
    sure = float(gains.value[parts == 0].sum())
    if not gains.waits.any():
        return sure
    rents = _Rents(trace, problem, gains, positive / np.maximum(parts, 1))
    return sure + min(rents.lowest(), float(positive[parts > 0].sum()))


class _Rents:
    """Prices of a slot by instant and pool, and what tuples earn beyond them."""

    def __init__(self, trace: Trace, problem: Problem, gains: Gains, part: Floats) -> None:
        own, budget = instants(trace.time), problem.budget
        rows = gains.members[gains.waits]
        until = np.repeat(gains.instant - (problem.model == "buffered"), gains.waits.sum(axis=1))
        order = np.lexsort((until, rows))
        self.rows, self.until = rows[order], until[order]
        earned = np.cumsum(np.repeat(part, gains.waits.sum(axis=1))[order])
        self.begins = np.flatnonzero(np.diff(self.rows, prepend=-1))
        sizes = np.diff(np.append(self.begins, len(self.rows)))
        self.earned = earned - np.repeat(np.concatenate([[0.0], earned])[self.begins], sizes)  # by each tuple, up to here
        self.sizes = sizes
        tuples = self.rows[self.begins]
        self.pool, self.own = budget.pool[trace.stream[tuples]], own[tuples]
        in_bytes = budget.in_bytes and trace.size is not None
        self.weight = (trace.size[tuples] + OVERHEAD if in_bytes and trace.size is not None else np.ones(len(tuples))).astype(np.float64)
        steps = np.maximum(np.searchsorted(budget.times, np.unique(trace.time), side="right") - 1, 0)
        self.caps = budget.caps[steps].astype(np.float64)

    def lowest(self) -> float:
        """The lowest bound that was found."""
        rents = np.zeros_like(self.caps)
        best, reach = np.inf, 1.0
        for _ in range(_STEPS):
            value, surplus = self._price(rents)
            if value < best * (1 - 1e-6):
                reach = min(1.0, reach * 1.1)
            else:
                reach *= 0.9
            best = min(best, value)
            length = float((surplus**2).sum())
            if length == 0:
                break
            # Polyak's step, towards a value a little below the best one seen
            rents = np.maximum(0.0, rents - (value - best * (1 - 0.05 * reach)) / length * surplus)
        return best

    def _price(self, rents: Floats) -> tuple[float, Floats]:
        """The bound at these rents, and how much of each slot is left over."""
        due = np.concatenate([np.zeros((1, rents.shape[1])), np.cumsum(rents, axis=0)])
        each = np.repeat(np.arange(len(self.begins)), self.sizes)
        rent = (due[self.until + 1, self.pool[each]] - due[self.own[each], self.pool[each]]) * self.weight[each]
        profit = self.earned - rent
        top = np.maximum.reduceat(profit, self.begins)
        stays = np.flatnonzero(top > 0)
        value = float((rents * self.caps).sum() + top[stays].sum())
        last = np.full(len(self.begins), -1, dtype=np.int64)
        chosen = np.flatnonzero(profit == np.repeat(top, self.sizes))
        last[each[chosen]] = self.until[chosen]
        used = np.zeros((len(rents) + 1, rents.shape[1]))
        np.add.at(used, (self.own[stays], self.pool[stays]), self.weight[stays])
        np.subtract.at(used, (last[stays] + 1, self.pool[stays]), self.weight[stays])
        return value, self.caps - np.cumsum(used, axis=0)[:-1]
