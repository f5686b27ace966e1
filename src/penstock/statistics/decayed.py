"""Statistics `decayed`: every arrival counts, shed ones too, and loses half its weight in every half-life.

Weights grow forward (forward.py), and keys that come no more take no room after a while.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.core.batch import Batch
from penstock.core.compiled import kernel, routine
from penstock.core.errors import PenstockError
from penstock.core.problem import Problem
from penstock.core.rounding import rounded
from penstock.core.trace import Floats, Ints
from penstock.engine.contract import Renumber
from penstock.statistics.forward import FORGOTTEN
from penstock.statistics.merging import merged, shifts_of
from penstock.statistics.remembered import Remembered

_LEAST = 64  # places of a table
UNBOUNDED = 1 << 62
"""Keys that may be counted one by one where nobody bounds them."""


class Decayed(Remembered):
    """Exact decayed counts by key.

    >>> source = Decayed(Problem.of(("R", "S"), window=10, memory=4))
    >>> batch = Batch(*(np.array(c) for c in ([0, 1, 0], [0, 10, 10], [5, 5, 5])))
    >>> source.rates(batch, 0)[0].tolist()
    [[1.0, 0.0], [3.0, 2.0], [3.0, 2.0]]
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.known = np.full(_LEAST, -1, dtype=np.int64)
        self.sums = np.zeros((_LEAST, problem.n_streams))
        self.filled = 0  # places that have a key
        self.most = UNBOUNDED

    @property
    def n_bytes(self) -> int:
        """What the counts take."""
        return self.known.nbytes + self.sums.nbytes + super().n_bytes

    def age(self, batch: Batch, begin: int) -> int:
        """Move the origin where it must."""
        steps = self.forward.move(batch.time[begin])
        if steps:
            self._fade(2.0**-steps)
        return steps

    def _fade(self, factor: float) -> None:
        """Bring all sums into the units of a new origin, and forget the keys of which nothing is left."""
        self.filled = int(_fade(self.known, self.sums, factor))
        self._resize(self._size(self.filled))

    def rates(self, batch: Batch, begin: int) -> tuple[Floats, int]:
        """The decayed count of each row's key in each stream, its instant included, in forward weights."""
        span = self.forward.span(batch.time[begin:])
        part = slice(begin, begin + span)
        weight = np.exp2(self.forward.exponents(batch.time[part]))
        rates = np.zeros((span, self.problem.n_streams))
        at = np.array([0, 0, self.filled])
        while not self._tally(batch.stream[part], batch.time[part], batch.key[part], weight, rates, at):
            self.filled = int(at[2])
            self._make_room()
            at[2] = self.filled
        self.filled = int(at[2])
        return rates, begin + span

    def _tally(self, stream: Ints, time: Ints, key: Ints, weight: Floats, rates: Floats, at: Ints) -> bool:
        """Count rows from where `at` says; False where it had to stop, because there is no room for another key."""
        most = min(self.most, len(self.known) * 3 // 4)
        return bool(_count(self.known, self.sums, stream, time, key, weight, rates, most, at))

    def _make_room(self) -> None:
        """Have room for another key."""
        self._resize(len(self.known) * 3 // 2)

    def rates_of(self, key: Ints) -> Floats:
        """The counts of these keys in every stream, by the sums that are left: what was forgotten is worth nothing."""
        out = np.zeros((len(key), self.problem.n_streams))
        _look_up(self.known, self.sums, key.astype(np.int64), out)
        return out

    def _size(self, keys: int) -> int:
        """Places of a hash table for so many keys and half as many more, as far as there may be more; up to three in four are filled."""
        return max(_LEAST, min(2 * keys, max(keys, self.most) * 4 // 3 + 2))

    def _resize(self, size: int) -> None:
        """Move to a hash table of another size."""
        known, sums = self.known, self.sums
        self.known = np.full(size, -1, dtype=np.int64)
        self.sums = np.zeros((size, self.problem.n_streams))
        _rehash(self.known, self.sums, known, sums)

    def keys(self) -> Ints:
        """The keys that are counted, and in stepwise runs those of the arrivals."""
        return np.concatenate([self.known[self.known >= 0], super().keys()])

    def snapshot(self) -> dict[str, Any]:
        """Counts by key; in stepwise runs the weighed arrivals."""
        live = np.flatnonzero(self.known >= 0)
        return {"key": self.known[live], "sums": self.sums[live]} | super().snapshot()

    def restore(self, state: dict[str, Any]) -> None:
        """Take over counts."""
        if state["key"].ndim != 1 or state["sums"].shape != (len(state["key"]), self.problem.n_streams) or (state["key"] < 0).any():
            raise PenstockError(f"state must have a count for each key and stream, got {state['sums'].shape} for {state['key'].shape} keys")
        size = self._size(len(state["key"]))
        self.known = np.full(size, -1, dtype=np.int64)
        self.sums = np.zeros((size, self.problem.n_streams))
        _rehash(self.known, self.sums, state["key"], state["sums"])
        self.filled = len(state["key"])
        super().restore(state)

    def merge(self, states: Sequence[dict[str, Any]], renumber: Renumber) -> list[float]:
        """Take over the counts of several."""
        shifts = shifts_of(states, self.forward.half_life)
        self.restore(merged(states, shifts, renumber))
        return shifts


@kernel
def find(known: Ints, key: int) -> int:
    """Where a key is in a table, or where it would be. The table may have any size."""
    mixed = ((key ^ (key >> 31)) & 0x7FFFFFFF) * 0x2545F491
    at = (((mixed ^ (mixed >> 29)) & 0x7FFFFFFF) * len(known)) >> 31
    while known[at] >= 0 and known[at] != key:
        at += 1
        if at == len(known):
            at = 0
    return int(at)


@routine
def _look_up(known: Ints, sums: Floats, key: Ints, out: Floats) -> None:
    for number in range(len(key)):
        if key[number] >= 0:
            at = find(known, key[number])
            if known[at] >= 0:
                for stream in range(sums.shape[1]):
                    out[number, stream] = rounded(sums[at, stream])


@routine
def _rehash(known: Ints, sums: Floats, keys: Ints, old: Floats) -> None:
    for number in range(len(keys)):
        if keys[number] >= 0:
            at = find(known, keys[number])
            known[at] = keys[number]
            sums[at] = old[number]


@kernel
def _fade(known: Ints, sums: Floats, factor: float) -> int:
    """Multiply all sums, and take the keys that are forgotten out of a table that is to be built anew; how many are left."""
    left = 0
    for at in range(len(known)):
        largest = 0.0
        for stream in range(sums.shape[1]):
            faded = sums[at, stream] * factor
            sums[at, stream] = faded if faded >= FORGOTTEN else 0.0
            largest = max(largest, sums[at, stream])
        if largest == 0.0:
            known[at] = -1
        left += known[at] >= 0
    return left


@kernel
def _count(
    known: Ints, sums: Floats, stream: Ints, time: Ints, key: Ints, weight: Floats, rates: Floats, most: int, at: Ints
) -> bool:  # fmt: skip
    """Add rows instant by instant and read the sums after each, with up to `most` keys.

    `at` says where it is: at the first row of an instant, the next row to add, and the number of keys in the table. False where it
    stopped before a row whose key has no room.
    """
    position, row, filled = at[0], at[1], at[2]
    while position < len(time):
        end = position + 1
        while end < len(time) and time[end] == time[position]:
            end += 1
        place = -1
        while row < end:
            if key[row] >= 0:
                place = find(known, key[row])
                if known[place] < 0:
                    if filled >= most:
                        at[0], at[1], at[2] = position, row, filled
                        return False
                    known[place] = key[row]
                    filled += 1
                sums[place, stream[row]] += weight[row]
            row += 1
        for read in range(position, end):
            if key[read] >= 0:
                if known[place] != key[read]:
                    place = find(known, key[read])
                for i in range(sums.shape[1]):
                    rates[read, i] = rounded(sums[place, i])
        position = end
    at[0], at[1], at[2] = position, row, filled
    return True
