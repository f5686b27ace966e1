"""OPT(M) for many M at once: the optimum is concave in the memory, and one more slot is worth one more shortest path.

With no memory at all the best potentials are known: the most that one slot could earn up to each instant. From there, slots are added
along shortest paths from the first node of the timeline to the last (successive shortest paths), and each path gains what the potentials
differ by. The same phases that repair a flow do it; where several paths gain the same, one phase adds them all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.core.compiled import kernel
from penstock.core.errors import PenstockError
from penstock.core.problem import Problem
from penstock.core.trace import Floats, Ints, Trace
from penstock.optimum.flow import seat_tuples, solve_stays
from penstock.optimum.flow_state import Flow, new_flow
from penstock.optimum.instants import number_instants
from penstock.optimum.linked import batch_of
from penstock.optimum.push import push_excess
from penstock.optimum.search import search_lack
from penstock.optimum.solve import chain_stays, count_together, fits_class, total_worth
from penstock.optimum.stays import Stays, by_class

STEPWISE = 1 << 31
"""Up to so many ends times slots, slots are added one by one; beyond, every memory is solved by itself."""


def curve(trace: Trace, problem: Problem, memories: Sequence[int]) -> Floats:
    """The optimum for each of several memories, in place of the one that the problem has.

    >>> trace = Trace.from_streams(R="aabb", S="bbaa")
    >>> problem = Problem.of(trace.streams, window=4, memory=1)
    >>> curve(trace, problem, [1, 2, 3, 4, 5]).tolist()
    [2.0, 4.0, 6.0, 8.0, 8.0]
    """
    if any(memory < 1 for memory in memories):
        raise PenstockError(f"memories must be positive numbers of rows, got {min(memories)}")
    if len(problem.budget.caps) > 1 or (len(problem.budget.pool) > 1 and len(set(problem.budget.caps[0])) > 1):
        raise PenstockError("the curve is over one number, the memory: it can neither change over time nor differ between streams")
    batch = batch_of(trace, problem)
    instants = number_instants(trace, problem, batch)
    n_pools = len(instants.memory)
    shares = np.asarray(memories, dtype=np.int64) // n_pools
    total = np.zeros(len(shares))
    if fits_class(trace, problem) is None:
        each = problem.objective.of([1.0, 1.0])
        total += count_together(batch.stream, instants, problem) * each
        pools = [by_class(batch.stream, instants, problem, pool, 1) for pool in range(n_pools)] if each > 0 else []
        unit = each
    else:
        pools, together, scale = chain_stays(trace, batch, instants, problem)
        total += together
        unit = scale.back(1)
    for stays in pools:
        total += _values(stays, shares) * unit
    return total


def _values(stays: Stays, shares: Ints) -> Ints:
    """What the tuples of a pool earn in units, for each size of it."""
    ends = int((stays.past - stays.first).sum())
    if ends * int(shares.max(initial=0)) <= STEPWISE:
        return _add_slots(stays, int(shares.max(initial=0)))[shares]
    values = []
    for share in shares:
        sized = stays._replace(memory=np.full(len(stays.memory), share, dtype=np.int64))
        values.append(total_worth(sized, solve_stays(sized)))
    return np.array(values, dtype=np.int64)


def _add_slots(stays: Stays, most: int) -> Ints:
    """Units earned with 0, 1, ..., `most` slots."""
    flow = new_flow(stays)
    empty = stays._replace(memory=np.zeros_like(stays.memory))
    seat_tuples(empty, flow)
    _longest(empty, flow)
    seat_tuples(empty, flow)
    flow.excess[0], flow.excess[-1] = most, -most
    flow.sources[0], flow.counts[0] = 0, 1
    gains: list[int] = []
    while flow.counts[0]:
        search_lack(stays, flow)
        gain = int(flow.potential[-1] - flow.potential[0])
        if gain == 0:
            break
        gains += [gain] * push_excess(stays, flow, len(gains) % 2 == 1)
    gains += [0] * (most - len(gains))
    return np.concatenate([[0], np.cumsum(gains)]).astype(np.int64)


@kernel
def _longest(stays: Stays, flow: Flow) -> None:
    """Potentials: the most that a single slot can earn up to each node. Every tuple still sits at its arrival or is moved there."""
    potential = flow.potential
    potential[:] = 0
    by_arrival = flow.head
    by_arrival[:] = -1
    for x in range(len(stays.row)):
        flow.following[x] = by_arrival[stays.arrive[x]]
        by_arrival[stays.arrive[x]] = x
    for node in range(len(potential)):
        if node > 0:
            potential[node] = max(potential[node], potential[node - 1])
        x = by_arrival[node]
        while x >= 0:
            for number in range(stays.first[x], stays.past[x]):
                reach = potential[node] + stays.worth[number] - stays.base[x]
                if reach > potential[stays.end[number]]:
                    potential[stays.end[number]] = reach
            x = flow.following[x]
