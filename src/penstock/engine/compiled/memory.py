"""The retained tuples: find a key, link a tuple, unlink it, expire what has passed.

A tuple sits in a *slot*. Three chains run through the slots:

* per class (the tuples of one stream with one key), by time: what an arrival probes;
* per stream, by arrival: what expires first, and what `fifo` sheds first. Expiries rise along it, except for *stragglers*
  (late tuples, short lifetimes: anything below the largest expiry before it), which are in a heap by expiry as well;
* free slots.

The classes with one key form a ring, found through an open hash table; a class goes with its last tuple, so nothing here grows with
the number of keys ever seen. The class that the table knows has the key's *bit vector*: which streams hold the key (AMJoin's table, Kwon
2.2). The layout is in state.py.

Differs from the paper: there is a vector per key, not per hash value, so that no two keys share one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.core.compiled import inlined, kernel, routine
from penstock.core.trace import Floats, Ints
from penstock.core.window import NEVER
from penstock.engine.compiled.key_clocks import PER_KEY, reset_clock
from penstock.engine.compiled.state import Memory, groups, lanes, places, slots, stragglers, table


@inlined
def place_of(size: int, key: int) -> int:
    """Where a hash table with `size` places (a power of two) starts to look for `key`."""
    mixed = key ^ (key >> 31)
    mixed = (mixed & 0x7FFFFFFF) * 0x2545F491
    return (mixed ^ (mixed >> 29)) & (size - 1)


@inlined
def find_ring(memory: Memory, key: int) -> int:
    """A class with this key, of whatever stream; -1 if there is none."""
    size = memory.table_size
    at = place_of(size, key)
    while table(memory)[at] >= 0:
        if groups(memory)[table(memory)[at]].key == key:
            return int(table(memory)[at])
        at = (at + 1) & (size - 1)
    return -1


@inlined
def in_ring(memory: Memory, ring: int, stream: int) -> int:
    """The class of `stream` in a ring, -1 if it has none."""
    group = ring
    while group >= 0:
        if groups(memory)[group].stream == stream:
            return group
        group = groups(memory)[group].kin
        if group == ring:
            break
    return -1


@inlined
def bit_of(memory: Memory, stream: int) -> int:
    """The bit of a stream in a bit vector: the first stream has the highest, as the vectors are written in the paper."""
    return 1 << ((memory.streams - 1 - stream) & 63)


@inlined
def holders_of(memory: Memory, ring: int) -> int:
    """The bit vector of a key (Kwon 2.2): which streams hold it; `ring` is what `find_ring` says of the key."""
    return int(groups(memory)[ring].bits) if ring >= 0 else 0


@inlined
def claim_class(memory: Memory, ring: int, stream: int, key: int) -> int:
    """The class of `stream` and `key`, a new one if there is none; `ring` is what `find_ring` says of the key."""
    group = in_ring(memory, ring, stream)
    if group >= 0:
        return group
    group = memory.free_group
    memory.free_group = groups(memory)[group].head
    memory.live_groups += 1
    groups(memory)[group].key = key
    groups(memory)[group].stream = stream
    groups(memory)[group].head = -1
    groups(memory)[group].heaped = 0
    groups(memory)[group].bits = bit_of(memory, stream)
    reset_clock(memory, group)
    if ring >= 0:
        groups(memory)[ring].bits |= bit_of(memory, stream)
        groups(memory)[group].kin = groups(memory)[ring].kin
        groups(memory)[ring].kin = group
        return int(group)
    groups(memory)[group].kin = group
    if memory.related:
        return int(group)  # nobody looks for it by its key
    size = memory.table_size
    at = place_of(size, key)
    while table(memory)[at] >= 0:
        at = (at + 1) & (size - 1)
    table(memory)[at] = group
    return int(group)


@kernel
def claim_empty(memory: Memory, key: int) -> int:
    """A class without tuples, for what a key that is not here has made (`output` with counts that last)."""
    group = claim_class(memory, -1, 0, key)
    groups(memory)[group].bits = 0
    groups(memory)[group].price = 0.0
    return group


@kernel
def release_class(memory: Memory, group: int) -> None:
    """Forget a class that has no tuple left, and its key with its last class (the hash table closes the gap)."""
    size = memory.table_size
    key = groups(memory)[group].key
    at = place_of(size, key)
    while not memory.related and groups(memory)[table(memory)[at]].key != key:
        at = (at + 1) & (size - 1)
    before = groups(memory)[group].kin
    if memory.related:
        pass
    elif before == group:
        hole = at
        table(memory)[hole] = -1
        at = (at + 1) & (size - 1)
        while table(memory)[at] >= 0:
            home = place_of(size, groups(memory)[table(memory)[at]].key)
            if ((at - home) & (size - 1)) >= ((at - hole) & (size - 1)):
                table(memory)[hole] = table(memory)[at]
                table(memory)[at] = -1
                hole = at
            at = (at + 1) & (size - 1)
    else:
        known = groups(memory)[table(memory)[at]].bits
        table(memory)[at] = before
        groups(memory)[before].bits = known & ~bit_of(memory, groups(memory)[group].stream)
        while groups(memory)[before].kin != group:
            before = groups(memory)[before].kin
        groups(memory)[before].kin = groups(memory)[group].kin
    groups(memory)[group].kin = -1
    groups(memory)[group].head = memory.free_group
    memory.free_group = group
    memory.live_groups -= 1


@inlined
def link(memory: Memory, group: int, time: int, row: int, expiry: int) -> int:
    """Put a tuple into a free slot and into its chains; the slot."""
    slot = memory.free
    memory.free = slots(memory)[slot].after
    memory.live += 1
    stream = int(groups(memory)[group].stream)
    lanes(memory)[stream].held += 1
    slots(memory)[slot].time = time
    slots(memory)[slot].row = row
    slots(memory)[slot].expiry = expiry
    slots(memory)[slot].stream = stream
    slots(memory)[slot].group = group

    left = groups(memory)[group].tail
    by_key = lanes(memory)[stream].in_rows == PER_KEY
    while left >= 0 and (slots(memory)[left].time > time or (by_key and slots(memory)[left].expiry > expiry)):
        left = slots(memory)[left].before
        memory.steps += 1
    if left < 0:
        right = groups(memory)[group].head
        groups(memory)[group].head = slot
    else:
        right = slots(memory)[left].after
        slots(memory)[left].after = slot
    slots(memory)[slot].before = left
    slots(memory)[slot].after = right
    if right < 0:
        groups(memory)[group].tail = slot
    else:
        slots(memory)[right].before = slot
    groups(memory)[group].members += 1

    last = lanes(memory)[stream].newest
    slots(memory)[slot].older = last
    slots(memory)[slot].newer = -1
    lanes(memory)[stream].newest = slot
    if memory.straggling:
        places(memory)[slot] = -1
    if last < 0:
        lanes(memory)[stream].oldest = slot
        lanes(memory)[stream].ceiling = expiry
    else:
        slots(memory)[last].newer = slot
        if expiry < lanes(memory)[stream].ceiling and not by_key:
            _push_straggler(memory, slot)
        else:
            lanes(memory)[stream].ceiling = expiry
    return int(slot)


@inlined
def unlink(memory: Memory, slot: int) -> None:
    """Take a tuple out of its chains and free its slot. Its class stays; see `release_class`."""
    stream = int(slots(memory)[slot].stream)
    group = slots(memory)[slot].group
    left = slots(memory)[slot].before
    right = slots(memory)[slot].after
    if left < 0:
        groups(memory)[group].head = right
    else:
        slots(memory)[left].after = right
    if right < 0:
        groups(memory)[group].tail = left
    else:
        slots(memory)[right].before = left
    groups(memory)[group].members -= 1

    left = slots(memory)[slot].older
    right = slots(memory)[slot].newer
    if left < 0:
        lanes(memory)[stream].oldest = right
    else:
        slots(memory)[left].newer = right
    if right < 0:
        lanes(memory)[stream].newest = left
    else:
        slots(memory)[right].older = left
    if memory.straggling and places(memory)[slot] >= 0:
        _drop_straggler(memory, slot)
    slots(memory)[slot].after = memory.free
    memory.free = slot
    memory.live -= 1
    lanes(memory)[stream].held -= 1


@inlined
def next_expired(memory: Memory, horizon: int) -> int:
    """The slot whose window passed first, -1 if there is none: of equals the earlier row, however they are linked."""
    found = -1
    if memory.n_stragglers > 0 and slots(memory)[stragglers(memory)[0]].expiry <= horizon:
        found = int(stragglers(memory)[0])
    for stream in range(memory.streams):
        slot = lanes(memory)[stream].oldest
        if slot >= 0:
            bound = lanes(memory)[stream].clock if lanes(memory)[stream].in_rows else horizon
            if slots(memory)[slot].expiry <= bound and (found < 0 or _passes_first(memory, slot, found)):
                found = int(slot)
    return found


@inlined
def _passes_first(memory: Memory, slot: int, other: int) -> bool:
    if slots(memory)[slot].expiry != slots(memory)[other].expiry:
        return bool(slots(memory)[slot].expiry < slots(memory)[other].expiry)
    return bool(slots(memory)[slot].row < slots(memory)[other].row)


@inlined
def horizon_of(memory: Memory) -> int:
    """The time up to which the promise of order holds (docs/readings.md, order and expiry)."""
    if not memory.by_stream:
        return int(memory.now)
    horizon = NEVER
    for stream in range(memory.streams):
        if lanes(memory)[stream].seen == -NEVER:
            return -NEVER
        horizon = min(horizon, lanes(memory)[stream].seen - lanes(memory)[stream].lateness)
    return int(horizon)


@routine
def live_slots(memory: Memory) -> Ints:
    """The slots of all retained tuples, stream by stream in order of arrival."""
    found = np.empty(memory.live, dtype=np.int64)
    at = 0
    for stream in range(memory.lanes_size):
        slot = lanes(memory)[stream].oldest
        while slot >= 0:
            found[at] = slot
            at += 1
            slot = slots(memory)[slot].newer
    return found


@routine
def relink(memory: Memory, stream: NDArray[np.int8], key: Ints, time: Ints, row: Ints, expiry: Ints) -> Ints:
    """Link tuples, given in order of arrival, into empty memory; their slots."""
    found = np.empty(len(time), dtype=np.int64)
    for at in range(len(time)):
        group = claim_class(memory, find_ring(memory, key[at]), stream[at], key[at])
        found[at] = link(memory, group, time[at], row[at], expiry[at])
    return found


@routine
def recall(memory: Memory, key: Ints, price: Floats) -> None:
    """Give keys that no tuple has what they have made."""
    for at in range(len(key)):
        group = claim_empty(memory, key[at])
        groups(memory)[group].price = price[at]


# Stragglers: a binary heap of slots by expiry, with the position of each slot in `places`.


@kernel
def _settle(memory: Memory, at: int, slot: int) -> None:
    stragglers(memory)[at] = slot
    places(memory)[slot] = at


@kernel
def _rise(memory: Memory, at: int, slot: int) -> int:
    while at > 0:
        above = (at - 1) >> 1
        other = stragglers(memory)[above]
        if not _passes_first(memory, slot, other):
            break
        _settle(memory, at, other)
        at = above
        memory.steps += 1
    _settle(memory, at, slot)
    return at


@kernel
def _push_straggler(memory: Memory, slot: int) -> None:
    at = memory.n_stragglers
    memory.n_stragglers += 1
    _rise(memory, at, slot)


@kernel
def _drop_straggler(memory: Memory, slot: int) -> None:
    at = places(memory)[slot]
    places(memory)[slot] = -1
    memory.n_stragglers -= 1
    size = memory.n_stragglers
    if at == size:
        return
    moved = stragglers(memory)[size]
    at = _rise(memory, at, moved)
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        right = stragglers(memory)[below]
        if below + 1 < size:
            other = stragglers(memory)[below + 1]
            if _passes_first(memory, other, right):
                below += 1
                right = other
        if not _passes_first(memory, right, moved):
            break
        _settle(memory, at, right)
        at = below
        memory.steps += 1
    _settle(memory, at, moved)
