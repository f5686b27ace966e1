"""The tournament of classes: whose first tuple leaves first, in O(log memory) per change.

A tree in which eight entries make a block and each block has a winner. An entry repeats what its class is compared by, so that a decision
looks at the entries of one block, two cache lines, and not at the classes behind them:

    nodes     0                     the victim's class
              1 ... 8               winners of the blocks below: node n has the children 8n + 1 ... 8n + 8
    leaves    a b c ...             one per class; its place is the class's number

Where scores fall at different slopes (`life`), each node also knows when one of its entries may overtake the winner: a kinetic
tournament. Pools have tournaments of their own. They share the leaves, since a class is in one pool; a kinetic tournament has its own,
where nobody is one that never wins.
"""

from __future__ import annotations

import numpy as np

from penstock.core.compiled import inlined, kernel
from penstock.core.ranking import (
    DRAW,
    GAIN_LOSS,
    SCORE,
    STAY,
    ahead,
    compare_products,
    first,
    is_kinetic,
    price_of,
    score_of,
    stream_of,
    toll_of,
)
from penstock.core.state import Memory, dues, entries, groups, lanes, moments, owns, ranks, slots, stack, waiting
from penstock.core.window import NEVER

BLOCK = 8
_ROUNDING = 1e-14  # products closer than this, relatively, are compared exactly
EMPTY = 1e280
_LOW = 0xFFFFF  # the lower bits of a tie: time, where importance comes first
PATIENCE = 8  # in instants of up to so many arrivals, new classes wait outside the tournament until the shedding is done


