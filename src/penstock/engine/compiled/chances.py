"""`learned`: what a class can expect of its partners, and when to look at it again.

The state of a class is how often its key came in each partner stream, how long ago, and how long ago in its own. For each state the
statistics know how many arrivals to expect (statistics/returns.py). A class is worth the best average, over any stay up to the end of its
newest tuple, of the outputs that it can expect while nothing comes and the state moves on. A state is taken as it begins. So for two
streams an epoch can work out the best average of every state (`best_stays`), and a price is one look into that table; for more, what the
partners hold has a part in it, and each price is worked out (`_expected`).

A price is made when the key comes, when the step of its gap ends, and when what was learned is put into use; in between it stays as
it is. So a class waits in one of nine queues, by how long it has to wait; in each the first is due first.
"""

from __future__ import annotations

import numpy as np

from penstock.core.compiled import inlined, kernel
from penstock.core.rounding import rounded
from penstock.core.trace import Floats, Ints
from penstock.core.value import finish, fold, start
from penstock.engine.chance_steps import COUNT_BOUNDS, COUNTS, GAP_ENDS, GAPS, LEAST, NOTHING, TIMERS
from penstock.engine.compiled.batch_columns import BatchColumns
from penstock.engine.compiled.memory import find_ring, place_of
from penstock.engine.compiled.order.tournament import crown_all, promote, reseat
from penstock.engine.compiled.state import (
    Memory,
    chances,
    clues,
    groups,
    paths,
    queues,
    spans,
    table,
    touch_clue,
    touch_group,
    touch_group_end,
    touch_holder,
    touch_key,
    touch_table,
    touch_wait,
    waits,
)

_BOUND1, _BOUND2, _BOUND3, _BOUND4 = COUNT_BOUNDS
_NEVER = GAPS - 1
_SHORT = ~((1 << 47) - 1)  # of the 53 bits of a number, the sign, the exponent and five
_AHEAD = 4  # rows
PATH = 5
"""Numbers of a partner in `paths`: gap, step, weight, what was expected so far, what is there."""


@inlined
def gap_step(gap: float, reach: float) -> int:
    """The step of a gap. To count all that have ended is faster than to stop at the first that has not, which nobody can foretell."""
    step = 0
    for end in range(TIMERS):
        step += gap >= reach * GAP_ENDS[end]
    return step


@inlined
def step_end(step: int, reach: float) -> float:
    """Where a step of gaps ends."""
    return float(reach * GAP_ENDS[step])


@inlined
def count_step(count: float) -> int:
    """The step of a count."""
    if count <= 0.0:
        return 0
    return 1 + (count >= _BOUND1) + (count >= _BOUND2) + (count >= _BOUND3) + (count >= _BOUND4)


@inlined
def cell_of(streams: int, own: int, other: int, count: int, gap: int, own_gap: int) -> int:
    """The place of a state in a table."""
    return (((own * streams + other) * COUNTS + count) * GAPS + gap) * GAPS + own_gap


@inlined
def _now(memory: Memory) -> float:
    return float(memory.now >> memory.shift)


@inlined
def step_begin(step: int, reach: float) -> float:
    """Where a step of gaps begins."""
    return step_end(step - 1, reach) if step > 0 else 0.0


@kernel
def best_stays(chances: Floats, spans: Floats, reach: float, out: Floats) -> None:
    """For two streams and each state: the best average of the arrivals to expect, per foretold one or per tick."""
    for own in range(2):
        for often in range(COUNTS):
            for gap in range(GAPS):
                for own_gap in range(GAPS):
                    out[cell_of(2, own, 1 - own, often, gap, own_gap)] = _best_stay(chances, spans[own], reach, own, often, gap, own_gap)


@kernel
def _best_stay(chances: Floats, span: float, reach: float, own: int, often: int, gap: int, own_gap: int) -> float:
    since, since_own = step_begin(gap, reach), step_begin(own_gap, reach)
    life = span - since_own
    stay = total = best = 0.0
    while stay < life:
        until = life
        if own_gap < _NEVER:
            until = min(until, step_end(own_gap, reach) - since_own)
        if gap < _NEVER:
            until = min(until, step_end(gap, reach) - since)
        total += chances[cell_of(2, own, 1 - own, often, gap, own_gap)] * (until - stay)
        best = max(best, total / max(until, LEAST * reach))
        if gap < _NEVER and until >= step_end(gap, reach) - since:
            gap += 1
        if own_gap < _NEVER and until >= step_end(own_gap, reach) - since_own:
            own_gap += 1
        stay = until
    return shortened(best)


