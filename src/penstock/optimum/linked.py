"""A trace whose streams are joined through relations: the rows that have facts, and the facts.

A row without a fact is in no output, takes no memory and makes no instant (docs/decisions/0031, filters), so the optimum never looks at it:
what it plays is a trace of the others. Where the switch `pre-filter` is "none" these are all rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.core.batch import Batch
from penstock.core.facts import Facts
from penstock.core.problem import Problem
from penstock.core.trace import Floats, Ints, Trace
from penstock.core.window import NEVER
from penstock.engine.fact_index import FactIndex, sift
from penstock.relation.numbered import Numbered


class LinkedTrace(Trace):
    """The rows of a trace that can be in an output, with what links them.

    >>> from penstock.relation.relation import relation
    >>> whole = Trace.from_streams(R="pq", S="qq")
    >>> numbered = Numbered.of(whole, relation({"a": ["p"], "b": ["q"]}, links=["R.key = a", "b = S.key"]))
    >>> linked = LinkedTrace(whole, Problem.of(whole.streams, window=2, memory=1, through=numbered.through), numbered)
    >>> linked.row.tolist(), linked.facts[0].keys.tolist()
    ([0, 1, 3], [[0, 0]])
    """

    def __init__(self, trace: Trace, problem: Problem, numbered: Numbered) -> None:
        found = sift(FactIndex(problem, numbered.facts), Batch.of(trace, problem, numbered.values))
        self.row = found.row if len(found.row) else np.arange(1)  # no trace is empty; the engine leaves this row out
        self.filtered, self.n_input = found.filtered, len(trace)
        self._own = np.unique(trace.time, return_inverse=True)[1]
        super().__init__(trace.table.take(self.row), key=trace.key_columns, streams=trace.streams)
        self.tick = trace.tick
        self.values, self.facts = numbered.values[self.row], numbered.facts
        self.last_chance = found.last_chance if len(found.row) else np.full(1, NEVER)

    def told(self, leaves: Ints) -> Ints:
        """A schedule by the rows and instants of the whole trace; a row that was left out is never stored."""
        schedule, played = np.empty_like(self._own), np.unique(self._own[self.row])
        schedule[self.row] = np.where(leaves < len(played), played[np.minimum(leaves, len(played) - 1)], leaves)
        schedule[self.filtered] = self._own[self.filtered]
        return schedule


def batch_of(trace: Trace, problem: Problem) -> Batch:
    """All rows, with the numbers that facts have for their values."""
    return Batch.of(trace, problem, trace.values if isinstance(trace, LinkedTrace) else None)


def facts_of(trace: Trace) -> tuple[Facts, ...]:
    """The facts of the relations that link the streams; nothing where none does."""
    return trace.facts if isinstance(trace, LinkedTrace) else ()


def original_rows(trace: Trace) -> Ints:
    """The numbers of the rows in the trace that was given."""
    return trace.row if isinstance(trace, LinkedTrace) else np.arange(len(trace))


def fact_weights(facts: Sequence[Facts], numbers: Ints) -> Floats:
    """The product of the weights of some facts, one column per relation.

    >>> fact_weights([Facts.of([[0, 7], [1, 7]])], np.array([[1], [0]])).tolist()
    [1.0, 1.0]
    """
    out = np.ones(len(numbers))
    for one, column in zip(facts, numbers.T, strict=True):
        if one.weight is not None:
            out = out * one.weight[column]
    return out


def last_chances(trace: Trace) -> Ints:
    """For each row the time at which it leaves for want of facts (Towne, rule 8)."""
    return trace.last_chance if isinstance(trace, LinkedTrace) else np.full(len(trace), NEVER)
