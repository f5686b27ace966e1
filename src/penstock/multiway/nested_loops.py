"""The compiled nested loops over windows (Golab 3.1-3.6): one loop nest serves every algorithm.

A combination is found once, at its newest member k. Loops outside of k's go over whole windows; k's own loop goes over the new
tuples and drops combinations that had expired, or were not there yet, when k came (the timestamp check, without which Table 3's
wrong rows appear); loops inside stop at the first tuple newer than k.

What is counted. *Comparisons*: tuples visited in any loop but the outermost, the stale ones that wait for lazy expiration
included, but not the newer one at which a loop stops. *Timely*: those that pass the timestamp check. The cost model of cost.py
counts the same (`counted="visited"` and `"compared"`).

Differs from the paper: loops are positions in an array, not code, so that n is free; each loop checks every link to what is
bound, so that predicates may differ from pair to pair (docs/readings.md, 27).
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.core.compiled import inlined, kernel
from penstock.core.trace import Floats, Ints
from penstock.core.value import finish, fold, start
from penstock.multiway.linked_windows import FRESH, HEAD, OUT, Tuples, WindowStore, drop_from, expire, insert, settle_down
from penstock.multiway.loops import Loops
from penstock.multiway.pair_checks import Links, holds

COMPARISONS, TIMELY, BUCKETS, SWEPT, INSERTIONS, EXPIRATIONS, EVALUATIONS, OUTPUTS, PEAK = range(9)
"""Positions in the counts."""
POSITION, BATCH, ORIGIN, LEVEL, PIVOT, NEXT_EVALUATION, NEXT_EXPIRATION, LOGGED, PROBING = range(9)
"""Positions in the state between two calls."""
EAGER_EXPIRATION, ON_VISIT = 0, -1
"""Ticks between expirations, but for these: before each arrival; a bucket's when it is visited (and no other ever)."""


class Terms(NamedTuple):
    """What a run goes by. `every` is the re-evaluation interval in ticks; 0 is at each arrival."""

    every: int
    expire_every: int
    start: int
    objective: int
    keep: int


