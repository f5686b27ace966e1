"""What a policy sees when it scores: the candidates of one instant, as columns."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.core.problem import Problem
from penstock.core.rounding import rounded
from penstock.core.trace import Bools, Floats, Ints
from penstock.core.window import COUNTING


class Rates(Protocol):
    """What a view asks of the statistics of a run (`contract.Statistics` has it)."""

    def prices(self, view: View) -> Floats:
        """p of every candidate."""

    def totals(self, key: Ints) -> Floats:
        """The rates of these keys in all streams together."""

    def units(self) -> tuple[int, float, int]:
        """The clock of rates that grow."""


class ByFacts(Protocol):
    """How candidates match where relations link the streams (`fact_ties.Ties`)."""

    def linked(self, i: int, j: int) -> tuple[int, int, int] | None:
        """The relation between two streams, and its links to them."""

    def matrix(self, mine: tuple[int, Ints], theirs: tuple[int, Ints], weight: Any = None) -> NDArray[Any] | None:
        """How many facts link each with each, or what they weigh."""

    def live(self, which: int, now: int) -> Floats:
        """What the facts of a relation count in scores."""

    def pairs(self, which: int, link: int) -> tuple[Ints, Ints]:
        """The candidates of a link and their facts."""

    def keys(self, which: int, link: int) -> Ints:
        """The numbers that facts have at a link."""


class View:
    """The candidates (memory after expiry, then this instant's arrivals), each attribute one value per candidate.

    `stream`, `time`, `row`, `importance`, `arrived` (number of the instant), `expiry`, `new` (arrived in this instant), `remaining` (life
    left), `first_importance` (times the largest weight of its facts), `mn`, `p`, `matched` (a matching arrival of another stream is in this
    instant), `produced` and `produced_value` (outputs it took part in so far), `produced_now` (those of this instant alone), `memo` (a
    number per tuple that the policy may keep: write to `view.memo[:]`). Beside them `now`, `problem`, `instant`, and `outputs`, the outputs
    of this instant (time, row per stream): they are made again for who looks at them, all at once, and may be many.
    """

    def __init__(
        self, problem: Problem, statistics: Rates, columns: dict[str, NDArray[Any]], now: int, clock: Ints, instant: int,
        mean_importance: float, origin: int, produced: Ints, make_outputs: Callable[[], Ints],
        ties: ByFacts | None = None,
    ) -> None:  # fmt: skip
        self.problem, self.now, self.clock, self.instant = problem, now, clock, instant
        self._produced_before, self._make_outputs, self.ties = produced, make_outputs, ties
        self.mean_importance, self.origin = mean_importance, origin
        self.stream: Ints = columns["stream"]
        self.time: Ints = columns["time"]
        self.row: Ints = columns["row"]
        self.expiry: Ints = columns["expiry"]
        self.importance: Floats = columns["importance"]
        self.arrived: Ints = columns["arrived"]
        self.price: Floats = columns["price"]
        self.rates: Floats = columns["rates"]
        self.produced: Ints = columns["produced"]
        self.produced_value: Floats = columns["produced_value"]
        self.memo: Floats = columns["memo"]
        self.key: Ints = columns["key"]
        self.values: NDArray[Any] = columns["values"]
        self.weight: Ints = columns["weight"]
        self.first_importance: Floats = self.importance * columns.get("top_weight", 1.0)
        kinds = np.array([w.kind for w in problem.windows])[self.stream]
        self.reached: Ints = np.where(kinds == "rows_per_key", columns["followers"], clock[self.stream])
        self.staying: Bools = ~(np.isin(kinds, COUNTING) & (self.expiry <= self.reached))
        self.done: Bools = np.zeros(len(self.time), dtype=bool)  # left in this instant after as many outputs as promised
        self.budget_step = max(0, int(np.searchsorted(problem.budget.times, now, side="right")) - 1)
        self.new: Bools = self.arrived == instant
        self._statistics = statistics
        self._matrices: dict[tuple[int, int], Bools] = {}

    def __len__(self) -> int:
        return len(self.time)

    @property
    def produced_now(self) -> Ints:
        """In how many outputs of this instant each candidate took part."""
        return self.produced - self._produced_before

    @cached_property
    def outputs(self) -> Ints:
        """The outputs of this instant (time, row per stream)."""
        return self._make_outputs()

    def now_has(self, make_outputs: Callable[[], Ints]) -> None:
        """The outputs of this instant are there (model `inplace`)."""
        self._make_outputs = make_outputs
        self.__dict__.pop("outputs", None)

    @cached_property
    def remaining(self) -> Ints:
        """The ticks (or rows) until each candidate leaves its window, not below 0."""
        less = self.problem.switch("life-remaining") == "less-one"
        return np.maximum(self.expiry - self.reached - less, 0)

    @cached_property
    def mn(self) -> Floats:
        """The number of matches of each candidate in the other streams (their product, for more than two streams)."""
        return self.over_partners(lambda _x, _y, matches: matches.sum(axis=0))

    @cached_property
    def p(self) -> Floats:
        """p of each candidate, from the statistics of the run."""
        return self._statistics.prices(self)

    @cached_property
    def totals(self) -> Floats:
        """The rate of each candidate's key in all streams together, from the statistics of the run."""
        return self._statistics.totals(self.key)

    @cached_property
    def matched(self) -> Bools:
        """Whether an arrival of another stream in this instant matches."""
        out = np.zeros(len(self), dtype=bool)
        for i in range(self.problem.n_streams):
            for j in range(self.problem.n_streams):
                if i != j:
                    out[self.of(i)] |= self.matches(j, i)[self.new[self.of(j)]].any(axis=0)
        return out

    def unit(self, time: int) -> float:
        """How many of the prices' own units made one at `time`: decayed counts grow with the clock."""
        origin, half_life, moved = self._statistics.units()
        if half_life == 0:
            return 1.0
        return float(2.0 ** (((time - origin) / half_life - moved) * (self.problem.n_streams - 1)))

    @cached_property
    def over(self) -> Bools:
        """Which pools of the budget the candidates of this instant exceed."""
        return self._exceeded(self.staying)

    @property
    def shedding(self) -> Bools:
        """Which pools must shed in this instant: those that are over their budget without the tuples that are done."""
        return self._exceeded(self.staying & ~self.done)

    def _exceeded(self, there: Bools) -> Bools:
        budget = self.problem.budget
        used = np.zeros(budget.caps.shape[1], dtype=np.int64)
        np.add.at(used, budget.pool[self.stream], np.where(there, self.weight, 0))
        return used > budget.caps[self.budget_step]

    def of(self, stream: int) -> Ints:
        """The positions of a stream's candidates."""
        return np.flatnonzero(self.stream == stream)

    def matches(self, i: int, j: int) -> Bools:
        """Which candidates of stream `i` (rows) match which of stream `j` (columns)."""
        if (i, j) not in self._matrices:
            low, high = min(i, j), max(i, j)
            sides = (self.of(low), self.of(high))
            facts = None if self.ties is None else self.ties.matrix((low, sides[0]), (high, sides[1]))
            if facts is None:
                found = match(self.problem, *(column[side] for side in sides for column in (self.key, self.values)), pair=(low, high))
            else:
                found = facts > 0
            self._matrices[low, high], self._matrices[high, low] = found, found.T
        return self._matrices[i, j]

    def counted(self, i: int, j: int) -> NDArray[Any]:
        """What each match of stream `i` (rows) and `j` (columns) counts: 1 or, through a relation, the weight of the facts between them."""
        ties = self.ties
        found = None if ties is None else ties.matrix((i, self.of(i)), (j, self.of(j)), lambda which: ties.live(which, self.now))
        return self.matches(i, j) if found is None else found

    def partners(self, stream: int) -> Ints:
        """The candidates of a stream that count as matches (switch `mn`)."""
        mine = self.of(stream)
        return mine[~self.new[mine]] if self.problem.switch("mn") == "memory" else mine

    def over_partners(self, total: Any) -> Floats:
        """For each candidate x the product, over the other streams, of total(x's, partners, matches)."""
        out = np.ones(len(self))
        for i in range(self.problem.n_streams):
            mine = self.of(i)
            for j in range(self.problem.n_streams):
                if i != j and len(mine):
                    chosen = self.partners(j)
                    matches = self.counted(j, i)[np.isin(self.of(j), chosen)]
                    found = total(mine, chosen, matches)
                    out[mine] *= [rounded(one) for one in found.tolist()] if self.problem.weighted else found
        return out


def match(
    problem: Problem, low_key: Ints, low: NDArray[Any], high_key: Ints, high: NDArray[Any], *, pair: tuple[int, int]
) -> Bools:  # fmt: skip
    """The match matrix of tuples of two streams (the lower of the `pair` first), by key numbers and values; negative keys match nothing."""
    if problem.predicate.is_equality:
        found = low_key[:, None] == high_key[None, :]
    else:
        found = np.zeros((len(low_key), len(high_key)), dtype=bool)
        some, others = np.flatnonzero(low_key >= 0), np.flatnonzero(high_key >= 0)
        if len(some) and len(others):
            sides = low[some], high[others]
            graph = problem.graph
            if problem.through:  # and no relation between these two
                found[np.ix_(some, others)] = True
            else:
                found[np.ix_(some, others)] = problem.predicate.matrix(*sides) if graph is None else graph.matrix(pair, *sides)
    return found & (low_key >= 0)[:, None] & (high_key >= 0)[None, :]
