"""How long a key waits between two visits: `delay` of orders and sessions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.errors import PenstockError
from penstock.core.trace import Ints

Draw = Callable[[np.random.Generator, Any, Any], Any]
_MOST = float(1 << 40)
_FORMS: dict[str, tuple[int, Draw]] = {
    "exponential": (1, lambda rng, numbers, size: rng.exponential(numbers[0], size)),
    "fixed": (1, lambda rng, numbers, size: np.full(size, numbers[0])),
    "gamma": (2, lambda rng, numbers, size: rng.gamma(numbers[0], numbers[1] / numbers[0], size)),
    "uniform": (2, lambda rng, numbers, size: rng.integers(int(numbers[0]), int(numbers[1]), size, endpoint=True)),
}
"""How many numbers follow the name, and what is drawn."""


@dataclass(frozen=True)
class Delay:
    """A distribution of delays, in whole ticks, at least 1.

    A number is the mean of an exponential draw. "fixed:60" is always 60, "gamma:2:60" has the shape 2 and the mean 60, and "uniform:5:60"
    is any whole number from 5 to 60.

    >>> Delay.parse("uniform:5:60").draw(np.random.default_rng(7), 4).tolist()
    [57, 40, 43, 55]
    """

    form: str
    numbers: tuple[float, ...]

    @classmethod
    def parse(cls, delay: Any) -> Delay:
        """From a number or a text."""
        name, *rest = str(delay).split(":")
        form, texts = (name, rest) if rest else ("exponential", [name])
        try:
            numbers = tuple(float(text) for text in texts)
        except ValueError:
            numbers = ()
        if isinstance(delay, bool) or form not in _FORMS or len(numbers) != _FORMS[form][0] or not _possible(form, numbers):
            raise PenstockError(
                'delay must be a mean number of ticks >= 1, or "fixed:60", "gamma:2:60" (shape and mean) or "uniform:5:60" '
                f"(least and most), got {delay!r}"
            )
        return cls(form, numbers)

    def draw(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> Ints:
        """So many delays."""
        return np.maximum(1, np.rint(_FORMS[self.form][1](rng, self.numbers, size))).astype(np.int64)


def _possible(form: str, numbers: tuple[float, ...]) -> bool:
    if form == "gamma":
        return 0 < numbers[0] <= _MOST and 1 <= numbers[1] <= _MOST
    if form == "uniform":
        least, most = numbers
        return 1 <= least <= most <= _MOST and least == int(least) and most == int(most)
    return 1 <= numbers[0] <= _MOST
