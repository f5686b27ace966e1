"""The fast approximations: by the average degree of a key (ADG) and by the degree of a tuple (NDG), in O(c log c) (Das 3.3, 3.4).

Here *degree* is the number of outputs that a tuple takes part in. Ties go to the key that comes first.

*Differs from the paper*: Theorem 1 claims that NDG keeps at least half of what is possible. It does not (docs/readings.md, 12: ten K(1, 10)
and one K(10, 1), keep 10 and 1: NDG keeps 1 or 0 of 10 outputs), so only its bound on what is lost is claimed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from penstock.core.trace import Ints
from penstock.static.component import best_split


def average_degree(counts: Ints, keep: int) -> tuple[Ints, int]:
    """ADG: whole keys by falling average degree, the last one in part. Returns what is kept, and a bound on the outputs of any choice.

    The bound is Das's inequality (6): no tuple of a key, kept in part or whole, is worth more than the average degree of the key.

    >>> kept, most = average_degree(np.array([[3, 1, 2], [3, 1, 2]]), 7)
    >>> kept.tolist(), most
    ([[3, 0, 1], [3, 0, 0]], 10)
    """
    m, n = counts
    size, value = m + n, m * n
    kept = np.zeros_like(counts)
    matched = np.flatnonzero(value)
    order = matched[np.argsort(-(value[matched] / size[matched]), kind="stable")]
    ends = np.cumsum(size[order])
    whole = int(np.searchsorted(ends, keep, side="right"))
    kept[:, order[:whole]] = counts[:, order[:whole]]
    most = int(value[order[:whole]].sum())
    if whole < len(order):
        last = order[whole]
        left = keep - (int(ends[whole - 1]) if whole else 0)
        kept[:, last] = best_split(int(m[last]), int(n[last]), left)
        most += left * int(value[last]) // int(size[last])
    return kept, most


def node_degree(counts: Ints, keep: Sequence[int], *, original: bool) -> tuple[Ints, int]:
    """NDG for any number of relations: of each the tuples of highest degree. Returns what is kept, and a bound on any choice.

    With `original` the degrees are those in the whole join (the relations are truncated independently); else each relation is truncated
    in its turn, by the degrees that are left, which for two relations is never worse. What one relation must lose whatever
    the others do bounds any choice: the largest of these losses is lost at least.

    >>> counts = np.array([[1] * 10 + [10], [10] * 10 + [1]])
    >>> [int(node_degree(counts, (10, 1), original=flag)[0].prod(axis=0).sum()) for flag in (True, False)]
    [0, 1]
    """
    kept = counts.copy()
    exact, most = int(counts.prod(axis=0).sum()), math.inf
    for place, k in enumerate(keep):
        alone = _highest(counts[place], _degrees(counts, place), k)
        most = min(most, int((alone * _degrees(counts, place)).sum()))
        kept[place] = alone if original else _highest(counts[place], _degrees(kept, place), k)
    return kept, int(min(exact, most))


def _degrees(counts: Ints, place: int) -> Ints:
    """The outputs per tuple of the relation at `place`, key by key."""
    return np.delete(counts, place, axis=0).prod(axis=0)


def _highest(count: Ints, degree: Ints, keep: int) -> Ints:
    """The number kept of each key, when the `keep` tuples of highest degree are."""
    order = np.argsort(-degree, kind="stable")
    ends = np.cumsum(count[order])
    kept = np.empty_like(count)
    kept[order] = np.clip(keep - (ends - count[order]), 0, count[order])
    return kept
