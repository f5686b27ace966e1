"""Arrivals that are remembered one by one, for statistics of whatever a predicate compares: how much of them matches a tuple.

This is the plain form, which looks at all of them for each tuple. What they weigh is that of `decayed` (forward.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.problem import Problem
from penstock.core.rounding import aged, rounded
from penstock.core.trace import Floats, Ints
from penstock.engine.number_bits import as_bits
from penstock.engine.view import View, match
from penstock.statistics.base import Source
from penstock.statistics.forward import FORGOTTEN, Forward


class Remembered(Source):
    """Past arrivals: stream, key, what is compared, importance, weight."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.forward = Forward(problem.ageing(), problem.n_streams)
        self.history: list[tuple[NDArray[Any], ...]] = []

    @property
    def n_bytes(self) -> int:
        """What they take."""
        return sum(column.nbytes for columns in self.history for column in columns)

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
        self._thin()
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
        arrivals = self.history[0]
        weight = aged(arrivals[4], steps)
        which = self._alike(arrivals)
        kept = np.bincount(which, weight)[which] >= FORGOTTEN
        self.history = [(*(column[kept] for column in arrivals[:4]), weight[kept])]

    def _thin(self) -> None:
        """Keep what is remembered within its bound; here there is none."""

    def _alike(self, arrivals: tuple[NDArray[Any], ...]) -> Ints:
        """A number for each arrival that is equal where arrivals are priced alike."""
        stream, key, values, importance, _ = arrivals
        if self.problem.predicate.function is not None:  # nobody knows what it looks at
            return np.arange(len(stream))
        compared = key[:, None] if self.problem.predicate.is_equality else as_bits(values)
        worth = [] if self.problem.priced_by_key else [as_bits(importance)[:, None]]
        rows = np.hstack([stream[:, None].astype(np.int64), compared, *worth])
        return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)

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

    def keys(self) -> Ints:
        """The keys of the arrivals."""
        return np.concatenate([np.empty(0, np.int64), *(columns[1] for columns in self.history)])

    def values(self) -> Floats:
        """What is compared of the arrivals."""
        return np.asarray(self.history[0][2]) if self.history else super().values()

    def snapshot(self) -> dict[str, Any]:
        """The clock and the arrivals."""
        state = self.forward.snapshot()
        for columns in self.history:
            state |= {f"history.{number}": column for number, column in enumerate(columns)}
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a clock and arrivals."""
        self.forward.restore(state)
        if "history.0" in state:
            self.history = [tuple(state[f"history.{number}"] for number in range(5))]
