"""Who leaves first: tuples in classes, classes in a tournament, in O(log memory) per change.

Scores change for one key at a time, or by the same amount for all. So the order *inside* a class (the tuples of one stream with one
key) never changes, and only the first of each class competes with the others:

    class a   [u3 < u7 < u9]      first: u3 \\
    class b   [u4]                first: u4  > tournament (per stream) > compared between the streams of a pool
    class c   [u1 < u5]           first: u1 /

Inside a class the order is age (the class chain of memory.py) or a pairing heap by a fixed score (heaps.py). The tournament is a winner
tree; for `life`, whose scores fall at different slopes, each node also knows when it is due for another look (a kinetic
tournament). `dgl` has two heaps and two tournaments (levels): tuples above zero, which fall by a common offset, and those at the floor.
"""

from __future__ import annotations

import numpy as np

from penstock.core.compiled import inlined, kernel
from penstock.core.state import Memory, groups, lanes, losses, nodes, ranks, slots, stack, stale_queue, terms, tolls, waiting
from penstock.core.trace import Floats, Ints
from penstock.core.window import NEVER

# Kinds of ranking. ARRIVAL and DRAW need no classes; PRICE, LIFE and STAY order a class by age, the others by a heap.
ARRIVAL, DRAW, PRICE, LIFE, STAY, SCORE, SCORE_TIMES_PRICE, SCORE_PLUS_PRICE, GAIN_LOSS = range(9)
NO_PRICES, RATES, MATCHES = range(3)  # prices of classes: none, per-row rates of the statistics, mn
FROM_COLUMN, FROM_IMPORTANCE, FROM_MATCHES = range(3)  # where a first score comes from
PATIENCE = 8  # in instants of up to so many arrivals, new classes wait outside the tournament until the shedding is done


@inlined
def is_kinetic(memory: Memory) -> bool:
    """Whether scores fall as the clock goes on, at slopes of their own."""
    return bool(memory.kind == LIFE or memory.kind == STAY)


@inlined
def life_left(memory: Memory, stream: int, expiry: int) -> int:
    """The ticks (or rows) until a tuple leaves its window, not below 0."""
    return max(0, expiry - lanes(memory)[stream].clock - memory.less)


@inlined
def remaining(memory: Memory, slot: int) -> int:
    """`life_left` of a retained tuple."""
    return life_left(memory, slots(memory)[slot].stream, slots(memory)[slot].expiry)


@inlined
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


@inlined
def toll_of(memory: Memory, stream: int) -> float:
    """elife: the price of a slot in the pool of a stream."""
    return float(tolls(memory)[lanes(memory)[stream].pool].used)


@inlined
def compare_worth(memory: Memory, stream: int, p: float, life: int, q: float, other_life: int) -> int:
    """Compare two tuples of one pool, that of `stream`, by price and remaining life: negative if the first is worth less."""
    if memory.kind == LIFE:
        return compare_products(life, p, other_life, q)
    if memory.kind == STAY:
        toll = toll_of(memory, stream)
        sign = compare_products(life, max(0.0, p - toll), other_life, max(0.0, q - toll))
        if sign != 0:
            return sign
    if p < q:
        return -1
    return 1 if p > q else 0


@inlined
def root_of(memory: Memory, level: int, group: int) -> int:
    """The root of a class's heap: of the tuples above zero (level 0) or of those at the floor (level 1)."""
    return int(losses(memory)[group].floor if level else groups(memory)[group].top)


@inlined
def first(memory: Memory, level: int, group: int) -> int:
    """The tuple of a class that leaves first, -1 if there is none."""
    if memory.kind <= STAY:
        return int(groups(memory)[group].head)
    return root_of(memory, level, group)


@kernel
def score_of(memory: Memory, level: int, group: int, slot: int) -> float:
    """The score of the first tuple of a class, without what all tuples of its stream have lost."""
    if level:
        return 0.0
    score = ranks(memory)[slot].score
    if memory.kind == SCORE_TIMES_PRICE:
        return float(score * groups(memory)[group].price)
    if memory.kind == SCORE_PLUS_PRICE:
        return float(score + memory.match_weight * groups(memory)[group].price)
    return float(score)


