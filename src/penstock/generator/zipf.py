"""Keys that are drawn one by one: Zipf keys, bursts, disorder and importances.

The keys follow Das, section 5.2: every tuple draws its key independently from a Zipf distribution over a small domain,
and the streams agree, disagree or contradict each other in which keys are frequent. The importances follow Ojewole,
section 5, and Towne, section 4.1: frequent tuples are ordinary, rare ones matter.

Differs from the papers: neither gives a formula for importances. Here the keys of a stream are cut into groups of
equal size by frequency, and the levels of the groups rise geometrically (`rare`); or the rarest keys, with a given
share of the tuples, are special and all others are alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.errors import PenstockError, choose
from penstock.core.trace import Floats, Ints, Trace
from penstock.generator.arguments import check_whole, keys_per_stream, one_per_stream, stream_names

MOST = 1_000_000_000  # rows of a stream, or keys
RANKS = ("correlated", "uncorrelated", "anti-correlated")
IMPORTANCE = ("rare", "uniform", "key")
SPECIAL = "special:"
"""Followed by a share: so many of the tuples are special."""


def one_by_one(n: int, rate: Any, *, disorder: int, **options: Any) -> Trace:
    """Keys that are drawn one by one."""
    made = Generator(rate=rate, disorder=disorder, **options)
    for argument, size in {"n": n, "rate": n * max(made.rates)}.items():
        if size > MOST:
            raise PenstockError(f"{argument} must make at most {MOST:,} rows, got {size:.3g}")
    if (n + disorder) * (disorder + 1) > 1 << 62:
        raise PenstockError(f"disorder must be a number of ticks that the trace can show, got {disorder}")
    table = made.whole(n)
    if len(table) == 0:
        raise PenstockError(f"rate must give at least one tuple in {n} ticks, got {rate!r}")
    return Trace(table, streams=made.streams)


class Generator:
    """Streams without end, of which any stretch can be made by itself; the arguments are those of `generate`.

    The ticks are drawn in chunks, each from a random sequence of its own, so that a stretch costs what it holds and has the
    same rows whoever asks, and however the stretches are cut. (The draws are others than those of `generate`.)

    >>> made = Generator(keys=50, burst="100:10:5", seed=7)
    >>> whole, begin, end = made.arrivals(0, 300), made.arrivals(0, 123), made.arrivals(123, 300)
    >>> len(whole), whole.equals(pa.concat_tables([begin, end]).combine_chunks())
    (840, True)
    """

    def __init__(
        self,
        *,
        streams: Sequence[str] = ("R", "S"),
        keys: int | Sequence[int] = 50,
        skew: float | Sequence[float] = 1.0,
        ranks: str = "uncorrelated",
        rate: float | Sequence[float] = 1.0,
        burst: str | None = None,
        disorder: int = 0,
        importance: str | None = None,
        groups: int = 5,
        top: int = 100,
        drift: int | None = None,
        seed: int = 0,
    ) -> None:
        self.streams = stream_names(streams)
        self.keys = keys_per_stream(keys, len(self.streams))
        check_whole("disorder", disorder, 0, "ticks")
        check_whole("seed", seed, 0)
        check_whole("top", top, 1)
        check_whole("groups", groups, 1)
        if drift is not None:
            check_whole("drift", drift, 1, "ticks")
        choose("ranks", ranks, RANKS)
        self.special = _special(importance)
        if importance is not None and self.special is None:
            choose("importance", importance, (*IMPORTANCE, f"{SPECIAL}SHARE"))
        if importance in ("rare", "key") and groups > min(self.keys):
            raise PenstockError(f"groups must be at most keys, {min(self.keys)}, got {groups}")
        if max(self.keys) > MOST:
            raise PenstockError(f"keys must make at most {MOST:,} keys, got {max(self.keys):.3g}")
        if len(set(self.keys)) > 1 and (ranks != "uncorrelated" or importance == "key"):
            told = "ranks to be uncorrelated" if ranks != "uncorrelated" else "importance to be other than 'key'"
            raise PenstockError(f"keys that differ by stream need {told}, got keys={keys!r}")
        skews = one_per_stream("skew", skew, len(self.streams), "a number >= 0", lambda value: value >= 0)
        self.rates = one_per_stream("rate", rate, len(self.streams), "a number > 0", lambda value: value > 0)
        self.burst = (1, 0, 1.0) if burst is None else _burst(burst)
        self.disorder, self.importance, self.top, self.seed = disorder, importance, top, int(seed)
        self.ranks, self.groups, self._skews, self.drift = ranks, groups, skews, drift

    @property
    def rows_per_tick(self) -> float:
        """The mean, over all streams and whole periods of bursts."""
        period, length, factor = self.burst
        return sum(self.rates) * (period - length + length * factor) / period

    @property
    def chunk(self) -> int:
        """How many ticks are drawn together: about 50,000 rows."""
        return max(1, min(1000, round(50_000 / self.rows_per_tick)))

    @cached_property
    def _key_of_rank(self) -> list[Ints]:
        if self.ranks == "uncorrelated":
            return [self._random(number, 0).permutation(keys) for number, keys in enumerate(self.keys)]
        first = self._random(0, 0).permutation(self.keys[0])
        return [first[::-1] if self.ranks == "anti-correlated" and number % 2 else first for number in range(len(self.streams))]

    @cached_property
    def _probabilities(self) -> list[Floats]:
        return [zipf_probabilities(keys, skew) for keys, skew in zip(self.keys, self._skews, strict=True)]

    @cached_property
    def _levels(self) -> list[Floats]:
        if self.special is not None:
            pairs = zip(self._key_of_rank, self._probabilities, strict=True)
            return [_special_levels(own, chances, self.special, self.top) for own, chances in pairs]
        return [_levels(own, self.groups, self.top) for own in self._key_of_rank]

    def whole(self, n: int) -> pa.Table:
        """All rows of the ticks 0 to n - 1, drawn at once."""
        return self._table([self._draw(number, 0, n, ()) for number in range(len(self.streams))])

    def arrivals(self, begin: int, end: int, last: int | None = None) -> pa.Table:
        """The rows that arrive in the ticks `begin` to end - 1; with `last`, only those of events before that tick."""
        stop = end if last is None else min(end, last)
        chunks = range(max(0, begin - self.disorder) // self.chunk, -(-stop // self.chunk))
        parts = []
        for number in range(len(self.streams)):
            drawn = [self._draw(number, at * self.chunk, (at + 1) * self.chunk, (at,)) for at in chunks]
            time, key, place, worth = (np.concatenate(column) for column in zip(_NO_ROWS, *drawn, strict=True))
            arrival = place // (self.disorder + 1)
            mine = (arrival >= begin) & (arrival < end) & (time < stop)
            parts.append((time[mine], key[mine], place[mine], worth[mine] if len(worth) else worth))
        return self._table(parts)

    def _random(self, stream: int, aspect: int, chunk: tuple[int, ...] = ()) -> np.random.Generator:
        """The random sequence of an aspect of a stream: that child of the seed, whatever other children there are."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(stream, aspect, *chunk)))

    def _draw(self, number: int, begin: int, end: int, chunk: tuple[int, ...]) -> tuple[Ints, Ints, Ints, Floats]:
        """Rows of a stream from tick to tick: time, key, place in the order of arrival, importance."""
        for_counts, for_keys, for_delays, for_importance = (self._random(number, aspect, chunk) for aspect in range(1, 5))
        time = np.repeat(np.arange(begin, end), self._counts(number, np.arange(begin, end), for_counts, chunk))
        key = self._key_of_rank[number][_draw(self._probabilities[number], len(time), for_keys)]
        delay = for_delays.integers(0, self.disorder, len(time), endpoint=True)
        worth = np.empty(0)
        if self.importance == "uniform":
            worth = for_importance.integers(1, self.top, len(time), endpoint=True).astype(np.float64)
        elif self.importance is not None:
            worth = self._levels[0 if self.importance == "key" else number][key]
        if self.drift is not None:
            key = key + time // self.drift * self.keys[number]
        return time, key, (time + delay) * (self.disorder + 1) + delay, worth

    def _counts(self, number: int, tick: Ints, rng: np.random.Generator, chunk: tuple[int, ...]) -> Ints:
        """How many tuples arrive in each tick."""
        means = self._means(number, tick)
        # Whether a stream is Poisson depends on all of its ticks, and not on those of a chunk.
        every = self._means(number, np.array([0, self.burst[0] - 1])) if chunk else means
        return means.astype(np.int64) if np.all(every == np.rint(every)) else rng.poisson(means)

    def _means(self, number: int, tick: Ints) -> Floats:
        period, length, factor = self.burst
        return self.rates[number] * np.where(tick % period >= period - length, factor, 1.0)

    def _table(self, parts: Sequence[tuple[Ints, Ints, Ints, Floats]]) -> pa.Table:
        """The rows of all streams in the order of arrival."""
        time, key, place, worth = (np.concatenate(column) for column in zip(*parts, strict=True))
        stream = np.repeat(np.arange(len(self.streams)), [len(part[0]) for part in parts])
        order = np.argsort(place, kind="stable")
        columns = {
            "stream": pa.array(self.streams, pa.string()).take(pa.array(stream[order])),
            "time": pa.array(time[order]),
            "key": pa.array(key[order]),
        }
        if self.importance is not None:
            columns["importance"] = pa.array(worth[order])
        return pa.table(columns)


