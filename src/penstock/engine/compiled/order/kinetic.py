"""Kinetic tournaments, where scores fall at different slopes (`life`): a node also knows when an entry may overtake its winner.

They have leaves of their own, in which nobody is one that never wins.
"""

from __future__ import annotations

import numpy as np

from penstock.core.compiled import inlined, kernel
from penstock.core.window import NEVER
from penstock.engine.compiled.order.ranking import ahead, compare_products, stream_of
from penstock.engine.compiled.order.tree import BLOCK, block_of, class_at, root_at
from penstock.engine.compiled.state import Memory, dues, holders, lanes, moments, owns, stack, worths

_ROUNDING = 1e-14  # products closer than this, relatively, are compared exactly


@inlined
def _life(memory: Memory, clock: int, at: int) -> int:
    """The life that is left to the first tuple of an entry, as `life_left`."""
    return max(0, moments(memory)[at] - clock - memory.less)


@inlined
def _outlives(memory: Memory, clock: int, at: int, group: int, other: int, rival: int) -> bool:
    """`_beats`, by worth times the life that is left."""
    sign = compare_products(_life(memory, clock, at), worths(memory)[at], _life(memory, clock, other), worths(memory)[other])
    return bool(sign < 0) if sign != 0 else ahead(memory, 0, group, rival)


@inlined
def _overtakes(memory: Memory, clock: int, winner: int, loser: int) -> int:
    """The earliest clock at which entry `loser` may be ahead of entry `winner`; early is safe."""
    p = worths(memory)[winner]
    q = worths(memory)[loser]
    if q <= p:
        return max(clock + 1, moments(memory)[loser] - memory.less)
    a = _life(memory, clock, winner) * p
    b = _life(memory, clock, loser) * q
    ticks = (b - a - _ROUNDING * (a + b)) / (q - p)
    return int(clock + max(1, int(np.ceil(min(ticks, 1e17)))))


@kernel
def _shortest(memory: Memory, tree: int, clock: int, block: int, best: int) -> int:
    """The winner of a block where floating point cannot decide; `best` is close."""
    winner = class_at(memory, tree, tree, best)
    for at in range(block, block + BLOCK):
        group = class_at(memory, tree, tree, at)
        if group >= 0 and at != best and _outlives(memory, clock, at, group, best, winner):
            best = at
            winner = group
    return best


@kernel
def judge(memory: Memory, tree: int, clock: int, root: int, node: int) -> None:
    """Decide a block of a kinetic tournament, and when to look at it again."""
    block = block_of(memory, tree, root, node)
    start = clock + memory.less
    best = block
    lowest_score = max(0, moments(memory)[block] - start) * worths(memory)[block]
    next_score = np.inf
    for at in range(block + 1, block + BLOCK):
        score = max(0, moments(memory)[at] - start) * worths(memory)[at]
        less = score < lowest_score
        next_score = min(next_score, max(score, lowest_score))
        best = at if less else best
        lowest_score = min(score, lowest_score)
    hub = root - memory.leaves * memory.planes
    if lowest_score == np.inf:
        vacate(memory, root + node)
        owns(memory)[hub + node] = NEVER
        dues(memory)[hub + node] = _due(memory, hub, node)
        return
    if next_score * (1 - 2 * _ROUNDING) <= lowest_score:
        best = _shortest(memory, tree, clock, block, best)
    p = worths(memory)[best]
    score = max(0, moments(memory)[best] - start) * p
    ticks = 1e17
    for at in range(block, block + BLOCK):
        q = worths(memory)[at]
        left = max(0, moments(memory)[at] - start)
        rival = left * q
        nearer = min(q - p, 1e300) if q > p else 1.0
        meets = (rival * (1 - _ROUNDING) - score * (1 + _ROUNDING)) / nearer
        fades = left * (1 - _ROUNDING)
        least = 0.0 if q > p else fades
        ticks = min(ticks, min(max(meets, least), fades))
    holders(memory)[root + node] = class_at(memory, tree, tree, best)
    worths(memory)[root + node] = p
    moments(memory)[root + node] = moments(memory)[best]
    owns(memory)[hub + node] = clock + max(1, int(np.ceil(ticks)))
    dues(memory)[hub + node] = _due(memory, hub, node)


