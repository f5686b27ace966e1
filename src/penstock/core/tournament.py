"""The tournament of classes: whose first tuple leaves first, in O(log memory) per change.

A tree in which eight entries make a block and each block has a winner. An entry has a key, what its class is compared by as far as 64 bits
go, so that a decision looks at eight keys, one cache line, and only where they are equal at the classes behind them:

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
    PATTERNS,
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
from penstock.core.state import Memory, bands, dues, groups, holders, keys, lanes, moments, owns, ranks, slots, stack, waiting, worths
from penstock.core.window import NEVER

BLOCK = 8
_ROUNDING = 1e-14  # products closer than this, relatively, are compared exactly
_TIE = 0x7FFFFFFF  # the bits of a key for what decides between equal scores,
LAST = 0x7FFFFFFFFFFFFFFF  # nobody's key
_LOW = 0xFFFFF  # and those of them for the time, where importance comes first
_DONE = 1 << 40
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
    holder = holders(memory)[at]
    if at >= memory.leaves * memory.planes:
        return int(holder)
    return at - plane * memory.leaves if holder == tree else -1


@inlined
def _sortable(number: float) -> int:
    """A whole number of 32 bits in the order of the numbers, rounding down to the nearest short float."""
    short = np.float32(min(max(number, -3e38), 3e38) + 0.0)  # + 0.0 makes -0.0 one with 0.0
    bits = int(short.view(np.int32))
    return (bits if bits >= 0 else bits ^ 0x7FFFFFFF) - (1 if float(short) > number else 0)


@inlined
def _is_short(number: float) -> bool:
    """Whether a number is a short float."""
    return bool(float(np.float32(min(max(number, -3e38), 3e38))) == number)


@inlined
def _tie_of(memory: Memory, group: int, slot: int) -> int:
    """What decides between equal scores, in 31 bits.

    The time since `dawn`; where the policy looks at importance first, that, and the time in what is left if the importance fits exactly.
    """
    time = max(0, slots(memory)[slot].time - memory.dawn) >> memory.coarse
    if not memory.tied:
        return int(min(time, _TIE))
    importance = ranks(memory)[slot].importance
    high = _sortable(importance)
    if importance <= 0:
        return _LOW
    if (high & _LOW) != 0 or not _is_short(importance):
        return high | _LOW
    return high | (_sortable(groups(memory)[group].price) >> 11 if memory.kind == GAIN_LOSS else int(min(time, _LOW)))


@kernel
def key_of(memory: Memory, level: int, group: int) -> int:
    """What a class is compared by: its first tuple's score as a short float, and what decides between equal scores.

    Unequal keys are in the order of the ranks; equal ones decide nothing. What does not fit has a key that says so.
    """
    if memory.prices == PATTERNS:
        return _band_key(memory, group)
    slot = first(memory, level, group)
    worth = score_of(memory, level, group, slot) if memory.kind >= SCORE else price_of(memory, group)
    return (_sortable(worth) << 31) | (_tie_of(memory, group, slot) if _is_short(worth) else _TIE)


@inlined
def _band_key(memory: Memory, band: int) -> int:
    """The same for `ep`: the bits of the quotient, which is above zero; below all of these the idle bands, by time, and what is done."""
    price = bands(memory)[band].price
    if price > 0:
        return int(np.float64(price).view(np.int64))
    time = min(_TIE, max(0, slots(memory)[first(memory, 0, band)].time - memory.dawn) >> memory.coarse)
    if memory.pattern_first:
        time = 0
    return int(_TIE - time if memory.youngest else time) - (0 if price == 0 else _DONE)


@kernel
def keep_time(memory: Memory) -> None:
    """Measure the time in ties from a new dawn, and as coarsely as leaves room for the future, when the room is used up."""
    room = _LOW if memory.tied else _TIE
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
def _seat(memory: Memory, level: int, tree: int, group: int, leaf: int, there: bool) -> None:
    """Bring a leaf up to date with the first tuple of its class."""
    holders(memory)[leaf] = tree if there else -1
    if not is_kinetic(memory):
        keys(memory)[leaf] = key_of(memory, level, group) if there else LAST
    elif there:
        price = price_of(memory, group)
        worths(memory)[leaf] = max(0.0, price - toll_of(memory, stream_of(memory, group))) if memory.kind == STAY else price
        moments(memory)[leaf] = slots(memory)[first(memory, 0, group)].expiry
    else:
        _vacate(memory, leaf)


@kernel
def promote(memory: Memory, level: int, group: int) -> None:
    """Bring the tournament up to date after the first tuple or the price of a class has changed."""
    if memory.kind <= DRAW:
        return
    there = first(memory, level, group) >= 0
    tree = int(lanes(memory)[stream_of(memory, group)].tree)
    leaf = (tree if is_kinetic(memory) else level) * memory.leaves + group
    if holders(memory)[leaf] < 0 and (not there or memory.patient):
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
        old = holders(memory)[root + node]
        if old == before:
            if winner < 0 or keys(memory)[at] >= keys(memory)[root + node]:
                at = _best_of(memory, level, tree, _block_of(memory, level, root, node))
                winner = _class_at(memory, level, tree, at) if at >= 0 else -1
        elif winner < 0 or (old >= 0 and not _beats(memory, level, at, winner, root + node, old)):
            return
        _crown(memory, root + node, at, winner)
        before = old
        at = root + node


@inlined
def _beats(memory: Memory, level: int, at: int, group: int, other: int, rival: int) -> bool:
    """Whether the entry of class `group` is ahead of that of class `rival`."""
    if keys(memory)[at] != keys(memory)[other]:
        return bool(keys(memory)[at] < keys(memory)[other])
    return ahead(memory, level, group, rival)


@inlined
def _best_of(memory: Memory, level: int, tree: int, block: int) -> int:
    """The entry of a block that is ahead of the others, -1 if nobody plays."""
    if memory.trees > 1 and memory.patterns < BLOCK and block < memory.leaves * memory.planes:  # a block of leaves of several trees
        return _best_exactly(memory, level, tree, block, LAST)
    lowest_key = keys(memory)[block]
    for at in range(block + 1, block + BLOCK):
        lowest_key = min(lowest_key, keys(memory)[at])
    if lowest_key == LAST:
        return -1
    best = -1
    equals = 0
    for at in range(block, block + BLOCK):
        equal = keys(memory)[at] == lowest_key
        best = at if equal else best
        equals += equal
    return best if equals == 1 else _best_exactly(memory, level, tree, block, lowest_key)


@kernel
def _best_exactly(memory: Memory, level: int, tree: int, block: int, most: int) -> int:
    """The same, of the entries whose keys are not above `most`, by the whole rank."""
    best = -1
    winner = -1
    for at in range(block, block + BLOCK):
        group = _class_at(memory, level, tree, at)
        if group >= 0 and keys(memory)[at] <= most and (best < 0 or _beats(memory, level, at, group, best, winner)):
            best = at
            winner = group
    return best


@inlined
def _crown(memory: Memory, node: int, at: int, winner: int) -> None:
    """Make an entry the winner of its block."""
    holders(memory)[node] = winner
    keys(memory)[node] = keys(memory)[at] if winner >= 0 else LAST


# Kinetic tournaments.


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
        _vacate(memory, root + node)
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
    holders(memory)[root + node] = _class_at(memory, tree, tree, best)
    worths(memory)[root + node] = p
    moments(memory)[root + node] = moments(memory)[best]
    owns(memory)[hub + node] = clock + max(1, int(np.ceil(ticks)))
    dues(memory)[hub + node] = _due(memory, hub, node)


@inlined
def _vacate(memory: Memory, at: int) -> None:
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
        old = holders(memory)[root + node]
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
        winner = holders(memory)[root + node]
        if path[depth + 2] or owns(memory)[hub + node] <= clock:
            _judge(memory, tree, clock, root, node)
            memory.steps += 1
        else:
            dues(memory)[hub + node] = _due(memory, hub, node)
        depth -= 3
        if depth >= 0 and holders(memory)[root + node] != winner:
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
            group = holders(memory)[root_at(memory, level, lanes(memory)[stream].tree)]
            if group >= 0 and (best < 0 or ahead(memory, level, group, best)):
                best = group
    return int(best)
