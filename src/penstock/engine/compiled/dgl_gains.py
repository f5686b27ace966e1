"""`dgl`, step 3: what finds a match gains, the rest loses. Scores above zero fall by a common offset, the others are at the floor.

A tuple above the floor keeps its score and what all have lost so far in one sum, in whole units (units.py), so that no score is rounded.
"""

from __future__ import annotations

import numpy as np

from penstock.core.compiled import inlined, kernel
from penstock.core.rounding import mean_of_sum, raise_sum
from penstock.engine.compiled.batch_columns import BatchColumns
from penstock.engine.compiled.facts.prefilter import is_filtered
from penstock.engine.compiled.memory import in_ring
from penstock.engine.compiled.order.heaps import heap_insert, heap_remove, set_root, with_one_more
from penstock.engine.compiled.order.ranking import FROM_IMPORTANCE, full_price_of, lost_in, remaining, sum_of
from penstock.engine.compiled.order.tournament import promote, rebuild
from penstock.engine.compiled.order.tree import root_at
from penstock.engine.compiled.state import Memory, accesses, fresh, groups, holders, lanes, raised, ranks, slots, sums
from penstock.engine.units import Whole, add, below, number_of, take, whole, within

_FAR = 1 << 61  # the highest part of what all have lost: a score and a loss more have room above it


@kernel
def gain_and_lose(memory: Memory, batch: BatchColumns, begin: int, end: int, first_row: int) -> None:
    """`dgl`, step 3: what found a match in this instant gains, the rest loses beta."""
    streams = memory.streams
    for at in range(begin, end):
        if is_filtered(memory, batch, at):
            continue
        high, low = raise_sum(memory.importance_seen, memory.importance_rest, batch.importance[at])
        memory.importance_seen = high
        memory.importance_rest = low
    beta = memory.beta
    if np.isnan(beta):
        beta = mean_of_sum(memory.importance_seen, memory.importance_rest, float(memory.n_input - memory.n_filtered))
    for stream in range(streams):
        if lanes(memory)[stream].lost_high >= _FAR:
            _start_again(memory)
    for stream in range(streams):  # all streams lose before anybody gains: they may be in one tournament
        _set_lost(memory, stream, add(lost_in(memory, stream), whole(beta * lanes(memory)[stream].loss)))
    if memory.indexed:
        _gain_by_links(memory, batch, begin, end, first_row, beta)
    else:
        _gain_by_key(memory, batch, begin, end, first_row, beta)
    for stream in range(streams):
        if lanes(memory)[stream].leads:
            sink(memory, stream)


@kernel
def _gain_by_key(memory: Memory, batch: BatchColumns, begin: int, end: int, first_row: int, beta: float) -> None:
    found = False
    for stream in range(memory.streams):
        for at in range(begin, end):
            arrival = slots(memory)[fresh(memory)[at - begin]].group
            if batch.stream[at] != stream:
                group = in_ring(memory, arrival, stream)
                if group >= 0 and not groups(memory)[group].gained:
                    found = True
                    groups(memory)[group].gained = 1
                    gain(memory, group, first_row, beta)
    for at in range(begin, end if found else begin):
        arrival = slots(memory)[fresh(memory)[at - begin]].group
        group = arrival
        while True:
            groups(memory)[group].gained = 0
            group = groups(memory)[group].kin
            if group == arrival:
                break


@kernel
def _gain_by_links(memory: Memory, batch: BatchColumns, begin: int, end: int, first_row: int, beta: float) -> None:
    """The join has noted whom the arrivals match (linked/partners.py). Those of a stream that nothing links match all of another."""
    for at in range(memory.n_raised):
        gain(memory, slots(memory)[raised(memory)[at]].group, first_row, beta)
    for stream in range(memory.streams if memory.massed else 0):
        free = False
        for at in range(begin, end):
            other = batch.stream[at]
            there = batch.key[at] >= 0 and not is_filtered(memory, batch, at)
            free |= there and other != stream and accesses(memory)[stream * memory.streams + other].index < 0
        slot = lanes(memory)[stream].oldest if free else -1
        while slot >= 0:
            group = slots(memory)[slot].group
            if groups(memory)[group].key >= 0 and not groups(memory)[group].gained and slots(memory)[slot].row < first_row:
                gain(memory, group, first_row, beta)
            slot = slots(memory)[slot].newer
    for at in range(memory.n_raised):
        groups(memory)[slots(memory)[raised(memory)[at]].group].gained = 0
    memory.n_raised = 0


