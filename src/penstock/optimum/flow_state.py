"""The state of a flow along the timeline: what its search and its pushes read and write."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.core.trace import Ints
from penstock.optimum.stays import Nodes, Stays

FAR = 1 << 60


class Flow(NamedTuple):
    """The state of a flow; -1 ends lists and means "none"."""

    potential: Ints  # by node, as all arrays down to `order`
    free: Ints  # free slots of the gap that begins here
    excess: Ints
    head: Nodes  # the first tuple that sits here
    distance: Ints
    place: Nodes  # in the heap
    state: NDArray[np.int8]  # 0: not reached in this phase, 1: reached, 2: on the path or exhausted
    arc: NDArray[np.int8]  # the next arc along the timeline to try
    cursor: Nodes  # the next tuple to try
    origin: Nodes  # the node from which it was reached
    came: Nodes  # what led from there to it: a tuple, or an arc of the timeline
    came_to: Nodes  # the end to which that tuple would move
    heap: Nodes
    queue: Nodes
    touched: Nodes
    order: Nodes
    path: Nodes
    via: Nodes  # what leads on from a node of the path: a tuple, or an arc of the timeline
    target: Nodes  # the end to which that tuple moves
    sources: Nodes
    stop: Nodes  # by tuple: its end, as a number of the list; -1 where it is not stored
    following: Nodes
    before: Nodes
    tried: Nodes
    counts: Ints  # how many sources, reached nodes, the last distance


def new_flow(stays: Stays) -> Flow:
    """Room for a flow."""
    n, tuples = len(stays.memory) + 1, len(stays.row)
    amounts = ("potential", "free", "excess")
    nodes = (
        "head",
        "place",
        "cursor",
        "origin",
        "came",
        "came_to",
        "heap",
        "queue",
        "touched",
        "order",
        "path",
        "via",
        "target",
        "sources",
    )
    room: dict[str, Any] = {name: np.zeros(n, dtype=np.int64) for name in amounts}
    room |= {name: np.full(n, -1, dtype=np.int32) for name in nodes}
    room |= {name: np.zeros(n, dtype=np.int8) for name in ("state", "arc")}
    room |= {name: np.full(tuples, -1, dtype=np.int32) for name in ("following", "before", "stop", "tried")}
    return Flow(**room, distance=np.full(n, FAR, dtype=np.int64), counts=np.zeros(3, dtype=np.int64))
