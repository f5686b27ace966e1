"""The flow of slots along the timeline, and its repair until it is feasible and optimal (Das 4.1, solved another way).

Node i of the timeline has a potential; the difference of neighbours is the price of a slot in the gap between them, never negative. Free
slots flow from node to node, tuples sit at the node of their end (at their arrival if they are not stored). A tuple that moves from its
end to another one moves a unit of flow, at a cost: what it loses in worth. So the residual network needs no nodes but the timeline's:

    i -> i + 1      one more free slot in gap i, at any time
    i + 1 -> i      one fewer, where there is one
    end -> end'     for every tuple that sits at `end`: all its other ends, and its arrival

Every tuple starts at its best end under the estimated prices, so that no arc can gain anything: only the number of slots per gap is
wrong, as excess at some nodes and lack at others. Phases of shortest paths (search.py) and of pushing along them (push.py) put that right
and keep the rest true. When nothing is left over, the flow is feasible and the potentials prove it best.
"""

from __future__ import annotations

import numpy as np

from penstock.core.batch import OnProgress
from penstock.core.compiled import kernel
from penstock.optimum.flow_state import Flow, new_flow
from penstock.optimum.prices import estimate_prices
from penstock.optimum.push import push_excess
from penstock.optimum.search import search_lack
from penstock.optimum.stays import Stays


def solve_stays(stays: Stays, progress: OnProgress | None = None) -> Flow:
    """The best end for every tuple (`stop`) and the prices that prove it (`potential`).

    >>> from penstock.optimum.stays import Stays
    >>> nodes = np.array([0, 1], np.int32)
    >>> two = Stays(
    ...     np.array([0, 1]),
    ...     nodes,
    ...     nodes,
    ...     nodes + np.int32(1),
    ...     np.array([0, 0]),
    ...     np.array([3, 2], np.int32),
    ...     np.array([5, 7]),
    ...     np.array([1, 1, 1]),
    ... )
    >>> solve_stays(two).stop.tolist()
    [-1, 1]
    """
    flow = new_flow(stays)
    flow.potential[:] = estimate_prices(stays)
    seat_tuples(stays, flow)
    balance(stays, flow, progress)
    return flow


def balance(stays: Stays, flow: Flow, progress: OnProgress | None = None) -> None:
    """Push all excess to where flow lacks."""
    sources = np.flatnonzero(flow.excess > 0)
    flow.sources[: len(sources)] = sources
    flow.counts[0] = len(sources)
    phase = 0
    while flow.counts[0]:
        search_lack(stays, flow)
        sent = push_excess(stays, flow, phase % 2 == 1)
        assert sent > 0, "every excess reaches a lack: storing nothing is feasible"
        phase += 1
        if progress:
            progress(sent)


@kernel
def seat_tuples(stays: Stays, flow: Flow) -> None:
    """Let every tuple sit at its best end under the potentials, and see what is in excess or lacks."""
    potential, excess = flow.potential, flow.excess
    flow.head[:] = -1
    excess[:] = 0
    for x in range(len(stays.row)):
        best, chosen = stays.base[x] - potential[stays.arrive[x]], -1
        for number in range(stays.first[x], stays.past[x]):
            gain = stays.worth[number] - potential[stays.end[number]]
            if gain > best:
                best, chosen = gain, number
        flow.stop[x] = chosen
        node = stays.arrive[x]
        excess[node] += 1  # for a moment: the slots taken from here on
        if chosen >= 0:
            node = stays.end[chosen]
        excess[node] -= 1
        flow.following[x], flow.before[x] = flow.head[node], -1
        if flow.head[node] >= 0:
            flow.before[flow.head[node]] = x
        flow.head[node] = x
    taken, over_before = 0, 0
    for node in range(len(potential)):
        taken += excess[node]
        over = 0
        if node < len(stays.memory):
            spare = stays.memory[node] - taken
            flow.free[node] = spare if spare > 0 and potential[node] == potential[node + 1] else 0
            over = flow.free[node] - spare
        excess[node] = over_before - over
        over_before = over
