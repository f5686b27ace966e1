"""The join step where candidates are found by links: stream after stream is bound, the most selective first (Golab 4.2).

An arrival (the *pivot*) makes every output of which it is the last member. Of the streams that are not bound yet, the next is one that is
linked to a bound one: by equality before a distance, a distance before a comparison by size, of equals the one with the fewest tuples in
memory. Its index is asked for the matches of the bound tuple that the best link leads to, and all other links to bound tuples check them.

    R.a = S.a, S.b < T.b      r arrives:   S: those with r's a     for each:   T: those above its b

Where the log of outputs is full, the search pauses; scratch keeps where it is: by level, the order of streams, the candidates of each, how
many they are, and which is chosen.
"""

from __future__ import annotations

from penstock.core.compiled import inlined, kernel
from penstock.core.trace import Ints
from penstock.engine.compiled.batch_columns import BatchColumns
from penstock.engine.compiled.facts.chains import enchain
from penstock.engine.compiled.facts.fact_counts import are_strangers_through, have_come_through, meet_through
from penstock.engine.compiled.facts.prefilter import is_filtered
from penstock.engine.compiled.joining.by_facts import search_by_facts
from penstock.engine.compiled.key_clocks import PER_KEY, count_in
from penstock.engine.compiled.linked.followers import follow
from penstock.engine.compiled.linked.links import NEAR, agree, collect, enlist, keep_values, show
from penstock.engine.compiled.linked.partners import CHOSEN, MEMBERS, ORDER, PICKED, are_strangers, have_come, meet_all
from penstock.engine.compiled.logs import ARRIVAL_AT, HALFWAY, MADE_BEFORE, Logs
from penstock.engine.compiled.memory import claim_class, horizon_of, link
from penstock.engine.compiled.order.ranking import SCORE
from penstock.engine.compiled.probe import make_output, meet
from penstock.engine.compiled.state import Memory, accesses, ends, fresh, groups, lanes, links, met, ranks, slots
from penstock.engine.compiled.turned_away import is_turned_away
from penstock.engine.fact_arrays import GROWS

SCRATCH = MEMBERS + 1
"""Rows of scratch beside one for each stream."""


@kernel
def join_by_links(
    memory: Memory, caps: Ints, batch: BatchColumns, begin: int, end: int, may_turn_away: bool, logs: Logs, scratch: Ints
) -> bool:
    """Step 2: join each arrival with memory and with those before it, and link it into memory; whether the log of outputs is full."""
    pause = logs.pause
    time, horizon = batch.time[begin], horizon_of(memory)
    if pause[ARRIVAL_AT] < 0:
        _come(memory, batch, begin, end)
    may_turn_away = may_turn_away and (end - begin == 1 or _are_strangers(memory, batch, begin, end))
    for at in range(max(begin, pause[ARRIVAL_AT]), end):
        if is_filtered(memory, batch, at):
            fresh(memory)[at - begin] = -2
            continue
        stream = batch.stream[at]
        own = 0
        if batch.key[at] >= 0 and not memory.inplace:
            made = pause[MADE_BEFORE] if pause[HALFWAY] == 1 else memory.made
            if not _search(memory, batch, begin, at, logs, scratch):
                pause[ARRIVAL_AT], pause[MADE_BEFORE] = at, made
                return True
            own = memory.made - made
        if not lanes(memory)[stream].in_rows and batch.expiry[at] <= horizon:
            memory.n_late += 1
        away = may_turn_away and not lanes(memory)[stream].in_rows and is_turned_away(memory, batch, begin, at, caps)
        if memory.paired and batch.key[at] >= 0 and away:
            _meet(memory, batch, begin, at, -1, scratch)
        if away:
            fresh(memory)[at - begin] = -1
            continue
        group = claim_class(memory, -1, stream, batch.key[at])
        groups(memory)[group].price = 0.0  # whoever matches nothing keeps it
        expiry = batch.leaves[at] if memory.related else batch.expiry[at]
        if lanes(memory)[stream].in_rows == PER_KEY:
            expiry = count_in(memory, group, expiry)
            if batch.key[at] >= 0:
                follow(memory, ~(at - begin), stream, memory.first_row)
        slot = link(memory, group, time, memory.next_row + at, expiry)
        fresh(memory)[at - begin] = slot
        if memory.limited:
            met(memory)[slot] = 0
            meet(memory, slot, own)
        if memory.objective > 0 or memory.kind >= SCORE:
            ranks(memory)[slot].importance = batch.importance[at]
        _file(memory, batch, begin, at, slot)
        if memory.paired and batch.key[at] >= 0:
            _meet(memory, batch, begin, at, slot, scratch)
    pause[ARRIVAL_AT] = -1
    return False


@kernel
def join_inplace_by_links(memory: Memory, batch: BatchColumns, begin: int, end: int, logs: Logs, scratch: Ints) -> bool:
    """The join of the inplace model: with what remains of memory, and with all arrivals of the instant; whether the log is full."""
    pause = logs.pause
    for at in range(max(begin, pause[ARRIVAL_AT]), end):
        made = pause[MADE_BEFORE] if pause[HALFWAY] == 1 else memory.made
        joins = batch.key[at] >= 0 and not is_filtered(memory, batch, at)
        if joins and not _search(memory, batch, begin, at, logs, scratch):
            pause[ARRIVAL_AT], pause[MADE_BEFORE] = at, made
            return True
    pause[ARRIVAL_AT] = -1
    return False


# By links or through relations.


@inlined
def _come(memory: Memory, batch: BatchColumns, begin: int, end: int) -> None:
    """Take note of the arrivals of an instant."""
    if memory.related:
        if memory.growing == GROWS:
            have_come_through(memory, batch, begin, end)
        return
    show(memory, batch.values, begin, end)
    if memory.massed and memory.growing:
        have_come(memory, batch, begin, end)


