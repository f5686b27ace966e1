"""The memory budget: how many tuples (or bytes) may stay after an instant, in which pools, from when on (docs/readings.md, memory)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.core.errors import PenstockError, choose
from penstock.core.trace import LIMIT, Ints
from penstock.core.window import by_stream, check_names, whole

_Steps = int | str | Sequence[tuple[Any, int | str]]
Memory = _Steps | Mapping[str, _Steps]
"""What a user may give as a memory: rows or a size, constant or from times on, for all streams or for each."""
TUPLE_OVERHEAD = 64
"""Bytes that a tuple weighs beside its `size` when the budget is in bytes: its time, row, key and links, rounded up."""

Step = tuple[int, tuple[int, bool]]
"""From when on how much, and whether that is in bytes."""
_HELP = 'a positive number of rows or a size such as "512 MB"'
_SIZES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


@dataclass(frozen=True)
class Pools:
    """Pools of memory: `pool` says which pool a stream draws from, `caps[k, pool]` what it may hold from `times[k]` on.

    >>> Pools.parse(100, ("R", "S")).caps.tolist()
    [[100]]
    >>> Pools.parse(101, ("R", "S"), allocation="fixed").caps.tolist()
    [[50, 50]]
    >>> Pools.parse("1 KB", ("R", "S")).in_bytes
    True
    >>> changing = Pools.parse({"R": [(0, 100), (500, 50)], "S": 70}, ("R", "S"))
    >>> changing.times.tolist(), changing.caps.tolist()
    ([0, 500], [[100, 70], [50, 70]])
    """

    pool: Ints
    times: Ints
    caps: Ints
    in_bytes: bool = False
    given: Any = field(default=None, compare=False)  # as the user wrote it

    @classmethod
    def parse(cls, spec: Any, streams: Sequence[str], *, allocation: str = "variable") -> Pools:
        """Read a budget: rows or a size, one for all or by stream, each constant or "0:100,500:50" (from time 500 on 50)."""
        if isinstance(spec, Pools):
            return spec
        choose("allocation", allocation, ("variable", "fixed"))
        n = len(streams)
        if isinstance(spec, str) and "=" in spec:
            spec = by_stream(spec, "memory")
        if isinstance(spec, Mapping):
            given = check_names(spec, streams, "memory")
            return cls._by_stream(spec, [_steps(given[name], f"memory of {name}") for name in streams])
        steps = _steps(spec)
        totals = np.array([[amount] for _, (amount, _) in steps], dtype=np.int64)
        in_bytes = steps[0][1][1]
        if allocation == "fixed":
            if totals.min() < n:
                raise PenstockError(f"memory must be at least {n} rows for fixed allocation to {n} streams, got {totals.min()}")
            pool, caps = np.arange(n, dtype=np.int64), np.repeat(totals // n, n, axis=1)
        else:
            pool, caps = np.zeros(n, dtype=np.int64), totals
        return cls(pool, np.array([at for at, _ in steps], dtype=np.int64), caps, in_bytes, spec)

    @classmethod
    def _by_stream(cls, spec: Any, given: list[list[Step]]) -> Pools:
        """A pool for each stream, all of which change at the times of any."""
        if len({in_bytes for steps in given for _, (_, in_bytes) in steps}) > 1:
            raise PenstockError(f"memory must be in rows or in bytes for all streams alike, got {dict(spec)}")
        times = sorted({at for steps in given if len(steps) > 1 for at, _ in steps}) or [0]
        caps = [[_in_force(steps, at) for steps in given] for at in times]
        pool, in_bytes = np.arange(len(given), dtype=np.int64), given[0][0][1][1]
        return cls(pool, np.array(times, dtype=np.int64), np.array(caps, dtype=np.int64), in_bytes, spec)

    def at(self, time: int) -> Ints:
        """What each pool may hold at a time; before the first, what it may hold then.

        >>> Pools.parse("0:100,500:50", ("R", "S")).at(499).tolist()
        [100]
        """
        return self.caps[max(0, int(np.searchsorted(self.times, time, side="right")) - 1)]

    @property
    def most(self) -> int:
        """The largest total that may be held at any time."""
        return int(self.caps.sum(axis=1).max())


def _in_force(steps: list[Step], time: int) -> int:
    """The amount at a time; before the first step that of the first."""
    return [amount for at, (amount, _) in steps if at <= max(time, steps[0][0])][-1]


def _steps(spec: Any, name: str = "memory") -> list[Step]:
    if isinstance(spec, str) and ":" in spec:
        spec = [part.partition(":")[::2] for part in spec.split(",")]
    if isinstance(spec, Sequence) and not isinstance(spec, str):
        try:
            steps = [(whole(at, name), _amount(amount, name)) for at, amount in spec]
        except (TypeError, ValueError) as error:
            if isinstance(error, PenstockError):
                raise
            raise PenstockError(f"{name} over time must be pairs (time, rows), got {spec!r}") from None
        times = [at for at, _ in steps]
        if not steps or times != sorted(set(times)):
            raise PenstockError(f"{name} over time must have rising times, got {times}")
        if len({in_bytes for _, (_, in_bytes) in steps}) > 1:
            raise PenstockError(f"{name} must be in rows or in bytes at all times alike, got {spec!r}")
        return steps
    return [(0, _amount(spec, name))]


def read_size(value: Any, name: str) -> int:
    """A size such as "256 MB", in bytes.

    >>> read_size("2 KB", "overhead")
    2000
    """
    try:
        amount, in_bytes = _amount(value, name)
    except PenstockError:
        in_bytes = False
    if not in_bytes:
        raise PenstockError(f'{name} must be a size such as "256 MB", got {value!r}')
    return amount


def _amount(value: Any, name: str) -> tuple[int, bool]:
    """The number and whether it is in bytes."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmg]?i?b)?\s*", str(value).lower())
    if isinstance(value, bool) or not match or (match[2] is None and "." in match[1]):
        raise PenstockError(f"{name} must be {_HELP}, got {value!r}")
    amount = int(float(match[1]) * _SIZES[match[2]]) if match[2] else int(match[1])
    if not 0 < amount < LIMIT:
        raise PenstockError(f"{name} must be {_HELP}, got {value!r}")
    return amount, match[2] is not None
