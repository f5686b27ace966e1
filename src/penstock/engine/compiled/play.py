"""The compiled loop: one instant after another (docs/readings.md, instants).

    buffered    expire   join   score   part   shed
    inplace     expire          score          shed   join   part

Where streams promise how many outputs a tuple takes part in (`matches`), those that are done part with memory after the join.

State lives in `Memory`; a batch is a handful of columns. The loop stops early when a structure must grow, before it touches the
instant that needs the room, and is called again. Where the log of outputs is full it pauses in the middle of an instant's join
(`Logs.pause`): between two arrivals of two streams, whose matches are never more than the memory holds; for more streams, and in place,
between two outputs. It goes on exactly there when it is called again with the same logs and scratch.
"""

from __future__ import annotations

from penstock.core.compiled import kernel
from penstock.core.trace import Ints
from penstock.core.window import NEVER
from penstock.engine.compiled.batch_columns import BatchColumns
from penstock.engine.compiled.chances import expected_value, foresee, wake
from penstock.engine.compiled.class_prices import count_matches, set_rates, spoil
from penstock.engine.compiled.dgl_gains import begin_to_lose, gain_and_lose
from penstock.engine.compiled.facts.endings import end_facts
from penstock.engine.compiled.facts.prefilter import end_of_instant, is_filtered, move_clocks, pass_over
from penstock.engine.compiled.joining.by_keys import join_by_keys, join_inplace_by_keys
from penstock.engine.compiled.joining.by_links import join_by_links, join_inplace_by_links
from penstock.engine.compiled.key_clocks import PER_KEY, counts_keys, leaves_at
from penstock.engine.compiled.linked.partners import weigh_streams
from penstock.engine.compiled.logs import ARRIVAL_AT, Logs
from penstock.engine.compiled.memory import (
    claim_class,
    find_ring,
    horizon_of,
    next_expired,
    unlink,
)
from penstock.engine.compiled.moves import enter, fetch_next, forget, leave, part_if_linked, victim
from penstock.engine.compiled.order.kinetic import refresh
from penstock.engine.compiled.order.ranking import (
    ARRIVAL,
    CHANCES,
    FROM_COLUMN,
    FROM_EXPECTED,
    FROM_IMPORTANCE,
    GAIN_LOSS,
    PRICE,
    RATES,
    SCORE,
    STAY,
    full_price_of,
    has_rates,
    is_counted,
    is_kinetic,
)
from penstock.engine.compiled.order.tournament import PATIENCE, admit_waiting, hold, keep_time, promote
from penstock.engine.compiled.parting import part_with_done
from penstock.engine.compiled.pushed_out import push_out
from penstock.engine.compiled.slot_price import observe, renew_slot_price
from penstock.engine.compiled.state import (
    Memory,
    fresh,
    groups,
    ladder,
    lanes,
    marks,
    pools,
    ranks,
    slots,
    weights,
)
from penstock.engine.compiled.turned_away import hold_where_needed, keys_differ, next_turned_away, ranks_below, will_shed


@kernel
def play(
    memory: Memory,
    budget_times: Ints,
    budget_caps: Ints,
    batch: BatchColumns,
    begin: int,
    until: int,
    logs: Logs,
    scratch: Ints,
) -> int:
    """Play instants from row `begin` until one begins at or after row `until`, needs more room, or pauses; where it stopped."""
    inplace = memory.inplace == 1
    position = begin
    while position < until:
        paused = logs.pause[ARRIVAL_AT] >= 0
        if memory.related and not paused:
            position = pass_over(memory, batch, position, until)
            if position == until:
                break
        time = batch.time[position]
        end = end_of_instant(memory, batch, position)
        if not paused:
            if not _has_room(memory, logs, end - position):
                break
            _expire(memory, budget_times, budget_caps, batch, position, end, logs)
        ranked_at_once = memory.prices == RATES or (memory.prices == CHANCES and memory.kind == PRICE and memory.streams == 2)
        ranked_at_once = ranked_at_once and not memory.limited  # who parts may make room for anybody
        may_turn_away = ranked_at_once and end - position <= PATIENCE and (memory.indexed != 0 or keys_differ(batch.key, position, end))
        if not paused or not inplace:
            if memory.indexed:
                full = join_by_links(memory, budget_caps[memory.budget_step], batch, position, end, may_turn_away, logs, scratch)
            else:
                full = join_by_keys(memory, budget_caps[memory.budget_step], batch, position, end, may_turn_away, logs, scratch)
            if full:
                return position
            _score(memory, batch, position, end, logs)
            if memory.limited and not inplace:
                part_with_done(memory, logs)
            _shed(memory, budget_caps, batch, position, end, may_turn_away, logs)
        if inplace:
            if memory.indexed:
                full = join_inplace_by_links(memory, batch, position, end, logs, scratch)
            else:
                full = join_inplace_by_keys(memory, batch, position, end, logs, scratch)
            if full:
                return position
        if memory.limited and inplace:
            part_with_done(memory, logs)
        _note(memory, time, logs)
        if memory.related:
            fetch_next(memory)
        position = end
    return position


