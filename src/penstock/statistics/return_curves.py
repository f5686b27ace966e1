"""What `learned` has learned, as a small picture: how often a key comes in a partner stream, by the time since it last came there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from penstock.core.trace import Floats, Ints
from penstock.engine.chance_steps import COUNTS, GAP_ENDS, GAPS, ONE, Scale

_WIDTH = 32  # of the longest bar


def rates_by_gap(tables: Ints, streams: int, reach: float) -> Floats:
    """By stream, partner and step of the gap: arrivals in the partner per reach of a key that is in the stream's window; nan: unknown.

    The last step is that of keys that the partner has not seen, or not for a whole reach.

    >>> tables = np.zeros((3, 2 * 2 * COUNTS * GAPS * GAPS), dtype=np.int64)
    >>> tables[0, -1], tables[2, -1] = 50 * ONE, 1000
    >>> float(rates_by_gap(tables, 2, 100.0)[1, 1, -1])
    5.0
    """
    came, _, spent = (table.reshape(streams, streams, COUNTS, GAPS, GAPS).sum(axis=(2, 4)) for table in tables)
    rates: Floats = np.full(came.shape, np.nan)
    np.divide(came / ONE * reach, spent, out=rates, where=spent > 0)
    return rates


def picture(tables: Ints, names: Sequence[str], scale: Scale, told: Callable[[float], str]) -> list[str]:
    """The rates as bars, a block for each stream and partner; `told` names a length of so many ticks."""
    rates = rates_by_gap(tables, len(names), scale.reach)
    if not np.isfinite(rates).any():
        return ["nothing yet"]
    lines = []
    most = np.nanmax(rates)
    whole = told(scale.reach * (1 << scale.shift))
    labels = [f"up to {told(end * scale.reach * (1 << scale.shift))}" for end in GAP_ENDS] + ["longer, or never"]
    width = max(map(len, labels))
    for own, name in enumerate(names):
        for other, partner in enumerate(names):
            if other == own or not np.isfinite(rates[own, other]).any():
                continue
            lines.append(f"a key in {name}: its rows in {partner} per {whole}, by the time since the last one there")
            for label, rate in zip(labels, rates[own, other], strict=True):
                bar = "" if np.isnan(rate) else "#" * round(_WIDTH * rate / most)
                lines.append(f"  {label:<{width}}  {'-' if np.isnan(rate) else f'{rate:.3g}':>6} {bar}".rstrip())
    return lines
