"""The certificate: that a schedule keeps to its budget, is worth what it says, and that nothing can be worth more.

It knows nothing of how the schedule was found. The schedule is counted anew from the trace; the prices give a bound of what any schedule
is worth, by weak duality: all slots at their prices, plus for each tuple the most that it can gain when it pays them. Value and bound are
compared as whole numbers. That they are equal is complementary slackness.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.batch import Batch
from penstock.core.compiled import kernel
from penstock.core.problem import Problem
from penstock.core.trace import Floats, Ints, Trace
from penstock.optimum.instants import Instants, number_instants
from penstock.optimum.linked import batch_of
from penstock.optimum.scaling import FINE
from penstock.optimum.solve import Solution, chain_stays, count_together
from penstock.optimum.stays import Stays, by_class


@dataclass(frozen=True)
class Certificate:
    """What was checked; `ok` if the solution is proven optimal, else `faults` says what is wrong."""

    value: float  # of the schedule, counted anew
    bound: float  # no schedule is worth more
    peak_memory: int
    faults: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults


def verify(trace: Trace, problem: Problem, solution: Solution) -> Certificate:
    """Check a solution against the trace.

    >>> from dataclasses import replace
    >>> from penstock.optimum.solve import solve_class
    >>> trace = Trace.from_streams(R="aab", S="baa")
    >>> problem = Problem.of(trace.streams, window=3, memory=1)
    >>> found = solve_class(trace, problem)
    >>> verify(trace, problem, found).ok
    True
    >>> verify(trace, problem, replace(found, value=4.0)).faults
    ('the schedule is worth 3.0, not 4.0',)
    """
    batch = batch_of(trace, problem)
    instants = number_instants(trace, problem, batch)
    together, unit = 0.0, 1.0
    if solution.method == "class":
        pools = [by_class(batch.stream, instants, problem, pool, FINE) for pool in range(len(instants.memory))]
        exponent, unit = int(math.log2(FINE)), problem.objective.of([1.0, 1.0])
        always = count_together(batch.stream, instants, problem) * FINE
    else:
        pools, together, scale = chain_stays(trace, batch, instants, problem, every=True)
        exponent, always = scale.exponent, 0

    def valued(units: int) -> float:
        return together + math.ldexp(always + units, -exponent) * unit

    faults: list[str] = []
    if not solution.exact:
        faults.append("an upper bound for more than two streams has no schedule")
    units, held = _schedule_worth(pools, solution.leaves, instants, batch, problem, faults)
    gaps = _whole_prices(solution.prices, unit, exponent, instants, faults)
    most = sum(_bound(stays, gap) for stays, gap in zip(pools, gaps, strict=True)) if unit > 0 else 0
    if not faults and solution.value != valued(units):
        faults.append(f"the schedule is worth {valued(units)}, not {solution.value}")
    if not faults and units != most:
        faults.append(f"the prices allow {valued(most)}, the schedule is worth only {valued(units)}")
    return Certificate(valued(units), valued(most), held, tuple(faults))


def _schedule_worth(
    pools: list[Stays], leaves: Any, instants: Instants, batch: Batch, problem: Problem, faults: list[str]
) -> tuple[int, int]:
    """Units that the stored tuples earn, and the most that is held at the end of an instant."""
    if np.shape(leaves) != instants.of.shape or np.any(leaves < instants.of):
        faults.append(f"the schedule must have one instant for each of the {len(instants.of)} rows, none before the row arrives")
        return 0, 0
    gone = np.minimum(leaves, np.maximum(instants.last + 1, instants.of))
    peak = np.zeros(instants.n, dtype=np.int64)
    for pool, memory in enumerate(instants.memory):
        mine = problem.budget.pool[batch.stream] == pool
        change = np.bincount(instants.of[mine], minlength=instants.n + 1) - np.bincount(gone[mine], minlength=instants.n + 1)
        held = np.cumsum(change)[: instants.n]
        peak += held
        over = np.flatnonzero(held > memory)
        if len(over):
            faults.append(
                f"after the instant of time {instants.time[over[0]]} memory holds {held[over[0]]} tuples, more than {memory[over[0]]}"
            )
    units = 0
    for stays in pools:
        until = leaves[stays.row]
        for begin in range(0, len(stays.row), 1 << 16):  # in parts: a search in every list at once
            part = slice(begin, begin + (1 << 16))
            units += _earned(stays, part, until[part])
    return units, int(peak.max(initial=0))


def _earned(stays: Stays, part: slice, until: Ints) -> int:
    """By bisection in every list: the last end that is not after the tuple leaves."""
    low, high = stays.first[part].astype(np.int64), stays.past[part].astype(np.int64)
    while np.any(low < high):
        middle = (low + high) // 2
        fits = (low < high) & (stays.end[np.minimum(middle, len(stays.end) - 1)] <= until)
        low, high = np.where(fits, middle + 1, low), np.where(fits | (low >= high), high, middle)
    worth = np.concatenate([[0], stays.worth])[low]
    return int(np.where(low > stays.first[part], worth - stays.base[part], 0).sum())


def _whole_prices(prices: Floats, unit: float, exponent: int, instants: Instants, faults: list[str]) -> list[Ints]:
    """Prices as whole numbers of units."""
    if np.shape(prices) != instants.memory.shape or not np.all(np.isfinite(prices)):
        faults.append(f"there must be a price for each of {instants.memory.shape[0]} pools and {instants.n} gaps")
        return [np.zeros(instants.n, np.int64)] * len(instants.memory)
    scaled = np.ldexp(prices / unit if unit > 0 else np.zeros_like(prices), exponent)
    whole = np.rint(scaled).astype(np.int64)
    if np.any(whole < 0) or np.any(np.abs(scaled - whole) > 1e-6):
        faults.append("prices must be whole numbers of units, none negative")
        whole = np.maximum(whole, 0)
    return list(whole)


def _bound(stays: Stays, gaps: Ints) -> int:
    """All slots at their prices, and the most that each tuple can gain."""
    slots = sum(int(memory) * int(price) for memory, price in zip(stays.memory[gaps > 0], gaps[gaps > 0], strict=True))
    return slots + int(_most_gained(stays, np.concatenate([[0], np.cumsum(gaps)]).astype(np.int64)))


@kernel
def _most_gained(stays: Stays, cost: Ints) -> int:
    """What tuples gain that pay for their slots; `cost` is what slots cost up to each node."""
    total = 0
    for x in range(len(stays.row)):
        most = 0
        for number in range(stays.first[x], stays.past[x]):
            most = max(most, stays.worth[number] - stays.base[x] - cost[stays.end[number]] + cost[stays.arrive[x]])
        total += most
    return total
