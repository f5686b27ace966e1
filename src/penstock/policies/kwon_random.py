"""`kwon-random`: a victim drawn uniformly from what is there, never the arrival (Kwon 5)."""

from __future__ import annotations

import numpy as np

from penstock.core.problem import Problem
from penstock.core.trace import Floats
from penstock.engine.contract import Ranking
from penstock.engine.ranking_codes import Kind
from penstock.engine.view import View
from penstock.policies.base import Sparing


class KwonRandom(Sparing):
    """Worth: a fresh random number. Seeded; `rand` with the switch `rand-newcomer=safe`.

    >>> from penstock import Trace, simulate
    >>> simulate(Trace.from_streams(R="ab", S="ba"), window=2, memory=2, policy="kwon-random").n_output
    2
    """

    name = "kwon-random"
    summary = "a uniformly random victim, but never the arrival"
    needs = "a seed"
    paper = "Kwon 5"

    def __init__(self) -> None:
        self.random: np.random.Generator | None = None

    def worth(self, view: View) -> Floats:
        """Random numbers."""
        if self.random is None:
            self.random = np.random.default_rng(view.problem.seed)
        return self.random.random(len(view))

    def check(self, problem: Problem) -> None:
        """It looks at nothing."""

    def ranking(self, problem: Problem) -> Ranking:
        """Drawn from a dense list of slots, which arrivals enter after the shedding."""
        return Ranking(Kind.DRAW, spares=True)
