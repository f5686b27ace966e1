"""Golab's workload: one tuple per tick, from a random stream, with a uniform value (Golab 6.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from penstock.core.errors import PenstockError
from penstock.core.trace import Trace

TABLE_5 = {"S1": (10, 100, 500), "S2": (1, 100, 50), "S3": (1, 200, 40), "S4": (3, 100, 5)}
"""Golab's Table 5: rate, window in units of time, different values."""


def random_arrivals(rows: int, streams: Mapping[str, Sequence[float]], *, seed: int = 0) -> Trace:
    """`rows` tuples, one per tick: of stream i with probability rate_i over the sum of rates, its key uniform in 1..values_i.

    `streams` gives rate and number of values by name; whatever follows them, such as a window, is not used. A tick is a unit of
    time over the sum of rates, so a window of T units is one of T times that sum in ticks: see `in_ticks`.

    >>> trace = random_arrivals(1500, {"S1": (10, 500), "S2": (5, 2)})
    >>> int((trace.stream == 0).sum()), trace.streams
    (988, ('S1', 'S2'))
    """
    if rows < 1 or len(streams) < 2:
        raise PenstockError(f"random arrivals need at least one row and two streams, got {rows} rows, {len(streams)} streams")
    rates = np.array([spec[0] for spec in streams.values()], dtype=np.float64)
    values = np.array([spec[1] for spec in streams.values()], dtype=np.int64)
    if not (rates > 0).all() or (values < 1).any():
        raise PenstockError(f"random arrivals need rates above 0 and at least one value per stream, got {dict(streams)!r}")
    random = np.random.default_rng(seed)
    stream = random.choice(len(rates), size=rows, p=rates / rates.sum())
    key = random.integers(1, values[stream] + 1)
    names = pa.DictionaryArray.from_arrays(pa.array(stream), pa.array(list(streams)))
    columns = {"stream": names, "time": np.arange(rows), "key": key}
    return Trace(pa.table(columns), streams=tuple(streams))


def in_ticks(windows: Mapping[str, float], rates: Mapping[str, float]) -> dict[str, int]:
    """Windows in units of time as windows in ticks of `random_arrivals`.

    >>> in_ticks({"S1": 100, "S2": 200}, {"S1": 10, "S2": 5})
    {'S1': 1500, 'S2': 3000}
    """
    total = sum(rates.values())
    return {name: max(1, round(length * total)) for name, length in windows.items()}
