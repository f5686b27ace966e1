"""What the compiled loop writes down on request."""

from __future__ import annotations

from typing import NamedTuple

from penstock.core.trace import Ints

ARRIVAL_AT, HALFWAY, MADE_BEFORE = 0, 1, 2
"""Of `Logs.pause`: the arrival with which the instant's join goes on (its row of the batch; -1: it is not in one), whether some of its
combinations have been made already, and how many outputs had been made before it."""


class Logs(NamedTuple):
    """A log with 0 columns is not kept. `needed` says how long each must be to go on; that of outputs, when it is empty."""

    outputs: Ints  # time, row per stream
    sheds: Ints  # row, and the last instant in which it took part
    expired: Ints  # the same
    retained: Ints  # instant, row
    series: Ints  # time, tuples per stream
    done: Ints  # row, and the last instant in which it took part
    lengths: Ints
    needed: Ints
    pause: Ints
