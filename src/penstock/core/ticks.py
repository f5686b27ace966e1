"""Durations and dates in the options of a run, as ticks of a trace.

A trace with timestamps counts microseconds. One whose times are whole numbers says how long a tick is (`time_unit`), or takes ticks alone:
"10 minutes" of an unknown unit would be a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

import numpy as np

from penstock.core.duration import read_time
from penstock.core.errors import PenstockError
from penstock.core.window import COUNTING, by_stream, in_microseconds


class Timed(Protocol):
    """What has times: whether they are timestamps, and the nanoseconds of a tick where they are known."""

    @property
    def timestamps(self) -> bool: ...
    @property
    def tick(self) -> int | None: ...


class _EventTime(NamedTuple):
    timestamps: bool = True
    tick: int | None = 1000


EVENT_TIME: Timed = _EventTime()
"""That of Spark: timestamps, in microseconds."""


def in_ticks(trace: Timed, **options: Any) -> dict[str, Any]:
    """Options of a run with their durations and dates as ticks of the trace; what is ticks, or has nothing to do with time, stays.

    >>> from penstock.core.trace import Trace
    >>> trace = Trace({"stream": ["R", "S"], "time": [0, 5], "key": [1, 1]}, time_unit="s")
    >>> in_ticks(trace, window="R=1 minute,S=tumbling:2 hours", lateness="5 seconds", memory=10)
    {'window': {'R': 60, 'S': 'tumbling:7200'}, 'lateness': 5, 'memory': 10}
    """
    return {name: value if value is None or name not in _READ else _READ[name](trace, value, name) for name, value in options.items()}


def length(trace: Timed, value: Any, name: str) -> Any:
    """A duration as a whole number of ticks; anything else as it is."""
    found = _nanoseconds(trace, value, name)
    if found is None:
        return value
    assert trace.tick is not None
    if found % trace.tick:
        raise PenstockError(f"{name} must be a whole number of ticks, each {_shown(trace.tick)}, got {value!r}")
    return found // trace.tick


def moment(trace: Timed, value: Any, name: str) -> Any:
    """A date, in UTC unless it says otherwise, as a time of the trace; anything else as it is."""
    is_text = isinstance(value, str) and "-" in value.strip()[1:]
    if not is_text and not isinstance(value, datetime):
        return value
    found = read_time(value)
    if found is None:
        raise PenstockError(f"{name} must be a time such as 2026-01-31T12:00, got {value!r}")
    if not trace.timestamps:
        raise PenstockError(f"{name} must be a number of ticks, because the times of this trace are whole numbers, got {value!r}")
    return found


def _span(trace: Timed, value: Any, name: str) -> Any:
    """A duration as ticks, not necessarily whole."""
    found = _nanoseconds(trace, value, name)
    if found is None:
        return value
    assert trace.tick is not None
    return found / trace.tick


def _nanoseconds(trace: Timed, value: Any, name: str) -> int | None:
    """How long a duration is; None where it is none."""
    value = _without_numpy(value, name)
    found = in_microseconds(value)
    if not isinstance(value, timedelta) and (not isinstance(value, str) or found is value):
        return None
    if trace.tick is None:
        raise PenstockError(
            f"{name} must be a number of ticks, because the times of this trace are whole numbers and nothing says how long a tick is, got "
            f'{value!r}: say it by --time-unit s (in Python time_unit="s" of ps.Trace or ps.read_trace), or give ticks'
        )
    return int(found) * 1000


def _without_numpy(value: Any, name: str) -> Any:
    """A `timedelta64` as a `timedelta`; anything else as it is."""
    if not isinstance(value, np.timedelta64):
        return value
    length = value.astype("timedelta64[us]").item() if np.datetime_data(value.dtype)[0] not in ("Y", "M", "generic") else None
    if length is None:
        raise PenstockError(f"{name} must be a length of time in weeks, days, hours or less, got {value!r}")
    return length


def _window(trace: Timed, spec: Any, name: str) -> Any:
    if isinstance(spec, str) and "=" in spec:
        spec = by_stream(spec, name)
    if isinstance(spec, Mapping):
        return {stream: _window(trace, own, f"{name} of {stream}") for stream, own in spec.items()}
    if isinstance(spec, str) and ":" in spec:
        kind, _, rest = spec.partition(":")
        if kind in COUNTING:
            return spec
        if kind in ("tumbling", "landmark"):
            return f"{kind}:{(length if kind == 'tumbling' else moment)(trace, rest.strip(), name)}"
        return _steps(trace, spec, name, length)
    if isinstance(spec, Sequence) and not isinstance(spec, str):
        return _pairs(trace, spec, name, length)
    return length(trace, spec, name)


def _memory(trace: Timed, spec: Any, name: str) -> Any:
    if isinstance(spec, str) and "=" in spec and ":" in spec:
        spec = by_stream(spec, name)
    if isinstance(spec, Mapping):
        return {stream: _memory(trace, own, f"{name} of {stream}") for stream, own in spec.items()}
    if isinstance(spec, str) and ":" in spec:
        return _steps(trace, spec, name, lambda _trace, amount, _name: amount)
    if isinstance(spec, Sequence) and not isinstance(spec, str):
        return _pairs(trace, spec, name, lambda _trace, amount, _name: amount)
    return spec


def _lateness(trace: Timed, spec: Any, name: str) -> Any:
    if isinstance(spec, str) and "=" in spec:
        spec = by_stream(spec, name)
    if isinstance(spec, Mapping):
        return {stream: length(trace, own, f"{name} of {stream}") for stream, own in spec.items()}
    return length(trace, spec, name)


def _steps(trace: Timed, text: str, name: str, read: Callable[[Timed, Any, str], Any]) -> str:
    """ "0:400,900:200" with its parts in ticks; a date has colons of its own, what it begins has none."""
    parts = [part.rpartition(":") for part in text.split(",")]
    if not all(colon for _, colon, _ in parts):
        return text
    return ",".join(f"{moment(trace, at.strip(), name)}:{read(trace, rest.strip(), name)}" for at, _, rest in parts)


def _pairs(trace: Timed, pairs: Sequence[Any], name: str, read: Callable[[Timed, Any, str], Any]) -> Any:
    if not all(isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2 for pair in pairs):
        return pairs
    return [(moment(trace, at, name), read(trace, rest, name)) for at, rest in pairs]


def _shown(tick: int) -> str:
    """How long a tick is.

    >>> _shown(60 * 10**9), _shown(1000)
    ('60 seconds', '1 microseconds')
    """
    sizes = {"seconds": 10**9, "milliseconds": 10**6, "microseconds": 10**3, "nanoseconds": 1}
    unit = next(name for name, size in sizes.items() if tick % size == 0)
    return f"{tick // sizes[unit]} {unit}"


_READ: dict[str, Callable[[Timed, Any, str], Any]] = {
    "window": _window,
    "memory": _memory,
    "lateness": _lateness,
    "start": moment,
    "half_life": _span,
    "alpha": _span,
}
