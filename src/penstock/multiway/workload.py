"""Golab's workload: one tuple per tick, from a random stream, with a uniform value (Golab 6.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.errors import PenstockError
from penstock.core.trace import Trace

TABLE_5 = {"S1": (10, 100, 500), "S2": (1, 100, 50), "S3": (1, 200, 40), "S4": (3, 100, 5)}
"""Golab's Table 5: rate, window in units of time, different values."""


def random_arrivals(rows: int, streams: Mapping[str, tuple[float, float | Mapping[str, float]]], *, seed: int = 0) -> Trace:
    """`rows` tuples, one per tick: of stream i with probability rate_i over the sum of rates, its key uniform in 1..values_i.

    `streams` gives rate and number of values by name; instead of the key, columns with a number each make a trace without one. A tick
    is a unit of time over the sum of rates, so a window of T units is one of T times that sum in ticks: see `in_ticks`.

    >>> trace = random_arrivals(15_000, {"S1": (10, 500), "S2": (5, 2)})
    >>> round(float((trace.stream == 0).mean()), 1), trace.streams
    (0.7, ('S1', 'S2'))
    >>> random_arrivals(9, {"R": (1, {"a": 5}), "S": (1, {"a": 5, "b": 2})}).table.column_names
    ['stream', 'time', 'a', 'b']
    """
    if rows < 1 or len(streams) < 2:
        raise PenstockError(f"random arrivals need at least one row and two streams, got {rows} rows, {len(streams)} streams")
    rates = np.array([rate for rate, _ in streams.values()], dtype=np.float64)
    values = [of if isinstance(of, Mapping) else {"key": of} for _, of in streams.values()]
    if not (rates > 0).all() or any(number < 1 for columns in values for number in columns.values()):
        raise PenstockError(f"random arrivals need rates above 0 and at least one value per stream, got {dict(streams)!r}")
    random = np.random.default_rng(seed)
    stream = random.choice(len(rates), size=rows, p=rates / rates.sum())
    names = pa.DictionaryArray.from_arrays(pa.array(stream), pa.array(list(streams)))
    table: dict[str, Any] = {"stream": names, "time": np.arange(rows)}
    for column in dict.fromkeys(name for columns in values for name in columns):
        most = np.array([round(columns.get(column, 0)) for columns in values], dtype=np.int64)[stream]
        table[column] = pa.array(random.integers(1, np.maximum(most, 1) + 1), mask=most == 0)
    return Trace(pa.table(table), key="key" if list(table) == ["stream", "time", "key"] else (), streams=tuple(streams))


def in_ticks(windows: Mapping[str, float], rates: Mapping[str, float]) -> dict[str, int]:
    """Windows in units of time as windows in ticks of `random_arrivals`.

    >>> in_ticks({"S1": 100, "S2": 200}, {"S1": 10, "S2": 5})
    {'S1': 1500, 'S2': 3000}
    """
    total = sum(rates.values())
    return {name: max(1, round(length * total)) for name, length in windows.items()}
