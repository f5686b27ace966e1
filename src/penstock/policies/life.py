"""`life`: what a tuple would still produce if it stayed to its end (Das 4.2.2)."""

from __future__ import annotations

from penstock.core.engine import Ranking
from penstock.core.problem import Problem
from penstock.core.ranking import LIFE, MATCHES, RATES
from penstock.core.trace import Floats
from penstock.core.view import View
from penstock.policies.base import Policy


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
        return view.remaining * view.p

    def ranking(self, problem: Problem) -> Ranking | None:
        """A kinetic tournament of classes, where the earlier tuple of a class never outlives the later."""
        if problem.priced_by_key and problem.ages_in_order:
            return Ranking(LIFE, MATCHES if problem.stats == "window" else RATES)
        return None
