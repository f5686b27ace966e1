"""What a trace, or a part of it, shows of its streams: the numbers that a join order is chosen by (Golab 5.4).

Costs are per unit of time, and which unit does not matter for the order. A tick is one, unless the trace is so long in ticks, as in
microseconds, that products of its numbers would lose their meaning.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.core.trace import Ints
from penstock.core.window import Window
from penstock.multiway.linked_windows import Tuples
from penstock.multiway.pair_checks import Condition
from penstock.multiway.stats import WindowStats

_STILL = 1e-9  # tuples per tick of a stream that shows none
_LONGEST = 1e9  # units of time in a trace
_SAMPLE = 200  # tuples of each stream that are tried with each other where a selectivity cannot be counted


def observed_streams(tuples: Tuples, condition: Condition, windows: Sequence[Window], buckets: Sequence[int]) -> list[WindowStats]:
    """The streams as `order_joins` takes them: rates, windows and numbers of values, as the rows show them."""
    names = condition.graph.streams
    unit = unit_of(tuples)
    rates = observed_rates(tuples, names, slice(None))
    found = []
    for number, name in enumerate(names):
        mine = tuples.stream == number
        distinct: dict[str, float] = {}
        for link, check in zip(condition.graph.links, condition.numbers, strict=True):
            if number in (link.low, link.high):
                values = condition.links.codes[mine, ~check] if check < 0 else condition.links.values[mine, condition.links.at[check]]
                distinct |= dict.fromkeys(link.columns_of(number), max(1.0, float(len(np.unique(values)))))
        counts_rows = windows[number].kind == "rows"
        window = f"rows:{min(windows[number].length, len(mine))}" if counts_rows else max(1.0, _stay(tuples, mine) / unit)
        found.append(WindowStats(name, max(rates[name], _STILL), window, distinct or 1, max(1, buckets[number])))
    return found


def observed_rates(tuples: Tuples, streams: Sequence[str], part: slice) -> dict[str, float]:
    """Tuples of each stream per unit of time."""
    time = tuples.time[part]
    counts = np.bincount(tuples.stream[part], minlength=len(streams)) * unit_of(tuples)
    return {name: float(count) / float(time[-1] - time[0] + 1) for name, count in zip(streams, counts, strict=True)}


def unit_of(tuples: Tuples) -> float:
    """The unit of time, in ticks."""
    return max(1.0, float(tuples.time[-1] - tuples.time[0]) / _LONGEST)


def in_units(tuples: Tuples, ticks: int) -> float | None:
    """An interval; None for 0, which is none."""
    return min(max(1.0, ticks / unit_of(tuples)), _LONGEST) if ticks else None


def observed_selectivities(tuples: Tuples, condition: Condition, part: slice, *, seed: int = 0) -> dict[tuple[str, str], float]:
    """The share of matching pairs of every two linked streams that both show tuples: counted for equality, else by a sample."""
    random = np.random.default_rng(seed)
    names, stream = condition.graph.streams, tuples.stream[part]
    found: dict[tuple[str, str], float] = {}
    for link in condition.graph.links:
        pair = names[link.low], names[link.high]
        low, high = (np.flatnonzero(stream == s) + (part.start or 0) for s in (link.low, link.high))
        if pair in found or not len(low) or not len(high):
            continue
        checks = [check for check, _ in condition.checks(link.high, [link.low])]
        if len(checks) == 1 and checks[0] < 0:
            codes = condition.links.codes[:, ~checks[0]]
            counts = [np.bincount(codes[rows][codes[rows] >= 0], minlength=condition.distinct) for rows in (low, high)]
            found[pair] = float(counts[0] @ counts[1]) / (len(low) * len(high))
        else:
            few = [random.permutation(rows)[:_SAMPLE] for rows in (low, high)]
            found[pair] = float(np.mean(np.logical_and.reduce([_fits(condition, check, *few) for check in checks])))
    return found


def _fits(condition: Condition, check: int, low: Ints, high: Ints) -> NDArray[np.bool_]:
    """Which tuples of one stream pass a check with which of another."""
    if check < 0:
        a, b = (condition.links.codes[rows, ~check] for rows in (low, high))
        return np.equal(a[:, None], b[None, :]) & (b >= 0)
    at = slice(int(condition.links.at[check]), int(condition.links.end[check]))
    one, other = condition.links.values[low, at], condition.links.values[high, at]
    unknown = np.add.outer(np.isnan(one).sum(axis=1), np.isnan(other).sum(axis=1)) > 0
    return ~unknown & condition.rest[check].predicate.matrix(one, other)


def _stay(tuples: Tuples, mine: NDArray[np.bool_]) -> float:
    """How long, on average, a tuple is in its window, in ticks; the end of the trace ends it."""
    starts = np.append(np.flatnonzero(np.diff(tuples.time, prepend=tuples.time[0] - 1)), len(tuples.time) - 1)
    ends = tuples.time[starts[np.minimum(tuples.out[mine], len(starts) - 1)]]
    return float((ends - tuples.time[mine]).mean()) if mine.any() else 0.0
