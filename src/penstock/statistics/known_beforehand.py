"""Statistics `whole` and `given`: rates that are known beforehand and do not change.

`whole` is Das's choice in his experiments (5.2): the distribution over the whole trace. Rates are per tick, so the counts
themselves: all streams share the trace's duration. With the switch `rates=arrival` they are per row of the partner instead,
multiplied out so that they stay whole numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from penstock.core.batch import Batch
from penstock.core.errors import PenstockError
from penstock.core.problem import Problem
from penstock.core.trace import Floats, Ints, Trace
from penstock.core.value import AVG, COUNT, MAX, MIN, PRODUCT, SUM, Objective
from penstock.engine.contract import Bands
from penstock.engine.view import match
from penstock.statistics.base import Source

_MOST = 1e60  # a rate, so that products of several and of a life are numbers
_CELLS = 1 << 22  # of a match matrix that is held at once


class Table(Source):
    """Rates that are known before the first row."""

    def priced(self, problem: Problem, batch: Batch) -> Batch:
        """For each row the product of its partners' rates; with an objective, times the value of an output with partners as important.

        >>> one = np.zeros(1, dtype=np.int64)
        >>> Fixed(np.array([[2.0, 3.0]])).priced(Problem.of(("R", "S"), window=5, memory=4), Batch(one, one, one)).price.tolist()
        [3.0]
        """
        rates, _ = self.rates(batch, 0)
        rates[np.arange(len(batch)), batch.stream] = 1.0
        price = rates.prod(axis=1) * (batch.key >= 0)
        if not problem.priced_by_key:
            importance = np.ones(len(batch)) if batch.importance is None else batch.importance
            price = price * problem.objective.pairs(importance, importance)
        return replace(batch, price=price)


class Fixed(Table):
    """A table of rates: one row per key number, one column per stream.

    >>> table = Fixed(np.array([[2.0, 3.0]]))
    >>> one = np.zeros(1, dtype=np.int64)
    >>> table.rates(Batch(one, one, one), 0)[0].tolist()
    [[2.0, 3.0]]
    """

    def __init__(self, table: Floats) -> None:
        self.table = table

    def rates(self, batch: Batch, begin: int) -> tuple[Floats, int]:
        """The rows' entries in the table, 0 for keys that match nothing."""
        key = batch.key[begin:]
        unknown = key < 0
        if not unknown.any():
            return self.table.take(key, axis=0), len(batch)
        rates = self.table.take(np.maximum(key, 0), axis=0)
        rates[unknown] = 0.0
        return rates, len(batch)

    def bands(self) -> Bands | None:
        """The partners' rates multiplied, and numbered.

        >>> found = Fixed(np.array([[2.0, 3.0], [5.0, 3.0]])).bands()
        >>> found.price.tolist(), found.stream.tolist(), found.number.tolist()
        ([0.0, 3.0, 0.0, 2.0, 5.0], [0, 0, 1, 1, 1], [[1, 3], [1, 4], [0, 2]])
        """
        keys, streams = self.table.shape
        number = np.empty((keys + 1, streams), dtype=np.int64)
        prices: list[Floats] = []
        for stream in range(streams):
            price = np.append(np.delete(self.table, stream, axis=1).prod(axis=1), 0.0)
            distinct, number[:, stream] = np.unique(price, return_inverse=True)
            number[:, stream] += sum(map(len, prices))
            prices.append(distinct)
        return Bands(number, np.concatenate(prices), np.repeat(np.arange(streams), [len(p) for p in prices]))


class KnownRates(Table):
    """A table of rates for the keys of some numbers, in any order; other keys have none.

    >>> table = KnownRates(np.array([7, 5]), np.array([[2.0, 3.0], [4.0, 1.0]]))
    >>> key = np.array([5, 6, -1])
    >>> table.rates(Batch(key, key, key), 0)[0].tolist()
    [[4.0, 1.0], [0.0, 0.0], [0.0, 0.0]]
    """

    def __init__(self, number: Ints, table: Floats) -> None:
        order = np.argsort(number, kind="stable")
        self.number, self.table = number[order], table[order]

    @property
    def n_bytes(self) -> int:
        """What numbers and rates take."""
        return self.number.nbytes + self.table.nbytes

    def rates(self, batch: Batch, begin: int) -> tuple[Floats, int]:
        """The rows' entries in the table, 0 for keys that are not in it."""
        key = batch.key[begin:]
        out = np.zeros((len(key), self.table.shape[1]))
        if len(self.number):
            at = np.minimum(np.searchsorted(self.number, key), len(self.number) - 1)
            known = self.number[at] == key
            out[known] = self.table[at[known]]
        return out, len(batch)


def whole_table(problem: Problem, stream: Ints, key: Ints) -> Floats:
    """How often each key occurs in each stream."""
    n = problem.n_streams
    known = key >= 0
    size = int(key.max(initial=0)) + 1
    counts = np.bincount(key[known] * n + stream[known], minlength=size * n).reshape(size, n).astype(np.float64)
    if problem.switch("rates") == "arrival":
        rows = np.bincount(stream, minlength=n).astype(np.float64)
        for i in range(n):
            counts[:, i] *= np.prod(np.delete(rows, i))
    return counts


