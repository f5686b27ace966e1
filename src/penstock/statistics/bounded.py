"""Statistics `decayed` within so many bytes: each key counted for itself while there is room, the rest in a Count-Min sketch from then on.

The change comes with the arrival of the first key that has no room, so it depends on the rows played and not on how they are cut into
batches. The heaviest keys stay in the table, and are exact for as long as they last; all others go over to the sketch with what has been
counted of them, and what comes later is counted there. There is no way back.

An estimate is never below the true decayed count; it exceeds it by more than (e / width) times the total decayed count of the keys in the
sketch with probability at most exp(-4) (Cormode and Muthukrishnan 2005). Cells are raised only as far as the estimate needs (conservative
update, Estan and Varghese 2002), which makes estimates smaller, and keeps both bounds.

Of the bytes, three eighths are for the table while it is alone, as much for the sketch, and an eighth for the keys that stay exact: all of
them together are there while one becomes the other. Stepwise, where arrivals are remembered one by one, the newest that fit are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.core.compiled import kernel, routine
from penstock.core.errors import PenstockError
from penstock.core.problem import Problem
from penstock.core.rounding import rounded
from penstock.core.trace import Floats, Ints
from penstock.engine.view import View
from penstock.statistics.decayed import Decayed, find
from penstock.statistics.forward import FORGOTTEN
from penstock.statistics.merging import folded
from penstock.statistics.sketch import PRIME, cell_of, least_of

DEPTH = 4
"""Lines of the sketch."""
_LEAST = 64  # keys, or cells of a line, that there is room for however few bytes there are


class Bounded(Decayed):
    """Decayed counts by key in at most `room` bytes.

    >>> from penstock.core.batch import Batch
    >>> source = Bounded(Problem.of(("R", "S"), window=1000, memory=4), room=10_000)
    >>> source.most, source.width
    (117, 64)
    >>> batch = Batch(*(np.array(c) for c in ([0] * 300, range(300), range(300))))
    >>> rates, _ = source.rates(batch, 0)
    >>> source.is_sketch, source.n_bytes <= 10_000, bool((rates[:, 0] >= 1).all())
    (True, True, True)
    """

    def __init__(self, problem: Problem, room: int) -> None:
        super().__init__(problem)
        entry = 8 * (1 + problem.n_streams)
        self.room = room
        self.most = max(_LEAST, room * 9 // 32 // entry)
        self.stay = max(_LEAST // 4, room // 16 // entry)
        self.width = 1 << max(_LEAST.bit_length() - 1, (room * 3 // 8 // (8 * DEPTH * problem.n_streams)).bit_length() - 1)
        self.hashes = np.random.default_rng(0).integers(1, PRIME, size=(DEPTH, 2))  # whatever the seed, which may change
        self.table: Floats | None = None

    @property
    def is_sketch(self) -> bool:
        """Whether counts have gone over to the sketch."""
        return self.table is not None

    @property
    def n_bytes(self) -> int:
        """What the counts take."""
        return super().n_bytes + (0 if self.table is None else self.table.nbytes)

    def arrive(self, view: View) -> None:
        """Weigh the arrivals, and remember the newest that fit."""
        super().arrive(view)
        width = sum(column.nbytes for column in self.history[0]) // max(1, len(self.history[0][0]))
        most = max(_LEAST, self.room // 2 // max(1, width))
        self.history = [tuple(column[-most:] for column in self.history[0])]

    def rates_of(self, key: Ints) -> Floats:
        """The counts by what table and sketch hold now."""
        if self.table is None:
            return super().rates_of(key)
        out = np.zeros((len(key), self.problem.n_streams))
        _look_up(self.known, self.sums, self.table, self.hashes, key.astype(np.int64), out)
        return out

    def _fade(self, factor: float) -> None:
        super()._fade(factor)
        if self.table is not None:
            for line in self.table.reshape(-1, self.table.shape[2]):
                line *= factor
                line[line < FORGOTTEN] = 0.0

    def _tally(self, stream: Ints, time: Ints, key: Ints, weight: Floats, rates: Floats, at: Ints) -> bool:
        if self.table is None:
            return super()._tally(stream, time, key, weight, rates, at)
        _count_beside(self.known, self.sums, self.table, self.hashes, stream, time, key, weight, rates, at)
        return True

    def _make_room(self) -> None:
        if self.filled >= self.most:
            self._spill(self.stay)
        else:
            self._resize(min(len(self.known) * 3 // 2, self.most * 4 // 3 + 2))

    def _spill(self, stay: int) -> None:
        """Move all keys but the heaviest, at most so many, to the sketch. Keys that are equally heavy go or stay together."""
        total = self.sums.sum(axis=1)
        bar = np.partition(total, len(total) - 1 - stay)[len(total) - 1 - stay]
        goes = (self.known >= 0) & (total <= bar)
        order = np.flatnonzero(goes)
        order = order[np.argsort(self.known[order])]  # the same however the table came about
        del total
        if self.table is None:
            self.table = np.zeros((self.problem.n_streams, DEPTH, self.width))
        _pour(self.known, self.sums, order, self.table, self.hashes)
        self.filled -= len(order)
        self._resize(max(_LEAST, 2 * self.filled))

    def snapshot(self) -> dict[str, Any]:
        """The counts; the sketch, where there is one."""
        return super().snapshot() | ({} if self.table is None else {"table": self.table})

    def restore(self, state: dict[str, Any]) -> None:
        """Take over counts. What has no room goes over to the sketch; a sketch that is too wide is folded."""
        super().restore(state)
        self.table = np.array(state["table"]) if "table" in state else None
        if self.table is not None:
            lines, width = (self.problem.n_streams, DEPTH), self.table.shape[-1]
            if self.table.shape != (*lines, width) or not width or width & (width - 1):
                raise PenstockError(f"state must have a sketch of {lines} lines, a power of two wide, got {self.table.shape}")
            self.table = folded(self.table, self.width)
        if self.filled > (self.most if self.table is None else max(self.stay, _LEAST)):
            self._spill(self.stay)


@kernel
def _raise(table: Floats, hashes: Ints, stream: int, key: int, weight: float) -> None:
    """Count an arrival: the least of its cells grows by its weight, the others only where they would be below that."""
    width = table.shape[2]
    least = np.inf
    for line in range(table.shape[1]):
        least = min(least, table[stream, line, cell_of(hashes, line, key, width)])
    for line in range(table.shape[1]):
        cell = cell_of(hashes, line, key, width)
        table[stream, line, cell] = max(table[stream, line, cell], least + weight)


@kernel
def _pour(known: Ints, sums: Floats, order: Ints, table: Floats, hashes: Ints) -> None:
    for at in order:
        for stream in range(sums.shape[1]):
            if sums[at, stream] > 0.0:
                _raise(table, hashes, stream, known[at], sums[at, stream])
        known[at] = -1


@kernel
def _rate(known: Ints, sums: Floats, table: Floats, hashes: Ints, place: int, stream: int, key: int) -> float:
    return rounded(sums[place, stream]) if known[place] >= 0 else least_of(table, hashes, stream, key)


@routine
def _look_up(known: Ints, sums: Floats, table: Floats, hashes: Ints, key: Ints, out: Floats) -> None:
    for number in range(len(key)):
        if key[number] >= 0:
            place = find(known, key[number])
            for stream in range(sums.shape[1]):
                out[number, stream] = _rate(known, sums, table, hashes, place, stream, key[number])


@kernel
def _count_beside(
    known: Ints, sums: Floats, table: Floats, hashes: Ints, stream: Ints, time: Ints, key: Ints, weight: Floats, rates: Floats, at: Ints
) -> None:  # fmt: skip
    """Add rows instant by instant, from where `at` says, and read the counts after each."""
    position, row = at[0], at[1]
    while position < len(time):
        end = position + 1
        while end < len(time) and time[end] == time[position]:
            end += 1
        while row < end:
            if key[row] >= 0:
                place = find(known, key[row])
                if known[place] >= 0:
                    sums[place, stream[row]] += weight[row]
                else:
                    _raise(table, hashes, stream[row], key[row], weight[row])
            row += 1
        for read in range(position, end):
            if key[read] >= 0:
                place = find(known, key[read])
                for i in range(sums.shape[1]):
                    rates[read, i] = _rate(known, sums, table, hashes, place, i, key[read])
        position = end
