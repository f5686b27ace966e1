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
from penstock.core.window import DEAD, NEVER
from penstock.engine.compiled.batch_columns import BatchColumns
from penstock.engine.compiled.chances import expected_value, foresee, wake
from penstock.engine.compiled.class_prices import count_matches, raise_yield, set_rates, spoil, spoil_partners
from penstock.engine.compiled.dgl_gains import begin_to_lose, gain_and_lose
from penstock.engine.compiled.key_clocks import PER_KEY, count_in, counts_keys, leaves_at
from penstock.engine.compiled.linked.partners import weigh_streams
from penstock.engine.compiled.logs import ARRIVAL_AT, HALFWAY, MADE_BEFORE, Logs
from penstock.engine.compiled.memory import (
    bit_of,
    claim_class,
    claim_empty,
    find_ring,
    holders_of,
    horizon_of,
    in_ring,
    link,
    next_expired,
    unlink,
)
from penstock.engine.compiled.moves import enter, forget, leave, part_if_linked, victim
from penstock.engine.compiled.order.heaps import make_heap
from penstock.engine.compiled.order.kinetic import refresh
from penstock.engine.compiled.order.ranking import (
    ARRIVAL,
    CHANCES,
    FROM_COLUMN,
    FROM_EXPECTED,
    FROM_IMPORTANCE,
    GAIN_LOSS,
    OUTPUTS,
    PATTERNS,
    PRICE,
    RATES,
    SCORE,
    STAY,
    TUPLES,
    full_price_of,
    has_rates,
    is_counted,
    is_kinetic,
)
from penstock.engine.compiled.order.tournament import PATIENCE, admit_waiting, hold, keep_time, promote
from penstock.engine.compiled.patterns import give_pattern, note_arrival
from penstock.engine.compiled.probe import count_whole, gather, meet, walk_combinations, walk_pairs
from penstock.engine.compiled.pushed_out import push_out
from penstock.engine.compiled.search import join_by_links, join_inplace_by_links
from penstock.engine.compiled.slot_price import observe, use_toll
from penstock.engine.compiled.state import (
    Memory,
    arrived,
    fresh,
    groups,
    ladder,
    lanes,
    marks,
    met,
    parting,
    pools,
    ranks,
    slots,
    weights,
)
from penstock.engine.compiled.turned_away import hold_where_needed, is_turned_away, keys_differ, next_turned_away, ranks_below, will_shed


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
        time = batch.time[position]
        end = position + 1
        while end < len(batch.time) and batch.time[end] == time:
            end += 1
        paused = logs.pause[ARRIVAL_AT] >= 0
        if not paused:
            if not _has_room(memory, logs, end - position):
                break
            _expire(memory, budget_times, budget_caps, batch, position, end, logs)
        prompt = memory.prices == RATES or (memory.prices == CHANCES and memory.kind == PRICE and memory.streams == 2)
        prompt = prompt and not memory.limited  # who parts may make room for anybody
        door = prompt and end - position <= PATIENCE and (memory.indexed != 0 or keys_differ(batch.key, position, end))
        if not paused or not inplace:
            if memory.indexed:
                full = join_by_links(memory, budget_caps[memory.budget_step], batch, position, end, door, logs, scratch)
            else:
                full = _join(memory, budget_caps[memory.budget_step], batch, position, end, door, logs, scratch)
            if full:
                return position
            _score(memory, batch, position, end, logs)
            if memory.limited and not inplace:
                _part(memory, logs)
            _shed(memory, budget_caps, batch, position, end, door, logs)
        if inplace:
            if memory.indexed:
                full = join_inplace_by_links(memory, batch, position, end, logs, scratch)
            else:
                full = _join_inplace(memory, batch, position, end, logs, scratch)
            if full:
                return position
        if memory.limited and inplace:
            _part(memory, logs)
        _note(memory, time, logs)
        position = end
    return position


@kernel
def _has_room(memory: Memory, logs: Logs, size: int) -> bool:
    """Whether an instant of so many arrivals fits into the arrays and logs, whatever happens in it."""
    if memory.slots_size - memory.live < size or memory.groups_size - memory.live_groups < size or memory.fresh_size < size:
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
    memory.now = max(memory.now, batch.time[begin])
    for at in range(begin, end):
        stream = batch.stream[at]
        lanes(memory)[stream].arrivals += 1
        lanes(memory)[stream].seen = max(lanes(memory)[stream].seen, batch.time[begin])
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
                use_toll(memory, which)
    if memory.judged and is_kinetic(memory):
        for tree in range(memory.trees):
            refresh(memory, tree)
    if memory.mn_of_memory == 1:
        for at in range(begin, end):
            spoil(memory, claim_class(memory, find_ring(memory, batch.key[at]), batch.stream[at], batch.key[at]))
        count_matches(memory)