@kernel
def _has_room(memory: Memory, logs: Logs, size: int) -> bool:
    """Whether an instant of so many arrivals fits into the arrays and logs, whatever happens in it."""
    if memory.slots_size - memory.live < size or memory.groups_size - memory.live_groups < size or memory.fresh_size < size:
        return False
    if memory.past_size > 1 and memory.past_size - memory.n_past < size:
        return False
    needed = logs.needed
    for log in range(1, len(logs.lengths)):
        needed[log] = logs.lengths[log] + memory.live + size
    return not (
        (logs.sheds.shape[1] > 0 and len(logs.sheds) < needed[1])
        or (logs.expired.shape[1] > 0 and len(logs.expired) < needed[2])
        or (logs.retained.shape[1] > 0 and len(logs.retained) < needed[3])
        or (logs.series.shape[1] > 0 and len(logs.series) < needed[4])
        or (logs.done.shape[1] > 0 and len(logs.done) < needed[5])
    )


@kernel
def _expire(memory: Memory, budget_times: Ints, budget_caps: Ints, batch: BatchColumns, begin: int, end: int, logs: Logs) -> None:
    """Step 1: move the clocks on, drop what has passed, and prepare what the instant will need."""
    memory.first_row = memory.next_row + begin
    memory.spared = memory.first_row if memory.newcomer_safe else NEVER
    memory.instant += 1
    memory.n_input += end - begin
    for at in range(begin, end):
        move_clocks(memory, batch, at)
        if is_filtered(memory, batch, at):
            memory.n_filtered += 1
        else:
            lanes(memory)[batch.stream[at]].arrivals += 1
    logs.lengths[2] = expire(memory, memory.instant - 1, logs.expired, logs.lengths[2], logs.expired.shape[1] > 0)
    if counts_keys(memory):
        push_out(memory, batch, begin, end, logs)
    keep_time(memory)
    if memory.prices == CHANCES:
        wake(memory)
        if memory.streams == 2:
            foresee(memory, batch, begin, end)
    step = memory.budget_step
    while step + 1 < len(budget_times) and budget_times[step + 1] <= memory.now:
        step += 1
    memory.budget_step = step
    hold_where_needed(memory, batch, begin, end, budget_caps, step)
    if memory.kind == STAY:
        for which in range(budget_caps.shape[1]):
            if will_shed(memory, batch, begin, end, which, budget_caps[step, which]):
                renew_slot_price(memory, which)
    if memory.tournaments_held and is_kinetic(memory):
        for tree in range(memory.trees):
            refresh(memory, tree)
    if memory.mn_of_memory == 1:
        for at in range(begin, begin if memory.indexed else end):
            spoil(memory, claim_class(memory, find_ring(memory, batch.key[at]), batch.stream[at], batch.key[at]))
        count_matches(memory)
        if memory.massed:
            weigh_streams(memory)


