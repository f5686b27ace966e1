"""Matches: every pair of tuples of two streams that would be joined if the earlier one were still in memory.

These are the pairs of the exact result (docs/readings.md, the exact result).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from penstock.core.batch import Batch
from penstock.core.problem import Problem
from penstock.core.trace import Floats, Ints
from penstock.engine.view import match
from penstock.optimum.instants import Instants

CELLS = 1 << 22  # of the match matrix of a block


def find_matches(batch: Batch, instants: Instants, problem: Problem) -> tuple[Ints, Ints]:
    """Pairs of rows (earlier, later) in this order; of one instant, the row of the first stream comes first."""
    parts = list(_equal(batch, instants) if problem.predicate.is_equality else _blocks(batch, instants, problem))
    earlier = np.concatenate([part[0] for part in parts])
    later = np.concatenate([part[1] for part in parts])
    counted = instants.time[instants.of[later]] >= problem.start
    earlier, later = earlier[counted], later[counted]
    order = np.lexsort((later, earlier))
    return earlier[order], later[order]


def pair_values(batch: Batch, problem: Problem, earlier: Ints, later: Ints) -> Floats:
    """What the output of each pair is worth."""
    importance = np.ones(len(batch)) if batch.importance is None else batch.importance
    swapped = batch.stream[earlier] > batch.stream[later]
    low, high = np.where(swapped, later, earlier), np.where(swapped, earlier, later)
    return problem.objective.pairs(importance[low], importance[high])


def partner_ranges(batch: Batch, instants: Instants, stream: int) -> tuple[Ints, Ints, Ints, Ints]:
    """For an equality join: the rows of a stream, and for each the range of its later or equal partners in the order given last."""
    key, n = instants.key, instants.n
    mine = np.flatnonzero((batch.stream == stream) & (key >= 0))
    others = np.flatnonzero((batch.stream != stream) & (key >= 0))
    others = others[np.lexsort((others, key[others]))]
    code = key[others] * (n + 1) + instants.of[others]
    own = key[mine] * (n + 1)
    begin = np.searchsorted(code, own + instants.of[mine] + (1 if stream else 0), side="left")
    end = np.searchsorted(code, own + np.maximum(instants.last[mine], instants.of[mine]), side="right")
    return mine, begin, np.maximum(begin, end), others


def _equal(batch: Batch, instants: Instants) -> Iterator[tuple[Ints, Ints]]:
    for stream in range(2):
        mine, begin, end, others = partner_ranges(batch, instants, stream)
        sizes = end - begin
        starts = np.cumsum(sizes) - sizes
        yield np.repeat(mine, sizes), others[np.repeat(begin - starts, sizes) + np.arange(sizes.sum())]


def _blocks(batch: Batch, instants: Instants, problem: Problem) -> Iterator[tuple[Ints, Ints]]:
    """The match matrix, block by block along the window."""
    values = batch.key[:, None] if batch.values is None else batch.values
    for stream in range(2):
        mine, others = np.flatnonzero(batch.stream == stream), np.flatnonzero(batch.stream != stream)
        yield np.empty(0, np.int64), np.empty(0, np.int64)
        reach = np.maximum(instants.last[mine], instants.of[mine])
        begin = np.searchsorted(instants.of[others], instants.of[mine] + (1 if stream else 0), side="left")
        end = np.searchsorted(instants.of[others], reach, side="right")
        at = 0
        while at < len(mine):
            size = max(1, CELLS // max(1, int(end[at] - begin[at])) // 2)
            block = slice(at, at + size)
            left, right = mine[block], others[begin[block].min() : end[block].max()]
            low, high = (left, right) if stream == 0 else (right, left)
            found: NDArray[np.bool_] = match(problem, instants.key[low], values[low], instants.key[high], values[high], pair=(0, 1))
            found = found if stream == 0 else found.T
            where, partner = np.nonzero(found)
            earlier, later = left[where], right[partner]
            inside = (instants.of[later] >= instants.of[earlier] + (1 if stream else 0)) & (instants.of[later] <= reach[block][where])
            yield earlier[inside], later[inside]
            at += size
