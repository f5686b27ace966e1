"""Who leaves first: tuples in classes, classes in a tournament, in O(log memory) per change.

Scores change for one key at a time, or by the same amount for all. So the order *inside* a class (the tuples of one stream with one
key) never changes, and only the first of each class competes with the others:

    class a   [u3 < u7 < u9]      first: u3 \\
    class b   [u4]                first: u4  > tournament (per stream) > compared between the streams of a pool
    class c   [u1 < u5]           first: u1 /

Inside a class the order is age (the class chain of memory.py) or a pairing heap by a fixed score. The tournament is a winner
tree; for `life`, whose scores fall at different slopes, each node also knows when it is due for another look (a kinetic
tournament). `dgl` has two heaps and two tournaments: tuples above zero, which fall by a common offset, and those at the floor.
"""

from __future__ import annotations

import numpy as np

from penstock.core.compiled import kernel
from penstock.core.memory import key_is_idle, release_key, unlink
from penstock.core.state import (
    Memory,
    draws,
    fresh,
    groups,
    keys,
    lanes,
    nodes,
    pools,
    ranks,
    slots,
    stack,
    stale,
    stale_queue,
    waiting,
)
from penstock.core.trace import Floats, Ints

# Kinds of ranking. ARRIVAL and DRAW need no classes; PRICE, LIFE and STAY order a class by age, the others by a heap.
ARRIVAL, DRAW, PRICE, LIFE, STAY, SCORE, SCORE_TIMES_PRICE, SCORE_PLUS_PRICE, GAIN_LOSS = range(9)

NO_PRICES, RATES, MATCHES = range(3)  # prices of classes: none, per-row rates of the statistics, mn
PATIENCE = 8  # in instants of up to so many arrivals, new classes wait outside the tournament until the shedding is done
FROM_COLUMN, FROM_IMPORTANCE, FROM_MATCHES = range(3)  # where a first score comes from


@kernel
def remaining(memory: Memory, slot: int) -> int:
    """The ticks (or rows) until a tuple leaves its window, not below 0."""
    return max(0, slots(memory)[slot].expiry - lanes(memory)[slots(memory)[slot].stream].clock - memory.less)


@kernel
def compare_products(a: int, x: float, b: int, y: float) -> int:
    """The sign of a*x - b*y, exact where x and y are whole numbers below 2**53, in floating point otherwise."""
    left = a * x
    right = b * y
    if abs(left - right) > 1e-14 * (abs(left) + abs(right)):
        return -1 if left < right else 1
    if x == np.floor(x) and y == np.floor(y):
        exact = int(a) * int(x) - int(b) * int(y)  # may wrap beyond 64 bits, but the difference is small, so it comes out right
        if exact < 0:
            return -1
        return 1 if exact > 0 else 0
    if left < right:
        return -1
    return 1 if left > right else 0


@kernel
def compare_worth(memory: Memory, p: float, life: int, q: float, other_life: int) -> int:
    """Compare two tuples of a policy that ranks by price and remaining life: negative if the first is worth less."""
    if memory.kind == LIFE:
        return compare_products(life, p, other_life, q)
    if memory.kind == STAY:
        sign = compare_products(life, max(0.0, p - memory.toll), other_life, max(0.0, q - memory.toll))
        if sign != 0:
            return sign
    if p < q:
        return -1
    return 1 if p > q else 0


@kernel
def first(memory: Memory, level: int, group: int) -> int:
    """The tuple of a class that leaves first, -1 if there is none."""
    if memory.kind <= STAY:
        return int(groups(memory)[group].head)
    return root_of(memory, level, group)


@kernel
def root_of(memory: Memory, level: int, group: int) -> int:
    """The root of a class's heap: of the tuples above zero (level 0) or of those at the floor (level 1)."""
    return int(groups(memory)[group].floor if level else groups(memory)[group].top)


@kernel
def set_root(memory: Memory, level: int, group: int, slot: int) -> None:
    """Change the root of a class's heap."""
    if level:
        groups(memory)[group].floor = slot
    else:
        groups(memory)[group].top = slot


