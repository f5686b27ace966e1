"""What a tuple is worth where streams are joined through relations: pairs of fact and partner are counted, or the rate at which they come.

A fact counts while its end lies beyond the last instant (`settled`). `endings.py` takes back what it has counted then. Sums that are not
of whole numbers are taken anew where a subtraction would leave more rounding than digits.
"""

from __future__ import annotations

import numpy as np

from penstock.core.compiled import inlined, kernel
from penstock.core.rounding import rounded
from penstock.core.trace import Ints
from penstock.engine.compiled.batch_columns import BatchColumns
from penstock.engine.compiled.class_prices import spoil
from penstock.engine.compiled.facts.chains import earlier, link_of, unchain, within
from penstock.engine.compiled.facts.finding_facts import active_up_to, begun, cell_at_link, weight_at
from penstock.engine.compiled.facts.past_by_importance import remember, valued_rate
from penstock.engine.compiled.facts.prefilter import is_filtered
from penstock.engine.compiled.linked.partners import weigh_streams, worth_of
from penstock.engine.compiled.order.ranking import GAIN_LOSS, MATCHES, SCORE
from penstock.engine.compiled.state import Memory, accesses, cells, counts, groups, lanes, listed, raised, ranks, slots, strands, ties
from penstock.engine.fact_arrays import GROWS

_LOST = 2.0**-6


@inlined
def rate_at(memory: Memory, cell: int, importance: float) -> float:
    """The rate of arrivals at a cell, or of the value that they make with a tuple of this importance."""
    return valued_rate(memory, cell, importance) if memory.worthy else float(cells(memory)[cell].rate)


@kernel
def have_come_through(memory: Memory, batch: BatchColumns, begin: int, end: int) -> None:
    """Rates have the arrivals of an instant from its beginning."""
    for at in range(begin, end):
        if batch.key[at] < 0 or is_filtered(memory, batch, at):
            continue
        stream = batch.stream[at]
        weight = batch.rates[at, stream]
        lanes(memory)[stream].mass += weight
        rank = 0
        while link_of(memory, stream, rank) >= 0:
            cell = batch.values[at, link_of(memory, stream, rank)]
            if cell >= 0:
                cells(memory)[cell].rate += weight
                if memory.worthy:
                    remember(memory, cell, batch.importance[at], weight)
            rank += 1
    if memory.massed:
        weigh_streams(memory)


@kernel
def price_through(memory: Memory, batch: BatchColumns, at: int) -> float:
    """What an arrival is worth at the rates of now, among all streams."""
    stream, time = batch.stream[at], batch.time[at]
    price = 1.0
    rank = 0
    while link_of(memory, stream, rank) >= 0:
        link = link_of(memory, stream, rank)
        cell = batch.values[at, link]
        for other in range(ties(memory)[link].first, ties(memory)[link].last):
            if other == link:
                continue
            total = 0.0
            number = active_up_to(memory, cell, begun(memory, cell, time), memory.settled) if cell >= 0 else 0
            while number > 0:
                place = cells(memory)[cell].first + number - 1
                total += weight_at(memory, place) * rate_at(memory, cell_at_link(memory, place, other), batch.importance[at])
                number = active_up_to(memory, cell, number - 1, memory.settled)
            price *= rounded(total)
        rank += 1
    return float(price * lanes(memory)[stream].factor if memory.massed else price)


@kernel
def are_strangers_through(memory: Memory, batch: BatchColumns, begin: int, end: int) -> bool:
    """Whether no two arrivals of an instant match."""
    for at in range(begin, end):
        if batch.key[at] < 0 or is_filtered(memory, batch, at):
            continue
        stream, time = batch.stream[at], batch.time[begin]
        for sooner in range(begin, at):
            if batch.stream[sooner] != stream and batch.key[sooner] >= 0 and not is_filtered(memory, batch, sooner):
                if accesses(memory)[stream * memory.streams + batch.stream[sooner]].index < 0:
                    return False
        rank = 0
        while link_of(memory, stream, rank) >= 0:
            link = link_of(memory, stream, rank)
            cell = batch.values[at, link]
            number = active_up_to(memory, cell, begun(memory, cell, time), time) if cell >= 0 else 0
            while number > 0:
                place = cells(memory)[cell].first + number - 1
                for other in range(ties(memory)[link].first, ties(memory)[link].last):
                    if other != link:
                        wanted = cell_at_link(memory, place, other)
                        for sooner in range(begin, at):
                            if batch.stream[sooner] == ties(memory)[other].stream and batch.values[sooner, other] == wanted:
                                return False
                number = active_up_to(memory, cell, number - 1, time)
            rank += 1
    return True


