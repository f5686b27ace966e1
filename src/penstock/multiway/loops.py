"""A plan for the compiled loops: for new tuples of each stream, the nested loops from the outermost to the innermost.

    origin    order        one loop each: which list or bucket is scanned, what is checked
    R         R, S, T      each new r; the bucket of r in S; the bucket of r in T
    S         S, R, T      ...

The origin's loop goes over its new tuples alone. It is outermost in Golab's EAGER and LAZY algorithms, and anywhere in NAIVE and
GENERAL LAZY (Golab 3.1-3.3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from penstock.core.trace import Ints
from penstock.multiway.pair_checks import Condition

NESTED = 0
"""The number of buckets that stands for no hash index."""


class Loops(NamedTuple):
    """Nested loops as arrays: by origin and level, but for the checks, which are listed one after another."""

    order: Ints  # the stream of each loop
    place: Ints  # by origin: the level of its own loop
    scan: Ints  # which index is scanned
    source: Ints  # the bound stream whose code chooses the bucket, or -1
    begin: Ints  # the first of its checks
    end: Ints
    check: Ints
    other: Ints  # the stream to compare with


def indexes(condition: Condition, buckets: Sequence[int], *, plain: bool) -> list[tuple[int, int, int]]:
    """The indexes of every stream (stream, column, buckets): one per class it is in where it is hashed, and one list.

    The list is left out where all is found through hashes: `plain=False`, and the stream has an index.
    """
    found = []
    for stream, number in enumerate(buckets):
        hashed = [c for c, members in enumerate(condition.classes) if stream in members] if number != NESTED else []
        if plain or not hashed:
            found.append((stream, -1, 1))
        found += [(stream, c, number) for c in hashed]
    return found


def make_loops(condition: Condition, orders: Sequence[Sequence[int]], store: Sequence[tuple[int, int, int]], *, exact: bool) -> Loops:
    """The loops of these orders, one per origin. `exact`: a bucket holds one value, so that its tuples need no check of it.

    Scans go through the first hash index whose value is bound; where none is, through the list of the whole window.
    """
    n = len(orders)
    scan, source = np.zeros((n, n), dtype=np.int64), np.full((n, n), -1, dtype=np.int64)
    begin, end = np.zeros((n, n), dtype=np.int64), np.zeros((n, n), dtype=np.int64)
    checks: list[tuple[int, int]] = []
    for origin, order in enumerate(orders):
        for level, stream in enumerate(order):
            wanted = condition.checks(stream, order[:level])
            mine = {column: at for at, (s, column, _) in enumerate(store) if s == stream}
            hashed = next(((check, other) for check, other in wanted if check < 0 and ~check in mine), None)
            if hashed:
                scan[origin, level], source[origin, level] = mine[~hashed[0]], hashed[1]
                if exact:
                    wanted.remove(hashed)
            else:
                scan[origin, level] = mine.get(-1, min(mine.values()))
            begin[origin, level] = len(checks)
            checks += wanted
            end[origin, level] = len(checks)
    return Loops(
        order=np.array(orders, dtype=np.int64),
        place=np.array([list(order).index(origin) for origin, order in enumerate(orders)], dtype=np.int64),
        scan=scan,
        source=source,
        begin=begin,
        end=end,
        check=np.array([check for check, _ in checks] or [0], dtype=np.int64),
        other=np.array([other for _, other in checks] or [0], dtype=np.int64),
    )


def needs_lists(condition: Condition, orders: Sequence[Sequence[int]]) -> bool:
    """Whether some loop scans a whole window: it is outermost, or no class links it to what is bound.

    The outermost loop of an origin itself is not such a loop: its new tuples are at hand.
    """
    for origin, order in enumerate(orders):
        for level, stream in enumerate(order):
            if not any(check < 0 for check, _ in condition.checks(stream, order[:level])) and (level > 0 or stream != origin):
                return True
    return False


def first_in(orders: Mapping[int, Sequence[int]], n: int) -> list[list[int]]:
    """Every origin's order with the origin outermost.

    >>> first_in({i: [2, 0, 1] for i in range(3)}, 3)
    [[0, 2, 1], [1, 2, 0], [2, 0, 1]]
    """
    return [[origin, *(stream for stream in orders[origin] if stream != origin)] for origin in range(n)]
