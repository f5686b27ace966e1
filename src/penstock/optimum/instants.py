"""Instants: when each tuple arrives, in which instant it is last inside its window, and how much memory there is after each.

    time       3   3   5   9          window 3
    instant    0   0   1   2          the tuples of instant 0 are inside up to instant 1: 5 < 3 + 3 <= 9

Node i of the timeline stands for instant i, and gap i, from node i to node i + 1, for the memory between instant i and the next one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.core.batch import Batch
from penstock.core.errors import PenstockError
from penstock.core.problem import Problem
from penstock.core.trace import Ints, Trace
from penstock.core.window import DEAD, expiries


@dataclass(frozen=True)
class Instants:
    """The rows of a trace by instant."""

    of: Ints  # the instant of each row
    time: Ints  # the time of each instant
    last: Ints  # for each row, the last instant that is inside its window; before its own where there is none
    memory: Ints  # by pool and gap: the tuples that may be held
    key: Ints  # the key of each row; negative where it matches nothing

    @property
    def n(self) -> int:
        """How many there are."""
        return len(self.time)

    def counted(self, problem: Problem) -> Ints:
        """The instants whose outputs count."""
        return np.flatnonzero(self.time >= problem.start)


def number_instants(trace: Trace, problem: Problem, batch: Batch) -> Instants:
    """Number the instants of a trace that is in the order of its times.

    >>> trace = Trace({"stream": ["R", "S", "R", "S"], "time": [3, 3, 5, 9], "key": [1, 1, 2, 1]})
    >>> problem = Problem.of(trace.streams, window=3, memory="0:4,5:2")
    >>> found = number_instants(trace, problem, Batch.of(trace, problem))
    >>> found.of.tolist(), found.last.tolist(), found.memory.tolist()
    ([0, 0, 1, 2], [1, 1, 1, 2], [[4, 2, 2]])
    """
    if trace.n_backwards:
        raise PenstockError(
            f"the optimum needs a trace in the order of time, got {trace.n_backwards} rows with a smaller time than the row before them"
        )
    budget = problem.budget
    if budget.in_bytes:
        raise PenstockError("the optimum needs memory in rows, got bytes: tuples of unequal size are a knapsack, not a flow")
    problem.require_stream_windows()
    new = np.concatenate([[True], np.diff(batch.time) != 0])
    instant = np.cumsum(new) - 1
    time = batch.time[new]
    expiry = expiries(
        problem.windows, batch.stream, batch.time, batch.lifetime, np.zeros(problem.n_streams, np.int64),
        instantly=problem.switch("varying-window") == "instant",
    )  # fmt: skip
    last = np.searchsorted(time, expiry, side="left") - 1
    for stream, window in enumerate(problem.windows):
        if window.kind == "rows":
            mine = batch.stream == stream
            seen = np.cumsum(np.bincount(instant[mine], minlength=len(time)))
            last[mine] = np.searchsorted(seen, expiry[mine], side="left") - 1
    step = np.maximum(np.searchsorted(budget.times, time, side="right") - 1, 0)
    return Instants(
        of=instant,
        time=time,
        last=last,
        memory=np.ascontiguousarray(budget.caps[step].T),
        key=np.where(expiry == DEAD, -1, batch.key),
    )