@kernel
def _join(memory: Memory, caps: Ints, batch: BatchColumns, begin: int, end: int, door: bool, logs: Logs, scratch: Ints) -> bool:
    """Step 2: join each arrival with memory and with those before it, and link it into memory; whether the log of outputs is full."""
    outputs, lengths, needed, pause = logs.outputs, logs.lengths, logs.needed, logs.pause
    keep_outputs = outputs.shape[1] > 0
    streams, kind, inplace = memory.streams, memory.kind, memory.inplace == 1
    picks, picked, chosen, members = scratch[:streams], scratch[streams], scratch[streams + 1], scratch[streams + 2]
    base_row, time, now, horizon = memory.next_row, batch.time[begin], memory.now, horizon_of(memory)
    in_order = time == now and horizon == now
    for at in range(max(begin, pause[ARRIVAL_AT]), end):
        stream = batch.stream[at]
        in_rows = lanes(memory)[stream].in_rows
        by_key = in_rows == PER_KEY
        ring = find_ring(memory, batch.key[at])
        bits = holders_of(memory, ring) | bit_of(memory, stream)
        joins = not inplace and ring >= 0 and bits & memory.full == memory.full  # else a partner is missing (Kwon 2.2)
        halfway = pause[HALFWAY] == 1
        own = 0  # outputs
        away = halfway and fresh(memory)[at - begin] == -1
        if not halfway:
            if keep_outputs and joins and streams == 2:
                needed[0] = groups(memory)[in_ring(memory, ring, 1 - stream)].members
                if lengths[0] + needed[0] > len(outputs):
                    pause[ARRIVAL_AT] = at
                    return True
            if memory.prices == PATTERNS:
                note_arrival(memory, at - begin, stream, bits)
            if door and (not in_rows or (by_key and batch.expiry[at] != DEAD)):
                if memory.banded or in_ring(memory, ring, stream) < 0:
                    away = is_turned_away(memory, batch, begin, at, caps)
        if joins:
            made = pause[MADE_BEFORE] if halfway else memory.made
            memory.attempts += not halfway
            if in_order and not keep_outputs and memory.objective == 0:
                count_whole(memory, ring, stream, base_row + at, now)
            elif streams == 2:
                importance = batch.importance[at] if memory.objective > 0 else 1.0
                lengths[0] = walk_pairs(
                    memory, ring, stream, time, base_row + at, batch.expiry[at], importance, outputs, lengths[0], keep_outputs
                )
            else:
                if not halfway:
                    gather(memory, ring, stream, base_row + at, picks, picked)
                lengths[0] = walk_combinations(
                    memory, batch.stream, batch.time, batch.expiry, batch.importance, at, base_row, picks, picked, chosen,
                    members, outputs, lengths[0], keep_outputs, pause,
                )  # fmt: skip
                if pause[HALFWAY] == 1:
                    pause[ARRIVAL_AT], pause[MADE_BEFORE] = at, made
                    fresh(memory)[at - begin] = -1 if away else 0
                    return True
            own = memory.made - made
            if memory.prices == OUTPUTS and own > 0:
                raise_yield(memory, ring, own)
        if not in_rows and batch.expiry[at] <= horizon:
            memory.n_late += 1
        if away:
            fresh(memory)[at - begin] = -1
            if by_key and in_ring(memory, ring, stream) >= 0:
                count_in(memory, in_ring(memory, ring, stream), batch.expiry[at])
            continue
        group = claim_class(memory, ring, stream, batch.key[at])
        if time < now and kind >= SCORE:
            make_heap(memory, group)
        if memory.prices == OUTPUTS and groups(memory)[group].members == 0:
            groups(memory)[group].price = groups(memory)[ring].price if ring >= 0 else 0.0
            groups(memory)[ring if ring >= 0 else group].bits |= bit_of(memory, stream)  # the class may have outlived its tuples
        expiry = count_in(memory, group, batch.expiry[at]) if by_key else batch.expiry[at]
        slot = link(memory, group, time, base_row + at, expiry)
        fresh(memory)[at - begin] = slot
        if memory.limited:
            met(memory)[slot] = 0
            meet(memory, slot, own)
        if memory.prices == PATTERNS:
            give_pattern(memory, slot, arrived(memory)[at - begin])
        if memory.objective > 0 or kind >= SCORE:
            ranks(memory)[slot].importance = batch.importance[at]
        if is_counted(memory):
            spoil_partners(memory, group)
            if memory.mn_of_memory == 0:
                spoil(memory, group)
    pause[ARRIVAL_AT] = -1
    return False


