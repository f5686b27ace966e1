"""Rounding of sums before they are compared: what is equal on paper is then equal in the machine (docs/decisions/0001)."""

from __future__ import annotations

import numpy as np

from penstock.core.compiled import inlined, kernel
from penstock.core.trace import Floats

BITS = 42
"""Significant bits that are kept."""
_DROPPED = 53 - BITS
_REST = (1 << _DROPPED) - 1
_BELOW_HALF = _REST >> 1
_VANISHED = 2.0**-1000
FORGOTTEN = 2.0**-8
"""A sum of weights below this part of one arrival is forgotten when rates age."""
_FAR = 2.0**900
_HALVES = 2.0**27 + 1


@kernel
def rounded(x: float) -> float:
    """`x` to BITS significant bits.

    >>> rounded(0.1 + 0.2) == rounded(0.3), 0.1 + 0.2 == 0.3
    (True, False)
    """
    bits = np.float64(x).view(np.int64)
    even = (bits >> _DROPPED) & 1  # of two that are equally near, the one that ends in 0
    return float(np.int64((bits + _BELOW_HALF + even) & ~_REST).view(np.float64))


def raised(high: float, low: float, number: float) -> tuple[float, float]:
    """A sum in two floats, the second what the first cannot hold, and one number more.

    >>> raised(*raised(*raised(0.0, 0.0, 1e9), 1e-9), 2e9)
    (3000000000.0, 1e-09)
    """
    number = min(number, _FAR)
    total = high + number
    part = total - high
    return total, low + ((high - (total - part)) + (number - part))


def mean(high: float, low: float, count: float) -> float:
    """A sum in two floats over the count, rounded once.

    >>> mean(*raised(*raised(0.1, 0.0, 0.1), 0.1), 3.0), (0.1 + 0.1 + 0.1) / 3
    (0.1, 0.10000000000000002)
    """
    part = 1.0 / count
    first = high * part
    head = first * _HALVES - (first * _HALVES - first)  # so few bits that its product with a count is exact
    return first + ((high - head * count) - (first - head) * count + low) * part


raise_sum, mean_of_sum = inlined(raised), inlined(mean)
"""The same, compiled into loops: both forms of the engine must come to the same floats."""


def aged(sums: Floats, half_lives: int, least: float = _VANISHED) -> Floats:
    """Sums of weights after so many half-lives; what has become smaller than `least` is nothing.

    >>> aged(np.array([1.0, 0.0]), 3).tolist(), aged(np.array([1.0]), 1001).tolist()
    ([0.125, 0.0], [0.0])
    """
    out = np.ldexp(sums, -min(half_lives, 4000))
    return np.where(out < least, 0.0, out)
