"""A schedule: for each tuple, the instant in which it leaves memory. The optimum is one, and the engine replays it.

    instant       0   1   2   3
    R             a   .   .   .
    S             .   b   a   a      leaves[a of R] = 2: it meets the a of instant 2, and is gone when that of 3 comes

A tuple that leaves in the instant of its arrival is never stored; one that leaves `NEVER` stays until it expires. In model `buffered` a
tuple still meets the arrivals of the instant in which it leaves, in `inplace` it does not (docs/decisions/0001).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.core.errors import PenstockError
from penstock.core.problem import Problem
from penstock.core.trace import Floats, Ints, Trace
from penstock.core.window import expiries
from penstock.optimum.linked import last_chances

NEVER = int(np.iinfo(np.int64).max)
"""Leaves in no instant: it expires."""


@dataclass(frozen=True)
class Optimum:
    """The best value that can be had, and how; without a schedule where only the value was asked for.

    `exact` says whether `value` is the optimum itself: only the bound for more than two streams is not, and it has no schedule.
    """

    value: float
    n_output: int | None  # of the schedule; a bound has none, nor has a value alone
    method: str  # class | chain | states | exact (memory for everything) | bound
    schedule: Ints  # for each row the instant in which it leaves
    seconds: float
    exact: bool = True
    goal: str = "max"
    prices: Floats | None = None  # what one more slot would have been worth, by pool and gap between instants
    size: dict[str, int] = field(default_factory=dict)  # of what was solved: n_nodes and n_arcs, or n_states
    solution: Any = None  # of the flow, for the certificate

    def summary(self) -> dict[str, Any]:
        """The numbers, as the command line prints them."""
        names = ("value", "method", "seconds", "n_output", "exact", "goal")
        return {name: getattr(self, name) for name in names} | self.size


def instants(time: Ints) -> Ints:
    """The number of each row's instant.

    >>> instants(np.array([3, 3, 5, 9])).tolist()
    [0, 0, 1, 2]
    """
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.diff(time) != 0)])


def last_instants(trace: Trace, problem: Problem) -> Ints:
    """For each row the last instant at whose end it is still inside its window and has facts; below its own if the window is too short.

    >>> trace = Trace.from_streams(R="abc", S="abc")
    >>> last_instants(trace, Problem.of(trace.streams, window=2, memory=1)).tolist()
    [1, 1, 2, 2, 2, 2]
    """
    problem.require_stream_windows()
    own = instants(trace.time)
    seen = np.zeros(problem.n_streams, dtype=np.int64)
    instantly = problem.switch("varying-window") == "instant"
    expiry = expiries(problem.windows, trace.stream, trace.time, trace.lifetime, seen, instantly=instantly)
    times = trace.time[np.flatnonzero(np.diff(own, prepend=-1))]
    last = np.maximum(np.searchsorted(times, np.minimum(expiry, last_chances(trace))) - 1, own)
    for number, window in enumerate(problem.windows):
        if window.kind == "rows":
            mine = trace.stream == number
            arrived = np.cumsum(np.bincount(own[mine], minlength=len(times)))
            last[mine] = np.searchsorted(arrived, expiry[mine]) - 1
    return last


def check_order(trace: Trace) -> None:
    """Refuse a trace whose times go back: its past is not over when its future begins."""
    if trace.n_backwards:
        raise PenstockError(
            f"the optimum needs a trace in order of time, got one with {trace.n_backwards:,} rows that are earlier than the row before "
            "them; sort it by time"
        )
