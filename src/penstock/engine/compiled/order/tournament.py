"""The tournament of classes: whose first tuple leaves first, in O(log memory) per change.

A tree in which eight entries make a block and each block has a winner. An entry has a key, what its class is compared by as far as 64 bits
go, so that a decision looks at eight keys, one cache line, and only where they are equal at the classes behind them:

    nodes     0                     the victim's class
              1 ... 8               winners of the blocks below: node n has the children 8n + 1 ... 8n + 8
    leaves    a b c ...             one per class; its place is the class's number

Where scores fall at different slopes (`life`), each node also knows when one of its entries may overtake the winner: a kinetic
tournament. Pools have tournaments of their own. They share the leaves, since a class is in one pool; a kinetic tournament has its own,
where nobody is one that never wins.

Where all prices of a stream change at once, nobody wins: the lowest is searched for (bounds.py).

Nobody asks who leaves first while there is room for all: tournaments are held only from when a pool runs over until all are half empty.
"""

from __future__ import annotations

from penstock.core.compiled import inlined, kernel
from penstock.engine.compiled.key_clocks import leaves_at
from penstock.engine.compiled.order.bounds import climb_bounds, empty_bounds, gather_bounds, lowest_by_bounds, seat_bounds
from penstock.engine.compiled.order.kinetic import climb_kinetic, judge, lane_of, vacate
from penstock.engine.compiled.order.ranking import (
    STAY,
    ahead,
    first,
    is_kinetic,
    price_of,
    slot_price_of,
    stream_of,
)
from penstock.engine.compiled.order.sort_key import LAST, LOW, TIE_BITS, key_of
from penstock.engine.compiled.order.tree import BLOCK, block_of, class_at, root_at
from penstock.engine.compiled.state import Memory, bands, groups, holders, keys, lanes, moments, slots, waiting, worths

PATIENCE = 8  # in instants of up to so many arrivals, new classes wait outside the tournament until the shedding is done


@kernel
def keep_time(memory: Memory) -> None:
    """Measure the time in ties from a new dawn, and as coarsely as leaves room for the future, when the room is used up."""
    room = LOW if memory.tied else TIE_BITS
    if not memory.ranked or memory.bounding or is_kinetic(memory) or (memory.now - memory.dawn) >> memory.coarse <= room:
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
def _plane(memory: Memory, level: int, tree: int) -> int:
    """Whose leaves an entry is among: kinetic tournaments, and those that are searched, have leaves of their own."""
    return tree if memory.bounding or is_kinetic(memory) else level


@inlined
def _seat(memory: Memory, level: int, tree: int, group: int, leaf: int, there: bool) -> None:
    """Bring a leaf up to date with the first tuple of its class."""
    if memory.bounding:
        seat_bounds(memory, tree, group, leaf, there)
        return
    holders(memory)[leaf] = tree if there else -1
    if not is_kinetic(memory):
        keys(memory)[leaf] = key_of(memory, level, group) if there else LAST
    elif there:
        price = price_of(memory, group)
        worths(memory)[leaf] = max(0.0, price - slot_price_of(memory, stream_of(memory, group))) if memory.kind == STAY else price
        moments(memory)[leaf] = leaves_at(memory, first(memory, 0, group))
    else:
        vacate(memory, leaf)


@inlined
def promote(memory: Memory, level: int, group: int) -> None:
    """Bring the tournament, where one is held, up to date after the first tuple or the price of a class has changed."""
    if memory.tournaments_held:
        _promote(memory, level, group)


@kernel
def _promote(memory: Memory, level: int, group: int) -> None:
    there = first(memory, level, group) >= 0
    tree = int(lanes(memory)[stream_of(memory, group)].tree)
    leaf = _plane(memory, level, tree) * memory.leaves + group
    if holders(memory)[leaf] < 0 and (not there or memory.patient):
        if there:
            _wait(memory, level * memory.groups_size + group)
        return
    _seat(memory, level, tree, group, leaf, there)
    if memory.bounding:
        climb_bounds(memory, tree, group)
    elif is_kinetic(memory):
        climb_kinetic(memory, tree, group)
    else:
        _climb(memory, level, tree, group)