@inlined
def _are_strangers(memory: Memory, batch: BatchColumns, begin: int, end: int) -> bool:
    """Whether no two arrivals of an instant match."""
    if memory.related:
        return are_strangers_through(memory, batch, begin, end)
    return are_strangers(memory, batch, begin, end)


@inlined
def _search(memory: Memory, batch: BatchColumns, begin: int, at: int, logs: Logs, scratch: Ints) -> bool:
    """Make the outputs of a pivot."""
    if memory.related:
        return search_by_facts(memory, batch, begin, at, logs, scratch)
    return search(memory, batch, begin, at, logs, scratch)


@inlined
def _file(memory: Memory, batch: BatchColumns, begin: int, at: int, slot: int) -> None:
    """Make an arrival that is linked one that can be found."""
    if memory.related:
        ends(memory)[slot] = batch.expiry[at]
        enchain(memory, slot, batch.values[at], batch.key[at] >= 0)
        return
    keep_values(memory, ~(at - begin), slot)
    if batch.key[at] >= 0:
        enlist(memory, slot, batch.stream[at], memory.next_row + at)


@inlined
def _meet(memory: Memory, batch: BatchColumns, begin: int, at: int, slot: int, scratch: Ints) -> None:
    """Price an arrival, which has a slot or was turned away (-1), and all that it matches."""
    if memory.related:
        meet_through(memory, batch, at, slot)
        return
    rates = batch.rates[at if memory.growing else 0]
    meet_all(memory, slot, ~(at - begin), batch.stream[at], batch.importance[at], rates, scratch)


@kernel
def search(memory: Memory, batch: BatchColumns, begin: int, at: int, logs: Logs, scratch: Ints) -> bool:
    """Make the outputs of a pivot; False where the log is full, to go on when it is called again."""
    n, keep = memory.streams, logs.outputs.shape[1] > 0
    picked, chosen, order, members = scratch[n + PICKED], scratch[n + CHOSEN], scratch[n + ORDER], scratch[n + MEMBERS]
    level = n - 1
    if logs.pause[HALFWAY] == 0:
        memory.attempts += 1
        order[0] = batch.stream[at]
        for other in range(n):
            members[other] = 0
        level = 1
        if not _bind(memory, batch, begin, at, level, scratch):
            return True
    members[order[0]] = ~at
    logs.pause[HALFWAY] = 0
    while level > 0:
        chosen[level] += 1
        if chosen[level] >= picked[level]:
            level -= 1
            continue
        members[order[level]] = scratch[order[level], chosen[level]]
        if level < n - 1:
            level += 1
            if not _bind(memory, batch, begin, at, level, scratch):
                level -= 1
            continue
        if keep and logs.lengths[0] == len(logs.outputs):
            chosen[level] -= 1
            logs.pause[HALFWAY] = 1
            return False
        logs.lengths[0] = make_output(
            memory, batch.time, batch.expiry, batch.importance, at, memory.next_row, members, logs.outputs, logs.lengths[0], keep, 1.0
        )
    return True


@kernel
def _bind(memory: Memory, batch: BatchColumns, begin: int, at: int, level: int, scratch: Ints) -> bool:
    """Choose the next stream, and list its tuples that fit those bound before; whether there are any."""
    n = memory.streams
    picked, chosen, order, members = scratch[n + PICKED], scratch[n + CHOSEN], scratch[n + ORDER], scratch[n + MEMBERS]
    best, guide, lowest = -1, -1, 0
    for other in range(n):
        place = 0
        while place < level and order[place] != other:
            place += 1
        if place < level:
            continue
        for place in range(level):
            rank = _rank(memory, order[place] * n + other)
            better = best < 0 or rank < lowest
            if better or (rank == lowest and best != other and lanes(memory)[other].held < lanes(memory)[best].held):
                best, guide, lowest = other, order[place], rank
    order[level], chosen[level] = best, -1
    guiding = ~(at - begin) if level == 1 or guide == order[0] else _as_pick(members[guide], begin)
    room = scratch[best]
    number = collect(memory, guiding, guide, best, room)
    if memory.inplace:
        first = memory.next_row + begin
        kept = 0
        for place in range(number):
            if slots(memory)[room[place]].row < first:
                room[kept] = room[place]
                kept += 1
        number = kept
        access = guide * n + best
        for earlier in range(begin, at):
            if batch.stream[earlier] == best and batch.key[earlier] >= 0:
                if accesses(memory)[access].index < 0 or agree(memory, access, guiding, ~(earlier - begin)):
                    room[number] = ~earlier
                    number += 1
    for place in range(level):
        access = order[place] * n + best
        if order[place] == guide or accesses(memory)[access].index < 0:
            continue
        bound = ~(at - begin) if place == 0 else _as_pick(members[order[place]], begin)
        kept = 0
        for candidate in range(number):
            if agree(memory, access, bound, _as_pick(room[candidate], begin)):
                room[kept] = room[candidate]
                kept += 1
        number = kept
    picked[level] = number
    return number > 0


@inlined
def _as_pick(member: int, begin: int) -> int:
    """A member, whose rows of the batch are ~row, as one whose arrivals count from the beginning of the instant."""
    return member if member >= 0 else ~(~member - begin)


@inlined
def _rank(memory: Memory, access: int) -> int:
    """How selective the best of the links between two streams is, low first."""
    if accesses(memory)[access].index < 0:
        return 4
    if accesses(memory)[access].hashes > 0:
        return 0
    if accesses(memory)[access].ranged < 0:
        return 3
    return 1 if links(memory)[accesses(memory)[access].ranged].test == NEAR else 2
