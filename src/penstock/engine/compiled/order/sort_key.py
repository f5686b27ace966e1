"""The keys of a tournament's entries: as much of a rank as 64 bits hold, so that a decision looks at eight numbers, one cache line."""

from __future__ import annotations

import numpy as np

from penstock.core.compiled import inlined, kernel
from penstock.engine.compiled.order.ranking import GAIN_LOSS, PATTERNS, SCORE, first, price_of, score_of
from penstock.engine.compiled.state import Memory, bands, ranks, slots

TIE_BITS = 0x7FFFFFFF
"""The bits of a key for what decides between equal scores,"""
LOW = 0xFFFFF
"""and those of them for the time, where importance comes first."""
LAST = 0x7FFFFFFFFFFFFFFF
"""Nobody's key."""
_DONE = 1 << 40


@inlined
def _sortable(number: float) -> int:
    """A whole number of 32 bits in the order of the numbers, rounding down to the nearest short float."""
    short = np.float32(min(max(number, -3e38), 3e38) + 0.0)  # + 0.0 makes -0.0 one with 0.0
    bits = int(short.view(np.int32))
    return (bits if bits >= 0 else bits ^ 0x7FFFFFFF) - (1 if float(short) > number else 0)


@inlined
def _is_short(number: float) -> bool:
    """Whether a number is a short float."""
    return bool(float(np.float32(min(max(number, -3e38), 3e38))) == number)


@inlined
def _tie_of(memory: Memory, group: int, slot: int) -> int:
    """What decides between equal scores, in 31 bits.

    The time since `dawn`; where the policy looks at importance first, that, and the time in what is left if the importance fits exactly.
    """
    time = max(0, slots(memory)[slot].time - memory.dawn) >> memory.coarse
    if not memory.tied:
        return int(min(time, TIE_BITS))
    importance = ranks(memory)[slot].importance
    high = _sortable(importance)
    if importance <= 0:
        return LOW
    if (high & LOW) != 0 or not _is_short(importance):
        return high | LOW
    return high | (_sortable(price_of(memory, group)) >> 11 if memory.kind == GAIN_LOSS else int(min(time, LOW)))


@kernel
def key_of(memory: Memory, level: int, group: int) -> int:
    """What a class is compared by: its first tuple's score as a short float, and what decides between equal scores.

    Unequal keys are in the order of the ranks; equal ones decide nothing. What does not fit has a key that says so.
    """
    if memory.prices == PATTERNS:
        return _band_key(memory, group)
    slot = first(memory, level, group)
    worth = score_of(memory, level, group, slot) if memory.kind >= SCORE else price_of(memory, group)
    whole = _is_short(worth) and (level == 1 or memory.kind != GAIN_LOSS)  # of what is above the floor the number is not all
    return (_sortable(worth) << 31) | (_tie_of(memory, group, slot) if whole else TIE_BITS)


@inlined
def _band_key(memory: Memory, band: int) -> int:
    """The same for `ep`: the bits of the quotient, which is above zero; below these the idle bands, by time; then what is done."""
    price = bands(memory)[band].price
    if price > 0:
        return int(np.float64(price).view(np.int64))
    time = min(TIE_BITS, max(0, slots(memory)[first(memory, 0, band)].time - memory.dawn) >> memory.coarse)
    if memory.pattern_first or price < 0:
        time = 0
    return int(TIE_BITS - time if memory.youngest else time) - (0 if price == 0 else _DONE)
