"""The window of a stream on Spark: times are microseconds, given as durations and dates. Needs no PySpark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.core.duration import in_time, in_units, microseconds, timestamp
from penstock.core.errors import PenstockError
from penstock.core.window import COUNTING, Window

NOT_GIVEN: Any = object()
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


def check_shards(windows: Mapping[str, int | str], shards: int | None) -> bool:
    """Whether a window counts the rows of a whole stream, so that there can be one shard only."""
    by_row = [name for name, window in windows.items() if str(window).startswith("rows:")]
    if by_row and shards not in (None, 1):
        raise PenstockError(
            f"shards must be 1 where a window counts the rows of a whole stream, as that of {by_row[0]} does, got {shards}; "
            "rows_per_key= counts those of each key and can be divided"
        )
    return bool(by_row)
