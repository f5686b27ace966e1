"""`ep`: keep the tuples whose existence pattern has been productive (Kwon 3).

The existence pattern of a tuple says which streams held its key when it arrived: on unique keys, the order in which a key visits the
streams, as far as it has come. Patterns are few, so they have statistics even where no key ever repeats.

Differs from the paper: streams that share a pool compete by the same quotient; a bit belongs to a key, not to its hash value.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from penstock.core.errors import PenstockError
from penstock.core.problem import Problem
from penstock.core.trace import Floats
from penstock.engine.compiled.patterns import MOST_STREAMS
from penstock.engine.contract import Ranking
from penstock.engine.ranking_codes import Kind, Prices
from penstock.engine.view import View
from penstock.policies.base import Sparing

MOST_BITS = 53
Entry = tuple[int, int]  # stream, pattern: the first stream has the highest bit


class Ep(Sparing):
    """Worth: outputs per tuple of the pattern so far; a pattern with all bits set has met its partners and is worth less than nothing.

    >>> from penstock import Trace, simulate
    >>> trace = Trace({"stream": list("RSRSRSRRSSRS"), "time": list(range(12)), "key": [1, 1, 2, 2, 3, 4, 4, 5, 6, 5, 7, 7]})
    >>> [simulate(trace, window=12, memory=2, policy=p).n_output for p in ("ep", "kwon-random")]
    [5, 4]
    """

    name = "ep"
    summary = "the least productive pattern of arrival leaves first; what has met all partners before it"
    needs = "keys that seldom repeat"
    paper = "Kwon 3"

    def __init__(self) -> None:
        self.made: dict[Entry, int] = {}
        self.seen: dict[Entry, int] = {}

    def worth(self, view: View) -> Floats:
        """The order of the exact quotients; the memo keeps the pattern of each tuple."""
        self._arrive(view)
        if view.problem.model == "buffered":
            self._produce(view)
        n = view.problem.n_streams
        entries = list(zip(view.stream.tolist(), view.memo.astype(np.int64).tolist(), strict=True))
        done = (1 << n) - 1
        worth = {entry: Fraction(-1) if entry[1] == done else Fraction(self.made.get(entry, 0), self.seen[entry]) for entry in set(entries)}
        place = {quotient: number for number, quotient in enumerate(sorted(set(worth.values())))}
        return np.array([place[worth[entry]] for entry in entries], dtype=np.float64)

    def ties(self, view: View) -> tuple[Floats, ...]:
        """The smallest pattern first (switch `ep-ties`), the newest tuple first (switch `ep-drops`), if so wanted."""
        first = (view.memo.copy(),) if view.problem.switch("ep-ties") == "smallest-pattern" else ()
        if view.problem.switch("ep-drops") == "oldest":
            return first
        return (*first, np.argsort(np.lexsort((-view.row, -view.stream, -view.time))).astype(np.float64))

    def after(self, view: View) -> None:
        """In place, outputs come after the shedding."""
        if view.problem.model == "inplace":
            self._produce(view)

    def check(self, problem: Problem) -> None:
        """A tuple's memo is a floating-point number, which holds a pattern of so many bits."""
        super().check(problem)
        if problem.n_streams > MOST_BITS:
            raise PenstockError(f"policy 'ep' has patterns of at most {MOST_BITS} streams, got {problem.n_streams}; use frequency or prob")

    def ranking(self, problem: Problem) -> Ranking | None:
        """A list of tuples by age for each stream and pattern."""
        return Ranking(Kind.PRICE, Prices.PATTERNS, spares=True) if problem.n_streams <= MOST_STREAMS else None

    def _arrive(self, view: View) -> None:
        """Note which streams hold the key of each arrival, its own and those of earlier rows included."""
        bit = 1 << (view.problem.n_streams - 1 - view.stream)
        for at in np.flatnonzero(view.new)[np.argsort(view.row[view.new])]:
            held = (view.key == view.key[at]) & (~view.new | (view.row <= view.row[at]))
            pattern = int(np.bitwise_or.reduce(bit[held]))
            view.memo[at] = pattern
            entry = int(view.stream[at]), pattern
            self.seen[entry] = self.seen.get(entry, 0) + 1

    def _produce(self, view: View) -> None:
        """Credit the pattern of each member of each output."""
        made = view.produced_now
        for at in np.flatnonzero(made):
            entry = int(view.stream[at]), int(view.memo[at])
            self.made[entry] = self.made.get(entry, 0) + int(made[at])
