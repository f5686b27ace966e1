"""`simp`: the least important tuple leaves first (Ojewole 4.3, Towne 3.2)."""

from __future__ import annotations

from penstock.core.problem import Problem
from penstock.core.trace import Floats
from penstock.engine.contract import Ranking
from penstock.engine.ranking_codes import FirstScore, Kind
from penstock.engine.view import View
from penstock.policies.base import Policy


class Simp(Policy):
    """Score: importance."""

    name = "simp"
    summary = "the least important leaves first"
    needs = "importance"
    paper = "Ojewole 4.3"

    def score(self, view: View) -> Floats:
        """Importance, through relations times the largest weight of its facts."""
        return view.first_importance

    def ranking(self, problem: Problem) -> Ranking:
        """A fixed score."""
        return Ranking(Kind.SCORE, first_score=FirstScore.IMPORTANCE)