@kernel
def ahead(memory: Memory, level: int, group: int, other: int) -> bool:
    """Whether the first of class `group` leaves before the first of class `other`: the whole rank, for any two streams."""
    u = first(memory, level, group)
    v = first(memory, level, other)
    p = groups(memory)[group].price
    q = groups(memory)[other].price
    if memory.kind <= STAY:
        sign = compare_worth(memory, slots(memory)[u].stream, p, remaining(memory, u), q, remaining(memory, v))
        if sign != 0:
            return bool(sign < 0)
    else:
        x = score_of(memory, level, group, u)
        y = score_of(memory, level, other, v)
        if level == 0:
            lost = lanes(memory)[slots(memory)[u].stream].offset
            other_lost = lanes(memory)[slots(memory)[v].stream].offset
            if lost != other_lost:
                x -= lost
                y -= other_lost
        if x != y:
            return bool(x < y)
        if memory.tied and ranks(memory)[u].importance != ranks(memory)[v].importance:
            return bool(ranks(memory)[u].importance < ranks(memory)[v].importance)
        if memory.kind == GAIN_LOSS and p != q:
            return bool(p < q)
    if slots(memory)[u].time != slots(memory)[v].time:
        return bool(slots(memory)[u].time < slots(memory)[v].time)
    if slots(memory)[u].stream != slots(memory)[v].stream:
        return bool(slots(memory)[u].stream < slots(memory)[v].stream)
    return bool(slots(memory)[u].row < slots(memory)[v].row)


# The tournament of one stream: node 1 is the root; node len(groups) + c stands for class c and is not stored. A class repeats what its
# first tuple is compared by, so that a decision looks at two classes and, unless they tie, at nothing else.


@inlined
def _note(memory: Memory, group: int) -> None:
    """Repeat in the class what its first tuple is compared by."""
    slot = first(memory, 0, group)
    held = groups(memory)[group]
    if memory.kind >= SCORE:
        held.worth = score_of(memory, 0, group, slot)
        held.tie = ranks(memory)[slot].importance if memory.tied else 0.0
    else:
        held.worth = max(0.0, held.price - toll_of(memory, held.stream)) if memory.kind == STAY else held.price
        held.tie = held.price
    held.moment = slots(memory)[slot].expiry if is_kinetic(memory) else slots(memory)[slot].time


@inlined
def _beats(memory: Memory, level: int, group: int, other: int) -> bool:
    """`ahead` for two classes of one stream, by what they repeat as far as that decides."""
    if level == 0:
        a = groups(memory)[group]
        b = groups(memory)[other]
        if is_kinetic(memory):
            sign = compare_products(life_left(memory, a.stream, a.moment), a.worth, life_left(memory, b.stream, b.moment), b.worth)
            if sign != 0:
                return bool(sign < 0)
        else:
            if a.worth != b.worth:
                return bool(a.worth < b.worth)
            if a.tie != b.tie:
                return bool(a.tie < b.tie)
            if memory.kind == GAIN_LOSS and a.price != b.price:
                return bool(a.price < b.price)
            if a.moment != b.moment:
                return bool(a.moment < b.moment)
    return ahead(memory, level, group, other)


@inlined
def _winner(memory: Memory, level: int, stream: int, base: int, node: int) -> int:
    """The class that wins at a node, -1 if nobody plays."""
    size = len(groups(memory))
    if node < size:
        return int(nodes(memory)[base + node])
    group = node - size
    if groups(memory)[group].stream == stream and (groups(memory)[group].plays >> level) & 1:
        return group
    return -1


@kernel
def _due(memory: Memory, stream: int, winner: int, loser: int) -> int:
    """The earliest clock at which class `loser` may overtake class `winner`; early is safe."""
    clock = lanes(memory)[stream].clock
    p = groups(memory)[winner].worth
    q = groups(memory)[loser].worth
    if q <= p:
        return max(clock + 1, groups(memory)[loser].moment - memory.less)
    a = life_left(memory, stream, groups(memory)[winner].moment) * p
    b = life_left(memory, stream, groups(memory)[loser].moment) * q
    ticks = (b - a - 4e-15 * (a + b)) / (q - p)
    return int(clock + max(1, int(np.ceil(min(ticks, 1e17)))))


