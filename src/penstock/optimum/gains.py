"""What there is to gain: every output of the exact join, with the tuples that must wait in memory for it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from penstock.core.batch import Batch
from penstock.core.budget import Pools
from penstock.core.errors import PenstockError
from penstock.core.problem import Problem
from penstock.core.trace import Floats, Ints, Trace
from penstock.core.value import COUNT, USER
from penstock.engine.contract import Keep
from penstock.engine.opening import open_engine
from penstock.optimum.schedule import instants
from penstock.policies.fifo import Fifo
from penstock.statistics.base import Source


@dataclass(frozen=True)
class Gains:
    """The outputs that count, in the order of the instants in which they come out.

    >>> trace = Trace.from_streams(R="ab", S="ba")
    >>> gains = Gains.of(trace, Problem.of(trace.streams, window=2, memory=1))
    >>> gains.instant.tolist(), gains.members.tolist(), gains.value.tolist()
    ([1, 1], [[0, 3], [2, 1]], [1.0, 1.0])
    """

    instant: Ints
    members: Ints  # the rows of each output, one column per stream
    waits: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]  # which of them arrived before the instant
    value: Floats

    @classmethod
    def of(cls, trace: Trace, problem: Problem, *, most: int = 1 << 62) -> Gains:
        """List the exact join, unless it has more than `most` outputs."""
        found = count_outputs(trace, problem)
        if found > most:
            raise PenstockError(f"the exact join has {found:,} outputs, more than the {most:,} that can be listed")
        engine = open_engine(ample(trace, problem), Fifo(), Source(), Keep(outputs=True))
        outputs = engine.play(Batch.of(trace, problem)).outputs
        outputs = outputs[outputs[:, 0] >= problem.start]
        own = instants(trace.time)
        members = outputs[:, 1:]
        instant = own[members].max(axis=1, initial=0)
        order = np.lexsort((*members.T[::-1], instant))
        members, instant = members[order], instant[order]
        return cls(instant, members, own[members] < instant[:, None], values(trace, problem, members))


def count_outputs(trace: Trace, problem: Problem) -> int:
    """The number of outputs of the exact join, before `start` too."""
    engine = open_engine(replace(ample(trace, problem), start=-np.inf), Fifo(), Source())
    engine.play(Batch.of(trace, problem))
    return engine.totals.n_output


def values(trace: Trace, problem: Problem, members: Ints) -> Floats:
    """What these outputs are worth."""
    objective = problem.objective
    if objective.code == COUNT:
        return np.ones(len(members))
    importance = np.ones(len(trace)) if trace.importance is None else trace.importance
    if members.shape[1] == 2 and objective.code != USER:
        return np.asarray(objective.pairs(importance[members[:, 0]], importance[members[:, 1]]))
    found = np.array([objective.of(importance[rows].tolist()) for rows in members], dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(found))
    if len(bad):
        what = importance[members[bad[0]]].tolist()
        raise PenstockError(f"objective must give finite values where an optimum is asked for, got {found[bad[0]]} for {what}")
    return found


def ample(trace: Trace, problem: Problem) -> Problem:
    """The same join with memory for everything."""
    budget = Pools.parse(len(trace), problem.streams)
    return replace(problem, budget=budget, model="buffered", clock="global")
