"""Push excess along arcs that cost nothing: first back along the ways by which lacks were reached, then path after path, depth first,
until a search from every source has failed.

The timeline is tried before tuples, and every second phase tries a tuple's ends from the last to the first. That makes for fewer
phases: no part of the network is searched last every time (docs/decisions/0006).
"""

from __future__ import annotations

from penstock.core.compiled import inlined, kernel
from penstock.optimum.flow_state import Flow
from penstock.optimum.search import BACK, FORTH
from penstock.optimum.stays import Stays


@kernel
def push_excess(stays: Stays, flow: Flow, backwards: bool) -> int:
    """Returns how many units were pushed; sources with excess left stay in the list."""
    sent, kept = 0, 0
    for number in range(flow.counts[1]):
        node = flow.order[number]
        while flow.excess[node] < 0:
            length = _trace_back(stays, flow, node)
            if length < 0:
                break
            flow.excess[flow.path[0]] -= 1
            flow.excess[node] += 1
            _move_along(stays, flow, length)
            sent += 1
    for number in range(flow.counts[0]):
        source = flow.sources[number]
        while flow.excess[source] > 0 and flow.state[source] == 1:
            length = _find_path(stays, flow, source, backwards)
            if length < 0:
                break
            flow.excess[source] -= 1
            flow.excess[flow.path[length]] += 1
            _move_along(stays, flow, length)
            sent += 1
        if flow.excess[source] > 0:
            flow.sources[kept] = source
            kept += 1
    for number in range(flow.counts[1]):
        flow.state[flow.order[number]] = 0
    flow.counts[0] = kept
    return sent


@inlined
def _trace_back(stays: Stays, flow: Flow, node: int) -> int:
    """The way by which the search came to a node, if it is still open and its source has something left; returns its length or -1."""
    length, at = 0, node
    while flow.origin[at] >= 0:
        x = flow.came[at]
        if x == BACK:
            if flow.free[at] <= 0:
                return -1
        elif x >= 0:
            chosen = flow.stop[x]
            if (stays.end[chosen] if chosen >= 0 else stays.arrive[x]) != flow.origin[at]:
                return -1
        length += 1
        at = flow.origin[at]
    if flow.excess[at] <= 0:
        return -1
    flow.path[length] = node
    at = node
    for step in range(length - 1, -1, -1):
        flow.via[step], flow.target[step] = flow.came[at], flow.came_to[at]
        at = flow.origin[at]
        flow.path[step] = at
    return length


@inlined
def _find_path(stays: Stays, flow: Flow, source: int, backwards: bool) -> int:
    """A path of free arcs from `source` to a lack, in `path` and `via`; returns its length, -1 where there is none."""
    state, potential = flow.state, flow.potential
    last = len(potential) - 1
    depth = 0
    flow.path[0] = source
    state[source] = 2
    while depth >= 0:
        node = flow.path[depth]
        if flow.excess[node] < 0:
            return depth
        level = potential[node]
        found = -1
        if flow.arc[node] == 0:
            if node < last and potential[node + 1] == level and state[node + 1] == 1:
                found = node + 1
                flow.via[depth] = FORTH
            else:
                flow.arc[node] = 1
        if found < 0 and flow.arc[node] == 1:
            if node > 0 and flow.free[node - 1] > 0 and state[node - 1] == 1:
                found = node - 1
                flow.via[depth] = BACK
            else:
                flow.arc[node] = 2
        while found < 0 and flow.cursor[node] >= 0:
            x = flow.cursor[node]
            found = _find_end(stays, flow, x, level, depth, backwards)
            if found < 0:
                flow.cursor[node] = flow.following[x]
        if found >= 0:
            depth += 1
            flow.path[depth] = found
            state[found] = 2
        else:
            depth -= 1
            if depth >= 0:  # what led here leads nowhere
                if flow.via[depth] >= 0:
                    flow.tried[flow.via[depth]] += 1
                else:
                    flow.arc[flow.path[depth]] += 1
    return -1


@inlined
def _find_end(stays: Stays, flow: Flow, x: int, level: int, depth: int, backwards: bool) -> int:
    """The next node to which a tuple may move at no cost."""
    chosen = flow.stop[x]
    now = (stays.worth[chosen] if chosen >= 0 else stays.base[x]) - level
    first, past = stays.first[x], stays.past[x]
    step = flow.tried[x]
    while step <= past - first:  # step 0 forwards, or the last one backwards, is the arrival
        number = past - 1 - step if backwards else first - 1 + step
        if number < first:
            node = stays.arrive[x]
            free = chosen >= 0 and stays.base[x] - flow.potential[node] == now
            number = -1
        else:
            node = stays.end[number]
            free = number != chosen and stays.worth[number] - flow.potential[node] == now
        if free and flow.state[node] == 1:
            flow.tried[x] = step
            flow.via[depth] = x
            flow.target[depth] = number
            return int(node)
        step += 1
    flow.tried[x] = step
    return -1


@inlined
def _move_along(stays: Stays, flow: Flow, length: int) -> None:
    """Move one unit along the path; its nodes may be used again."""
    flow.state[flow.path[length]] = 1
    for at in range(length):
        node, into, x = flow.path[at], flow.path[at + 1], flow.via[at]
        flow.state[node] = 1
        if x == FORTH:
            flow.free[node] += 1
        elif x == BACK:
            flow.free[node - 1] -= 1
        else:
            following, before = flow.following[x], flow.before[x]
            if flow.cursor[node] == x:
                flow.cursor[node] = following
            if before >= 0:
                flow.following[before] = following
            else:
                flow.head[node] = following
            if following >= 0:
                flow.before[following] = before
            flow.stop[x] = flow.target[at]
            flow.following[x], flow.before[x] = flow.head[into], -1
            if flow.head[into] >= 0:
                flow.before[flow.head[into]] = x
            flow.head[into] = x