@kernel
def _judge(memory: Memory, level: int, stream: int, base: int, node: int) -> None:
    """Set one inner node from its two children."""
    left = _winner(memory, level, stream, base, 2 * node)
    right = _winner(memory, level, stream, base, 2 * node + 1)
    winner = left
    loser = right
    if left < 0 or (right >= 0 and not _beats(memory, level, left, right)):
        winner = right
        loser = left
    nodes(memory)[base + node] = winner
    if is_kinetic(memory):
        terms(memory)[base + node].own = _due(memory, stream, winner, loser) if loser >= 0 else NEVER
        _set_due(memory, base, node)


@inlined
def _set_due(memory: Memory, base: int, node: int) -> None:
    """When an inner node must be looked at again: for its own sake, or for something below it."""
    size = len(groups(memory))
    when = terms(memory)[base + node].own
    for below in range(2 * node, 2 * node + 2):
        if below < size:
            when = min(when, terms(memory)[base + below].due)
    terms(memory)[base + node].due = when


@kernel
def promote(memory: Memory, level: int, group: int) -> None:
    """Bring the tournament up to date after the first tuple or the price of a class has changed."""
    if memory.kind <= DRAW:
        return
    there = first(memory, level, group) >= 0
    playing = (groups(memory)[group].plays >> level) & 1
    if not playing and (not there or memory.patient):
        if there:
            _wait(memory, level * len(groups(memory)) + group)
        return
    if there and level == 0:
        _note(memory, group)
    if there != playing:
        groups(memory)[group].plays ^= 1 << level
    stream = int(groups(memory)[group].stream)
    size = len(groups(memory))
    base = (level * memory.streams + stream) * size
    node = (size + group) >> 1
    while node >= 1:
        winner = nodes(memory)[base + node]
        _judge(memory, level, stream, base, node)
        memory.steps += 1
        if nodes(memory)[base + node] == winner and winner != group:
            break
        node >>= 1
    if is_kinetic(memory):
        node >>= 1
        while node >= 1:
            when = terms(memory)[base + node].due
            _set_due(memory, base, node)
            if terms(memory)[base + node].due == when:
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
        if groups(memory)[group].members > 0 and first(memory, level, group) >= 0:
            promote(memory, level, group)
    memory.n_waiting = 0


@kernel
def refresh(memory: Memory, stream: int) -> None:
    """Judge again every node of a kinetic tournament that is due; above it only what has changed."""
    size = len(groups(memory))
    base = stream * size
    clock = lanes(memory)[stream].clock
    if terms(memory)[base + 1].due > clock:
        return
    path = stack(memory)  # nodes from the root down; in the second half, whether a winner below has changed
    half = len(path) // 2
    path[0] = 1
    path[half] = 0
    depth = 0
    while depth >= 0:
        node = path[depth]
        below = 2 * node
        if below < size and terms(memory)[base + below].due > clock:
            below += 1
        if below < size and terms(memory)[base + below].due <= clock:
            depth += 1
            path[depth] = below
            path[half + depth] = 0
            continue
        winner = nodes(memory)[base + node]
        if path[half + depth] or terms(memory)[base + node].own <= clock:
            _judge(memory, 0, stream, base, node)
            memory.steps += 1
        else:
            _set_due(memory, base, node)
        depth -= 1
        if depth >= 0 and nodes(memory)[base + node] != winner:
            path[half + depth] = 1


