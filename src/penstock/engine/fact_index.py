"""Facts by what links them: which facts a tuple has, when its last chance ends, and which rows can be in no output (Towne 2.2).

facts of value 7        [0, 4)   [2, 9)   [6, none)
a row of value 7 at 3   1st and 2nd; its last chance is 9. At 10: the 3rd alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.batch import Batch
from penstock.core.errors import PenstockError
from penstock.core.facts import Facts, slots_of
from penstock.core.problem import Problem
from penstock.core.trace import Floats, Ints
from penstock.core.window import NEVER

_TOGETHER = 1 << 22  # pairs of row and fact that are held at once


class FactIndex:
    """The facts of all relations of a problem, found by the value of each link and by time.

    >>> from penstock.core.facts import Through
    >>> problem = Problem.of("RS", window=9, memory=4, through=[Through.parse("f", ["R.x = a", "b = S.y"], "RS")])
    >>> index = FactIndex(problem, [Facts.of([[7, 1], [7, 2]], end=[4, None])])
    >>> [found.tolist() for found in index.pairs(0, 0, np.array([7, 8, 7]), np.array([3, 3, 4]))]
    [[0, 0, 2], [0, 1, 1]]
    """

    def __init__(self, problem: Problem, facts: Sequence[Facts]) -> None:
        through = problem.through
        if [one.keys.shape[1] for one in facts] != [len(one.links) for one in through]:
            told = ", ".join(one.name for one in through)
            raise PenstockError(f"facts must be there for each relation ({told}), with a number for each link, got {len(facts)}")
        self.problem, self.facts = problem, tuple(facts)
        self.slots = slots_of(through)
        self.links: list[list[tuple[int, int]]] = [
            [(which, link) for which, one in enumerate(through) for link, linked in enumerate(one.links) if linked.stream == stream]
            for stream in range(problem.n_streams)
        ]
        self._sorted = [[_Lane(one, link) for link in range(one.keys.shape[1])] for one in self.facts]

    @property
    def filters_memory(self) -> bool:
        """Whether tuples leave with their last fact (Towne, rule 8). With several relations one may wait for what another of them links."""
        return self.problem.switch("pre-filter") == "both" and len(self.facts) == 1

    def weight(self, which: int) -> Floats:
        """What the facts of a relation weigh."""
        own = self.facts[which].weight
        return np.ones(len(self.facts[which])) if own is None else own

    def pairs(self, which: int, link: int, value: Ints, time: Ints) -> tuple[Ints, Ints]:
        """Tuples with these values at a link of a relation, and their facts that are active at their times: positions, by tuple."""
        low, high = self._sorted[which][link].ranges(value, time)
        return self._active(which, link, low, high, time)

    def chances(self, stream: Ints, time: Ints, values: Ints) -> tuple[Ints, Floats]:
        """For each row the end of the last of its facts, -NEVER where it has none; and the largest weight of its facts.

        With several relations the first of these ends counts, and the largest weights are multiplied; without facts the weight is 1.
        """
        last, top = np.full(len(stream), NEVER, dtype=np.int64), np.ones(len(stream))
        for number, links in enumerate(self.links):
            mine = np.flatnonzero(stream == number)
            for which, link in links:
                facts, weight = self.facts[which], self.weight(which)
                value = values[mine, self.slots[which][link]]
                for part, at, found in self._parts(which, link, value, time[mine]):
                    rows = mine[part]
                    last[rows] = np.minimum(last[rows], _largest(at, facts.end[found], len(rows), -NEVER))
                    top[rows] *= _largest(at, weight[found], len(rows), 1.0)
        return last, top

    def _parts(self, which: int, link: int, value: Ints, time: Ints) -> Iterator[tuple[slice, Ints, Ints]]:
        """`pairs` for some rows at a time."""
        low, high = self._sorted[which][link].ranges(value, time)
        bounds = np.cumsum(high - low) // _TOGETHER
        starts = np.concatenate([[0], np.flatnonzero(np.diff(bounds)) + 1, [len(value)]]) if len(value) else np.array([0])
        for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            part = slice(begin, end)
            yield part, *self._active(which, link, low[part], high[part], time[part])

    def _active(self, which: int, link: int, low: Ints, high: Ints, time: Ints) -> tuple[Ints, Ints]:
        at, place = expand(low, high)
        found = self._sorted[which][link].order[place]
        active = time[at] < self.facts[which].end[found]
        return at[active], found[active]


class _Lane:
    """The facts of a relation in the order of the number of one link, then of begin."""

    def __init__(self, facts: Facts, link: int) -> None:
        key = facts.keys[:, link]
        self.begins, rank = np.unique(facts.begin, return_inverse=True)
        self.span = len(self.begins) + 1
        self.order = np.lexsort((rank, key))
        self.place = key[self.order] * self.span + rank[self.order]

    def ranges(self, value: Ints, time: Ints) -> tuple[Ints, Ints]:
        """Where in the order those with a value are that have begun by a time."""
        begun = np.searchsorted(self.begins, time, side="right")
        low = np.searchsorted(self.place, value * self.span)
        return low, np.where(value < 0, low, np.searchsorted(self.place, value * self.span + begun))


@dataclass(frozen=True)
class Sifted:
    """A batch without the rows that can be in no output, and what those that are left must know."""

    batch: Batch
    row: Ints  # the places of its rows in the whole batch
    filtered: Ints  # and of the others
    seen: Ints  # for each row, the largest time of each stream up to it, with those that were filtered
    end: Ints  # the same at the end of the batch
    last_chance: Ints
    top_weight: Floats


def sift(index: FactIndex, batch: Batch) -> Sifted:
    """The static filter of a batch (docs/decisions/0031, filters; switch `pre-filter`).

    >>> from penstock.core.facts import Through
    >>> problem = Problem.of("RS", window=9, memory=4, through=[Through.parse("f", ["R.x = a", "b = S.y"], "RS")])
    >>> index = FactIndex(problem, [Facts.of([[7, 1]], end=[4])])
    >>> stream, time, values = np.array([0, 0, 1]), np.array([3, 4, 4]), np.array([[7, -1], [7, -1], [-1, 1]])
    >>> found = sift(index, Batch(stream, time, np.arange(3), values=values))
    >>> found.row.tolist(), found.filtered.tolist(), found.end.tolist(), found.last_chance.tolist()
    ([0], [1, 2], [4, 4], [4])
    """
    assert batch.values is not None
    problem = index.problem
    last, top = index.chances(batch.stream, batch.time, batch.values)
    switch = problem.switch("pre-filter")
    stays = (last > -NEVER) | (switch == "none")
    row = np.flatnonzero(stays)
    came = np.arange(problem.n_streams) == batch.stream[:, None]
    seen = np.maximum.accumulate(np.where(came, batch.time[:, None], -NEVER), axis=0)
    end = seen[-1] if len(batch) else np.full(problem.n_streams, -NEVER)
    parts: dict[str, Any] = {name: None if column is None else column[row] for name, column in vars(batch).items()}
    chance = last[row] if index.filters_memory else np.full(len(row), NEVER)
    return Sifted(Batch(**parts), row, np.flatnonzero(~stays), seen[row], end, chance, top[row])


def expand(low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """Every place of some ranges, and the range that it is in.

    >>> [found.tolist() for found in expand(np.array([5, 9, 2]), np.array([7, 9, 3]))]
    [[0, 0, 2], [5, 6, 2]]
    """
    size = high - low
    which = np.repeat(np.arange(len(low)), size)
    return which, np.arange(len(which)) + np.repeat(low - np.cumsum(size) + size, size)


def _largest(at: Ints, of: NDArray[Any], size: int, none: float) -> NDArray[Any]:
    """The largest of what belongs to each position, which rise; `none` where nothing does."""
    out = np.full(size, none, dtype=of.dtype)
    if len(at):
        starts = np.flatnonzero(np.diff(at, prepend=-1))
        out[at[starts]] = np.maximum.reduceat(of, starts)
    return out
