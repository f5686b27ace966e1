"""When a row leaves its window, where that is not after the same time for all rows of a stream: by batch, and for the ledger."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.core.problem import Problem
from penstock.core.trace import Ints
from penstock.core.window import DEAD

EXPIRY = "expiry"
"""The column of the ledger that has it."""


def ends_of(problem: Problem) -> tuple[bool, ...]:
    """By stream, whether the ledger must say of each row when it leaves; nothing where it need not of any.

    >>> ends_of(Problem.of(("R", "S"), window={"R": 10, "S": "tumbling:10"}, memory=4))
    (False, True)
    """
    found = tuple(not window.is_constant for window in problem.windows)
    return found if any(found) else ()


def expiry_of(problem: Problem, stream: int, time: Ints) -> Ints:
    """When rows of a stream with these times leave their window."""
    return problem.windows[stream].expiries(time, instantly=problem.switch("varying-window") == "instant")


def without_dead(problem: Problem, stream: Ints, time: Ints, key: Ints) -> Ints:
    """The keys, where rows that are in no window, being before its landmark, have one that matches nothing: they count nowhere."""
    for number, window in enumerate(problem.windows):
        if window.kind == "landmark":
            key = np.where((stream == number) & (expiry_of(problem, number, time) == DEAD), -1, key)
    return key


def with_expiry(table: pa.Table, problem: Problem, stream: int, time: Ints) -> pa.Table:
    """A table for the ledger with the column that says when its rows leave."""
    return table.add_column(0, EXPIRY, pa.array(expiry_of(problem, stream, time)))