@kernel
def meet_through(memory: Memory, batch: BatchColumns, at: int, slot: int) -> None:
    """Price an arrival, and all that it matches. It has a slot, or -1 if it was turned away: then a free one stands in for it."""
    n, stream = memory.streams, batch.stream[at]
    weight = 1.0
    if memory.growing:
        weight = batch.rates[at, stream] if memory.growing == GROWS else 0.0
    else:
        lanes(memory)[stream].mass += 1.0
    if slot >= 0:
        for other in range(n):
            counts(memory)[slot * n + other] = 0.0
        _walk(memory, slot, True, weight)
        if memory.kind == GAIN_LOSS and batch.time[at] < memory.settled:
            note_gains(memory, slot)
        spoil(memory, slots(memory)[slot].group)
    elif weight > 0.0:
        slot = memory.free
        slots(memory)[slot].stream, slots(memory)[slot].time = stream, batch.time[at]
        if memory.worthy:
            ranks(memory)[slot].importance = batch.importance[at]
        rank = 0
        while link_of(memory, stream, rank) >= 0:
            strands(memory)[slot * memory.most_links + rank].cell = batch.values[at, link_of(memory, stream, rank)]
            rank += 1
        _walk(memory, slot, False, weight)


@kernel
def note_gains(memory: Memory, slot: int) -> None:
    """dgl: a late arrival also raises what it matches by facts that have ended since its time."""
    stream, time = int(slots(memory)[slot].stream), slots(memory)[slot].time
    rank = 0
    while link_of(memory, stream, rank) >= 0:
        link = link_of(memory, stream, rank)
        cell = strands(memory)[slot * memory.most_links + rank].cell
        number = active_up_to(memory, cell, begun(memory, cell, time), time) if cell >= 0 else 0
        while number > 0:
            place = cells(memory)[cell].first + number - 1
            begin, end = listed(memory)[place].begin, listed(memory)[place].end
            for other in range(ties(memory)[link].first, ties(memory)[link].last if end <= memory.settled else 0):
                around = int(ties(memory)[other].rank)
                partner = int(cells(memory)[cell_at_link(memory, place, other)].tail) if other != link else -1
                partner = within(memory, partner, around, begin, end)
                while partner >= 0:
                    _raise(memory, partner)
                    partner = within(memory, earlier(memory, partner, around), around, begin, end)
            number = active_up_to(memory, cell, number - 1, time)
        rank += 1


@inlined
def _raise(memory: Memory, partner: int) -> None:
    """dgl: note that a tuple has found a match in this instant."""
    group = slots(memory)[partner].group
    if slots(memory)[partner].row < memory.first_row and not groups(memory)[group].gained:
        groups(memory)[group].gained = 1
        raised(memory)[memory.n_raised] = partner
        memory.n_raised += 1


@kernel
def recount(memory: Memory, slot: int) -> None:
    """Count for a tuple in memory anew."""
    n = memory.streams
    for other in range(n):
        counts(memory)[slot * n + other] = 0.0
    group = slots(memory)[slot].group
    if groups(memory)[group].key >= 0:
        _walk(memory, slot, True, 0.0)
    spoil(memory, group)


@kernel
def _walk(memory: Memory, slot: int, counts_too: bool, weight: float) -> None:
    """For each fact of a tuple that counts: what its partners are worth to it, and `weight` times that to each of them."""
    n, stream, time, now = memory.streams, int(slots(memory)[slot].stream), slots(memory)[slot].time, memory.settled
    rank = 0
    while link_of(memory, stream, rank) >= 0:
        link = link_of(memory, stream, rank)
        cell = strands(memory)[slot * memory.most_links + rank].cell
        number = active_up_to(memory, cell, begun(memory, cell, now), now) if cell >= 0 else 0
        while number > 0:
            place = cells(memory)[cell].first + number - 1
            own = listed(memory)[place].begin <= time  # a late tuple raises rates through facts that are younger than it is
            for other in range(ties(memory)[link].first, ties(memory)[link].last):
                if other == link or not (own or (memory.growing and weight > 0.0)):
                    continue
                theirs = cell_at_link(memory, place, other)
                total = 0.0
                if not memory.growing or weight > 0.0:
                    total = _greet(memory, slot, stream, place, theirs, other, weight)
                if counts_too and own:
                    if memory.growing:
                        total = rate_at(memory, theirs, _importance(memory, slot))
                    counts(memory)[slot * n + ties(memory)[other].stream] += weight_at(memory, place) * total
            number = active_up_to(memory, cell, number - 1, now)
        rank += 1


