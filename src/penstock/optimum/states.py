"""`states`: dynamic programming over memory states (ODJA, Ojewole 4.1-4.2; Towne 3.1).

A state is a set of tuples in memory at the end of an instant. From each state, the arrivals of the next instant lead to every
state that fits the budget; of all ways into a state the best is remembered, and the best last state is traced back:

    instant       0          1            2
    state         {r0}  -->  {r0}    -->  {r0}
                        \\->  {r1}    -->  {r1}      each edge earns the outputs for which its tuples have waited

It is exponential in the memory and serves small instances, more than two streams among them, and comparison with the flow.

Differs from the paper: any number of arrivals per instant; one pool for all streams or one each; the model `buffered` beside the
papers' own `inplace`; values of either sign (tuples may then leave although there is room); tuples that wait for nothing any more are
not part of a state, unless the least value is wanted: then memory is kept full, as the paper has it. For two streams every pool is a
graph of its own (the papers' R, S and SA graphs); with more, an output needs several stored tuples at once, and one graph holds them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, product
from math import comb

import numpy as np

from penstock.core.budget import TUPLE_OVERHEAD
from penstock.core.problem import Problem
from penstock.core.trace import Ints, Trace
from penstock.core.value import USER
from penstock.optimum.gains import Gains
from penstock.optimum.schedule import NEVER, instants, last_instants

MOST_STATES = 4_000_000
"""More of them take too long."""
MOST_UNTRACED = 40_000_000
"""The same where only the value is wanted."""
MOST_OUTPUTS = 2_000_000
STATE_BYTES = 150
"""What a state takes in memory: its set, its value, and the way into it."""
_COUNTLESS = 1 << 60


@dataclass(frozen=True)
class StatesOptimum:
    """The best schedule, what it is worth, and how many states were looked at."""

    value: float
    leaves: Ints
    n_states: int


def solve_states(
    trace: Trace, problem: Problem, *, goal: str = "max", traced: bool = True, progress: Callable[[int], object] | None = None
) -> StatesOptimum:
    """The schedule of the largest value, or of the least among those that keep memory full.

    Where it is not `traced`, only the states of two instants are held, as the paper has it, and there is a value but no schedule.

    >>> trace = Trace.from_streams(R=[1, 1, 1, 3, 2], S=[2, 3, 1, 1, 3])
    >>> fixed = Problem.of(trace.streams, window=3, memory=2, allocation="fixed")
    >>> solve_states(trace, fixed).value, solve_states(trace, fixed, goal="min").value
    (5.0, 3.0)
    """
    return _Graph(trace, problem, goal).solve(progress, traced=traced)


def size_states(trace: Trace, problem: Problem, *, goal: str = "max") -> int:
    """The most states there can be: for each instant, the ways to choose who is in memory."""
    return _Graph(trace, problem, goal).bound()


class _Graph:
    """The join memory state graph, one instant after another. A state is the bits of its tuples' slots."""

    def __init__(self, trace: Trace, problem: Problem, goal: str) -> None:
        self.trace, self.problem, self.goal = trace, problem, goal
        self.gains = gains = Gains.of(trace, problem, most=MOST_OUTPUTS)
        self.own = instants(trace.time)
        self.n_instants = int(self.own[-1]) + 1
        # A tuple that earns less than nothing may have to go although there is room.
        self.eager = goal == "max" and problem.objective.code == USER and bool((gains.value < 0).any())
        idle = goal == "min" or (bool(problem.through) and problem.switch("pre-filter") != "both")
        self.last = last_instants(trace, problem) if idle else self._last_uses()
        budget = problem.budget
        self.pool = budget.pool[trace.stream]
        steps = np.maximum(np.searchsorted(budget.times, np.unique(trace.time), side="right") - 1, 0)
        self.caps = budget.caps[steps]
        self.weight = trace.size + TUPLE_OVERHEAD if budget.in_bytes and trace.size is not None else np.ones(len(trace), np.int64)

    def _last_uses(self) -> Ints:
        """For each row the last instant at whose end it must be in memory to be of use; -1 for none."""
        last = np.full(len(self.trace), -1, dtype=np.int64)
        needed = self.gains.instant - (self.problem.model == "buffered")
        np.maximum.at(
            last, self.gains.members[self.gains.waits], np.broadcast_to(needed[:, None], self.gains.waits.shape)[self.gains.waits]
        )
        return last

    def groups(self) -> list[list[int]]:
        """The pools that are solved together."""
        pools = list(range(self.caps.shape[1]))
        return [[pool] for pool in pools] if self.problem.n_streams == 2 else [pools]

    def bound(self) -> int:
        """The most states there can be."""
        total = 0
        held = np.zeros((self.n_instants + 1, self.caps.shape[1]), dtype=np.int64)
        kept = self.last >= self.own
        np.add.at(held, (self.own[kept], self.pool[kept]), 1)
        np.subtract.at(held, (self.last[kept] + 1, self.pool[kept]), 1)
        live = np.cumsum(held, axis=0)[:-1]
        full = self._full()
        for group in self.groups():
            for at in range(self.n_instants):
                ways = 1
                for pool in group:
                    here = self._ways(int(live[at, pool]), int(self.caps[at, pool]))
                    if full is not None and full[at, pool] >= 0:
                        here = min(here, comb(int(full[at, pool]), min(int(full[at, pool]), int(self.caps[at, pool]))))
                    ways = min(_COUNTLESS, ways * here)
                total = min(_COUNTLESS, total + ways)
        return total

    def _full(self) -> Ints | None:
        """How many tuples of each pool are in their windows after each instant, where memory is full as soon as it has been: else -1.

        It is while no more tuples expire than arrive, in each instant so far. Then a state is a choice of exactly as many tuples as fit,
        less those that wait for nothing any more; so it is no more states than such choices.
        """
        if self.eager or self.problem.budget.in_bytes or (self.caps != self.caps[0]).any():
            return None
        last = last_instants(self.trace, self.problem)
        inside = last >= self.own
        come, gone = np.zeros_like(self.caps), np.zeros((self.n_instants + 1, self.caps.shape[1]), dtype=np.int64)
        np.add.at(come, (self.own[inside], self.pool[inside]), 1)
        np.add.at(gone, (last[inside] + 1, self.pool[inside]), 1)
        alive = np.cumsum(come - gone[:-1], axis=0)
        steady = np.logical_and.accumulate((gone[:-1] <= come) | (alive + gone[:-1] - come <= self.caps), axis=0)
        return np.where(steady, alive, -1)

    def _ways(self, live: int, cap: int) -> int:
        """How many sets of tuples a pool can hold; not only full ones: who left before is no candidate any more."""
        total = 0
        for size in range(live + 1 if self.problem.budget.in_bytes else min(cap, live) + 1):
            total += comb(live, size)
            if total > _COUNTLESS:
                return _COUNTLESS
        return total

    def solve(self, progress: Callable[[int], object] | None, *, traced: bool) -> StatesOptimum:
        """Solve every group of pools, and put the schedules together."""
        gains = self.gains
        value = float(gains.value[~gains.waits.any(axis=1)].sum())
        leaves = np.where(self.last < self.own, self.own, self.last + 1) if self.goal == "max" else np.full(len(self.trace), NEVER)
        n_states = 0
        for group in self.groups():
            part, seen = self._solve(group, leaves if traced else None, progress)
            value += part
            n_states += seen
        return StatesOptimum(value, leaves if traced else np.empty(0, np.int64), n_states)

    def _solve(self, group: list[int], leaves: Ints | None, progress: Callable[[int], object] | None) -> tuple[float, int]:
        """The best path through the graph of these pools; writes who leaves early into `leaves`, where that is asked for."""
        better: Callable[[float, float], bool] = (lambda a, b: a > b) if self.goal == "max" else (lambda a, b: a < b)
        arriving, leaving = self._moves(group)
        earned = self._earned(group)
        inplace = self.problem.model == "inplace"
        slot: dict[int, int] = {}
        free: list[int] = []
        states: dict[int, float] = {0: 0.0}
        paths: list[tuple[dict[int, int], dict[int, int], dict[int, int]]] = []
        n_states = 0
        for at in range(self.n_instants):
            worth = _worth([(_mask(slot, rows), value) for rows, value in earned[at]])
            for row in leaving[at]:
                free.append(slot.pop(row))
            for row in arriving[at]:
                slot[row] = free.pop() if free else len(slot)
            alive, new = _mask(slot, slot), _mask(slot, arriving[at])
            reached: dict[int, float] = {}
            origin: dict[int, int] = {}
            stay = alive & ~new
            for state, value in states.items():
                if not inplace:
                    value += worth(state)
                crowd = state & stay | new
                if crowd not in reached or better(value, reached[crowd]):
                    reached[crowd], origin[crowd] = value, state
            states, way = {}, {}
            kept = self._choices(group, at, slot)
            for crowd, value in reached.items():
                for state in kept(crowd):
                    total = value + worth(state) if inplace else value
                    if state not in states or better(total, states[state]):
                        states[state], way[state] = total, crowd
            if leaves is not None:
                paths.append((way, origin, dict(slot)))
            n_states += len(states)
            if progress:
                progress(len(arriving[at]))
        best = max(states, key=states.__getitem__) if self.goal == "max" else min(states, key=states.__getitem__)
        value = states[best]
        for at in reversed(range(self.n_instants if leaves is not None else 0)):
            assert leaves is not None
            way, origin, slots = paths[at]
            crowd = way[best]
            gone = crowd & ~best
            for row, bit in slots.items():
                if gone >> bit & 1:
                    leaves[row] = at
            best = origin[crowd]
        return value, n_states

    def _moves(self, group: list[int]) -> tuple[list[list[int]], list[list[int]]]:
        """The rows that come, and those that need not be looked at any more, by instant."""
        arriving: list[list[int]] = [[] for _ in range(self.n_instants)]
        leaving: list[list[int]] = [[] for _ in range(self.n_instants + 1)]
        for row in np.flatnonzero(np.isin(self.pool, group) & (self.last >= self.own)).tolist():
            arriving[int(self.own[row])].append(row)
            leaving[int(self.last[row]) + 1].append(row)
        return arriving, leaving

    def _earned(self, group: list[int]) -> list[list[tuple[tuple[int, ...], float]]]:
        """By instant: the sets of rows in memory that earn something, and how much."""
        found: list[dict[tuple[int, ...], float]] = [{} for _ in range(self.n_instants)]
        gains = self.gains
        for at, members, waits, value in zip(gains.instant.tolist(), gains.members, gains.waits, gains.value.tolist(), strict=True):
            rows = tuple(members[waits].tolist())
            if rows and self.pool[rows[0]] in group:
                found[at][rows] = found[at].get(rows, 0.0) + value
        return [list(by_rows.items()) for by_rows in found]

    def _choices(self, group: list[int], at: int, slot: dict[int, int]) -> Callable[[int], Iterable[int]]:
        """A function from the candidates of an instant to the states that they can become."""
        pools = [(_mask(slot, (row for row in slot if self.pool[row] == pool)), int(self.caps[at, pool])) for pool in group]
        weight = {1 << bit: int(self.weight[row]) for row, bit in slot.items()} if self.problem.budget.in_bytes else None

        def fitting(crowd: int, cap: int) -> Iterable[int]:
            """The sets of tuples that may stay in a pool: as many as fit; any number where tuples may leave early."""
            if weight is not None:
                return _by_weight(crowd, cap, weight, self.eager)
            if not self.eager and crowd.bit_count() <= cap:
                return (crowd,)
            present = _bits(crowd)
            most = min(cap, len(present))
            return (sum(chosen) for size in range(0 if self.eager else most, most + 1) for chosen in combinations(present, size))

        if len(pools) == 1:
            return lambda crowd: fitting(crowd, pools[0][1])
        return lambda crowd: map(sum, product(*(fitting(crowd & mine, cap) for mine, cap in pools)))


def _by_weight(crowd: int, cap: int, weight: dict[int, int], eager: bool) -> Iterator[int]:
    """The sets that fit into `cap` bytes; unless tuples may leave early, those to which nothing can be added."""
    present = _bits(crowd)
    for size in range(len(present) + 1):
        for chosen in combinations(present, size):
            room, state = cap - sum(map(weight.__getitem__, chosen)), sum(chosen)
            if room >= 0 and (eager or all(weight[bit] > room for bit in present if not state & bit)):
                yield state


def _worth(earned: list[tuple[int, float]]) -> Callable[[int], float]:
    """What a state earns: the outputs for which all tuples are there."""
    someone = 0
    for mask, _ in earned:
        someone |= mask

    def worth(state: int) -> float:
        return sum(gain for mask, gain in earned if state & mask == mask) if state & someone else 0.0

    return worth


def _bits(mask: int) -> list[int]:
    """The single bits of a mask."""
    found = []
    while mask:
        found.append(mask & -mask)
        mask &= mask - 1
    return found


def _mask(slot: dict[int, int], rows: Iterable[int]) -> int:
    """The bits of these rows."""
    mask = 0
    for row in rows:
        mask |= 1 << slot[row]
    return mask
