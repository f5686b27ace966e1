"""What there is to gain: every output of the exact join, with the tuples that must wait in memory for it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from penstock.core.budget import Pools
from penstock.core.errors import PenstockError
from penstock.core.problem import Problem
from penstock.core.trace import Floats, Ints, Trace
from penstock.core.value import COUNT, USER
from penstock.engine.contract import Engine, Keep
from penstock.engine.opening import open_engine
from penstock.optimum.instants import Instants
from penstock.optimum.linked import batch_of, fact_weights, facts_of
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
        outputs = _ample(trace, problem, Keep(outputs=True)).play(batch_of(trace, problem)).outputs
        outputs = outputs[outputs[:, 0] >= problem.start]
        own = instants(trace.time)
        instant = own[outputs[:, 1 : 1 + problem.n_streams]].max(axis=1, initial=0)
        order = np.lexsort((*outputs.T[:0:-1], instant))
        outputs, instant = outputs[order], instant[order]
        members = outputs[:, 1 : 1 + problem.n_streams]
        return cls(instant, members, own[members] < instant[:, None], values(trace, problem, outputs))


def count_outputs(trace: Trace, problem: Problem) -> int:
    """The number of outputs of the exact join, before `start` too."""
    engine = _ample(trace, replace(problem, start=-np.inf), Keep())
    engine.play(batch_of(trace, problem))
    return engine.totals.n_output


def share_values(gains: Gains, instants: Instants) -> tuple[Ints, Ints, Floats, float]:
    """What each output is worth, shared equally by its members that must be in memory for it.

    An output of n streams needs several stored tuples at once, which is no flow. If each of them earns its share alone, whether or not the
    others are there, no schedule can earn more: so the optimum of the shares is an upper bound. An output of negative value is not charged,
    for the same reason. (Stored tuple, an arrival of the output's instant, share) in order, and what outputs of a single instant are worth.
    """
    n_waiting = gains.waits.sum(axis=1)
    output, stream = np.nonzero(gains.waits)
    row, instant = gains.members[output, stream], gains.instant[output]
    share = np.maximum(gains.value[output], 0.0) / n_waiting[output]
    code, at = np.unique(row * (instants.n + 1) + instant, return_inverse=True)
    arrival = np.searchsorted(instants.of, code % (instants.n + 1)).astype(np.int64)
    return (
        code // (instants.n + 1),
        arrival,
        np.bincount(at, weights=share, minlength=len(code)).astype(np.float64),
        math.fsum(gains.value[n_waiting == 0]),
    )


def values(trace: Trace, problem: Problem, outputs: Ints) -> Floats:
    """What these outputs are worth (time, row per stream, fact per relation)."""
    members, numbers = np.split(outputs[:, 1:], [problem.n_streams], axis=1)
    return _values(trace, problem, members) * fact_weights(facts_of(trace), numbers)


def _values(trace: Trace, problem: Problem, members: Ints) -> Floats:
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


def _ample(trace: Trace, problem: Problem, keep: Keep) -> Engine:
    """An engine that has memory for everything."""
    engine = open_engine(ample(trace, problem), Fifo(), Source(), keep)
    if problem.through:
        engine.know(facts_of(trace))
    return engine
