"""Arrivals that rank below all of their pool: they are turned away before they are stored, and shed in their turn.

An arrival does when the pool is full and its price is below the lowest there. Prices in memory can only rise before the shedding, so it
stays below. It must not be missed by the other arrivals of its instant, so nobody is turned away where two of these match.
"""

from __future__ import annotations

from penstock.core.compiled import inlined, kernel
from penstock.core.trace import Ints
from penstock.engine.compiled.batch_columns import BatchColumns
from penstock.engine.compiled.chances import chance_price
from penstock.engine.compiled.class_prices import is_hopeless, partner_rate
from penstock.engine.compiled.facts.fact_counts import price_through
from penstock.engine.compiled.facts.prefilter import is_filtered
from penstock.engine.compiled.linked.partners import price_by_links
from penstock.engine.compiled.order.ranking import CHANCES, GAIN_LOSS, compare_worth, full_price_of, group_of, life_left, remaining
from penstock.engine.compiled.order.tournament import hold, lowest
from penstock.engine.compiled.state import Memory, bands, fresh, lanes, offers, pools, slots


@kernel
def will_shed(memory: Memory, batch: BatchColumns, begin: int, end: int, which: int, cap: int) -> bool:
    """Whether the arrivals of an instant take a pool over its budget."""
    used = pools(memory)[which]
    for at in range(begin, end):
        stream = batch.stream[at]
        if lanes(memory)[stream].pool == which:
            stays = not lanes(memory)[stream].in_rows or batch.expiry[at] > lanes(memory)[stream].clock
            if stays and not is_filtered(memory, batch, at):
                used += batch.weight[at] if memory.weighted else 1
    return bool(used > cap)


@kernel
def hold_where_needed(memory: Memory, batch: BatchColumns, begin: int, end: int, caps: Ints, step: int) -> None:
    """Hold tournaments from the instant on in which a pool runs over, until all are half empty; `dgl` always needs them."""
    if not memory.ranked:
        return
    ample = memory.kind != GAIN_LOSS
    if memory.tournaments_held:
        for which in range(caps.shape[1]):
            ample &= 2 * pools(memory)[which] < caps[step, which]
        memory.tournaments_held = not ample
    if not memory.tournaments_held:
        for which in range(caps.shape[1]):
            ample &= not will_shed(memory, batch, begin, end, which, caps[step, which])
        if not ample:
            hold(memory)


@inlined
def is_turned_away(memory: Memory, batch: BatchColumns, begin: int, at: int, caps: Ints) -> bool:
    """Whether an arrival ranks below all of its pool, which is full; `caps` are the budgets of now."""
    stream = batch.stream[at]
    which = lanes(memory)[stream].pool
    if pools(memory)[which] < caps[which]:
        return False
    low = lowest(memory, 0, which)
    offers(memory)[at - begin] = price_at(memory, batch, at)
    return low >= 0 and is_hopeless(memory, low, offers(memory)[at - begin], batch.expiry[at], stream)


@inlined
def price_at(memory: Memory, batch: BatchColumns, at: int) -> float:
    """The price of an arrival."""
    if memory.indexed:
        if batch.key[at] < 0:
            return 0.0
        if memory.related:
            return price_through(memory, batch, at)
        return price_by_links(memory, batch.stream[at], batch.rates[at]) if memory.growing else float(batch.score[at])
    if memory.prices == CHANCES:
        return chance_price(memory, batch.rates[at], 0, batch.stream[at], float(memory.now >> memory.shift)) if batch.key[at] >= 0 else 0.0
    return float(bands(memory)[batch.band[at]].price if memory.banded else partner_rate(batch.rates[at], batch.stream[at]))


@kernel
def next_turned_away(memory: Memory, which: int, batch: BatchColumns, begin: int, end: int) -> int:
    """Of the arrivals that were turned away from a pool (-1 in `fresh`), the one that ranks lowest; -1 if none is left."""
    best = -1
    for at in range(begin, end):
        stream = batch.stream[at]
        if fresh(memory)[at - begin] == -1 and lanes(memory)[stream].pool == which:
            sign = -1
            if best >= 0:
                other = batch.stream[best]
                life = life_left(memory, stream, batch.expiry[at])
                rest = life_left(memory, other, batch.expiry[best])
                sign = compare_worth(memory, stream, offers(memory)[at - begin], life, offers(memory)[best - begin], rest)
            if sign < 0 or (sign == 0 and stream < batch.stream[best]):
                best = at
    return best


@kernel
def ranks_below(memory: Memory, batch: BatchColumns, at: int, slot: int, base_row: int) -> bool:
    """Whether an arrival that was turned away ranks below a retained tuple of its pool."""
    stream = batch.stream[at]
    life = life_left(memory, stream, batch.expiry[at])
    price = full_price_of(memory, group_of(memory, slot))
    offered = offers(memory)[base_row + at - memory.first_row]
    sign = compare_worth(memory, stream, offered, life, price, remaining(memory, slot))
    if sign != 0:
        return bool(sign < 0)
    if batch.time[at] != slots(memory)[slot].time:
        return bool(batch.time[at] < slots(memory)[slot].time)
    if stream != slots(memory)[slot].stream:
        return bool(stream < slots(memory)[slot].stream)
    return bool(base_row + at < slots(memory)[slot].row)


@kernel
def keys_differ(key: Ints, begin: int, end: int) -> bool:
    """Whether no two arrivals of an instant share a key."""
    for at in range(begin, end):
        for other in range(begin, at):
            if key[at] == key[other]:
                return False
    return True
