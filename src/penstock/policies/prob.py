"""`prob`: keep what is likely to find partners (Das 4.2.1; 6.2 for other predicates and values)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from penstock.core.batch import Batch
from penstock.core.problem import Problem
from penstock.core.trace import Floats
from penstock.engine.contract import Ranking
from penstock.engine.ranking_codes import Kind, Prices
from penstock.engine.view import View
from penstock.policies.base import Policy


class Prob(Policy):
    """Score: p, the expected number (or value) of matching partner arrivals per tick.

    >>> from penstock.simulator.simulate import simulate
    >>> from penstock.core.trace import Trace
    >>> trace = Trace.from_streams(R="abaa", S="baba")
    >>> simulate(trace, window=3, memory=2, policy="prob", stats="whole").n_output
    7
    """

    name = "prob"
    summary = "the least likely to find a partner leaves first"
    needs = "stats"
    paper = "Das 4.2.1"

    def score(self, view: View) -> Floats:
        """p."""
        return view.p

    def ranking(self, problem: Problem) -> Ranking | None:
        """By class where p depends on stream and key alone; by row where it is fixed; else by tuple."""
        column = fixed_price(problem)
        if column is not None:
            return Ranking(Kind.SCORE, column=column)
        return Ranking(Kind.PRICE, Prices.MATCHES if problem.stats == "window" else Prices.RATES)


def fixed_price(problem: Problem) -> Callable[[Batch, int], Floats] | None:
    """The p of each row, where it is known beforehand and rows of one key may differ in it; through relations it falls as facts end."""
    return None if problem.priced_by_key or problem.through or problem.stats not in ("whole", "given") else _price


def _price(batch: Batch, origin: int) -> Floats:
    assert batch.price is not None
    return np.ascontiguousarray(batch.price)
