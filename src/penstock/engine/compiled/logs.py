"""What the compiled loop writes down on request."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.core.trace import Ints
from penstock.engine.contract import Keep, Played

ARRIVAL_AT, HALFWAY, MADE_BEFORE = 0, 1, 2
"""Of `Logs.pause`: the arrival with which the instant's join goes on (its row of the batch; -1: it is not in one), whether some of its
combinations have been made already, and how many outputs had been made before it."""

_LOG = 1 << 20  # rows for which logs have room from the start
_PIECES = 1 << 22  # outputs that are made before they are handed on, at most


class Logs(NamedTuple):
    """A log with 0 columns is not kept. `needed` says how long each must be to go on; that of outputs, when it is empty."""

    outputs: Ints  # time, row per stream, fact per relation
    sheds: Ints  # row, and the last instant in which it took part
    expired: Ints  # the same
    retained: Ints  # instant, row
    series: Ints  # time, tuples per stream
    done: Ints  # row, and the last instant in which it took part
    lengths: Ints
    needed: Ints
    pause: Ints


def open_logs(streams: int, relations: int, keep: Keep, rows: int, live: int, most: int) -> Logs:
    """Logs for so many rows, in a memory that has so many tuples."""
    length = max(256, min(rows, _LOG) + live)  # what is not written to takes no memory
    kept = {"sheds": (keep.sheds, 2), "expired": (keep.expired, 2), "retained": (keep.retained, 2), "series": (keep.series, streams + 1)}
    kept["done"] = (keep.done, 2)
    logs = {name: np.empty((length, width if wanted else 0), dtype=np.int64) for name, (wanted, width) in kept.items()}
    outputs = np.empty((min(most, _PIECES), 1 + streams + relations if keep.outputs else 0), dtype=np.int64)
    return Logs(outputs, **logs, lengths=np.zeros(6, np.int64), needed=np.zeros(6, np.int64), pause=np.array([-1, 0, 0]))


def handed_out(logs: Logs) -> Played:
    """What is in the logs, which are empty then."""
    kept = [log[:length].copy() for log, length in zip(logs[:6], logs.lengths, strict=True)]
    logs.lengths[:] = 0
    (sheds, shed_at), (expired, expired_at), (done, done_at) = (
        (log[:, :1].reshape(-1), log[:, 1:].reshape(-1)) for log in (kept[1], kept[2], kept[5])
    )
    return Played(kept[0], sheds, expired, kept[3], kept[4], shed_at, expired_at, done, done_at)


def with_room(logs: Logs) -> Logs:
    """The logs, those that are too short doubled."""
    longer = logs._asdict()
    for name, needed in zip(Logs._fields[:6], logs.needed, strict=True):
        log = longer[name]
        if log.shape[1] and len(log) < needed:
            longer[name] = np.empty((max(2 * len(log), int(needed)), log.shape[1]), dtype=np.int64)
            longer[name][: len(log)] = log
    return Logs(**longer)
