"""Leave one out with a budget per relation: the three-dimensional dynamic programme of Das 3.2 for (kA, kB), keys in part included.

With the tuples of one relation given, outputs are a linear function of those of the other, whose maximum is at a corner. So in some best
choice at most one key lacks a part of its A-tuples, and at most one a part of its B-tuples; if one key lacks both, no other is in part.
`plain[a, b]` is the most outputs of whole keys with at most a and b tuples; `cut[a, b]` the same when one key may have all its A-tuples
and any number of its B-tuples. Both are built without each key in turn, as in `knapsack`; the key left out then lacks A-tuples, or both.
"""

from __future__ import annotations

import numpy as np

from penstock.core.compiled import kernel, routine
from penstock.core.trace import Bools, Ints

PLAIN, CUT = 0, 1


@kernel
def put(before: Ints, after: Ints, m: int, n: int) -> None:
    """One more key, which may be taken whole or not at all."""
    rows, columns = before.shape
    for a in range(rows):
        start = n if a >= m else columns
        for b in range(min(start, columns)):
            after[a, b] = before[a, b]
        for b in range(start, columns):
            with_it = before[a - m, b - n] + m * n
            after[a, b] = max(before[a, b], with_it)


@kernel
def slide(plain: Ints, cut: Ints, m: int, n: int, queue: Ints) -> None:
    """The key with m and 1 to n tuples: per cell the maximum of plain[a - m, b - y] + m y, by a queue of falling candidates."""
    rows, columns = plain.shape
    for a in range(m, rows):
        head = tail = 0
        for b in range(1, columns):
            new = plain[a - m, b - 1] - m * (b - 1)
            while tail > head and plain[a - m, queue[tail - 1]] - m * queue[tail - 1] <= new:
                tail -= 1
            queue[tail] = b - 1
            tail += 1
            if queue[head] < b - n:
                head += 1
            cut[a, b] = max(cut[a, b], plain[a - m, queue[head]] + m * (b - queue[head]))


@routine
def add(before: Ints, after: Ints, m: int, n: int, whole: bool, partial: bool, queue: Ints) -> None:
    """One more key, in both tables."""
    if whole:
        put(before[PLAIN], after[PLAIN], m, n)
        put(before[CUT], after[CUT], m, n)
    else:
        after[:] = before
    if partial:
        slide(before[PLAIN], after[CUT], m, n, queue)


@routine
def add_all(start: Ints, room: Ints, spare: Ints, m: Ints, n: Ints, whole: Bools, partial: Bools, first: int, last: int) -> None:
    """`start` and the keys from `first` to `last`, into `room`; `spare` is overwritten."""
    if first == last:
        room[:] = start
        return
    queue = np.zeros(start.shape[2] + 1, dtype=np.int64)
    add(start, room, m[first], n[first], whole[first], partial[first], queue)
    for i in range(first + 1, last):
        if (i - first) % 2:
            add(room, spare, m[i], n[i], whole[i], partial[i], queue)
        else:
            add(spare, room, m[i], n[i], whole[i], partial[i], queue)
    if (last - first) % 2 == 0:
        room[:] = spare


@routine
def fill(m: Ints, n: Ints, whole: Bools, partial: Bools, keep: Ints) -> Ints:
    """Both tables over all these keys, of which some may be whole and some in part."""
    tables = np.zeros((3, 2, keep[0] + 1, keep[1] + 1), dtype=np.int64)
    add_all(tables[0], tables[1], tables[2], m, n, whole, partial, 0, len(m))
    return tables[1]


@routine
def hopes(m: Ints, n: Ints, tables: Ints, keep: Ints) -> Ints:
    """For each key a bound on the outputs with it in part: as if the tables were without it."""
    hope = np.zeros(len(m), dtype=np.int64)
    plain, cut = tables[PLAIN], tables[CUT]
    for i in range(len(m)):
        for x in range(min(m[i], keep[0]) + 1):
            for y in range(min(n[i], keep[1]) + 1):
                hope[i] = max(hope[i], plain[keep[0] - x, keep[1] - y] + x * y)
            if n[i] <= keep[1]:
                hope[i] = max(hope[i], cut[keep[0] - x, keep[1] - n[i]] + x * n[i])
    return hope


@routine
def leave_one_out(m: Ints, n: Ints, whole: Bools, partial: Bools, rivals: int, keep: Ints) -> tuple[int, int, int, int, bool]:
    """The best choice with one of the first `rivals` keys in part or not: (outputs, that key, its tuples of either relation, whether
    another key is in part too, which has all its A-tuples).
    """
    rows, columns = keep[0] + 1, keep[1] + 1
    depth = 2
    while 1 << (depth - 2) < rivals:
        depth += 1
    room = np.zeros((depth, 2, rows, columns), dtype=np.int64)
    spare = np.zeros((2, rows, columns), dtype=np.int64)
    room[0] = fill(m[rivals:], n[rivals:], whole[rivals:], partial[rivals:], keep)
    todo = np.zeros((2 * depth, 5), dtype=np.int64)  # the keys left out, first and last; depth; the keys to add, first and last
    todo[0, 1] = rivals
    waiting = 1
    found, which, of_a, of_b, another = -1, 0, 0, 0, False
    while waiting:
        waiting -= 1
        lo, hi, at = todo[waiting, 0], todo[waiting, 1], todo[waiting, 2]
        if at:
            add_all(room[at - 1], room[at], spare, m, n, whole, partial, todo[waiting, 3], todo[waiting, 4])
        if hi - lo == 1:
            plain, cut = room[at, PLAIN], room[at, CUT]
            for x in range(min(m[lo], keep[0]) + 1):
                for y in range(min(n[lo], keep[1]) + 1):
                    total = plain[keep[0] - x, keep[1] - y] + x * y
                    if total > found:
                        found, which, of_a, of_b, another = total, lo, x, y, False
                if n[lo] <= keep[1]:
                    total = cut[keep[0] - x, keep[1] - n[lo]] + x * n[lo]
                    if total > found:
                        found, which, of_a, of_b, another = total, lo, x, n[lo], True
            continue
        mid = (lo + hi) // 2
        todo[waiting] = (mid, hi, at + 1, lo, mid)
        todo[waiting + 1] = (lo, mid, at + 1, mid, hi)
        waiting += 2
    return found, which, of_a, of_b, another


@routine
def best_whole(m: Ints, n: Ints, keep: Ints) -> Bools:
    """The best whole keys with at most `keep` tuples of either relation: which are taken."""
    rows, columns = keep[0] + 1, keep[1] + 1
    taken = np.zeros((len(m), rows, columns), dtype=np.bool_)
    best = np.zeros((rows, columns), dtype=np.int64)
    after = np.zeros((rows, columns), dtype=np.int64)
    for i in range(len(m)):
        put(best, after, m[i], n[i])
        for a in range(rows):
            for b in range(columns):
                taken[i, a, b] = after[a, b] > best[a, b]
        best[:] = after
    chosen = np.zeros(len(m), dtype=np.bool_)
    a, b = keep[0], keep[1]
    for i in range(len(m) - 1, -1, -1):
        if taken[i, a, b]:
            chosen[i] = True
            a -= m[i]
            b -= n[i]
    return chosen
