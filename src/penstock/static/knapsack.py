"""Leave one out: the best whole keys beside each key that may be kept in part, in O(c log c · k) (Das 3.2 with Lemma 2).

`best[j]` is the most outputs of whole keys with at most j tuples. To have it without each of many keys in turn, halve them: add the right
half and descend into the left one, then the other way round. Every key is added log c times, O(k) each; at the bottom one is left out:

    keys      0 1 2 3
    added     . . + +     then 1 (0 is left out), then 0 instead (1 is left out)
              + + . .     then 3 (2 is left out), then 2 instead (3 is left out)
"""

from __future__ import annotations

import numpy as np

from penstock.core.compiled import kernel, routine
from penstock.core.trace import Bools, Floats, Ints


@kernel
def outputs(m: int, n: int, p: int) -> int:
    """The outputs of the best p tuples of K(m, n): `most_outputs`, compiled."""
    small = min(m, n)
    half = p // 2
    return half * (p - half) if p <= 2 * small else small * (p - small)


@kernel
def put(before: Ints, after: Ints, size: int, value: int) -> None:
    """One more key, which may be taken whole or not at all."""
    end = len(before)
    for j in range(min(size, end)):
        after[j] = before[j]
    for j in range(size, end):
        with_it = before[j - size] + value
        after[j] = max(before[j], with_it)


@routine
def put_all(start: Ints, room: Ints, spare: Ints, size: Ints, value: Ints, first: int, last: int) -> None:
    """`start` and the keys from `first` to `last`, into `room`; `spare` is overwritten."""
    if first == last:
        room[:] = start
        return
    put(start, room, size[first], value[first])
    for i in range(first + 1, last):
        if (i - first) % 2:
            put(room, spare, size[i], value[i])
        else:
            put(spare, room, size[i], value[i])
    if (last - first) % 2 == 0:
        room[:] = spare


@routine
def fill(size: Ints, value: Ints, keep: int) -> Ints:
    """The most outputs of whole keys with at most 0, 1, ..., `keep` tuples."""
    best = np.zeros((3, keep + 1), dtype=np.int64)
    put_all(best[0], best[1], best[2], size, value, 0, len(size))
    return best[1]


@routine
def forced(m: Ints, n: Ints, reached: Ints, best: Ints, room: int, there: bool, found: int) -> tuple[int, int, int]:
    """The best choice with one of these keys in part: (outputs, that key, its tuples), if it has more than `found` outputs.

    The keys are absent but for up to `reached` tuples, or `there` but for as many. `room` is the number of tuples for the open keys
    without that, `best` their outputs.
    """
    which, tuples = -1, 0
    for i in range(len(m)):
        size, value = m[i] + n[i], m[i] * n[i]
        for step in range(1, reached[i] + 1):
            left = room + step if there else room - step
            if left < 0:
                continue
            p = size - step if there else step
            total = best[left] + outputs(m[i], n[i], p) - (value if there else 0)
            if total > found:
                found, which, tuples = total, i, p
    return found, which, tuples


@routine
def hopes(m: Ints, n: Ints, best: Ints, room: int) -> Ints:
    """For each key a bound on the outputs with it in part: as if it could be kept whole as well."""
    hope = np.zeros(len(m), dtype=np.int64)
    for i in range(len(m)):
        for p in range(1, min(m[i] + n[i] - 1, room) + 1):
            hope[i] = max(hope[i], best[room - p] + outputs(m[i], n[i], p))
    return hope


@routine
def leave_one_out(m: Ints, n: Ints, partial: int, keep: int) -> tuple[int, int, int]:
    """The best choice with one of the first `partial` keys in part, or none: (outputs, that key, its tuples)."""
    size, value = m + n, m * n
    depth = 2
    while 1 << (depth - 2) < partial:
        depth += 1
    room = np.zeros((depth, keep + 1), dtype=np.int64)
    spare = np.zeros(keep + 1, dtype=np.int64)
    room[0] = fill(size[partial:], value[partial:], keep)
    todo = np.zeros((2 * depth, 5), dtype=np.int64)  # the keys left out, first and last; depth; the keys to add, first and last
    todo[0, 1] = partial
    waiting = 1
    found, which, tuples = -1, 0, 0
    while waiting:
        waiting -= 1
        lo, hi, at = todo[waiting, 0], todo[waiting, 1], todo[waiting, 2]
        if at:
            put_all(room[at - 1], room[at], spare, size, value, todo[waiting, 3], todo[waiting, 4])
        if hi - lo == 1:
            for p in range(min(size[lo], keep) + 1):
                total = room[at, keep - p] + outputs(m[lo], n[lo], p)
                if total > found:
                    found, which, tuples = total, lo, p
            continue
        mid = (lo + hi) // 2
        todo[waiting] = (mid, hi, at + 1, lo, mid)
        todo[waiting + 1] = (lo, mid, at + 1, mid, hi)
        waiting += 2
    return found, which, tuples


@routine
def best_whole(size: Ints, value: Ints, keep: int) -> Bools:
    """The best whole keys with at most `keep` tuples: which are taken."""
    count = len(size)
    taken = np.zeros((count, keep + 1), dtype=np.bool_)
    best = np.zeros(keep + 1, dtype=np.int64)
    after = np.zeros(keep + 1, dtype=np.int64)
    for i in range(count):
        put(best, after, size[i], value[i])
        for j in range(keep + 1):
            taken[i, j] = after[j] > best[j]
        best[:] = after
    chosen = np.zeros(count, dtype=np.bool_)
    left = keep
    for i in range(count - 1, -1, -1):
        if taken[i, left]:
            chosen[i] = True
            left -= size[i]
    return chosen


@routine
def reach(m: Ints, n: Ints, price: float, least: Floats) -> tuple[Ints, Ints]:
    """How many tuples an absent key may have, and how many a whole one may lack, to yield `least` beyond the price of its tuples.

    The yield falls with each tuple that gains less than the price, and rises after that, so either end is found by halving.
    """
    low, high = np.zeros_like(m), np.zeros_like(m)
    for i in range(len(m)):
        size, small = m[i] + n[i], min(m[i], n[i])
        turn = min(size, 2 * int(np.ceil(price)) - 1) if small >= price else size
        turn = max(turn, 0)
        for end in range(2):
            inside, outside = 0, turn + 1 if end == 0 else size - turn + 1
            while outside - inside > 1:
                step = (inside + outside) // 2
                p = step if end == 0 else size - step
                if outputs(m[i], n[i], p) - price * p >= least[i]:
                    inside = step
                else:
                    outside = step
            if end == 0:
                low[i] = inside
            else:
                high[i] = inside
    return low, high
