"""How the facts of a value are found: by a sequential scan, a plain hash, or a sorted index (Towne 2.3).

A scan looks at every fact for every look-up. A plain hash looks at all facts of the value, whenever they were active, and it is made for
one attribute: look-ups by another fall back to the scan, as Towne says. An index is sorted by (value, begin) for each attribute; ends are
kept as the greatest so far among facts of the value, so that facts that were deleted long ago are passed by.

All find the same. `examined` counts the facts whose times were looked at, `compared` the entries that were compared on the way there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

import numpy as np

from penstock.core.errors import choose
from penstock.core.facts import Facts
from penstock.core.trace import Ints
from penstock.core.window import DEAD
from penstock.relation.alike import greatest_so_far

_AT_ONCE = 1 << 22  # facts that a scan looks at in one step
_SCANNED = 100_000  # facts to look at, up to which nothing is gained by putting them in order
_EACH = 32  # facts of a value that are looked at as fast as the active ones are searched for
Found = tuple[Ints, Ints]
"""Places of look-ups, and the facts of each: in the order of the look-ups, then of the facts."""


class Access(ABC):
    """The facts of a relation, found by the number of a value in a slot and by time.

    >>> facts = Facts.of([[0, 7], [1, 7], [0, 8]], begin=[None, 5, 2])
    >>> for kind in ACCESSES.values():
    ...     access = kind(facts, 0)
    ...     found = access.find(0, np.array([0, 0, 3]), np.array([1, 2, 2]))
    ...     print([part.tolist() for part in found], access.examined)
    [[0, 1, 1], [0, 0, 2]] 9
    [[0, 1, 1], [0, 0, 2]] 4
    [[0, 1, 1], [0, 0, 2]] 3
    """

    name: str

    def __init__(self, facts: Facts, slot: int) -> None:
        self.facts, self.slot = facts, slot
        self.examined = self.compared = 0

    @abstractmethod
    def find(self, slot: int, values: Ints, times: Ints) -> Found:
        """The facts that have each value in a slot and are active at its time; a negative value finds nothing."""


class Scan(Access):
    """Every fact, every time."""

    name = "scan"

    def find(self, slot: int, values: Ints, times: Ints) -> Found:
        keys, begin, end = self.facts.keys[:, slot], self.facts.begin, self.facts.end
        step = max(1, _AT_ONCE // max(1, len(keys)))
        parts = []
        for at in range(0, len(values), step):
            value, time = values[at : at + step, None], times[at : at + step, None]
            places, facts = np.nonzero((keys == value) & (value >= 0) & (begin <= time) & (time < end))
            parts.append((places + at, facts))
        self.examined += len(values) * len(keys)
        return _joined(parts)


class PlainHash(Access):
    """The facts of each value in one slot."""

    name = "hash"

    def __init__(self, facts: Facts, slot: int) -> None:
        super().__init__(facts, slot)
        self._scan = Scan(facts, slot)
        self._order = np.argsort(facts.keys[:, slot], kind="stable")
        most = int(facts.keys[:, slot].max(initial=-1)) + 1
        self._start = np.searchsorted(facts.keys[:, slot][self._order], np.arange(most + 1))

    def find(self, slot: int, values: Ints, times: Ints) -> Found:
        if slot != self.slot:
            before = self._scan.examined
            found = self._scan.find(slot, values, times)
            self.examined += self._scan.examined - before
            return found
        known = (values >= 0) & (values < len(self._start) - 1)
        low = np.where(known, self._start[np.where(known, values, 0)], 0)
        high = np.where(known, self._start[np.where(known, values + 1, 0)], 0)
        self.compared += len(values)
        places, facts = _spread(low, high, self._order)
        self.examined += len(facts)
        return _active(self.facts, places, facts, times)


class SortedIndex(Access):
    """The facts sorted by value and begin, for each slot that is asked for."""

    name = "index"

    def __init__(self, facts: Facts, slot: int) -> None:
        super().__init__(facts, slot)
        self._sorted: dict[int, tuple[Ints, Ints, Ints, Ints]] = {}

    def find(self, slot: int, values: Ints, times: Ints) -> Found:
        if slot not in self._sorted:
            self._sorted[slot] = _in_order(self.facts, slot)
        order, keys, begin, latest = self._sorted[slot]
        everywhere = np.zeros(len(values), dtype=np.int64), np.full(len(values), len(keys), dtype=np.int64)
        low = self._search(keys, *everywhere, values - 1)
        high = self._search(keys, low, everywhere[1], values)
        high = self._search(begin, low, high, times)  # past the facts that have begun
        low = self._search(latest, low, high, times)  # past those before which all have ended
        low = np.where(values < 0, high, low)
        places, facts = _spread(low, high, order)
        self.examined += len(facts)
        return _active(self.facts, places, facts, times)

    def _search(self, ascending: Ints, low: Ints, high: Ints, bound: Ints) -> Ints:
        """For each look-up the first place from `low` on, before `high`, that has more than the bound; else `high`."""
        low, high = low.copy(), high.copy()
        open_ = np.flatnonzero(low < high)
        while len(open_):
            self.compared += len(open_)
            middle = (low[open_] + high[open_]) >> 1
            is_past = ascending[middle] > bound[open_]
            high[open_[is_past]] = middle[is_past]
            low[open_[~is_past]] = middle[~is_past] + 1
            open_ = open_[low[open_] < high[open_]]
        return low


ACCESSES: Mapping[str, Callable[[Facts, int], Access]] = {"scan": Scan, "hash": PlainHash, "index": SortedIndex}


def open_access(name: str, facts: Facts, lookups: Mapping[int, int]) -> Access:
    """The access of that name for so many look-ups by slot; `auto` chooses.

    It scans while that looks at 100,000 facts at most. Beyond, it hashes if one attribute alone is asked for, and no fact begins or ends or
    its values have few of them (up to 32, as a fact sees it on average); otherwise it has an index.

    >>> facts = Facts.of([[number, 0] for number in range(1000)])
    >>> [open_access("auto", facts, asked).name for asked in ({0: 100}, {0: 101}, {0: 101, 1: 1})]
    ['scan', 'hash', 'index']
    """
    kind = choose("access", name, ("auto", *ACCESSES))
    slot = max(lookups, key=lambda slot: lookups[slot], default=0)
    if kind == "auto":
        changes = bool(len(facts)) and (facts.begin.max() > DEAD or facts.end.min() < -DEAD)
        kind = "index" if len(lookups) > 1 or (changes and _each(facts, slot) > _EACH) else "hash"
        kind = "scan" if sum(lookups.values()) * len(facts) <= _SCANNED else kind
    return ACCESSES[kind](facts, slot)


def _each(facts: Facts, slot: int) -> float:
    """How many facts have the value of a fact, on average."""
    counts = np.unique(facts.keys[:, slot], return_counts=True)[1]
    return float((counts.astype(np.float64) ** 2).sum() / counts.sum())


def _in_order(facts: Facts, slot: int) -> tuple[Ints, Ints, Ints, Ints]:
    """The facts by value and begin: which they are, their values and begins, and the greatest end so far of the value."""
    order = np.lexsort((facts.begin, facts.keys[:, slot]))
    keys, end = facts.keys[order, slot], facts.end[order]
    return order, keys, facts.begin[order], greatest_so_far(keys, end)


def _spread(low: Ints, high: Ints, order: Ints) -> Found:
    """All places from low to high of each look-up."""
    counts = np.maximum(high - low, 0)
    places = np.repeat(np.arange(len(low)), counts)
    within = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
    return places, order[low[places] + within]


def _active(facts: Facts, places: Ints, found: Ints, times: Ints) -> Found:
    """Those that are active, in order."""
    time = times[places]
    kept = np.flatnonzero((facts.begin[found] <= time) & (time < facts.end[found]))
    kept = kept[np.lexsort((found[kept], places[kept]))]
    return places[kept], found[kept]


def _joined(parts: list[Found]) -> Found:
    none = np.zeros(0, dtype=np.int64)
    return np.concatenate([none, *(places for places, _ in parts)]), np.concatenate([none, *(facts for _, facts in parts)])
