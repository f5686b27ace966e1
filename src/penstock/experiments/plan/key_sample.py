"""Some keys of a large trace, with all of their rows: a join of these in as large a part of the memory says how the whole would do.

The keys come in groups, each played by itself, so that the recalls of the groups show what the choice of keys makes of it.

    keys   0 ──────────────────────────────────────── 1   by a hash
           [g0)[g1)[g2) ... [g7)    the rest is left out
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.core.trace import Floats, Ints, Trace

GROUPS = 8
_HEAVY = 0.1  # of the rows of a group: with such a key in it, a group would say little of the others
_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Sample:
    """The parts of a trace that are played, and which share of the keys each has."""

    parts: list[Trace]
    share: float

    @property
    def whole(self) -> bool:
        """Whether it is the trace itself."""
        return self.share == 1.0


def sampled(trace: Trace, most: int) -> Sample:
    """At most about so many rows: the whole trace, or groups of its keys. Where one key is very frequent, the whole trace.

    >>> trace = Trace({"stream": ["R", "S"] * 5000, "time": range(10_000), "key": np.arange(10_000) // 4})
    >>> small = sampled(trace, 4000)
    >>> len(small.parts), small.share, sampled(trace, 10_000).whole
    (8, 0.05, True)
    >>> 3500 < sum(map(len, small.parts)) < 4500
    True
    """
    share = most / len(trace) / GROUPS
    if share * GROUPS >= 1:
        return Sample([trace], 1.0)
    _, number, counts = np.unique(trace.key, return_inverse=True, return_counts=True)
    if counts.max() > _HEAVY * share * len(trace):
        return Sample([trace], 1.0)
    place = _places(number)
    groups = [np.flatnonzero((place >= group * share) & (place < (group + 1) * share)) for group in range(GROUPS)]
    return Sample([taken(trace, rows) for rows in groups if len(rows)], share)


def _places(key: Ints) -> Floats:
    """A number from 0 to 1 for each key, which looks random."""
    mixed = (key.astype(np.uint64) + np.uint64(1)) * _ODD
    mixed = (mixed ^ (mixed >> np.uint64(29))) * _ODD
    return np.asarray((mixed >> np.uint64(11)) / float(1 << 53))


def taken(trace: Trace, rows: Ints) -> Trace:
    """Some rows of a trace, in this order."""
    out = Trace(trace.table.take(pa.array(rows)), key=trace.key_columns, streams=trace.streams)
    out.tick = trace.tick
    return out
