"""The join step where partners are found by the ring of their key (by_links.py has that by links)."""

from __future__ import annotations

from penstock.core.compiled import kernel
from penstock.core.trace import Ints
from penstock.core.window import DEAD
from penstock.engine.compiled.batch_columns import BatchColumns
from penstock.engine.compiled.class_prices import raise_yield, spoil, spoil_partners
from penstock.engine.compiled.key_clocks import PER_KEY, count_in
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
)
from penstock.engine.compiled.order.heaps import make_heap
from penstock.engine.compiled.order.ranking import (
    OUTPUTS,
    PATTERNS,
    SCORE,
    is_counted,
)
from penstock.engine.compiled.patterns import give_pattern, note_arrival
from penstock.engine.compiled.probe import count_whole, gather, meet, walk_combinations, walk_pairs
from penstock.engine.compiled.state import (
    Memory,
    arrived,
    fresh,
    groups,
    lanes,
    met,
    ranks,
)
from penstock.engine.compiled.turned_away import is_turned_away


@kernel
def join_by_keys(
    memory: Memory, caps: Ints, batch: BatchColumns, begin: int, end: int, may_turn_away: bool, logs: Logs, scratch: Ints
) -> bool:
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
            if may_turn_away and (not in_rows or (by_key and batch.expiry[at] != DEAD)):
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
def join_inplace_by_keys(memory: Memory, batch: BatchColumns, begin: int, end: int, logs: Logs, scratch: Ints) -> bool:
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
