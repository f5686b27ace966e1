"""Windows of the last rows of each key where partners are found by links: a tuple is a class of its own, and so has its own clock.

It counts the rows of its stream and key that have followed the tuple. So a row costs as many steps as tuples of its key are in memory,
which are never more than the window has rows.
"""

from __future__ import annotations

from penstock.core.compiled import kernel
from penstock.engine.compiled.key_clocks import leaves_at
from penstock.engine.compiled.linked.links import twins
from penstock.engine.compiled.order.ranking import LIFE
from penstock.engine.compiled.order.tournament import promote
from penstock.engine.compiled.state import Memory, found, slots, tallies


@kernel
def follow(memory: Memory, pick: int, stream: int, since: int) -> int:
    """A row, the `pick`, follows the tuples of its key that came with row `since` or later; the tuple that is outside with that, or -1."""
    outside = -1
    for at in range(twins(memory, pick, stream, found(memory))):
        slot = found(memory)[at]
        if slots(memory)[slot].row >= since:
            tallies(memory)[slots(memory)[slot].group].arrivals += 1
            if leaves_at(memory, slot) <= 0:
                outside = int(slot)
            elif memory.kind == LIFE and slots(memory)[slot].row < memory.first_row:
                promote(memory, 0, slots(memory)[slot].group)  # one row less to live
    return outside
