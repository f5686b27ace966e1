"""OPTDP with a budget per relation: the kA tuples of A and kB of B that keep the most outputs (Das 3.2, last paragraph).

As for one budget, prices settle keys first, here one price per relation, by the dual of the fractional problem. Lemma 2 does not hold, but
two keys at most are in part (see `grid`), and which of the settled ones may be follows from sizes: x and y tuples are worth x·y in
whichever absent key has them, so only the largest ones matter, and a whole key lacks x and y tuples the more cheaply the smaller it is.

*Differs from the paper*: O(c log c · kA · kB) at most, where the plain programme takes c · kA · kB times the size of a key.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.trace import Bools, Ints
from penstock.static.greedy import node_degree
from penstock.static.grid import best_whole, fill, hopes, leave_one_out
from penstock.static.limit import Estimate
from penstock.static.optimal import CLOSE

_ROUNDS = 40  # of the search for a price: bounds hold at any price
_FEW = 256  # keys of a front that others are compared with


@dataclass(frozen=True)
class PairCore:
    """What is left to decide."""

    taken: Ints
    """Keys that are whole."""
    keys: Ints
    """Keys in play."""
    whole: Bools
    """Which of them may be whole."""
    partial: Bools
    """Which of them may be in part."""
    keep: Ints
    """Tuples of either relation for them."""
    known: int
    """Outputs that some choice among them has."""
    best: Ints | None = None
    """A choice that is known to be the best: nothing is left to decide."""

    def estimate(self) -> Estimate:
        """What solving it takes, at most."""
        cells, keys = int(self.keep[0] + 1) * int(self.keep[1] + 1), len(self.keys)
        depth = keys.bit_length() + 2
        return Estimate(keys, cells, cells * (16 * (depth + 5) + keys), cells * keys * 4 * (depth + 1))


def reduce(m: Ints, n: Ints, keep: Ints, *, bounds: bool = True) -> PairCore:
    """The core of keys K(m, n), all m, n > 0, when `keep` tuples of either relation stay. Without `bounds` every key is in it.

    >>> core = reduce(np.array([9, 5, 4, 1]), np.array([9, 5, 4, 1]), np.array([11, 10]))
    >>> core.taken.tolist(), core.keys.tolist()
    ([0], [1, 2])
    """
    every, none = np.arange(len(m)), np.zeros(0, dtype=np.bool_)
    if keep[0] >= m.sum() and keep[1] >= n.sum():
        return PairCore(every, every[:0], none, none, np.zeros(2, dtype=np.int64), 0)
    if not bounds:
        return PairCore(every[:0], every, m > 0, m > 0, np.minimum(keep, [m.sum(), n.sum()]), 0)
    value = m * n
    of_a, of_b, bound = _prices(m, n, keep)
    choice = _known(m, n, keep, of_a, of_b)
    known = _outputs(choice)
    if known >= math.floor(min(bound + CLOSE * float(value.sum()), float(keep[0]) * float(keep[1]))):
        return PairCore(every[:0], every[:0], none, none, np.zeros(2, dtype=np.int64), 0, choice)
    gap = max(bound - known, 0.0) + CLOSE * float(value.sum())
    surplus = value - of_a * m - of_b * n
    least = np.maximum(surplus, 0) - gap  # what a key must yield beyond the price of its tuples
    present, absent = least > 0, surplus < least
    opened = ~present & ~absent
    in_part = opened & (value > 1)
    # A part yields most at a corner of what it may be: one tuple, or all of one relation and one of the other.
    thin = np.maximum(m - of_a * m - of_b, n - of_a - of_b * n)
    in_part |= absent & (np.maximum(thin, 1 - of_a - of_b) >= least) & _largest(m, n, absent)
    free = thin >= least
    lack_a = np.where(free, m, _lacking(m, n - of_a, gap))
    lack_b = np.where(free, n, _lacking(n, m - of_b, gap))
    in_part |= _cheapest(m, n, present, lack_a, lack_b)
    taken = every[present & ~in_part]
    keys = every[in_part | opened]
    room = np.minimum(keep - [m[taken].sum(), n[taken].sum()], [m[keys].sum(), n[keys].sum()])
    return PairCore(taken, keys, ~absent[keys], in_part[keys], room, known - int(value[taken].sum()))


def solve(m: Ints, n: Ints, core: PairCore) -> Ints:
    """What is kept of each key, in a choice that no other exceeds: an array like (m, n).

    >>> m, n = np.array([3, 2, 2]), np.array([3, 2, 2])
    >>> solve(m, n, reduce(m, n, np.array([4, 4]))).tolist()
    [[3, 1, 0], [3, 1, 0]]
    """
    if core.best is not None:
        return core.best
    kept = np.zeros((2, len(m)), dtype=np.int64)
    kept[:, core.taken] = m[core.taken], n[core.taken]
    keys, whole, partial, room, known = core.keys, core.whole, core.partial, core.keep, core.known
    another = True
    while another:
        tables = fill(m[keys], n[keys], whole, partial, room)
        hope = hopes(m[keys], n[keys], tables, room)
        hopeful = partial & (hope > tables[0, -1, -1]) & (hope >= known)
        if not hopeful.any():
            break
        order = np.argsort(~hopeful, kind="stable")
        keys, whole, partial = keys[order], whole[order], partial[order]
        _, which, x, y, another = leave_one_out(m[keys], n[keys], whole, partial, int(hopeful.sum()), room)
        kept[:, keys[which]] = x, y
        room, known = room - np.array([x, y]), known - x * y
        keys, whole, partial = np.delete(keys, which), np.delete(whole, which), np.delete(partial, which)
    keys = keys[whole]
    chosen = keys[best_whole(m[keys], n[keys], room)]
    kept[:, chosen] = m[chosen], n[chosen]
    return kept


def _prices(m: Ints, n: Ints, keep: Ints) -> tuple[float, float, float]:
    """A price per tuple of either relation, and the bound on outputs that they prove."""
    low, high = 0.0, float(n.max())
    best = min((_second(m, n, keep, price) for price in (low, high)), key=lambda found: found[2])
    for _ in range(_ROUNDS):
        left, right = low + (high - low) * 0.382, low + (high - low) * 0.618
        one, two = _second(m, n, keep, left), _second(m, n, keep, right)
        best = min(best, one, two, key=lambda found: found[2])
        if one[2] <= two[2]:
            high = right
        else:
            low = left
    return best


def _second(m: Ints, n: Ints, keep: Ints, price: float) -> tuple[float, float, float]:
    """With the price of a tuple of the first relation given, the best one of the second: a fractional knapsack."""
    net = m * (n - price)
    ratio = net / n
    order = np.argsort(-ratio)
    order = order[net[order] > 0]
    ends = np.cumsum(n[order])
    stop = int(np.searchsorted(ends, keep[1], side="right"))
    other = float(ratio[order[stop]]) if stop < len(order) else 0.0
    bound = price * float(keep[0]) + other * float(keep[1]) + float(np.maximum(m * n - price * m - other * n, 0).sum())
    return price, other, bound


def _known(m: Ints, n: Ints, keep: Ints, of_a: float, of_b: float) -> Ints:
    """A good choice: NDG's, or keys by outputs for their price, in part where they do not fit, or left out then but for one."""
    choices = [node_degree(np.array([m, n]), keep.tolist(), original=flag)[0] for flag in (True, False)]
    order = np.argsort(-(m * n) / np.maximum(of_a * m + of_b * n, 1e-9), kind="stable").tolist()
    for skip in (False, True):
        kept = np.zeros((2, len(m)), dtype=np.int64)
        a, b = keep.tolist()
        for i in order:
            x, y = min(int(m[i]), a), min(int(n[i]), b)
            if not skip or (x == m[i] and y == n[i]):
                kept[:, i] = x, y
                a, b = a - x, b - y
        part = np.where(kept[0] == 0, np.minimum(m, a) * np.minimum(n, b), 0)
        one = int(part.argmax())
        if part[one]:
            kept[:, one] = min(int(m[one]), a), min(int(n[one]), b)
        choices.append(kept)
    return max(choices, key=_outputs)


