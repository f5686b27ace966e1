"""Matches: every pair of tuples of two streams that would be joined if the earlier one were still in memory.

These are the pairs of the exact result (docs/readings.md, the exact result). Where a relation links the streams, two tuples are a pair once
for each fact that links them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.batch import Batch
from penstock.core.facts import Facts
from penstock.core.problem import Problem
from penstock.core.trace import Floats, Ints
from penstock.engine.fact_index import FactIndex, expand
from penstock.engine.view import match
from penstock.optimum.instants import Instants
from penstock.optimum.linked import fact_weights

CELLS = 1 << 22  # of the match matrix of a block


def find_matches(batch: Batch, instants: Instants, problem: Problem, facts: Sequence[Facts] = ()) -> tuple[Ints, Ints, Floats]:
    """Pairs of rows (earlier, later) in this order, and what each is worth; of one instant, the row of the first stream comes first."""
    parts: list[tuple[Any, ...]]
    if facts:
        parts = list(_through(batch, instants, problem, facts))
    else:
        parts = list(_equal(batch, instants) if problem.predicate.is_equality else _blocks(batch, instants, problem))
    earlier, later = (np.concatenate([part[column] for part in parts]) for column in (0, 1))
    values = pair_values(batch, problem, earlier, later)
    if facts:
        values = values * np.concatenate([part[2] for part in parts])
    counted = np.flatnonzero(instants.time[instants.of[later]] >= problem.start)
    order = counted[np.lexsort((later[counted], earlier[counted]))]
    return earlier[order], later[order], values[order]


def pair_values(batch: Batch, problem: Problem, earlier: Ints, later: Ints) -> Floats:
    """What the output of each pair is worth, but for the weight of its fact."""
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


def fact_ranges(
    batch: Batch, instants: Instants, problem: Problem, facts: Sequence[Facts], stream: int
) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """For a join through a relation: rows of a stream, a fact that each has at its time (a line for each such pair), and the range of later
    or equal partners that have the fact too, in the order given last."""
    assert batch.values is not None
    index = FactIndex(problem, facts)
    link, other = (next(link for _, link in index.links[which]) for which in (stream, 1 - stream))
    mine = np.flatnonzero((batch.stream == stream) & (instants.key >= 0))
    at, fact = index.pairs(0, link, batch.values[mine, link], batch.time[mine])
    mine = mine[at]
    others = np.flatnonzero((batch.stream != stream) & (instants.key >= 0) & (batch.values[:, other] >= 0))
    others = others[np.lexsort((others, batch.values[others, other]))]
    code = batch.values[others, other] * (instants.n + 1) + instants.of[others]
    ended = np.searchsorted(instants.time, facts[0].end, side="left") - 1
    own = facts[0].keys[fact, other] * (instants.n + 1)
    begin = np.searchsorted(code, own + instants.of[mine] + (1 if stream else 0), side="left")
    reach = np.minimum(np.maximum(instants.last[mine], instants.of[mine]), ended[fact])
    return mine, fact, begin, np.maximum(begin, np.searchsorted(code, own + reach, side="right")), others


def _through(batch: Batch, instants: Instants, problem: Problem, facts: Sequence[Facts]) -> Iterator[tuple[Ints, Ints, Floats]]:
    """With the weight of the fact of each pair."""
    for stream in range(2):
        mine, fact, begin, end, others = fact_ranges(batch, instants, problem, facts, stream)
        at, place = expand(begin, end)
        yield mine[at], others[place], fact_weights(facts, fact[at][:, None])


def _equal(batch: Batch, instants: Instants) -> Iterator[tuple[Ints, Ints]]:
    for stream in range(2):
        mine, begin, end, others = partner_ranges(batch, instants, stream)
        at, place = expand(begin, end)
        yield mine[at], others[place]


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
