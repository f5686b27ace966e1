"""A tuple enters, a tuple leaves, and which one must: the steps between memory and ranking."""

from __future__ import annotations

from penstock.core.compiled import inlined, kernel
from penstock.core.trace import Ints
from penstock.engine.compiled.chances import rest
from penstock.engine.compiled.class_prices import spoil, spoil_partners
from penstock.engine.compiled.facts.fact_counts import part_through
from penstock.engine.compiled.linked.partners import part_from_all
from penstock.engine.compiled.memory import release_class, unlink
from penstock.engine.compiled.order.heaps import heap_insert, join_class, leave_class, order_class
from penstock.engine.compiled.order.ranking import (
    ARRIVAL,
    CHANCES,
    DRAW,
    GAIN_LOSS,
    PATTERNS,
    PRICE,
    SCORE,
    TUPLES,
    ahead,
    first,
    group_of,
    is_counted,
)
from penstock.engine.compiled.order.tournament import lowest, promote
from penstock.engine.compiled.state import (
    Memory,
    bands,
    draws,
    groups,
    ladder,
    lanes,
    marks,
    pools,
    slots,
    strands,
    touch_cell,
    touch_group,
    touch_key,
    touch_rank,
    touch_slot,
    touch_strand,
    waiting,
    weights,
)


@inlined
def enter(memory: Memory, slot: int) -> None:
    """Let a linked and scored arrival compete."""
    kind = memory.kind
    stream = int(slots(memory)[slot].stream)
    group = slots(memory)[slot].group
    if kind == DRAW:
        at = lanes(memory)[stream].drawable
        lanes(memory)[stream].drawable += 1
        draws(memory)[stream * memory.slots_size + at] = slot
        marks(memory)[slot] = at
    elif kind >= SCORE:
        level = 1 if kind == GAIN_LOSS and slots(memory)[slot].ground else 0
        join_class(memory, level, group, slot)
        if first(memory, level, group) == slot:
            promote(memory, level, group)
    elif memory.banded:
        climb_ladder(memory, slot)
        if first(memory, 0, group_of(memory, slot)) == slot:
            promote(memory, 0, group_of(memory, slot))
    elif kind >= PRICE and groups(memory)[group].head == slot:
        promote(memory, 0, group)


@inlined
def climb_ladder(memory: Memory, slot: int) -> None:
    """Put a tuple into the chain of its band, by time; `ep` has the finished in the order in which they finished."""
    band = group_of(memory, slot)
    left = bands(memory)[band].tail
    while left >= 0 and _is_behind(memory, left, slot):
        left = ladder(memory)[left].before
        memory.steps += 1
    right = bands(memory)[band].head if left < 0 else ladder(memory)[left].after
    ladder(memory)[slot].before = left
    ladder(memory)[slot].after = right
    if left < 0:
        bands(memory)[band].head = slot
        if not memory.ranked:
            lanes(memory)[bands(memory)[band].stream].patterns |= 1 << (band & (memory.patterns - 1))
    else:
        ladder(memory)[left].after = slot
    if right < 0:
        bands(memory)[band].tail = slot
    else:
        ladder(memory)[right].before = slot


@inlined
def _is_behind(memory: Memory, left: int, slot: int) -> bool:
    """Whether `left`, in the chain of a band already, belongs behind `slot`."""
    if memory.prices == PATTERNS and marks(memory)[left] != marks(memory)[slot]:
        return bool(marks(memory)[left] > marks(memory)[slot])
    return bool(slots(memory)[left].time > slots(memory)[slot].time)


@inlined
def leave_ladder(memory: Memory, slot: int) -> None:
    """Take a tuple out of the chain of its band."""
    band = group_of(memory, slot)
    left = ladder(memory)[slot].before
    right = ladder(memory)[slot].after
    if left < 0:
        bands(memory)[band].head = right
        if right < 0 and not memory.ranked:
            lanes(memory)[bands(memory)[band].stream].patterns &= ~(1 << (band & (memory.patterns - 1)))
    else:
        ladder(memory)[left].after = right
    if right < 0:
        bands(memory)[band].tail = left
    else:
        ladder(memory)[right].before = left


@kernel
def leave(memory: Memory, slot: int) -> None:
    """Remove a tuple that has entered, and its class with its last tuple."""
    kind = memory.kind
    _fetch_around(memory, slot)
    stream = int(slots(memory)[slot].stream)
    group = slots(memory)[slot].group
    pools(memory)[lanes(memory)[stream].pool] -= weights(memory)[slot] if memory.weighted else 1
    competes = group_of(memory, slot)
    changed = first(memory, 0, competes) == slot if memory.tournaments_held and PRICE <= kind < SCORE else False
    level = 0
    if kind == DRAW:
        base = stream * memory.slots_size
        lanes(memory)[stream].drawable -= 1
        moved = draws(memory)[base + lanes(memory)[stream].drawable]
        draws(memory)[base + marks(memory)[slot]] = moved
        marks(memory)[moved] = marks(memory)[slot]
    elif kind >= SCORE:
        level = 1 if kind == GAIN_LOSS and slots(memory)[slot].ground else 0
        changed = first(memory, level, group) == slot
        leave_class(memory, level, group, slot)
    elif memory.banded:
        leave_ladder(memory, slot)
    part_if_linked(memory, slot)
    unlink(memory, slot)
    if changed:
        promote(memory, level, competes)
    forget(memory, group)


