"""Synthetic streams: seeded traces with Zipf keys, bursts, disorder and importances.

The keys follow Das, section 5.2: every tuple draws its key independently from a Zipf distribution over a small domain,
and the streams agree, disagree or contradict each other in which keys are frequent. The importances follow Ojewole,
section 5, and Towne, section 4.1: frequent tuples are ordinary, rare ones matter.

Differs from the papers: neither gives a formula for importances. Here the keys of a stream are cut into groups of
equal size by frequency, and the levels of the groups rise geometrically.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.core.errors import PenstockError, choose
from penstock.core.trace import Trace

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST = 1_000_000_000  # rows of a stream, or keys
RANKS = ("correlated", "uncorrelated", "anti-correlated")
IMPORTANCE = ("rare", "uniform", "key")


def generate(
    n: int = 5600,
    *,
    streams: Sequence[str] = ("R", "S"),
    keys: int = 50,
    skew: float | Sequence[float] = 1.0,
    ranks: str = "uncorrelated",
    rate: float | Sequence[float] = 1.0,
    burst: str | None = None,
    disorder: int = 0,
    importance: str | None = None,
    groups: int = 5,
    top: int = 100,
    seed: int = 0,
) -> Trace:
    """A trace of `n` ticks, 0 to n - 1; at equal times the rows are in the order of `streams`.

    * `keys`, `skew`: keys are 0 to keys - 1, and the r-th most frequent key of a stream has a probability in proportion
      to r ** -skew; 0 is uniform. Skew and `rate` are one number, or one for each stream.
    * `ranks`: which keys are frequent. `uncorrelated`: drawn anew for each stream; `correlated`: the same ones in all
      streams; `anti-correlated`: the reverse in every second stream, so that frequent meets rare.
    * `rate`: tuples per tick. A whole number is met exactly in every tick, any other is the mean of a Poisson draw.
    * `burst`, "period:length:factor": the rate is multiplied in the last ticks of every period, in all streams. If that
      makes it fractional in any tick, all of the stream is Poisson.

          "5:2:3"      tick     0  1  2  3  4  5  6  7  8  9
                       tuples   1  1  1  3  3  1  1  1  3  3

    * `disorder`: every tuple arrives 0 to `disorder` ticks late, uniformly, and after those of its tick of arrival that
      are less late; `time` stays the time of the event.
    * `importance`: `rare` cuts the keys of each stream into `groups` of equal size by frequency; the levels go from 1,
      for the most frequent, geometrically up to `top`, in whole numbers. `key` gives a key the level that it has in the
      first stream, whatever the stream; `uniform` draws a whole number from 1 to `top` for every tuple.

    The same arguments give the same trace. Each stream, and each aspect of it, has a random sequence of its own: adding
    a stream, disorder or importances leaves the keys of the others as they were.

    >>> trace = generate(1000, skew=1.0, ranks="correlated", seed=7)
    >>> len(trace), trace.table.slice(0, 2).to_pylist()[1]
    (2000, {'stream': 'S', 'time': 0, 'key': 24})
    >>> sorted(set(generate(1000, importance="rare", seed=7).importance.tolist()))
    [1.0, 3.0, 10.0, 32.0, 100.0]
    """
    names = _names(streams)
    _whole("n", n, 1, "ticks")
    _whole("keys", keys, 1, "keys")
    _whole("disorder", disorder, 0, "ticks")
    _whole("seed", seed, 0)
    _whole("top", top, 1)
    _whole("groups", groups, 1)
    choose("ranks", ranks, RANKS)
    if importance is not None:
        choose("importance", importance, IMPORTANCE)
    if importance in ("rare", "key") and groups > keys:
        raise PenstockError(f"groups must be at most keys, {keys}, got {groups}")
    skews = _each("skew", skew, len(names), "a number >= 0", lambda value: value >= 0)
    rates = _each("rate", rate, len(names), "a number > 0", lambda value: value > 0)
    for argument, size in {"n": n, "keys": keys, "rate": n * max(rates)}.items():
        if size > MOST:
            raise PenstockError(f"{argument} must make at most {MOST:,} {'keys' if argument == 'keys' else 'rows'}, got {size:.3g}")
    if (n + disorder) * (disorder + 1) > 1 << 62:
        raise PenstockError(f"disorder must be a number of ticks that the trace can show, got {disorder}")
    boost = np.ones(n) if burst is None else _boost(burst, n)

    first: Ints = np.empty(0, np.int64)
    parts: list[tuple[Ints, Ints, Ints, Floats]] = []
    # Child i of a seed is the same whatever the number of children.
    for number, child in enumerate(np.random.SeedSequence(int(seed)).spawn(len(names))):
        for_ranks, for_counts, for_keys, for_delays, for_importance = map(np.random.default_rng, child.spawn(5))
        key_of_rank = for_ranks.permutation(keys)
        if number == 0:
            first = key_of_rank
        elif ranks != "uncorrelated":
            key_of_rank = first[::-1] if ranks == "anti-correlated" and number % 2 else first
        time = np.repeat(np.arange(n), _counts(rates[number] * boost, for_counts))
        key = key_of_rank[_draw(zipf_probabilities(keys, skews[number]), len(time), for_keys)]
        delay = for_delays.integers(0, disorder, len(time), endpoint=True)
        worth = np.empty(0)
        if importance == "uniform":
            worth = for_importance.integers(1, top, len(time), endpoint=True).astype(np.float64)
        elif importance is not None:
            worth = _levels(key_of_rank if importance == "rare" else first, groups, top)[key]
        place = (time + delay) * (disorder + 1) + delay
        parts.append((time, key, place, worth))

    time, key, place, worth = (np.concatenate(column) for column in zip(*parts, strict=True))
    if len(time) == 0:
        raise PenstockError(f"rate must give at least one tuple in {n} ticks, got {rate!r}")
    stream = np.repeat(np.arange(len(names)), [len(part[0]) for part in parts])
    order = np.argsort(place, kind="stable")
    columns = {
        "stream": pa.array(names, pa.string()).take(pa.array(stream[order])),
        "time": time[order],
        "key": key[order],
    }
    if importance is not None:
        columns["importance"] = worth[order]
    return Trace(columns, streams=names)


def zipf_probabilities(keys: int, skew: float) -> Floats:
    """The probabilities of ranks 1 to `keys`, in proportion to rank ** -skew.

    >>> zipf_probabilities(3, 1.0).round(3).tolist()
    [0.545, 0.273, 0.182]
    """
    _whole("keys", keys, 1, "keys")
    (skew,) = _each("skew", skew, 1, "a number >= 0", lambda value: value >= 0)
    weights = np.arange(1, keys + 1, dtype=np.float64) ** -skew
    return np.asarray(weights / weights.sum())


def _draw(probabilities: Floats, size: int, rng: np.random.Generator) -> Ints:
    cumulative = np.cumsum(probabilities)
    return np.searchsorted(cumulative / cumulative[-1], rng.random(size), side="right")


def _counts(means: Floats, rng: np.random.Generator) -> Ints:
    """How many tuples arrive in each tick."""
    return means.astype(np.int64) if np.all(means == np.rint(means)) else rng.poisson(means)


def _levels(key_of_rank: Ints, groups: int, top: int) -> Floats:
    """The importance of each key. Whole numbers, so that sums of importances are the same in any order."""
    levels = np.rint(np.geomspace(1, top, groups))
    of_key = np.empty(len(key_of_rank))
    of_key[key_of_rank] = levels[np.arange(len(key_of_rank)) * groups // len(key_of_rank)]
    return of_key


def _boost(burst: object, n: int) -> Floats:
    """The factor on the rate in each tick."""
    try:
        first, second, third = str(burst).split(":")
        period, length, factor = int(first), int(second), float(third)
    except ValueError:
        period = length = 0
        factor = math.nan
    if not (1 <= length <= period and 0 < factor < math.inf):
        raise PenstockError(
            "burst must be period:length:factor, two whole numbers with length <= period and a factor > 0, "
            f'such as "100:10:5", got {burst!r}'
        )
    return np.where(np.arange(n) % period >= period - length, factor, 1.0)


def _names(streams: object) -> tuple[str, ...]:
    names = tuple(streams) if isinstance(streams, list | tuple) else ()
    if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise PenstockError(f'streams must be a list of different names such as ("R", "S"), got {streams!r}')
    return names


def _whole(argument: str, got: object, least: int, unit: str = "") -> None:
    if isinstance(got, bool) or not isinstance(got, int | np.integer) or got < least:
        raise PenstockError(f"{argument} must be a whole number {f'of {unit} ' if unit else ''}>= {least}, got {got!r}")


def _each(argument: str, got: Any, n: int, wanted: str, fits: Callable[[float], bool]) -> list[float]:
    """One number per stream, from one for all or a sequence."""
    values = [got] * n if isinstance(got, Real) else list(got) if isinstance(got, list | tuple | np.ndarray) else []
    numbers = [float(value) for value in values if not isinstance(value, bool) and isinstance(value, Real)]
    if len(values) != n or len(numbers) != n or not all(math.isfinite(x) and fits(x) for x in numbers):
        raise PenstockError(f"{argument} must be {wanted} or one per stream, got {got!r}")
    return numbers
