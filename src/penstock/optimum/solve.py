"""The optimum of a join under a memory budget, with the schedule that reaches it and the prices that prove it (Das 4.1 and 6.1).

*class* serves equality joins whose outputs are all worth the same: ends are shared by the tuples of a stream and key. *chain* serves
every predicate and value function. Both go through the same solver. Pools of memory (fixed allocation, memory by stream) are solved one
after the other.

Differs from the paper: memory and windows may change in any way (Das 6.1.1 is not exact where memory grows, docs/readings.md, 10; here
free slots wait on the timeline), any number of tuples may arrive at a time, and values may be negative: a tuple that is held joins
whatever matches, so a bad match may end its stay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from penstock.core.batch import Batch, OnProgress
from penstock.core.errors import PenstockError
from penstock.core.problem import Problem
from penstock.core.trace import Floats, Ints, Trace
from penstock.optimum.flow import solve_stays
from penstock.optimum.flow_state import Flow
from penstock.optimum.gains import Gains, share_values
from penstock.optimum.instants import Instants, number_instants
from penstock.optimum.linked import batch_of, facts_of
from penstock.optimum.matches import find_matches
from penstock.optimum.scaling import FINE, UnitSize, whole_units
from penstock.optimum.schedule import NEVER
from penstock.optimum.stays import Stays, by_class, by_tuple


@dataclass(frozen=True)
class Solution:
    """What was found: `value` counts the outputs from `start` on, those of tuples that arrive together included."""

    method: str  # class or chain
    value: float
    leaves: Ints  # for each row the instant in which it leaves; its own: it is never stored
    prices: Floats  # by pool and gap: what one more slot would bring, if it were there in this gap only
    scale: UnitSize  # of the whole numbers in which it was solved
    n_nodes: int  # of the network
    n_arcs: int
    exact: bool = True  # False: an upper bound, for more than two streams


def solve_class(trace: Trace, problem: Problem, progress: OnProgress | None = None) -> Solution:
    """The optimum of an equality join whose outputs are all worth the same.

    >>> trace = Trace.from_streams(R="aab", S="baa")
    >>> problem = Problem.of(trace.streams, window=3, memory=1)
    >>> found = solve_class(trace, problem)
    >>> found.value, int(np.count_nonzero(found.leaves > [0, 0, 1, 1, 2, 2]))
    (3.0, 2)
    """
    reason = fits_class(trace, problem)
    if reason is not None:
        raise PenstockError(f"method 'class' does not apply: {reason}; use method 'chain'")
    batch = Batch.of(trace, problem)
    instants = number_instants(trace, problem, batch)
    each = problem.objective.of([1.0, 1.0])
    count = count_together(batch.stream, instants, problem)
    pools = [by_class(batch.stream, instants, problem, pool, FINE) for pool in range(len(instants.memory))]
    if each <= 0:  # a match is no reason to hold a tuple
        pools = [pool._replace(past=pool.first.copy()) for pool in pools]
    flows = [solve_stays(pool, progress) for pool in pools]
    count += sum(total_worth(pool, flow) for pool, flow in zip(pools, flows, strict=True)) // FINE
    scale = UnitSize(int(math.log2(FINE)))
    prices = _prices(flows, scale) * each
    return Solution("class", count * each, _leaves(pools, flows, instants), prices, scale, *network_size(pools))


def solve_chain(trace: Trace, problem: Problem, progress: OnProgress | None = None) -> Solution:
    """The optimum for any predicate and value function; for more than two streams an upper bound.

    >>> trace = Trace({"stream": ["R", "R", "S", "S"], "time": [0, 0, 1, 2], "key": [1, 5, 7, 3], "importance": [4.0, 1.0, 2.0, 2.0]})
    >>> problem = Problem.of(trace.streams, window=3, memory=1, predicate="<", objective="sum", has_importance=True)
    >>> found = solve_chain(trace, problem)
    >>> found.value, found.leaves.tolist()[:2]
    (12.0, [2, 0])
    """
    batch = batch_of(trace, problem)
    instants = number_instants(trace, problem, batch)
    pools, together, scale = chain_stays(trace, batch, instants, problem)
    flows = [solve_stays(pool, progress) for pool in pools]
    units = sum(total_worth(pool, flow) for pool, flow in zip(pools, flows, strict=True))
    exact = problem.n_streams == 2
    leaves = _leaves(pools, flows, instants) if exact else np.empty(0, np.int64)
    return Solution("chain", together + scale.back(units), leaves, _prices(flows, scale), scale, *network_size(pools), exact)


def fits_class(trace: Trace, problem: Problem) -> str | None:
    """Why method `class` does not apply to a problem; None if it does.

    >>> trace = Trace.from_streams(R="ab", S="ab")
    >>> fits_class(trace, Problem.of(trace.streams, window=3, memory=2, predicate="<"))
    "predicate '<' is not equality"
    """
    if problem.n_streams != 2:
        return f"it joins two streams, the trace has {problem.n_streams}"
    if problem.through:
        return "where a relation links the streams, tuples of equal keys are not interchangeable: a fact may come or go between them"
    if not problem.predicate.is_equality:
        return f"predicate {problem.predicate.name!r} is not equality"
    if not problem.steady:
        return f"with objective {problem.objective.name!r} outputs depend on the importance of the tuple that is stored"
    return None


def chain_stays(
    trace: Trace, batch: Batch, instants: Instants, problem: Problem, *, every: bool = False
) -> tuple[list[Stays], float, UnitSize]:
    """The chains of every pool, what tuples that arrive together are worth, and the scale of the worths."""
    if problem.n_streams == 2:
        earlier, later, values = find_matches(batch, instants, problem, facts_of(trace))
        same = instants.of[earlier] == instants.of[later]
        together = math.fsum(values[same])
        earlier, later, values = earlier[~same], later[~same], values[~same]
    else:
        earlier, later, values, together = share_values(Gains.of(trace, problem), instants)
    units, scale = whole_units(values)
    pool = problem.budget.pool[batch.stream[earlier]]
    pools = []
    for number, memory in enumerate(instants.memory):
        mine = slice(None) if len(instants.memory) == 1 else pool == number
        pools.append(by_tuple(earlier[mine], later[mine], units[mine], instants, problem, memory, every=every))
    return pools, together, scale


def count_together(stream: Ints, instants: Instants, problem: Problem) -> int:
    """How many outputs have both members from one instant, for equality of keys."""
    rows = np.flatnonzero((instants.key >= 0) & (instants.time[instants.of] >= problem.start))
    code = instants.key[rows] * instants.n + instants.of[rows]
    left, left_count = np.unique(code[stream[rows] == 0], return_counts=True)
    right, right_count = np.unique(code[stream[rows] == 1], return_counts=True)
    _, at, where = np.intersect1d(left, right, assume_unique=True, return_indices=True)
    return int(left_count[at] @ right_count[where])


def total_worth(stays: Stays, flow: Flow) -> int:
    """What the tuples of a pool are worth, in units."""
    stored = np.flatnonzero(flow.stop >= 0)
    return int((stays.worth[flow.stop[stored]] - stays.base[stored]).sum())


def network_size(pools: list[Stays]) -> tuple[int, int]:
    """Nodes and arcs of the network that network.py writes out: a timeline, the ends, and how they are connected."""
    nodes = sum(len(pool.memory) + 1 + len(pool.end) for pool in pools)
    arcs = sum(len(pool.memory) + len(pool.row) + 2 * len(pool.end) for pool in pools)
    return nodes, arcs


def _leaves(pools: list[Stays], flows: list[Flow], instants: Instants) -> Ints:
    leaves = instants.of.copy()
    for stays, flow in zip(pools, flows, strict=True):
        stored = np.flatnonzero(flow.stop >= 0)
        end = stays.end[flow.stop[stored]].astype(np.int64)
        leaves[stays.row[stored]] = np.where(end < instants.n, end, NEVER)
    return leaves


def _prices(flows: list[Flow], scale: UnitSize) -> Floats:
    return np.array([np.ldexp(np.diff(flow.potential).astype(np.float64), -scale.exponent) for flow in flows])
