"""Statistics `window`: the partner's retained tuples, as Ojewole counts them (mn), or their value."""

from __future__ import annotations

import numpy as np

from penstock.core.trace import Bools, Floats, Ints
from penstock.engine.view import View
from penstock.statistics.base import Source


class WindowCounts(Source):
    """p(x) is the number of x's matches in memory and among this instant's arrivals, or what outputs with them are worth."""

    def prices(self, view: View) -> Floats:
        """mn, or for two streams and an objective the value of the outputs with those matches."""
        problem = view.problem
        if problem.priced_by_key or problem.n_streams > 2:
            return view.mn

        def worth(mine: Ints, partners: Ints, matches: Bools) -> Floats:
            low_is_mine = len(mine) and len(partners) and view.stream[mine[0]] < view.stream[partners[0]]
            a, b = view.importance[mine][None, :], view.importance[partners][:, None]
            value = problem.objective.pairs(a, b) if low_is_mine else problem.objective.pairs(b, a)
            return np.asarray((value * matches).sum(axis=0))

        return view.over_partners(worth)
