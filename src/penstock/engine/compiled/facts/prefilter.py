"""Before rows are played: their cells, whether they have facts at all, and their last chance (docs/decisions/0031, filters)."""

from __future__ import annotations

import numpy as np

from penstock.core.compiled import inlined, kernel, routine
from penstock.core.trace import Floats, Ints
from penstock.core.window import NEVER
from penstock.engine.compiled.batch_columns import BatchColumns
from penstock.engine.compiled.facts.chains import link_of
from penstock.engine.compiled.facts.finding_facts import active_up_to, begun, find_cell, last_end, place_of_name, weight_at
from penstock.engine.compiled.state import (
    Memory,
    cells,
    ends,
    lanes,
    listed,
    named,
    slots,
    strands,
    touch_cell,
    touch_listed,
    touch_named,
)
from penstock.engine.fact_arrays import FILTERED

_AHEAD = 64  # rows whose facts are asked for before the first of them is looked at


@inlined
def is_filtered(memory: Memory, batch: BatchColumns, at: int) -> bool:
    """Whether a row is in no instant: it only moves the clocks."""
    return bool(memory.related and batch.leaves[at] == FILTERED)


@kernel
def prepare(memory: Memory, batch: BatchColumns, seen: Ints, begin: int, end: int) -> int:
    """Look up the cells of rows with these values by link, and when they leave; how many values that must be kept have no cell."""
    missing = 0
    width = memory.width
    for at in range(begin, end):
        if (at - begin) % _AHEAD == 0:
            _fetch(memory, batch, seen, at, min(end, at + _AHEAD))
        stream = batch.stream[at]
        chance = NEVER
        rank = 0
        while link_of(memory, stream, rank) >= 0:
            link = link_of(memory, stream, rank)
            cell = find_cell(memory, seen[at, link] * width + link) if seen[at, link] >= 0 else -1
            batch.values[at, link] = cell
            missing += cell < 0 and seen[at, link] >= 0 and not memory.filters
            if memory.filters:
                chance = min(chance, last_end(memory, cell, batch.time[at]) if cell >= 0 else FILTERED)
            rank += 1
        if chance == FILTERED:
            batch.leaves[at] = FILTERED
        else:
            batch.leaves[at] = min(batch.expiry[at], chance) if memory.dynamic else batch.expiry[at]
    return int(missing)


@kernel
def _fetch(memory: Memory, batch: BatchColumns, seen: Ints, begin: int, end: int) -> None:
    """Ask for all that rows will look at: each step looks at what the step before has asked for."""
    width, size = memory.width, memory.named_size
    for step in range(4):
        for at in range(begin, end):
            stream = batch.stream[at]
            rank = 0
            while link_of(memory, stream, rank) >= 0:
                link = link_of(memory, stream, rank)
                rank += 1
                if seen[at, link] < 0:
                    continue
                if step == 0:
                    touch_named(memory, place_of_name(seen[at, link] * width + link, size))
                    continue
                if step == 1:
                    batch.values[at, link] = named(memory)[place_of_name(seen[at, link] * width + link, size)]
                cell = batch.values[at, link]  # nearly always the one
                if cell < 0:
                    continue
                if step == 1:
                    touch_cell(memory, cell)
                    continue
                last = cells(memory)[cell].first + cells(memory)[cell].facts - 1
                if step == 2 and cells(memory)[cell].facts > 0:
                    touch_listed(memory, last)
                if step == 3 and cells(memory)[cell].facts > 0:
                    touch_cell(memory, listed(memory)[last].other)


@kernel
def weigh_rows(memory: Memory, batch: BatchColumns, score: Floats, begin: int, end: int) -> None:
    """Into `score` the importance of rows times the largest weight of the facts that are active at their time, of each relation."""
    for at in range(begin, end):
        stream, time = batch.stream[at], batch.time[at]
        top = 1.0
        rank = 0
        while link_of(memory, stream, rank) >= 0:
            cell = batch.values[at, link_of(memory, stream, rank)]
            number = active_up_to(memory, cell, begun(memory, cell, time), time) if cell >= 0 else 0
            largest = 0.0 if number > 0 else 1.0
            while number > 0:
                largest = max(largest, weight_at(memory, cells(memory)[cell].first + number - 1))
                number = active_up_to(memory, cell, number - 1, time)
            top *= largest
            rank += 1
        score[at] = batch.importance[at] * top


@inlined
def end_of_instant(memory: Memory, batch: BatchColumns, begin: int) -> int:
    """The row behind the last of the instant that begins with a row: instants are made of what is not filtered."""
    end = begin + 1
    if memory.related:
        at = end
        while at < len(batch.time) and (is_filtered(memory, batch, at) or batch.time[at] == batch.time[begin]):
            at += 1
            if not is_filtered(memory, batch, at - 1):
                end = at
        return end
    while end < len(batch.time) and batch.time[end] == batch.time[begin]:
        end += 1
    return end


@kernel
def pass_over(memory: Memory, batch: BatchColumns, begin: int, until: int) -> int:
    """Let rows that are filtered move the clocks; the first row that is not."""
    at = begin
    while at < until and is_filtered(memory, batch, at):
        memory.n_input += 1
        memory.n_filtered += 1
        move_clocks(memory, batch, at)
        at += 1
    return at


@inlined
def move_clocks(memory: Memory, batch: BatchColumns, at: int) -> None:
    """Move the clocks on to a row."""
    stream = batch.stream[at]
    lanes(memory)[stream].seen = max(lanes(memory)[stream].seen, batch.time[at])
    memory.now = max(memory.now, batch.time[at])


@kernel
def instant_through(memory: Memory, batch: BatchColumns, begin: int) -> int:
    """How many rows an instant has, with those that are filtered between them."""
    return end_of_instant(memory, batch, begin) - begin


@kernel
def end_of_chunk(memory: Memory, batch: BatchColumns, begin: int, end: int) -> int:
    """Where an instant ends, in prepared rows that may go on; `begin` where they have none that is sure to have ended."""
    last = end - 1
    while last >= begin and is_filtered(memory, batch, last):
        last -= 1
    if last < begin:
        return end
    at = last
    while at >= begin and (is_filtered(memory, batch, at) or batch.time[at] == batch.time[last]):
        at -= 1
    return at + 1


@routine
def leaving(memory: Memory, chosen: Ints) -> Ints:
    """When tuples in memory leave, by the facts of now."""
    found = np.empty(len(chosen), np.int64)
    for number in range(len(chosen)):
        slot = chosen[number]
        stream = int(slots(memory)[slot].stream)
        found[number] = ends(memory)[slot]
        rank = 0
        while link_of(memory, stream, rank) >= 0:
            cell = strands(memory)[slot * memory.most_links + rank].cell
            found[number] = min(found[number], last_end(memory, cell, slots(memory)[slot].time) if cell >= 0 else FILTERED)
            rank += 1
    return found
