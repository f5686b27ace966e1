"""When, and in which shards, a value has active facts: what decides where a row goes, and whether it goes anywhere.

The facts of a value are grouped by shard, and their intervals united, so that a row costs a binary search for each shard of its value,
however many facts a value has:

    value 7, shard 2     [0, 4) [2, 6) [9, ∞)     ->     [0, 6) [9, ∞)
"""

from __future__ import annotations

import numpy as np

from penstock.core.compiled import kernel
from penstock.core.trace import Bools, Ints


class Coverage:
    """Groups of a value and a shard, by value; and the times in which each has active facts.

    >>> number, shard = np.array([0, 0, 0, 1]), np.array([2, 2, 2, 0])
    >>> coverage = Coverage(2, number, shard, np.array([0, 2, 9, 3]), np.array([4, 6, 99, 5]))
    >>> coverage.begin.tolist(), coverage.end.tolist()
    ([0, 9, 3], [6, 99, 5])
    >>> coverage.active(np.array([0, 0, 0, 1, -1]), np.array([5, 6, 9, 5, 3])).tolist()
    [True, False, True, False, False]
    """

    def __init__(self, values: int, number: Ints, shard: Ints, begin: Ints, end: Ints) -> None:
        order = np.lexsort((begin, shard, number))
        number, shard, begin, end = (column[order] for column in (number, shard, begin, end))
        kept, new = np.empty(len(order), np.int64), np.empty(len(order), np.bool_)
        ends = np.empty(len(order), np.int64)
        size = _unite(number, shard, begin, end, kept, new, ends)
        kept, new = kept[:size], new[:size]
        self.begin, self.end = begin[kept], ends[:size]
        groups = np.flatnonzero(new)
        self.first = np.append(groups, size)  # of its times, by group
        self.shard = shard[kept[groups]]
        self.groups = np.searchsorted(number[kept[groups]], np.arange(values + 1))  # the first of each value

    def places(self, number: Ints, time: Ints) -> tuple[Ints, Ints]:
        """Rows with these values and times, once for each shard in which they have active facts: their positions, and the shards."""
        most = int(np.diff(self.groups)[number[number >= 0]].sum())
        rows, shards = np.empty(most, np.int64), np.empty(most, np.int64)
        size = _places(number, time, self.groups, self.shard, self.first, self.begin, self.end, rows, shards)
        return rows[:size], shards[:size]

    def active(self, number: Ints, time: Ints) -> Bools:
        """Whether values have active facts at these times."""
        out = np.zeros(len(number), bool)
        out[self.places(number, time)[0]] = True
        return out

    @property
    def copies(self) -> float:
        """The shards of a value, on average."""
        return len(self.shard) / max(1, int(np.count_nonzero(np.diff(self.groups))))


@kernel
def _unite(number: Ints, shard: Ints, begin: Ints, end: Ints, kept: Ints, new: Bools, ends: Ints) -> int:
    """Unite the intervals of each number and shard, which come in order: the positions of those that begin one, and where they end."""
    size = 0
    for at in range(len(number)):
        if begin[at] >= end[at]:
            continue
        last = kept[size - 1] if size else -1
        same = size > 0 and number[last] == number[at] and shard[last] == shard[at]
        if same and begin[at] <= ends[size - 1]:
            ends[size - 1] = max(ends[size - 1], end[at])
        else:
            kept[size], new[size], ends[size] = at, not same, end[at]
            size += 1
    return size


@kernel
def _places(number: Ints, time: Ints, groups: Ints, shard: Ints, first: Ints, begin: Ints, end: Ints, rows: Ints, shards: Ints) -> int:
    size = 0
    for row in range(len(number)):
        if number[row] < 0:
            continue
        for group in range(groups[number[row]], groups[number[row] + 1]):
            low, high = first[group], first[group + 1]
            while low < high:  # how many begin at its time or before
                middle = (low + high) // 2
                if begin[middle] <= time[row]:
                    low = middle + 1
                else:
                    high = middle
            if low > first[group] and time[row] < end[low - 1]:
                rows[size], shards[size] = row, shard[group]
                size += 1
    return size