@kernel
def ahead(memory: Memory, level: int, group: int, other: int) -> bool:
    """Whether the first of class `group` leaves before the first of class `other`."""
    kind = memory.kind
    u = first(memory, level, group)
    v = first(memory, level, other)
    if kind <= STAY:
        sign = compare_worth(
            memory, groups(memory)[group].price, remaining(memory, u), groups(memory)[other].price, remaining(memory, v)
        )
        if sign != 0:
            return bool(sign < 0)
    else:
        x = ranks(memory)[u].score
        y = ranks(memory)[v].score
        if kind == SCORE_TIMES_PRICE:
            x *= groups(memory)[group].price
            y *= groups(memory)[other].price
        elif kind == SCORE_PLUS_PRICE:
            x += memory.match_weight * groups(memory)[group].price
            y += memory.match_weight * groups(memory)[other].price
        elif kind == GAIN_LOSS and level == 0 and lanes(memory)[slots(memory)[u].stream].offset != lanes(memory)[slots(memory)[v].stream].offset:
            x -= lanes(memory)[slots(memory)[u].stream].offset
            y -= lanes(memory)[slots(memory)[v].stream].offset
        if x != y:
            return bool(x < y)
        if memory.tied and ranks(memory)[u].importance != ranks(memory)[v].importance:
            return bool(ranks(memory)[u].importance < ranks(memory)[v].importance)
        if kind == GAIN_LOSS and groups(memory)[group].price != groups(memory)[other].price:
            return bool(groups(memory)[group].price < groups(memory)[other].price)
    if slots(memory)[u].time != slots(memory)[v].time:
        return bool(slots(memory)[u].time < slots(memory)[v].time)
    if slots(memory)[u].stream != slots(memory)[v].stream:
        return bool(slots(memory)[u].stream < slots(memory)[v].stream)
    return bool(slots(memory)[u].row < slots(memory)[v].row)


# The tournament of one stream: node 1 is the root, the leaf of key number k is node `leaves` + k. A node repeats what its winner is
# compared by, so that most decisions look at two neighbouring nodes and nothing else.


@kernel
def _key(memory: Memory, level: int, group: int, slot: int) -> float:
    """What the first tuple of a class is compared by inside its stream, before ties."""
    kind = memory.kind
    if kind <= LIFE:
        return float(groups(memory)[group].price)
    if kind == STAY:
        return max(0.0, groups(memory)[group].price - memory.toll)
    if level:
        return float(ranks(memory)[slot].importance)
    score = ranks(memory)[slot].score
    if kind == SCORE_TIMES_PRICE:
        return float(score * groups(memory)[group].price)
    if kind == SCORE_PLUS_PRICE:
        return float(score + memory.match_weight * groups(memory)[group].price)
    return float(score)


@kernel
def _due(memory: Memory, stream: int, winner: int, loser: int) -> int:
    """The earliest clock at which node `loser` may overtake node `winner`; early is safe."""
    clock = lanes(memory)[stream].clock
    p = nodes(memory)[winner].key
    q = nodes(memory)[loser].key
    if q <= p:
        return max(clock + 1, nodes(memory)[loser].expiry - memory.less)
    a = max(0, nodes(memory)[winner].expiry - clock - memory.less) * p
    b = max(0, nodes(memory)[loser].expiry - clock - memory.less) * q
    ticks = (b - a - 4e-15 * (a + b)) / (q - p)
    return int(clock + max(1, int(np.ceil(min(ticks, 1e17)))))


