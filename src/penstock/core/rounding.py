"""Rounding of sums before they are compared: what is equal on paper is then equal in the machine (docs/decisions/0001)."""

from __future__ import annotations

import numpy as np

from penstock.core.compiled import kernel
from penstock.core.trace import Floats

BITS = 42
"""Significant bits that are kept."""
_DROPPED = 53 - BITS
_REST = (1 << _DROPPED) - 1
_BELOW_HALF = _REST >> 1
_VANISHED = 2.0**-1000


@kernel
def rounded(x: float) -> float:
    """`x` to BITS significant bits.

    >>> rounded(0.1 + 0.2) == rounded(0.3), 0.1 + 0.2 == 0.3
    (True, False)
    """
    bits = np.float64(x).view(np.int64)
    even = (bits >> _DROPPED) & 1  # of two that are equally near, the one that ends in 0
    return float(np.int64((bits + _BELOW_HALF + even) & ~_REST).view(np.float64))


def aged(sums: Floats, half_lives: int, least: float = _VANISHED) -> Floats:
    """Sums of weights after so many half-lives; what has become smaller than `least` is nothing.

    >>> aged(np.array([1.0, 0.0]), 3).tolist(), aged(np.array([1.0]), 1001).tolist()
    ([0.125, 0.0], [0.0])
    """
    out = np.ldexp(sums, -min(half_lives, 4000))
    return np.where(out < least, 0.0, out)
