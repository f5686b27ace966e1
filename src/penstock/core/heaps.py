"""The order inside a class: a pairing heap by (score, importance, time, row), threaded through the slots.

Fredman, Sedgewick, Sleator and Tarjan 1986: insertion in O(1), removal in O(log n) amortised, no memory beside three links per tuple.
"""

from __future__ import annotations

from penstock.core.compiled import kernel
from penstock.core.ranking import root_of
from penstock.core.state import Memory, groups, losses, ranks, slots


@kernel
def set_root(memory: Memory, level: int, group: int, slot: int) -> None:
    """Change the root of a class's heap."""
    if level:
        losses(memory)[group].floor = slot
    else:
        groups(memory)[group].top = slot


@kernel
def heap_insert(memory: Memory, level: int, group: int, slot: int) -> None:
    """Put a tuple into the heap of its class."""
    ranks(memory)[slot].child = -1
    ranks(memory)[slot].sibling = -1
    ranks(memory)[slot].parent = -1
    root = root_of(memory, level, group)
    set_root(memory, level, group, slot if root < 0 else _meld(memory, root, slot))


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


@kernel
def _sooner(memory: Memory, u: int, v: int) -> bool:
    if ranks(memory)[u].score != ranks(memory)[v].score:
        return bool(ranks(memory)[u].score < ranks(memory)[v].score)
    if memory.tied and ranks(memory)[u].importance != ranks(memory)[v].importance:
        return bool(ranks(memory)[u].importance < ranks(memory)[v].importance)
    if slots(memory)[u].time != slots(memory)[v].time:
        return bool(slots(memory)[u].time < slots(memory)[v].time)
    return bool(slots(memory)[u].row < slots(memory)[v].row)


@kernel
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
