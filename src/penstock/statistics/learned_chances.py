"""What `learned` makes of its tables: the arrivals per foretold arrival in each state of a key.

Each quotient is drawn towards those of the states with the same gap, since many states are seldom seen; for keys that the second stream has
not seen, the arrivals per tick count.
"""

from __future__ import annotations

import numpy as np

from penstock.core.compiled import kernel
from penstock.core.trace import Floats, Ints
from penstock.engine.chance_steps import COUNTS, GAPS, KEPT, ONE, TRUST
from penstock.engine.compiled.chances import cell_of

_NEVER_STEP = GAPS - 1


def opened(streams: int) -> Floats:
    """The chances before anything was learned: counts are believed, and keys that were never seen do not come."""
    out = np.ones((streams, streams, COUNTS, GAPS, GAPS))
    out[:, :, 0] = 0.0
    return out.reshape(-1)


def learned(tables: Ints, streams: int, pace: float) -> Floats:
    """The arrivals per foretold arrival in each state, or per tick where none can be foretold."""
    out: Floats = np.zeros(tables.shape[1])
    _learn(tables, streams, pace, out)
    return out


@kernel
def _learn(tables: Ints, streams: int, pace: float, out: Floats) -> None:
    """`learned`: each quotient is drawn to that of all states with the same count and gap, that to the same gap, that to all."""
    for own in range(streams):
        for other in range(streams):
            base = cell_of(streams, own, other, 0, 0, 0)
            whole = _quotient(tables, base, 1, COUNTS, 0, GAPS, 0, GAPS, pace, 1.0)
            for gap in range(GAPS):
                alike = _quotient(tables, base, 1, COUNTS, gap, gap + 1, 0, GAPS, pace, whole)
                for count in range(1, COUNTS):
                    near = _quotient(tables, base, count, count + 1, gap, gap + 1, 0, GAPS, pace, alike)
                    for own_gap in range(GAPS):
                        one = _quotient(tables, base, count, count + 1, gap, gap + 1, own_gap, own_gap + 1, pace, near)
                        out[base + cell_of(1, 0, 0, count, gap, own_gap)] = one
            _learn_new(tables, base + cell_of(1, 0, 0, 0, _NEVER_STEP, 0), out)


@kernel
def _quotient(
    tables: Ints, base: int, count: int, counts: int, gap: int, gaps: int, own_gap: int, own_gaps: int, pace: float, drawn_to: float
) -> float:  # fmt: skip
    """The arrivals per foretold one in the states from `count`, `gap` and `own_gap` up to the numbers after them."""
    came = foretold = 0
    for often in range(count, counts):
        for since in range(gap, gaps):
            first = base + cell_of(1, 0, 0, often, since, 0)
            for cell in range(first + own_gap, first + own_gaps):
                came += tables[0, cell]
                foretold += tables[1, cell]
    return float((came / ONE + TRUST * drawn_to) / (foretold / ONE * pace + TRUST))


@kernel
def _learn_new(tables: Ints, first: int, out: Floats) -> None:
    """The arrivals per tick of keys that the partner has not seen, from the state `first` on."""
    came = spent = 0
    for cell in range(first, first + GAPS):
        came += tables[0, cell]
        spent += tables[2, cell]
    if came > 0:
        mean = came / ONE / max(spent, 1)
        for cell in range(first, first + GAPS):
            out[cell] = (tables[0, cell] / ONE + 1.0) / (tables[2, cell] + 1.0 / mean)


def faded(tables: Ints, reaches: float) -> Ints:
    """What was learned after so much time, in whole numbers."""
    return np.floor(tables * 2.0 ** (-reaches / KEPT)).astype(np.int64)
