"""Windows of the last C rows of each key: every class (the tuples of one stream with one key) has a clock of its own.

It counts the rows of the class while that has a tuple; nobody needs it longer. A tuple is outside when C rows have followed it:

    arrivals of the class    1    2    3    4           C = 2
    tuple                    a    b    c    d
    its expiry               3    4    5    6           c lets a go, d lets b go

All rows of an instant count before any is joined, also those that are turned away.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.core.compiled import inlined
from penstock.core.trace import Ints
from penstock.core.window import DEAD
from penstock.engine.compiled.state import Memory, ends, lanes, slots, tallies

PER_KEY = 2
"""In `in_rows` of a stream: the window counts the rows of each key."""


@inlined
def counts_keys(memory: Memory) -> bool:
    """Whether a stream has such a window."""
    return bool(memory.tallies_size > 1)


@inlined
def leaves_at(memory: Memory, slot: int) -> int:
    """When a tuple's window ends, by the clock of its stream. That stands still at 0 where each key has one: then after so many rows."""
    expiry = ends(memory)[slot] if memory.related else slots(memory)[slot].expiry
    if counts_keys(memory) and lanes(memory)[slots(memory)[slot].stream].in_rows == PER_KEY:
        expiry -= tallies(memory)[slots(memory)[slot].group].arrivals
    return int(expiry)


def expiries_of(arrays: dict[str, Any], live: Ints) -> Ints:
    """The same for these slots."""
    found = arrays["slots"][live]
    if len(arrays["ends"]) > 1:
        return np.array(arrays["ends"][live])
    if len(arrays["tallies"]) == 1:
        return np.array(found["expiry"])
    by_key = arrays["lanes"]["in_rows"][found["stream"]] == PER_KEY
    return np.where(by_key, found["expiry"] - arrays["tallies"]["arrivals"][found["group"]], found["expiry"])


@inlined
def reset_clock(memory: Memory, group: int) -> None:
    """A class is new."""
    if counts_keys(memory):
        tallies(memory)[group].arrivals = 0
        tallies(memory)[group].due = 0


@inlined
def count_in(memory: Memory, group: int, expiry: int) -> int:
    """Count an arrival, unless it was before the join (pushed_out.py); its expiry where `expiry` rows may follow it."""
    if tallies(memory)[group].due > 0:
        tallies(memory)[group].due -= 1
    else:
        tallies(memory)[group].arrivals += 1
    return int(expiry if expiry == DEAD else tallies(memory)[group].arrivals - tallies(memory)[group].due + expiry)