def given_table(problem: Problem, trace: Trace, given: Mapping[tuple[str, Any], float]) -> Floats:
    """A user's table {(stream, key): rate} by key number."""
    size = int(trace.key.max(initial=0)) + 1
    table = np.zeros((size, problem.n_streams))
    columns = [trace.key_values(name).to_pylist() for name in trace.key_columns]
    names = list(zip(*columns, strict=True)) if len(columns) > 1 else columns[0]
    numbers = {name: int(number) for name, number in zip(names, trace.key, strict=True) if number >= 0}
    for (stream, name), rate in given.items():
        checked = checked_rate(problem.streams, stream, name, rate)
        if name in numbers:
            table[numbers[name], problem.streams.index(stream)] = checked
    return table


def checked_rate(streams: Sequence[str], stream: Any, key: Any, rate: Any) -> float:
    """One rate of a user's table."""
    if stream not in streams:
        raise PenstockError(f"given must name the streams {', '.join(streams)}, got {stream!r}")
    if not 0 <= float(rate) <= _MOST:
        raise PenstockError(f"given must have rates >= 0 and at most {_MOST:g}, got {rate!r} for {stream} {key!r}")
    return float(rate)


def whole_prices(problem: Problem, batch: Batch) -> Floats:
    """p of each row over the whole trace: the value of its matches in the other stream (two streams; Das 6.2)."""
    out = np.ones(len(batch))
    importance = np.ones(len(batch)) if batch.importance is None else batch.importance
    streams = [np.flatnonzero(batch.stream == i) for i in range(problem.n_streams)]
    rows = [len(mine) for mine in streams]
    objective = problem.objective if problem.n_streams == 2 else Objective.parse("count")
    for i, mine in enumerate(streams):
        for j, others in enumerate(streams):
            if i == j:
                continue
            key = _equal_keys(problem, batch, min(i, j), max(i, j))
            if key is not None and objective.code <= AVG:
                total = _by_key(objective, key, importance, mine, others)
            else:
                total = _by_pairs(problem, objective, batch, importance, mine, others, (i, j))
            if problem.switch("rates") == "arrival":
                total = total * np.prod([r for k, r in enumerate(rows) if k != j])
            out[mine] *= total
    return out


def _equal_keys(problem: Problem, batch: Batch, low: int, high: int) -> Ints | None:
    """A number per row that is equal where a pair of streams matches, negative where it cannot; None where no such number exists."""
    if problem.predicate.is_equality:
        return batch.key
    graph = problem.graph
    if graph is None or any(not link.predicate.is_equality for link in graph.between(low, high)):
        return None
    assert batch.values is not None
    both = np.flatnonzero(np.isin(batch.stream, (low, high)))
    slots = [slot.start for slot, link in zip(graph.slots, graph.links, strict=True) if (link.low, link.high) == (low, high)]
    looked = batch.values[np.ix_(both, slots)]
    key = np.full(len(batch), -1)
    key[both] = np.unique(looked, axis=0, return_inverse=True)[1].reshape(-1) if slots else 0
    key[both[np.isnan(looked).any(axis=1)]] = -1
    return np.where(batch.key < 0, -1, key)


def _by_pairs(
    problem: Problem, objective: Objective, batch: Batch, importance: Floats, mine: Ints, others: Ints, pair: tuple[int, int]
) -> Floats:  # fmt: skip
    """The sum over partners, by looking at every pair."""
    low = pair[0] < pair[1]
    values = batch.key[:, None] if batch.values is None else batch.values
    total = np.zeros(len(mine))
    span = max(1, _CELLS // max(1, len(mine)))
    for begin in range(0, len(others), span):
        part = others[begin : begin + span]
        sides = (mine, part) if low else (part, mine)
        found = match(problem, *(column[side] for side in sides for column in (batch.key, values)), pair=(min(pair), max(pair)))
        worth = objective.pairs(importance[sides[0]][:, None], importance[sides[1]][None, :])
        total += (found * worth).sum(axis=1 if low else 0)
    return total


def _by_key(objective: Objective, key: Ints, importance: Floats, mine: Ints, others: Ints) -> Floats:
    """The sum over partners with the same key, from counts, sums and, for min and max, sorted importances."""
    size = int(key.max(initial=0)) + 1
    partner = others[key[others] >= 0]
    at = np.maximum(key[mine], 0)
    x = importance[mine]
    count = np.bincount(key[partner], minlength=size).astype(np.float64)[at]
    total = np.bincount(key[partner], weights=importance[partner], minlength=size)[at]
    if objective.code in (MIN, MAX):
        levels, code = np.unique(importance, return_inverse=True)
        order = np.lexsort((code[partner], key[partner]))
        ordered = key[partner][order] * len(levels) + code[partner][order]
        sums = np.concatenate([[0.0], np.cumsum(importance[partner][order])])
        begin = np.searchsorted(ordered, at * len(levels))
        split = np.searchsorted(ordered, at * len(levels) + code[mine], side="right")
        below_count, below_sum = split - begin, sums[split] - sums[begin]
        least = below_sum + x * (count - below_count)
        out = least if objective.code == MIN else x * count + total - least
    elif objective.code == COUNT:
        out = count
    elif objective.code == PRODUCT:
        out = x * total
    else:
        assert objective.code in (SUM, AVG)
        out = (x * count + total) / (2 if objective.code == AVG else 1)
    return np.where(key[mine] >= 0, out, 0.0)
