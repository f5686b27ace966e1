"""Synthetic streams whose keys live for a while: sessions of clicks, each click in one of the streams.

A session begins at some tick, evenly over the trace, has so many clicks and is over: its key does not come back. Web logs by visitor
look like that, and so do machines by incident and phones by call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.errors import PenstockError
from penstock.core.trace import Trace
from penstock.generator.delays import Delay

DELAY = "uniform:5:60"
MOST_ROWS = 1_000_000_000


def visitors(n: int, *, streams: Sequence[str], sessions: str, delay: float | str = DELAY, rates: Sequence[float], seed: int = 0) -> Trace:
    """A trace of `n` ticks of sessions; the rows are in order of time.

    * `sessions`, "least:most": how many clicks a session has, a whole number drawn from these.
    * `delay`: ticks between two clicks (`penstock.generator.delays`).
    * `rates`: tuples per tick, by stream. There are as many sessions as that takes, and a click falls into a stream in proportion to it.

    What a session does after the last tick is missing.

    >>> trace = visitors(2000, streams=("home", "basket"), sessions="5:20", rates=(2, 1), seed=1)
    >>> np.bincount(trace.stream).tolist(), len(set(trace.key.tolist()))
    ([3546, 1756], 480)
    """
    least, most = _clicks(sessions)
    pause, rate = Delay.parse(delay), float(np.sum(rates))
    if n * rate > MOST_ROWS:
        raise PenstockError(f"rate must make at most {MOST_ROWS:,} rows, got {n * rate:.3g}")
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(6,)))
    n_sessions = max(1, round(n * rate / ((least + most) / 2)))
    begin = np.sort(rng.integers(0, n, n_sessions))
    clicks = rng.integers(least, most, n_sessions, endpoint=True)
    ends = np.cumsum(clicks)
    waited = np.cumsum(pause.draw(rng, int(ends[-1])))
    stream = rng.choice(len(streams), size=len(waited), p=np.asarray(rates) / rate)
    key = np.repeat(np.arange(n_sessions), clicks)
    time = (begin - waited[ends - clicks])[key] + waited
    rows = np.flatnonzero(time < n)
    rows = rows[np.argsort(time[rows], kind="stable")]
    names = pa.array(list(streams), pa.string()).take(pa.array(stream[rows]))
    return Trace(pa.table({"stream": names, "time": pa.array(time[rows]), "key": pa.array(key[rows])}), streams=tuple(streams))


def _clicks(sessions: Any) -> tuple[int, int]:
    try:
        least, most = (int(part) for part in str(sessions).split(":"))
    except ValueError:
        least = most = 0
    if not 1 <= least <= most <= MOST_ROWS:
        raise PenstockError(f'sessions must be least:most, two whole numbers of clicks such as "5:20", got {sessions!r}')
    return least, most
