"""Statistics `sketch`: decayed counts in a Count-Min sketch, for more keys than can be counted one by one.

The memory is fixed: depth x width numbers per stream. An estimate is never below the true decayed count; it exceeds it by more than
(e / width) times the stream's total decayed count with probability at most exp(-depth) (Cormode and Muthukrishnan 2005).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.core.batch import Batch
from penstock.core.compiled import kernel, routine
from penstock.core.problem import Problem
from penstock.core.rounding import aged, rounded
from penstock.core.trace import Floats, Ints
from penstock.engine.contract import Renumber
from penstock.engine.view import View
from penstock.statistics.base import Source
from penstock.statistics.forward import FORGOTTEN, Forward
from penstock.statistics.merging import merged, shifts_of

PRIME = 2147483647
"""What cells are found by: hashes are multiplications modulo it."""


class Sketch(Source):
    """Decayed counts by key, in bounded memory.

    >>> source = Sketch(Problem.of(("R", "S"), window=10, memory=4, stats="sketch"), width=64, depth=3)
    >>> batch = Batch(*(np.array(c) for c in ([0, 1, 0], [0, 10, 10], [5, 5, 5])))
    >>> source.rates(batch, 0)[0].tolist()
    [[1.0, 0.0], [3.0, 2.0], [3.0, 2.0]]
    >>> source.table.nbytes
    6144
    """

    def __init__(self, problem: Problem, *, width: int = 1 << 14, depth: int = 4) -> None:
        self.problem = problem
        self.forward = Forward(problem.ageing(), problem.n_streams)
        self.hashes = np.random.default_rng(problem.seed).integers(1, PRIME, size=(depth, 2))
        self.table = np.zeros((2, problem.n_streams, depth, width))  # weights; weights times importance

    @property
    def n_bytes(self) -> int:
        """What the cells take."""
        return int(self.table.nbytes)

    @property
    def is_sketch(self) -> bool:
        """Always."""
        return True

    def age(self, batch: Batch, begin: int) -> int:
        """Move the origin where it must."""
        return self._move(batch.time[begin])

    def rates(self, batch: Batch, begin: int) -> tuple[Floats, int]:
        """The estimated decayed count of each row's key in each stream, its instant included, in forward weights."""
        span = self.forward.span(batch.time[begin:])
        part = slice(begin, begin + span)
        stream, time, key = batch.stream[part], batch.time[part], batch.key[part]
        weight = np.exp2(self.forward.exponents(time))
        rates = np.zeros((span, self.problem.n_streams))
        _count(self.table[0], self.hashes, stream, time, key, weight, rates)
        if self.problem.priced_by_key:
            return rates, begin + span
        importance = np.ones(span) if batch.importance is None else batch.importance[part]
        weighed = np.zeros_like(rates)
        _count(self.table[1], self.hashes, stream, time, key, weight * importance, weighed)
        return self._with_values(stream, importance, rates, weighed), begin + span

    def _with_values(self, stream: Ints, importance: Floats, rates: Floats, weighed: Floats) -> Floats:
        """Of two streams: the partner's count times the value of an output; of the own stream the count, and beside it the mean."""
        mean = np.divide(weighed, rates, out=np.ones_like(rates), where=rates > 0)
        line, other = np.arange(len(stream)), 1 - stream
        partner = mean[line, other]
        low = stream == 0
        worth = self.problem.objective.pairs(np.where(low, importance, partner), np.where(low, partner, importance))
        own = mean[line, stream]
        rates[line, other] *= worth
        return np.column_stack([rates, own])

    def rates_of(self, key: Ints) -> Floats:
        """The estimated counts by what the cells hold now."""
        return self._estimates(self.table[0], key)

    def _estimates(self, table: Floats, key: Ints) -> Floats:
        out = np.zeros((len(key), len(table)))
        known = np.flatnonzero(key >= 0)
        for stream in range(len(table)):
            out[known, stream] = _estimate(table, self.hashes, stream, key[known].astype(np.int64))
        return out

    def weigh(self, stream: Ints, key: Ints, values: Ints, importance: Floats | None) -> tuple[Floats, Floats]:
        """What the cells hold, with the values of outputs where they differ."""
        if importance is None or self.problem.priced_by_key:
            return super().weigh(stream, key, values, importance)
        counts, weighed = (self._estimates(table, key) for table in self.table)
        return self._with_values(stream.astype(np.int64), importance, counts, weighed)[:, :-1], np.zeros(counts.shape[1])

    def units(self) -> tuple[int, float, int]:
        """The clock of the forward weights."""
        return self.forward.origin or 0, self.forward.half_life, self.forward.moved

    def arrive(self, view: View) -> None:
        """Weigh the arrivals."""
        self._move(view.time[view.new][0])
        new = np.flatnonzero(view.new & (view.key >= 0))
        if len(new):
            weight = np.exp2(self.forward.exponents(view.time[new]))
            _add(self.table[0], self.hashes, view.stream[new], view.key[new], weight)
            _add(self.table[1], self.hashes, view.stream[new], view.key[new], weight * view.importance[new])

    def prices(self, view: View) -> Floats:
        """The estimated count; with an objective, times the value of an output with a partner of mean importance."""
        n = self.problem.n_streams
        out = np.where(view.key >= 0, 1.0, 0.0)
        for i in range(n):
            mine = view.of(i)[view.key[view.of(i)] >= 0]
            for j in range(n):
                if i == j or not len(mine):
                    continue
                count, weighed = (_estimate(table, self.hashes, j, view.key[mine]) for table in self.table)
                worth: Any = 1.0
                if not self.problem.priced_by_key:
                    mean = np.divide(weighed, count, out=np.ones(len(mine)), where=count > 0)
                    pair = (view.importance[mine], mean)
                    worth = self.problem.objective.pairs(*(pair if i < j else pair[::-1]))
                out[mine] *= [rounded(float(x)) for x in count * worth]
        return out

    def totals(self, key: Ints) -> Floats:
        """The estimated counts of all streams together, by what the cells hold now."""
        total: Floats = self.rates_of(key).sum(axis=1)
        return total

    def _move(self, time: int) -> int:
        """Move the origin of the weights where a row of this time needs it."""
        steps = self.forward.move(time)
        if steps:
            self.table = aged(self.table, steps, FORGOTTEN)
        return steps

    def snapshot(self) -> dict[str, Any]:
        """The table, by which hashes it was filled, and the clock."""
        return {"table": self.table, "hashes": self.hashes} | self.forward.snapshot()

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a table, and its hashes: they come from the seed, which may have changed."""
        self.table = np.array(state["table"])
        self.hashes = np.array(state.get("hashes", self.hashes))  # 0.1.0 kept none
        self.forward.restore(state)

    def merge(self, states: Sequence[dict[str, Any]], renumber: Renumber) -> list[float]:
        """Take over the counts of several."""
        shifts = shifts_of(states, self.forward.half_life)
        self.restore(merged(states, shifts, renumber))
        return shifts


@kernel
def cell_of(hashes: Ints, line: int, key: int, width: int) -> int:
    """The cell of a key in a line."""
    folded = (key ^ (key >> 31)) & 0x7FFFFFFF
    return (hashes[line, 0] * folded + hashes[line, 1]) % PRIME % width


@kernel
def _add_one(table: Floats, hashes: Ints, stream: int, key: int, weight: float) -> None:
    for line in range(table.shape[1]):
        table[stream, line, cell_of(hashes, line, key, table.shape[2])] += weight


@kernel
def _add(table: Floats, hashes: Ints, stream: Ints, key: Ints, weight: Floats) -> None:
    for row in range(len(key)):
        _add_one(table, hashes, stream[row], key[row], weight[row])


@kernel
def least_of(table: Floats, hashes: Ints, stream: int, key: int) -> float:
    """The estimate for one key: the least of its cells."""
    least = np.inf
    for line in range(table.shape[1]):
        least = min(least, table[stream, line, cell_of(hashes, line, key, table.shape[2])])
    return rounded(least)


@routine
def _estimate(table: Floats, hashes: Ints, stream: int, key: Ints) -> Floats:
    out = np.empty(len(key))
    for row in range(len(key)):
        out[row] = least_of(table, hashes, stream, key[row])
    return out


@kernel
def _count(table: Floats, hashes: Ints, stream: Ints, time: Ints, key: Ints, weight: Floats, rates: Floats) -> None:
    position = 0
    while position < len(time):
        end = position + 1
        while end < len(time) and time[end] == time[position]:
            end += 1
        for row in range(position, end):
            if key[row] >= 0:
                _add_one(table, hashes, stream[row], key[row], weight[row])
        for row in range(position, end):
            if key[row] >= 0:
                for i in range(table.shape[0]):
                    rates[row, i] = least_of(table, hashes, i, key[row])
        position = end
