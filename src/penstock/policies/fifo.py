"""`fifo`: the tuple that arrived first leaves first. What a time-to-live does, and the baseline of every comparison."""

from __future__ import annotations

import numpy as np

from penstock.core.problem import Problem
from penstock.core.trace import Floats
from penstock.engine.contract import Ranking
from penstock.engine.ranking_codes import Kind
from penstock.engine.view import View
from penstock.policies.base import Policy


class Fifo(Policy):
    """Score: the number of the instant of arrival."""

    name = "fifo"
    summary = "the oldest arrival leaves first, as with a TTL"
    needs = "-"
    paper = "baseline"

    def score(self, view: View) -> Floats:
        """The instant of arrival."""
        return view.arrived.astype(np.float64)

    def ranking(self, problem: Problem) -> Ranking:
        """The chain of arrivals is its own ranking."""
        return Ranking(Kind.ARRIVAL)
