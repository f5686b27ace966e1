"""Who leaves first: tuples in classes, classes in a tournament, in O(log memory) per change.

Scores change for one key at a time, or by the same amount for all. So the order *inside* a class (the tuples of one stream with one
key) never changes, and only the first of each class competes with the others:

    class a   [u3 < u7 < u9]      first: u3 \\
    class b   [u4]                first: u4  > tournament of the pool: the victim
    class c   [u1 < u5]           first: u1 /

Inside a class the order is age (the class chain of memory.py) or a fixed score, then age (heaps.py); the tournament is in
tournament.py, what a class is worth in class_prices.py, and here is the order itself. `dgl` has two heaps and two tournaments (levels):
tuples above zero, which fall by a common offset, and those at the floor.

Where prices never change (statistics `whole` and `given`), tuples of one stream with one price are in order by age for ever, whatever
their keys. They form *bands*, of which there are far fewer than classes, and these compete instead.
"""

from __future__ import annotations

import numpy as np

from penstock.core.compiled import inlined, kernel
from penstock.engine.compiled.key_clocks import leaves_at
from penstock.engine.compiled.state import Memory, bands, floors, groups, ladder, lanes, marks, ranks, slot_prices, slots, sums
from penstock.engine.ranking_codes import FirstScore, Kind, Prices
from penstock.engine.units import Whole, below, take

# Plain numbers, which are constants of the machine code.
ARRIVAL, DRAW, PRICE, LIFE, STAY, SCORE, SCORE_TIMES_PRICE, SCORE_PLUS_PRICE, GAIN_LOSS = (kind.value for kind in Kind)
NO_PRICES, RATES, TOTALS, MATCHES, TUPLES, OUTPUTS, PATTERNS, CHANCES = (prices.value for prices in Prices)
FROM_COLUMN, FROM_IMPORTANCE, FROM_MATCHES, FROM_EXPECTED = (first.value for first in FirstScore)
_EXACT = 2.0**53


@inlined
def is_kinetic(memory: Memory) -> bool:
    """Whether scores fall as the clock goes on, at slopes of their own, and nothing else changes them all."""
    return bool((memory.kind == LIFE or memory.kind == STAY) and not memory.bounding)


@inlined
def has_rates(memory: Memory) -> bool:
    """Whether prices come with the rows, from the statistics."""
    return bool(memory.prices == RATES or memory.prices == TOTALS or memory.prices == CHANCES)


@inlined
def is_counted(memory: Memory) -> bool:
    """Whether prices are counted in memory, and change as tuples come and go."""
    return bool(memory.prices == MATCHES or memory.prices == TUPLES)


@inlined
def life_left(memory: Memory, stream: int, expiry: int) -> int:
    """The ticks (or rows) until a tuple leaves its window, not below 0."""
    return max(0, expiry - lanes(memory)[stream].clock - memory.less)


@inlined
def remaining(memory: Memory, slot: int) -> int:
    """`life_left` of a retained tuple."""
    return life_left(memory, slots(memory)[slot].stream, leaves_at(memory, slot))


@inlined
def compare_products(a: int, x: float, b: int, y: float) -> int:
    """The sign of a*x - b*y, exact where x and y are whole numbers below 2**53, in floating point otherwise."""
    left = a * x
    right = b * y
    if abs(left - right) > 1e-14 * (abs(left) + abs(right)):
        return -1 if left < right else 1
    if x == np.floor(x) and y == np.floor(y) and max(abs(x), abs(y)) < _EXACT:
        exact = int(a) * int(x) - int(b) * int(y)  # may wrap beyond 64 bits, but the difference is small, so it comes out right
        if exact < 0:
            return -1
        return 1 if exact > 0 else 0
    if left < right:
        return -1
    return 1 if left > right else 0


@inlined
def slot_price_of(memory: Memory, stream: int) -> float:
    """elife: the price of a slot in the pool of a stream."""
    return float(slot_prices(memory)[lanes(memory)[stream].pool].used)


@inlined
def compare_worth(memory: Memory, stream: int, p: float, life: int, q: float, other_life: int) -> int:
    """Compare two tuples of one pool, that of `stream`, by price and remaining life: negative if the first is worth less."""
    if memory.kind == LIFE:
        return compare_products(life, p, other_life, q)
    if memory.kind == STAY:
        slot_price = slot_price_of(memory, stream)
        sign = compare_products(life, max(0.0, p - slot_price), other_life, max(0.0, q - slot_price))
        if sign != 0:
            return sign
    if p < q:
        return -1
    return 1 if p > q else 0


@inlined
def whole_pattern(memory: Memory, band: int) -> int:
    """The existence pattern of a band with the bit of its own stream, which its number leaves out."""
    inside = band & (memory.patterns - 1)
    place = memory.streams - 1 - bands(memory)[band].stream
    return int((inside >> place << (place + 1)) | (1 << place) | (inside & ((1 << place) - 1)))


@inlined
def compare_patterns(memory: Memory, band: int, other: int) -> int:
    """Compare two bands of `ep`: what has met all partners is worth least, the rest its outputs per tuple, exactly."""
    last = memory.patterns - 1
    if band & last == last or other & last == last:
        return int(other & last == last) - int(band & last == last)
    one, two = bands(memory)[band], bands(memory)[other]
    sign = compare_products(one.made, two.seen * 1.0, two.made, one.seen * 1.0)
    if sign == 0 and memory.pattern_first:
        sign = whole_pattern(memory, band) - whole_pattern(memory, other)
    return int(sign)