@kernel
def _score(memory: Memory, batch: BatchColumns, begin: int, end: int, logs: Logs) -> None:
    """Step 3: bring prices up to date, and give every arrival its score and its place in the ranking."""
    kind, patient = memory.kind, end - begin <= PATIENCE
    memory.patient = patient and not memory.banded and not memory.newcomer_safe
    if memory.mn_of_memory == 0:
        if memory.paired or is_counted(memory):
            count_matches(memory)
        if memory.massed and not memory.growing:
            weigh_streams(memory)
    if kind == GAIN_LOSS:
        memory.patient = 0
        gain_and_lose(memory, batch, begin, end, memory.first_row)
        memory.patient = patient
    for at in range(begin, end):
        slot = fresh(memory)[at - begin]
        stream = batch.stream[at]
        if slot >= 0 and lanes(memory)[stream].in_rows and leaves_at(memory, slot) <= lanes(memory)[stream].clock:
            group = slots(memory)[slot].group
            part_if_linked(memory, slot)
            unlink(memory, slot)
            if PRICE <= kind < SCORE and not memory.banded:
                promote(memory, 0, group)
            forget(memory, group)
            fresh(memory)[at - begin] = -2
            memory.n_expired += 1
            if logs.expired.shape[1] > 0:
                logs.expired[logs.lengths[2], 0] = memory.next_row + at
                logs.expired[logs.lengths[2], 1] = memory.instant
                logs.lengths[2] += 1
    for at in range(begin, end):
        slot = fresh(memory)[at - begin]
        if slot < 0:
            asks = (memory.half_life > 0 and not memory.indexed) or (
                memory.prices == CHANCES and memory.streams > 2
            )  # of two streams `foresee` has done it
            ring = find_ring(memory, batch.key[at]) if asks else -1
            if ring >= 0:
                set_rates(memory, ring, batch.rates[at])
            continue
        stream = batch.stream[at]
        group = slots(memory)[slot].group
        if memory.banded:
            if memory.prices == RATES:
                ladder(memory)[slot].band = batch.band[at]
        elif memory.indexed:
            if memory.prices == RATES and not memory.growing:
                groups(memory)[group].price = batch.score[at]
        elif has_rates(memory):
            set_rates(memory, group, batch.rates[at])
        if kind == ARRIVAL:
            marks(memory)[slot] = memory.instant
        elif kind >= SCORE:
            score = batch.importance[at]
            if memory.first_score == FROM_COLUMN or memory.tops:
                score = batch.score[at]
            elif memory.first_score == FROM_EXPECTED:
                score = expected_value(memory, batch, at)
            elif memory.first_score != FROM_IMPORTANCE:
                score *= full_price_of(memory, group)
            ranks(memory)[slot].score = score
            if kind == GAIN_LOSS:
                begin_to_lose(memory, slot)
        if memory.weighted:
            weights(memory)[slot] = batch.weight[at]
        pools(memory)[lanes(memory)[stream].pool] += batch.weight[at] if memory.weighted else 1
        if not memory.newcomer_safe:
            enter(memory, slot)


@kernel
def _shed(memory: Memory, budget_caps: Ints, batch: BatchColumns, begin: int, end: int, may_turn_away: bool, logs: Logs) -> None:
    """Step 4: let the lowest go, arrivals that were turned away among them, until each pool is within its budget."""
    sheds, lengths, base_row, step = logs.sheds, logs.lengths, memory.next_row, memory.budget_step
    for which in range(budget_caps.shape[1]):
        before = memory.n_shed
        sparing = memory.newcomer_safe == 1
        memory.spared = memory.first_row if sparing else NEVER
        at = next_turned_away(memory, which, batch, begin, end) if may_turn_away else -1
        while at >= 0 or pools(memory)[which] > budget_caps[step, which]:
            slot = victim(memory, which) if pools(memory)[which] > budget_caps[step, which] else -1
            if slot < 0 and at < 0:
                if not sparing:
                    break  # nobody is left to shed
                sparing = False  # the instant alone is too large
                _let_in(memory, batch, which, begin, end)
                continue
            if slot < 0 or (at >= 0 and ranks_below(memory, batch, at, slot, base_row)):
                fresh(memory)[at - begin] = -2
                row = base_row + at
                at = next_turned_away(memory, which, batch, begin, end)
            else:
                row = slots(memory)[slot].row
                leave(memory, slot)
                if row >= memory.first_row:
                    fresh(memory)[row - memory.first_row] = -2
            if sheds.shape[1] > 0:
                sheds[lengths[1], 0] = row
                sheds[lengths[1], 1] = memory.instant
                lengths[1] += 1
            memory.n_shed += 1
        if sparing:
            _let_in(memory, batch, which, begin, end)
        if memory.kind == STAY and memory.n_shed > before:
            observe(memory, which)
    admit_waiting(memory)


