"""Existence patterns: which streams held a tuple's key when it arrived, and what tuples of each pattern have produced (Kwon 3).

Each stream has a table with 2**(n-1) entries, one for each pattern that a tuple of it can have; its own bit is always set. An entry
is a *band* (state.py): a list of tuples by age, `made` (the paper's r), `seen` (its n), and as price the outputs per tuple.

    streams R, S, T     R a    S a    S b    T a
    pattern             100    110    010    111      T's tuple completes an output: `made` of R 100, S 110 and T 111 grows by one

Whoever took part in an output is *finished*, and competes in the band of the full pattern from then on, in the order of finishing; what
it makes later is still made by the pattern that it arrived with.

Differs from the paper: only the tuple that completes an output is finished there (switch `ep-finishes`); bands of all streams of a pool
compete, so that one pool may serve several windows; quotients are compared exactly.
"""

from __future__ import annotations

from penstock.core.compiled import inlined, kernel
from penstock.engine.compiled.moves import climb_ladder, leave_ladder
from penstock.engine.compiled.order.ranking import first, group_of
from penstock.engine.compiled.order.tournament import promote
from penstock.engine.compiled.state import Memory, arrived, bands, groups, ladder, marks, slots

FEW_STREAMS = 5
"""The tables of up to so many streams are so small that to look at all bands is faster than a tournament."""
MOST_STREAMS = 12
"""The tables of more streams than this would take more than a megabyte; such joins are played step by step."""


@inlined
def band_of(memory: Memory, stream: int, bits: int) -> int:
    """The entry of a pattern in the table of a stream: the bit of the stream itself is left out."""
    place = memory.streams - 1 - stream
    return int(stream * memory.patterns + ((bits >> (place + 1) << place) | (bits & ((1 << place) - 1))))


@inlined
def note_arrival(memory: Memory, at: int, stream: int, bits: int) -> None:
    """Give the arrival number `at` of this instant the pattern `bits`."""
    band = band_of(memory, stream, bits)
    arrived(memory)[at] = band
    bands(memory)[band].seen += 1
    _reprice(memory, band)


@inlined
def give_pattern(memory: Memory, slot: int, band: int) -> None:
    """Give a linked arrival its pattern; where that is full, it is finished by itself."""
    done = memory.finishes and band & (memory.patterns - 1) == memory.patterns - 1
    ladder(memory)[slot].band = band
    slots(memory)[slot].ground = 1 if done else 0
    marks(memory)[slot] = slots(memory)[slot].row if done else 0


@kernel
def mark_finished(memory: Memory, slot: int, row: int) -> None:
    """A tuple took part in an output, which arrival number `row` completed: from its first one on it is finished."""
    if not memory.finishes or slots(memory)[slot].ground:
        return
    competes = slots(memory)[slot].row < memory.spared
    band = group_of(memory, slot)
    led = competes and first(memory, 0, band) == slot
    if competes:
        leave_ladder(memory, slot)
    slots(memory)[slot].ground = 1
    marks(memory)[slot] = row
    if competes:
        climb_ladder(memory, slot)
        if led:
            promote(memory, 0, band)
        if first(memory, 0, group_of(memory, slot)) == slot:
            promote(memory, 0, group_of(memory, slot))


@kernel
def credit(memory: Memory, band: int, outputs: int) -> None:
    """A tuple of this pattern took part in outputs."""
    bands(memory)[band].made += outputs
    _reprice(memory, band)


@kernel
def credit_all(memory: Memory, ring: int, stream: int, row: int, outputs: int) -> None:
    """Credit the pivot, a row of `stream`, and all tuples of the other streams with its key: each class shares the outputs equally.

    All of them are finished.
    """
    credit(memory, arrived(memory)[row - memory.first_row], outputs)
    group = ring
    while True:
        if groups(memory)[group].stream != stream:
            slot = groups(memory)[group].head
            while slot >= 0:
                credit(memory, ladder(memory)[slot].band, outputs // groups(memory)[group].members)
                mark_finished(memory, int(slot), row)
                slot = slots(memory)[slot].after
        group = groups(memory)[group].kin
        if group == ring:
            return


@inlined
def _reprice(memory: Memory, band: int) -> None:
    last = memory.patterns - 1
    if band & last != last and bands(memory)[band].made > 0:
        bands(memory)[band].price = bands(memory)[band].made / bands(memory)[band].seen
        if bands(memory)[band].head >= 0:
            promote(memory, 0, band)
