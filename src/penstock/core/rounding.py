"""Rounding of sums before they are compared: what is equal on paper is then equal in the machine (docs/decisions/0001)."""

from __future__ import annotations

import math

import numpy as np

from penstock.core.compiled import kernel
from penstock.core.trace import Floats

BITS = 42
"""Significant bits that are kept."""
_VANISHED = 2.0**-1000


@kernel
def rounded(x: float) -> float:
    """`x` to BITS significant bits.

    >>> rounded(0.1 + 0.2) == rounded(0.3), 0.1 + 0.2 == 0.3
    (True, False)
    """
    if x == 0.0:
        return 0.0
    mantissa, exponent = math.frexp(x)
    return math.ldexp(np.rint(math.ldexp(mantissa, BITS)), exponent - BITS)


def aged(sums: Floats, half_lives: int, least: float = _VANISHED) -> Floats:
    """Sums of weights after so many half-lives; what has become smaller than `least` is nothing.

    >>> aged(np.array([1.0, 0.0]), 3).tolist(), aged(np.array([1.0]), 1001).tolist()
    ([0.125, 0.0], [0.0])
    """
    out = np.ldexp(sums, -min(half_lives, 4000))
    return np.where(out < least, 0.0, out)
