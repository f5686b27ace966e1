"""What a class is worth: rates of the statistics, a count of tuples in memory, or outputs. A price changes for one key at a time."""

from __future__ import annotations

from penstock.core.compiled import inlined, kernel
from penstock.core.rounding import rounded
from penstock.core.trace import Floats, Ints
from penstock.engine.compiled.chances import set_clues
from penstock.engine.compiled.order.ranking import (
    CHANCES,
    GAIN_LOSS,
    SCORE,
    TOTALS,
    TUPLES,
    compare_worth,
    first,
    full_price_of,
    life_left,
    remaining,
)
from penstock.engine.compiled.order.tournament import promote
from penstock.engine.compiled.state import Memory, accesses, counts, groups, slots, stale_queue


@inlined
def spoil(memory: Memory, group: int) -> None:
    """Note that the matches of a class have changed; they are counted again at the next scoring."""
    if groups(memory)[group].stale == 0:
        groups(memory)[group].stale = 1
        if memory.n_stale < memory.stale_queue_size:
            stale_queue(memory)[memory.n_stale] = group
        memory.n_stale += 1


@kernel
def spoil_partners(memory: Memory, group: int) -> None:
    """A tuple of `group` came or went: the matches of the other classes with that key have changed, if anybody still asks for them."""
    if memory.kind == SCORE:
        return
    other = groups(memory)[group].kin
    while other != group:
        spoil(memory, other)
        other = groups(memory)[other].kin


@kernel
def partners(memory: Memory, group: int) -> int:
    """How many combinations the other streams hold for one more tuple of this class."""
    found = 0
    product = 1
    other = groups(memory)[group].kin
    while other != group:
        product *= groups(memory)[other].members
        found += 1
        other = groups(memory)[other].kin
    return product if found == memory.streams - 1 else 0


@kernel
def _tuples(memory: Memory, group: int) -> int:
    """How many tuples all streams hold with the key of this class."""
    total = groups(memory)[group].members
    other = groups(memory)[group].kin
    while other != group:
        total += groups(memory)[other].members
        other = groups(memory)[other].kin
    return int(total)


@inlined
def needs_rounding(memory: Memory) -> bool:
    """Whether what a tuple has counted is a sum of fractions; rates of keys have been rounded."""
    return bool(memory.worthy or memory.facts_weigh or (memory.growing and not memory.keyed))


@kernel
def _partners_counted(memory: Memory, group: int) -> float:
    """The price of a class of one tuple, from what it has counted."""
    slot = groups(memory)[group].head
    if slot < 0 or groups(memory)[group].key < 0:
        return 0.0
    price = 1.0
    for other in range(memory.streams):
        stream = groups(memory)[group].stream
        if other != stream and accesses(memory)[stream * memory.streams + other].index >= 0:
            number = counts(memory)[slot * memory.streams + other]
            price *= rounded(number) if needs_rounding(memory) else number
    return price


@kernel
def count_matches(memory: Memory) -> None:
    """Bring the counted price of a class up to date where it has changed. A queue that ran over is no help: then all are looked at."""
    queued = memory.n_stale <= memory.stale_queue_size
    for at in range(memory.n_stale if queued else memory.groups_size):
        group = stale_queue(memory)[at] if queued else at
        if groups(memory)[group].stale == 0:
            continue
        groups(memory)[group].stale = 0
        if groups(memory)[group].kin < 0:
            continue
        if memory.indexed:
            matches = _partners_counted(memory, group)
        else:
            matches = float(_tuples(memory, group) if memory.prices == TUPLES else partners(memory, group))
        if groups(memory)[group].price != matches:
            groups(memory)[group].price = matches
            if groups(memory)[group].members > 0 and memory.kind != SCORE:
                promote(memory, 0, group)
                if memory.kind == GAIN_LOSS:
                    promote(memory, 1, group)
    memory.n_stale = 0


@kernel
def count_again(memory: Memory, chosen: Ints) -> None:
    """The counts of these slots have changed: bring their prices up to date."""
    for slot in chosen:
        groups(memory)[slots(memory)[slot].group].price = _partners_counted(memory, slots(memory)[slot].group)


@inlined
def partner_rate(rates: Floats, stream: int) -> float:
    """p of a tuple of `stream`: the product of its key's rates in the other streams."""
    price = 1.0
    for other in range(len(rates)):
        if other != stream:
            price *= rates[other]
    return price


@inlined
def _total_rate(rates: Floats) -> float:
    """The rate of a key in all streams."""
    total = 0.0
    for stream in range(len(rates)):
        total += rates[stream]
    return total


@kernel
def set_rates(memory: Memory, ring: int, rates: Floats) -> None:
    """Price the classes of a key by the rates of their partners, by all, or by what was learned of such rates."""
    if memory.prices == CHANCES:
        set_clues(memory, ring, rates)
        return
    group = ring
    while True:
        price = _total_rate(rates) if memory.prices == TOTALS else partner_rate(rates, groups(memory)[group].stream)
        if groups(memory)[group].price != price:
            groups(memory)[group].price = price
            if groups(memory)[group].members > 0:
                promote(memory, 0, group)
        group = groups(memory)[group].kin
        if group == ring:
            return


@kernel
def raise_yield(memory: Memory, ring: int, outputs: int) -> None:
    """A key has produced outputs: all its classes are worth so much more."""
    group = ring
    while True:
        groups(memory)[group].price += outputs
        if groups(memory)[group].members > 0:
            promote(memory, 0, group)
        group = groups(memory)[group].kin
        if group == ring:
            return


@inlined
def is_hopeless(memory: Memory, low: int, price: float, expiry: int, stream: int) -> bool:
    """Whether an arrival ranks below group `low`, the lowest of its pool (policies that rank by price)."""
    left = remaining(memory, first(memory, 0, low))
    return compare_worth(memory, stream, price, life_left(memory, stream, expiry), full_price_of(memory, low), left) < 0
