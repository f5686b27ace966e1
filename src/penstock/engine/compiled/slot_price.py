"""elife: the price of a slot, observed at the margin (docs/decisions/0004).

After each shedding, the tuple that would leave next shows what the last slot of its pool is worth per tick. A running mean of that is the
*toll*; it is put into use now and then, so that scores do not change in between.
"""

from __future__ import annotations

from penstock.core.compiled import kernel
from penstock.core.rounding import rounded
from penstock.core.window import NEVER
from penstock.engine.compiled.moves import victim
from penstock.engine.compiled.order.ranking import full_price_of, group_of
from penstock.engine.compiled.order.tournament import rebuild
from penstock.engine.compiled.state import Memory, lanes, tolls

MEMORY, PERIOD = 2, 32
"""The mean remembers half a window; the toll changes every 32nd of a window."""


@kernel
def unit(memory: Memory) -> float:
    """How many of the prices' own units make one: decayed counts grow with the clock."""
    if memory.half_life == 0.0:
        return 1.0
    return float(2.0 ** (((memory.now - memory.origin) / memory.half_life - memory.moved) * (memory.streams - 1)))


@kernel
def use_toll(memory: Memory, which: int) -> None:
    """Before scoring in an instant that will shed from a pool: put the mean into use, if it is time. The first window only observes."""
    toll = tolls(memory)[which]
    clock = lanes(memory)[toll.leader].clock
    window = lanes(memory)[toll.leader].length
    if toll.first == -NEVER or clock - toll.first < window:
        return
    if toll.changed != -NEVER and clock - toll.changed < window / PERIOD:
        return
    toll.used = rounded(toll.margin * unit(memory))
    toll.changed = clock
    rebuild(memory)


@kernel
def observe(memory: Memory, which: int) -> None:
    """After shedding from a pool: take the price of the tuple that would leave next into the mean."""
    slot = victim(memory, which)
    if slot < 0:
        return
    price = full_price_of(memory, group_of(memory, slot)) / unit(memory)
    toll = tolls(memory)[which]
    clock = lanes(memory)[toll.leader].clock
    if toll.first == -NEVER:
        toll.first = clock
        toll.margin = price
    else:
        passed = clock - toll.last
        toll.margin += (price - toll.margin) * passed / (lanes(memory)[toll.leader].length / MEMORY + passed)
    toll.last = clock