@inlined
def _importance(memory: Memory, slot: int) -> float:
    return float(ranks(memory)[slot].importance) if memory.worthy else 1.0


@kernel
def _greet(memory: Memory, slot: int, stream: int, place: int, cell: int, link: int, weight: float) -> float:
    """What the partners of one cell are worth to a tuple through a fact; `weight` times that is added to what they have counted."""
    n, rank = memory.streams, int(ties(memory)[link].rank)
    begin, end = listed(memory)[place].begin, listed(memory)[place].end
    total = 0.0
    partner = within(memory, int(cells(memory)[cell].tail), rank, begin, end)
    while partner >= 0:
        old = slots(memory)[partner].row < memory.first_row
        worth = worth_of(memory, ranks(memory)[slot].importance, ranks(memory)[partner].importance) if memory.worthy else 1.0
        total += worth
        # Only arrivals are priced by a first score, and the rates of arrivals have this instant already.
        if weight > 0.0 and (not (old and memory.kind == SCORE) if memory.prices == MATCHES else old):
            group = slots(memory)[partner].group
            if memory.kind == GAIN_LOSS:
                _raise(memory, partner)
            counts(memory)[partner * n + stream] += weight_at(memory, place) * weight * worth
            spoil(memory, group)
        partner = within(memory, earlier(memory, partner, rank), rank, begin, end)
    return total


@kernel
def part_through(memory: Memory, slot: int) -> None:
    """A tuple goes: it can be found no more, and its matches have one less."""
    if groups(memory)[slots(memory)[slot].group].key < 0:
        return
    unchain(memory, slot)
    if not memory.paired or memory.prices != MATCHES:
        return
    lanes(memory)[slots(memory)[slot].stream].mass -= 1.0
    if memory.kind != SCORE:
        _leave_behind(memory, slot, False)
        if memory.worthy or memory.facts_weigh:
            _leave_behind(memory, slot, True)


@kernel
def _leave_behind(memory: Memory, slot: int, again: bool) -> None:
    """All partners of a tuple have one less; then `again`, to count anew for those whose sums have lost too many digits."""
    stream, time, now = int(slots(memory)[slot].stream), slots(memory)[slot].time, memory.settled
    rank = 0
    while link_of(memory, stream, rank) >= 0:
        link = link_of(memory, stream, rank)
        cell = strands(memory)[slot * memory.most_links + rank].cell
        number = active_up_to(memory, cell, begun(memory, cell, time), now) if cell >= 0 else 0
        while number > 0:
            place = cells(memory)[cell].first + number - 1
            begin, end = listed(memory)[place].begin, listed(memory)[place].end
            for other in range(ties(memory)[link].first, ties(memory)[link].last):
                around = int(ties(memory)[other].rank)
                partner = int(cells(memory)[cell_at_link(memory, place, other)].tail) if other != link else -1
                partner = within(memory, partner, around, begin, end)
                while partner >= 0:
                    if not again:
                        worth = weight_at(memory, place)
                        if memory.worthy:
                            worth *= worth_of(memory, ranks(memory)[slot].importance, ranks(memory)[partner].importance)
                        lower(memory, partner, stream, worth)
                    elif np.isnan(counts(memory)[partner * memory.streams + stream]):
                        recount(memory, partner)
                    partner = within(memory, earlier(memory, partner, around), around, begin, end)
            number = active_up_to(memory, cell, number - 1, now)
        rank += 1


@inlined
def lower(memory: Memory, slot: int, stream: int, worth: float) -> None:
    """Take from what a tuple counts in a stream; of no number where the rest would be more rounding than digits."""
    at = slot * memory.streams + stream
    before = counts(memory)[at]
    counts(memory)[at] = before - worth
    if (memory.worthy or memory.facts_weigh) and before - worth < before * _LOST:
        counts(memory)[at] = np.nan
    spoil(memory, slots(memory)[slot].group)


@kernel
def count_all_through(memory: Memory, chosen: Ints) -> None:
    """Count for all tuples in memory anew."""
    if memory.prices == MATCHES:
        for stream in range(memory.streams):
            lanes(memory)[stream].mass = 0.0
    for slot in chosen:
        if memory.prices == MATCHES and groups(memory)[slots(memory)[slot].group].key >= 0:
            lanes(memory)[slots(memory)[slot].stream].mass += 1.0
        recount(memory, slot)
