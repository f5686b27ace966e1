"""The join step: what an arrival makes together with memory and the earlier arrivals of its instant.

Each output is found once, at its last arrival in row order (the *pivot*). While everything is in order, the pivot's matches are the
whole classes of the other streams, so counting them takes no walk. Otherwise each combination is checked against the definition:
with t the largest time in it, t < expiry of every member (members of a window counted in rows were checked when they expired).
"""

from __future__ import annotations

from penstock.core.compiled import inlined, kernel
from penstock.core.trace import Floats, Ints
from penstock.core.value import finish, fold, start
from penstock.core.window import NEVER
from penstock.engine.compiled.logs import HALFWAY
from penstock.engine.compiled.memory import in_ring
from penstock.engine.compiled.order.ranking import PATTERNS
from penstock.engine.compiled.patterns import credit, credit_all, mark_finished
from penstock.engine.compiled.state import Memory, arrived, ends, fresh, groups, ladder, lanes, met, parting, ranks, slots


@inlined
def combinations(memory: Memory, ring: int, stream: int) -> int:
    """How many combinations the other streams hold for a tuple of `stream`, by the ring of its key."""
    found = 0
    product = 1
    group = ring
    while group >= 0:
        if groups(memory)[group].stream != stream:
            product *= groups(memory)[group].members
            found += 1
        group = groups(memory)[group].kin
        if group == ring:
            break
    return product if found == memory.streams - 1 else 0


@inlined
def count_whole(memory: Memory, ring: int, stream: int, row: int, now: int) -> None:
    """Count the outputs of a pivot whose matches are whole classes, without making them."""
    outputs = combinations(memory, ring, stream)
    memory.made += outputs
    if memory.prices == PATTERNS and outputs > 0:
        credit_all(memory, ring, stream, row, outputs)
    if memory.limited and outputs > 0:
        _meet_all(memory, ring, stream, outputs)
    if now >= memory.start:
        memory.n_output += outputs
        memory.value += outputs * memory.value_of_one


@kernel
def meet(memory: Memory, slot: int, outputs: int) -> None:
    """A tuple took part in outputs: with as many as its stream promises at most (`matches`) it is done."""
    most = lanes(memory)[slots(memory)[slot].stream].most
    before = met(memory)[slot]
    met(memory)[slot] = before + outputs
    if before < most <= before + outputs:
        parting(memory)[memory.n_parting] = slot
        memory.n_parting += 1


