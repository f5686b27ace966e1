"""The sample of ghosts that a loss is estimated from: its units, what was seen of them, and what others may have lost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.core.batch import Batch
from penstock.core.problem import Problem
from penstock.core.trace import Floats, Ints


@dataclass
class Units:
    """What was seen of the sampled units: their sums a, by count and by value."""

    unit: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    sums: Floats = field(default_factory=lambda: np.empty((0, 2)))

    def add(self, unit: Ints, seen: Floats, q: float) -> Floats:
        """Take in what these units lost in a batch (by count, by value); how much the variances of the life of the query grow."""
        known = np.union1d(self.unit, unit)
        sums = np.zeros((len(known), 2))
        sums[np.searchsorted(known, self.unit)] = self.sums
        at = np.searchsorted(known, unit)
        growth = (2 * seen * sums[at] + seen**2 * (1 / q - 1)) / q
        sums[at] += seen * (1 / q - 1)
        self.unit, self.sums = known, sums
        return growth.sum(axis=0)

    def keep(self, unit: Ints) -> None:
        """Forget all others."""
        stays = np.isin(self.unit, unit)
        self.unit, self.sums = self.unit[stays], self.sums[stays]

    def keep_largest(self, most: int) -> None:
        """Forget all but so many, where units come again and again."""
        if len(self.unit) > most:
            self.keep(self.unit[np.argsort(-self.sums[:, 0], kind="stable")[:most]])


def draw(unit: Ints, seed: int) -> Floats:
    """A number in [0, 1) that belongs to a unit for good."""
    mixed = unit.astype(np.uint64) + np.uint64((seed * 2 + 1) * 0x9E3779B97F4A7C15 & (1 << 64) - 1)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return (mixed ^ (mixed >> np.uint64(31))).astype(np.float64) / 2.0**64


def heaviest(tuples: dict[str, Any], ghost: Any, room: float, among: Ints | None) -> Ints:
    """The keys with the most tuples, as many as have `room` for their ghosts."""
    keys, which, count = np.unique(tuples["key"], return_inverse=True, return_counts=True)
    ghosts = np.bincount(which, weights=ghost, minlength=len(keys))
    order = np.argsort(-count, kind="stable")
    order = order[ghosts[order] > 0]
    if among is not None:
        order = order[np.isin(keys[order], among)]
    return np.sort(keys[order[np.cumsum(ghosts[order]) <= room]])


def most_met(problem: Problem, batch: Batch, chosen: Any, weight: Floats) -> float:
    """The largest weight of the chosen arrivals that can match one tuple of the other of two streams; weights are theirs alone.

    >>> problem = Problem.of(("R", "S"), window=10, memory=4)
    >>> batch = Batch(*(np.array(column) for column in ([0, 0, 1, 0], [1, 1, 2, 3], [7, 7, 7, 8])))
    >>> most_met(problem, batch, batch.time > 0, np.ones(4))
    2.0
    """
    stream = batch.stream[chosen]
    if problem.predicate.is_equality:
        return float(most_per_key(stream, batch.key[chosen], weight, 2).max())
    if problem.predicate.name == "eps" and batch.values is not None:
        place, width = batch.values[chosen, 0].astype(np.float64), 2 * problem.predicate.epsilon
        return max(most_within(place[stream == number], width, weight[stream == number]) for number in range(2))
    return float(np.bincount(stream, weights=weight, minlength=2).max())


def most_per_key(stream: Ints, key: Ints, weight: Floats, streams: int) -> Floats:
    """By stream, the largest sum of weights that one key has.

    >>> most_per_key(np.array([0, 0, 1, 0]), np.array([5, 5, 5, 6]), np.array([1.0, 2.0, 9.0, 1.0]), 3).tolist()
    [3.0, 9.0, 0.0]
    """
    out = np.zeros(streams)
    for number in range(streams):
        mine = stream == number
        _, which = np.unique(key[mine], return_inverse=True)
        out[number] = np.bincount(which, weights=weight[mine]).max(initial=0.0)
    return out


def most_within(values: Floats, width: float, weight: Floats) -> float:
    """The largest sum of weights of values that lie within so much of each other.

    >>> most_within(np.array([3.0, 1.0, 1.5, 9.0]), 1.0, np.array([1.0, 1.0, 4.0, 2.0]))
    5.0
    """
    order = np.argsort(values)
    rises, sums = values[order], np.concatenate([[0.0], np.cumsum(weight[order])])
    return float((sums[np.searchsorted(rises, rises + width, side="right")] - sums[:-1]).max(initial=0.0))