@kernel
def _note(memory: Memory, time: int, logs: Logs) -> None:
    """Write down what is held at the end of the instant."""
    used = 0
    for which in range(memory.pools_size):
        used += pools(memory)[which]
    memory.peak = max(memory.peak, used)
    if logs.series.shape[1] > 0:
        logs.series[logs.lengths[4], 0] = time
        for stream in range(memory.streams):
            logs.series[logs.lengths[4], 1 + stream] = lanes(memory)[stream].held
        logs.lengths[4] += 1
    if logs.retained.shape[1] > 0:
        for stream in range(memory.streams):
            slot = lanes(memory)[stream].oldest
            while slot >= 0:
                logs.retained[logs.lengths[3], 0] = memory.instant
                logs.retained[logs.lengths[3], 1] = slots(memory)[slot].row
                logs.lengths[3] += 1
                slot = slots(memory)[slot].newer


@kernel
def expire(memory: Memory, instant: int, log: Ints, logged: int, keep: bool) -> int:
    """Set the clocks, and drop every tuple whose window has passed since this instant; the new length of the log."""
    _set_clocks(memory)
    horizon = horizon_of(memory)
    slot = next_expired(memory, horizon)
    while slot >= 0:
        if keep:
            log[logged, 0] = slots(memory)[slot].row
            log[logged, 1] = instant
            logged += 1
        memory.n_expired += 1
        leave(memory, slot)
        slot = next_expired(memory, horizon)
    return logged


@kernel
def _set_clocks(memory: Memory) -> None:
    """What the lives of tuples and of facts are measured by is now."""
    if memory.related:
        end_facts(memory)
    for stream in range(memory.streams):
        in_rows = lanes(memory)[stream].in_rows
        lanes(memory)[stream].clock = 0 if in_rows == PER_KEY else lanes(memory)[stream].arrivals if in_rows else memory.now


@kernel
def trim(memory: Memory, caps: Ints, log: Ints) -> int:
    """Between two batches: shed down to a budget that has become smaller; the length of the log."""
    logged = 0
    keep_time(memory)
    hold(memory)
    if memory.related:
        _set_clocks(memory)  # rows that nothing links may have moved time on since the last instant
    if is_counted(memory) or memory.paired:
        count_matches(memory)
    if memory.massed and not memory.growing:
        weigh_streams(memory)
    for which in range(len(caps)):
        if memory.kind == STAY and pools(memory)[which] > caps[which]:
            renew_slot_price(memory, which)
    if is_kinetic(memory):
        for tree in range(memory.trees):
            refresh(memory, tree)
    for which in range(len(caps)):
        while pools(memory)[which] > caps[which]:
            slot = victim(memory, which)
            log[logged, 0] = slots(memory)[slot].row
            log[logged, 1] = memory.instant
            logged += 1
            leave(memory, slot)
            memory.n_shed += 1
    return logged


@kernel
def _let_in(memory: Memory, batch: BatchColumns, which: int, begin: int, end: int) -> None:
    """Let the arrivals of an instant that were spared compete in their pool."""
    memory.spared = NEVER
    for at in range(begin, end):
        if fresh(memory)[at - begin] >= 0 and lanes(memory)[batch.stream[at]].pool == which:
            enter(memory, fresh(memory)[at - begin])


@kernel
def dismiss(memory: Memory, chosen: Ints) -> None:
    """Let these slots go, uncounted."""
    for slot in chosen:
        leave(memory, slot)
