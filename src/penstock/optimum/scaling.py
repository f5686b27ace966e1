"""Values as whole numbers: a flow is exact in integers, and binary fractions become integers when they are multiplied by a power of two.

Counts and importances in whole numbers or in binary fractions (0.5, 0.375, ...) are scaled without any error as long as their total fits.
Others are rounded, to about 17 decimal places of the total: `UnitSize.error` bounds what the sum of all of them is off by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from penstock.core.errors import PenstockError
from penstock.core.trace import Floats, Ints

BITS = 56  # of the total: a potential is at most twice that, a sum of two of them still fits
FINE = 16  # the mean value in units, at least: prices between whole outputs leave fewer ties, and ties are what takes time


@dataclass(frozen=True)
class UnitSize:
    """One unit is 2 ** -exponent; `error` is the most by which all values together were rounded."""

    exponent: int
    error: float = 0.0

    def back(self, units: int) -> float:
        """Units as a value, rounded once.

        >>> UnitSize(4).back(24)
        1.5
        """
        return math.ldexp(units, -self.exponent)


def whole_units(values: Floats) -> tuple[Ints, UnitSize]:
    """Values in units, and the scale that was chosen.

    >>> units, scale = whole_units(np.array([0.5, 2.75]))
    >>> units.tolist(), scale.back(int(units.sum())), scale.error
    ([8, 44], 3.25, 0.0)
    >>> whole_units(np.array([0.1]))[1].error < 1e-16
    True
    """
    if not np.isfinite(values).all():
        raise PenstockError("objective must give finite values for the optimum, got one that is not")
    total = float(np.abs(values).sum())
    if total == 0:
        return np.zeros(len(values), dtype=np.int64), UnitSize(0)
    most = BITS - math.frexp(total)[1]
    mantissa, power = np.frexp(values[values != 0])
    digits = (mantissa * 2.0**53).astype(np.int64)
    trailing = np.frexp((digits & -digits).astype(np.float64))[1] - 1
    needed = int((53 - trailing - power).max())
    fine = math.ceil(math.log2(FINE * np.count_nonzero(values)) - math.log2(total))
    exponent = min(max(needed, fine), most)
    units = np.rint(np.ldexp(values, exponent)).astype(np.int64)
    error = 0.0 if needed <= exponent else math.ldexp(len(values), -exponent - 1)
    return units, UnitSize(exponent, error)
