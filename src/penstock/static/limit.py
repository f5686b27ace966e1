"""What an exact plan would cost, before it is made; over a limit it is refused, and the method that would do is named."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.errors import PenstockError

MOST_BYTES = 2 << 30
MOST_STEPS = 3 * 10**10
"""Some minutes."""


@dataclass(frozen=True)
class Estimate:
    """The size of a dynamic programme: keys that are not settled by bounds, cells per key, bytes and elementary steps.

    >>> print(Estimate(40, 5001, 700_000, 9_000_000))
    40 keys are open, 5,001 cells each: 0.7 MB and 9 million steps
    """

    keys: int
    cells: int
    bytes: int
    steps: int

    def __str__(self) -> str:
        steps = f"{self.steps / 1e6:,.0f} million" if self.steps >= 1e6 else f"{self.steps:,}"
        return f"{self.keys:,} keys are open, {self.cells:,} cells each: {self.bytes / 1e6:,.1f} MB and {steps} steps"

    @property
    def fits(self) -> bool:
        """Whether it is within the limits."""
        return self.bytes <= MOST_BYTES and self.steps <= MOST_STEPS

    def check(self, instead: str) -> None:
        """Refuse what does not fit."""
        if not self.fits:
            raise PenstockError(
                f"method optimal would need too much here ({self}; the limits are {MOST_BYTES / 1e6:,.0f} MB and {MOST_STEPS / 1e6:,.0f} "
                f'million steps), method "{instead}" will do'
            )
