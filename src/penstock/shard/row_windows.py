"""When a row leaves its window, where that is not after the same time for all rows of a stream: by batch, and for the ledger."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.core.errors import PenstockError
from penstock.core.problem import Problem
from penstock.core.trace import LIMIT, Ints
from penstock.core.window import DEAD

LIFETIME = "lifetime"
"""The column in which rows bring lifetimes of their own, in microseconds."""
EXPIRY = "expiry"
"""The column of the ledger that says when a row leaves."""


def ends_of(problem: Problem) -> tuple[bool, ...]:
    """By stream, whether the ledger must say of each row when it leaves; nothing where it need not of any.

    >>> ends_of(Problem.of(("R", "S"), window={"R": 10, "S": "tumbling:10"}, memory=4))
    (False, True)
    """
    own = problem.lifetimes or (False,) * problem.n_streams
    found = tuple(mortal or not window.is_constant for window, mortal in zip(problem.windows, own, strict=True))
    return found if any(found) else ()


def lifetimes_of(problem: Problem, stream: Ints, time: Ints, parts: Sequence[pa.Table], streams: Sequence[int]) -> Ints | None:
    """How long the rows of some tables stay, those of these streams one after the other; None where no row has a lifetime of its own.

    >>> problem = Problem.of(("R", "S"), window=10, memory=4, has_lifetime=(False, True))
    >>> lifetimes_of(problem, np.array([0, 1]), np.array([5, 5]), [pa.table({}), pa.table({LIFETIME: [3]})], [0, 1]).tolist()
    [10, 3]
    """
    if not problem.has_lifetime:
        return None
    out = np.empty(len(time), np.int64)
    for number, part in zip(streams, parts, strict=True):
        mine = stream == number
        out[mine] = _lifetimes(problem, number, part) if problem.lifetimes[number] else expiry_of(problem, number, time[mine]) - time[mine]
    return out


def _lifetimes(problem: Problem, stream: int, table: pa.Table) -> Ints:
    """The lifetimes in a table, each checked."""
    column = table[LIFETIME]
    found = np.asarray(column.fill_null(0)).astype(np.int64)
    bad = np.flatnonzero((found < 1) | (found >= LIMIT))
    if len(bad):
        got = column[int(bad[0])].as_py()
        told = "null" if got is None else f"{got} microseconds"
        raise PenstockError(f"lifetime of stream {problem.streams[stream]} must be at least 1 microsecond, and below 2**60, got {told}")
    return found


def expiry_of(problem: Problem, stream: int, time: Ints) -> Ints:
    """When rows of a stream with these times leave their window."""
    return problem.windows[stream].expiries(time, instantly=problem.switch("varying-window") == "instant")


def without_dead(problem: Problem, stream: Ints, time: Ints, key: Ints) -> Ints:
    """The keys, where rows that are in no window, being before its landmark, have one that matches nothing: they count nowhere."""
    for number, window in enumerate(problem.windows):
        if window.kind == "landmark":
            key = np.where((stream == number) & (expiry_of(problem, number, time) == DEAD), -1, key)
    return key


def expiry_column(problem: Problem, stream: int, time: Ints, table: pa.Table) -> pa.Array:
    """When the rows of a table leave, for the ledger."""
    if problem.has_lifetime and problem.lifetimes[stream]:
        return pa.array(time + _lifetimes(problem, stream, table))
    return pa.array(expiry_of(problem, stream, time))
