"""What happened: the result of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.trace import Ints


@dataclass(frozen=True)
class JoinRun:
    """The counts of a run and, on request, its outputs, its memory after each instant, and what left."""

    policy: str
    n_input: int
    n_output: int
    value: float
    n_shed: int
    n_expired: int
    n_late: int
    peak_memory: int
    streams: tuple[str, ...]
    seconds: float
    outputs: Ints | None = None  # one line per output: time, then the row of each stream's member
    sheds: Ints | None = None  # rows, in the order in which they were shed
    expired: Ints | None = None  # rows, in the order in which they expired
    memory_log: list[tuple[int, Ints]] | None = None  # after each instant: its time, the rows retained
    series: Ints | None = None  # after each instant: its time, tuples held per stream

    def summary(self) -> dict[str, Any]:
        """The numbers, as the command line prints them."""
        names = ("policy", "n_input", "n_output", "value", "n_shed", "n_expired", "n_late", "peak_memory")
        return {name: getattr(self, name) for name in names}


def memory_log(series: Ints, retained: Ints) -> list[tuple[int, Ints]]:
    """Cut the retained rows (instant, row) into one sorted array per instant (numbered from 1)."""
    order = np.lexsort((retained[:, 1], retained[:, 0]))
    rows = retained[order, 1]
    ends = np.searchsorted(retained[order, 0], np.arange(1, len(series) + 1), side="right")
    return [(int(time), part) for time, part in zip(series[:, 0], np.split(rows, ends[:-1]), strict=True)]
