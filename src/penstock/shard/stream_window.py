"""The window of a stream on Spark, in durations and dates, which mean microseconds; and when each row leaves it. Needs no PySpark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.duration import in_time, in_units, microseconds, timestamp
from penstock.core.errors import PenstockError
from penstock.core.problem import Problem
from penstock.core.trace import LIMIT, Ints
from penstock.core.window import COUNTING, DEAD, Window

NOT_GIVEN: Any = object()
LIFETIME = "lifetime"
"""The column in which rows bring lifetimes of their own, in microseconds."""
EXPIRY = "expiry"
"""The column of the ledger that says when a row leaves."""
_WHAT = (
    'a duration such as "10 minutes", "tumbling:10 minutes", "landmark:2024-01-01 00:00:00" for all from a time on, "rows:100" for the '
    'last rows, "none" for no end, or pairs (time, duration) where it changes'
)


def window_of(window: Any = NOT_GIVEN, rows_per_key: Any = None, argument: str = "window", *, mortal: bool = False) -> int | str:
    """The window of a stream: microseconds, or a text that `Window.parse` reads. Where rows are `mortal`, by their own lifetimes, there
    need be none.

    >>> window_of("2 seconds"), window_of("rows:100"), window_of(rows_per_key=5)
    (2000000, 'rows:100', 'rows_per_key:5')
    >>> window_of("tumbling:10 minutes"), window_of("landmark:2024-01-01 00:00:00")
    ('tumbling:600000000', 'landmark:1704067200000000')
    >>> window_of([("2024-01-01", "10 minutes"), ("2024-02-01", "5 minutes")])
    '1704067200000000:600000000,1706745600000000:300000000'
    """
    if mortal and (rows_per_key is not None or str(window).partition(":")[0] in COUNTING):
        raise PenstockError(f"{argument} must not count rows where each has a lifetime of its own, got both")
    if mortal and window is NOT_GIVEN:
        return "none"
    if rows_per_key is not None:
        if window is not NOT_GIVEN:
            raise PenstockError(f"{argument} must be left out where rows_per_key is given, got both")
        if isinstance(rows_per_key, bool) or not isinstance(rows_per_key, int) or rows_per_key < 1:
            raise PenstockError(f"rows_per_key must be a whole number >= 1, got {rows_per_key!r}")
        return f"rows_per_key:{rows_per_key}"
    if window is NOT_GIVEN:
        raise PenstockError(f"{argument} must be {_WHAT}, got nothing")
    if window is None or window == "none":
        return "none"
    kind, _, rest = window.partition(":") if isinstance(window, str) else ("", "", "")
    if kind in COUNTING:
        return f"{kind}:{Window.parse(window, argument).length}"
    if kind == "tumbling":
        return f"{kind}:{microseconds(rest, argument, least=1)}"
    if kind == "landmark":
        return f"{kind}:{timestamp(rest, argument)}"
    steps = _steps(window)
    if steps is None:
        return microseconds(window, argument, least=1)
    found = ",".join(f"{timestamp(at, argument)}:{microseconds(length, argument, least=1)}" for at, length in steps)
    Window.parse(found, argument)  # which refuses times that do not rise
    return found


def _steps(window: Any) -> list[tuple[Any, Any]] | None:
    """From when on which length is in force, of pairs or of a text such as "2024-01-01:10 minutes,2024-02-01:5 minutes"; None of others."""
    if isinstance(window, str):
        parts = [part.rpartition(":") for part in window.split(",")]
        return [(at, length) for at, _, length in parts] if ":" in window else None
    pairs = list(window) if isinstance(window, Sequence) else []
    return [(at, length) for at, length in pairs] if pairs and all(isinstance(p, Sequence) and len(p) == 2 for p in pairs) else None


def window_text(window: int | str) -> str:
    """A window as users write it; `window_of` reads it.

    >>> window_text("1704067200000000:600000000,1706745600000000:300000000")
    '2024-01-01T00:00:00Z:10 minutes,2024-02-01T00:00:00Z:5 minutes'
    >>> [window_text(window) for window in (2_000_000, "tumbling:600000000", "landmark:1704067200000000", "rows:100")]
    ['2 seconds', 'tumbling:10 minutes', 'landmark:2024-01-01T00:00:00Z', 'rows:100']
    """
    if isinstance(window, int):
        return in_units(window)
    kind, _, rest = window.partition(":")
    if kind in ("tumbling", "landmark"):
        return f"{kind}:{(in_units if kind == 'tumbling' else in_time)(int(rest))}"
    return (
        window if kind in (*COUNTING, "none") else ",".join(f"{in_time(at)}:{in_units(new)}" for at, new in Window.parse(window).schedule)
    )


def check_lateness(window: int | str, lateness: int, argument: str = "lateness") -> None:
    """Refuse a lateness for a window that depends on the order of rows."""
    if lateness and str(window).partition(":")[0] in COUNTING:
        told = f"{lateness / 1e6:g} s with {window!r}"
        raise PenstockError(f"{argument} must be 0 where a window counts rows, since it depends on their order, got {told}")


def check_matches(matches: Any) -> None:
    """Refuse a promise that is none.

    >>> check_matches(1)
    >>> check_matches(0)
    Traceback (most recent call last):
    ...
    penstock.core.errors.PenstockError: matches must be a whole number of joined rows >= 1, or None for any number, got 0
    """
    if matches is not None and (isinstance(matches, bool) or not isinstance(matches, int) or matches < 1):
        raise PenstockError(f"matches must be a whole number of joined rows >= 1, or None for any number, got {matches!r}")


def check_shards(windows: Mapping[str, int | str | Window], shards: int | None) -> bool:
    """Whether a window counts the rows of a whole stream, so that there can be one shard only.

    >>> check_shards({"R": "rows:5", "S": 100}, 1), check_shards({"R": 100}, 4)
    (True, False)
    """
    by_row = [name for name, window in windows.items() if Window.parse(window).kind == "rows"]
    if by_row and shards not in (None, 1):
        raise PenstockError(
            f"shards must be 1 where a window counts the rows of a whole stream, as that of {by_row[0]} does, got {shards}; "
            "rows_per_key counts those of each key and can be divided"
        )
    return bool(by_row)


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
