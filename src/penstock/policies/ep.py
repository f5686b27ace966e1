"""`ep`: keep the tuples whose existence pattern has been productive (Kwon 3).

The existence pattern of a tuple says which streams held its key when it arrived: on unique keys, the order in which a key visits the
streams, as far as it has come. Patterns are few, so they have statistics even where no key ever repeats.

All members of an output have met their partners, so all of them are *finished*, and leave before all others: who finished first, first.
A finished tuple whose key comes again still credits the pattern that it arrived with (docs/decisions/0025).

Differs from the paper: there only the last tuple of an output is finished (switch `ep-finishes=last`); streams that share a pool compete by
the same quotient; a bit belongs to a key, not to its hash value.
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
    """Worth: outputs per tuple of the pattern so far; what has met its partners is worth less than nothing.

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
        self.finished: dict[int, int] = {}  # by row: the row that completed its first output

    def worth(self, view: View) -> Floats:
        """The order of the exact quotients; the memo keeps the pattern of each tuple."""
        there = set(view.row.tolist())
        self.finished = {row: by for row, by in self.finished.items() if row in there}
        self._arrive(view)
        if view.problem.model == "buffered":
            self._produce(view)
        done = (1 << view.problem.n_streams) - 1
        entries = list(zip(view.stream.tolist(), view.memo.astype(np.int64).tolist(), strict=True))
        quotient = {entry: Fraction(self.made.get(entry, 0), self.seen[entry]) for entry in set(entries)}
        worth = [
            Fraction(-1) if entry[1] == done or row in self.finished else quotient[entry]
            for entry, row in zip(entries, view.row.tolist(), strict=True)
        ]
        place = {one: number for number, one in enumerate(sorted(set(worth)))}
        return np.array([place[one] for one in worth], dtype=np.float64)

    def ties(self, view: View) -> tuple[Floats, ...]:
        """The smallest pattern first (switch `ep-ties`); who finished first; the newest first instead (switch `ep-drops`)."""
        finished = np.array([self.finished.get(row, 0) for row in view.row.tolist()], dtype=np.float64)
        pattern = np.where(finished > 0, (1 << view.problem.n_streams) - 1, view.memo)
        first = (pattern,) if view.problem.switch("ep-ties") == "smallest-pattern" else ()
        if view.problem.switch("ep-drops") == "oldest":
            return (*first, finished)
        return (*first, -finished, np.argsort(np.lexsort((-view.row, -view.stream, -view.time))).astype(np.float64))

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
            if pattern == (1 << view.problem.n_streams) - 1:
                self._finish(view, int(view.row[at]), int(view.row[at]))

    def _produce(self, view: View) -> None:
        """Credit the pattern of each member of each output, and let them be finished."""
        made = view.produced_now
        for at in np.flatnonzero(made):
            entry = int(view.stream[at]), int(view.memo[at])
            self.made[entry] = self.made.get(entry, 0) + int(made[at])
        for _, *members in view.outputs.tolist() if made.any() else ():
            for row in members:
                self._finish(view, row, max(members))

    def _finish(self, view: View, row: int, by: int) -> None:
        if view.problem.switch("ep-finishes") == "all":
            self.finished[row] = min(by, self.finished.get(row, by))
