"""What a shard tells the others: how many rows it would need, and what its tuples are worth.

Its *load* is what would lie in its windows if nothing were shed: arrivals, each fading with the length of its window, which in the long
run sums up to rate times window. Tuples in memory are known with their scores (engine/compiled/layers/worth.py); the rest is worth less
than what was kept instead of it. How much less nobody has noted: the scores of the lowest quarter go on downwards as steeply as they came.
Where tuples have no worth that can be compared, all of the load has the same, so that shares go by load.
"""

from __future__ import annotations

import numpy as np

from penstock.core.batch import Batch
from penstock.core.budget import TUPLE_OVERHEAD
from penstock.core.problem import Problem
from penstock.core.trace import Floats, Ints
from penstock.core.window import NEVER
from penstock.engine.contract import Engine

Points = tuple[tuple[float, ...], tuple[float, ...]]
_HELD = 64  # points of what is held,
_LOST = 16  # and of what is not
_GROWTH = 0.5  # of what is held, what a shard may want in addition
_STEEP = 0.05  # of a score: what the lowest quarter spans at least, so that equal scores ask for little


class Load:
    """What would lie in the windows of a shard, by stream, in rows or bytes as the budget counts.

    >>> load = Load(np.zeros(2))
    >>> problem = Problem.of(("R", "S"), window={"R": 100, "S": 10**9}, memory=4)
    >>> load.add(Batch(*(np.array(c) for c in ([0, 0, 1], [0, 100, 100], [5, 5, 5]))), problem, 100)
    >>> load.sums.round(3).tolist()
    [1.368, 1.0]
    """

    def __init__(self, sums: Floats, at: int = -NEVER) -> None:
        self.sums, self.at = sums, at

    def add(self, batch: Batch, problem: Problem, now: int) -> None:
        """Take note of a batch, after which streams have come as far as `now`."""
        lengths = [float(window.longest or NEVER) for window in problem.windows]
        spans = np.array(lengths) + problem.lateness
        now = max(now, self.at)
        self.sums = self.sums * np.exp(-(now - self.at) / spans)
        weight = batch.size + TUPLE_OVERHEAD if problem.budget.in_bytes and batch.size is not None else np.ones(len(batch))
        left = np.exp(-np.maximum(0, now - batch.time) / spans[batch.stream])
        self.sums += np.bincount(batch.stream, weight * left, problem.n_streams)
        self.at = now


def points_of(engine: Engine, problem: Problem, load: Load, caps: Ints) -> tuple[Points, ...]:
    """By pool, what tuples are worth, and what of an equal share `caps` (by pool) has such worth."""
    found = engine.worths()
    needed = np.bincount(problem.budget.pool, load.sums, len(caps))
    if found is None:
        return tuple(((0.0,), (float(needed[pool] / caps[pool]),)) for pool in range(len(caps)))
    out = []
    for pool in range(len(caps)):
        mine = found.pool == pool
        held = float(found.weight[mine].sum()) * (engine.totals.retained / max(1, len(found.pool)))
        out.append(_points(found.score[mine], found.weight[mine], held / caps[pool], float(needed[pool] / caps[pool])))
    return tuple(out)


def _points(score: Floats, weight: Ints, held: float, needed: float) -> Points:
    """Points for so much that is held, with these scores and weights, and for what is needed beside it."""
    lost = max(0.0, needed - held)
    if not len(score):
        return (0.0,), (lost,)
    order = np.argsort(score, kind="stable")
    sums = np.cumsum(weight[order])
    at = (np.arange(_HELD) + 0.5) / _HELD * sums[-1]
    kept = score[order][np.searchsorted(sums, at)]
    lowest, quarter = float(kept[0]), float(kept[_HELD // 4])
    more = min(lost, _GROWTH * held)
    span = max(quarter - lowest, _STEEP * abs(lowest)) * (more / (held / 4))
    below = lowest - span * (np.arange(_LOST) + 0.5) / _LOST
    weights = [held / _HELD] * _HELD + [more / _LOST] * _LOST
    return tuple(map(float, [*kept, *below])), tuple(weights)
