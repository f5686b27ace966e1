"""What facts weigh in the value of outputs, and how much the facts between two tuples can weigh at most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.core.facts import Facts
from penstock.core.trace import Floats, Ints


def weights_of(facts: Sequence[Facts], numbers: Ints) -> Floats:
    """What the facts with these numbers weigh together, a line for each output with a number for each relation.

    >>> weighted = Facts(np.array([[0, 0], [0, 1]]), np.zeros(2), np.ones(2), np.array([2.0, 5.0]), np.array([3, 8]))
    >>> weights_of([weighted], np.array([[8], [3]])).tolist()
    [5.0, 2.0]
    """
    out = np.ones(len(numbers))
    for one, own in zip(facts, numbers.T, strict=True):
        if one.weight is not None:
            out *= one.weight[np.searchsorted(one.numbers, own)]
    return out


def most_between(facts: Sequence[Facts]) -> tuple[float, float]:
    """The most facts that link the same two tuples of a join of two streams; and their largest weight.

    >>> most_between([Facts.of([[0, 7], [1, 7], [0, 7]])]), most_between([])
    ((2.0, 1.0), (1.0, 1.0))
    """
    count = heaviest = 1.0
    for one in facts:
        low, high = one.keys.T
        _, alike = np.unique(low * (1 + high.max(initial=0)) + high, return_counts=True)  # values have small numbers
        count *= float(alike.max(initial=0))
        heaviest *= 1.0 if one.weight is None else float(one.weight.max(initial=0.0))
    return count, heaviest
