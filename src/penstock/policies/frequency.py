"""`frequency`: keep the keys of which there are most tuples (Kwon 5, after Law and Zaniolo 2007).

With statistics `sketch`, for keys too many to count, the number is estimated: the decayed count of the key's arrivals in all streams,
from a Count-Min sketch of fixed size (Kwon 2.2; the error is stated in statistics/sketch.py).
"""

from __future__ import annotations

import numpy as np

from penstock.core.problem import Problem
from penstock.core.trace import Floats
from penstock.engine.contract import Ranking
from penstock.engine.ranking_codes import Kind, Prices
from penstock.engine.view import View
from penstock.policies.base import Sparing


class Frequency(Sparing):
    """Worth: the number of tuples with the key in all streams, in memory and among this instant's arrivals.

    >>> from penstock import Trace, simulate
    >>> simulate(Trace.from_streams(R="abaa", S="baba"), window=4, memory=3, policy="frequency").n_output
    6
    """

    name = "frequency"
    summary = "the key with the fewest tuples in all windows leaves first, but never an arrival"
    needs = "keys that repeat"
    paper = "Kwon 5"

    def __init__(self) -> None:
        self.random: np.random.Generator | None = None

    def worth(self, view: View) -> Floats:
        """The count of the key."""
        if view.problem.stats == "sketch":
            return view.totals
        _, place, count = np.unique(view.key, return_inverse=True, return_counts=True)
        return np.asarray(count[place], dtype=np.float64)

    def ties(self, view: View) -> tuple[Floats, ...]:
        """None, or random (switch `kwon-ties`)."""
        if view.problem.switch("kwon-ties") == "oldest":
            return ()
        if self.random is None:
            self.random = np.random.default_rng(view.problem.seed)
        return (self.random.random(len(view)),)

    def ranking(self, problem: Problem) -> Ranking | None:
        """The price of a class; random ties are drawn step by step."""
        if problem.switch("kwon-ties") == "random":
            return None
        return Ranking(Kind.PRICE, Prices.TOTALS if problem.stats == "sketch" else Prices.TUPLES, spares=True)