@kernel
def _climb(memory: Memory, level: int, tree: int, group: int) -> None:
    """Decide again on the way from a leaf to the root, as far as something changes."""
    root = root_at(memory, level, tree)
    node = memory.inner + group
    at = level * memory.leaves + group  # the entry that has changed,
    winner = class_at(memory, level, tree, at)  # whose it is now,
    before = group  # and whose it was
    while node > 0:
        node = (node - 1) // BLOCK
        memory.steps += 1
        old = holders(memory)[root + node]
        if old == before:
            if winner < 0 or keys(memory)[at] >= keys(memory)[root + node]:
                at = _best_of(memory, level, tree, block_of(memory, level, root, node))
                winner = class_at(memory, level, tree, at) if at >= 0 else -1
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
        group = class_at(memory, level, tree, at)
        if group >= 0 and keys(memory)[at] <= most and (best < 0 or _beats(memory, level, at, group, best, winner)):
            best = at
            winner = group
    return best


@inlined
def _crown(memory: Memory, node: int, at: int, winner: int) -> None:
    """Make an entry the winner of its block."""
    holders(memory)[node] = winner
    keys(memory)[node] = keys(memory)[at] if winner >= 0 else LAST


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
def _survey(memory: Memory, which: int) -> int:
    """`ep` of few streams: to look at all bands of a pool that have tuples is faster than a tournament.

    Quotients that differ as rounded are in the order of the exact ones.
    """
    best = -1
    for stream in range(memory.streams):
        if lanes(memory)[stream].pool == which:
            band = stream * memory.patterns
            held = lanes(memory)[stream].patterns
            while held:
                if held & 1 and (best < 0 or _is_below(memory, band, best)):
                    best = band
                held >>= 1
                band += 1
    return best


@inlined
def _is_below(memory: Memory, band: int, other: int) -> bool:
    """`ahead` for bands, where the prices decide, or the times of two that have made nothing."""
    p, q = bands(memory)[band].price, bands(memory)[other].price
    if p != q:
        return bool(p < q)
    u, v = first(memory, 0, band), first(memory, 0, other)
    if p != 0 or memory.pattern_first or slots(memory)[u].time == slots(memory)[v].time:
        return ahead(memory, 0, band, other)
    return bool((slots(memory)[u].time < slots(memory)[v].time) != memory.youngest)


@kernel
def hold(memory: Memory) -> None:
    """Hold tournaments from now on, where there are any."""
    if memory.ranked and not memory.tournaments_held:
        memory.tournaments_held = 1
        rebuild(memory)


@kernel
def rebuild(memory: Memory) -> None:
    """Set up every tournament that is held from scratch, after every price has changed."""
    if not memory.tournaments_held:
        return
    if is_kinetic(memory) or memory.bounding:
        for leaf in range(memory.trees * memory.leaves):  # a class may have been one of another tournament when these were last held
            if memory.bounding:
                empty_bounds(memory, leaf)
            else:
                vacate(memory, leaf)
    for level in range(memory.levels):
        for group in range(memory.bands_size if memory.banded else memory.groups_size):
            there = (memory.banded or groups(memory)[group].members > 0) and first(memory, level, group) >= 0
            tree = int(lanes(memory)[stream_of(memory, group)].tree)
            leaf = _plane(memory, level, tree) * memory.leaves + group
            _seat(memory, level, tree, group, leaf, there)
    crown_all(memory)


@inlined
def reseat(memory: Memory, level: int, group: int) -> None:
    """Take note that the price of a class, which is in a tournament, has changed, without a decision yet."""
    if memory.tournaments_held:
        keys(memory)[level * memory.leaves + group] = key_of(memory, level, group)


@kernel
def crown_all(memory: Memory) -> None:
    """Decide again in every tournament that is held, from the leaves to the roots."""
    if not memory.tournaments_held:
        return
    for level in range(memory.levels):
        for tree in range(memory.trees):
            root = root_at(memory, level, tree)
            clock = lanes(memory)[lane_of(memory, tree)].clock
            for node in range(memory.inner - 1, -1, -1):
                if memory.bounding:
                    gather_bounds(memory, tree, root, node)
                elif is_kinetic(memory):
                    judge(memory, tree, clock, root, node)
                else:
                    at = _best_of(memory, level, tree, block_of(memory, level, root, node))
                    _crown(memory, root + node, at, class_at(memory, level, tree, at) if at >= 0 else -1)


@inlined
def lowest(memory: Memory, level: int, which: int) -> int:
    """The group of a pool whose first tuple leaves first, of those in tournaments; -1 if there is none."""
    if not memory.ranked:
        return _survey(memory, which)
    best = -1
    for stream in range(memory.streams):
        if lanes(memory)[stream].pool == which and lanes(memory)[stream].leads:
            if memory.bounding:
                group = lowest_by_bounds(memory, stream)
            else:
                group = holders(memory)[root_at(memory, level, lanes(memory)[stream].tree)]
            if group >= 0 and (best < 0 or ahead(memory, level, group, best)):
                best = group
    return int(best)
