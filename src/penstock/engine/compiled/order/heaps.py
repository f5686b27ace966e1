"""The order inside a class by (score, importance, time, row): a run as long as that is the order of arrival, then a pairing heap.

A *run* is the beginning of the class chain (memory.py), up to `top`; what follows in the chain has not been scored yet. The first
tuple that comes out of order turns it into a heap, until the class is empty.

Pairing heaps (Fredman, Sedgewick, Sleator and Tarjan 1986): insertion in O(1), removal in O(log n) amortised, no memory beside three
links per tuple.
"""

from __future__ import annotations

from penstock.core.compiled import inlined, kernel
from penstock.engine.compiled.order.ranking import GAIN_LOSS, sum_of
from penstock.engine.compiled.state import Memory, floors, groups, ranks, slots
from penstock.engine.units import below


@inlined
def join_class(memory: Memory, level: int, group: int, slot: int) -> None:
    """Take a scored tuple into the order of its class."""
    if not groups(memory)[group].heaped and memory.kind < GAIN_LOSS:
        last = groups(memory)[group].top
        if slots(memory)[slot].before == last and (last < 0 or not _sooner(memory, slot, last)):
            groups(memory)[group].top = slot
            return
        make_heap(memory, group)
    heap_insert(memory, level, group, slot)


@inlined
def leave_class(memory: Memory, level: int, group: int, slot: int) -> None:
    """Take a tuple out of the order of its class, before it is unlinked."""
    if groups(memory)[group].heaped or memory.kind == GAIN_LOSS:
        heap_remove(memory, level, group, slot)
    elif groups(memory)[group].top == slot:
        groups(memory)[group].top = slots(memory)[slot].before


@kernel
def make_heap(memory: Memory, group: int) -> None:
    """Turn the run of a class into a heap; `dgl` has no runs."""
    if groups(memory)[group].heaped or memory.kind == GAIN_LOSS:
        return
    last = groups(memory)[group].top
    slot = groups(memory)[group].head
    groups(memory)[group].heaped = 1
    groups(memory)[group].top = -1
    while last >= 0:
        heap_insert(memory, 0, group, slot)
        if slot == last:
            return
        slot = slots(memory)[slot].after


@kernel
def order_class(memory: Memory, group: int) -> None:
    """Order a class anew whose tuples have all been scored: as a run if they are one."""
    slot = groups(memory)[group].head
    groups(memory)[group].top = groups(memory)[group].tail
    while slots(memory)[slot].after >= 0:
        following = slots(memory)[slot].after
        if _sooner(memory, following, slot):
            make_heap(memory, group)
            return
        slot = following


@inlined
def root_of(memory: Memory, level: int, group: int) -> int:
    """The root of a class's heap: of the tuples above zero (level 0) or of those at the floor (level 1)."""
    return int(floors(memory)[group] if level else groups(memory)[group].top)


@kernel
def set_root(memory: Memory, level: int, group: int, slot: int) -> None:
    """Change the root of a class's heap."""
    if level:
        floors(memory)[group] = slot
    else:
        groups(memory)[group].top = slot


@kernel
def heap_insert(memory: Memory, level: int, group: int, slot: int) -> None:
    """Put a tuple into the heap of its class."""
    set_root(memory, level, group, with_one_more(memory, root_of(memory, level, group), slot))


@inlined
def with_one_more(memory: Memory, root: int, slot: int) -> int:
    """The root of a heap after a tuple has come in; `root` is -1 if it was empty."""
    ranks(memory)[slot].child = -1
    ranks(memory)[slot].sibling = -1
    ranks(memory)[slot].parent = -1
    return slot if root < 0 else _meld(memory, root, slot)


@kernel
def heap_remove(memory: Memory, level: int, group: int, slot: int) -> None:
    """Take a tuple out of the heap of its class."""
    root = root_of(memory, level, group)
    if root == slot:
        set_root(memory, level, group, _meld_children(memory, slot))
        return
    above = ranks(memory)[slot].parent
    following = ranks(memory)[slot].sibling
    if ranks(memory)[above].child == slot:
        ranks(memory)[above].child = following
    else:
        ranks(memory)[above].sibling = following
    if following >= 0:
        ranks(memory)[following].parent = above
    ranks(memory)[slot].sibling = -1
    rest = _meld_children(memory, slot)
    if rest >= 0:
        set_root(memory, level, group, _meld(memory, root, rest))


@inlined
def _sooner(memory: Memory, u: int, v: int) -> bool:
    if ranks(memory)[u].score != ranks(memory)[v].score:
        return bool(ranks(memory)[u].score < ranks(memory)[v].score)
    if memory.kind == GAIN_LOSS and not slots(memory)[u].ground:
        s, t = sum_of(memory, u), sum_of(memory, v)
        if s != t:
            return below(s, t)
    if memory.tied and ranks(memory)[u].importance != ranks(memory)[v].importance:
        return bool(ranks(memory)[u].importance < ranks(memory)[v].importance)
    if slots(memory)[u].time != slots(memory)[v].time:
        return bool(slots(memory)[u].time < slots(memory)[v].time)
    return bool(slots(memory)[u].row < slots(memory)[v].row)


@inlined
def _meld(memory: Memory, u: int, v: int) -> int:
    memory.steps += 1
    if _sooner(memory, v, u):
        u, v = v, u
    kid = ranks(memory)[u].child
    ranks(memory)[v].sibling = kid
    if kid >= 0:
        ranks(memory)[kid].parent = v
    ranks(memory)[u].child = v
    ranks(memory)[v].parent = u
    return u


@kernel
def _meld_children(memory: Memory, slot: int) -> int:
    """The two-pass merge of the children of `slot`."""
    kid = ranks(memory)[slot].child
    ranks(memory)[slot].child = -1
    paired = -1
    while kid >= 0:
        mate = ranks(memory)[kid].sibling
        if mate < 0:
            ranks(memory)[kid].sibling = paired
            paired = kid
            break
        following = ranks(memory)[mate].sibling
        root = _meld(memory, kid, mate)
        ranks(memory)[root].sibling = paired
        paired = root
        kid = following
    root = -1
    while paired >= 0:
        following = ranks(memory)[paired].sibling
        ranks(memory)[paired].sibling = -1
        ranks(memory)[paired].parent = -1
        root = paired if root < 0 else _meld(memory, root, paired)
        paired = following
    return root
