"""`dgl`, dynamic gain and loss: what produces rises, what does not fades (Ojewole 4.3, Towne 3.2).

Differs from the papers: alpha and beta, which they do not give, default to the window and to the mean importance over the window, so
that a tuple of average importance without matches fades over its lifetime. How scores are rounded is said in docs/decisions/0001.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.errors import PenstockError
from penstock.core.problem import Problem
from penstock.core.trace import Floats
from penstock.engine.contract import Ranking
from penstock.engine.gain_loss import MOST, UNIT, factors, in_units
from penstock.engine.ranking_codes import FirstScore, Kind, Prices
from penstock.engine.view import View
from penstock.policies.base import Policy


class Dgl(Policy):
    """Score: starts at importance; each later instant it gains importance * mn * remaining life / alpha, or loses beta, not below 0."""

    name = "dgl"
    summary = "outputs raise a tuple's score, idle instants lower it; the lowest leaves first"
    needs = "importance, a window"
    paper = "Ojewole 4.3"

    def __init__(self) -> None:
        self.kept: dict[int, int] = {}  # by row: the score, in units

    def check(self, problem: Problem) -> None:
        """Gains depend on the life that is left."""
        problem.require_bounded(self.name)
        if not all(w.bounded for w in problem.windows) and None in (problem.alpha, problem.beta):
            raise PenstockError("policy 'dgl' needs alpha and beta where a window has no length, got none")

    def score(self, view: View) -> Floats:
        """The cumulative score; the memo has it as a float."""
        problem, by = view.problem, factors(view.problem, view.now)
        beta = view.mean_importance if problem.beta is None else problem.beta
        losses = np.array([in_units(beta * factor) for factor in by.loss.tolist()], dtype=object)
        by_matches = problem.switch("dgl-init") == "simpprob"
        with np.errstate(over="ignore"):
            first = view.importance * (by.start * view.mn) if by_matches else view.first_importance * by.start
            rise = np.where(view.new, first, view.importance * (view.mn * view.remaining * by.gain[view.stream]))
        scores = self._kept_before(view, by.start)
        if view.new.any():  # else there is no instant in which anybody gains or loses
            rises = view.new | view.matched
            raised = np.minimum(scores[rises] + np.array([in_units(one) for one in rise[rises].tolist()], dtype=object), MOST)
            scores = np.maximum(scores - losses[view.stream], 0)
            scores[rises] = raised
        self.kept = dict(zip(view.row.tolist(), scores.tolist(), strict=True))
        one = int(by.start) << UNIT
        view.memo[:] = [score / one for score in self.kept.values()]
        return view.memo.copy()

    def _kept_before(self, view: View, start: float) -> NDArray[Any]:
        """The scores before this instant, 0 for arrivals. Snapshots of earlier versions have them in the memo alone."""
        scores = [0 if new else self.kept.get(row) for row, new in zip(view.row.tolist(), view.new.tolist(), strict=True)]
        memo = view.memo.tolist()
        return np.array([in_units(memo[at] * start) if score is None else score for at, score in enumerate(scores)], dtype=object)

    def ties(self, view: View) -> tuple[Floats, ...]:
        """What of the score is beyond a float, importance, then mn."""
        place = {score: float(number) for number, score in enumerate(sorted(set(self.kept.values())))}
        return (np.array([place[self.kept[row]] for row in view.row.tolist()]), view.importance, view.mn)

    def ranking(self, problem: Problem) -> Ranking:
        """Gains are charged per output; the loss is a common offset of a stream, whatever the length of its window is now."""
        first = FirstScore.MATCHES if problem.switch("dgl-init") == "simpprob" else FirstScore.IMPORTANCE
        return Ranking(Kind.GAIN_LOSS, Prices.MATCHES, first, ties=True)