@kernel
def _meet_all(memory: Memory, ring: int, stream: int, outputs: int) -> None:
    """The same for all tuples with the key of a pivot of `stream`, but itself: each class shares the outputs equally."""
    group = ring
    while True:
        other = groups(memory)[group].stream
        if other != stream and lanes(memory)[other].most < NEVER:
            slot = groups(memory)[group].head
            while slot >= 0:
                meet(memory, int(slot), outputs // groups(memory)[group].members)
                slot = slots(memory)[slot].after
        group = groups(memory)[group].kin
        if group == ring:
            return


@kernel
def gather(memory: Memory, ring: int, stream: int, first_row: int, picks: Ints, picked: Ints) -> None:
    """List the pivot's partners by stream: the slots of tuples from rows before `first_row`."""
    for other in range(memory.streams):
        picked[other] = 0
    group = ring
    while group >= 0:
        other = groups(memory)[group].stream
        slot = groups(memory)[group].head if other != stream else -1
        while slot >= 0:
            if slots(memory)[slot].row < first_row:
                picks[other, picked[other]] = slot
                picked[other] += 1
            slot = slots(memory)[slot].after
        group = groups(memory)[group].kin
        if group == ring:
            break


@kernel
def walk_pairs(
    memory: Memory,
    ring: int,
    stream: int,
    time: int,
    row: int,
    expiry: int,
    importance: float,
    log: Ints,
    logged: int,
    keep: bool,
) -> int:
    """Make the outputs of a pivot among two streams, by walking the other one's class.

    The new length of the log, which has room.
    """
    other = 1 - stream
    group = in_ring(memory, ring, other)
    if group < 0:
        return logged
    objective = memory.objective
    limit = NEVER if lanes(memory)[stream].in_rows else expiry
    slot = groups(memory)[group].head
    outputs = 0
    value = 0.0
    while slot >= 0:
        latest = max(time, slots(memory)[slot].time)
        if latest < limit and (lanes(memory)[other].in_rows or latest < slots(memory)[slot].expiry):
            memory.made += 1
            if memory.prices == PATTERNS:
                credit(memory, arrived(memory)[row - memory.first_row], 1)
                credit(memory, ladder(memory)[slot].band, 1)
                mark_finished(memory, int(slot), row)
            if memory.limited:
                meet(memory, int(slot), 1)
            if keep:
                log[logged, 0] = latest
                log[logged, 1 + stream] = row
                log[logged, 1 + other] = slots(memory)[slot].row
                logged += 1
            if latest >= memory.start:
                outputs += 1
                if objective > 0:
                    folded = fold(objective, fold(objective, start(objective), importance), ranks(memory)[slot].importance)
                    value += finish(objective, folded, 2)
        slot = slots(memory)[slot].after
    memory.n_output += outputs
    memory.value += value if objective > 0 else outputs * memory.value_of_one
    return logged


@kernel
def walk_combinations(
    memory: Memory,
    batch_stream: Ints,
    batch_time: Ints,
    batch_expiry: Ints,
    batch_importance: Floats,
    pivot: int,
    next_row: int,
    picks: Ints,
    picked: Ints,
    chosen: Ints,
    members: Ints,
    log: Ints,
    logged: int,
    keep: bool,
    pause: Ints,
) -> int:
    """Make the outputs of a pivot among any number of streams from gathered partners (negative: rows of the batch, ~position).

    The new length of the log. Where it is full, `pause` says so, and the next call goes on with the combination that is `chosen`.
    """
    streams = memory.streams
    stream = batch_stream[pivot]
    if pause[HALFWAY] == 0:
        for other in range(streams):
            chosen[other] = 0
            if other != stream and picked[other] == 0:
                return logged
    pause[HALFWAY] = 0
    done = False
    while not done:
        if keep and logged == len(log):
            pause[HALFWAY] = 1
            return logged
        for member in range(streams):
            members[member] = ~pivot if member == stream else picks[member, chosen[member]]
        logged = make_output(memory, batch_time, batch_expiry, batch_importance, pivot, next_row, members, log, logged, keep, 1.0)
        done = True
        for member in range(streams - 1, -1, -1):
            if member != stream:
                chosen[member] += 1
                if chosen[member] < picked[member]:
                    done = False
                    break
                chosen[member] = 0
    return logged


@kernel
def make_output(
    memory: Memory,
    batch_time: Ints,
    batch_expiry: Ints,
    batch_importance: Floats,
    pivot: int,
    next_row: int,
    members: Ints,
    log: Ints,
    logged: int,
    keep: bool,
    weight: float,
) -> int:
    """Make one output, if its members met in their windows: they are slots or, negative, rows of the batch. The new length of the log.

    Its value is multiplied by `weight`.
    """
    streams = memory.streams
    objective = memory.objective
    latest = batch_time[pivot]
    limit = NEVER
    folded = start(objective)
    for member in range(streams):
        pick = members[member]
        if pick >= 0:
            time, expiry, importance = (
                slots(memory)[pick].time,
                ends(memory)[pick] if memory.related else slots(memory)[pick].expiry,
                ranks(memory)[pick if objective > 0 else 0].importance,
            )
        else:
            time, expiry, importance = batch_time[~pick], batch_expiry[~pick], batch_importance[~pick]
        latest = max(latest, time)
        if not lanes(memory)[member].in_rows:
            limit = min(limit, expiry)
        folded = fold(objective, folded, importance)
    if latest >= limit:
        return logged
    memory.made += 1
    if memory.prices == PATTERNS:
        for member in range(streams):
            pick = members[member]
            at = next_row + ~pick - memory.first_row
            credit(memory, ladder(memory)[pick].band if pick >= 0 else arrived(memory)[at], 1)
            if pick >= 0:
                mark_finished(memory, pick, next_row + pivot)
            elif memory.inplace and fresh(memory)[at] >= 0:
                mark_finished(memory, int(fresh(memory)[at]), next_row + pivot)
    if memory.limited:
        for member in range(streams):
            pick = members[member]
            if pick < 0 and memory.inplace:  # it may have been shed; elsewhere the pivot is not there yet
                pick = int(fresh(memory)[next_row + ~pick - memory.first_row])
            if pick >= 0:
                meet(memory, pick, 1)
    if keep:
        log[logged, 0] = latest
        for member in range(streams):
            pick = members[member]
            log[logged, 1 + member] = slots(memory)[pick].row if pick >= 0 else next_row + ~pick
        logged += 1
    if latest >= memory.start:
        memory.n_output += 1
        memory.value += weight * (finish(objective, folded, streams) if objective > 0 else memory.value_of_one)
    return logged
