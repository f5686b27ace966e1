"""Replay: the ordinary engine with a schedule as its policy. What it counts is what a schedule is worth.

The engine sheds while memory is over its budget, so a tuple whose instant has come may stay while there is room. It never stays in the
place of one that the schedule keeps: those rank higher, and without the tuples that are due the rest fits. While every output is worth
something, staying on can only add, and to an optimum nothing can be added. Where a user's objective may go below zero, tuples leave
when the schedule says so.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from penstock.core.batch import OnProgress
from penstock.core.problem import Problem
from penstock.core.trace import Ints, Trace
from penstock.core.value import USER
from penstock.engine.contract import Keep
from penstock.engine.run import JoinRun, record
from penstock.optimum.linked import batch_of, facts_of
from penstock.optimum.schedule import NEVER, last_instants
from penstock.policies.opt import Opt
from penstock.statistics.base import Source


def replay(
    trace: Trace,
    problem: Problem,
    leaves: Ints,
    keep: Keep | None = None,
    *,
    stepwise: bool = False,
    progress: OnProgress | None = None,
) -> JoinRun:
    """Play a trace by a schedule.

    >>> trace = Trace.from_streams(R="ab", S="ba")
    >>> problem = Problem.of(trace.streams, window=2, memory=1)
    >>> replay(trace, problem, np.array([0, 1, 1, 1])).n_output
    1
    """
    # What has expired is no longer wanted, whenever the clock of the run lets it go.
    until = np.minimum(leaves, last_instants(trace, problem) + 1)
    batch = replace(batch_of(trace, problem), price=until.astype(np.float64))
    policy = Opt(strict=problem.objective.code == USER)
    return record(problem, policy, Source(), batch, keep, stepwise=stepwise, progress=progress, facts=facts_of(trace))


def schedule_of(run: JoinRun) -> Ints:
    """The schedule that a run has kept (a run with its sheds)."""
    assert run.sheds is not None and run.shed_at is not None
    leaves = np.full(run.n_input, NEVER, dtype=np.int64)
    leaves[run.sheds] = run.shed_at
    return leaves
