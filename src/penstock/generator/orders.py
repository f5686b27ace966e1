"""Synthetic streams whose keys visit them in some order: Kwon's data sets (5, 5.6).

Every key draws an *order*, one of all ordered selections of streams (for R and S: R, S, R then S, S then R; 325 for five streams), from a
Zipf distribution over them, and appears once in each of these streams, one after the other, with a delay between two visits.

Differs from the paper, which gives neither delays nor filling: keys begin evenly over the ticks, so many that all streams together have
`rate` tuples per stream and tick; delays are drawn (`delay`); the rates of single streams follow from the orders. Which order is the
most frequent is drawn, and with `first="complete"` is one that visits all streams, without which a skewed data set may have no outputs.
With `orders="listed"` all keys go one way, that in which the streams are listed (order, then payment), and `alone` is the share of keys
that never come further than their first visit (orders that are not paid).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.errors import PenstockError, choose
from penstock.core.trace import Floats, Trace
from penstock.generator.delays import Delay

MOST_STREAMS = 7  # 13,699 orders
MEAN = 100  # of keys that repeat
FIRST = ("any", "complete")
LISTED = "listed"


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
    orders: float | str,
    delay: float | str = 100,
    rate: float = 1.0,
    alone: float = 0.0,
    repeats: float | None = None,
    first: str = "any",
    seed: int = 0,
) -> Trace:
    """A trace of `n` ticks in which every key visits some streams; the rows are in order of time.

    * `orders`: the Zipf exponent of the distribution over orders, 0 is uniform; or "listed", for the order of `streams` alone.
    * `delay`: ticks between two visits of a key (`penstock.generator.delays`): the mean of an exponential draw, or "gamma:2:60".
    * `alone`: the share of keys that have their first visit alone, and so no partner.
    * `repeats`: None for keys that never repeat; else keys are whole numbers from a normal distribution of this variance.

    >>> trace = visits(1000, streams=("R", "S", "T"), orders=1.0, delay=20, seed=1)
    >>> len(trace), len(set(zip(trace.stream.tolist(), trace.key.tolist()))) == len(trace)
    (2992, True)
    >>> paid = visits(1000, streams=("order", "payment"), orders="listed", alone=0.3, delay="gamma:2:60", seed=1)
    >>> np.bincount(paid.stream).tolist()
    [1176, 776]
    """
    _check(n, streams, orders, rate, alone, repeats, first)
    pause = Delay.parse(delay)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(5,)))
    places, probability = _ways(len(streams), orders, first, rng)
    length = alone + (1 - alone) * float(probability @ [len(order) for order in places])
    n_keys = max(1, round(n * rate * len(streams) / length))
    path = np.full((len(places), len(streams)), -1)
    for number, order in enumerate(places):
        path[number, : len(order)] = order

    chosen = rng.choice(len(places), size=n_keys, p=probability)
    begin = np.sort(rng.integers(0, n, n_keys))
    key = np.arange(n_keys) if repeats is None else np.rint(rng.normal(MEAN, math.sqrt(repeats), n_keys)).astype(np.int64)
    waits = pause.draw(rng, (n_keys, len(streams)))
    waits[:, 0] = 0
    time = begin[:, None] + np.cumsum(waits, axis=1)
    stream = path[chosen]
    stream[rng.random(n_keys) < alone, 1:] = -1
    here = (stream >= 0) & (time < n)
    rows = np.flatnonzero(here.reshape(-1))
    rows = rows[np.argsort(time.reshape(-1)[rows], kind="stable")]
    columns = {
        "stream": pa.array(list(streams), pa.string()).take(pa.array(stream.reshape(-1)[rows])),
        "time": pa.array(time.reshape(-1)[rows]),
        "key": pa.array(np.repeat(key, len(streams))[rows]),
    }
    return Trace(pa.table(columns), streams=tuple(streams))


def _ways(n: int, orders: float | str, first: str, rng: np.random.Generator) -> tuple[list[tuple[int, ...]], Floats]:
    """The orders that there are, and their probabilities."""
    if orders == LISTED:
        return [tuple(range(n))], np.ones(1)
    places = all_orders(n)
    rank = rng.permutation(len(places))
    if first == "complete":
        complete = next(number for number in rank if len(places[number]) == n)
        rank = np.concatenate([[complete], rank[rank != complete]])
    weights = np.arange(1, len(places) + 1, dtype=np.float64) ** -float(orders)
    probability = np.empty(len(places))
    probability[rank] = weights / weights.sum()
    return places, probability


def _check(n: int, streams: Sequence[str], orders: Any, rate: Any, alone: Any, repeats: Any, first: str) -> None:
    if len(streams) > MOST_STREAMS and orders != LISTED:
        raise PenstockError(f"streams must be at most {MOST_STREAMS} where keys visit them in orders, got {len(streams)}")
    choose("first", first, FIRST)
    if orders != LISTED and not (_number(orders) and orders >= 0):
        raise PenstockError(f'orders must be a number >= 0, the Zipf exponent of the orders, or "listed", got {orders!r}')
    if orders == LISTED and first != "any":
        raise PenstockError(f'first must be left out with orders="listed", where there is one order, got {first!r}')
    if not (_number(alone) and 0 <= alone <= 1):
        raise PenstockError(f"alone must be a share from 0 to 1, got {alone!r}")
    for name, value in (("rate", rate), ("repeats", repeats)):
        if value is not None and not (_number(value) and value > 0):
            raise PenstockError(f"{name} must be a number > 0 where keys visit streams in orders, got {value!r}")
    if n * rate * len(streams) > 1e9:
        raise PenstockError(f"rate must make at most 1,000,000,000 rows, got {n * rate * len(streams):.3g}")


def _number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value)