@kernel
def gain(memory: Memory, group: int, first_row: int, beta: float) -> None:
    """Raise the older tuples of a class, which have just found matching arrivals, and give back what all have lost in this instant."""
    above = -1
    floor = -1
    stream = int(groups(memory)[group].stream)
    lost = lost_in(memory, stream)
    loss = whole(beta * lanes(memory)[stream].loss)
    factor = lanes(memory)[stream].gain
    price = full_price_of(memory, group)
    slot = groups(memory)[group].head
    while slot >= 0:
        if slots(memory)[slot].row < first_row:
            gained = whole(ranks(memory)[slot].importance * (price * remaining(memory, slot) * factor))
            before = lost if slots(memory)[slot].ground else add(sum_of(memory, slot), loss)
            _place(memory, slot, add(before, gained), lost)
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
def begin_to_lose(memory: Memory, slot: int) -> None:
    """Give an arrival its first score."""
    factor = memory.unit_score
    importance = ranks(memory)[slot].score  # as it was given (play.py)
    if memory.first_score != FROM_IMPORTANCE:
        importance = ranks(memory)[slot].importance
        factor *= full_price_of(memory, slots(memory)[slot].group)
    lost = lost_in(memory, slots(memory)[slot].stream)
    _place(memory, slot, add(lost, whole(importance * factor)), lost)


@inlined
def _place(memory: Memory, slot: int, total: Whole, lost: Whole) -> None:
    """Note the sum of a score and of what all have lost: above the floor, or at it."""
    total = within(total, lost)
    above = below(lost, total)
    slots(memory)[slot].ground = 0 if above else 1
    _set_sum(memory, slot, total if above else (0, 0, 0))


@inlined
def _set_sum(memory: Memory, slot: int, total: Whole) -> None:
    sums(memory)[slot].high = total[0]
    sums(memory)[slot].mid = total[1]
    sums(memory)[slot].low = total[2]
    ranks(memory)[slot].score = number_of(total)


@inlined
def _set_lost(memory: Memory, stream: int, lost: Whole) -> None:
    lanes(memory)[stream].lost_high = lost[0]
    lanes(memory)[stream].lost_mid = lost[1]
    lanes(memory)[stream].lost_low = lost[2]


@kernel
def sink(memory: Memory, stream: int) -> None:
    """Move the tuples of a tournament, that of `stream`, whose score has fallen to zero to the floor."""
    root = root_at(memory, 0, lanes(memory)[stream].tree)
    lost = lost_in(memory, stream)
    while holders(memory)[root] >= 0:
        group = holders(memory)[root]
        slot = groups(memory)[group].top
        if below(lost, sum_of(memory, slot)):
            return
        heap_remove(memory, 0, group, slot)
        promote(memory, 0, group)
        _place(memory, slot, lost, lost)
        heap_insert(memory, 1, group, slot)
        promote(memory, 1, group)


@kernel
def _start_again(memory: Memory) -> None:
    """Take what all have lost out of all sums, before there is no more room: no score changes, nor their order."""
    for stream in range(memory.streams):
        lost = lost_in(memory, stream)
        slot = lanes(memory)[stream].oldest
        while slot >= 0:
            if not slots(memory)[slot].ground:
                _set_sum(memory, slot, take(sum_of(memory, slot), lost))
            slot = slots(memory)[slot].newer
        _set_lost(memory, stream, (0, 0, 0))
    rebuild(memory)
