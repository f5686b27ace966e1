"""What all sources of probabilities share: by default they know nothing and keep no state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.core.batch import Batch
from penstock.core.problem import Problem
from penstock.core.trace import Floats, Ints
from penstock.engine.chance_steps import Scale
from penstock.engine.contract import Bands, Renumber
from penstock.engine.view import View


class Source:
    """A source of probabilities (`penstock.engine.contract.Statistics`)."""

    room = 0
    """The bytes that it may take; 0 where that is not bounded, or nothing is counted by key."""

    @property
    def n_bytes(self) -> int:
        """Nothing is counted."""
        return 0

    @property
    def is_sketch(self) -> bool:
        """Whether keys share the cells of a sketch."""
        return False

    def age(self, batch: Batch, begin: int) -> int:
        """Rates that do not age."""
        return 0

    def rates(self, batch: Batch, begin: int) -> tuple[Floats, int]:
        """No rates: the engine counts for itself."""
        raise NotImplementedError(f"{type(self).__name__} gives no rates by key")

    def rates_of(self, key: Ints) -> Floats:
        """No rates."""
        raise NotImplementedError(f"{type(self).__name__} gives no rates by key")

    def weigh(self, stream: Ints, key: Ints, values: Ints, importance: Floats | None) -> tuple[Floats, Floats]:
        """The rates of keys, where nothing else tells tuples apart; streams have none of their own."""
        rates = self.rates_of(key)
        return rates, np.zeros(rates.shape[1])

    def reprice(self, key: Ints, stream: Ints) -> Floats:
        """The products of the partners' rates."""
        out = np.ones(len(key))
        for other, rate in enumerate(self.rates_of(key).T):
            out *= np.where(stream == other, 1.0, rate)
        return out

    def totals(self, key: Ints) -> Floats:
        """No rates."""
        raise NotImplementedError(f"{type(self).__name__} gives no rates by key")

    def known_rates(self) -> tuple[dict[str, Any], Floats]:
        """No rates."""
        raise NotImplementedError(f"{type(self).__name__} gives no rates by what facts link")

    def bands(self) -> Bands | None:
        """Prices may change."""
        return None

    def units(self) -> tuple[int, float, int]:
        """Rates that do not grow."""
        return 0, 0.0, 0

    def take_chances(self) -> Floats | None:
        """Nothing is learned."""
        return None

    def counted_returns(self) -> tuple[Ints, Scale] | None:
        """Nothing is counted."""
        return None

    def priced(self, problem: Problem, batch: Batch) -> Batch:
        """Nothing is known beforehand."""
        return batch

    def keys(self) -> Ints:
        """No state."""
        return np.empty(0, np.int64)

    def values(self) -> Floats:
        """Nothing is remembered."""
        return np.empty((0, 0))

    def arrive(self, view: View) -> None:
        """Nothing to note."""

    def prices(self, view: View) -> Floats:
        """p of every candidate, as it was fixed when its row was read."""
        return np.asarray(view.price)

    def snapshot(self) -> dict[str, Any]:
        """No state."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """No state."""

    def freeze(self) -> dict[str, Any]:
        """What is kept, where it is small or written fast."""
        return self.snapshot()

    def thaw(self, state: dict[str, Any]) -> None:
        """Take it over."""
        self.restore(state)

    def merge(self, states: Sequence[dict[str, Any]], renumber: Renumber) -> list[float]:
        """No state, and no clock."""
        return [0.0] * len(states)


class Ageless(Source):
    """Counts that would have to age, and nobody has said how fast: for a policy of the user's own, which may never ask for them."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def totals(self, key: Ints) -> Floats:
        """Refused: what is missing is said."""
        self.problem.ageing()
        return super().totals(key)

    def prices(self, view: View) -> Floats:
        """Refused: what is missing is said."""
        self.problem.ageing()
        return super().prices(view)