@kernel
def rebuild(memory: Memory) -> None:
    """Set up every tournament from scratch, after its arrays have grown or every price has changed."""
    if memory.kind <= DRAW:
        return
    size = len(groups(memory))
    for level in range(2 if memory.kind == GAIN_LOSS else 1):
        for group in range(size):
            there = groups(memory)[group].members > 0 and first(memory, level, group) >= 0
            if there != (groups(memory)[group].plays >> level) & 1:
                groups(memory)[group].plays ^= 1 << level
            if there and level == 0:
                _note(memory, group)
        for stream in range(memory.streams):
            base = (level * memory.streams + stream) * size
            for node in range(size - 1, 0, -1):
                _judge(memory, level, stream, base, node)


@inlined
def lowest(memory: Memory, level: int, which: int) -> int:
    """The class of a pool whose first tuple leaves first, of those in tournaments; -1 if there is none."""
    best = -1
    for stream in range(memory.streams):
        if lanes(memory)[stream].pool == which:
            group = nodes(memory)[(level * memory.streams + stream) * len(groups(memory)) + 1]
            if group >= 0 and (best < 0 or ahead(memory, level, group, best)):
                best = group
    return int(best)


# Prices of classes.


@inlined
def spoil(memory: Memory, group: int) -> None:
    """Note that the matches of a class have changed; they are counted again at the next scoring."""
    if groups(memory)[group].stale == 0:
        groups(memory)[group].stale = 1
        stale_queue(memory)[memory.n_stale] = group
        memory.n_stale += 1


@kernel
def spoil_partners(memory: Memory, group: int) -> None:
    """A tuple of `group` came or went: the matches of the other classes with that key have changed."""
    other = groups(memory)[group].kin
    while other != group:
        spoil(memory, other)
        other = groups(memory)[other].kin


@kernel
def partners(memory: Memory, group: int) -> int:
    """How many combinations the other streams hold for one more tuple of this class."""
    found = 0
    product = 1
    other = groups(memory)[group].kin
    while other != group:
        product *= groups(memory)[other].members
        found += 1
        other = groups(memory)[other].kin
    return product if found == memory.streams - 1 else 0


@kernel
def count_matches(memory: Memory) -> None:
    """Bring mn, the price of a class, up to date where it has changed."""
    for at in range(memory.n_stale):
        group = stale_queue(memory)[at]
        groups(memory)[group].stale = 0
        if groups(memory)[group].kin < 0:
            continue
        matches = float(partners(memory, group))
        if groups(memory)[group].price != matches:
            groups(memory)[group].price = matches
            if groups(memory)[group].members > 0:
                promote(memory, 0, group)
                if memory.kind == GAIN_LOSS:
                    promote(memory, 1, group)
    memory.n_stale = 0


@inlined
def partner_rate(rates: Floats, stream: int) -> float:
    """p of a tuple of `stream`: the product of its key's rates in the other streams."""
    price = 1.0
    for other in range(len(rates)):
        if other != stream:
            price *= rates[other]
    return price


@kernel
def set_rates(memory: Memory, ring: int, rates: Floats) -> None:
    """Price the classes of a key by the rates of their partners."""
    group = ring
    while True:
        price = partner_rate(rates, groups(memory)[group].stream)
        if groups(memory)[group].price != price:
            groups(memory)[group].price = price
            if groups(memory)[group].members > 0:
                promote(memory, 0, group)
        group = groups(memory)[group].kin
        if group == ring:
            return


@inlined
def is_hopeless(memory: Memory, low: int, price: float, expiry: int, stream: int) -> bool:
    """Whether an arrival ranks below class `low`, the lowest of its pool (policies that rank by price)."""
    held = groups(memory)[low]
    return compare_worth(memory, stream, price, life_left(memory, stream, expiry), held.price, remaining(memory, held.head)) < 0


@kernel
def worth_less(memory: Memory, stream: Ints, expiry: Ints, rates: Floats, at: int, other: int) -> bool:
    """Whether arrival `at` ranks below arrival `other` of the same instant (policies that rank by price)."""
    sign = compare_worth(
        memory,
        stream[at],
        partner_rate(rates[at], stream[at]),
        life_left(memory, stream[at], expiry[at]),
        partner_rate(rates[other], stream[other]),
        life_left(memory, stream[other], expiry[other]),
    )
    return bool(sign < 0 or (sign == 0 and stream[at] < stream[other]))
