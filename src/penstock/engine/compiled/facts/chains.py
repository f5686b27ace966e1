"""The tuples in memory by cell: a chain for each value of each link, in the order of time.

Tuples that come in order are added at its end. One that is late goes back past those that are later.
"""

from __future__ import annotations

from penstock.core.compiled import inlined, kernel
from penstock.core.trace import Ints
from penstock.engine.compiled.batch_columns import BatchColumns
from penstock.engine.compiled.state import Memory, cells, own_links, slots, strands, ties


@inlined
def strand_of(memory: Memory, slot: int, link: int) -> int:
    """Where the strand of a tuple at one of its stream's links is."""
    return int(slot * memory.most_links + ties(memory)[link].rank)


@inlined
def link_of(memory: Memory, stream: int, rank: int) -> int:
    """The link number `rank` of a stream, -1 if it has not so many."""
    return int(own_links(memory)[stream * memory.most_links + rank]) if rank < memory.most_links else -1


@inlined
def cell_of_pick(memory: Memory, batch: BatchColumns, pick: int, link: int) -> int:
    """The cell of a tuple, a slot or ~ a row of the batch, at a link; -1 if it has none."""
    if pick >= 0:
        return int(strands(memory)[strand_of(memory, pick, link)].cell)
    return int(batch.values[~pick, link])


@kernel
def enchain(memory: Memory, slot: int, seen: Ints, joins: bool) -> None:
    """Put a linked tuple, whose cells these are by link, into its chains; into none where its key is null."""
    stream = int(slots(memory)[slot].stream)
    time = slots(memory)[slot].time
    rank = 0
    while link_of(memory, stream, rank) >= 0:
        cell = seen[link_of(memory, stream, rank)]
        strand = slot * memory.most_links + rank
        strands(memory)[strand].cell = cell
        rank += 1
        if cell < 0 or not joins:
            continue
        right = -1
        left = cells(memory)[cell].tail
        while left >= 0 and slots(memory)[left].time > time:
            right = left
            left = strands(memory)[left * memory.most_links + rank - 1].before
            memory.steps += 1
        strands(memory)[strand].before = left
        strands(memory)[strand].after = right
        if left >= 0:
            strands(memory)[left * memory.most_links + rank - 1].after = slot
        if right >= 0:
            strands(memory)[right * memory.most_links + rank - 1].before = slot
        else:
            cells(memory)[cell].tail = slot
        cells(memory)[cell].members += 1


@kernel
def unchain(memory: Memory, slot: int) -> None:
    """Take a tuple, whose key is not null, out of its chains."""
    stream = int(slots(memory)[slot].stream)
    rank = 0
    while link_of(memory, stream, rank) >= 0:
        strand = strands(memory)[slot * memory.most_links + rank]
        left, right, cell = strand.before, strand.after, strand.cell
        if cell >= 0:
            if left >= 0:
                strands(memory)[left * memory.most_links + rank].after = right
            if right >= 0:
                strands(memory)[right * memory.most_links + rank].before = left
            else:
                cells(memory)[cell].tail = left
            cells(memory)[cell].members -= 1
        rank += 1


@inlined
def within(memory: Memory, slot: int, rank: int, begin: int, end: int) -> int:
    """The first tuple, from this one of a chain back, whose time is in [begin, end); -1 if there is none."""
    while slot >= 0:
        time = slots(memory)[slot].time
        if time < begin:
            return -1
        if time < end:
            return int(slot)
        slot = strands(memory)[slot * memory.most_links + rank].before
    return -1


@inlined
def earlier(memory: Memory, slot: int, rank: int) -> int:
    """The tuple before this one in its chain."""
    return int(strands(memory)[slot * memory.most_links + rank].before)