# A *group* is what competes: a class, or a band where prices never change.


@inlined
def group_of(memory: Memory, slot: int) -> int:
    """The group in which a tuple competes."""
    if not memory.banded:
        return int(slots(memory)[slot].group)
    return int(ladder(memory)[slot].band | (memory.patterns - 1 if slots(memory)[slot].ground else 0))  # ep: a finished tuple


@inlined
def price_of(memory: Memory, group: int) -> float:
    """The price of a group's tuples, without the factor that all of its stream have; nothing where that is nothing."""
    if memory.massed and lanes(memory)[groups(memory)[group].stream].factor == 0.0:
        return 0.0
    return float(bands(memory)[group].price if memory.banded else groups(memory)[group].price)


@inlined
def stream_of(memory: Memory, group: int) -> int:
    """The stream of a group's tuples."""
    return int(bands(memory)[group].stream if memory.banded else groups(memory)[group].stream)


@inlined
def full_price_of(memory: Memory, group: int) -> float:
    """The price of a group's tuples, with that factor."""
    price = price_of(memory, group)
    return float(price * lanes(memory)[stream_of(memory, group)].factor if memory.massed else price)


@inlined
def first(memory: Memory, level: int, group: int) -> int:
    """The tuple of a group that leaves first, -1 if there is none; level 1 are the tuples at the floor.

    Arrivals that are spared do not compete yet. Rows come in order but for the late, so these are the last of their class.
    """
    if memory.banded:
        return int(bands(memory)[group].tail if memory.youngest else bands(memory)[group].head)
    if level:
        return int(floors(memory)[group])
    if memory.kind <= STAY or (memory.kind < GAIN_LOSS and groups(memory)[group].top >= 0 and not groups(memory)[group].heaped):
        slot = groups(memory)[group].head
        if memory.newcomer_safe:
            while slot >= 0 and slots(memory)[slot].row >= memory.spared:
                slot = slots(memory)[slot].after
        return int(slot)
    return int(groups(memory)[group].top)


@kernel
def score_of(memory: Memory, level: int, group: int, slot: int) -> float:
    """The score of the first tuple of a class; of `dgl` nearly, and with what all tuples of its stream have lost."""
    if level:
        return 0.0
    score = ranks(memory)[slot].score
    if memory.kind == SCORE_TIMES_PRICE:
        return float(score * price_of(memory, group))
    if memory.kind == SCORE_PLUS_PRICE:
        return float(score + memory.match_weight * full_price_of(memory, group))
    return float(score)


@inlined
def sum_of(memory: Memory, slot: int) -> Whole:
    """dgl: the score of a tuple and what all have lost so far."""
    return sums(memory)[slot].high, sums(memory)[slot].mid, sums(memory)[slot].low


@inlined
def lost_in(memory: Memory, stream: int) -> Whole:
    """dgl: what all tuples of a stream have lost so far."""
    return lanes(memory)[stream].lost_high, lanes(memory)[stream].lost_mid, lanes(memory)[stream].lost_low


@inlined
def score_in_units(memory: Memory, slot: int) -> Whole:
    """dgl: the score of a tuple that is above the floor."""
    return take(sum_of(memory, slot), lost_in(memory, slots(memory)[slot].stream))


@kernel
def ahead(memory: Memory, level: int, group: int, other: int) -> bool:
    """Whether the first of `group` leaves before the first of `other`: the whole rank, for any two streams."""
    u = first(memory, level, group)
    v = first(memory, level, other)
    p = full_price_of(memory, group)
    q = full_price_of(memory, other)
    if memory.kind <= STAY:
        if memory.prices == PATTERNS:
            sign = compare_patterns(memory, group, other)
        else:
            sign = compare_worth(memory, slots(memory)[u].stream, p, remaining(memory, u), q, remaining(memory, v))
        if sign != 0:
            return bool(sign < 0)
        if memory.prices == PATTERNS and marks(memory)[u] != marks(memory)[v]:
            return bool((marks(memory)[u] < marks(memory)[v]) != memory.youngest)
    else:
        if memory.kind != GAIN_LOSS:
            x = score_of(memory, level, group, u)
            y = score_of(memory, level, other, v)
            if memory.massed and memory.kind == SCORE_TIMES_PRICE:
                x = ranks(memory)[u].score * p
                y = ranks(memory)[v].score * q
            if x != y:
                return bool(x < y)
        elif level == 0:
            s, t = score_in_units(memory, u), score_in_units(memory, v)
            if s != t:
                return below(s, t)
        if memory.tied and ranks(memory)[u].importance != ranks(memory)[v].importance:
            return bool(ranks(memory)[u].importance < ranks(memory)[v].importance)
        if memory.kind == GAIN_LOSS and p != q:
            return bool(p < q)
    if memory.youngest:
        u, v = v, u
    if slots(memory)[u].time != slots(memory)[v].time:
        return bool(slots(memory)[u].time < slots(memory)[v].time)
    if slots(memory)[u].stream != slots(memory)[v].stream:
        return bool(slots(memory)[u].stream < slots(memory)[v].stream)
    return bool(slots(memory)[u].row < slots(memory)[v].row)
