"""`opt`: who leaves next by schedule leaves first (docs/readings.md, the optimum).

The optimum is an ordinary player: the future is a precomputed column.
"""

from __future__ import annotations

import numpy as np

from penstock.core.batch import Batch
from penstock.core.problem import Problem
from penstock.core.trace import Bools, Floats
from penstock.engine.contract import Ranking
from penstock.engine.ranking_codes import Kind
from penstock.engine.view import View
from penstock.policies.base import Policy


class Opt(Policy):
    """Score: the number of the instant in which a tuple is to leave, from the column `price` of its batch.

    A tuple stays beyond its instant while there is room. Where an output may be worth less than nothing it does not (`strict`).
    """

    name = "opt"
    summary = "who leaves next in the best of all schedules leaves first"
    needs = "the whole trace"
    paper = "Das 4.1"

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict

    def score(self, view: View) -> Floats:
        """The instant."""
        return view.price

    def due(self, view: View) -> Bools | None:
        """Those whose instant has come; instants are counted from 1 by the engine, from 0 by a schedule."""
        return view.price <= view.instant - 1 if self.strict else None

    def ranking(self, problem: Problem) -> Ranking | None:
        """A fixed score."""
        return None if self.strict else Ranking(Kind.SCORE, column=_price)


def _price(batch: Batch, origin: int) -> Floats:
    assert batch.price is not None
    return np.ascontiguousarray(batch.price)
