"""What a tuple is worth where candidates are found by links: its partners are counted, or the rate at which they come.

Each tuple is a class of its own then, and has a number for every other stream: the matches there (mn), or the decayed count of matching
arrivals (p). Whoever comes or goes changes the numbers of those that it matches and of nobody else, so the cost is that of the outputs.
"""

from __future__ import annotations

from penstock.core.compiled import inlined, kernel
from penstock.core.rounding import rounded
from penstock.core.trace import Floats, Ints
from penstock.core.value import finish, fold, start
from penstock.engine.compiled.class_prices import spoil
from penstock.engine.compiled.linked.links import collect, strike
from penstock.engine.compiled.order.ranking import MATCHES, SCORE
from penstock.engine.compiled.order.tournament import rebuild
from penstock.engine.compiled.state import Memory, accesses, counts, found, groups, lanes, ranks, slots


@inlined
def worth_of(memory: Memory, importance: float, other: float) -> float:
    """What an output of two tuples is worth."""
    objective = memory.objective
    return float(finish(objective, fold(objective, fold(objective, start(objective), importance), other), 2))


@kernel
def credit(memory: Memory, slot: int, stream: int, other: int, partners: Ints, number: int, weight: float) -> None:
    """A tuple of `stream` has come: the partners that were found for it count it, and are counted by it."""
    n = memory.streams
    total = 0.0
    for at in range(number):
        partner = partners[at]
        old = slots(memory)[partner].row < memory.first_row
        worth = 1.0
        if memory.worthy:
            worth = worth_of(memory, ranks(memory)[slot].importance, ranks(memory)[partner].importance)
        total += worth
        if memory.prices == MATCHES:
            if old and memory.kind == SCORE:
                continue  # only arrivals are priced
        elif not old:
            continue  # its rate has this instant already
        counts(memory)[partner * n + stream] += weight * worth
        spoil(memory, slots(memory)[partner].group)
    if memory.prices == MATCHES:
        counts(memory)[slot * n + other] = total


@kernel
def meet_all(memory: Memory, slot: int, stream: int, rates: Floats, partners: Ints, known: int) -> None:
    """Price an arrival that has just been linked, and all that it matches; of two streams these may be `known` already, so many."""
    n = memory.streams
    lanes(memory)[stream].mass += rates[stream] if memory.growing else 1.0
    for other in range(n):
        counts(memory)[slot * n + other] = rates[other] if memory.growing and other != stream else 0.0
    for other in range(n):
        if other != stream and accesses(memory)[stream * n + other].index >= 0:
            weight = rates[stream] if memory.growing else 1.0
            if known >= 0:
                credit(memory, slot, stream, other, partners, known, weight)
            else:
                credit(memory, slot, stream, other, found(memory), collect(memory, slot, stream, other, found(memory)), weight)
    spoil(memory, slots(memory)[slot].group)


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
