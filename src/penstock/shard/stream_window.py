"""The window of a stream on Spark: a duration, without end, or a number of rows; and what belongs to the last. Needs no PySpark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.core.duration import microseconds
from penstock.core.errors import PenstockError
from penstock.core.window import COUNTING, Window

NOT_GIVEN: Any = object()


def window_of(window: Any = NOT_GIVEN, rows_per_key: Any = None, argument: str = "window") -> int | str:
    """The window of a stream: microseconds, "none", "rows:C" or "rows_per_key:C".

    >>> window_of("2 seconds"), window_of("rows:100"), window_of(rows_per_key=5)
    (2000000, 'rows:100', 'rows_per_key:5')
    """
    if rows_per_key is not None:
        if window is not NOT_GIVEN:
            raise PenstockError(f"{argument} must be left out where rows_per_key is given, got both")
        if isinstance(rows_per_key, bool) or not isinstance(rows_per_key, int) or rows_per_key < 1:
            raise PenstockError(f"rows_per_key must be a whole number >= 1, got {rows_per_key!r}")
        return f"rows_per_key:{rows_per_key}"
    if window is NOT_GIVEN:
        raise PenstockError(f'{argument} must be a duration such as "10 minutes", "rows:100", or "none" for no end, got nothing')
    if window is None or window == "none":
        return "none"
    if isinstance(window, str) and window.partition(":")[0] in COUNTING:
        parsed = Window.parse(window, argument)
        return f"{parsed.kind}:{parsed.length}"
    return microseconds(window, argument, least=1)


def check_lateness(window: int | str, lateness: int, argument: str = "lateness") -> None:
    """Refuse a lateness for a window that depends on the order of rows."""
    if lateness and isinstance(window, str) and window != "none":
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
