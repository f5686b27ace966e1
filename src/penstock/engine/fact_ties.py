"""The candidates of one instant and their facts: who matches whom, by what weight, and all outputs with one arrival (Towne, formula 6).

An output is bound along the tree of relations: from a tuple to its facts, from each of them to the tuples that have it, and on from there.

    R  --F--  S  --G--  T        s arrives: its facts of F, their r's; for each of these lines the facts of G of s, their t's
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.trace import Bools, Floats, Ints
from penstock.engine.binding import Columns, in_halves
from penstock.engine.fact_index import FactIndex, expand


class Ties:
    """Which facts each candidate has that are active at its time."""

    def __init__(self, index: FactIndex, columns: Columns) -> None:
        self.index, self.columns, self.n = index, columns, index.problem.n_streams
        self._pairs = cache(self._find)
        self._by_fact = cache(self._turned)

    def pairs(self, which: int, link: int) -> tuple[Ints, Ints]:
        """Candidates of the stream of a link and their facts, by candidate."""
        return self._pairs(which, link)

    def keys(self, which: int, link: int) -> Ints:
        """The numbers that facts have at a link."""
        return self.index.facts[which].keys[:, link]

    def _find(self, which: int, link: int) -> tuple[Ints, Ints]:
        index, columns = self.index, self.columns
        stream = index.problem.through[which].links[link].stream
        mine = np.flatnonzero((columns["stream"] == stream) & (columns["key"] >= 0))
        value = columns["values"][mine, index.slots[which][link]]
        at, fact = index.pairs(which, link, value, columns["time"][mine])
        return mine[at], fact

    def _turned(self, which: int, link: int) -> tuple[Ints, Ints]:
        """The same, by fact: facts and candidates."""
        at, fact = self.pairs(which, link)
        order = np.argsort(fact, kind="stable")
        return fact[order], at[order]

    def linked(self, i: int, j: int) -> tuple[int, int, int] | None:
        """The relation that links two streams directly, and its links to them; there is at most one."""
        theirs = dict(self.index.links[j])
        return next(((which, link, theirs[which]) for which, link in self.index.links[i] if which in theirs), None)

    def matrix(self, mine: tuple[int, Ints], theirs: tuple[int, Ints], weight: Any = None) -> NDArray[Any] | None:
        """How many facts link each of a stream's positions (lines) with each of another's, or what they weigh by `weight(relation)`.

        None where no relation links the two streams directly.
        """
        (i, one), (j, other) = mine, theirs
        found = self.linked(i, j)
        if found is None:
            return None
        which, own, opposite = found
        at, fact = self.pairs(which, own)
        facts, partners = self._by_fact(which, opposite)
        pair, place = expand(np.searchsorted(facts, fact), np.searchsorted(facts, fact, side="right"))
        out = np.zeros((len(one), len(other)))
        worth: Any = 1.0 if weight is None else weight(which)[fact[pair]]
        np.add.at(out, (np.searchsorted(one, at[pair]), np.searchsorted(other, partners[place])), worth)
        return out

    def live(self, which: int, now: int) -> Floats:
        """What facts count in scores: their weight until their end has come."""
        return np.where(self.index.facts[which].end > now, self.index.weight(which), 0.0)

    def combinations(self, limit: Ints, pivot: int, others: Ints, most: int = 1 << 62) -> Iterator[Ints]:
        """The outputs of `pivot` with others: a line of positions by stream and facts by relation, rising; see `binding.combinations`."""
        return in_halves(self.columns["stream"], pivot, others, most, lambda part, limited: self._bind(limit, pivot, part, limited))

    def _bind(self, limit: Ints, pivot: int, others: Ints, most: int) -> Ints | None:
        """All at once; None where that takes more than `most` lines."""
        n, through, time = self.n, self.index.problem.through, self.columns["time"]
        allowed: Bools = np.zeros(len(time), dtype=bool)
        allowed[others] = True
        found = np.full((1, n + len(through)), pivot)
        bound = [int(self.columns["stream"][pivot])]
        left = set(range(len(through)))
        while left:
            which = min(one for one in left if set(through[one].streams) & set(bound))
            left.remove(which)
            streams = through[which].streams
            first = next(link for link, stream in enumerate(streams) if stream in bound)
            at, fact = self.pairs(which, first)
            member = found[:, streams[first]]
            found = self._with(found, at, fact, member, n + which)
            for link, stream in enumerate(streams):
                if link != first:
                    facts, partners = self._by_fact(which, link)
                    ours = allowed[partners]
                    found = self._with(found, facts[ours], partners[ours], found[:, n + which], stream)
                    bound.append(stream)
                    found = found[time[found[:, bound]].max(axis=1) < limit[found[:, bound]].min(axis=1)]
                    if len(found) > most:
                        return None
        return found[np.lexsort(found.T[::-1])]

    @staticmethod
    def _with(found: Ints, by: Ints, what: Ints, wanted: Ints, column: int) -> Ints:
        """Lines continued by everything that belongs to what they want there; `by` rises."""
        line, place = expand(np.searchsorted(by, wanted), np.searchsorted(by, wanted, side="right"))
        out = found[line]
        out[:, column] = what[place]
        return out


def facts_of(index: FactIndex, found: Ints) -> tuple[Ints, Floats]:
    """The names of the facts of outputs, by relation, and what these weigh together."""
    n = index.problem.n_streams
    weight = np.ones(len(found))
    numbers = np.empty((len(found), len(index.facts)), dtype=np.int64)
    for which, facts in enumerate(index.facts):
        chosen = found[:, n + which]
        numbers[:, which] = facts.numbers[chosen]
        weight *= index.weight(which)[chosen]
    return numbers, weight
