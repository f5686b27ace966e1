"""`dgl`, dynamic gain and loss: what produces rises, what does not fades (Ojewole 4.3, Towne 3.2).

Differs from the papers: alpha and beta, which they do not give, default to the window and to the mean importance over the window, so
that a tuple of average importance without matches fades over its lifetime.
"""

from __future__ import annotations

import numpy as np

from penstock.core.errors import PenstockError
from penstock.core.problem import Problem
from penstock.core.trace import Floats
from penstock.engine.contract import Ranking
from penstock.engine.ranking_codes import FirstScore, Kind, Prices
from penstock.engine.view import View
from penstock.policies.base import Policy


class Dgl(Policy):
    """Score: starts at importance; each later instant it gains importance * mn * remaining life / alpha, or loses beta, not below 0."""

    name = "dgl"
    summary = "outputs raise a tuple's score, idle instants lower it; the lowest leaves first"
    needs = "importance, a window"
    paper = "Ojewole 4.3"

    def check(self, problem: Problem) -> None:
        """Gains depend on the life that is left."""
        problem.require_bounded(self.name)
        if not all(w.bounded for w in problem.windows) and None in (problem.alpha, problem.beta):
            raise PenstockError("policy 'dgl' needs alpha and beta where a window has no length, got none")

    def score(self, view: View) -> Floats:
        """The cumulative score, kept in the memo."""
        problem = view.problem
        window = np.array([w.at(np.array([view.now]))[0] for w in problem.windows], dtype=np.float64)[view.stream]
        alpha = window if problem.alpha is None else problem.alpha
        beta = view.mean_importance / window if problem.beta is None else problem.beta
        gained = view.memo + view.importance * view.mn * view.remaining / alpha
        lost = np.maximum(0.0, view.memo - beta)
        start = view.importance * (view.mn if problem.switch("dgl-init") == "simpprob" else 1.0)
        view.memo[:] = np.where(view.new, start, np.where(view.matched, gained, lost))
        return view.memo.copy()

    def ties(self, view: View) -> tuple[Floats, ...]:
        """Importance, then mn."""
        return (view.importance, view.mn)

    def ranking(self, problem: Problem) -> Ranking | None:
        """Gains are charged per output; the loss is a common offset. A window that changes has no common offset."""
        if any(w.kind == "schedule" for w in problem.windows):
            return None
        first = FirstScore.MATCHES if problem.switch("dgl-init") == "simpprob" else FirstScore.IMPORTANCE
        return Ranking(Kind.GAIN_LOSS, Prices.MATCHES, first, ties=True)