@inlined
def vacate(memory: Memory, at: int) -> None:
    """Nobody plays at an entry of a kinetic tournament: it is worth too much to win or to overtake."""
    holders(memory)[at] = -1
    worths(memory)[at] = np.inf
    moments(memory)[at] = NEVER


@inlined
def _due(memory: Memory, hub: int, node: int) -> int:
    """When a node must be looked at again: for its own sake, or for something below it."""
    when = owns(memory)[hub + node]
    below = BLOCK * node + 1
    if below < memory.inner:
        for child in range(below, below + BLOCK):
            when = min(when, dues(memory)[hub + child])
    return int(when)


@kernel
def lane_of(memory: Memory, tree: int) -> int:
    """The first stream of a tournament."""
    stream = 0
    while lanes(memory)[stream].tree != tree:
        stream += 1
    return stream


@kernel
def climb_kinetic(memory: Memory, tree: int, group: int) -> None:
    """`_climb`, with the times at which nodes are due."""
    root = root_at(memory, 0, tree)
    hub = root - memory.leaves * memory.planes
    clock = lanes(memory)[stream_of(memory, group)].clock
    node = memory.inner + group
    at = tree * memory.leaves + group
    winner = class_at(memory, tree, tree, at)
    before = group
    while node > 0:
        node = (node - 1) // BLOCK
        old = holders(memory)[root + node]
        if old >= 0 and old != before:
            if winner < 0:
                break
            if not _outlives(memory, clock, at, winner, root + node, old):
                owns(memory)[hub + node] = min(owns(memory)[hub + node], _overtakes(memory, clock, root + node, at))
                memory.steps += 1
                break
        judge(memory, tree, clock, root, node)
        memory.steps += 1
        before = old
        winner = holders(memory)[root + node]
        at = root + node
    while True:
        when = _due(memory, hub, node)
        if when == dues(memory)[hub + node]:
            return
        dues(memory)[hub + node] = when
        if node == 0:
            return
        node = (node - 1) // BLOCK


@inlined
def _unsettles(memory: Memory, clock: int, root: int, node: int, child: int, before: int) -> bool:
    """Whether a node must be decided again because its child has a new winner; if not, note when that may overtake."""
    hub = root - memory.leaves * memory.planes
    holder = holders(memory)[root + node]
    winner = holders(memory)[root + child]
    if holder == before or _outlives(memory, clock, root + child, winner, root + node, holder):
        return True
    owns(memory)[hub + node] = min(owns(memory)[hub + node], _overtakes(memory, clock, root + node, root + child))
    return False


@kernel
def refresh(memory: Memory, tree: int) -> None:
    """Decide again every block of a kinetic tournament that is due; above it only what has changed."""
    root = root_at(memory, 0, tree)
    hub = root - memory.leaves * memory.planes
    clock = lanes(memory)[lane_of(memory, tree)].clock
    if dues(memory)[hub] > clock:
        return
    path = stack(memory)  # per level from the root down: the node, the next child to look at, whether a winner below has changed
    path[0] = 0
    path[1] = 0
    path[2] = 0
    depth = 0
    while depth >= 0:
        node = path[depth]
        child = path[depth + 1]
        below = BLOCK * node + 1
        if below < memory.inner:
            while child < BLOCK and dues(memory)[hub + below + child] > clock:
                child += 1
            if child < BLOCK:
                path[depth + 1] = child + 1
                depth += 3
                path[depth] = below + child
                path[depth + 1] = 0
                path[depth + 2] = 0
                continue
        winner = holders(memory)[root + node]
        if path[depth + 2] or owns(memory)[hub + node] <= clock:
            judge(memory, tree, clock, root, node)
            memory.steps += 1
        else:
            dues(memory)[hub + node] = _due(memory, hub, node)
        depth -= 3
        if depth >= 0 and holders(memory)[root + node] != winner:
            path[depth + 2] |= _unsettles(memory, clock, root, path[depth], node, winner)