@kernel
def play(
    tuples: Tuples, links: Links, plan: Loops, store: WindowStore, terms: Terms, importance: Floats, until: int,
    state: Ints, cursor: Ints, chosen: Ints, counts: Ints, value: Floats, log: Ints,
) -> bool:  # fmt: skip
    """Take rows up to `until` and evaluate what is due. False: the log is full, and there is more to come at the same place."""
    streams = len(store.first) - 1
    total = len(tuples.row)
    while True:
        if state[PROBING]:
            while state[ORIGIN] < streams:
                if state[LEVEL] >= 0 or _next_new(tuples, state[ORIGIN], state[BATCH], state[POSITION]) >= 0:
                    if not _nest(tuples, links, plan, store, terms, importance, state, cursor, chosen, counts, value, log):
                        return False
                state[ORIGIN] = streams if terms.every == 0 else state[ORIGIN] + 1
                state[LEVEL] = -1
            state[PROBING] = 0
            for u in range(state[BATCH], state[POSITION]):
                settle_down(store, links.codes, tuples.stream[u], u)
            state[BATCH] = state[POSITION]
            counts[EVALUATIONS] += 1
        at = state[POSITION]
        if terms.every > 0 and state[BATCH] < at and (at == total or tuples.time[at] >= state[NEXT_EVALUATION]):
            _start(state, 0)
            continue
        if at >= until:
            return True
        time = tuples.time[at]
        if terms.every > 0 and time >= state[NEXT_EVALUATION]:
            state[NEXT_EVALUATION] += ((time - state[NEXT_EVALUATION]) // terms.every + 1) * terms.every
        if terms.expire_every == EAGER_EXPIRATION:
            counts[EXPIRATIONS] += expire(store, tuples.instant[at], counts[SWEPT:])
        elif terms.expire_every > 0 and time >= state[NEXT_EXPIRATION] and state[BATCH] == at:
            counts[EXPIRATIONS] += expire(store, tuples.instant[at], counts[SWEPT:])
            state[NEXT_EXPIRATION] += ((time - state[NEXT_EXPIRATION]) // terms.expire_every + 1) * terms.expire_every
        insert(store, links.codes, tuples.stream[at], at)
        counts[INSERTIONS] += 1
        counts[PEAK] = max(counts[PEAK], counts[INSERTIONS] - counts[EXPIRATIONS])
        state[POSITION] = at + 1
        if terms.every == 0:
            _start(state, tuples.stream[at])


@inlined
def _start(state: Ints, origin: int) -> None:
    state[PROBING] = 1
    state[ORIGIN] = origin
    state[LEVEL] = -1


@kernel
def _nest(
    tuples: Tuples, links: Links, plan: Loops, store: WindowStore, terms: Terms, importance: Floats,
    state: Ints, cursor: Ints, chosen: Ints, counts: Ints, value: Floats, log: Ints,
) -> bool:  # fmt: skip
    """Join the new tuples of one stream with all windows. False: the log is full."""
    origin = state[ORIGIN]
    streams = len(store.first) - 1
    place, last = plan.place[origin], streams - 1
    level, k, logged = state[LEVEL], state[PIVOT], state[LOGGED]
    now = tuples.instant[k] if k >= 0 else 0
    comparisons, timely, buckets = 0, 0, 0
    if level < 0:
        level = 0
        cursor[0] = _first(store, plan, origin, state[BATCH], state[POSITION], tuples)
        chosen[plan.order[origin, 0]] = -1
    full = False
    while level >= 0:
        u = cursor[level]
        stream = plan.order[origin, level]
        link = 1 + plan.scan[origin, level] - store.first[stream]
        if level == last and level > place:  # most visits are here
            found = 0
            while u >= 0 and u <= k:
                if terms.keep and logged == len(log):
                    full = True
                    break
                comparisons += 1
                if store.nodes[u, OUT] > now:
                    timely += 1
                    if _matches(links, plan, chosen, origin, level, stream, u):
                        chosen[stream] = u
                        found += 1
                        if terms.objective > 0:
                            _appraise(tuples, terms, importance, chosen, k, value)
                        if terms.keep:
                            _write(tuples, chosen, k, log, logged)
                            logged += 1
                u = store.nodes[u, link]
            if tuples.time[k] >= terms.start:
                counts[OUTPUTS] += found
            cursor[level] = u
            if full:
                break
            level -= 1
            continue
        if u < 0 or (level > place and u > k):
            level -= 1
            continue
        if terms.keep and logged == len(log):
            full = True
            break
        cursor[level] = _next_new(tuples, origin, u + 1, state[POSITION]) if level == 0 and place == 0 else store.nodes[u, link]
        if level > 0:
            comparisons += 1
        if level == place:
            k = u
            now = tuples.instant[k]
            if not _were_there(store, plan, chosen, origin, level, k, now):
                continue
        elif level > place and store.nodes[u, OUT] <= now:
            continue
        if level > 0:
            timely += 1
        if not _matches(links, plan, chosen, origin, level, stream, u):
            continue
        chosen[stream] = u
        if level < last:
            level += 1
            buckets += 1
            cursor[level] = _open(store, links, plan, terms, chosen, counts, origin, level, now)
        else:
            counts[OUTPUTS] += tuples.time[k] >= terms.start
            if terms.objective > 0:
                _appraise(tuples, terms, importance, chosen, k, value)
            if terms.keep:
                _write(tuples, chosen, k, log, logged)
                logged += 1
    counts[COMPARISONS] += comparisons
    counts[TIMELY] += timely
    counts[BUCKETS] += buckets
    state[LEVEL], state[PIVOT], state[LOGGED] = level, k, logged
    return not full


@inlined
def _appraise(tuples: Tuples, terms: Terms, importance: Floats, chosen: Ints, k: int, value: Floats) -> None:
    """Add the value of the chosen combination."""
    if tuples.time[k] >= terms.start:
        folded = start(terms.objective)
        for member in range(len(chosen)):
            folded = fold(terms.objective, folded, importance[chosen[member]])
        value[0] += finish(terms.objective, folded, len(chosen))


@inlined
def _write(tuples: Tuples, chosen: Ints, k: int, log: Ints, logged: int) -> None:
    """Write the chosen combination down."""
    log[logged, 0] = tuples.time[k]
    for member in range(len(chosen)):
        log[logged, 1 + member] = chosen[member]


@inlined
def _first(store: WindowStore, plan: Loops, origin: int, batch: int, end: int, tuples: Tuples) -> int:
    """Where the outermost loop begins."""
    if plan.place[origin] == 0:
        return _next_new(tuples, origin, batch, end)
    return store.ends[store.base[plan.scan[origin, 0]], HEAD]


@inlined
def _next_new(tuples: Tuples, origin: int, begin: int, end: int) -> int:
    """The first new tuple of a stream from a position on."""
    for u in range(begin, end):
        if tuples.stream[u] == origin:
            return u
    return -1


@inlined
def _open(
    store: WindowStore, links: Links, plan: Loops, terms: Terms, chosen: Ints, counts: Ints, origin: int, level: int, now: int
) -> int:
    """Where an inner loop begins: at the head of a list or bucket, or at its first new tuple."""
    index = plan.scan[origin, level]
    at = store.base[index]
    if plan.source[origin, level] >= 0:
        code = links.codes[chosen[plan.source[origin, level]], store.column[index]]
        if code < 0:
            return -1
        at += code % store.buckets[index]
    if level == plan.place[origin]:
        return store.ends[at, FRESH]
    if terms.expire_every == ON_VISIT:
        counts[EXPIRATIONS] += drop_from(store, at, 1 + index - store.first[plan.order[origin, level]], now)
    return store.ends[at, HEAD]


@inlined
def _were_there(store: WindowStore, plan: Loops, chosen: Ints, origin: int, level: int, k: int, now: int) -> bool:
    """Whether k itself and all that is bound outside of its loop were in their windows when k came."""
    if store.nodes[k, OUT] <= now:
        return False
    for outer in range(level):
        u = chosen[plan.order[origin, outer]]
        if u > k or store.nodes[u, OUT] <= now:
            return False
    return True


@inlined
def _matches(links: Links, plan: Loops, chosen: Ints, origin: int, level: int, stream: int, u: int) -> bool:
    """Whether a tuple passes all checks against what is bound."""
    for at in range(plan.begin[origin, level], plan.end[origin, level]):
        other = plan.other[at]
        v = chosen[other]
        if not (holds(links, plan.check[at], u, v) if stream < other else holds(links, plan.check[at], v, u)):
            return False
    return True
