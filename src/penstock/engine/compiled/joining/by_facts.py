"""The outputs of an arrival through relations: from tuples to facts and from facts to tuples, along the tree that relations make.

    R(x) -- F(a, b) -- S(y, z) -- G(c, d) -- T(w)        r arrives: its facts in F; for each the s; for each its facts in G; the t

Each hop has a cursor: the number of the next fact among those of a cell, or the next tuple of a chain. They lie in scratch, so that the
search pauses where the log of outputs is full, and goes on there.
"""

from __future__ import annotations

from penstock.core.compiled import inlined, kernel
from penstock.core.trace import Ints
from penstock.engine.compiled.batch_columns import BatchColumns
from penstock.engine.compiled.facts.chains import cell_of_pick, earlier, within
from penstock.engine.compiled.facts.finding_facts import active_up_to, begun, cell_at_link, weight_at
from penstock.engine.compiled.facts.prefilter import is_filtered
from penstock.engine.compiled.linked.partners import MEMBERS
from penstock.engine.compiled.logs import HALFWAY, Logs
from penstock.engine.compiled.probe import make_output
from penstock.engine.compiled.state import Memory, cells, hops, listed, slots, ties

CURSORS, BOUND = range(2)
"""Rows of scratch: by hop where it is, by relation the place of the fact that is bound."""
_OVER = -1
_ROWS = -2
"""A cursor among tuples: a slot, _OVER, or _ROWS less a row of the batch (in place, where the arrivals of the instant follow)."""


@kernel
def search_by_facts(memory: Memory, batch: BatchColumns, begin: int, at: int, logs: Logs, scratch: Ints) -> bool:
    """Make the outputs of a pivot; False where the log is full, to go on when it is called again."""
    n, keep, last = memory.streams, logs.outputs.shape[1] > 0, memory.hopping - 1
    members = scratch[n + MEMBERS]
    members[batch.stream[at]] = ~at
    hop = last
    if logs.pause[HALFWAY] == 0:
        memory.attempts += 1
        hop = 0
        _begin(memory, batch, at, hop, scratch, n)
    logs.pause[HALFWAY] = 0
    while hop >= 0:
        if hop == last and keep and logs.lengths[0] == len(logs.outputs):
            logs.pause[HALFWAY] = 1
            return False
        if hops(memory)[batch.stream[at] * memory.hopping + hop].binds_fact:
            there = _next_fact(memory, batch, at, hop, scratch, n)
        else:
            there = _next_tuple(memory, batch, begin, at, hop, scratch, n)
        if not there:
            hop -= 1
        elif hop < last:
            hop += 1
            _begin(memory, batch, at, hop, scratch, n)
        else:
            _make(memory, batch, at, logs, members, scratch)
    return True


@inlined
def _make(memory: Memory, batch: BatchColumns, at: int, logs: Logs, members: Ints, scratch: Ints) -> None:
    n, keep, before = memory.streams, logs.outputs.shape[1] > 0, logs.lengths[0]
    weight = 1.0
    for relation in range(memory.relations):
        weight *= weight_at(memory, scratch[BOUND, relation])
    logs.lengths[0] = make_output(
        memory, batch.time, batch.expiry, batch.importance, at, memory.next_row, members, logs.outputs, before, keep, weight
    )
    if logs.lengths[0] > before:
        for relation in range(memory.relations):
            logs.outputs[before, 1 + n + relation] = listed(memory)[scratch[BOUND, relation]].fact


@inlined
def _time_of(memory: Memory, batch: BatchColumns, pick: int) -> int:
    return int(slots(memory)[pick].time if pick >= 0 else batch.time[~pick])


@inlined
def _begin(memory: Memory, batch: BatchColumns, at: int, hop: int, scratch: Ints, n: int) -> None:
    """Set the cursor of a hop to its first candidate."""
    way = hops(memory)[batch.stream[at] * memory.hopping + hop]
    if way.binds_fact:
        guide = scratch[n + MEMBERS, way.stream]
        cell = cell_of_pick(memory, batch, guide, way.link)
        scratch[CURSORS, hop] = begun(memory, cell, _time_of(memory, batch, guide)) if cell >= 0 else 0
        return
    slot = cells(memory)[cell_at_link(memory, scratch[BOUND, way.relation], way.link)].tail
    scratch[CURSORS, hop] = _ROWS - (at - 1) if slot < 0 and memory.inplace else slot


@inlined
def _next_fact(memory: Memory, batch: BatchColumns, at: int, hop: int, scratch: Ints, n: int) -> bool:
    """Bind the next fact of a tuple."""
    way = hops(memory)[batch.stream[at] * memory.hopping + hop]
    guide = scratch[n + MEMBERS, way.stream]
    cell = cell_of_pick(memory, batch, guide, way.link)
    if cell < 0:
        return False
    number = active_up_to(memory, cell, scratch[CURSORS, hop], _time_of(memory, batch, guide))
    if number == 0:
        return False
    scratch[CURSORS, hop] = number - 1
    scratch[BOUND, way.relation] = cells(memory)[cell].first + number - 1
    return True


@inlined
def _next_tuple(memory: Memory, batch: BatchColumns, begin: int, at: int, hop: int, scratch: Ints, n: int) -> bool:
    """Bind the next tuple with the value of a fact, at whose time the fact is active."""
    way = hops(memory)[batch.stream[at] * memory.hopping + hop]
    fact = listed(memory)[scratch[BOUND, way.relation]]
    rank = ties(memory)[way.link].rank
    cursor = scratch[CURSORS, hop]
    while cursor >= 0:
        slot = within(memory, cursor, rank, fact.begin, fact.end)
        cursor = earlier(memory, slot, rank) if slot >= 0 else _OVER
        if cursor < 0 and memory.inplace:
            cursor = _ROWS - (at - 1)
        if slot >= 0 and (not memory.inplace or slots(memory)[slot].row < memory.first_row):
            scratch[CURSORS, hop], scratch[n + MEMBERS, way.stream] = cursor, slot
            return True
    if cursor <= _ROWS:
        cell = cell_at_link(memory, scratch[BOUND, way.relation], way.link)
        row = _ROWS - cursor
        while row >= begin:
            fits = batch.stream[row] == way.stream and batch.key[row] >= 0 and not is_filtered(memory, batch, row)
            row -= 1
            if fits and batch.values[row + 1, way.link] == cell and fact.begin <= batch.time[row + 1] < fact.end:
                scratch[CURSORS, hop], scratch[n + MEMBERS, way.stream] = _ROWS - row, ~(row + 1)
                return True
    scratch[CURSORS, hop] = _OVER
    return False