def _outputs(kept: Ints) -> int:
    return int(kept.prod(axis=0).sum())


def _largest(m: Ints, n: Ints, among: Bools) -> Bools:
    """Those that no other exceeds in both counts; of equal ones the first."""
    keys = np.flatnonzero(among)
    order = keys[np.lexsort((keys, -n[keys], -m[keys]))]
    before = np.concatenate([[-1], np.maximum.accumulate(n[order])[:-1]])[: len(order)]
    out = np.zeros(len(m), dtype=np.bool_)
    out[order[n[order] > before]] = True
    return out


def _cheapest(m: Ints, n: Ints, among: Bools, lack_a: Ints, lack_b: Ints) -> Bools:
    """Those keys that may lack some tuples where no smaller key could lack as many."""
    out = among & ((lack_a > 0) | (lack_b > 0))
    keys = np.flatnonzero(among)
    order = keys[np.lexsort((keys, n[keys], m[keys]))]
    rank = np.empty(len(m), dtype=np.int64)
    rank[order] = np.arange(len(order))
    for j in order[:_FEW]:
        beaten = (m >= m[j]) & (n >= n[j]) & (lack_a <= m[j]) & (lack_b <= n[j])
        out[beaten & among & (rank > rank[j])] = False
    return out


def _lacking(count: Ints, loss: Any, gap: float) -> Ints:
    """How many tuples a key may lack at a loss of so much each."""
    return np.where(loss * count > gap, np.floor(gap / np.where(loss * count > gap, loss, 1)), count).astype(np.int64)