@kernel
def _judge(memory: Memory, level: int, stream: int, base: int, node: int) -> None:
    """Set one inner node from its two children."""
    kinetic = memory.kind == LIFE or memory.kind == STAY
    left = base + 2 * node
    right = left + 1
    winner = left
    loser = right
    if nodes(memory)[left].winner < 0:
        winner = right
        loser = left
    elif nodes(memory)[right].winner >= 0:
        x = nodes(memory)[left].key
        y = nodes(memory)[right].key
        sign = 0
        if kinetic:
            clock = lanes(memory)[stream].clock + memory.less
            a = max(0, nodes(memory)[left].expiry - clock)
            b = max(0, nodes(memory)[right].expiry - clock)
            sign = compare_products(a, x, b, y)
        elif x != y:
            sign = -1 if x < y else 1
        if sign == 0:
            one = nodes(memory)[left].winner * memory.streams + stream
            other = nodes(memory)[right].winner * memory.streams + stream
            sign = -1 if ahead(memory, level, one, other) else 1
        if sign > 0:
            winner = right
            loser = left
    at = base + node
    nodes(memory)[at].winner = nodes(memory)[winner].winner
    nodes(memory)[at].key = nodes(memory)[winner].key
    if kinetic:
        when = min(nodes(memory)[left].due, nodes(memory)[right].due)
        if nodes(memory)[loser].winner >= 0:
            when = min(when, _due(memory, stream, winner, loser))
        nodes(memory)[at].expiry = nodes(memory)[winner].expiry
        nodes(memory)[at].due = when


@kernel
def _set_leaf(memory: Memory, level: int, stream: int, number: int, at: int) -> None:
    """Set the leaf of a class from its first tuple."""
    group = number * memory.streams + stream
    slot = first(memory, level, group)
    nodes(memory)[at].winner = number if slot >= 0 else -1
    if slot >= 0:
        nodes(memory)[at].key = _key(memory, level, group, slot)
        if memory.kind == LIFE or memory.kind == STAY:
            nodes(memory)[at].expiry = slots(memory)[slot].expiry


@kernel
def promote(memory: Memory, level: int, stream: int, number: int) -> None:
    """Bring the tournament up to date after the first tuple or the price of a class has changed."""
    if memory.kind <= DRAW:
        return
    leaves = memory.leaves
    base = (level * memory.streams + stream) * 2 * leaves
    there = first(memory, level, number * memory.streams + stream) >= 0
    if nodes(memory)[base + leaves + number].winner < 0 and (not there or memory.patient):
        if there:
            _wait(memory, level * len(groups(memory)) + number * memory.streams + stream)
        return
    _set_leaf(memory, level, stream, number, base + leaves + number)
    kinetic = memory.kind == LIFE or memory.kind == STAY
    node = (leaves + number) >> 1
    while node >= 1:
        winner = nodes(memory)[base + node].winner
        when = nodes(memory)[base + node].due if kinetic else 0
        _judge(memory, level, stream, base, node)
        memory.steps += 1
        if nodes(memory)[base + node].winner == winner and winner != number and (not kinetic or nodes(memory)[base + node].due == when):
            break
        node >>= 1


@kernel
def _wait(memory: Memory, place: int) -> None:
    """Keep a new class out of the tournament for now: most are shed in the instant in which they come."""
    for at in range(memory.n_waiting):
        if waiting(memory)[at] == place:
            return
    waiting(memory)[memory.n_waiting] = place
    memory.n_waiting += 1


