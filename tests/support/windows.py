"""Windows of every kind for a stream on Spark, each with its definition: when a row is outside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

START = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
NEVER = 1 << 62


@dataclass(frozen=True)
class Kind:
    """A kind of window: what `ps.stream` is told, what `ps.simulate` is told, and when a row is outside, all in seconds."""

    stream: dict[str, Any]
    simulated: Any
    end: Callable[[int, str], int]  # from its time and value; not after the time where it never was inside


def of_time(seconds: int) -> Kind:
    """A window of so many seconds."""
    return Kind({"window": f"{seconds} seconds"}, seconds * SECOND, lambda time, _: time + seconds)


def tumbling(seconds: int) -> Kind:
    """Windows of so many seconds, one after the other; they begin where a day does."""
    return Kind({"window": f"tumbling:{seconds} seconds"}, f"tumbling:{seconds * SECOND}", lambda time, _: time - time % seconds + seconds)


def landmark(text: str, seconds: int) -> Kind:
    """All rows from this time on, which is so many seconds after the start."""
    return Kind({"window": f"landmark:{text}"}, f"landmark:{seconds * SECOND}", lambda time, _: NEVER if time >= seconds else time)


def mortal(sql: str) -> Kind:
    """Rows that live from 1 to 30 seconds, by the number in their value; `sql` makes a lifetime of the seconds."""
    lifetime = sql.format("cast(1 + 7 * cast(substring(v, 2) as int) % 30 as bigint)")
    return Kind({"lifetime": lifetime}, None, lambda time, value: time + 1 + 7 * int(value[1:]) % 30)


def changing(*steps: tuple[int, int]) -> Kind:
    """From so many seconds after the start on a window of so many seconds."""
    stream = [(START + timedelta(seconds=at), f"{seconds} seconds") for at, seconds in steps]
    simulated = [(at * SECOND, seconds * SECOND) for at, seconds in steps]
    return Kind(
        {"window": stream}, simulated, lambda time, _: time + [seconds for at, seconds in steps if at <= max(time, steps[0][0])][-1]
    )


LANDMARK = landmark("2026-01-01 01:00:20+01:00", 20)  # the start is midnight in UTC
KINDS: dict[str, tuple[Kind, Kind]] = {
    "tumbling": (tumbling(20), tumbling(20)),
    "tumbling and time": (tumbling(15), of_time(8)),
    "landmark and time": (LANDMARK, of_time(10)),
    "landmark and tumbling": (LANDMARK, tumbling(10)),
    "changing": (changing((5, 12), (40, 3), (60, 20)), changing((0, 4), (50, 14))),
    "changing and time": (of_time(10), changing((0, 14), (30, 3), (70, 14))),
    "lifetimes": (mortal("make_dt_interval(0, 0, 0, {})"), mortal("1000000 * {}")),
    "lifetimes and time": (of_time(10), mortal("ts + make_dt_interval(0, 0, 0, {}) - ts")),
}
"""The windows of two streams."""


def exact(kinds: tuple[Kind, ...], streams: Iterable[list[tuple[int, Any, str]]]) -> Counter[tuple[str, ...]]:
    """The exact result by its definition, of rows (time, key, value): the values of the members."""
    out: Counter[tuple[str, ...]] = Counter()
    for members in product(*streams):
        now = max(time for time, *_ in members)
        inside = all(now < kind.end(time, value) for kind, (time, _, value) in zip(kinds, members, strict=True))
        if inside and members[0][1] is not None and len({key for _, key, _ in members}) == 1:
            out[tuple(value for *_, value in members)] += 1
    return out
