"""What a tuple is worth where candidates are found by links: its partners are counted, or the rate at which they come.

Each tuple is a class of its own then, and has a number for every other stream: the matches there (mn), or the decayed count of matching
arrivals (p). Whoever comes or goes changes the numbers of those that it matches and of nobody else, so the cost is that of the outputs.
"""

from __future__ import annotations

from penstock.core.compiled import inlined, kernel
from penstock.core.rounding import rounded
from penstock.core.trace import Floats, Ints
from penstock.core.value import finish, fold, start
from penstock.engine.compiled.batch_columns import BatchColumns
from penstock.engine.compiled.class_prices import needs_rounding, spoil
from penstock.engine.compiled.linked.links import agree, collect, strike
from penstock.engine.compiled.order.ranking import GAIN_LOSS, MATCHES, SCORE
from penstock.engine.compiled.order.tournament import rebuild
from penstock.engine.compiled.state import Memory, accesses, counts, found, groups, lanes, raised, ranks, slots

PICKED, CHOSEN, ORDER, MEMBERS = range(4)
"""Rows of scratch behind those of each stream: how many candidates, which is chosen, the order of streams, the members of an output."""


@inlined
def worth_of(memory: Memory, importance: float, other: float) -> float:
    """What an output of two tuples is worth."""
    objective = memory.objective
    return float(finish(objective, fold(objective, fold(objective, start(objective), importance), other), 2))


@kernel
def credit(memory: Memory, stream: int, importance: float, partners: Ints, number: int, weight: float) -> float:
    """A tuple of `stream` has come: the partners that were found for it count it; what they are worth to it."""
    n = memory.streams
    total = 0.0
    for at in range(number):
        partner = partners[at]
        old = slots(memory)[partner].row < memory.first_row
        worth = 1.0
        if memory.worthy:
            worth = worth_of(memory, importance, ranks(memory)[partner].importance)
        total += worth
        if memory.prices == MATCHES:
            if old and memory.kind == SCORE:
                continue  # only arrivals are priced
        elif not old:
            continue  # its rate has this instant already
        if memory.kind == GAIN_LOSS and old and not groups(memory)[slots(memory)[partner].group].gained:
            groups(memory)[slots(memory)[partner].group].gained = 1
            raised(memory)[memory.n_raised] = partner
            memory.n_raised += 1
        if memory.keyed:
            counts(memory)[partner * n + stream] = weight * worth  # the rate of the whole key
        else:
            counts(memory)[partner * n + stream] += weight * worth
        spoil(memory, slots(memory)[partner].group)
    return total


@kernel
def meet_all(memory: Memory, slot: int, pick: int, stream: int, importance: float, rates: Floats, scratch: Ints) -> None:
    """Price an arrival, the `pick`, and all that it matches. It has a slot, or -1 if it was turned away.

    What the join has found for it first (joining/by_links.py) is not looked up again.
    """
    n = memory.streams
    known = -1 if memory.inplace else scratch[n + ORDER, 1]
    weight = rates[stream] if memory.growing else 1.0
    partner = rates[n] if memory.keyed and memory.worthy else importance  # of a key the mean
    before = 1.0
    if not memory.growing:
        lanes(memory)[stream].mass += 1.0
    if slot >= 0:
        for other in range(n):
            counts(memory)[slot * n + other] = rates[other] if memory.growing and other != stream else 0.0
    for other in range(n):
        if other != stream and accesses(memory)[stream * n + other].index >= 0:
            if other == known:
                partners, number = scratch[other], scratch[n + PICKED, 1]
            else:
                partners, number = found(memory), collect(memory, pick, stream, other, found(memory))
            worth = credit(memory, stream, partner, partners, number, weight)
            if memory.prices == MATCHES:
                counts(memory)[slot * n + other] = worth
            if memory.mn_of_memory:
                before *= _worth_before(memory, importance, partners, number)
    if slot >= 0:
        spoil(memory, slots(memory)[slot].group)
        if memory.mn_of_memory:  # what is counted anew before the next instant is joined has the arrivals of this one
            groups(memory)[slots(memory)[slot].group].price = before


