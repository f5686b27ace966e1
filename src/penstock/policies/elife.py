"""`elife`: p times the stay that a tuple can expect under the budget. Ours; Das 4.2.2 leaves it as future work.

`life` counts on the whole remaining life, which poor tuples never get. Let a slot have a price, the *slot price*: what the tuple at the
margin earns per tick. A tuple whose p is below it is replaced at once; one above it stays to its end, and of two such tuples the one with
the larger (p - slot price) * remaining is worth more, because the slot of the other earns its price once it is free. `life` is a slot
price of 0, `prob` one without bound. Derivation, table, what was worse: docs/decisions/0004.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.errors import PenstockError
from penstock.core.problem import Problem
from penstock.core.rounding import rounded
from penstock.core.trace import Floats, Ints
from penstock.engine.compiled.slot_price import MEMORY, PERIOD
from penstock.engine.contract import Ranking
from penstock.engine.ranking_codes import Kind, Prices
from penstock.engine.view import View
from penstock.policies.base import Policy
from penstock.policies.prob import fixed_price


@dataclass
class SlotPrice:
    """The price of a slot in one pool: a running mean of p at the margin, and what of it is in use."""

    mean: float = 0.0
    first: int | None = None
    last: int = 0
    used: float = np.inf  # the mean when it was last put into use
    changed: int | None = None  # the pool's clock then
    time: int = 0  # and the time


class Elife(Policy):
    """Score: max(0, p - slot price) * remaining life, tie-break p.

    >>> from penstock import generate, simulate
    >>> trace = generate(2000, keys=50, skew=1.0, seed=1)
    >>> [simulate(trace, window=200, memory=100, policy=p, stats="whole", start=400).n_output for p in ("life", "elife")]
    [5726, 6413]
    """

    name = "elife"
    summary = "the least expected output over the time it can expect to stay leaves first"
    needs = "stats, a window"
    paper = "ours, after Das 4.2.2"

    def __init__(self) -> None:
        self.slot_prices: dict[int, SlotPrice] = {}

    def check(self, problem: Problem) -> None:
        """A life must end."""
        problem.require_bounded(self.name)
        if problem.counts_keys:
            raise PenstockError("policy 'elife' needs one clock for a pool, and a window of rows_per_key has one for each key; use 'life'")

    def score(self, view: View) -> Floats:
        """What a tuple earns beyond the price of a slot in the rest of its life."""
        pools = view.problem.budget.pool[view.stream]
        slot_price = np.array([self._in_use(view, which) for which in range(view.problem.budget.caps.shape[1])])[pools]
        return np.maximum(0.0, view.p - slot_price) * view.remaining

    def ties(self, view: View) -> tuple[Floats, ...]:
        """Below the price of a slot, as `prob`."""
        return (view.p,)

    def observe(self, view: View, stay: Ints) -> None:
        """Where a pool has shed, the next to leave shows the price of a slot."""
        for which in np.flatnonzero(view.shedding):
            mine = stay[view.problem.budget.pool[view.stream[stay]] == which]
            if not len(mine):
                continue
            slot_price, clock, window = self._pool(view, int(which))
            price = float(view.p[mine[0]]) / view.unit(view.now)
            if slot_price.first is None:
                slot_price.first, slot_price.mean = clock, price
            else:
                passed = clock - slot_price.last
                slot_price.mean += (price - slot_price.mean) * passed / (window / MEMORY + passed)
            slot_price.last = clock

    def ranking(self, problem: Problem) -> Ranking:
        """The kinetic tournament of `life`, with the price of a slot taken off every slope."""
        return Ranking(Kind.STAY, Prices.MATCHES if problem.stats == "window" else Prices.RATES, column=fixed_price(problem))

    def snapshot(self) -> dict[str, Any]:
        """The prices of slots, by pool."""
        return {"tolls": {which: vars(slot_price).copy() for which, slot_price in self.slot_prices.items()}}

    def restore(self, state: dict[str, Any]) -> None:
        """The prices of slots, by pool, under the name that they have in older states, too."""
        self.slot_prices = {which: SlotPrice(**slot_price) for which, slot_price in state["tolls"].items()}

    def _pool(self, view: View, which: int) -> tuple[SlotPrice, int, float]:
        stream = view.problem.leader(which)
        return self.slot_prices.setdefault(which, SlotPrice()), int(view.clock[stream]), float(view.problem.windows[stream].length)

    def _in_use(self, view: View, which: int) -> float:
        """The price of a slot in a pool, renewed if the pool sheds and it is time."""
        slot_price, clock, window = self._pool(view, which)
        settled = slot_price.first is not None and clock - slot_price.first >= window
        if view.over[which] and settled and (slot_price.changed is None or clock - slot_price.changed >= window / PERIOD):
            slot_price.used, slot_price.changed, slot_price.time = slot_price.mean, clock, view.now
        return rounded(slot_price.used * view.unit(slot_price.time)) if slot_price.changed is not None else np.inf
