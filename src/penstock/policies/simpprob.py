"""`simpprob`: importance times the matches that were there at arrival (Ojewole 4.3, Towne 3.2)."""

from __future__ import annotations

import numpy as np

from penstock.core.problem import Problem
from penstock.core.trace import Floats
from penstock.engine.contract import Ranking
from penstock.engine.ranking_codes import FirstScore, Kind, Prices
from penstock.engine.view import View
from penstock.policies.base import Policy


class SimpProb(Policy):
    """Score: importance * mn at arrival, fixed. Tie-break: importance (equal scores and importances have equal mn)."""

    name = "simpprob"
    summary = "the least importance x matches at arrival leaves first"
    needs = "importance"
    paper = "Ojewole 4.3"

    def score(self, view: View) -> Floats:
        """What was noted at arrival."""
        view.memo[:] = np.where(view.new, view.importance * view.mn, view.memo)
        return view.memo.copy()

    def ties(self, view: View) -> tuple[Floats, ...]:
        """Importance."""
        return (view.importance,)

    def ranking(self, problem: Problem) -> Ranking:
        """A fixed score, from mn at arrival."""
        return Ranking(Kind.SCORE, Prices.MATCHES, FirstScore.MATCHES, ties=True)
