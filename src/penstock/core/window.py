"""Windows: for each tuple, the first tick at which it is outside (its *expiry*).

    time      0   1   2   3   4
    R         a   .   b   .   .
    S         .   .   a   .   b      window 3: (a,a) at 2; (b,b) at 4

A sliding window of length w holds, at time t, the tuples u with t - w < u.time <= t (Das 2.1; docs/readings.md, 1); so u is
outside from u.time + w on. Every other kind of window is another rule for that one number (docs/decisions/0001).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np

from penstock.core.duration import read_duration
from penstock.core.errors import PenstockError
from penstock.core.trace import LIMIT, Floats, Ints

COUNTING = ("rows", "rows_per_key")
"""The kinds of windows that count rows."""
WindowSpec = int | str | timedelta | Sequence[tuple[Any, Any]] | Mapping[str, Any] | None
"""What a user may give as a window: one for all streams, or by stream."""
NEVER = 1 << 62
"""The expiry of a tuple that never leaves its window."""
DEAD = -NEVER
"""The expiry of a tuple that never was in its window."""

_HELP = (
    'a positive number of ticks, a duration such as "10 minutes", "rows:100", "rows_per_key:10", "tumbling:400", "landmark:0", '
    '"0:400,900:200" (from time 900 on 200) or "none"'
)


@dataclass(frozen=True)
class Window:
    """The window of one stream: a kind (`time`, `rows`, `rows_per_key`, `tumbling`, `landmark`, `none`, `schedule`) and its length.

    >>> Window.parse("rows:100")
    Window(kind='rows', length=100, schedule=())
    >>> Window.parse(3).expiries(np.array([0, 5])).tolist()
    [3, 8]
    >>> Window.parse("tumbling:4").expiries(np.array([0, 3, 5])).tolist()
    [4, 4, 8]
    """

    kind: str
    length: int = 0
    schedule: tuple[tuple[int, int], ...] = ()

    @classmethod
    def parse(cls, spec: Any, name: str = "window") -> Window:
        """Read one window from a number, a duration such as "10 minutes", or the texts of the command line."""
        if isinstance(spec, Window):
            return spec
        if spec is None or spec == "none":
            return cls("none")
        if isinstance(spec, Sequence) and not isinstance(spec, str):
            if not all(isinstance(pair, Sequence) and len(pair) == 2 for pair in spec):
                raise PenstockError(f"{name} over time must be pairs (time, length), got {spec!r}")
            pairs = tuple((whole(at, name), ticks(length, name)) for at, length in spec)
            return cls("schedule", pairs[0][1] if pairs else 0, _rising(pairs, name))
        kind, colon, rest = str(spec).partition(":")
        if not colon or isinstance(spec, timedelta):
            return cls("time", ticks(spec, name))
        if kind in (*COUNTING, "tumbling"):
            if kind in COUNTING and not (rest.strip().isdecimal() and int(rest) > 0):
                raise PenstockError(f"{name} must count rows in a whole number from 1, such as {kind}:100, got {spec!r}")
            return cls(kind, ticks(rest, name))
        if kind == "landmark":
            return cls(kind, whole(rest, name))
        pairs = tuple((whole(at, name, _HELP), ticks(length, name)) for at, _, length in (p.partition(":") for p in str(spec).split(",")))
        return cls("schedule", pairs[0][1], _rising(pairs, name))

    @property
    def bounded(self) -> bool:
        """Whether tuples leave this window at all."""
        return self.kind not in ("none", "landmark")

    @property
    def longest(self) -> int | None:
        """How many ticks a tuple can stay at most; None where nothing says it.

        >>> Window.parse("0:400,900:200").longest, Window.parse("tumbling:4").longest, Window.parse("landmark:0").longest
        (400, 4, None)
        """
        if not self.bounded or self.kind in COUNTING:
            return None
        return max([self.length, *(length for _, length in self.schedule)])

    @property
    def is_constant(self) -> bool:
        """Whether all tuples stay equally long, or so many rows."""
        return self.kind in ("time", "none", *COUNTING)

    def expiries(self, time: Ints, *, instantly: bool = False) -> Ints:
        """The expiry of tuples with these times. `rows` windows count in rows and are the engine's business."""
        if self.kind == "time":
            return time + self.length
        if self.kind == "tumbling":
            return (time // self.length + 1) * self.length
        if self.kind == "landmark":
            return np.where(time < self.length, DEAD, NEVER)
        if self.kind == "schedule":
            return self._instantly(time) if instantly else time + self.at(time)
        return np.full(len(time), NEVER, dtype=np.int64)

    def at(self, time: Ints) -> Ints:
        """The length in force at these times; the first length also holds before its own time."""
        if self.kind != "schedule":
            return np.full(len(time), self.length, dtype=np.int64)
        starts = np.array([at for at, _ in self.schedule], dtype=np.int64)
        lengths = np.array([length for _, length in self.schedule], dtype=np.int64)
        return lengths[np.maximum(np.searchsorted(starts, time, side="right") - 1, 0)]

    def _instantly(self, time: Ints) -> Ints:
        """The other reading of docs/readings.md, 11: outside at the first tick t > time with t - w(t) >= time."""
        expiry = np.full(len(time), NEVER, dtype=np.int64)
        for number in reversed(range(len(self.schedule))):
            start, length = self.schedule[number]
            end = self.schedule[number + 1][0] if number + 1 < len(self.schedule) else NEVER
            begin = time + 1 if number == 0 else np.maximum(time + 1, start)
            first = np.maximum(begin, time + length)
            expiry = np.where(first < end, first, expiry)
        return expiry


def followers(stream: Ints, key: Ints, later_stream: Ints, later_key: Ints) -> Ints:
    """How many later tuples have each tuple's stream and key.

    >>> followers(*(np.array(column) for column in ([0, 1], [5, 5], [0, 0, 1], [5, 6, 5]))).tolist()
    [1, 1]
    """
    both = np.stack([np.concatenate([stream, later_stream]), np.concatenate([key, later_key])])
    _, which = np.unique(both, axis=1, return_inverse=True)
    which = which.reshape(-1)
    return np.bincount(which[len(stream) :], minlength=int(which.max(initial=0)) + 1)[which[: len(stream)]]


def parse_windows(spec: Any, streams: Sequence[str]) -> tuple[Window, ...]:
    """One window per stream, from one specification for all or a mapping / "R=400,S=800" by stream.

    >>> [w.length for w in parse_windows("R=400,S=800", ("R", "S"))]
    [400, 800]
    """
    if isinstance(spec, str) and "=" in spec:
        spec = by_stream(spec, "window")
    if isinstance(spec, Mapping):
        given = check_names(spec, streams, "window")
        return tuple(Window.parse(given[name], f"window of {name}") for name in streams)
    return (Window.parse(spec),) * len(streams)


def expiries(windows: Sequence[Window], stream: Ints, time: Ints, lifetime: Ints | None, seen: Ints, *, instantly: bool = False) -> Ints:
    """The expiry of every row. In a `rows` window it is a row count of the stream; `seen` holds the rows before this batch.

    In a `rows_per_key` window it is how many rows of its stream and key must follow a tuple until it leaves.
    """
    out = np.empty(len(time), dtype=np.int64)
    for number, window in enumerate(windows):
        mine = np.flatnonzero(stream == number)
        if window.kind == "rows":
            out[mine] = seen[number] + np.arange(1, len(mine) + 1) + window.length
        elif window.kind == "rows_per_key":
            out[mine] = window.length
        else:
            out[mine] = window.expiries(time[mine], instantly=instantly)
    return out if lifetime is None else time + lifetime


def ticks(value: Any, name: str) -> int:
    """A positive whole number of ticks, or of microseconds from a text such as "10 minutes"."""
    number = whole(in_microseconds(value), name, _HELP)
    if number <= 0:
        raise PenstockError(f"{name} must be {_HELP}, got {value!r}")
    return number


def in_microseconds(value: Any) -> Any:
    """The number that a text such as "10 minutes" or a `timedelta` stands for; anything else as it is.

    >>> in_microseconds("2 seconds"), in_microseconds("2"), in_microseconds(timedelta(milliseconds=3))
    (2000000, '2', 3000)
    """
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    found = read_duration(value)
    return value if found is None else round(found)


def whole(value: Any, name: str, what: str = "a whole number") -> int:
    """A whole number below 2**60 from an int or its text."""
    try:
        number = int(value) if isinstance(value, (int, np.integer)) and not isinstance(value, bool) else int(str(value))
    except ValueError:
        raise PenstockError(f"{name} must be {what}, got {value!r}") from None
    if abs(number) >= LIMIT:
        raise PenstockError(f"{name} must be {what} below 2**60, got {value!r}")
    return number


def by_stream(text: str, name: str) -> dict[str, str]:
    """Split "R=400,S=800" into its parts."""
    parts: dict[str, str] = {}
    for part in re.split(r",(?=[^,=]+=)", text):
        stream, equals, value = part.partition("=")
        if not equals or not value or stream.strip() in parts:
            raise PenstockError(f"{name} must read like R=400,S=800, got {text!r}")
        parts[stream.strip()] = value.strip()
    return parts


def check_names(given: Mapping[Any, Any], streams: Sequence[str], name: str) -> dict[str, Any]:
    """What is given for each stream, each named exactly once; streams that a trace numbers may be named by their numbers.

    >>> check_names({1: 400, "S": 800}, ("1", "S"), "window")
    {'1': 400, 'S': 800}
    """
    named = {str(stream): value for stream, value in given.items()}
    if len(named) < len(given) or set(named) != set(streams):
        raise PenstockError(f"{name} must name each of the streams {', '.join(streams)}, got {', '.join(map(str, given)) or 'none'}")
    return named


def _rising(pairs: tuple[tuple[int, int], ...], name: str) -> tuple[tuple[int, int], ...]:
    times = [at for at, _ in pairs]
    if not pairs or times != sorted(set(times)):
        raise PenstockError(f"{name} over time must have rising times, got {times}")
    return pairs


def longest(windows: Sequence[Window]) -> float:
    """The longest finite window, as the unit of ageing; NaN where there is none."""
    lengths = [float(w.length) for w in windows if w.bounded]
    return max(lengths, default=float("nan"))


__all__ = [
    "COUNTING",
    "DEAD",
    "NEVER",
    "Floats",
    "Window",
    "by_stream",
    "check_names",
    "expiries",
    "followers",
    "in_microseconds",
    "longest",
    "parse_windows",
    "ticks",
    "whole",
]
