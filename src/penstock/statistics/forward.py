"""The clock of decayed counts.

Weights are taken *forward*: an arrival at time u weighs 2 ** ((u - origin) / half-life) for good, so sums grow only by arrivals and their
order changes only where something arrived. Every so many half-lives since the first arrival, the origin moves along, which divides every
sum by the same power of two, exactly; what is then below a small part of one arrival is forgotten. When it moves depends on the times of
the rows alone, not on how they are cut into batches.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.core.rounding import FORGOTTEN as FORGOTTEN
from penstock.core.trace import Floats, Ints

_REACH = 8  # the exponent that the price of one arrival may reach before the origin moves


class Forward:
    """The clock of forward weights: exponents relative to an origin that moves by whole half-lives."""

    def __init__(self, half_life: float, streams: int) -> None:
        self.half_life = half_life
        self.step = max(1, _REACH // (streams - 1))  # half-lives by which the origin moves; a price is a product of streams - 1 rates
        self.origin: int | None = None
        self.moved = 0

    def exponents(self, time: Ints) -> Floats:
        """The base-2 logarithm of the weight of arrivals at these times."""
        if self.origin is None:
            self.origin = int(time[0])
        return (time - self.origin) / self.half_life - self.moved

    def move(self, time: int) -> int:
        """Move the origin where a row of this time needs it; by how many half-lives."""
        steps = max(0, int(self.exponents(np.array([time]))[0] // self.step) * self.step)
        self.moved += steps
        return steps

    def span(self, time: Ints) -> int:
        """How many of these rows can be weighed before the origin must move."""
        beyond = np.flatnonzero(self.exponents(time) >= self.step)
        return int(beyond[0]) if len(beyond) else len(time)

    def snapshot(self) -> dict[str, Any]:
        """The position of the clock."""
        return {"clock": np.array([0 if self.origin is None else self.origin, self.moved, self.origin is not None])}

    def restore(self, state: dict[str, Any]) -> None:
        """Set the clock."""
        origin, moved, known = (int(v) for v in state["clock"])
        self.origin, self.moved = (origin if known else None), moved