_NO_ROWS = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


def with_times(table: pa.Table, start: int, length: int) -> pa.Table:
    """Ticks as timestamps: `start` is the time of tick 0 and `length` that of a tick, in microseconds.

    >>> with_times(pa.table({"time": [0, 2]}), 0, 1_000_000)["time"].to_pylist()[1].isoformat()
    '1970-01-01T00:00:02+00:00'
    """
    times = pa.array(np.asarray(table["time"]) * length + start).cast(pa.timestamp("us", tz="UTC"))
    return table.set_column(table.column_names.index("time"), "time", times)


def zipf_probabilities(keys: int, skew: float) -> Floats:
    """The probabilities of ranks 1 to `keys`, in proportion to rank ** -skew.

    >>> zipf_probabilities(3, 1.0).round(3).tolist()
    [0.545, 0.273, 0.182]
    """
    check_whole("keys", keys, 1, "keys")
    (skew,) = one_per_stream("skew", skew, 1, "a number >= 0", lambda value: value >= 0)
    weights = np.arange(1, keys + 1, dtype=np.float64) ** -skew
    return np.asarray(weights / weights.sum())


def _draw(probabilities: Floats, size: int, rng: np.random.Generator) -> Ints:
    cumulative = np.cumsum(probabilities)
    return np.searchsorted(cumulative / cumulative[-1], rng.random(size), side="right")


