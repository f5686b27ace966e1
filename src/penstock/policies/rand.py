"""`rand`: a victim drawn uniformly from all candidates, the newcomer included (Das 5.2; docs/readings.md, 7)."""

from __future__ import annotations

import numpy as np

from penstock.core.problem import Problem
from penstock.core.trace import Floats
from penstock.engine.contract import Ranking
from penstock.engine.ranking_codes import Kind
from penstock.engine.view import View
from penstock.policies.base import Policy


class Rand(Policy):
    """Score: a fresh random number, so that the lowest is a uniform draw. Seeded."""

    name = "rand"
    summary = "a uniformly random victim"
    needs = "a seed"
    paper = "Das 5.2"

    def __init__(self) -> None:
        self.random: np.random.Generator | None = None

    def score(self, view: View) -> Floats:
        """Random numbers; with the switch `rand-newcomer=safe` those of arrivals are the highest."""
        if self.random is None:
            self.random = np.random.default_rng(view.problem.seed)
        safe = view.problem.switch("rand-newcomer") == "safe"
        return self.random.random(len(view)) + (view.new if safe else 0.0)

    def ranking(self, problem: Problem) -> Ranking:
        """Drawn from a dense list of slots."""
        return Ranking(Kind.DRAW, spares=problem.switch("rand-newcomer") == "safe")
