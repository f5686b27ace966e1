"""What streams are like: how often keys come back, whether they have partners, how unequal they are, and how many rows come."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.core.trace import Ints, Trace


@dataclass(frozen=True)
class Streams:
    """What bears on who is worth keeping."""

    rows: int
    keys: int
    once: float  # of the rows: their key comes once in their stream
    alone: float  # of the rows: their key comes in no other stream
    half: float  # of the keys: the most frequent, which have half of the rows
    rows_per_second: float | None  # in the busiest twentieth of the rows; None where nothing says how long a tick is

    @classmethod
    def of(cls, trace: Trace) -> Streams:
        """Of a trace whose keys are compared for equality.

        >>> streams = Streams.of(Trace.from_streams(R="aaab", S="aacd"))
        >>> streams.keys, streams.once, streams.alone, streams.half
        (4, 0.375, 0.375, 0.25)
        """
        there = trace.key >= 0  # a null matches nothing
        key, stream = trace.key[there], trace.stream[there]
        keys, number, rows = np.unique(key, return_inverse=True, return_counts=True)
        table = np.zeros((len(keys), trace.n_streams), np.int64)
        np.add.at(table, (number, stream), 1)
        own = table[number, stream]
        rising = np.cumsum(np.sort(rows)[::-1])
        few = int(np.searchsorted(rising, len(key) / 2)) + 1
        return cls(
            rows=len(trace),
            keys=len(keys),
            once=float(np.mean(own == 1)),
            alone=float(np.mean(own == rows[number])),
            half=few / len(keys),
            rows_per_second=_busiest(np.sort(trace.time), trace.tick),
        )


def _busiest(time: Ints, tick: int | None) -> float | None:
    step = max(1, len(time) // 20)
    if tick is None or len(time) <= step:
        return None
    least = int((time[step:] - time[:-step]).min())
    return step / (max(1, least) * tick / 1e9)
