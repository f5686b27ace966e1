"""How far the clock of a join may run: one wrong timestamp must not carry it away (docs/decisions/0015).

Time is cut into cells, a quarter of the limit each. The *front* is the last cell whose time is supported: by rows that follow each
other, or by enough rows at and beyond it. A row up to three cells beyond the front is played, one in the cells around the batch's own
timestamp too; any other is ahead, and waits. The rule looks at counts by cell alone, and these add up: all shards decide alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.core.errors import PenstockError, choose
from penstock.core.trace import Ints
from penstock.core.window import NEVER, ticks

FEW = 4
"""Rows that support each other, at least: two streams may each have a stray, and one of them two."""
SHARE = 0.01
"""Of the rows that came since, so many must be at or beyond a time that support it,"""
FUTURE_SHARE = 0.5
"""and so many where it is beyond the batch's own timestamp, where no time should be."""
_CELLS = 256  # that are told or remembered
_PER_LIMIT = 4
CELL, COUNT, LATEST, STREAM, SINCE, WAITS = range(6)
"""Of rows that are known: cell, number, largest time, stream; how many rows had come before their batch; and whether they wait."""


class Limit(NamedTuple):
    """How far a row may be ahead, in ticks, and whether it is dropped instead of put aside.

    >>> limit = Limit(400)
    >>> limit.width, limit.reach, limit.cells(np.array([-1, 0, 399])).tolist()
    (100, 3, [-1, 0, 3])
    """

    length: int
    drop: bool = False

    @property
    def width(self) -> int:
        """Ticks of a cell."""
        return max(1, self.length // _PER_LIMIT)

    @property
    def reach(self) -> int:
        """Cells beyond the front whose rows are played, so that none is further than the limit from what supports it."""
        return self.length if self.width == 1 else self.length // self.width - 1

    def cells(self, time: Any) -> Any:
        """The cells of these times."""
        return time // self.width


def read_limit(given: Any, duration: Any = ticks, argument: str = "ahead") -> Limit | None:
    """The limit that an option stands for: None or "none" for no limit, a length, or a length and "wait" or "drop".

    >>> read_limit("none"), read_limit(400), read_limit((400, "drop"))
    (None, Limit(length=400, drop=False), Limit(length=400, drop=True))
    """
    if given is None or given == "none":
        return None
    pair = given if isinstance(given, tuple | list) else (given, "wait")
    told = f'{argument} must be a positive number of ticks or a duration such as "2 days", "none", or a length and "wait" or "drop"'
    if len(pair) != 2:
        raise PenstockError(f"{told}, got {given!r}")
    try:
        length = int(duration(pair[0], argument))
    except PenstockError as error:
        if "tumbling" in str(error):  # what a window may be besides
            raise PenstockError(f"{told}, got {pair[0]!r}") from None
        raise
    return Limit(length, choose(f"action of {argument}", pair[1], ("wait", "drop")) == "drop")


def counts_by_cell(time: Ints, limit: Limit) -> Ints:
    """What a task says of its rows: by cell their number and the largest time. A few hundred cells at most, then the earliest count as one.

    >>> counts_by_cell(np.array([5, 930, 7, 950]), Limit(400)).tolist()
    [[0, 2, 7], [9, 2, 950]]
    """
    if len(time) and limit.cells(time.min()) == limit.cells(time.max()):
        return np.array([[limit.cells(time.max()), len(time), time.max()]])
    order = np.sort(time)
    cell, begins, count = np.unique(limit.cells(order), return_index=True, return_counts=True)
    return summed(np.stack([cell, count, order[begins + count - 1]], axis=1) if len(cell) else np.empty((0, 3), np.int64))


def summed(rows: Ints) -> Ints:
    """What several have told of their rows (cell, count, latest) as one.

    >>> summed(np.array([[9, 1, 930], [0, 2, 7], [9, 1, 950]])).tolist()
    [[0, 2, 7], [9, 2, 950]]
    """
    rows = rows[np.argsort(rows[:, CELL], kind="stable")]
    cell, begins = np.unique(rows[:, CELL], return_index=True)
    if len(begins) < len(rows):
        totals = [reduce.reduceat(rows[:, at], begins) for reduce, at in ((np.add, COUNT), (np.maximum, LATEST))]
        rows = np.stack([cell, *totals], axis=1)
    if len(rows) > _CELLS:
        early = rows[: 1 - _CELLS]
        rows = np.concatenate([[[early[-1, CELL], early[:, COUNT].sum(), early[-1, LATEST]]], rows[1 - _CELLS :]])
    return rows


@dataclass
class Front:
    """The last cell that is supported (None before the first row), the rows near and beyond it, and how many rows have come.

    >>> front, limit = Front(), Limit(400)
    >>> for time in (0, 50, 9999, 120):
    ...     front.advance(counts_by_cell(np.array([time]), limit), limit)
    >>> front.cell, front.admits(limit.cells(np.array([300, 9999])), limit).tolist()
    (1, [True, False])
    """

    cell: int | None = None
    recent: Ints = field(default_factory=lambda: np.empty((0, 6), np.int64))
    total: int = 0

    def advance(self, rows: Ints, limit: Limit, stamp: int | None = None) -> None:
        """Take in what is told of a batch (cell, count, latest and, where streams are told apart, stream); `stamp` is its own timestamp."""
        new = np.zeros((len(rows), 6), np.int64)
        new[:, : rows.shape[1]] = rows
        new[:, SINCE] = self.total
        self.total += int(new[:, COUNT].sum())
        known = np.concatenate([self.recent, new])
        edge = NEVER if stamp is None else stamp // limit.width + limit.reach
        past = known[:, CELL] <= edge
        if self.cell is None and (new[:, CELL] <= edge).any():
            self.cell = int(new[new[:, CELL] <= edge, CELL].min())
        reached = [self._supported(known[past], SHARE), self._supported(known[~past], FUTURE_SHARE), self.cell]
        self.cell = max((cell for cell in reached if cell is not None), default=None)
        if self.cell is not None:
            self.cell = _climbed(self.cell, known, limit.reach, edge)
        waits, old = known[:, WAITS], len(self.recent)
        waits[old:] = ~self.admits(new[:, CELL], limit, stamp)
        waits[:old] &= ~self.releases(self.recent[:, CELL], limit, stamp)
        self.recent = _kept(known, self.cell, limit.reach)

    def admits(self, cell: Ints, limit: Limit, stamp: int | None = None) -> NDArray[np.bool_]:
        """Whether rows of these cells are played."""
        near = np.zeros(len(cell), bool) if self.cell is None else cell <= self.cell + limit.reach
        return near if stamp is None else near | (np.abs(cell - stamp // limit.width) <= limit.reach)

    def releases(self, cell: Ints, limit: Limit, stamp: int | None = None) -> NDArray[np.bool_]:
        """Whether rows of these cells that have waited are played: when the front, or the batch's own timestamp, has got there."""
        there = np.zeros(len(cell), bool) if self.cell is None else cell <= self.cell
        now = None if stamp is None else stamp // limit.width
        return there if now is None else there | ((cell <= now) & (cell >= now - limit.reach))

    def clocks(self, rows: Ints, limit: Limit, stamp: int | None, streams: int, unknown: int) -> Ints:
        """The largest time of each stream that is played, of the rows told of this batch and of those that are remembered."""
        new, old = rows[self.admits(rows[:, CELL], limit, stamp)], self.recent[self.recent[:, WAITS] == 0]
        here = np.concatenate([new[:, : STREAM + 1], old[:, : STREAM + 1]])
        return np.array([here[here[:, STREAM] == stream, LATEST].max(initial=unknown) for stream in range(streams)], dtype=np.int64)

    def forget_waiting(self, unknown: int) -> None:
        """Rows that are ahead have been dropped: they move no clock, and support others still."""
        self.recent[self.recent[:, WAITS] == 1, LATEST] = unknown

    def _supported(self, known: Ints, share: float) -> int | None:
        """The last cell with enough rows at and beyond it, of all that came since some batch."""
        best = None
        for since in np.unique(known[:, SINCE]):
            of = known[known[:, SINCE] >= since]
            found = _reached_by(of, max(FEW, ceil(share * (self.total - int(since)))))
            best = found if best is None else max(best, found if found is not None else best)
        return best


def _reached_by(known: Ints, need: int) -> int | None:
    """The last cell with so many rows at and beyond it."""
    order = known[np.argsort(-known[:, CELL], kind="stable")]
    at = int(np.searchsorted(np.cumsum(order[:, COUNT]), need))
    return int(order[at, CELL]) if at < len(order) else None


def _climbed(cell: int, known: Ints, reach: int, edge: int) -> int:
    """Go on from a cell while the stretch after it has its share of the rows in the stretch before: rows that follow each other.

    The share is a half where there are few.
    """
    while True:
        beneath = int(known[(known[:, CELL] > cell - 1 - reach) & (known[:, CELL] <= cell), COUNT].sum())
        last = min(cell + reach, edge) if cell <= edge else cell + reach
        need = max(min(FEW, beneath // 2), ceil(SHARE * beneath)) if beneath else FEW
        found = _reached_by(known[(known[:, CELL] > cell) & (known[:, CELL] <= last)], need)
        if found is None:
            return cell
        cell = found


def _kept(known: Ints, cell: int | None, reach: int) -> Ints:
    """What must be remembered: the stretch before the front, as one, and what is beyond it; few entries, whatever comes."""
    if cell is not None:
        known = known[known[:, CELL] >= cell - reach].copy()
        known[known[:, CELL] <= cell, SINCE] = 0
    known = _merged(known)
    if len(known) > _CELLS:
        known[:, SINCE] = np.minimum(known[:, SINCE], np.sort(known[:, SINCE])[len(known) // 2])  # as if the later half had come together
        known = _merged(known)
    return known[:_CELLS]


def _merged(known: Ints) -> Ints:
    """Entries of one cell, stream and batch as one, by cell."""
    order = np.lexsort((known[:, WAITS], known[:, SINCE], known[:, STREAM], known[:, CELL]))
    known = known[order]
    if len(known) < 2:
        return known
    same = (np.diff(known[:, [CELL, STREAM, SINCE, WAITS]], axis=0) == 0).all(axis=1)
    begins = np.flatnonzero(np.concatenate([[True], ~same]))
    out = known[begins].copy()
    out[:, COUNT] = np.add.reduceat(known[:, COUNT], begins)
    out[:, LATEST] = np.maximum.reduceat(known[:, LATEST], begins)
    return out
