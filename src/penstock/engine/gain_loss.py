"""What both forms of `dgl` reckon with: scores are whole numbers of a unit, whose sums are exact (docs/decisions/0001).

All scores are kept times one factor, which alpha and the windows divide: gains and losses are then whole multiples of importances.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from penstock.core.problem import Problem
from penstock.core.trace import Floats, Ints
from penstock.core.window import NEVER

UNIT = 90
"""A score is a whole number of 2**-UNIT,"""
MOST_BITS = 185
"""and at most this power of two of them."""
MOST = 1 << MOST_BITS
_MOST = 2.0 ** (MOST_BITS - UNIT)
_LARGEST_FACTOR = 1 << 48
_LARGEST_NUMBER = float(np.finfo(np.float64).max)


class Factors(NamedTuple):
    """What an importance is multiplied with: for the score of an arrival, and by stream for a gain (times mn and life) and for a loss."""

    start: float
    gain: Floats
    loss: Floats


def factors(problem: Problem, now: int = 0) -> Factors:
    """The factors of a problem; those of windows that change depend on the time.

    >>> factors(Problem.of(("R", "S"), window={"R": 4, "S": 6}, memory=2, has_importance=True))
    Factors(start=12.0, gain=array([3., 2.]), loss=array([3., 2.]))
    """
    n, windows = problem.n_streams, problem.windows
    lengths = {length for w in windows for length in ([size for _, size in w.schedule] or [w.length])}
    divisors = {1} if None not in (problem.alpha, problem.beta) else lengths
    if problem.alpha is not None and problem.alpha.is_integer():
        divisors = divisors | {int(problem.alpha)}
    common = math.lcm(*divisors)
    start = float(common if common <= _LARGEST_FACTOR else 1)
    length = [float(w.at(np.array([now]))[0]) for w in windows]
    gain = [min(start / (length[stream] if problem.alpha is None else problem.alpha), _LARGEST_NUMBER) for stream in range(n)]
    loss = [start / length[stream] if problem.beta is None else start for stream in range(n)]
    return Factors(start, np.array(gain), np.array(loss))


def set_factors(problem: Problem, lanes: Any, seen: int, time: Ints, begin: int, stop: int) -> int:
    """Where windows change, give streams the factors of the time of row `begin`, or of what was `seen`; up to which row they hold."""
    changes = [at for window in problem.windows for at, _ in window.schedule]
    if not changes:
        return stop
    now = max(seen, int(time[begin]))
    by = factors(problem, now)
    lanes["gain"], lanes["loss"] = by.gain, by.loss
    later = time[begin:stop] >= min((at for at in changes if at > now), default=NEVER)
    return begin + int(later.argmax()) if later.any() else stop


def in_units(number: float) -> int:
    """A number that is not below 0 in whole units: what is less is cut off, and what is beyond the most is the most.

    >>> in_units(1.0) == 1 << UNIT, in_units(1e-30), in_units(1e30) == MOST
    (True, 0, True)
    """
    if number >= _MOST:
        return MOST
    above, below = number.as_integer_ratio()
    return (above << UNIT) // below
