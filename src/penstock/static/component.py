"""One key of an equi-join: m tuples of one relation meet n of the other, all with all (Das 3.2, Lemma 1).

Das calls it a Kurotowski component K(m, n). Its best p tuples are as many of either side as possible, and the outputs that they make are
a convex function of p: a further tuple gains 0, 1, 1, 2, 2, 3, 3, ... up to the smaller side, which the gain then stays at. That proves
Lemma 2: of a sum of convex functions under one budget the maximum is at a corner, where at most one key is kept in part.

*Differs from the paper*: the odd tuple may go to either side (docs/readings.md, 12); here it goes to the first relation.
"""

from __future__ import annotations

import numpy as np

from penstock.core.trace import Ints


def most_outputs(m: Ints, n: Ints, p: Ints) -> Ints:
    """The outputs that the best p tuples of K(m, n) make, for 0 <= p <= m + n: Das's C(p).

    >>> most_outputs(np.array([3]), np.array([2]), np.array([[0], [1], [2], [3], [4], [5]])).ravel().tolist()
    [0, 0, 1, 2, 4, 6]
    """
    small = np.minimum(m, n)
    half = p // 2
    return np.where(p <= 2 * small, half * (p - half), small * (p - small))


def best_split(m: int, n: int, p: int) -> tuple[int, int]:
    """How many of either side the best p tuples of K(m, n) are.

    >>> best_split(10, 2, 3), best_split(10, 2, 9), best_split(2, 10, 9)
    ((2, 1), (7, 2), (2, 7))
    """
    small = min(m, n)
    if p <= 2 * small:
        return p - p // 2, p // 2
    return (p - n, n) if m > n else (m, p - m)
