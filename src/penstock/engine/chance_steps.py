"""What `learned` learns from, in numbers: when two gaps, or two counts, are alike; and the pace of learning.

A *gap* is the time since a key last came in a stream. Gaps are alike within a step (`GAP_ENDS`); the reach is the longest window. A *count*
is the decayed count of a key when it last came. Times are *coarse*: ticks without their last bits, so that the reach has about 2 ** 16 of
them; then sums of times are whole numbers, exact in any order (docs/decisions/0023).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from penstock.core.problem import Problem
from penstock.core.window import COUNTING

GAP_ENDS = tuple(part / 256 for part in (1, 4, 8, 16, 32, 64, 128, 192, 256))
"""Where a step of gaps ends, as a part of the reach."""
TIMERS = len(GAP_ENDS)
"""Steps that end."""
GAPS = TIMERS + 1
"""Steps of gaps; the last: longer than the reach, or never."""
COUNTS = 6
"""Steps of counts; 0: never seen."""
COUNT_BOUNDS = (1.25, 2.5, 5.0, 12.0)
"""Where a step of counts ends."""
ONE = 4096
"""Counts are kept in parts of this size, as whole numbers."""
LEAST = 0.01
"""The shortest stay over which arrivals are averaged, as a part of the reach."""
NOTHING = 2.0**-100
"""What a tuple can expect at least, so that among those that expect nothing the more valuable stay."""
TRUST = 4.0
"""Arrivals by which a state is drawn to what is known of its neighbours."""
KEPT = 16.0
"""Reaches in which what was learned loses half its weight."""
EPOCHS = 8
"""How often in a reach what was learned is put into use, once the first has passed,"""
FIRST_EPOCH = 64
"""and how soon for the first time: then twice as late each time."""
EPOCH_ROWS = 256
"""Rows that must have come between two epochs."""
SAMPLE = 4096
"""Keys of which the time spent in each state is counted, about; of more a sample."""
FORGOTTEN = 1 / 16
"""A key is forgotten when its counts have all decayed below this."""
FEW_KEYS = 64
"""Of so many keys none is forgotten; after that whenever there are twice as many as were left."""
LEAST_KEYS = 256
"""Keys that there must be room for: of fewer hardly any would be known when they come again."""
_UNITS = 16  # bits of a coarse reach


@dataclass(frozen=True)
class Scale:
    """Lengths of time in coarse ticks."""

    length: int  # the reach in ticks
    shift: int  # bits that a tick loses
    reach: float
    half_life: float
    spans: tuple[float, ...]  # by stream: how long its tuples stay at most

    @property
    def pace(self) -> float:
        """Arrivals per coarse tick of a key whose decayed count is 1 all the time."""
        return math.log(2.0) / self.half_life

    @classmethod
    def of(cls, problem: Problem) -> Scale:
        """The scale of a problem. Windows that are not a length of time are taken for one half-life.

        >>> Scale.of(Problem.of(("R", "S"), window={"R": 400, "S": 100}, memory=4)).spans
        (400.0, 100.0)
        >>> Scale.of(Problem.of(("R", "S"), window=1 << 20, memory=4)).shift
        4
        """
        half_life = problem.ageing()
        timed = [
            0 if w.kind in COUNTING or not w.bounded else max([w.length, *(length for _, length in w.schedule)]) for w in problem.windows
        ]
        reach = max(timed) or int(half_life)
        shift = max(0, int(reach).bit_length() - 1 - _UNITS)
        coarse = [max(1.0, float(length >> shift)) if length else max(1.0, float(int(reach) >> shift)) for length in timed]
        return cls(int(reach), shift, max(1.0, float(int(reach) >> shift)), max(0.5, half_life / (1 << shift)), tuple(coarse))


def table_bytes(streams: int) -> int:
    """What the tables of states take, however few keys are known: three that count, and what is in use, here and in the engine.

    >>> table_bytes(2), table_bytes(4)
    (96000, 384000)
    """
    return 5 * 8 * streams * streams * COUNTS * GAPS * GAPS


def key_bytes(problem: Problem) -> int:
    """What a key takes: its number, by stream a count and a time (with importances their mean), and until when it was counted."""
    return 8 * (problem.n_streams * (2 if problem.steady else 3) + 2)


def keys_in(problem: Problem, room: int) -> int:
    """How many keys have room beside the tables: half of it, since one hash table becomes another, and a quarter of that stays empty.

    >>> keys_in(Problem.of(("R", "S"), window=10, memory=4), 1_000_000)
    7062
    """
    return max(0, (room - table_bytes(problem.n_streams)) // 2 * 3 // 4 // key_bytes(problem))


def least_room(problem: Problem) -> int:
    """The bytes without which nothing can be learned.

    >>> least_room(Problem.of(("R", "S"), window=10, memory=4))
    128832
    """
    return table_bytes(problem.n_streams) + -(-LEAST_KEYS * 4 // 3) * 2 * key_bytes(problem)
