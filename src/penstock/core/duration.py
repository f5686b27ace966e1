"""Durations as Spark users write them: "10 minutes"."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any

from penstock.core.errors import PenstockError
from penstock.core.trace import LIMIT

UNITS = {"microsecond": 1, "millisecond": 10**3, "second": 10**6, "minute": 60 * 10**6, "hour": 3600 * 10**6, "day": 86400 * 10**6}
"""Microseconds of each."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHORT = {"us": 1, "ms": 10**3, "s": 10**6, "min": UNITS["minute"], "h": UNITS["hour"], "d": UNITS["day"], "week": 7 * UNITS["day"]}


def in_units(length: int) -> str:
    """Microseconds in the largest unit that gives a whole number.

    >>> in_units(90_000_000), in_units(86_400_000_000)
    ('90 seconds', '1 day')
    """
    unit = max((name for name in UNITS if length % UNITS[name] == 0), key=lambda name: UNITS[name])
    count = length // UNITS[unit]
    return f"{count} {unit}{'s' if count != 1 else ''}"


def in_time(moment: int) -> str:
    """Microseconds since 1970 as a time.

    >>> in_time(1_704_067_200_000_000)
    '2024-01-01T00:00:00Z'
    """
    return (_EPOCH + timedelta(microseconds=moment)).isoformat().replace("+00:00", "Z")


def read_time(value: Any) -> int | None:
    """The microseconds since 1970 of a `datetime` or a text such as "2024-01-01 12:00", in UTC unless it says otherwise; None for others.

    >>> read_time("2024-01-01"), read_time("2024-01-01T01:00+01:00"), read_time("noon")
    (1704067200000000, 1704067200000000, None)
    """
    try:
        then = datetime.fromisoformat(value.strip()) if isinstance(value, str) else value
    except ValueError:
        return None
    if isinstance(then, date) and not isinstance(then, datetime):
        then = datetime(then.year, then.month, then.day)
    return (then.replace(tzinfo=then.tzinfo or UTC) - _EPOCH) // timedelta(microseconds=1) if isinstance(then, datetime) else None


def timestamp(value: Any, argument: str) -> int:
    """A time in microseconds since 1970.

    >>> timestamp("2024-01-01 00:00:00", "landmark")
    1704067200000000
    """
    found = read_time(value)
    if found is None:
        raise PenstockError(f'{argument} must be a time such as "2024-01-01 12:00:00", in UTC unless it says otherwise, got {value!r}')
    return found


def about(length: float) -> str:
    """Microseconds to about two digits, in the largest unit of which there is at least one.

    >>> about(2_343_750), about(75_000_000), about(900_000_000)
    ('2.3 seconds', '1.2 minutes', '15 minutes')
    """
    unit = max((name for name in UNITS if length >= UNITS[name]), key=lambda name: UNITS[name], default="microsecond")
    count = two_digits(max(1.0, length / UNITS[unit]))
    return f"{count} {unit}{'s' if count != '1' else ''}"


def two_digits(number: float) -> str:
    """A number to two digits, or without a fraction where it has more before the point.

    >>> two_digits(0.0396), two_digits(18.4), two_digits(6053.7)
    ('0.04', '18', '6,054')
    """
    return f"{number:.2g}" if number < 9.95 else f"{number:,.0f}"


def read_duration(text: Any) -> float | None:
    """The microseconds of a text such as "10 minutes" or "-5 s"; None where it is no duration.

    >>> read_duration("2 s"), read_duration("1.5 hours"), read_duration("2")
    (2000000.0, 5400000000.0, None)
    """
    match = re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)\s*([a-z]+)\s*", text.lower()) if isinstance(text, str) else None
    units = UNITS | _SHORT
    unit = None if match is None else units.get(match[2], units.get(match[2].removesuffix("s")))
    return None if match is None or unit is None else float(match[1]) * unit


def microseconds(text: Any, argument: str, *, least: int = 0) -> int:
    """A duration in microseconds.

    >>> microseconds("1.5 hours", "window")
    5400000000
    >>> microseconds("2 s", "window"), microseconds("1 day", "window")
    (2000000, 86400000000)
    """
    amount = read_duration(text)
    if amount is None or not least <= amount:
        raise PenstockError(f'{argument} must be a duration such as "10 minutes"{" above 0" if least else ""}, got {text!r}')
    if amount >= LIMIT:
        raise PenstockError(f"{argument} must be a duration below {LIMIT // UNITS['day']} days, got {text!r}")
    return round(amount)
