"""Existence patterns: which streams held a tuple's key when it arrived, and what tuples of each pattern have produced (Kwon 3).

Each stream has a table with 2**(n-1) entries, one for each pattern that a tuple of it can have; its own bit is always set. An entry
is a *band* (state.py): a list of tuples by age, `made` (the paper's r), `seen` (its n), and as price the outputs per tuple.

    streams R, S, T     R a    S a    S b    T a
    pattern             100    110    010    111      T's tuple completes an output: `made` of R 100, S 110 and T 111 grows by one

Differs from the paper: bands of all streams of a pool compete, so that one pool may serve several windows; quotients are compared exactly.
"""

from __future__ import annotations

from penstock.core.compiled import inlined, kernel
from penstock.engine.compiled.state import Memory, arrived, bands, groups, ladder, slots
from penstock.engine.compiled.tournament import promote

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


@kernel
def credit(memory: Memory, band: int, outputs: int) -> None:
    """A tuple of this pattern took part in outputs."""
    bands(memory)[band].made += outputs
    _reprice(memory, band)


@kernel
def credit_all(memory: Memory, ring: int, stream: int, row: int, outputs: int) -> None:
    """Credit the pivot, a row of `stream`, and all tuples of the other streams with its key: each class shares the outputs equally."""
    credit(memory, arrived(memory)[row - memory.first_row], outputs)
    group = ring
    while True:
        if groups(memory)[group].stream != stream:
            slot = groups(memory)[group].head
            while slot >= 0:
                credit(memory, ladder(memory)[slot].band, outputs // groups(memory)[group].members)
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
