"""Arguments of generators, read and checked."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from penstock.core.errors import PenstockError


def stream_names(streams: object) -> tuple[str, ...]:
    """The names of streams.

    >>> stream_names(["R", "S"])
    ('R', 'S')
    """
    names = tuple(streams) if isinstance(streams, list | tuple) else ()
    if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise PenstockError(f'streams must be a list of different names such as ("R", "S"), got {streams!r}')
    return names


def check_whole(argument: str, got: object, least: int, unit: str = "") -> None:
    """Refuse what is no whole number, or a smaller one than `least`."""
    if isinstance(got, bool) or not isinstance(got, int | np.integer) or got < least:
        raise PenstockError(f"{argument} must be a whole number {f'of {unit} ' if unit else ''}>= {least}, got {got!r}")


def keys_per_stream(got: Any, n: int) -> list[int]:
    """How many keys each stream has, from one number for all or a sequence.

    >>> keys_per_stream(50, 2), keys_per_stream((50, 80), 2)
    ([50, 50], [50, 80])
    """
    if not isinstance(got, list | tuple | np.ndarray):
        check_whole("keys", got, 1, "keys")
        return [int(got)] * n
    for one in got:
        check_whole("keys", one, 1, "keys")
    if len(got) != n:
        raise PenstockError(f"keys must be a whole number of keys >= 1 or one per stream, got {got!r}")
    return [int(one) for one in got]


def one_per_stream(argument: str, got: Any, n: int, wanted: str, fits: Callable[[float], bool]) -> list[float]:
    """One number per stream, from one for all or a sequence."""
    values = [got] * n if isinstance(got, Real) else list(got) if isinstance(got, list | tuple | np.ndarray) else []
    numbers = [float(value) for value in values if not isinstance(value, bool) and isinstance(value, Real)]
    if len(values) != n or len(numbers) != n or not all(math.isfinite(x) and fits(x) for x in numbers):
        raise PenstockError(f"{argument} must be {wanted} or one per stream, got {got!r}")
    return numbers
