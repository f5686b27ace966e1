"""What `learned` has learned, as a small picture: how often a key comes in a partner stream, by the time since it last came there.

Of keys that come once the partner has seen none before. Where most rows find it so, these keys are also shown by the time since they came
in their own stream.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.core.duration import about, in_units, two_digits
from penstock.core.trace import Floats, Ints
from penstock.engine.chance_steps import COUNTS, GAP_ENDS, GAPS, ONE, Scale

_WIDTH = 32  # of the longest bar
_MANY = 0.5  # of the partner's rows, if their keys had not been there for a reach


def rates_by_gap(tables: Ints, streams: int, reach: float) -> Floats:
    """By stream, partner and step of the gap: arrivals in the partner per reach of a key that is in the stream's window; nan: unknown.

    The last step is that of keys that the partner has not seen, or not for a whole reach.

    >>> tables = np.zeros((3, 2 * 2 * COUNTS * GAPS * GAPS), dtype=np.int64)
    >>> tables[0, -1], tables[2, -1] = 50 * ONE, 1000
    >>> float(rates_by_gap(tables, 2, 100.0)[1, 1, -1])
    5.0
    """
    came, spent = _by_gaps(tables, streams)
    return _rates(came.sum(axis=-1), spent.sum(axis=-1), reach)


def rates_of_missing(tables: Ints, streams: int, reach: float) -> Floats:
    """The same of the last step alone, by the step of the time since the key came in its own stream.

    >>> tables = np.zeros((3, 2 * 2 * COUNTS * GAPS * GAPS), dtype=np.int64)
    >>> tables[0, -GAPS], tables[2, -GAPS] = 50 * ONE, 1000
    >>> float(rates_of_missing(tables, 2, 100.0)[1, 1, 0])
    5.0
    """
    came, spent = _by_gaps(tables, streams)
    return _rates(came[:, :, -1], spent[:, :, -1], reach)


def picture(tables: Ints, names: Sequence[str], scale: Scale) -> list[str]:
    """The rates as bars, a block for each stream and partner, or two; ticks are microseconds.

    Bars have one scale. The first step of a block has no part in it: rows of about the same time can make it as high as one likes. A bar
    that is longer ends with ">".
    """
    streams = len(names)
    by_gap, of_missing = (rates(tables, streams, scale.reach) for rates in (rates_by_gap, rates_of_missing))
    came, _ = _by_gaps(tables, streams)
    missing = came[:, :, -1].sum(axis=-1) > _MANY * came.sum(axis=(-2, -1))
    whole = in_units(scale.length)
    blocks: list[tuple[str, Floats]] = []
    for own, name in enumerate(names):
        for other, partner in enumerate(names):
            if other == own or not np.isfinite(by_gap[own, other]).any():
                continue
            if not came[own, other].any():
                blocks.append((f"a key in {name}: none of its rows has come in {partner}", np.empty(0)))
                continue
            what = f"its rows in {partner} per {whole}, by the time since"
            blocks.append((f"a key in {name}: {what} the last one there", by_gap[own, other]))
            if missing[own, other]:
                blocks.append((f"those in the last line: {what} its last one in {name}", of_missing[own, other]))
    if not blocks:
        return ["nothing yet"]
    ends = [about(end * scale.length) for end in GAP_ENDS[:-1]] + [whole]
    labels = [f"up to {end}" for end in ends] + ["longer, or never"]
    width, most = max(map(len, labels)), _most([rates for _, rates in blocks])
    lines = []
    for title, rates in blocks:
        lines.append(title)
        known = np.flatnonzero(np.isfinite(rates)).max(initial=-1) + 1  # none is known beyond the window of the own stream
        for label, rate in zip(labels[:known], rates[:known], strict=True):
            lines.append(f"  {label:<{width}}  {'-' if np.isnan(rate) else two_digits(rate):>6} {_bar(rate, most)}".rstrip())
    return lines


def _by_gaps(tables: Ints, streams: int) -> tuple[Ints, Ints]:
    """Arrivals, in parts of ONE, and ticks: by stream, partner, step of the gap and of the gap in the own stream."""
    came, _, spent = (table.reshape(streams, streams, COUNTS, GAPS, GAPS).sum(axis=2) for table in tables)
    return came, spent


def _rates(came: Ints, spent: Ints, reach: float) -> Floats:
    rates: Floats = np.full(came.shape, np.nan)
    np.divide(came / ONE * reach, spent, out=rates, where=spent > 0)
    return rates


def _most(blocks: Sequence[Floats]) -> float:
    """What the longest bar stands for."""
    later, all_steps = (max(float(np.nanmax(rates[begin:], initial=0.0)) for rates in blocks) for begin in (1, 0))
    return later or all_steps


def _bar(rate: float, most: float) -> str:
    if np.isnan(rate) or not most:
        return ""
    return "#" * round(_WIDTH * rate / most) if rate <= most else "#" * _WIDTH + ">"