@inlined
def shortened(number: float) -> float:
    """A number to five bits: states that hardly differ have one price, and nobody has to move."""
    return float(np.int64(np.float64(number).view(np.int64) & _SHORT).view(np.float64))


@inlined
def chance_price(memory: Memory, facts: Floats, base: int, own: int, now: float) -> float:
    """The price of a class of two streams, by the facts of its key from position `base` on."""
    other = 1 - own
    count = facts[base + other]
    gap = gap_step(now - facts[base + 2 + other], memory.reach) if count > 0.0 else _NEVER
    own_gap = gap_step(now - facts[base + 2 + own], memory.reach)
    rate = chances(memory)[cell_of(2, own, other, count_step(count), gap, own_gap)]
    return rounded(max(NOTHING, rate * (count * memory.pace if count > 0.0 else 1.0)))


@kernel
def _expected(memory: Memory, group: int) -> float:
    """The outputs per coarse tick that a class can expect, over the best stay."""
    streams, reach, now = memory.streams, memory.reach, _now(memory)
    if groups(memory)[group].key < 0:
        return 0.0  # without a key there is nothing to expect
    own = int(groups(memory)[group].stream)
    base = group * 2 * streams
    if streams == 2:
        return chance_price(memory, clues(memory), base, own, now)
    own_step = gap_step(now - clues(memory)[base + streams + own], reach)
    own_gap = step_begin(own_step, reach)
    life = spans(memory)[own] - own_gap
    there = 1.0
    for other in range(streams):
        count = clues(memory)[base + other]
        step = gap_step(now - clues(memory)[base + streams + other], reach) if count > 0.0 else _NEVER
        at = other * PATH
        paths(memory)[at] = step_begin(step, reach)
        paths(memory)[at + 1] = step
        paths(memory)[at + 2] = count * memory.pace if count > 0.0 else 1.0
        paths(memory)[at + 3] = 0.0
        paths(memory)[at + 4] = 0.0
    kin = groups(memory)[group].kin
    while kin != group:
        paths(memory)[int(groups(memory)[kin].stream) * PATH + 4] = groups(memory)[kin].members
        kin = groups(memory)[kin].kin
    for other in range(streams):
        if other != own:
            there *= paths(memory)[other * PATH + 4]
    stay = 0.0
    best = NOTHING
    while stay < life:
        until = life
        if own_step < _NEVER:
            until = min(until, step_end(own_step, reach) - own_gap)
        for other in range(streams):
            step = int(paths(memory)[other * PATH + 1])
            if other != own and step < _NEVER:
                until = min(until, step_end(step, reach) - paths(memory)[other * PATH])
        product = 1.0
        for other in range(streams):
            if other != own:
                at = other * PATH
                step = int(paths(memory)[at + 1])
                cell = cell_of(streams, own, other, count_step(clues(memory)[base + other]), step, own_step)
                paths(memory)[at + 3] += chances(memory)[cell] * paths(memory)[at + 2] * (until - stay)
                product *= paths(memory)[at + 4] + paths(memory)[at + 3]
                if step < _NEVER and until >= step_end(step, reach) - paths(memory)[at]:
                    paths(memory)[at + 1] = step + 1
        best = max(best, (product - there) / max(until, LEAST * reach))
        if own_step < _NEVER and until >= step_end(own_step, reach) - own_gap:
            own_step += 1
        stay = until
    return float(rounded(best))


@kernel
def _reprice(memory: Memory, group: int) -> None:
    price = _expected(memory, group)
    if groups(memory)[group].price != price:
        groups(memory)[group].price = price
        if groups(memory)[group].members > 0:
            promote(memory, 0, group)


@kernel
def set_clues(memory: Memory, ring: int, facts: Floats) -> None:
    """A key has come: its classes know what is known of it, and wait anew. Of two streams those that did so before the join are done."""
    now = _now(memory)
    group = ring
    while True:
        if memory.streams > 2 or waits(memory)[group].instant != memory.instant:
            for number in range(2 * memory.streams):
                clues(memory)[group * 2 * memory.streams + number] = facts[number]
            rest(memory, group)
            waits(memory)[group].event = now
            waits(memory)[group].instant = memory.instant
            enqueue(memory, group, 0)
            _reprice(memory, group)
        group = groups(memory)[group].kin
        if group == ring:
            return


