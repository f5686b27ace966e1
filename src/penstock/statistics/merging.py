"""The counts of several sources as one: in the units of one clock, with one number per key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.core.trace import Floats
from penstock.engine.contract import Renumber


def shifts_of(states: Sequence[dict[str, Any]], half_life: float) -> list[float]:
    """By how many half-lives the clock of each is behind the latest: what its counts must be multiplied by, as an exponent of two."""
    clocks = [float(origin) / half_life + float(moved) if known else -np.inf for origin, moved, known in (one["clock"] for one in states)]
    latest = max(clocks)
    return [0.0 if latest == -np.inf else clock - latest for clock in clocks]


def merged(states: Sequence[dict[str, Any]], shifts: Sequence[float], renumber: Renumber) -> dict[str, Any]:
    """One state of several. A key is in one of them, and what the others know of it is older: the largest counts."""
    scale = [2.0**shift for shift in shifts]
    out = dict(states[int(np.argmax(shifts))])
    tables = [state["table"] * by for state, by in zip(states, scale, strict=True) if "table" in state]
    if tables:
        narrow = min(table.shape[-1] for table in tables)
        out["table"] = np.maximum.reduce([folded(table, narrow) for table in tables])
    if "key" in out:
        keys = np.concatenate([renumber(of, state["key"]) for of, state in enumerate(states)])
        sums: Floats = np.concatenate([state["sums"] * by for state, by in zip(states, scale, strict=True)])
        out["key"], which = np.unique(keys, return_inverse=True)
        out["sums"] = np.zeros((len(out["key"]), sums.shape[1]))
        np.maximum.at(out["sums"], which, sums)
    return out


def folded(table: Floats, width: int) -> Floats:
    """A sketch made narrower, as if it had been so from the start but for conservative updates; widths are powers of two.

    >>> folded(np.arange(4.0).reshape(1, 1, 4), 2).tolist()
    [[[2.0, 4.0]]]
    """
    while table.shape[-1] > width:
        half = table.shape[-1] // 2
        table = table[..., :half] + table[..., half:]
    return table
