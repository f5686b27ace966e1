"""A trace in the order in which it is played where rows that are ahead wait (clock_limit.py): some hundred rows are judged together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from penstock.core.clock_limit import Front, Limit, counts_by_cell
from penstock.core.trace import Ints, Trace

if TYPE_CHECKING:
    from penstock.engine.run import JoinRun

_TOGETHER = 256


def order_of_play(time: Ints, limit: Limit) -> tuple[Ints, int]:
    """The rows in the order of play, and how many had to wait or were dropped. What waits at the end is played then.

    >>> order, n_ahead = order_of_play(np.array([0, 9999, *range(1, 300)]), Limit(400))
    >>> order[:3].tolist(), order[-1], n_ahead
    ([0, 2, 3], np.int64(1), 1)
    """
    front, cell, n_ahead = Front(), limit.cells(time), 0
    aside = np.empty(0, np.int64)
    parts = [aside]
    for begin in range(0, len(time), _TOGETHER):
        rows = np.arange(begin, min(begin + _TOGETHER, len(time)))
        front.advance(counts_by_cell(time[rows], limit), limit)
        plays = front.admits(cell[rows], limit)
        n_ahead += int(np.count_nonzero(~plays))
        back = front.releases(cell[aside], limit)
        released, aside = aside[back], np.concatenate([aside[~back], rows[~plays]])
        if limit.drop:
            aside = aside[:0]
        rows = rows[plays]
        # A row that is released goes before the first that is not earlier.
        released = released[np.argsort(time[released], kind="stable")]
        at = np.searchsorted(np.maximum.accumulate(time[rows]), time[released]) if len(rows) else np.zeros(len(released), np.int64)
        parts.append(np.insert(rows, at, released))
    return np.concatenate([*parts, aside[np.argsort(time[aside], kind="stable")]]), n_ahead


def rearranged(trace: Trace, order: Ints) -> Trace:
    """The rows of a trace in this order."""
    out = Trace(trace.table.take(order), key=trace.key_columns, streams=trace.streams)
    out.tick = trace.tick
    return out


def in_rows_of_trace(run: JoinRun, order: Ints, n_ahead: int | None) -> JoinRun:
    """The run of a rearranged trace, with the numbers that its rows had."""
    outputs = run.outputs
    if outputs is not None:
        members = slice(1, 1 + len(run.streams))
        outputs = outputs.copy()
        outputs[:, members] = order[outputs[:, members]]
    rows = {name: order[found] for name in ("sheds", "expired", "done", "filtered") if (found := getattr(run, name)) is not None}
    log = None if run.memory_log is None else [(time, np.sort(order[held])) for time, held in run.memory_log]
    return replace(run, outputs=outputs, memory_log=log, n_ahead=n_ahead, **rows)