@kernel
def _worth_before(memory: Memory, importance: float, partners: Ints, number: int) -> float:
    """What the partners that were found for an arrival are worth to it, without those that came with it."""
    total = 0.0
    for at in range(number):
        if slots(memory)[partners[at]].row < memory.first_row:
            total += worth_of(memory, importance, ranks(memory)[partners[at]].importance) if memory.worthy else 1.0
    return rounded(total) if memory.worthy else total


@inlined
def price_by_links(memory: Memory, stream: int, rates: Floats) -> float:
    """What an arrival at these rates will be worth, among all streams."""
    price = 1.0
    for other in range(memory.streams):
        if other != stream and accesses(memory)[stream * memory.streams + other].index >= 0:
            price *= rounded(rates[other]) if needs_rounding(memory) else rates[other]
    return float(price * lanes(memory)[stream].factor if memory.massed else price)


@kernel
def have_come(memory: Memory, batch: BatchColumns, begin: int, end: int) -> None:
    """Rates have the arrivals of an instant from its beginning, so the factors of streams that match freely must have them too."""
    for at in range(begin, end):
        if batch.key[at] >= 0:
            lanes(memory)[batch.stream[at]].mass += batch.rates[at, batch.stream[at]]
    weigh_streams(memory)


@kernel
def are_strangers(memory: Memory, batch: BatchColumns, begin: int, end: int) -> bool:
    """Whether no two arrivals of an instant, whose values are there, match."""
    for at in range(begin, end):
        for other in range(begin, at):
            if batch.stream[at] != batch.stream[other] and batch.key[at] >= 0 and batch.key[other] >= 0:
                access = batch.stream[at] * memory.streams + batch.stream[other]
                if accesses(memory)[access].index < 0 or agree(memory, access, ~(at - begin), ~(other - begin)):
                    return False
    return True


@kernel
def part_from_all(memory: Memory, slot: int) -> None:
    """A tuple goes: it can be found no more, and its matches have one less."""
    group = slots(memory)[slot].group
    if groups(memory)[group].key < 0:
        return
    stream = int(slots(memory)[slot].stream)
    n = memory.streams
    strike(memory, slot, stream, slots(memory)[slot].row)
    if not memory.paired or memory.prices != MATCHES:
        return
    lanes(memory)[stream].mass -= 1.0
    if memory.kind == SCORE:
        return
    for other in range(n):
        if other != stream and accesses(memory)[stream * n + other].index >= 0 and lanes(memory)[other].held > 0:
            for at in range(collect(memory, slot, stream, other, found(memory))):
                partner = found(memory)[at]
                worth = 1.0
                if memory.worthy:
                    worth = worth_of(memory, ranks(memory)[slot].importance, ranks(memory)[partner].importance)
                counts(memory)[partner * n + stream] -= worth
                spoil(memory, slots(memory)[partner].group)


@kernel
def count_all(memory: Memory, chosen: Ints) -> None:
    """Count the matches of all tuples in memory anew, and price them."""
    n = memory.streams
    for stream in range(n):
        lanes(memory)[stream].mass = 0.0
    for slot in chosen:
        group = slots(memory)[slot].group
        stream = int(slots(memory)[slot].stream)
        for other in range(n):
            counts(memory)[slot * n + other] = 0.0
            if groups(memory)[group].key >= 0 and accesses(memory)[stream * n + other].index >= 0:
                for at in range(collect(memory, slot, stream, other, found(memory))):
                    worth = 1.0
                    if memory.worthy:
                        worth = worth_of(memory, ranks(memory)[slot].importance, ranks(memory)[found(memory)[at]].importance)
                    counts(memory)[slot * n + other] += worth
        if groups(memory)[group].key >= 0:
            lanes(memory)[stream].mass += 1.0
        spoil(memory, group)


@kernel
def weigh_streams(memory: Memory) -> None:
    """Where streams match freely, all tuples of one have the number of the other's, or the rate at which these come, as a factor."""
    n = memory.streams
    turned = False
    for stream in range(n):
        factor = 1.0
        for other in range(n):
            if other != stream and accesses(memory)[stream * n + other].index < 0:
                mass = lanes(memory)[other].mass
                factor *= rounded(mass) if memory.growing else mass
        turned |= (factor == 0.0) != (lanes(memory)[stream].factor == 0.0)
        lanes(memory)[stream].factor = factor
    if turned:
        rebuild(memory)
