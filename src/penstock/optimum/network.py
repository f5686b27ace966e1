"""The network of the optimum written out, arc by arc, for any solver of minimum-cost flows (docs/readings.md, the optimum).

    timeline    0 ---> 1 ---> 2 ---> 3      free slots, any number, at no cost
                |             ^      ^
                v             |      |
    a tuple     +-----------> * ---> *      in at its arrival, earning at each match, back to the timeline after any

Our own solver walks the same network without writing it down (flow.py). In class form a chain serves all tuples of a stream and key, and
has room for as many as are inside their windows; that needs tuples to expire in the order of arrival. There are at most 3 nodes and 7
arcs per instant with one arrival in each of two streams, whatever the window.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.core.errors import PenstockError
from penstock.core.trace import Ints
from penstock.optimum.stays import Stays


@dataclass(frozen=True)
class Network:
    """Arcs with capacity and cost (the negative of what they earn), and the supply of each node."""

    tail: Ints
    head: Ints
    capacity: Ints
    cost: Ints
    supply: Ints


def write_network(stays: Stays) -> Network:
    """The network of one pool.

    >>> from penstock.core.batch import Batch
    >>> from penstock.core.problem import Problem
    >>> from penstock.core.trace import Trace
    >>> from penstock.optimum.instants import number_instants
    >>> from penstock.optimum.stays import by_class
    >>> trace = Trace.from_streams(R="aab", S="baa")
    >>> problem = Problem.of(trace.streams, window=3, memory=1)
    >>> batch = Batch.of(trace, problem)
    >>> network = write_network(by_class(batch.stream, number_instants(trace, problem, batch), problem, 0, 1))
    >>> len(network.supply), len(network.tail), network.supply.tolist()[:4]
    (10, 13, [1, 0, 0, -1])
    """
    n, ends = len(stays.memory), len(stays.end)
    inside = np.cumsum(np.bincount(stays.first, minlength=ends + 1) - np.bincount(stays.past, minlength=ends + 1))
    leading = np.zeros(ends + 1, dtype=np.int64)  # how many tuples that are inside at an end still are at the next
    np.add.at(leading, stays.first, 1)
    np.add.at(leading, stays.past - 1, -1)
    leading = np.cumsum(leading)[:ends]
    order = np.argsort(stays.first, kind="stable")
    if inside.max(initial=0) > 1 and np.any(np.diff(stays.past[order]) < 0):
        raise PenstockError(
            "tuples of a class must expire in the order of arrival to share a chain; write the network of its chains instead"
        )
    most = int(stays.memory.max(initial=0))
    passing = np.flatnonzero(leading > 0)
    gap, end = np.arange(n), np.arange(ends)
    worth = stays.worth
    return Network(
        tail=np.concatenate([gap, stays.arrive, n + 1 + passing, n + 1 + end]).astype(np.int64),
        head=np.concatenate([gap + 1, n + 1 + stays.first, n + 2 + passing, stays.end]).astype(np.int64),
        capacity=np.concatenate([np.full(n, most), np.ones(len(stays.row), np.int64), leading[passing], np.full(ends, most)]),
        cost=np.concatenate(
            [np.zeros(n, np.int64), stays.base - worth[stays.first], worth[passing] - worth[passing + 1], np.zeros(ends, np.int64)]
        ),
        supply=np.concatenate([np.diff(stays.memory, prepend=0, append=0), np.zeros(ends, np.int64)]),
    )
