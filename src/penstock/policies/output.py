"""`output`: keep the keys that have produced most (Kwon 5, after Srivastava and Widom 2004).

Differs from the paper, whose tables have an entry for every key that ever came: a key's outputs are forgotten with its last tuple, so that
the counts are bounded by the memory (docs/decisions/0010). The switch `output-counts=ever` has the paper's form, which grows with the keys
that have ever produced.
"""

from __future__ import annotations

import numpy as np

from penstock.core.problem import Problem
from penstock.core.trace import Floats, Ints
from penstock.engine.contract import Ranking
from penstock.engine.ranking_codes import Kind, Prices
from penstock.engine.view import View
from penstock.policies.frequency import Frequency


class Output(Frequency):
    """Worth: the outputs with the key since it has been in memory without a break; or all that it ever made.

    >>> from penstock import Trace, simulate
    >>> simulate(Trace.from_streams(R="abaa", S="baba"), window=4, memory=3, policy="output").n_output
    7
    """

    name = "output"
    summary = "the key with the fewest outputs so far leaves first, but never an arrival"

    def __init__(self) -> None:
        super().__init__()
        self.made: dict[int, int] = {}

    def worth(self, view: View) -> Floats:
        """The outputs of the key."""
        self._keep(view, view.key[~view.new])
        if view.problem.model == "buffered":
            self._produce(view)
        return np.array([self.made.get(key, 0) for key in view.key.tolist()], dtype=np.float64)

    def observe(self, view: View, stay: Ints) -> None:
        """A key without a tuple in memory is forgotten (switch `output-counts`)."""
        self._keep(view, view.key[stay])

    def after(self, view: View) -> None:
        """In place, outputs come after the shedding; those of keys that are gone count only where all do."""
        if view.problem.model == "inplace":
            self._produce(view)

    def ranking(self, problem: Problem) -> Ranking | None:
        """The price of a class, shared by the classes of its key."""
        return Ranking(Kind.PRICE, Prices.OUTPUTS, spares=True) if problem.switch("kwon-ties") == "oldest" else None

    def _keep(self, view: View, keys: Ints) -> None:
        if view.problem.switch("output-counts") == "ever":
            return
        there = set(keys.tolist())
        self.made = {key: count for key, count in self.made.items() if key in there}

    def _produce(self, view: View) -> None:
        mine = np.flatnonzero((view.stream == 0) & (view.produced_now > 0))  # each output has one member of the first stream
        for key, made in zip(view.key[mine].tolist(), view.produced_now[mine].tolist(), strict=True):
            self.made[key] = self.made.get(key, 0) + made