@kernel
def foresee(memory: Memory, batch: BatchColumns, begin: int, end: int) -> None:
    """Of two streams: price what is there of the keys of an instant before the join, so that who is turned away is measured by that."""
    for at in range(begin, end):
        ring = find_ring(memory, batch.key[at])
        if ring >= 0:
            set_clues(memory, ring, batch.rates[at])
        _look_ahead(memory, batch, at)


@inlined
def _look_ahead(memory: Memory, batch: BatchColumns, at: int) -> None:
    """Ask for the place of a key that comes soon, and for the class in the place of one that comes sooner; most often it is its own."""
    if at + 2 * _AHEAD < len(batch.key):
        touch_table(memory, place_of(memory.table_size, batch.key[at + 2 * _AHEAD]))
        _fetch(memory, int(table(memory)[place_of(memory.table_size, batch.key[at + _AHEAD])]))


@kernel
def wake(memory: Memory) -> None:
    """Price the classes anew that have waited long enough; all of them when what was learned has been put into use."""
    if memory.renewed:
        memory.renewed = 0
        for group in range(memory.groups_size):
            if groups(memory)[group].kin >= 0 and groups(memory)[group].members > 0:
                price = _expected(memory, group)
                if groups(memory)[group].price != price:
                    groups(memory)[group].price = price
                    reseat(memory, 0, group)
        crown_all(memory)
    now = _now(memory)
    for step in range(TIMERS - 1, -1, -1):
        bound = step_end(step, memory.reach)
        group = queues(memory)[2 * step]
        while group >= 0 and waits(memory)[group].event + bound <= now:
            _fetch(memory, int(waits(memory)[group].after))
            rest(memory, group)
            after = max(step + 1, gap_step(now - waits(memory)[group].event, memory.reach))  # far from 1970 differences are not exact
            if after < TIMERS:
                enqueue(memory, group, after)
            _reprice(memory, group)
            group = queues(memory)[2 * step]


@inlined
def _fetch(memory: Memory, group: int) -> None:
    """Ask for all that a new price of a class, which may be none (-1), will look at."""
    touch_wait(memory, group)
    touch_group(memory, group)
    touch_group_end(memory, group)
    touch_clue(memory, group * 2 * memory.streams)
    touch_key(memory, group)
    touch_holder(memory, group)


@kernel
def enqueue(memory: Memory, group: int, step: int) -> None:
    """Let a class wait until this step of its gap ends."""
    last = queues(memory)[2 * step + 1]
    waits(memory)[group].step = step
    waits(memory)[group].before = last
    waits(memory)[group].after = -1
    if last < 0:
        queues(memory)[2 * step] = group
    else:
        waits(memory)[last].after = group
    queues(memory)[2 * step + 1] = group


@kernel
def enqueue_all(memory: Memory, group: Ints, step: Ints) -> None:
    """Let these classes wait, one after the other; those with a step below 0 wait for nothing."""
    for at in range(len(group)):
        if step[at] >= 0:
            enqueue(memory, group[at], step[at])


@kernel
def rest(memory: Memory, group: int) -> None:
    """Take a class out of its queue, if it is in one."""
    waits(memory)[group].instant = -1
    step = waits(memory)[group].step
    if step < 0:
        return
    before, after = waits(memory)[group].before, waits(memory)[group].after
    if before < 0:
        queues(memory)[2 * step] = after
    else:
        waits(memory)[before].after = after
    if after < 0:
        queues(memory)[2 * step + 1] = before
    else:
        waits(memory)[after].before = before
    waits(memory)[group].step = -1


@kernel
def expected_value(memory: Memory, batch: BatchColumns, at: int) -> float:
    """What an output of an arrival is worth with partners of the mean importance of its key, per byte where bytes count."""
    streams = memory.streams
    value = 1.0
    if memory.objective > 0:
        value = start(memory.objective)
        for stream in range(streams):
            own = stream == batch.stream[at]
            value = fold(memory.objective, value, batch.importance[at] if own else batch.rates[at, 2 * streams + stream])
        value = finish(memory.objective, value, streams)
    return float(value / batch.weight[at] if memory.weighted else value)