@inlined
def part_if_linked(memory: Memory, slot: int) -> None:
    """Before a tuple is unlinked: take it out of the indexes, where there are any."""
    if memory.related:
        part_through(memory, slot)
    elif memory.indexed:
        part_from_all(memory, slot)


@inlined
def _fetch_around(memory: Memory, slot: int) -> None:
    """Ask for all that the removal of a tuple will look at, at once."""
    left = slots(memory)[slot]
    touch_group(memory, left.group)
    touch_slot(memory, left.older)
    touch_slot(memory, left.newer)
    touch_slot(memory, left.after)
    if memory.kind >= PRICE and not memory.banded:
        touch_key(memory, left.group)
    if memory.kind >= SCORE:
        touch_rank(memory, left.after)


@kernel
def fetch_next(memory: Memory) -> None:
    """Through relations: ask for what the tuples that may leave next will look at."""
    for stream in range(memory.streams):
        slot = int(lanes(memory)[stream].oldest)
        if memory.kind != ARRIVAL:
            if not memory.tournaments_held or not memory.ranked or not lanes(memory)[stream].leads:
                continue
            group = lowest(memory, 0, lanes(memory)[stream].pool)
            slot = first(memory, 0, group) if group >= 0 else -1
        if slot >= 0:
            touch_slot(memory, slots(memory)[slot].newer)
            touch_strand(memory, slots(memory)[slot].newer * memory.most_links)
            touch_group(memory, slots(memory)[slot].group)
            touch_cell(memory, strands(memory)[slot * memory.most_links].cell)


@inlined
def forget(memory: Memory, group: int) -> None:
    """A tuple of a class has gone: its partners have a match less, and an empty class is released."""
    if is_counted(memory):
        spoil_partners(memory, group)
        if memory.prices == TUPLES:
            spoil(memory, group)
    if groups(memory)[group].members == 0:
        if memory.prices == CHANCES:
            rest(memory, group)
        if memory.lasting and groups(memory)[group].kin == group and groups(memory)[group].price > 0:
            groups(memory)[group].bits = 0  # an empty class keeps what its key has made
        else:
            release_class(memory, group)


@kernel
def regroup(memory: Memory, linked: Ints) -> None:
    """Put tuples that were linked anew, with their scores, back into heaps, draws and the queue of stale prices."""
    kind = memory.kind
    for slot in linked:
        group = slots(memory)[slot].group
        if kind == DRAW:
            draws(memory)[int(slots(memory)[slot].stream) * memory.slots_size + marks(memory)[slot]] = slot
        elif kind == GAIN_LOSS:
            heap_insert(memory, int(slots(memory)[slot].ground), group, slot)
        elif kind >= SCORE and slots(memory)[slot].before < 0:
            order_class(memory, group)
        elif memory.banded:
            climb_ladder(memory, slot)
        if is_counted(memory):
            spoil(memory, group)


# The victim.


@kernel
def victim(memory: Memory, which: int) -> int:
    """The tuple of a pool that leaves first, -1 if nobody competes."""
    kind = memory.kind
    if kind == DRAW:
        return _drawn_victim(memory, which)
    if kind == ARRIVAL:
        best = -1
        for stream in range(memory.streams):
            slot = lanes(memory)[stream].oldest
            if lanes(memory)[stream].pool == which and slot >= 0 and (best < 0 or _arrived_before(memory, slot, best)):
                best = slot
        return int(best)
    size = memory.groups_size
    for level in range(1 if kind == GAIN_LOSS else 0, -1, -1):
        best = lowest(memory, level, which)
        for at in range(memory.n_waiting):
            group = waiting(memory)[at] - level * size
            if 0 <= group < size and groups(memory)[group].members > 0:
                if lanes(memory)[groups(memory)[group].stream].pool == which and first(memory, level, group) >= 0:
                    if best < 0 or ahead(memory, level, group, best):
                        best = group
        if best >= 0:
            return first(memory, level, best)
    return -1


@kernel
def _arrived_before(memory: Memory, u: int, v: int) -> bool:
    if marks(memory)[u] != marks(memory)[v]:
        return bool(marks(memory)[u] < marks(memory)[v])
    if slots(memory)[u].stream != slots(memory)[v].stream:
        return bool(slots(memory)[u].stream < slots(memory)[v].stream)
    return bool(slots(memory)[u].row < slots(memory)[v].row)


@kernel
def draw_number(memory: Memory, below: int) -> int:
    """A random whole number in [0, below), by two combined multiplicative generators (L'Ecuyer 1988)."""
    number = 0
    for _ in range(2):
        memory.random1 = memory.random1 * 40014 % 2147483563
        memory.random2 = memory.random2 * 40692 % 2147483399
        number = number * 2147483562 + (memory.random1 - memory.random2) % 2147483562
    return int(number % below)


@kernel
def _drawn_victim(memory: Memory, which: int) -> int:
    total = 0
    for stream in range(memory.streams):
        if lanes(memory)[stream].pool == which:
            total += lanes(memory)[stream].drawable
    if total == 0:
        return -1
    at = draw_number(memory, total)
    memory.steps += 1
    stream = 0
    while lanes(memory)[stream].pool != which or at >= lanes(memory)[stream].drawable:
        if lanes(memory)[stream].pool == which:
            at -= lanes(memory)[stream].drawable
        stream += 1
    return int(draws(memory)[stream * memory.slots_size + at])
