"""The retained tuples as columns: find a key, link a tuple, unlink it, expire what has passed.

A tuple sits in a *slot*. Three chains run through the slots:

* per key and stream (a *class*), by time: what an arrival probes;
* per stream, by arrival: what expires first, and what `fifo` sheds first. Expiries rise along it, except for *stragglers*
  (late tuples, short lifetimes: anything below the largest expiry before it), which are in a heap by expiry as well;
* free slots.

Keys that have a tuple in memory have a *key number*, found through an open hash table; a key leaves it with its last tuple, so
nothing here grows with the number of keys ever seen. The state itself is laid out in state.py.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.core.compiled import kernel, routine
from penstock.core.state import Memory, groups, keys, lanes, slots, stragglers, table
from penstock.core.trace import Ints
from penstock.core.window import NEVER

Links = NDArray[np.int32]


@kernel
def place_of(table: Links, key: int) -> int:
    """Where the hash table starts to look for `key`."""
    mixed = key ^ (key >> 31)
    mixed = (mixed & 0x7FFFFFFF) * 0x2545F491
    return (mixed ^ (mixed >> 29)) & (len(table) - 1)


@kernel
def find_key(memory: Memory, key: int) -> int:
    """The number of a key in memory, -1 if it has none."""
    places = table(memory)
    mask = len(places) - 1
    at = place_of(places, key)
    while places[at] >= 0:
        if keys(memory)[places[at]] == key:
            return int(places[at])
        at = (at + 1) & mask
    return -1


@kernel
def claim_key(memory: Memory, key: int) -> int:
    """The number of `key`, a new one if it has none."""
    places = table(memory)
    mask = len(places) - 1
    at = place_of(places, key)
    while places[at] >= 0:
        if keys(memory)[places[at]] == key:
            return int(places[at])
        at = (at + 1) & mask
    number = memory.free_key
    memory.free_key = keys(memory)[number]
    memory.live_keys += 1
    keys(memory)[number] = key
    places[at] = number
    return int(number)


@kernel
def release_key(memory: Memory, number: int) -> None:
    """Forget a key that has no tuple left (the hash table closes its gap)."""
    places = table(memory)
    mask = len(places) - 1
    at = place_of(places, keys(memory)[number])
    while places[at] != number:
        at = (at + 1) & mask
    hole = at
    places[hole] = -1
    at = (at + 1) & mask
    while places[at] >= 0:
        home = place_of(places, keys(memory)[places[at]])
        if ((at - home) & mask) >= ((at - hole) & mask):
            places[hole] = places[at]
            places[at] = -1
            hole = at
        at = (at + 1) & mask
    keys(memory)[number] = memory.free_key
    memory.free_key = number
    memory.live_keys -= 1


@kernel
def key_is_idle(memory: Memory, number: int) -> bool:
    """Whether no stream holds a tuple with this key."""
    for stream in range(memory.streams):
        if groups(memory)[number * memory.streams + stream].members > 0:
            return False
    return True


@kernel
def link(memory: Memory, stream: int, number: int, time: int, row: int, expiry: int) -> int:
    """Put a tuple into a free slot and into its chains; the slot."""
    slot = memory.free
    memory.free = slots(memory)[slot].after
    memory.live += 1
    lanes(memory)[stream].held += 1
    slots(memory)[slot].time = time
    slots(memory)[slot].row = row
    slots(memory)[slot].expiry = expiry
    slots(memory)[slot].stream = stream
    slots(memory)[slot].key_of = number

    group = number * memory.streams + stream
    left = groups(memory)[group].tail
    while left >= 0 and slots(memory)[left].time > time:
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
    slots(memory)[slot].place = -1
    if last < 0:
        lanes(memory)[stream].oldest = slot
        lanes(memory)[stream].ceiling = expiry
    else:
        slots(memory)[last].newer = slot
        if expiry < lanes(memory)[stream].ceiling:
            _push_straggler(memory, slot)
        else:
            lanes(memory)[stream].ceiling = expiry
    return int(slot)


@kernel
def unlink(memory: Memory, slot: int) -> None:
    """Take a tuple out of its chains and free its slot. Its key number stays; see `release_key`."""
    stream = slots(memory)[slot].stream
    group = slots(memory)[slot].key_of * memory.streams + stream
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
    if slots(memory)[slot].place >= 0:
        _drop_straggler(memory, slot)
    slots(memory)[slot].after = memory.free
    memory.free = slot
    memory.live -= 1
    lanes(memory)[stream].held -= 1


@kernel
def next_expired(memory: Memory, horizon: int) -> int:
    """A slot whose window has passed, -1 if there is none."""
    if memory.n_stragglers > 0 and slots(memory)[stragglers(memory)[0]].expiry <= horizon:
        return int(stragglers(memory)[0])
    for stream in range(memory.streams):
        slot = lanes(memory)[stream].oldest
        if slot >= 0:
            bound = lanes(memory)[stream].arrivals if lanes(memory)[stream].in_rows else horizon
            if slots(memory)[slot].expiry <= bound:
                return int(slot)
    return -1


@kernel
def horizon_of(memory: Memory) -> int:
    """The time up to which the promise of order holds (design 2, order and expiry)."""
    if not memory.by_stream:
        return int(memory.now)
    horizon = NEVER
    for stream in range(memory.streams):
        if lanes(memory)[stream].seen == -NEVER:
            return -NEVER
        horizon = min(horizon, lanes(memory)[stream].seen - lanes(memory)[stream].lateness)
    return horizon


@routine
def live_slots(memory: Memory) -> Ints:
    """The slots of all retained tuples, stream by stream in order of arrival."""
    found = np.empty(memory.live, dtype=np.int64)
    at = 0
    for stream in range(len(lanes(memory))):
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
        number = claim_key(memory, key[at])
        found[at] = link(memory, stream[at], number, time[at], row[at], expiry[at])
    return found


# Stragglers: a binary heap of slots by expiry, with the position of each slot in `place`.


@kernel
def _settle(memory: Memory, at: int, slot: int) -> None:
    stragglers(memory)[at] = slot
    slots(memory)[slot].place = at


@kernel
def _rise(memory: Memory, at: int, slot: int) -> int:
    while at > 0:
        above = (at - 1) >> 1
        other = stragglers(memory)[above]
        if slots(memory)[other].expiry <= slots(memory)[slot].expiry:
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
    at = slots(memory)[slot].place
    slots(memory)[slot].place = -1
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
        if below + 1 < size and slots(memory)[stragglers(memory)[below + 1]].expiry < slots(memory)[stragglers(memory)[below]].expiry:
            below += 1
        other = stragglers(memory)[below]
        if slots(memory)[other].expiry >= slots(memory)[moved].expiry:
            break
        _settle(memory, at, other)
        at = below
        memory.steps += 1
    _settle(memory, at, moved)
