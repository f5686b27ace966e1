"""OPTDP, exactly and fast: the k tuples of two relations that keep the most outputs (Das 3.2, Lemma 2).

First a price per tuple, the average degree at which ADG stops. Whatever is done with a key loses something against the fractional
optimum at this price, and what loses more than the best choice known is short of that optimum cannot be in a better choice. This settles
for most keys whether they are there, but for a few tuples; the others are *open*. One knapsack over the open keys then serves every
settled key that may be the one in part, and `leave_one_out` serves the open ones for which that knapsack leaves hope.

*Differs from the paper*: O(c log c · k) at most instead of O(c · k²), for c keys and k tuples; mostly it is far less.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.core.trace import Ints
from penstock.static.component import best_split, most_outputs
from penstock.static.knapsack import best_whole, fill, forced, hopes, leave_one_out, reach
from penstock.static.limit import Estimate

CLOSE = 1e-12
"""Rounding errors of a bound, as a part of all outputs."""


@dataclass(frozen=True)
class Core:
    """What is left to decide."""

    present: Ints
    """Keys that are kept, whole or without up to `high` tuples."""
    absent: Ints
    """Keys that are not kept, or up to `low` tuples of one of them."""
    open: Ints
    low: Ints
    high: Ints
    keep: int
    """Tuples for the open keys if all present ones are whole; it may be negative."""
    known: int
    """Outputs that some choice has, without those of the present keys."""

    @property
    def most(self) -> int:
        """Tuples for the open keys at most."""
        return self.keep + int(self.high[self.present].max(initial=0))

    def estimate(self) -> Estimate:
        """What solving it takes."""
        cells, keys = self.most + 1, len(self.open)
        depth = keys.bit_length() + 2
        return Estimate(keys, cells, 8 * cells * (depth + 2) + keys * cells, cells * keys * (depth + 1))


def reduce(m: Ints, n: Ints, keep: int, *, bounds: bool = True) -> Core:
    """The core of keys K(m, n), all m, n > 0, when `keep` tuples stay. Without `bounds` every key is open.

    >>> core = reduce(np.array([9, 5, 4, 1]), np.array([9, 5, 4, 1]), 20)
    >>> core.present.tolist(), core.open.tolist(), core.absent.tolist(), core.keep
    ([0], [1, 2, 3], [], 2)
    """
    size, value = m + n, m * n
    every, total = np.arange(len(m)), int(size.sum())
    if keep >= total:
        return Core(every, every[:0], every[:0], 0 * size, 0 * size, 0, 0)
    if not bounds:
        return Core(every[:0], every[:0], every, size, size, keep, 0)
    order = np.argsort(-(value / size), kind="stable")
    ends = np.cumsum(size[order])
    stop = int(np.searchsorted(ends, keep, side="right"))
    last = order[stop]
    left = keep - (int(ends[stop - 1]) if stop else 0)
    price = float(value[last]) / float(size[last])
    bound = float(value[order[:stop]].sum()) + price * left
    known = _known(m, n, order, stop, left)
    gap = bound - known + CLOSE * float(value.sum())
    surplus = value - price * size
    least = np.maximum(surplus, 0) - gap  # what a key must yield beyond the price of its tuples
    present, absent = least > 0, surplus < least
    low, high = reach(m, n, price, least)
    room = keep - int(size[present].sum())
    return Core(every[present], every[absent], every[~present & ~absent], low, high, room, known - int(value[present].sum()))


def _known(m: Ints, n: Ints, order: Ints, stop: int, left: int) -> int:
    """The outputs of the best choice among ADG's and its near neighbours: another last key, or a key of the prefix in part."""
    size, value = m + n, m * n
    prefix, last, rest = order[:stop], order[stop], order[stop:]
    base = int(value[prefix].sum())
    found = base + int(most_outputs(m[rest], n[rest], np.minimum(size[rest], left)).max())
    room = left + size[prefix] - size[last]
    fits = room >= 0
    if fits.any():
        inside = prefix[fits]
        swapped = base - value[inside] + value[last] + most_outputs(m[inside], n[inside], np.minimum(room[fits], size[inside]))
        found = max(found, int(swapped.max()))
    return found


def solve(m: Ints, n: Ints, core: Core) -> Ints:
    """What is kept of each key, in a choice that no other exceeds: an array like (m, n).

    >>> m, n = np.array([2, 3]), np.array([10, 3])
    >>> solve(m, n, reduce(m, n, 6)).tolist(), solve(m, n, reduce(m, n, 9)).tolist()
    ([[0, 3], [0, 3]], [[2, 0], [7, 0]])
    """
    size, value = m + n, m * n
    kept = np.zeros((2, len(m)), dtype=np.int64)
    kept[:, core.present] = m[core.present], n[core.present]
    keys, room = core.open, core.keep
    best = fill(size[keys], value[keys], core.most)
    found = int(best[room]) if room >= 0 else -1
    in_part, tuples = -1, 0
    for settled, there in ((core.absent, False), (core.present, True)):
        reached = core.high if there else core.low
        total, which, p = forced(m[settled], n[settled], reached[settled], best, room, there, found)
        if total > found:
            found, in_part, tuples = total, int(settled[which]), p
    if room >= 0:
        hope = hopes(m[keys], n[keys], best, room)
        hopeful = (hope > found) & (hope >= core.known)
        if hopeful.any():
            order = keys[np.argsort(~hopeful, kind="stable")]
            total, which, p = leave_one_out(m[order], n[order], int(hopeful.sum()), room)
            if total > found:
                found, in_part, tuples = total, int(order[which]), p
    if in_part >= 0:
        kept[:, in_part] = best_split(int(m[in_part]), int(n[in_part]), tuples)
        room -= tuples - (int(size[in_part]) if in_part in core.present else 0)
        keys = keys[keys != in_part]
    chosen = keys[best_whole(size[keys], value[keys], room)]
    kept[:, chosen] = m[chosen], n[chosen]
    return kept
