"""Durations as people write them, in microseconds. Free of PySpark, so that a pipeline can be checked without Java."""

from __future__ import annotations

import math
import re
from typing import Any

from penstock.core.errors import PenstockError

_SECOND = 10**6
UNITS = {
    "microsecond": 1, "millisecond": 1000, "second": _SECOND, "minute": 60 * _SECOND, "hour": 3600 * _SECOND, "day": 86400 * _SECOND,
    "week": 7 * 86400 * _SECOND, "us": 1, "ms": 1000, "s": _SECOND, "min": 60 * _SECOND, "h": 3600 * _SECOND, "d": 86400 * _SECOND,
}  # fmt: skip


def microseconds(text: Any, argument: str, *, least: int = 0) -> int:
    """A duration such as "10 minutes" in microseconds.

    >>> microseconds("1.5 hours", "window")
    5400000000
    >>> microseconds(10, "window")
    Traceback (most recent call last):
    ...
    penstock.core.errors.PenstockError: window must be a duration such as "10 minutes", got 10
    """
    plain = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", text.lower()) if isinstance(text, str) else None
    unit = UNITS.get(plain[2]) or UNITS.get(plain[2].removesuffix("s")) if plain else None
    amount = math.nan if plain is None or unit is None else float(plain[1]) * unit
    if not least <= amount < 1 << 60:
        raise PenstockError(f'{argument} must be a duration such as "10 minutes"{" above 0" if least else ""}, got {shown(text)}')
    return round(amount)


def shown(value: Any) -> str:
    """A value as a TOML file has it.

    >>> shown("a"), shown(True), shown([1, "b"])
    ('"a"', 'true', '[1, "b"]')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {shown(one)}" for name, one in value.items()) + "}"
    return str(value)