def _levels(key_of_rank: Ints, groups: int, top: int) -> Floats:
    """The importance of each key. Whole numbers, so that sums of importances are the same in any order."""
    levels = np.rint(np.geomspace(1, top, groups))
    of_key = np.empty(len(key_of_rank))
    of_key[key_of_rank] = levels[np.arange(len(key_of_rank)) * groups // len(key_of_rank)]
    return of_key


def _special(importance: object) -> float | None:
    """The share of the tuples that is special, where that is asked for."""
    if not isinstance(importance, str) or not importance.startswith(SPECIAL):
        return None
    try:
        share = float(importance.removeprefix(SPECIAL))
    except ValueError:
        share = math.nan
    if not 0 < share < 1:
        raise PenstockError(f'importance must be "special:" and a share between 0 and 1, such as "special:0.05", got {importance!r}')
    return share


def _special_levels(key_of_rank: Ints, probabilities: Floats, share: float, top: int) -> Floats:
    """`top` for the rarest keys, as many as come nearest to such a share of the tuples and at least one; 1 for the others."""
    taken = np.cumsum(probabilities[::-1])
    count = max(1, int(np.argmin(np.abs(taken - share))) + 1)
    of_key = np.ones(len(key_of_rank))
    of_key[key_of_rank[len(key_of_rank) - count :]] = top
    return of_key


def _burst(burst: object) -> tuple[int, int, float]:
    """Period, length and factor of a burst."""
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
    return period, length, factor
