"""elife: the price of a slot, observed at the margin (docs/decisions/0004).

After each shedding, the tuple that would leave next shows what the last slot of its pool is worth per tick. A running mean of that is the
*slot price*; it is put into use now and then, so that scores do not change in between.
"""

from __future__ import annotations

from penstock.core.compiled import kernel
from penstock.core.rounding import rounded
from penstock.core.window import NEVER
from penstock.engine.compiled.moves import victim
from penstock.engine.compiled.order.ranking import full_price_of, group_of
from penstock.engine.compiled.order.tournament import rebuild
from penstock.engine.compiled.state import Memory, lanes, slot_prices

MEMORY, PERIOD = 2, 32
"""The mean remembers half a window; the slot price changes every 32nd of a window."""


@kernel
def unit(memory: Memory) -> float:
    """How many of the prices' own units make one: decayed counts grow with the clock."""
    if memory.half_life == 0.0:
        return 1.0
    return float(2.0 ** (((memory.now - memory.origin) / memory.half_life - memory.moved) * (memory.streams - 1)))


@kernel
def renew_slot_price(memory: Memory, which: int) -> None:
    """Before scoring in an instant that will shed from a pool: put the mean into use, if it is time. The first window only observes."""
    slot_price = slot_prices(memory)[which]
    clock = lanes(memory)[slot_price.leader].clock
    window = lanes(memory)[slot_price.leader].length
    if slot_price.first == -NEVER or clock - slot_price.first < window:
        return
    if slot_price.changed != -NEVER and clock - slot_price.changed < window / PERIOD:
        return
    slot_price.used = rounded(slot_price.margin * unit(memory))
    slot_price.changed = clock
    rebuild(memory)


@kernel
def observe(memory: Memory, which: int) -> None:
    """After shedding from a pool: take the price of the tuple that would leave next into the mean."""
    slot = victim(memory, which)
    if slot < 0:
        return
    price = full_price_of(memory, group_of(memory, slot)) / unit(memory)
    slot_price = slot_prices(memory)[which]
    clock = lanes(memory)[slot_price.leader].clock
    if slot_price.first == -NEVER:
        slot_price.first = clock
        slot_price.margin = price
    else:
        passed = clock - slot_price.last
        slot_price.margin += (price - slot_price.margin) * passed / (lanes(memory)[slot_price.leader].length / MEMORY + passed)
    slot_price.last = clock
