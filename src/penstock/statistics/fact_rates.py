"""Statistics `decayed` and `whole` where relations link the streams: how often each value of a linked column comes (docs/decisions/0031).

p of a tuple for a partner stream is the sum, over those of its facts that still count, of the rate at which tuples with the fact's value
arrive there, times the fact's weight. This is the plain form: sums by value, and where outputs differ in value by importance too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock.core.batch import Batch
from penstock.core.facts import slots_of
from penstock.core.problem import Problem
from penstock.core.rounding import rounded
from penstock.core.trace import Floats, Ints
from penstock.core.value import COUNT
from penstock.engine.view import View
from penstock.statistics.base import Source
from penstock.statistics.forward import FORGOTTEN, Forward

Class = tuple[int, float]
"""A value and, where outputs differ in it, an importance."""


class FactRates(Source):
    """Sums by slot and value, and by stream for those that no relation links directly.

    >>> from penstock.core.facts import Through
    >>> through = [Through.parse("f", ["R.x = a", "b = S.y"], "RS")]
    >>> source = FactRates(Problem.of("RS", window=9, memory=4, through=through, stats="whole"))
    >>> source.add(np.array([0, 0, 1]), np.array([[7, -1], [7, -1], [-1, 5]]), np.ones(3), np.ones(3))
    >>> source.sums[0], source.sums[1], source.sums[2]
    ({(7, 1.0): 2.0}, {(5, 1.0): 1.0}, {(0, 1.0): 2.0})
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.forward = Forward(problem.ageing(), problem.n_streams) if problem.stats == "decayed" else None
        self.slots = slots_of(problem.through)
        self.streams = [link.stream for one in problem.through for link in one.links]
        self.valued = problem.n_streams == 2 and problem.objective.code != COUNT and problem.has_importance
        self.sums: list[dict[Class, float]] = [{} for _ in range(len(self.streams) + problem.n_streams)]
        self.rows = np.zeros(problem.n_streams)

    @classmethod
    def of_all(cls, problem: Problem, batch: Batch) -> FactRates:
        """Of the rows of a whole trace; those without facts are left out beforehand."""
        source = cls(problem)
        assert batch.values is not None
        known = np.flatnonzero(batch.key >= 0)
        importance = np.ones(len(batch)) if batch.importance is None else batch.importance
        source.add(batch.stream[known], batch.values[known], importance[known], np.ones(len(known)))
        source.rows = np.bincount(batch.stream, minlength=problem.n_streams).astype(np.float64)
        return source

    @property
    def n_bytes(self) -> int:
        """What the sums take, about."""
        return 24 * sum(map(len, self.sums))

    def units(self) -> tuple[int, float, int]:
        """The clock of the forward weights."""
        return (0, 0.0, 0) if self.forward is None else (self.forward.origin or 0, self.forward.half_life, self.forward.moved)

    def age(self, batch: Batch, begin: int) -> int:
        """Move the origin where it must; the compiled engine keeps the sums."""
        return 0 if self.forward is None else self.forward.move(batch.time[begin])

    def rates(self, batch: Batch, begin: int) -> tuple[Floats, int]:
        """What each row weighs, in the column of its stream."""
        assert self.forward is not None
        time = batch.time[begin:]
        span = self.forward.span(time)
        out = np.zeros((span, self.problem.n_streams))
        out[np.arange(span), batch.stream[begin : begin + span]] = np.exp2(self.forward.exponents(time[:span]))
        return out, begin + span

    def known_rates(self) -> tuple[dict[str, Any], Floats]:
        """What is known beforehand, as the compiled engine takes it: sums by value (and importance), and of whole streams."""
        width = len(self.streams)
        lines = [
            (value * width + slot, importance, weight * self._others(self.streams[slot]))
            for slot, sums in enumerate(self.sums[:width])
            for (value, importance), weight in sums.items()
        ]
        columns = list(zip(*lines, strict=True)) if lines else [()] * 3
        kinds = {"rate.name": np.int64, "rate.importance": np.float64, "rate.weight": np.float64}
        mass = [sum(sums.values()) * self._others(stream) for stream, sums in enumerate(self.sums[width:])]
        return {name: np.array(column, dtype=kind) for (name, kind), column in zip(kinds.items(), columns, strict=True)}, np.array(mass)

    def _others(self, stream: int) -> float:
        """What counts of a stream are multiplied with to be rates (switch `rates`)."""
        return float(np.prod(np.delete(self.rows, stream))) if self.problem.switch("rates") == "arrival" else 1.0

    def arrive(self, view: View) -> None:
        """Count the arrivals."""
        new = np.flatnonzero(view.new)
        if self.forward is None or not len(new):
            return
        steps = self.forward.move(view.time[new[0]])
        if steps:
            self._age(2.0**-steps)
        weight = np.exp2(self.forward.exponents(view.time[new]))
        known = view.key[new] >= 0
        new = new[known]
        self.add(view.stream[new], view.values[new], view.importance[new], weight[known])

    def add(self, stream: Ints, values: Ints, importance: Floats, weight: Floats) -> None:
        """Count rows with these weights."""
        worth = importance if self.valued else np.ones(len(stream))
        for slot, own in enumerate(self.streams):
            mine = np.flatnonzero((stream == own) & (values[:, slot] >= 0))
            self._raise(slot, zip(values[mine, slot].tolist(), worth[mine].tolist(), strict=True), weight[mine])
        for number in range(self.problem.n_streams):
            mine = np.flatnonzero(stream == number)
            self._raise(len(self.streams) + number, ((0, 1.0) for _ in mine), weight[mine])

    def prices(self, view: View) -> Floats:
        """The product over the partner streams."""
        n = self.problem.n_streams
        out = np.ones(len(view))
        for i in range(n):
            mine = view.of(i)
            for j in range(n):
                if i != j and len(mine):
                    out[mine] *= self._rates(view, i, j)[mine]
        return out

    def _rates(self, view: View, i: int, j: int) -> Floats:
        """For the candidates of a stream the rate of what matches them in another."""
        assert view.ties is not None
        total = np.zeros(len(view))
        found = view.ties.linked(i, j)
        if found is None:
            total[view.of(i)] = sum(self.sums[len(self.streams) + j].values())
            total[view.key < 0] = 0.0
        else:
            which, own, other = found
            at, fact = view.ties.pairs(which, own)
            live = view.ties.live(which, view.now)[fact]
            rate = self._rate_by_value(self.slots[which][other])
            value = view.ties.keys(which, other)[fact]
            for position, number, weight in zip(at.tolist(), value.tolist(), live.tolist(), strict=True):
                if weight:
                    total[position] += weight * self._worth(rate.get(number, {}), view.importance[position], own_first=i < j)
        return np.array([rounded(one) for one in (total * self._others(j) if self.problem.stats == "whole" else total).tolist()])

    def _rate_by_value(self, slot: int) -> dict[int, dict[float, float]]:
        """What is counted of each value, by importance."""
        out: dict[int, dict[float, float]] = {}
        for (value, importance), weight in self.sums[slot].items():
            out.setdefault(value, {})[importance] = weight
        return out

    def _worth(self, classes: Mapping[float, float], importance: float, *, own_first: bool) -> float:
        """What arrivals of one value are worth to a tuple."""
        if not self.valued:
            return sum(classes.values())
        of = self.problem.objective.of
        pairs = (((importance, other) if own_first else (other, importance), weight) for other, weight in classes.items())
        return sum(of(list(pair)) * weight for pair, weight in pairs)

    def _raise(self, slot: int, classes: Any, weight: Floats) -> None:
        sums = self.sums[slot]
        for one, more in zip(classes, weight.tolist(), strict=True):
            sums[one] = sums.get(one, 0.0) + more

    def _age(self, factor: float) -> None:
        """The origin of the weights has moved: what has become light is forgotten."""
        self.sums = [{one: aged for one, weight in sums.items() if (aged := weight * factor) >= FORGOTTEN} for sums in self.sums]

    def snapshot(self) -> dict[str, Any]:
        """The clock and the sums."""
        if self.forward is None:
            return {}
        lines = [(slot, value, importance, weight) for slot, sums in enumerate(self.sums) for (value, importance), weight in sums.items()]
        columns = list(zip(*lines, strict=True)) if lines else [()] * 4
        names, kinds = ("slot", "value", "importance", "weight"), (np.int64, np.int64, np.float64, np.float64)
        own = {name: np.array(column, dtype=kind) for name, column, kind in zip(names, columns, kinds, strict=True)}
        return self.forward.snapshot() | own

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a clock and sums."""
        if self.forward is not None:
            self.forward.restore(state)
            self.sums = [{} for _ in self.sums]
            columns = (state[name].tolist() for name in ("slot", "value", "importance", "weight"))
            for slot, value, importance, weight in zip(*columns, strict=True):
                self.sums[slot][value, importance] = weight