def shape(classes: int) -> tuple[int, int]:
    """How many leaves and how many inner nodes a tournament of so many classes has: whole blocks of each, and the root.

    >>> shape(8), shape(9), shape(1000)
    ((8, 1), (64, 9), (1016, 145))
    """
    inner = BLOCK * max(0, -(-(classes - BLOCK) // (BLOCK * (BLOCK - 1)))) + 1
    return (BLOCK - 1) * inner + 1, inner


@inlined
def root_at(memory: Memory, level: int, tree: int) -> int:
    """Where the root of a tournament is among the entries. Leaves come first; blocks begin at multiples of 8."""
    return int(memory.leaves * memory.planes + (level * memory.trees + tree) * (memory.inner + BLOCK - 1) + BLOCK - 1)


@inlined
def _block_of(memory: Memory, plane: int, root: int, node: int) -> int:
    """Where the eight children of a node are."""
    below = BLOCK * node + 1
    return root + below if below < memory.inner else plane * memory.leaves + below - memory.inner


@inlined
def _class_at(memory: Memory, plane: int, tree: int, at: int) -> int:
    """The class of an entry, -1 if nobody plays there. A leaf holds the number of its tournament instead of its own."""
    holder = entries(memory)[at].group
    if at >= memory.leaves * memory.planes:
        return int(holder)
    return at - plane * memory.leaves if holder == tree else -1


@inlined
def _bits(number: float) -> int:
    """A whole number below 2**31 that keeps the order of numbers >= 0, rounding down."""
    short = np.float32(min(number, 3e38))
    return int(short.view(np.int32)) - (1 if short > number else 0)


@inlined
def tie_of(memory: Memory, group: int, slot: int) -> int:
    """What decides between equal scores, in 31 bits: unequal numbers are in the order of the ranks, equal ones decide nothing.

    The time since `dawn`; where the policy looks at importance first, that, and the time in what is left if the importance fits exactly.
    """
    time = max(0, slots(memory)[slot].time - memory.dawn) >> memory.coarse
    if not memory.tied:
        return int(min(time, 0x7FFFFFFF))
    importance = ranks(memory)[slot].importance
    if importance <= 0:
        return _LOW
    high = _bits(importance)
    if (high & _LOW) == 0 and np.float32(min(importance, 3e38)) == importance:
        return high | (_bits(groups(memory)[group].price) >> 11 if memory.kind == GAIN_LOSS else int(min(time, _LOW)))
    return high | _LOW


@kernel
def keep_time(memory: Memory) -> None:
    """Measure the time in ties from a new dawn, and as coarsely as leaves room for the future, when the room is used up."""
    room = _LOW if memory.tied else 0x7FFFFFFF
    if memory.kind <= DRAW or is_kinetic(memory) or (memory.now - memory.dawn) >> memory.coarse <= room:
        return
    oldest = memory.now
    for stream in range(memory.streams):
        slot = lanes(memory)[stream].oldest
        if slot >= 0:
            oldest = min(oldest, slots(memory)[slot].time)
    memory.dawn = oldest
    memory.coarse = 0
    while (memory.now - oldest) >> memory.coarse > room // 4:
        memory.coarse += 1
    rebuild(memory)


@inlined
def _note(memory: Memory, level: int, group: int, leaf: int) -> None:
    """Repeat in the leaf of a class what its first tuple is compared by."""
    slot = first(memory, level, group)
    price = price_of(memory, group)
    if memory.kind >= SCORE:
        entries(memory)[leaf].worth = score_of(memory, level, group, slot)
    else:
        entries(memory)[leaf].worth = max(0.0, price - toll_of(memory, stream_of(memory, group))) if memory.kind == STAY else price
    if is_kinetic(memory):
        moments(memory)[leaf] = slots(memory)[slot].expiry
    else:
        entries(memory)[leaf].tie = tie_of(memory, group, slot)


@inlined
def _seat(memory: Memory, level: int, tree: int, group: int, leaf: int, there: bool) -> None:
    """Bring a leaf up to date."""
    if there:
        _note(memory, level, group, leaf)
        entries(memory)[leaf].group = tree
    elif is_kinetic(memory):
        _vacate(memory, leaf)
    else:
        entries(memory)[leaf].group = -1


@kernel
def promote(memory: Memory, level: int, group: int) -> None:
    """Bring the tournament up to date after the first tuple or the price of a class has changed."""
    if memory.kind <= DRAW:
        return
    there = first(memory, level, group) >= 0
    tree = int(lanes(memory)[stream_of(memory, group)].tree)
    leaf = (tree if is_kinetic(memory) else level) * memory.leaves + group
    if entries(memory)[leaf].group < 0 and (not there or memory.patient):
        if there:
            _wait(memory, level * memory.groups_size + group)
        return
    _seat(memory, level, tree, group, leaf, there)
    if is_kinetic(memory):
        _climb_kinetic(memory, tree, group)
    else:
        _climb(memory, level, tree, group)


@kernel
def _climb(memory: Memory, level: int, tree: int, group: int) -> None:
    """Decide again on the way from a leaf to the root, as far as something changes."""
    root = root_at(memory, level, tree)
    node = memory.inner + group
    at = level * memory.leaves + group  # the entry that has changed,
    winner = _class_at(memory, level, tree, at)  # whose it is now,
    before = group  # and whose it was
    while node > 0:
        node = (node - 1) // BLOCK
        memory.steps += 1
        held = entries(memory)[root + node]
        old = held.group
        if old == before:
            if winner < 0 or not _surely_ahead(memory, at, root + node):
                at = _best_of(memory, level, tree, _block_of(memory, level, root, node))
                winner = _class_at(memory, level, tree, at) if at >= 0 else -1
        elif winner < 0 or (old >= 0 and not _beats(memory, level, at, winner, root + node, old)):
            return
        _crown(memory, root + node, at, winner)
        before = old
        at = root + node


@inlined
def _surely_ahead(memory: Memory, at: int, other: int) -> bool:
    """Whether an entry is ahead of another by what they repeat."""
    a = entries(memory)[at]
    b = entries(memory)[other]
    return bool(a.worth < b.worth or (a.worth == b.worth and a.tie < b.tie))


@inlined
def _beats(memory: Memory, level: int, at: int, group: int, other: int, rival: int) -> bool:
    """Whether the entry of class `group` is ahead of that of class `rival`."""
    a = entries(memory)[at]
    b = entries(memory)[other]
    if a.worth != b.worth:
        return bool(a.worth < b.worth)
    if a.tie != b.tie:
        return bool(a.tie < b.tie)
    return ahead(memory, level, group, rival)


@inlined
def _best_of(memory: Memory, level: int, tree: int, block: int) -> int:
    """The entry of a block that is ahead of the others, -1 if nobody plays. Eight steps without a branch, unless there is a tie."""
    leaf = block < memory.leaves * memory.planes
    best = -1
    worth = np.inf
    tie = 0x7FFFFFFF
    doubt = False
    for at in range(block, block + BLOCK):
        here = entries(memory)[at].worth
        then = entries(memory)[at].tie
        here = np.inf if leaf & (entries(memory)[at].group != tree) else here
        less = (here < worth) | ((here == worth) & (then < tie))
        doubt = (doubt | ((here == worth) & (then == tie))) & (not less)
        best = at if less else best
        worth = here if less else worth
        tie = then if less else tie
    if worth == np.inf:
        return -1
    if doubt:
        winner = _class_at(memory, level, tree, best)
        for at in range(best + 1, block + BLOCK):
            group = _class_at(memory, level, tree, at)
            if group >= 0 and _beats(memory, level, at, group, best, winner):
                best = at
                winner = group
    return best


@inlined
def _crown(memory: Memory, node: int, at: int, winner: int) -> None:
    """Make an entry the winner of its block."""
    entries(memory)[node].group = winner
    entries(memory)[node].worth = entries(memory)[at].worth if winner >= 0 else np.inf
    if winner >= 0:
        entries(memory)[node].tie = entries(memory)[at].tie


# Kinetic tournaments.


@inlined
def _life(memory: Memory, clock: int, at: int) -> int:
    """The life that is left to the first tuple of an entry, as `life_left`."""
    return max(0, moments(memory)[at] - clock - memory.less)


@inlined
def _outlives(memory: Memory, clock: int, at: int, group: int, other: int, rival: int) -> bool:
    """`_beats`, by worth times the life that is left."""
    sign = compare_products(_life(memory, clock, at), entries(memory)[at].worth, _life(memory, clock, other), entries(memory)[other].worth)
    return bool(sign < 0) if sign != 0 else ahead(memory, 0, group, rival)


@inlined
def _overtakes(memory: Memory, clock: int, winner: int, loser: int) -> int:
    """The earliest clock at which entry `loser` may be ahead of entry `winner`; early is safe."""
    p = entries(memory)[winner].worth
    q = entries(memory)[loser].worth
    if q <= p:
        return max(clock + 1, moments(memory)[loser] - memory.less)
    a = _life(memory, clock, winner) * p
    b = _life(memory, clock, loser) * q
    ticks = (b - a - _ROUNDING * (a + b)) / (q - p)
    return int(clock + max(1, int(np.ceil(min(ticks, 1e17)))))


@kernel
def _best_exactly(memory: Memory, tree: int, clock: int, block: int, best: int) -> int:
    """The winner of a block where floating point cannot tell; `best` is close."""
    winner = _class_at(memory, tree, tree, best)
    for at in range(block, block + BLOCK):
        group = _class_at(memory, tree, tree, at)
        if group >= 0 and at != best and _outlives(memory, clock, at, group, best, winner):
            best = at
            winner = group
    return best


@kernel
def _judge(memory: Memory, tree: int, clock: int, root: int, node: int) -> None:
    """Decide a block of a kinetic tournament, and when to look at it again."""
    block = _block_of(memory, tree, root, node)
    start = clock + memory.less
    best = block
    lowest_score = max(0, moments(memory)[block] - start) * entries(memory)[block].worth
    next_score = np.inf
    for at in range(block + 1, block + BLOCK):
        score = max(0, moments(memory)[at] - start) * entries(memory)[at].worth
        less = score < lowest_score
        next_score = min(next_score, max(score, lowest_score))
        best = at if less else best
        lowest_score = min(score, lowest_score)
    hub = root - memory.leaves * memory.planes
    if lowest_score >= EMPTY:
        _vacate(memory, root + node)
        owns(memory)[hub + node] = NEVER
        dues(memory)[hub + node] = _due(memory, hub, node)
        return
    if next_score * (1 - 2 * _ROUNDING) <= lowest_score:
        best = _best_exactly(memory, tree, clock, block, best)
    p = entries(memory)[best].worth
    score = max(0, moments(memory)[best] - start) * p
    ticks = 1e17
    for at in range(block, block + BLOCK):
        q = entries(memory)[at].worth
        left = max(0, moments(memory)[at] - start)
        rival = left * q
        meets = (rival - score - _ROUNDING * (rival + score)) / max(q - p, 1e-300)
        fades = left * (1 - _ROUNDING)
        until = meets if q > p else fades
        ticks = min(ticks, until)
    entries(memory)[root + node].group = _class_at(memory, tree, tree, best)
    entries(memory)[root + node].worth = p
    moments(memory)[root + node] = moments(memory)[best]
    owns(memory)[hub + node] = clock + max(1, int(np.ceil(ticks)))
    dues(memory)[hub + node] = _due(memory, hub, node)


@inlined
def _vacate(memory: Memory, at: int) -> None:
    """Nobody plays at an entry of a kinetic tournament: it is worth too much to win or to overtake."""
    entries(memory)[at].group = -1
    entries(memory)[at].worth = EMPTY
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
def _lane_of(memory: Memory, tree: int) -> int:
    """The first stream of a tournament."""
    stream = 0
    while lanes(memory)[stream].tree != tree:
        stream += 1
    return stream


@kernel
def _climb_kinetic(memory: Memory, tree: int, group: int) -> None:
    """`_climb`, with the times at which nodes are due."""
    root = root_at(memory, 0, tree)
    hub = root - memory.leaves * memory.planes
    clock = lanes(memory)[stream_of(memory, group)].clock
    node = memory.inner + group
    at = tree * memory.leaves + group
    winner = _class_at(memory, tree, tree, at)
    before = group
    while node > 0:
        node = (node - 1) // BLOCK
        old = entries(memory)[root + node].group
        if old >= 0 and old != before:
            if winner < 0:
                break
            if not _outlives(memory, clock, at, winner, root + node, old):
                owns(memory)[hub + node] = min(owns(memory)[hub + node], _overtakes(memory, clock, root + node, at))
                memory.steps += 1
                break
        _judge(memory, tree, clock, root, node)
        memory.steps += 1
        before = old
        winner = entries(memory)[root + node].group
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
    holder = entries(memory)[root + node].group
    winner = entries(memory)[root + child].group
    if holder == before or _outlives(memory, clock, root + child, winner, root + node, holder):
        return True
    owns(memory)[hub + node] = min(owns(memory)[hub + node], _overtakes(memory, clock, root + node, root + child))
    return False


@kernel
def refresh(memory: Memory, tree: int) -> None:
    """Decide again every block of a kinetic tournament that is due; above it only what has changed."""
    root = root_at(memory, 0, tree)
    hub = root - memory.leaves * memory.planes
    clock = lanes(memory)[_lane_of(memory, tree)].clock
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
        winner = entries(memory)[root + node].group
        if path[depth + 2] or owns(memory)[hub + node] <= clock:
            _judge(memory, tree, clock, root, node)
            memory.steps += 1
        else:
            dues(memory)[hub + node] = _due(memory, hub, node)
        depth -= 3
        if depth >= 0 and entries(memory)[root + node].group != winner:
            path[depth + 2] |= _unsettles(memory, clock, root, path[depth], node, winner)


# Coming and going.


@kernel
def _wait(memory: Memory, place: int) -> None:
    """Keep a new class out of the tournament for now: most are shed in the instant in which they come."""
    for at in range(memory.n_waiting):
        if waiting(memory)[at] == place:
            return
    waiting(memory)[memory.n_waiting] = place
    memory.n_waiting += 1


@kernel
def admit_waiting(memory: Memory) -> None:
    """Let the new classes that have survived the instant into the tournament."""
    memory.patient = 0
    for at in range(memory.n_waiting):
        level = 1 if waiting(memory)[at] >= memory.groups_size else 0
        group = waiting(memory)[at] - level * memory.groups_size
        if groups(memory)[group].members > 0 and first(memory, level, group) >= 0:
            promote(memory, level, group)
    memory.n_waiting = 0


@kernel
def rebuild(memory: Memory) -> None:
    """Set up every tournament from scratch, after its arrays have grown or every price has changed."""
    if memory.kind <= DRAW:
        return
    for level in range(memory.levels):
        for group in range(memory.bands_size if memory.banded else memory.groups_size):
            there = (memory.banded or groups(memory)[group].members > 0) and first(memory, level, group) >= 0
            tree = int(lanes(memory)[stream_of(memory, group)].tree)
            leaf = (tree if is_kinetic(memory) else level) * memory.leaves + group
            _seat(memory, level, tree, group, leaf, there)
        for tree in range(memory.trees):
            root = root_at(memory, level, tree)
            clock = lanes(memory)[_lane_of(memory, tree)].clock
            for node in range(memory.inner - 1, -1, -1):
                if is_kinetic(memory):
                    _judge(memory, tree, clock, root, node)
                else:
                    at = _best_of(memory, level, tree, _block_of(memory, level, root, node))
                    _crown(memory, root + node, at, _class_at(memory, level, tree, at) if at >= 0 else -1)


@inlined
def lowest(memory: Memory, level: int, which: int) -> int:
    """The class of a pool whose first tuple leaves first, of those in tournaments; -1 if there is none."""
    best = -1
    for stream in range(memory.streams):
        if lanes(memory)[stream].pool == which and lanes(memory)[stream].leads:
            group = entries(memory)[root_at(memory, level, lanes(memory)[stream].tree)].group
            if group >= 0 and (best < 0 or ahead(memory, level, group, best)):
                best = group
    return int(best)
