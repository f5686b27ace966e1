"""Statistics `decayed`: every arrival counts, shed ones too, and loses half its weight in every half-life.

Weights are taken *forward*: an arrival at time u weighs 2 ** ((u - origin) / half-life) for good, so sums grow only by arrivals and the
order of keys changes only where something arrived. Every so many half-lives since the first arrival, the origin moves along, which
divides every sum by the same power of two, exactly; sums that are then below a small part of one arrival are forgotten, so that keys
that come no more take no room. When it moves depends on the times of the rows alone, not on how they are cut into batches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.batch import Batch
from penstock.core.compiled import kernel, routine
from penstock.core.memory import place_of
from penstock.core.problem import Problem
from penstock.core.rounding import aged, rounded
from penstock.core.trace import Floats, Ints
from penstock.core.view import View, match
from penstock.statistics.base import Source

_REACH = 8  # the exponent that the price of one arrival may reach before the origin moves
FORGOTTEN = 2.0**-8
"""A sum below this part of one arrival is forgotten when the origin moves."""


class Forward:
    """The clock of forward weights: exponents relative to an origin that moves by whole half-lives."""

    def __init__(self, half_life: float, streams: int) -> None:
        self.half_life = half_life
        self.step = max(1, _REACH // (streams - 1))  # half-lives by which the origin moves; a price is a product of streams - 1 rates
        self.origin: int | None = None
        self.moved = 0

    def exponents(self, time: Ints) -> Floats:
        """The base-2 logarithm of the weight of arrivals at these times."""
        if self.origin is None:
            self.origin = int(time[0])
        return (time - self.origin) / self.half_life - self.moved

    def move(self, time: int) -> int:
        """Move the origin where a row of this time needs it; by how many half-lives."""
        steps = max(0, int(self.exponents(np.array([time]))[0] // self.step) * self.step)
        self.moved += steps
        return steps

    def span(self, time: Ints) -> int:
        """How many of these rows can be weighed before the origin must move."""
        beyond = np.flatnonzero(self.exponents(time) >= self.step)
        return int(beyond[0]) if len(beyond) else len(time)

    def snapshot(self) -> dict[str, Any]:
        """The position of the clock."""
        return {"clock": np.array([0 if self.origin is None else self.origin, self.moved, self.origin is not None])}

    def restore(self, state: dict[str, Any]) -> None:
        """Set the clock."""
        origin, moved, known = (int(v) for v in state["clock"])
        self.origin, self.moved = (origin if known else None), moved


class Decayed(Source):
    """Exact decayed counts by key.

    >>> source = Decayed(Problem.of(("R", "S"), window=10, memory=4))
    >>> batch = Batch(*(np.array(c) for c in ([0, 1, 0], [0, 10, 10], [5, 5, 5])))
    >>> source.rates(batch, 0)[0].tolist()
    [[1.0, 0.0], [3.0, 2.0], [3.0, 2.0]]
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.forward = Forward(problem.ageing(), problem.n_streams)
        self.known = np.full(64, -1, dtype=np.int64)
        self.sums = np.zeros((64, problem.n_streams))
        self.history: list[tuple[NDArray[Any], ...]] = []

    def age(self, batch: Batch, begin: int) -> int:
        """Move the origin where it must."""
        steps = self.forward.move(batch.time[begin])
        if steps:
            self.sums = aged(self.sums, steps, FORGOTTEN)
            self._resize(_size(int(_forget_vanished(self.known, self.sums))))
        return steps

    def rates(self, batch: Batch, begin: int) -> tuple[Floats, int]:
        """The decayed count of each row's key in each stream, its instant included, in forward weights."""
        span = self.forward.span(batch.time[begin:])
        stop = begin + span
        weight = np.exp2(self.forward.exponents(batch.time[begin:stop]))
        rates = np.zeros((span, self.problem.n_streams))
        at = 0
        while at < span:
            part = slice(begin, stop)
            at = _count(self.known, self.sums, batch.stream[part], batch.time[part], batch.key[part], weight, rates, at)
            if at < span:
                self._resize(2 * len(self.known))
        return rates, stop

    def reprice(self, price: Floats, key: Ints, stream: Ints) -> Floats:
        """The prices by the sums that are left: what was forgotten is worth nothing."""
        out = np.zeros(len(price))
        _reprice(self.known, self.sums, key.astype(np.int64), stream.astype(np.int64), out)
        return out

    def units(self) -> tuple[int, float, int]:
        """The clock of the forward weights."""
        return self.forward.origin or 0, self.forward.half_life, self.forward.moved

    def arrive(self, view: View) -> None:
        """Weigh the arrivals, and add them to the sums of the candidates that they match."""
        new = np.flatnonzero(view.new)
        steps = self.forward.move(view.time[new[0]])
        if steps:
            self._forget(steps)
            old = np.flatnonzero(~view.new)
            view.rates[old] = self._weigh(view, old, self.history[0])
        weight = np.exp2(self.forward.exponents(view.time[new]))
        self.history.append((view.stream[new], view.key[new], view.values[new], view.importance[new], weight))
        old = np.flatnonzero(~view.new)
        view.rates[old] += self._weigh(view, old, self.history[-1])
        self.history = [tuple(np.concatenate(columns) for columns in zip(*self.history, strict=True))]
        view.rates[new] = self._weigh(view, new, self.history[0])

    def prices(self, view: View) -> Floats:
        """The product over the partners of their decayed counts (or values) that match."""
        out = np.ones(len(view))
        for i in range(self.problem.n_streams):
            for j in range(self.problem.n_streams):
                if i != j:
                    mine = view.of(i)
                    out[mine] *= np.array([rounded(float(x)) for x in view.rates[mine, j]])
        return out

    def _forget(self, steps: int) -> None:
        """The origin of the weights has moved: arrivals that are priced alike are forgotten together."""
        stream, key, values, importance, weight = self.history[0]
        weight = aged(weight, steps)
        alike = np.array([stream, key, *([] if self.problem.priced_by_key else [importance])], dtype=np.float64)
        _, which = np.unique(alike, axis=1, return_inverse=True)
        kept = np.bincount(which.reshape(-1), weight)[which.reshape(-1)] >= FORGOTTEN
        self.history = [(stream[kept], key[kept], values[kept], importance[kept], weight[kept])]

    def _weigh(self, view: View, chosen: Ints, arrivals: tuple[NDArray[Any], ...]) -> Floats:
        """For each chosen candidate and each stream, the weight (times value) of the arrivals that match it."""
        problem, n = self.problem, self.problem.n_streams
        stream, key, values, importance, weight = arrivals
        out = np.zeros((len(chosen), n))
        for i in range(n):
            mine = np.flatnonzero(view.stream[chosen] == i)
            for j in range(n):
                theirs = np.flatnonzero(stream == j)
                if i == j or not len(mine) or not len(theirs):
                    continue
                x = chosen[mine]
                sides = ((view.key[x], view.values[x]), (key[theirs], values[theirs]))
                low, high = sides if i < j else sides[::-1]
                found = match(problem, *low, *high, pair=(min(i, j), max(i, j)))
                worth: Any = 1.0
                if not problem.priced_by_key and n == 2:
                    pair = (view.importance[x], importance[theirs])
                    a, b = pair if i < j else pair[::-1]
                    worth = problem.objective.pairs(a[:, None], b[None, :])
                total = (found * worth).T if i < j else found * worth
                out[mine, j] = (total * weight[theirs][:, None]).sum(axis=0)
        return out

    def _resize(self, size: int) -> None:
        """Move to a hash table of another size."""
        known, sums = self.known, self.sums
        self.known = np.full(size, -1, dtype=np.int64)
        self.sums = np.zeros((size, self.problem.n_streams))
        _rehash(self.known, self.sums, known, sums)

    def snapshot(self) -> dict[str, Any]:
        """Counts by key; in stepwise runs the weighed arrivals."""
        live = np.flatnonzero(self.known >= 0)
        state = {"key": self.known[live], "sums": self.sums[live]} | self.forward.snapshot()
        for columns in self.history:
            state |= {f"history.{number}": column for number, column in enumerate(columns)}
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Take over counts."""
        size = _size(len(state["key"]))
        self.known = np.full(size, -1, dtype=np.int64)
        self.sums = np.zeros((size, self.problem.n_streams))
        _rehash(self.known, self.sums, state["key"], state["sums"])
        self.forward.restore(state)
        if "history.0" in state:
            self.history = [tuple(state[f"history.{number}"] for number in range(5))]


def _size(keys: int) -> int:
    """Of a hash table for so many keys."""
    return 1 << max(6, (4 * keys).bit_length())


@kernel
def _find(known: Ints, key: int) -> int:
    at = place_of(len(known), key)
    while known[at] >= 0 and known[at] != key:
        at = (at + 1) & (len(known) - 1)
    return at


@routine
def _reprice(known: Ints, sums: Floats, key: Ints, stream: Ints, out: Floats) -> None:
    for number in range(len(key)):
        if key[number] >= 0:
            at = _find(known, key[number])
            if known[at] >= 0:
                price = 1.0
                for other in range(sums.shape[1]):
                    if other != stream[number]:
                        price *= rounded(sums[at, other])
                out[number] = price


@routine
def _rehash(known: Ints, sums: Floats, keys: Ints, old: Floats) -> None:
    for number in range(len(keys)):
        if keys[number] >= 0:
            at = _find(known, keys[number])
            known[at] = keys[number]
            sums[at] = old[number]


@kernel
def _forget_vanished(known: Ints, sums: Floats) -> int:
    """Take the keys whose sums are all 0 out of a table that is to be built anew; how many are left."""
    left = 0
    for at in range(len(known)):
        largest = 0.0
        for stream in range(sums.shape[1]):
            largest = max(largest, sums[at, stream])
        if largest == 0.0:
            known[at] = -1
        left += known[at] >= 0
    return left


@kernel
def _count(known: Ints, sums: Floats, stream: Ints, time: Ints, key: Ints, weight: Floats, rates: Floats, begin: int) -> int:
    """Add rows instant by instant and read the sums after each; where it stopped because the table is half full."""
    filled = 0
    for at in range(len(known)):
        filled += known[at] >= 0
    position = begin
    while position < len(time):
        end = position + 1
        while end < len(time) and time[end] == time[position]:
            end += 1
        if 2 * (filled + end - position) > len(known):
            return position
        at = -1
        for row in range(position, end):
            if key[row] >= 0:
                at = _find(known, key[row])
                if known[at] < 0:
                    known[at] = key[row]
                    filled += 1
                sums[at, stream[row]] += weight[row]
        for row in range(position, end):
            if key[row] >= 0:
                if known[at] != key[row]:
                    at = _find(known, key[row])
                for i in range(sums.shape[1]):
                    rates[row, i] = rounded(sums[at, i])
        position = end
    return position
