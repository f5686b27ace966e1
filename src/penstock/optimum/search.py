"""Shortest paths in the residual network from all excess at once, until every lack is reached (Dijkstra, with potentials)."""

from __future__ import annotations

from penstock.core.compiled import inlined, kernel
from penstock.optimum.flow_state import Flow
from penstock.optimum.stays import Stays

_FAR = 1 << 60
FORTH, BACK = -1, -2  # arcs of the timeline, where tuples have numbers


@kernel
def search_lack(stays: Stays, flow: Flow) -> None:
    """Change the potentials so that shortest paths cost nothing; the nodes that were reached get state 1.

    Nodes at the distance of the one being left go to a queue, others to a heap: with few different prices most distances are equal.
    """
    potential, excess, distance, state = flow.potential, flow.excess, flow.distance, flow.state
    last = len(potential) - 1
    size, begin, end, touched, reached, lacking = 0, 0, 0, 0, 0, 0
    for number in range(flow.counts[0]):
        node = flow.sources[number]
        distance[node] = 0
        flow.origin[node] = -1
        flow.queue[end] = node
        flow.touched[touched] = node
        end += 1
        touched += 1
        lacking += excess[node]
    here = 0
    while lacking > 0:
        if begin < end:
            node = flow.queue[begin]
            begin += 1
        elif size > 0:
            node = flow.heap[0]
            size = _take_top(flow, size)
        else:
            break
        if state[node]:
            continue
        here = distance[node]
        state[node] = 1
        flow.order[reached] = node
        reached += 1
        flow.arc[node], flow.cursor[node] = 0, flow.head[node]
        if excess[node] < 0:
            lacking += excess[node]
        level = potential[node]
        if node < last:
            length = here + potential[node + 1] - level
            if length < distance[node + 1]:
                touched, size, end = _reach(flow, node + 1, length, here, touched, size, end)
                flow.origin[node + 1], flow.came[node + 1] = node, FORTH
        if node > 0 and flow.free[node - 1] > 0 and here < distance[node - 1]:
            touched, size, end = _reach(flow, node - 1, here, here, touched, size, end)
            flow.origin[node - 1], flow.came[node - 1] = node, BACK
        x = flow.head[node]
        while x >= 0:
            flow.tried[x] = 0
            chosen = flow.stop[x]
            now = here - level + stays.base[x]
            if chosen >= 0:
                now = here - level + stays.worth[chosen]
                other = stays.arrive[x]
                length = now - stays.base[x] + potential[other]
                if length < distance[other]:
                    touched, size, end = _reach(flow, other, length, here, touched, size, end)
                    flow.origin[other], flow.came[other], flow.came_to[other] = node, x, -1
            for number in range(stays.first[x], stays.past[x]):
                other = stays.end[number]
                length = now - stays.worth[number] + potential[other]
                if length < distance[other]:
                    touched, size, end = _reach(flow, other, length, here, touched, size, end)
                    flow.origin[other], flow.came[other], flow.came_to[other] = node, x, number
            x = flow.following[x]
    for number in range(touched):
        node = flow.touched[number]
        if distance[node] < here:
            potential[node] += here - distance[node]
        distance[node] = _FAR
        flow.place[node] = -1
    flow.counts[1], flow.counts[2] = reached, here


@inlined
def _reach(flow: Flow, node: int, length: int, here: int, touched: int, size: int, end: int) -> tuple[int, int, int]:
    """A shorter way to a node."""
    if flow.distance[node] == _FAR:
        flow.touched[touched] = node
        touched += 1
    flow.distance[node] = length
    if length == here and flow.place[node] < 0:
        flow.queue[end] = node
        end += 1
    else:
        size = _raise(flow, node, size)
    return touched, size, end


@inlined
def _raise(flow: Flow, node: int, size: int) -> int:
    """Put a node into the heap, or up in it."""
    heap, place, distance = flow.heap, flow.place, flow.distance
    at = place[node]
    if at < 0:
        at = size
        size += 1
    length = distance[node]
    while at > 0:
        above = (at - 1) >> 1
        if distance[heap[above]] <= length:
            break
        heap[at] = heap[above]
        place[heap[at]] = at
        at = above
    heap[at] = node
    place[node] = at
    return size


@inlined
def _take_top(flow: Flow, size: int) -> int:
    """Take the nearest node out of the heap."""
    heap, place, distance = flow.heap, flow.place, flow.distance
    place[heap[0]] = -1
    size -= 1
    if size == 0:
        return size
    node = heap[size]
    length = distance[node]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and distance[heap[below + 1]] < distance[heap[below]]:
            below += 1
        if distance[heap[below]] >= length:
            break
        heap[at] = heap[below]
        place[heap[at]] = at
        at = below
    heap[at] = node
    place[node] = at
    return size
