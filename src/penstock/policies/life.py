"""`life`: what a tuple would still produce if it stayed to its end (Das 4.2.2)."""

from __future__ import annotations

import numpy as np

from penstock.core.problem import Problem
from penstock.core.trace import Floats, Ints
from penstock.engine.contract import Ranking
from penstock.engine.ranking_codes import Kind, Prices
from penstock.engine.view import View
from penstock.policies.base import Policy
from penstock.policies.prob import fixed_price


class Life(Policy):
    """Score: remaining life times p."""

    name = "life"
    summary = "the least expected output over the whole remaining life leaves first"
    needs = "stats, a window"
    paper = "Das 4.2.2"

    def check(self, problem: Problem) -> None:
        """A life must end."""
        problem.require_bounded(self.name)

    def score(self, view: View) -> Floats:
        """Remaining life times p."""
        return exact_products(view.remaining, view.p)

    def ranking(self, problem: Problem) -> Ranking:
        """A kinetic tournament of classes; of tuples, where the earlier of a class may outlive the later."""
        return Ranking(Kind.LIFE, Prices.MATCHES if problem.stats == "window" else Prices.RATES, column=fixed_price(problem))


def exact_products(life: Ints, p: Floats) -> Floats:
    """life * p; where whole numbers would be rounded, their ranks instead, which have the same order.

    >>> exact_products(np.array([2**60, 2**60 - 1]), np.array([3.0, 3.0])).tolist()
    [1.0, 0.0]
    """
    product = life * p
    if np.abs(product).max(initial=0.0) < 2.0**53 or (p != np.floor(p)).any():
        return product
    exact = np.array([int(a) * int(x) for a, x in zip(life, p, strict=True)], dtype=object)
    return np.unique(exact, return_inverse=True)[1].astype(np.float64)
