"""More than two streams: what an output is worth, shared equally by its members that must be in memory for it.

An output of n streams needs several stored tuples at once, which is no flow. If each of them earns its share alone, whether or not the
others are there, no schedule can earn more: so the optimum of the shares is an upper bound. An output of negative value is not charged,
for the same reason.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from penstock.core.batch import Batch
from penstock.core.problem import Problem
from penstock.core.trace import Floats, Ints
from penstock.engine.view import match
from penstock.optimum.instants import Instants


def share_values(batch: Batch, instants: Instants, problem: Problem) -> tuple[Ints, Ints, Floats, float]:
    """(stored tuple, an arrival of the output's instant, share) in order, and what outputs of a single instant are worth."""
    keys = batch.key[:, None] if batch.values is None else batch.values
    importance = np.ones(len(batch)) if batch.importance is None else batch.importance
    shares: dict[tuple[int, int], float] = {}
    together = []
    starts = np.searchsorted(instants.of, np.arange(instants.n + 1))
    for instant in instants.counted(problem):
        begin, end = int(starts[instant]), int(starts[instant + 1])
        rows = np.flatnonzero((instants.last[:begin] >= instant) & (instants.key[:begin] >= 0))
        rows = np.concatenate([rows, np.arange(begin, end)])
        fitting = [rows[batch.stream[rows] == stream] for stream in range(problem.n_streams)]
        for members in _combinations(problem, instants, keys, fitting):
            stored = [row for row in members if row < begin]
            if len(stored) == problem.n_streams:
                continue
            value = problem.objective.of([float(importance[row]) for row in members])
            if not stored:
                together.append(value)
            for row in stored:
                shares[row, begin] = shares.get((row, begin), 0.0) + max(value, 0.0) / len(stored)
    order = sorted(shares)
    pairs = np.array(order, dtype=np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1], np.array([shares[pair] for pair in order]), math.fsum(together)


def _combinations(problem: Problem, instants: Instants, keys: Ints, fitting: list[Ints]) -> list[tuple[int, ...]]:
    """One row per stream, every two of which match."""
    found: list[tuple[int, ...]] = [()]
    matrices = {
        (i, j): match(problem, instants.key[fitting[i]], keys[fitting[i]], instants.key[fitting[j]], keys[fitting[j]], pair=(i, j))
        for i, j in itertools.combinations(range(len(fitting)), 2)
    }
    for stream, rows in enumerate(fitting):
        longer = []
        for places in found:
            fits = np.ones(len(rows), dtype=bool)
            for other, place in enumerate(places):
                fits &= matrices[other, stream][place]
            longer += [(*places, int(place)) for place in np.flatnonzero(fits)]
        found = longer
    return [tuple(int(rows[place]) for rows, place in zip(fitting, places, strict=True)) for places in found]
