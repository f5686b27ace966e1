"""How large a problem is for each method, before anything of it is built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.core.batch import Batch
from penstock.core.facts import Facts
from penstock.core.problem import Problem
from penstock.core.trace import Trace
from penstock.engine.view import match
from penstock.optimum.instants import Instants, number_instants
from penstock.optimum.linked import batch_of, facts_of
from penstock.optimum.matches import fact_ranges, partner_ranges

SAMPLE = 256  # tuples whose matches are counted where counting all would mean finding them
ROW, END, MATCH, NODE = 90, 28, 96, 90  # bytes, while solving: from the sizes of the arrays, rounded up


@dataclass(frozen=True)
class Size:
    """Nodes and arcs of the network, the steps of one pass over it, and bytes."""

    n_nodes: int
    n_arcs: int
    n_steps: int
    n_bytes: int
    exact: bool = True  # False: estimated from a sample


def size_class(trace: Trace, problem: Problem) -> Size:
    """An upper bound for method `class`, from the numbers of rows and of matches.

    >>> trace = Trace.from_streams(R="aab", S="baa")
    >>> size_class(trace, Problem.of(trace.streams, window=3, memory=1)).n_nodes
    10
    """
    batch = Batch.of(trace, problem)
    instants = number_instants(trace, problem, batch)
    rows, n = int(np.count_nonzero(instants.key >= 0)), instants.n
    pools = len(instants.memory)
    steps, exact = _matches(batch, instants, problem)
    nodes = pools * (n + 1) + pools * rows
    return Size(nodes, pools * (n + 2 * rows) + rows, steps, ROW * len(trace) + pools * (NODE * n + END * rows), exact)


def size_chain(trace: Trace, problem: Problem) -> Size:
    """An upper bound for method `chain`, an estimate where the predicate is not equality: one node per match.

    >>> trace = Trace.from_streams(R="aab", S="baa")
    >>> size_chain(trace, Problem.of(trace.streams, window=3, memory=1)).n_steps
    5
    """
    batch = batch_of(trace, problem)
    instants = number_instants(trace, problem, batch)
    n, pools = instants.n, len(instants.memory)
    matches, exact = _matches(batch, instants, problem, facts_of(trace))
    nodes = pools * (n + 1) + matches
    return Size(nodes, pools * n + len(trace) + 2 * matches, matches, ROW * len(trace) + pools * NODE * n + MATCH * matches, exact)


def _matches(batch: Batch, instants: Instants, problem: Problem, facts: Sequence[Facts] = ()) -> tuple[int, bool]:
    """How many pairs of tuples match, and whether that is exact or scaled up from a sample."""
    if facts:
        ranges = (fact_ranges(batch, instants, problem, facts, stream) for stream in (0, 1))
        return sum(int((end - begin).sum()) for _, _, begin, end, _ in ranges), True
    if problem.predicate.is_equality and problem.n_streams == 2:
        return sum(int((end - begin).sum()) for _, begin, end, _ in (partner_ranges(batch, instants, stream) for stream in (0, 1))), True
    values = batch.key[:, None] if batch.values is None else batch.values
    rows = np.unique(np.linspace(0, len(batch) - 1, min(SAMPLE, len(batch))).astype(np.int64))
    found = 0
    for row in rows:
        later = np.flatnonzero((instants.of > instants.of[row]) & (instants.of <= instants.last[row]))
        product = 1
        for stream in range(problem.n_streams):
            if stream == batch.stream[row]:
                continue
            others = later[batch.stream[later] == stream]
            own = int(batch.stream[row])
            low, high = (np.array([row]), others) if own < stream else (others, np.array([row]))
            pair = (min(own, stream), max(own, stream))
            product *= int(match(problem, instants.key[low], values[low], instants.key[high], values[high], pair=pair).sum())
        found += product
    return -(-found * len(batch) // len(rows)), len(rows) == len(batch)
