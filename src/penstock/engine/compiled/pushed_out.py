"""Step 1 for windows of the last rows of each key: the arrivals of an instant let those go that enough rows have followed."""

from __future__ import annotations

from penstock.core.compiled import kernel
from penstock.core.window import DEAD, NEVER
from penstock.engine.compiled.batch_columns import BatchColumns
from penstock.engine.compiled.key_clocks import PER_KEY, leaves_at
from penstock.engine.compiled.linked.followers import follow
from penstock.engine.compiled.linked.links import show
from penstock.engine.compiled.logs import Logs
from penstock.engine.compiled.memory import find_ring, in_ring
from penstock.engine.compiled.moves import leave
from penstock.engine.compiled.order.ranking import LIFE
from penstock.engine.compiled.order.tournament import promote
from penstock.engine.compiled.state import Memory, groups, lanes, slots, tallies


@kernel
def push_out(memory: Memory, batch: BatchColumns, begin: int, end: int, logs: Logs) -> None:
    """Count the arrivals of an instant in the classes that are there, and drop what they push out."""
    if memory.indexed:
        show(memory, batch.values, begin, end)
    for at in range(begin, end):
        stream = batch.stream[at]
        if lanes(memory)[stream].in_rows != PER_KEY or batch.expiry[at] == DEAD:
            continue
        if memory.indexed:
            _let_go(memory, follow(memory, ~(at - begin), stream, -NEVER), logs)
            continue
        group = in_ring(memory, find_ring(memory, batch.key[at]), stream)
        if group < 0:
            continue
        tallies(memory)[group].arrivals += 1
        tallies(memory)[group].due += 1
        left = groups(memory)[group].members
        while left > 0 and leaves_at(memory, groups(memory)[group].head) <= 0:
            _let_go(memory, int(groups(memory)[group].head), logs)
            left -= 1
        if left > 0 and memory.kind == LIFE:  # one row less to live
            promote(memory, 0, group)


@kernel
def _let_go(memory: Memory, slot: int, logs: Logs) -> None:
    """Drop a tuple that is outside its window; -1 is nobody."""
    if slot < 0:
        return
    if logs.expired.shape[1] > 0:
        logs.expired[logs.lengths[2], 0] = slots(memory)[slot].row
        logs.expired[logs.lengths[2], 1] = memory.instant - 1
        logs.lengths[2] += 1
    memory.n_expired += 1
    leave(memory, slot)
