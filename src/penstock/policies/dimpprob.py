"""`dimpprob`: importance times the matches that are there now (Ojewole 4.3, Towne 3.2)."""

from __future__ import annotations

from penstock.core.problem import Problem
from penstock.core.trace import Floats
from penstock.engine.contract import Ranking
from penstock.engine.ranking_codes import FirstScore, Kind, Prices
from penstock.engine.view import View
from penstock.policies.base import Policy


class DimpProb(Policy):
    """Score: importance * mn, recomputed each instant. Tie-break: importance (equal scores and importances have equal mn)."""

    name = "dimpprob"
    summary = "the least importance x matches now leaves first"
    needs = "importance"
    paper = "Ojewole 4.3"

    def score(self, view: View) -> Floats:
        """Importance times mn."""
        return view.importance * view.mn

    def ties(self, view: View) -> tuple[Floats, ...]:
        """Importance."""
        return (view.importance,)

    def ranking(self, problem: Problem) -> Ranking:
        """Inside a class all share mn, so importance orders it; mn orders the classes."""
        return Ranking(Kind.SCORE_TIMES_PRICE, Prices.MATCHES, FirstScore.IMPORTANCE, ties=True)
