"""Who gives, who takes: the shares of all shards after a batch, from what each has published before it.

A share is counted in parts of which an equal share has `EQUAL`. A *summary* has what a shard holds and the worth of its tuples as points
(score, weight). All points together, the best first, fill the memory up to some score; what a shard has above it is its target. A shard
above its target gives the difference up at once. One below it takes from what is free alone, that is, held by nobody according to the
summaries; what is given up now is free for others one batch later. So the sum never exceeds the memory, whichever shards act and in
whatever order (docs/decisions/0026).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.trace import Floats, Ints

EQUAL = 1 << 16
"""Parts of an equal share."""
_FLOOR = 256  # of an equal share, what is left to every shard
_NOISE = 8  # roots of its rows, from which on a share is mostly given up where it has less worth than others


@dataclass(frozen=True)
class Summary:
    """What a shard tells the others after a batch."""

    batch: int
    shard: int
    shards: int
    share: tuple[int, ...]  # by pool: what it may hold
    row: tuple[int, ...]  # by pool: what a row takes
    points: tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]  # by pool: scores, and what of an equal share has each
    unit: str = ""  # of the scores (engine/compiled/layers/worth.py)
    heard: tuple[int, ...] = ()  # by join of the budget: the batch of its last summary that this shard knows of, -1 for none

    def facts(self) -> dict[str, Any]:
        """As JSON."""
        return vars(self) | {"points": [[list(column) for column in pool] for pool in self.points]}

    @classmethod
    def of(cls, facts: dict[str, Any]) -> Summary:
        """From JSON."""
        points = tuple((tuple(map(float, scores)), tuple(map(float, weights))) for scores, weights in facts["points"])
        share, row, heard = (tuple(map(int, facts.get(name, ()))) for name in ("share", "row", "heard"))
        unit = str(facts.get("unit", ""))  # older summaries have none
        found = cls(int(facts["batch"]), int(facts["shard"]), int(facts["shards"]), share, row, points, unit, heard)
        if not len(share) == len(row) == len(points) or any(len(scores) != len(weights) for scores, weights in points):
            raise ValueError("a summary has a share, the size of a row and points for each pool")
        worth = np.array([one for scores, weights in points for one in (*scores, *weights)])
        if not np.isfinite(worth).all() or min(*share, *row, *(one for _, weights in points for one in weights)) < 0:
            raise ValueError("a summary has finite numbers, and of shares, rows and weights none below 0")
        return found


def period(shards: int) -> int:
    """Every so many batches shards hear of each other: each reads what all have written.

    >>> period(4), period(16), period(200)
    (1, 1, 13)
    """
    return -(-shards // 16)


def equal_share(pools: int) -> Ints:
    """The share that every shard begins with."""
    return np.full(pools, EQUAL, np.int64)


def part(caps: Ints, share: Ints) -> Ints:
    """What a shard with a share may hold, where an equal share is `caps` (by time and pool).

    >>> part(np.array([[100, 7]]), np.array([EQUAL // 2, EQUAL])).tolist(), part(np.array([[100]]), np.array([0])).tolist()
    ([[50, 7]], [[1]])
    """
    return np.maximum(1, caps // EQUAL * share + caps % EQUAL * share // EQUAL)


def next_shares(summaries: Sequence[Summary]) -> list[Ints]:
    """The shares of all shards, from the latest summary of each, in the same order; together they have as many equal shares as they are.

    >>> rich = Summary(0, 0, 2, (EQUAL,), (64,), (((9.0, 8.0), (1.0, 1.0)),))
    >>> poor = Summary(0, 1, 2, (EQUAL,), (64,), (((2.0, 1.0), (0.5, 0.5)),))
    >>> [round(int(share[0]) / EQUAL, 2) for share in next_shares([rich, poor])]
    [1.0, 0.2]
    """
    held = np.array([one.share for one in summaries], np.int64)
    row = np.array([one.row for one in summaries], np.int64)
    out = held.copy()
    for pool in range(held.shape[1]):
        least = np.clip(row[:, pool], EQUAL // _FLOOR, EQUAL)
        wanted = targets([one.points[pool] for one in summaries], least)
        out[:, pool] = _moved(held[:, pool], np.maximum(wanted, least), row[:, pool])
    return list(out)


def targets(points: Sequence[tuple[Sequence[float], Sequence[float]]], least: Ints) -> Ints:
    """The share of each shard when the whole memory has what is worth most; of equal worth each has the same part.

    >>> one, other = ((9.0, 1.0), (1.0, 1.0)), ((5.0, 1.0), (0.5, 1.0))
    >>> (targets([one, other], np.zeros(2, np.int64)) / EQUAL).tolist()
    [1.25, 0.75]
    """
    n = len(points)
    owner = np.repeat(np.arange(n), [len(scores) for scores, _ in points])
    score = np.concatenate([np.asarray(scores, np.float64) for scores, _ in points])
    weight = np.concatenate([np.asarray(weights, np.float64) for _, weights in points])
    floor = least / EQUAL
    wanted: Floats = np.zeros(n)
    room = n - float(floor.sum())
    order = np.lexsort((owner, -score))
    owner, score, weight = owner[order], score[order], _beyond(owner[order], weight[order], floor)
    total = float(weight.sum())
    if total <= room:  # all have what they want, and equal parts of the rest: nobody knows what comes
        wanted += np.bincount(owner, weight, n) + (room - total) / n
    else:
        ends = np.flatnonzero(np.diff(score, append=-np.inf))  # of points with the same score
        sums = np.cumsum(weight)
        last = int(np.searchsorted(sums[ends], room))
        begin, end = (int(ends[last - 1]) + 1 if last else 0), int(ends[last]) + 1
        wanted += np.bincount(owner[:begin], weight[:begin], n)
        before = float(sums[begin - 1]) if begin else 0.0
        tied = float(weight[begin:end].sum())
        wanted += np.bincount(owner[begin:end], weight[begin:end], n) * ((room - before) / tied if tied > 0 else 0.0)
    return ((wanted + floor) * EQUAL).astype(np.int64)


def _beyond(owner: Ints, weight: Floats, floor: Floats) -> Floats:
    """What weights, the best first, leave where each owner has so much of them anyhow."""
    out = weight.copy()
    for one in range(len(floor)):
        mine = np.flatnonzero(owner == one)
        sums = np.cumsum(weight[mine])
        out[mine] = np.clip(sums - floor[one], 0.0, weight[mine])
    return out


def _moved(held: Ints, wanted: Ints, row: Ints) -> Ints:
    """What each holds next, of one pool. What is free always has takers; of what may be noise, the root of its rows, little is given up."""
    lacks = wanted - held
    much = np.maximum(-lacks, 0)
    gives = much * much // np.maximum(1, much + _NOISE * np.sqrt(held * row).astype(np.int64))
    free = max(0, len(held) * EQUAL - int(held.sum()))
    takes = np.maximum(lacks, 0) if (lacks > 0).any() else wanted
    return held - gives + takes * free // max(1, int(takes.sum()))
