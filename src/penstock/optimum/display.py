"""The memory states along a schedule, as Towne's DisplayMemoryStates shows them (Towne 3.1.2).

Differs from the paper: in the order of time, not from the end backwards; the papers' three graphs (R, S, and SA for tuples that arrive
together) are columns of one table.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.core.problem import Problem
from penstock.core.trace import Ints, Trace
from penstock.engine.contract import Keep
from penstock.optimum.gains import values
from penstock.optimum.linked import original_rows
from penstock.optimum.replay import replay
from penstock.optimum.schedule import instants


@dataclass(frozen=True)
class MemoryState:
    """The memory after an instant: the tuples of each stream, those that met in the instant of their arrival, and what came out."""

    time: int
    held: tuple[tuple[str, ...], ...]
    together: tuple[str, ...]
    n_output: int
    value: float


def memory_states(trace: Trace, problem: Problem, schedule: Ints) -> list[MemoryState]:
    """One state per instant.

    >>> trace = Trace.from_streams(R="ab", S="aa")
    >>> problem = Problem.of(trace.streams, window=2, memory=1)
    >>> for state in memory_states(trace, problem, np.array([1, 0, 1, 1])):
    ...     print(state.time, state.held, state.together, state.value)
    0 (('R(0)',), ()) ('R(0)S(0)',) 1.0
    1 ((), ('S(1)',)) () 1.0
    """
    run = replay(trace, problem, schedule, Keep(outputs=True, retained=True))
    assert run.memory_log is not None and run.outputs is not None
    own, names = instants(trace.time), labels(trace)
    outputs = run.outputs[run.outputs[:, 0] >= problem.start]
    members, worth = outputs[:, 1 : 1 + problem.n_streams], values(trace, problem, outputs)
    at = own[members].max(axis=1, initial=0)
    at_once = own[members].min(axis=1, initial=len(trace)) == at
    states = []
    for number, (time, rows) in enumerate(run.memory_log):
        mine = at == number
        held = tuple(tuple(names[row] for row in rows if trace.stream[row] == stream) for stream in range(problem.n_streams))
        pairs = tuple("".join(names[row] for row in found) for found in members[mine & at_once])
        states.append(MemoryState(time, held, pairs, int(mine.sum()), float(worth[mine].sum())))
    return states


def labels(trace: Trace) -> list[str]:
    """The papers' names of tuples, R(3) for what arrived at time 3, with the row where that is not enough.

    >>> labels(Trace({"stream": ["R", "R", "S"], "time": [3, 3, 3], "key": [1, 2, 1]}))
    ['R(3)#0', 'R(3)#1', 'S(3)']
    """
    plain = [f"{trace.streams[stream]}({time})" for stream, time in zip(trace.stream.tolist(), trace.time.tolist(), strict=True)]
    several = {name for name, count in zip(*np.unique(plain, return_counts=True), strict=True) if count > 1}
    return [f"{name}#{row}" if name in several else name for row, name in zip(original_rows(trace).tolist(), plain, strict=True)]
