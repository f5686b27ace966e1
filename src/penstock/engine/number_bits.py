"""Numbers as 64 bits: whole numbers as they are, floating point by its bits, in which -0.0 is 0.0."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.core.trace import Ints


def as_bits(values: Any) -> Ints:
    """The bits of an array of numbers.

    >>> as_bits(np.array([-0.0, 0.0])).tolist(), as_bits(np.array([3, -1])).tolist()
    ([0, 0], [3, -1])
    """
    if values.dtype.kind == "i":
        return np.ascontiguousarray(values, dtype=np.int64)
    return np.ascontiguousarray(values + 0.0, dtype=np.float64).view(np.int64)


def from_bits(bits: Ints, *, whole: bool) -> Any:
    """The numbers whose bits these are."""
    return bits if whole else np.ascontiguousarray(bits).view(np.float64)
