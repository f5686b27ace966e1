"""`dgl`, step 3: what finds a match gains, the rest loses. Scores above zero fall by a common offset, the others are at the floor."""

from __future__ import annotations

import numpy as np

from penstock.core.compiled import inlined, kernel
from penstock.engine.compiled.batch_columns import BatchColumns
from penstock.engine.compiled.heaps import heap_insert, heap_remove, set_root, with_one_more
from penstock.engine.compiled.memory import in_ring
from penstock.engine.compiled.ranking import remaining
from penstock.engine.compiled.state import Memory, fresh, groups, holders, lanes, ranks, slots
from penstock.engine.compiled.tournament import promote
from penstock.engine.compiled.tree import root_at


@kernel
def gain_and_lose(memory: Memory, batch: BatchColumns, begin: int, end: int, first_row: int) -> None:
    """`dgl`, step 3: what found a match in this instant gains, the rest loses beta."""
    streams = memory.streams
    seen = memory.n_input
    for at in range(begin, end):
        memory.importance_seen += batch.importance[at]
    for stream in range(streams):
        beta = memory.beta
        if np.isnan(beta):
            beta = memory.importance_seen / seen / lanes(memory)[stream].length
        old_offset = lanes(memory)[stream].offset
        lanes(memory)[stream].offset += beta
        for at in range(begin, end):
            arrival = slots(memory)[fresh(memory)[at - begin]].group
            if batch.stream[at] != stream:
                group = in_ring(memory, arrival, stream)
                if group >= 0:
                    gain(memory, group, first_row, old_offset)
    for at in range(begin, end):
        arrival = slots(memory)[fresh(memory)[at - begin]].group
        group = arrival
        while True:
            groups(memory)[group].gained = 0
            group = groups(memory)[group].kin
            if group == arrival:
                break
    for stream in range(streams):
        if lanes(memory)[stream].leads:
            sink(memory, stream)


@kernel
def gain(memory: Memory, group: int, first_row: int, old_offset: float) -> None:
    """Raise the older tuples of a class, which have just found matching arrivals."""
    if groups(memory)[group].gained:
        return
    groups(memory)[group].gained = 1
    above = -1
    floor = -1
    stream = int(groups(memory)[group].stream)
    offset = lanes(memory)[stream].offset
    alpha = lanes(memory)[stream].length if np.isnan(memory.alpha) else memory.alpha
    slot = groups(memory)[group].head
    while slot >= 0:
        if slots(memory)[slot].row < first_row:
            score = 0.0 if slots(memory)[slot].ground else ranks(memory)[slot].score - old_offset
            score += ranks(memory)[slot].importance * groups(memory)[group].price * remaining(memory, slot) / alpha
            place_by_score(memory, slot, score, offset)
            if slots(memory)[slot].ground:
                floor = with_one_more(memory, floor, slot)
            else:
                above = with_one_more(memory, above, slot)
            memory.gains += 1
        slot = slots(memory)[slot].after
    set_root(memory, 0, group, above)
    set_root(memory, 1, group, floor)
    promote(memory, 0, group)
    promote(memory, 1, group)


@inlined
def place_by_score(memory: Memory, slot: int, score: float, offset: float) -> None:
    """Note a `dgl` score: at the floor, or above it relative to the common offset."""
    slots(memory)[slot].ground = 0 if score > 0 else 1
    ranks(memory)[slot].score = score + offset if score > 0 else 0.0


@kernel
def sink(memory: Memory, stream: int) -> None:
    """Move the tuples of a tournament, that of `stream`, whose score has fallen to zero to the floor."""
    root = root_at(memory, 0, lanes(memory)[stream].tree)
    while holders(memory)[root] >= 0:
        group = holders(memory)[root]
        slot = groups(memory)[group].top
        if ranks(memory)[slot].score > lanes(memory)[stream].offset:
            return
        heap_remove(memory, 0, group, slot)
        promote(memory, 0, group)
        place_by_score(memory, slot, 0.0, 0.0)
        heap_insert(memory, 1, group, slot)
        promote(memory, 1, group)
