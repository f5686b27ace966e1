"""`additive`: a weighted sum of importance, matches and time, the first of Ojewole's three families (3.2).

Age is common to all candidates but for their time, so the weight applies to the time itself: younger scores higher.
"""

from __future__ import annotations

import numpy as np

from penstock.core.batch import Batch
from penstock.core.problem import Problem
from penstock.core.trace import Floats
from penstock.engine.contract import Ranking
from penstock.engine.ranking_codes import Kind, Prices
from penstock.engine.view import View
from penstock.policies.base import Policy


class Additive(Policy):
    """Score: a * importance + b * mn + c * (time - first time); a, b, c are `weights`, 1, 1, 0 unless given."""

    name = "additive"
    summary = "the least weighted sum of importance, matches and time leaves first"
    needs = "importance, weights"
    paper = "Ojewole 3.2"

    def score(self, view: View) -> Floats:
        """The weighted sum."""
        fixed = _fixed(view.problem, view.importance, view.time - view.origin)
        return fixed + view.problem.weights[1] * view.mn

    def ranking(self, problem: Problem) -> Ranking:
        """The fixed part orders a class, mn moves the class."""

        def column(batch: Batch, origin: int) -> Floats:
            importance = np.ones(len(batch)) if batch.importance is None else batch.importance
            return _fixed(problem, importance, batch.time - origin)

        return Ranking(Kind.SCORE_PLUS_PRICE, Prices.MATCHES, column=column)


def _fixed(problem: Problem, importance: Floats, age: Floats | np.ndarray) -> Floats:
    return np.asarray(problem.weights[0] * importance + problem.weights[2] * age, dtype=np.float64)
