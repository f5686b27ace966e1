"""One instant of the stepwise engine: who may meet whom, and the outputs that come of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from penstock.core.problem import Problem
from penstock.core.trace import Floats, Ints
from penstock.engine.binding import Columns, combinations
from penstock.engine.contract import PIECE
from penstock.engine.fact_ties import Ties, facts_of


class Made(NamedTuple):
    """Some outputs: positions of their members by stream, their latest times, the lines that are written down, and their values."""

    members: Ints
    latest: Ints
    lines: Ints
    value: Floats


class Meeting:
    """The candidates of an instant: those that were there `before` it and its arrivals, each until before its `limit`."""

    def __init__(self, problem: Problem, columns: Columns, limit: Ints, before: Ints, arrivals: Ints, ties: Ties | None) -> None:
        self.problem, self.columns, self.limit, self.before, self.arrivals, self.ties = problem, columns, limit, before, arrivals, ties

    def outputs(self, most: int = PIECE) -> Iterator[Made]:
        """Every combination with at least one arrival, once, at its last arrival; up to so many at a time."""
        problem, columns = self.problem, self.columns
        for number, pivot in enumerate(self.arrivals):
            others = np.concatenate([self.before, self.arrivals[:number]])
            for found in self._combinations(int(pivot), others, most):
                members = found[:, : problem.n_streams]
                latest = columns["time"][members].max(axis=1)
                value = np.array([problem.objective.of(importances) for importances in columns["importance"][members].tolist()])
                lines = np.column_stack([latest, columns["row"][members]])
                if self.ties is not None:
                    facts, weight = facts_of(self.ties.index, found)
                    lines, value = np.column_stack([lines, facts]), value * weight
                yield Made(members, latest, lines, value)

    def lines(self) -> Ints:
        """All outputs (time, row per stream, fact per relation)."""
        return np.concatenate([self.none(), *(made.lines for made in self.outputs())])

    def none(self) -> Ints:
        """No outputs."""
        return np.empty((0, 1 + self.problem.n_streams + len(self.problem.through)), np.int64)

    def _combinations(self, pivot: int, others: Ints, most: int) -> Iterator[Ints]:
        if self.ties is None:
            return combinations(self.problem, self.columns, self.limit, pivot, others, most)
        return self.ties.combinations(self.limit, pivot, others, most)
