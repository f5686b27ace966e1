"""The facts of a value that are active at a time, from the youngest on.

They lie by begin, and `until` makes of them a Fenwick tree: that of the fact number i (from 1 on) is the largest end of the facts from
i - b + 1 to i, where b is the lowest bit of i. So a run of facts that have ended is passed over in one step:

    number    1    2    3    4    5    6    7    8
    end       9    3    2    3    1    2    4    never
    until     9    9    2    9    1    2    4    never        active at 5: 8, then (7, 6: until 2; 4) 3, 2, 1: 1
"""

from __future__ import annotations

from penstock.core.compiled import inlined, kernel
from penstock.core.window import NEVER
from penstock.engine.compiled.state import Memory, cells, fact_cells, fact_weights, listed, named, ties
from penstock.engine.fact_arrays import FILTERED

LONG_AGO = -NEVER


@inlined
def find_cell(memory: Memory, name: int) -> int:
    """The cell of a value, -1 if there is none."""
    size = memory.named_size
    at = place_of_name(name, size)
    while named(memory)[at] >= 0:
        if cells(memory)[named(memory)[at]].name == name:
            return int(named(memory)[at])
        at = (at + 1) & (size - 1)
    return -1


@inlined
def place_of_name(name: int, size: int) -> int:
    """Where a hash table, whose size is a power of two, starts to look for a name."""
    mixed = ((name ^ (name >> 31)) & 0x7FFFFFFF) * 0x2545F491
    return (mixed ^ (mixed >> 29)) & (size - 1)


@kernel
def begun(memory: Memory, cell: int, time: int) -> int:
    """How many facts of a cell have begun at a time."""
    first = cells(memory)[cell].first
    high = int(cells(memory)[cell].facts)
    if high == 0 or listed(memory)[first + high - 1].begin <= time:
        return high
    low = 0
    while low < high:
        middle = (low + high) >> 1
        if listed(memory)[first + middle].begin <= time:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def active_up_to(memory: Memory, cell: int, number: int, time: int) -> int:
    """The last of the first `number` facts of a cell, all of which have begun, that has not ended; 0 if there is none."""
    before = cells(memory)[cell].first - 1
    while number > 0:
        entry = listed(memory)[before + number]
        if entry.end > time:
            return number
        number -= (number & -number) if entry.until <= time else 1
    return 0


@kernel
def last_end(memory: Memory, cell: int, time: int) -> int:
    """The largest end of the facts that are active at a time; FILTERED if there is none."""
    number = begun(memory, cell, time)
    before = cells(memory)[cell].first - 1
    found = FILTERED
    while number > 0:
        found = max(found, listed(memory)[before + number].until)
        number -= number & -number
    return int(found) if found > time else FILTERED


@inlined
def cell_at_link(memory: Memory, place: int, link: int) -> int:
    """The cell that a listed fact has at a link other than the one by which it is listed."""
    if ties(memory)[link].last - ties(memory)[link].first == 2:
        return int(listed(memory)[place].other)
    return int(fact_cells(memory)[listed(memory)[place].fact * memory.span + link - ties(memory)[link].first])


@inlined
def weight_at(memory: Memory, place: int) -> float:
    """The weight of a listed fact."""
    return float(fact_weights(memory)[listed(memory)[place].fact]) if memory.facts_weigh else 1.0
