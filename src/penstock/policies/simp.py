"""`simp`: the least important tuple leaves first (Ojewole 4.3, Towne 3.2)."""

from __future__ import annotations

from penstock.core.engine import Ranking
from penstock.core.problem import Problem
from penstock.core.ranking import FROM_IMPORTANCE, SCORE
from penstock.core.trace import Floats
from penstock.core.view import View
from penstock.policies.base import Policy


class Simp(Policy):
    """Score: importance."""

    name = "simp"
    summary = "the least important leaves first"
    needs = "importance"
    paper = "Ojewole 4.3"

    def score(self, view: View) -> Floats:
        """Importance."""
        return view.importance

    def ranking(self, problem: Problem) -> Ranking:
        """A fixed score."""
        return Ranking(SCORE, first_score=FROM_IMPORTANCE)
