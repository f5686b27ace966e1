"""Rounding of sums before they are compared: what is equal on paper is then equal in the machine (docs/decisions/0001)."""

from __future__ import annotations

import math

import numpy as np

from penstock.core.compiled import kernel

BITS = 42
"""Significant bits that are kept."""


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