@kernel
def _score(memory: Memory, batch: BatchColumns, begin: int, end: int, logs: Logs) -> None:
    """Step 3: bring prices up to date, and give every arrival its score and its place in the ranking."""
    kind, patient = memory.kind, end - begin <= PATIENCE
    memory.patient = patient and not memory.banded and not memory.newcomer_safe
    if memory.paired or (is_counted(memory) and memory.mn_of_memory == 0):
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
            if memory.first_score == FROM_COLUMN:
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
def _shed(memory: Memory, budget_caps: Ints, batch: BatchColumns, begin: int, end: int, door: bool, logs: Logs) -> None:
    """Step 4: let the lowest go, arrivals that were turned away among them, until each pool is within its budget."""
    sheds, lengths, base_row, step = logs.sheds, logs.lengths, memory.next_row, memory.budget_step
    for which in range(budget_caps.shape[1]):
        before = memory.n_shed
        sparing = memory.newcomer_safe == 1
        memory.spared = memory.first_row if sparing else NEVER
        at = next_turned_away(memory, which, batch, begin, end) if door else -1
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
def _part(memory: Memory, logs: Logs) -> None:
    """Let those go that have taken part in as many outputs as promised, by row, whoever has seen them do so."""
    _sort_parting(memory)
    for at in range(memory.n_parting):
        slot = int(parting(memory)[at])
        row = slots(memory)[slot].row
        if row >= memory.first_row:
            if fresh(memory)[row - memory.first_row] != slot:
                continue  # a window of rows has let it go already
            fresh(memory)[row - memory.first_row] = -2
        if row < memory.spared:
            leave(memory, slot)
        else:
            _leave_unseen(memory, slot)
        if logs.done.shape[1] > 0:
            logs.done[logs.lengths[5], 0] = row
            logs.done[logs.lengths[5], 1] = memory.instant
            logs.lengths[5] += 1
        memory.n_done += 1
    memory.n_parting = 0


@kernel
def _sort_parting(memory: Memory) -> None:
    """Put those that part in the order of rows (Shell's sort)."""
    gap = memory.n_parting // 2
    while gap > 0:
        for at in range(gap, memory.n_parting):
            slot = parting(memory)[at]
            place = at
            while place >= gap and slots(memory)[parting(memory)[place - gap]].row > slots(memory)[slot].row:
                parting(memory)[place] = parting(memory)[place - gap]
                place -= gap
            parting(memory)[place] = slot
        gap //= 2


@kernel
def _leave_unseen(memory: Memory, slot: int) -> None:
    """Remove an arrival that does not compete yet."""
    group = slots(memory)[slot].group
    pools(memory)[lanes(memory)[slots(memory)[slot].stream].pool] -= weights(memory)[slot] if memory.weighted else 1
    part_if_linked(memory, slot)
    unlink(memory, slot)
    if PRICE <= memory.kind < SCORE and not memory.banded:
        promote(memory, 0, group)
    forget(memory, group)


@kernel
def _join_inplace(memory: Memory, batch: BatchColumns, begin: int, end: int, logs: Logs, scratch: Ints) -> bool:
    """The join of the inplace model: with what remains of memory, and with all arrivals of the instant; whether the log is full."""
    streams, pause, base_row = memory.streams, logs.pause, memory.next_row
    picks, picked, chosen, members = scratch[:streams], scratch[streams], scratch[streams + 1], scratch[streams + 2]
    for at in range(max(begin, pause[ARRIVAL_AT]), end):
        stream = batch.stream[at]
        made = pause[MADE_BEFORE] if pause[HALFWAY] == 1 else memory.made
        ring = find_ring(memory, batch.key[at])
        if pause[HALFWAY] == 0:
            gather(memory, ring, stream, base_row + begin, picks, picked)
            for earlier in range(begin, at):
                if batch.key[earlier] == batch.key[at]:
                    other = batch.stream[earlier]
                    picks[other, picked[other]] = ~earlier
                    picked[other] += 1
        logs.lengths[0] = walk_combinations(
            memory, batch.stream, batch.time, batch.expiry, batch.importance, at, base_row,
            picks, picked, chosen, members, logs.outputs, logs.lengths[0], logs.outputs.shape[1] > 0, pause,
        )  # fmt: skip
        if pause[HALFWAY] == 1:
            pause[ARRIVAL_AT], pause[MADE_BEFORE] = at, made
            return True
        if memory.prices == OUTPUTS and memory.made > made:
            if ring < 0 and memory.lasting:  # all of its tuples have been shed in this instant
                ring = claim_empty(memory, batch.key[at])
            if ring >= 0:
                raise_yield(memory, ring, memory.made - made)
    pause[ARRIVAL_AT] = -1
    return False


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
    for stream in range(memory.streams):
        in_rows = lanes(memory)[stream].in_rows
        lanes(memory)[stream].clock = 0 if in_rows == PER_KEY else lanes(memory)[stream].arrivals if in_rows else memory.now
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
def trim(memory: Memory, caps: Ints, log: Ints) -> int:
    """Between two batches: shed down to a budget that has become smaller; the length of the log."""
    logged = 0
    keep_time(memory)
    hold(memory)
    if memory.prices == TUPLES or memory.paired:
        count_matches(memory)
    for which in range(len(caps)):
        if memory.kind == STAY and pools(memory)[which] > caps[which]:
            use_toll(memory, which)
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
