"""Synthetic streams whose keys visit them in some order: Kwon's data sets (5, 5.6).

Every key draws an *order*, one of all ordered selections of streams (for R and S: R, S, R then S, S then R; 325 for five streams), from a
Zipf distribution over them, and appears once in each of these streams, one after the other, with a delay between two visits.

Differs from the paper, which gives neither delays nor filling: keys begin evenly over the ticks, so many that all streams together have
`rate` tuples per stream and tick; delays are drawn (`delay`); the rates of single streams follow from the orders. Which order is the
most frequent is drawn, and with `first="complete"` is one that visits all streams, without which a skewed data set may have no outputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.core.errors import PenstockError, choose
from penstock.core.trace import Trace

Ints = NDArray[np.int64]
MOST_STREAMS = 7  # 13,699 orders
MEAN = 100  # of keys that repeat
FIRST = ("any", "complete")


def all_orders(n: int) -> list[tuple[int, ...]]:
    """Every ordered selection of 1 to n streams.

    >>> all_orders(2), len(all_orders(5))
    ([(0,), (1,), (0, 1), (1, 0)], 325)
    """
    return [order for size in range(1, n + 1) for order in permutations(range(n), size)]


def visits(
    n: int,
    *,
    streams: Sequence[str],
    orders: float,
    delay: float | str = 100,
    rate: float = 1.0,
    repeats: float | None = None,
    first: str = "any",
    seed: int = 0,
) -> Trace:
    """A trace of `n` ticks in which every key visits some streams; the rows are in order of time.

    * `orders`: the Zipf exponent of the distribution over orders; 0 is uniform.
    * `delay`: ticks between two visits of a key: the mean of an exponential draw (at least 1 tick), or "fixed:60" for always 60.
    * `repeats`: None for keys that never repeat; else keys are whole numbers from a normal distribution of this variance.

    >>> trace = visits(1000, streams=("R", "S", "T"), orders=1.0, delay=20, seed=1)
    >>> len(trace), len(set(zip(trace.stream.tolist(), trace.key.tolist()))) == len(trace)
    (2992, True)
    """
    _check(n, streams, orders, rate, repeats, first)
    mean, fixed = _delay(delay)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(5,)))
    places = all_orders(len(streams))
    rank = rng.permutation(len(places))
    if first == "complete":
        complete = next(number for number in rank if len(places[number]) == len(streams))
        rank = np.concatenate([[complete], rank[rank != complete]])
    weights = np.arange(1, len(places) + 1, dtype=np.float64) ** -float(orders)
    probability = np.empty(len(places))
    probability[rank] = weights / weights.sum()
    length = float(probability @ [len(order) for order in places])
    n_keys = max(1, round(n * rate * len(streams) / length))
    path = np.full((len(places), len(streams)), -1)
    for number, order in enumerate(places):
        path[number, : len(order)] = order

    chosen = rng.choice(len(places), size=n_keys, p=probability)
    begin = np.sort(rng.integers(0, n, n_keys))
    key = np.arange(n_keys) if repeats is None else np.rint(rng.normal(MEAN, math.sqrt(repeats), n_keys)).astype(np.int64)
    waits = np.full((n_keys, len(streams)), mean) if fixed else rng.exponential(mean, (n_keys, len(streams)))
    waits = np.maximum(1, np.rint(waits)).astype(np.int64)
    waits[:, 0] = 0
    time = begin[:, None] + np.cumsum(waits, axis=1)
    stream = path[chosen]
    here = (stream >= 0) & (time < n)
    rows = np.flatnonzero(here.reshape(-1))
    rows = rows[np.argsort(time.reshape(-1)[rows], kind="stable")]
    columns = {
        "stream": pa.array(list(streams), pa.string()).take(pa.array(stream.reshape(-1)[rows])),
        "time": pa.array(time.reshape(-1)[rows]),
        "key": pa.array(np.repeat(key, len(streams))[rows]),
    }
    return Trace(pa.table(columns), streams=tuple(streams))


def _check(n: int, streams: Sequence[str], orders: Any, rate: Any, repeats: Any, first: str) -> None:
    if len(streams) > MOST_STREAMS:
        raise PenstockError(f"streams must be at most {MOST_STREAMS} where keys visit them in orders, got {len(streams)}")
    choose("first", first, FIRST)
    for name, value, zero in (("orders", orders, True), ("rate", rate, False), ("repeats", repeats, False)):
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf or (value == 0 and not zero):
            raise PenstockError(f"{name} must be a number {'>=' if zero else '>'} 0 where keys visit streams in orders, got {value!r}")
    if n * rate * len(streams) > 1e9:
        raise PenstockError(f"rate must make at most 1,000,000,000 rows, got {n * rate * len(streams):.3g}")


def _delay(delay: Any) -> tuple[float, bool]:
    text = str(delay)
    fixed = text.startswith("fixed:")
    try:
        mean = float(text.removeprefix("fixed:"))
    except ValueError:
        mean = math.nan
    if isinstance(delay, bool) or not 1 <= mean < 1 << 40:
        raise PenstockError(f'delay must be a mean number of ticks >= 1, or "fixed:60", got {delay!r}')
    return mean, fixed
