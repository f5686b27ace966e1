"""What a compiled engine knows of relations: facts by value and begin, by end, and the way from stream to stream."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from itertools import permutations
from typing import Any

import numpy as np

from penstock.core.compiled import routine
from penstock.core.facts import Facts, Through, slots_of
from penstock.core.problem import Problem
from penstock.core.trace import Ints
from penstock.core.value import COUNT
from penstock.core.window import NEVER
from penstock.engine.compiled.facts.finding_facts import place_of_name
from penstock.engine.contract import Ranking
from penstock.engine.fact_arrays import BY_FACTS, CELL, ENDING, FACT_ARRAYS, GROWS, HELD, HOP, LISTED, PAST, STANDS, TIE
from penstock.engine.ranking_codes import FirstScore, Kind, Prices

_LEAST = 64
_MANY = 20_000
"""Facts that are not listed anew while who listed them last still has the list."""
_LISTS = ("listed", "fact_cells", "fact_weights", "endings")
"""Arrays that no engine writes to."""
_recent: list[CompiledFacts] = []
"""What was made last of many facts, of two shards at most: a shard and its meter know the same, and so does the next batch."""


def is_valued(problem: Problem) -> bool:
    """Whether what an arrival is worth to a tuple depends on the importances of both."""
    return problem.n_streams == 2 and problem.has_importance and problem.objective.code != COUNT


class CompiledFacts:
    """The facts of all relations, in arrays for compiled code, which has the addresses and none of the arrays.

    >>> relations = [Through.parse("f", ["R.x = a", "b = S.y"], "RS")]
    >>> index = CompiledFacts(relations, 2, [Facts.of([[0, 7], [1, 7], [0, 8]], begin=[5, 0, 2], end=[9, None, None])])
    >>> index.arrays["listed"]["begin"].tolist(), index.arrays["listed"]["fact"].tolist()
    ([2, 5, 0, 0, 5, 2], [2, 0, 1, 1, 0, 2])
    """

    def __init__(self, relations: Sequence[Through], streams: int, facts: Sequence[Facts]) -> None:
        self.relations, self.streams, self.facts = tuple(relations), streams, list(facts)
        self.names = np.concatenate([one.numbers for one in facts])
        self.width = slots_of(relations)[-1].stop
        self.span = max(len(one.links) for one in relations)
        self.filled = 0  # cells
        ties, own_links, hops = _ways(relations, streams)
        self.reach = own_links.shape[1]
        self.arrays: dict[str, Any] = {name: np.zeros(1, dtype) for name, dtype in FACT_ARRAYS.items() if name not in HELD}
        self.arrays |= {"ties": ties, "own_links": own_links.reshape(-1), "hops": hops.reshape(-1)}
        self._list(relations)

    @classmethod
    def of(cls, problem: Problem, facts: Sequence[Facts] | None = None) -> CompiledFacts:
        """Of a problem; without facts it knows none."""
        if facts is None:
            none = np.empty(0, np.int64)
            facts = [Facts(none.reshape(0, len(one.links)), none, none) for one in problem.through]
        for one in _recent:
            if one._is_of(problem, facts):
                return one._without_tuples()
        made = cls(problem.through, problem.n_streams, facts)
        if sum(map(len, facts)) < _MANY:
            return made
        _recent[:] = [made, *_recent[:1]]
        return made._without_tuples()

    def _is_of(self, problem: Problem, facts: Sequence[Facts]) -> bool:
        """Whether it was made of these very facts."""
        alike = (self.relations, self.streams, len(self.facts)) == (problem.through, problem.n_streams, len(facts))
        return alike and all(one is other for one, other in zip(self.facts, facts, strict=True))

    def _without_tuples(self) -> CompiledFacts:
        """The same facts for another engine."""
        other = copy(self)
        other.arrays = {name: array if name in _LISTS else array.copy() for name, array in self.arrays.items()}
        return other

    def _list(self, relations: Sequence[Through]) -> None:
        total = sum(len(one) for one in self.facts)
        listed = sum(one.keys.size for one in self.facts)
        self._open(max(_LEAST, listed))
        self.arrays["listed"] = np.zeros(max(1, listed), LISTED)
        self.arrays["fact_cells"] = np.zeros(max(1, total) * self.span, np.int32)
        self.arrays["fact_weights"] = np.ones(max(1, total))
        own, endings, base = [], [], 0
        for slots, one in zip(slots_of(relations), self.facts, strict=True):
            order = np.argsort(one.begin, kind="stable") if len(one) and (np.diff(one.begin) < 0).any() else np.arange(len(one))
            found = np.stack([self.cells_of(one.keys[:, at] * self.width + slot) for at, slot in enumerate(slots)], axis=1)
            own.append((order, found.astype(np.int64), one.begin.astype(np.int64), one.end.astype(np.int64), base))
            self.arrays["fact_cells"].reshape(-1, self.span)[base : base + len(one), : len(slots)] = found
            if one.weight is not None:
                self.arrays["fact_weights"][base : base + len(one)] = one.weight
            mortal = np.flatnonzero((one.end < NEVER) & (one.begin < one.end))
            last = np.zeros(len(mortal), ENDING)
            last["end"], last["begin"], last["fact"], last["link"] = one.end[mortal], one.begin[mortal], mortal + base, slots.start
            endings.append(last)
            base += len(one)
        cells = self.arrays["cells"]
        cells["facts"][: self.filled] = np.bincount(np.concatenate([found.reshape(-1) for _, found, *_ in own]), minlength=self.filled)
        cells["first"][: self.filled] = np.cumsum(cells["facts"][: self.filled]) - cells["facts"][: self.filled]
        for order, found, begin, end, base in own:
            _place(cells, self.arrays["listed"], order, found, begin, end, base)
        _measure(cells, self.arrays["listed"], self.filled)
        ending = np.concatenate(endings)
        self.arrays["endings"] = ending[np.argsort(ending["end"], kind="stable")] if len(ending) else np.zeros(1, ENDING)
        self.endings = len(ending)

    def describe(self, problem: Problem, ranking: Ranking, memory: Any, arrays: dict[str, Any]) -> None:
        """Write what is known, and how it is used, into the record of an engine."""
        n = problem.n_streams
        memory.related, memory.indexed, memory.relations = 1, BY_FACTS, len(self.facts)
        memory.most_links, memory.span, memory.width, memory.hopping = self.reach, self.span, self.width, len(self.arrays["hops"]) // n
        memory.facts_weigh, memory.n_endings = problem.weighted, self.endings
        first = ranking.kind in (Kind.SCORE, Kind.GAIN_LOSS) and ranking.first_score == FirstScore.IMPORTANCE
        memory.tops = problem.weighted and first
        memory.filters = problem.switch("pre-filter") != "none"
        memory.dynamic = problem.switch("pre-filter") == "both" and len(problem.through) == 1
        memory.growing = (STANDS if problem.stats == "whole" else GROWS) if ranking.prices == Prices.RATES else 0
        memory.paired = ranking.prices != Prices.NONE
        memory.worthy = is_valued(problem) and ranking.kind in (Kind.PRICE, Kind.LIFE, Kind.STAY)
        arrays["accesses"]["index"] = -1
        for one in problem.through:
            for i, j in permutations(one.streams, 2):
                arrays["accesses"]["index"][i * n + j] = 0
        if memory.worthy and memory.growing and len(self.arrays["last_past"]) == 1:
            self.remember_by_importance(_LEAST)
        self.share(memory, arrays)

    def cells_of(self, names: Ints) -> Ints:
        """The cells of these names (`CELL`); those that have none get one."""
        self._reserve(self.filled + len(names))
        found = np.empty(len(names), np.int64)
        self.filled = int(_number(self.arrays["cells"], self.arrays["named"], np.ascontiguousarray(names, np.int64), found, self.filled))
        return found

    def cells_by_link(self, values: Ints) -> Ints:
        """The cells of values by link, a line per tuple; -1 where a value is null."""
        found = np.full(values.shape, -1, dtype=np.int64)
        names = values * self.width + np.arange(self.width)
        found[values >= 0] = self.cells_of(names[values >= 0])
        return found

    def clear(self) -> None:
        """Forget all tuples."""
        self.arrays["cells"]["tail"], self.arrays["cells"]["members"] = -1, 0

    def remember_by_importance(self, room: int) -> None:
        """Have room for so many past arrivals that differ."""
        self.arrays["last_past"] = np.full(len(self.arrays["cells"]), -1, np.int64)
        self.arrays["past"] = np.zeros(max(_LEAST, room), PAST)

    def make_room(self, memory: Any, arrays: dict[str, Any], arrivals: int) -> None:
        """Have room to remember so many more, where any are."""
        past = self.arrays["past"]
        if len(past) > 1 and len(past) < memory.n_past + arrivals:
            self.arrays["past"] = np.zeros(2 * len(past) + arrivals, PAST)
            self.arrays["past"][: len(past)] = past
            self.share(memory, arrays)

    def share(self, memory: Any, arrays: dict[str, Any]) -> None:
        """Tell an engine where its arrays are now."""
        for name, array in self.arrays.items():
            arrays[name] = array
            memory[f"{name}_at"], memory[f"{name}_size"] = array.ctypes.data, len(array)

    def _open(self, room: int) -> None:
        self.arrays["cells"] = np.zeros(room, CELL)
        self.arrays["cells"]["tail"] = -1
        self.arrays["named"] = np.full(1 << (2 * room - 1).bit_length(), -1, np.int32)

    def _reserve(self, room: int) -> None:
        """Have room for so many cells."""
        if room <= len(self.arrays["cells"]):
            return
        old, last_past = self.arrays["cells"][: self.filled], self.arrays["last_past"]
        self._open(max(room, 2 * len(old)))
        _number(self.arrays["cells"], self.arrays["named"], np.ascontiguousarray(old["name"]), np.empty(len(old), np.int64), 0)
        self.arrays["cells"][: self.filled] = old
        if len(last_past) > 1:
            self.arrays["last_past"] = np.full(len(self.arrays["cells"]), -1, np.int64)
            self.arrays["last_past"][: len(last_past)] = last_past


@routine
def _number(cells: Any, named: Any, names: Ints, found: Ints, filled: int) -> int:
    """Find cells by name, or make them; how many there are then."""
    size = len(named)
    for number in range(len(names)):
        at = place_of_name(names[number], size)
        while named[at] >= 0 and cells[named[at]]["name"] != names[number]:
            at = (at + 1) & (size - 1)
        if named[at] < 0:
            named[at] = filled
            cells[filled]["name"] = names[number]
            filled += 1
        found[number] = named[at]
    return filled


@routine
def _place(cells: Any, listed: Any, order: Ints, found: Ints, begin: Ints, end: Ints, base: int) -> None:
    """List the facts of a relation, in this order, in their cells. `until` of the first of a cell counts how many are there."""
    for number in range(len(order)):
        fact = order[number]
        links = found.shape[1]
        for link in range(links):
            first = cells[found[fact, link]]["first"]
            at = first + listed[first]["until"]
            listed[at]["begin"] = begin[fact]
            listed[at]["end"] = end[fact]
            listed[at]["fact"] = base + fact
            listed[at]["other"] = found[fact, (link + 1) % links]
            listed[first]["until"] += 1


@routine
def _measure(cells: Any, listed: Any, filled: int) -> None:
    """The largest ends of runs (finding_facts.py)."""
    for cell in range(filled):
        before = cells[cell]["first"] - 1
        for number in range(1, cells[cell]["facts"] + 1):
            listed[before + number]["until"] = listed[before + number]["end"]
            low = 1
            while number & low == 0:
                listed[before + number]["until"] = max(listed[before + number]["until"], listed[before + number - low]["until"])
                low <<= 1


def _ways(relations: Sequence[Through], streams: int) -> tuple[Any, Ints, Any]:
    """The links, those of each stream, and by pivot's stream the hops to all others."""
    slots = slots_of(relations)
    ties = np.zeros(slots[-1].stop, TIE)
    mine: list[list[int]] = [[] for _ in range(streams)]
    for number, (one, at) in enumerate(zip(relations, slots, strict=True)):
        for slot, link in zip(at, one.links, strict=True):
            ties[slot] = (link.stream, number, len(mine[link.stream]), at.start, at.stop)
            mine[link.stream].append(slot)
    own_links = np.full((streams, max(map(len, mine))), -1, np.int64)
    for stream, own in enumerate(mine):
        own_links[stream, : len(own)] = own
    return ties, own_links, np.array([_hops_from(stream, mine, slots, ties) for stream in range(streams)], HOP)


def _hops_from(pivot: int, mine: list[list[int]], slots: Sequence[range], ties: Any) -> list[tuple[int, int, int, int]]:
    """Breadth first: a stream's relations, then the other streams of each."""
    found, waiting, come = [], [pivot], set()
    for stream in waiting:
        for link in mine[stream]:
            relation = int(ties[link]["relation"])
            if relation in come:
                continue
            come.add(relation)
            found.append((1, link, stream, relation))
            for other in slots[relation]:
                if other != link:
                    found.append((0, other, int(ties[other]["stream"]), relation))
                    waiting.append(int(ties[other]["stream"]))
    return found