@kernel
def admit_waiting(memory: Memory) -> None:
    """Let the new classes that have survived the instant into the tournament."""
    memory.patient = 0
    for at in range(memory.n_waiting):
        level = waiting(memory)[at] // len(groups(memory))
        group = waiting(memory)[at] - level * len(groups(memory))
        if first(memory, level, group) >= 0:
            promote(memory, level, group % memory.streams, group // memory.streams)
    memory.n_waiting = 0


@kernel
def refresh(memory: Memory, stream: int) -> None:
    """Judge again every node of a kinetic tournament that is due."""
    leaves = memory.leaves
    base = stream * 2 * leaves
    clock = lanes(memory)[stream].clock
    if nodes(memory)[base + 1].due > clock:
        return
    stack(memory)[0] = 1
    depth = 1
    while depth > 0:
        node = stack(memory)[depth - 1]
        below = 2 * node
        if below < leaves and nodes(memory)[base + below].due <= clock:
            stack(memory)[depth] = below
            depth += 1
        elif below + 1 < leaves and nodes(memory)[base + below + 1].due <= clock:
            stack(memory)[depth] = below + 1
            depth += 1
        else:
            _judge(memory, 0, stream, base, node)
            memory.steps += 1
            depth -= 1


@kernel
def rebuild(memory: Memory) -> None:
    """Set up every tournament from scratch, after its arrays have grown or every price has changed."""
    if memory.kind <= DRAW:
        return
    leaves = memory.leaves
    for level in range(2 if memory.kind == GAIN_LOSS else 1):
        for stream in range(memory.streams):
            base = (level * memory.streams + stream) * 2 * leaves
            for number in range(len(keys(memory))):
                _set_leaf(memory, level, stream, number, base + leaves + number)
            for node in range(leaves - 1, 0, -1):
                _judge(memory, level, stream, base, node)


@kernel
def regroup(memory: Memory, linked: Ints) -> None:
    """Put tuples that were linked anew, with their scores, back into heaps, draws and the queue of stale prices."""
    kind = memory.kind
    streams = memory.streams
    for slot in linked:
        stream = slots(memory)[slot].stream
        number = slots(memory)[slot].key_of
        if kind == DRAW:
            draws(memory)[stream * len(slots(memory)) + slots(memory)[slot].mark] = slot
        elif kind >= SCORE:
            level = 1 if kind == GAIN_LOSS and slots(memory)[slot].ground else 0
            heap_insert(memory, level, number * streams + stream, slot)
        if memory.prices == MATCHES:
            for other in range(streams):
                spoil(memory, number, number * streams + other)


# The pairing heap of a class.


@kernel
def _sooner(memory: Memory, u: int, v: int) -> bool:
    if ranks(memory)[u].score != ranks(memory)[v].score:
        return bool(ranks(memory)[u].score < ranks(memory)[v].score)
    if memory.tied and ranks(memory)[u].importance != ranks(memory)[v].importance:
        return bool(ranks(memory)[u].importance < ranks(memory)[v].importance)
    if slots(memory)[u].time != slots(memory)[v].time:
        return bool(slots(memory)[u].time < slots(memory)[v].time)
    return bool(slots(memory)[u].row < slots(memory)[v].row)


@kernel
def _meld(memory: Memory, u: int, v: int) -> int:
    memory.steps += 1
    if _sooner(memory, v, u):
        u, v = v, u
    kid = ranks(memory)[u].child
    ranks(memory)[v].sibling = kid
    if kid >= 0:
        ranks(memory)[kid].parent = v
    ranks(memory)[u].child = v
    ranks(memory)[v].parent = u
    return u


@kernel
def _meld_children(memory: Memory, slot: int) -> int:
    """The two-pass merge of the children of `slot`."""
    kid = ranks(memory)[slot].child
    ranks(memory)[slot].child = -1
    paired = -1
    while kid >= 0:
        mate = ranks(memory)[kid].sibling
        if mate < 0:
            ranks(memory)[kid].sibling = paired
            paired = kid
            break
        following = ranks(memory)[mate].sibling
        root = _meld(memory, kid, mate)
        ranks(memory)[root].sibling = paired
        paired = root
        kid = following
    root = -1
    while paired >= 0:
        following = ranks(memory)[paired].sibling
        ranks(memory)[paired].sibling = -1
        ranks(memory)[paired].parent = -1
        root = paired if root < 0 else _meld(memory, root, paired)
        paired = following
    return root


@kernel
def heap_insert(memory: Memory, level: int, group: int, slot: int) -> None:
    """Put a tuple into the heap of its class."""
    ranks(memory)[slot].child = -1
    ranks(memory)[slot].sibling = -1
    ranks(memory)[slot].parent = -1
    root = root_of(memory, level, group)
    set_root(memory, level, group, slot if root < 0 else _meld(memory, root, slot))


@kernel
def heap_remove(memory: Memory, level: int, group: int, slot: int) -> None:
    """Take a tuple out of the heap of its class."""
    root = root_of(memory, level, group)
    if root == slot:
        set_root(memory, level, group, _meld_children(memory, slot))
        return
    above = ranks(memory)[slot].parent
    following = ranks(memory)[slot].sibling
    if ranks(memory)[above].child == slot:
        ranks(memory)[above].child = following
    else:
        ranks(memory)[above].sibling = following
    if following >= 0:
        ranks(memory)[following].parent = above
    ranks(memory)[slot].sibling = -1
    rest = _meld_children(memory, slot)
    if rest >= 0:
        set_root(memory, level, group, _meld(memory, root, rest))


# Prices of classes.


@kernel
def spoil(memory: Memory, number: int, group: int) -> None:
    """Note that the matches of a class have changed; they are counted again at the next scoring."""
    if stale(memory)[group] == 0:
        stale(memory)[group] = 1
        stale_queue(memory)[memory.n_stale] = group
        memory.n_stale += 1


@kernel
def spoil_partners(memory: Memory, stream: int, number: int) -> None:
    """A tuple of `stream` came or went: the matches of the other streams' classes with that key have changed."""
    streams = memory.streams
    for other in range(streams):
        if other != stream:
            spoil(memory, number, number * streams + other)


@kernel
def count_matches(memory: Memory) -> None:
    """Bring mn, the price of a class, up to date where it has changed."""
    streams = memory.streams
    for at in range(memory.n_stale):
        group = stale_queue(memory)[at]
        stale(memory)[group] = 0
        number = group // streams
        stream = group - number * streams
        matches = 1.0
        for other in range(streams):
            if other != stream:
                matches *= groups(memory)[number * streams + other].members
        if groups(memory)[group].price != matches:
            groups(memory)[group].price = matches
            if groups(memory)[group].members > 0:
                promote(memory, 0, stream, number)
                if memory.kind == GAIN_LOSS:
                    promote(memory, 1, stream, number)
    memory.n_stale = 0


@kernel
def partner_rate(rates: Floats, stream: int) -> float:
    """p of a tuple of `stream`: the product of its key's rates in the other streams."""
    price = 1.0
    for other in range(len(rates)):
        if other != stream:
            price *= rates[other]
    return price


@kernel
def set_rates(memory: Memory, number: int, rates: Floats) -> None:
    """Price the classes of a key by the rates of its partners (their product)."""
    streams = memory.streams
    for stream in range(streams):
        price = partner_rate(rates, stream)
        group = number * streams + stream
        if groups(memory)[group].price != price:
            groups(memory)[group].price = price
            if groups(memory)[group].members > 0:
                promote(memory, 0, stream, number)


# A tuple enters, a tuple leaves.


@kernel
def enter(memory: Memory, slot: int) -> None:
    """Let a linked and scored arrival compete."""
    kind = memory.kind
    stream = slots(memory)[slot].stream
    number = slots(memory)[slot].key_of
    group = number * memory.streams + stream
    if kind == DRAW:
        at = lanes(memory)[stream].drawable
        lanes(memory)[stream].drawable += 1
        draws(memory)[stream * len(slots(memory)) + at] = slot
        slots(memory)[slot].mark = at
    elif kind >= SCORE:
        level = 1 if kind == GAIN_LOSS and slots(memory)[slot].ground else 0
        heap_insert(memory, level, group, slot)
        if root_of(memory, level, group) == slot:
            promote(memory, level, stream, number)
    elif kind >= PRICE and groups(memory)[group].head == slot:
        promote(memory, 0, stream, number)


@kernel
def leave(memory: Memory, slot: int) -> None:
    """Remove a tuple that has entered, and its key with its last tuple."""
    kind = memory.kind
    streams = memory.streams
    stream = slots(memory)[slot].stream
    number = slots(memory)[slot].key_of
    group = number * streams + stream
    pools(memory)[lanes(memory)[stream].pool] -= slots(memory)[slot].weight if memory.weighted else 1
    changed = groups(memory)[group].head == slot
    level = 0
    if kind == DRAW:
        span = len(slots(memory))
        lanes(memory)[stream].drawable -= 1
        moved = draws(memory)[stream * span + lanes(memory)[stream].drawable]
        draws(memory)[stream * span + slots(memory)[slot].mark] = moved
        slots(memory)[moved].mark = slots(memory)[slot].mark
    elif kind >= SCORE:
        level = 1 if kind == GAIN_LOSS and slots(memory)[slot].ground else 0
        changed = root_of(memory, level, group) == slot
        heap_remove(memory, level, group, slot)
    unlink(memory, slot)
    if changed:
        promote(memory, level, stream, number)
    if memory.prices == MATCHES:
        spoil_partners(memory, stream, number)
    if key_is_idle(memory, number):
        release_key(memory, number)


# The door: an arrival that is worth less than everything in a full pool need not come in.


@kernel
def lowest(memory: Memory, which: int) -> int:
    """The class of a pool whose first tuple leaves first, -1 if there is none (policies that rank by price)."""
    best = -1
    for stream in range(memory.streams):
        if lanes(memory)[stream].pool == which:
            number = nodes(memory)[stream * 2 * memory.leaves + 1].winner
            group = number * memory.streams + stream
            if number >= 0 and (best < 0 or ahead(memory, 0, group, best)):
                best = group
    return best


@kernel
def is_hopeless(memory: Memory, low: int, price: float, expiry: int, stream: int) -> bool:
    """Whether an arrival ranks below class `low`, the lowest of its pool."""
    life = max(0, expiry - lanes(memory)[stream].clock - memory.less)
    held = groups(memory)[low]
    return compare_worth(memory, price, life, held.price, remaining(memory, held.head)) < 0


@kernel
def next_turned_away(
    memory: Memory, which: int, stream: Ints, expiry: Ints, rates: Floats, begin: int, end: int
) -> int:
    """Of the arrivals that were turned away (-1 in `fresh`) from a pool, the one that ranks lowest; -1 if none is left."""
    best = -1
    for at in range(begin, end):
        if fresh(memory)[at - begin] != -1 or lanes(memory)[stream[at]].pool != which:
            continue
        if best >= 0:
            sign = compare_worth(
                memory,
                partner_rate(rates[at], stream[at]),
                max(0, expiry[at] - lanes(memory)[stream[at]].clock - memory.less),
                partner_rate(rates[best], stream[best]),
                max(0, expiry[best] - lanes(memory)[stream[best]].clock - memory.less),
            )
            if sign > 0 or (sign == 0 and stream[at] >= stream[best]):
                continue
        best = at
    return best


# The victim.


@kernel
def draw_number(memory: Memory, below: int) -> int:
    """A random whole number in [0, below), by two combined multiplicative generators (L'Ecuyer 1988)."""
    number = 0
    for _ in range(2):
        memory.random1 = memory.random1 * 40014 % 2147483563
        memory.random2 = memory.random2 * 40692 % 2147483399
        number = number * 2147483562 + (memory.random1 - memory.random2) % 2147483562
    return int(number % below)


@kernel
def victim(memory: Memory, which: int, first_row: int) -> int:
    """The tuple of a pool that leaves first."""
    kind = memory.kind
    streams = memory.streams
    if kind == DRAW:
        return _drawn_victim(memory, which, first_row)
    best = -1
    if kind == ARRIVAL:
        for stream in range(streams):
            slot = lanes(memory)[stream].oldest
            if lanes(memory)[stream].pool == which and slot >= 0 and (best < 0 or _arrived_before(memory, slot, best)):
                best = slot
        return int(best)
    leaves = memory.leaves
    for level in range(1 if kind == GAIN_LOSS else 0, -1, -1):
        for stream in range(streams):
            if lanes(memory)[stream].pool == which:
                number = nodes(memory)[(level * streams + stream) * 2 * leaves + 1].winner
                group = number * streams + stream
                if number >= 0 and (best < 0 or ahead(memory, level, group, best)):
                    best = group
        for at in range(memory.n_waiting):
            group = waiting(memory)[at] - level * len(groups(memory))
            if 0 <= group < len(groups(memory)) and lanes(memory)[group % streams].pool == which:
                if first(memory, level, group) >= 0 and (best < 0 or ahead(memory, level, group, best)):
                    best = group
        if best >= 0:
            return first(memory, level, best)
    return -1


@kernel
def _arrived_before(memory: Memory, u: int, v: int) -> bool:
    if slots(memory)[u].mark != slots(memory)[v].mark:
        return bool(slots(memory)[u].mark < slots(memory)[v].mark)
    if slots(memory)[u].stream != slots(memory)[v].stream:
        return bool(slots(memory)[u].stream < slots(memory)[v].stream)
    return bool(slots(memory)[u].row < slots(memory)[v].row)


@kernel
def _drawn_victim(memory: Memory, which: int, first_row: int) -> int:
    total = 0
    for stream in range(memory.streams):
        if lanes(memory)[stream].pool == which:
            total += lanes(memory)[stream].drawable
    span = len(slots(memory))
    safe = memory.newcomer_safe == 1
    if safe:
        safe = False
        for stream in range(memory.streams):
            slot = lanes(memory)[stream].oldest
            if lanes(memory)[stream].pool == which and slot >= 0 and slots(memory)[slot].row < first_row:
                safe = True
    while True:
        at = draw_number(memory, total)
        memory.steps += 1
        for stream in range(memory.streams):
            if lanes(memory)[stream].pool == which:
                if at < lanes(memory)[stream].drawable:
                    slot = draws(memory)[stream * span + at]
                    if not safe or slots(memory)[slot].row < first_row:
                        return int(slot)
                    break
                at -= lanes(memory)[stream].drawable


# dgl.


@kernel
def gain(memory: Memory, stream: int, number: int, first_row: int, old_offset: float) -> None:
    """Raise the older tuples of a class, which have just found matching arrivals."""
    streams = memory.streams
    group = number * streams + stream
    instant = memory.instant & 0x7FFFFFFF
    if groups(memory)[group].gained == instant or groups(memory)[group].members == 0:
        return
    groups(memory)[group].gained = instant
    for level in range(2):
        set_root(memory, level, group, -1)
    offset = lanes(memory)[stream].offset
    alpha = memory.alpha
    if np.isnan(alpha):
        alpha = lanes(memory)[stream].length
    slot = groups(memory)[group].head
    while slot >= 0:
        if slots(memory)[slot].row < first_row:
            score = 0.0 if slots(memory)[slot].ground else ranks(memory)[slot].score - old_offset
            score += ranks(memory)[slot].importance * groups(memory)[group].price * remaining(memory, slot) / alpha
            place_by_score(memory, slot, score, offset)
            heap_insert(memory, int(slots(memory)[slot].ground), group, slot)
            memory.gains += 1
        slot = slots(memory)[slot].after
    promote(memory, 0, stream, number)
    promote(memory, 1, stream, number)


@kernel
def place_by_score(memory: Memory, slot: int, score: float, offset: float) -> None:
    """Note a `dgl` score: at the floor, or above it relative to the common offset."""
    slots(memory)[slot].ground = 0 if score > 0 else 1
    ranks(memory)[slot].score = score + offset if score > 0 else 0.0


@kernel
def sink(memory: Memory, stream: int) -> None:
    """Move the tuples of a stream whose score has fallen to zero to the floor."""
    streams = memory.streams
    root = stream * 2 * memory.leaves + 1
    while nodes(memory)[root].winner >= 0:
        number = nodes(memory)[root].winner
        group = number * streams + stream
        slot = groups(memory)[group].top
        if ranks(memory)[slot].score > lanes(memory)[stream].offset:
            return
        heap_remove(memory, 0, group, slot)
        promote(memory, 0, stream, number)
        place_by_score(memory, slot, 0.0, 0.0)
        heap_insert(memory, 1, group, slot)
        promote(memory, 1, stream, number)
