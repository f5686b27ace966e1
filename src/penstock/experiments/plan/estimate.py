"""A recall, and between what it lies in later data of the same kind: from how it changes over time, and from group to group of keys.

A ratio of sums has the spread of what its parts are off by (Cochran's ratio estimator), summed over blocks of time, and over groups of keys
where the trace is sampled. Later data has a spread of its own, as large as that of the data at hand; the keys are the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from penstock.core.trace import Floats

_T = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 8: 2.31, 10: 2.23, 13: 2.16, 19: 2.09}
"""Student's quantile for 95 %, by degrees of freedom; of those between, that of the next smaller."""


@dataclass(frozen=True)
class KeptShare:
    """A share of the exact result, and its interval at 95 %."""

    share: float
    low: float
    high: float


def estimate(made: Floats, exact: Floats) -> KeptShare | None:
    """From what was made and what there was, by group of keys and block of time; None where there was nothing.

    >>> estimate(np.array([[8.0, 10.0, 9.0]]), np.array([[10.0, 10.0, 10.0]]))
    KeptShare(share=0.9, low=0.5489064702010777, high=1.0)
    """
    whole = exact.sum()
    if whole <= 0:
        return None
    share = made.sum() / whole
    off = made - share * exact
    blocks, groups = (_spread(off.sum(axis=axis)) / whole**2 for axis in (0, 1))
    reach = _quantile(off.shape[1] - 1) * math.sqrt(2 * blocks + groups) if off.shape[1] > 1 else 1.0
    return KeptShare(float(share), max(0.0, float(share) - reach), min(1.0, float(share) + reach))


def _spread(off: Floats) -> float:
    """The variance of a sum, from its parts; one part says nothing."""
    n = len(off)
    return float(n / (n - 1) * np.square(off).sum()) if n > 1 else 0.0


def _quantile(freedom: int) -> float:
    return _T[max(known for known in _T if known <= freedom)]
