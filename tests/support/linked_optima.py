"""Joins through relations by their definition (docs/decisions/0031), and the best that can be done in them: plain Python, and slow.

Nothing here knows of the engine or of the solvers. `best` tries every set of tuples that fits, instant by instant.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import oracle
import penstock as ps
from penstock.optimum.schedule import NEVER

LINKS = {
    "pair": [("f", ((0, "x"), (1, "x")))],
    "chain": [("f", ((0, "x"), (1, "x"))), ("g", ((1, "y"), (2, "y")))],
    "star": [("f", ((0, "x"), (1, "x"), (2, "y")))],
}
"""Relations, and which column of which stream each links."""


@dataclass(frozen=True)
class Row:
    """A tuple: its stream, time, columns and importance."""

    stream: int
    time: int
    columns: dict[str, Any]
    importance: float = 1.0


@dataclass(frozen=True)
class Fact:
    """A fact: a value for each link, when it is active, and its weight."""

    keys: tuple[Any, ...]
    begin: float = -math.inf
    end: float = math.inf
    weight: float = 1.0

    def active(self, time: int) -> bool:
        """Whether it is active at a time."""
        return self.begin <= time < self.end


@dataclass(frozen=True)
class Star:
    """A join through relations, with all that can be asked of an optimum."""

    rows: list[Row]
    facts: dict[str, list[Fact]]
    links: str = "pair"
    windows: tuple[int, ...] = (4, 4)
    memory: Any = 2
    allocation: str = "variable"
    model: str = "buffered"
    objective: str = "min"
    start: int | None = None
    filtering: str = "both"
    weighted: bool = field(default=True)

    @property
    def streams(self) -> tuple[str, ...]:
        """Their names."""
        return tuple("RST"[: len(self.windows)])

    @property
    def trace(self) -> ps.Trace:
        """The rows, as a trace."""
        numbers = pa.int64()
        columns: dict[str, Any] = {
            "stream": pa.array([self.streams[row.stream] for row in self.rows]),
            "time": pa.array([row.time for row in self.rows], numbers),
            "importance": pa.array([row.importance for row in self.rows]),
        }
        columns |= {name: pa.array([row.columns.get(name) for row in self.rows], numbers) for name in "xy"}
        return ps.Trace(pa.table(columns), key=(), streams=self.streams)

    @property
    def through(self) -> list[Any]:
        """The relations."""
        return [self._relation(name, ends) for name, ends in LINKS[self.links]]

    def _relation(self, name: str, ends: tuple[tuple[int, str], ...]) -> Any:
        facts, number = self.facts[name], pa.int64()
        columns: dict[str, Any] = {
            letter: pa.array([fact.keys[at] for fact in facts], number) for at, letter in enumerate("abc"[: len(ends)])
        }
        columns |= {
            "id": pa.array(range(len(facts)), number),
            "begin": pa.array([None if fact.begin == -math.inf else fact.begin for fact in facts], number),
            "end": pa.array([None if fact.end == math.inf else fact.end for fact in facts], number),
        }
        if self.weighted:
            columns["weight"] = pa.array([fact.weight for fact in facts], pa.float64())
        links = [f"{self.streams[stream]}.{column} = {letter}" for (stream, column), letter in zip(ends, "abc", strict=False)]
        return ps.relation(pa.table(columns), links=links, id="id", name=name)

    def options(self) -> dict[str, Any]:
        """What `ps.optimum` and `ps.simulate` are asked."""
        return {
            "window": ",".join(f"{name}={length}" for name, length in zip(self.streams, self.windows, strict=True)),
            "memory": self.memory, "allocation": self.allocation, "model": self.model, "objective": self.objective, "start": self.start,
            "through": self.through, "switches": {"pre-filter": self.filtering},
        }  # fmt: skip

    def numbers(self) -> list[int]:
        """The instant of each row."""
        times = sorted({row.time for row in self.rows})
        return [times.index(row.time) for row in self.rows]

    def chance(self, row: Row) -> float:
        """When its last chance ends; before everything where it has none at all."""
        ends = [
            max(
                (fact.end for fact in self.facts[name] if fact.active(row.time) and fact.keys[at] == row.columns[column]), default=-math.inf
            )
            for name, linked in LINKS[self.links]
            for at, (stream, column) in enumerate(linked)
            if stream == row.stream
        ]
        return min(ends)

    def plays(self, row: Row) -> bool:
        """Whether it comes through the static filter."""
        return self.filtering == "none" or self.chance(row) > -math.inf

    def expiry(self, row: Row) -> float:
        """The time from which on it is in memory no more."""
        window = row.time + self.windows[row.stream]
        return min(window, self.chance(row)) if self.filtering == "both" and len(self.facts) == 1 else window

    def outputs(self) -> list[tuple[tuple[int, ...], float]]:
        """The exact result: the rows of each output, and what it is worth."""
        found = []
        for members in product(*([n for n, row in enumerate(self.rows) if row.stream == s] for s in range(len(self.windows)))):
            rows = [self.rows[n] for n in members]
            now = max(row.time for row in rows)
            if any(row.time <= now - self.windows[row.stream] for row in rows) or (self.start is not None and now < self.start):
                continue
            value = oracle.VALUES[self.objective]([row.importance for row in rows])
            found += [(members, value * weight) for weight in self._weights(rows)]
        return found

    def _weights(self, rows: list[Row]) -> Iterator[float]:
        """For each way to choose a fact of every relation, the product of their weights."""
        fitting = [
            [
                fact.weight if self.weighted else 1.0
                for fact in self.facts[name]
                if all(
                    fact.active(rows[stream].time) and rows[stream].columns[column] == fact.keys[at]
                    for at, (stream, column) in enumerate(linked)
                )
            ]
            for name, linked in LINKS[self.links]
        ]
        return (math.prod(chosen) for chosen in product(*fitting))


def best(star: Star, goal: str = "max") -> float:
    """The largest value of all schedules, or the least of those that shed only what they must."""
    own, better = star.numbers(), max if goal == "max" else min
    played = [n for n, row in enumerate(star.rows) if star.plays(row)]
    by_instant: dict[int, list[tuple[tuple[int, ...], float]]] = {}
    for members, value in star.outputs():
        by_instant.setdefault(max(own[n] for n in members), []).append((members, value))
    states: dict[frozenset[int], float] = {frozenset(): 0.0}
    for instant in sorted({own[n] for n in played}):
        arrivals = [n for n in played if own[n] == instant]
        now = star.rows[arrivals[0]].time
        following: dict[frozenset[int], float] = {}
        for held, before in states.items():
            alive = [n for n in held if star.expiry(star.rows[n]) > now]
            for stay in _choices(star, alive + arrivals, now, goal):
                met = set(alive if star.model == "buffered" else stay.intersection(alive)) | set(arrivals)
                gained = sum(value for members, value in by_instant.get(instant, ()) if met.issuperset(members))
                following[stay] = better(following[stay], before + gained) if stay in following else before + gained
        states = following
    return better(states.values())


def _choices(star: Star, candidates: list[int], now: int, goal: str) -> Iterator[frozenset[int]]:
    parts = []
    for streams, budget in oracle.pools(star.memory, star.allocation, len(star.windows), now):
        mine = [n for n in candidates if star.rows[n].stream in streams]
        sizes = range(min(budget, len(mine)) + 1) if goal == "max" else [min(len(mine), budget)]
        parts.append([chosen for size in sizes for chosen in combinations(mine, size)])
    return (frozenset(n for part in chosen for n in part) for chosen in product(*parts))


def worth(star: Star, leaves: list[int]) -> tuple[int, float]:
    """A schedule counted by hand: its outputs and what they are worth. It must keep to the budget, and never store what is filtered."""
    own, last = star.numbers(), star.numbers()[-1]
    times = sorted({row.time for row in star.rows})
    for number, row in enumerate(star.rows):
        assert star.plays(row) or leaves[number] == own[number]
    for instant in sorted({own[n] for n, row in enumerate(star.rows) if star.plays(row)}):
        held = [n for n, row in enumerate(star.rows) if own[n] <= instant < leaves[n] and star.expiry(row) > times[instant]]
        for streams, budget in oracle.pools(star.memory, star.allocation, len(star.windows), times[instant]):
            assert sum(star.rows[n].stream in streams for n in held) <= budget
    assert all(own[n] <= at <= last or at == NEVER for n, at in enumerate(leaves))
    made = []
    for members, value in star.outputs():
        instant = max(own[n] for n in members)
        waiting = [n for n in members if own[n] < instant]
        if all(leaves[n] >= instant + (star.model == "inplace") for n in waiting):
            made.append(value)
    return len(made), sum(made)


@st.composite
def stars(
    draw: st.DrawFn, *, links: tuple[str, ...] = ("pair",), longest: int = 12, filters: tuple[str, ...] = ("both", "static", "none")
) -> Star:
    """Few values, and facts that come and go in every instant: several for one pair, ties at begin and end, nulls."""
    shape = draw(st.sampled_from(links))
    n = 1 + max(stream for _, ends in LINKS[shape] for stream, _ in ends)
    value, time = st.integers(0, 1), st.integers(0, 7)
    maybe = st.sampled_from((0, 0, 1, 1, None)) if draw(st.booleans()) else value
    rows = [
        Row(draw(st.integers(0, n - 1)), draw(time), {"x": draw(maybe), "y": draw(maybe)}, draw(st.sampled_from((1.0, 2.0, 4.0, 8.0))))
        for _ in range(draw(st.integers(longest - 4, longest)))
    ]
    facts = {name: draw(st.lists(_facts(len(ends)), min_size=3, max_size=8)) for name, ends in LINKS[shape]}
    rising = st.sampled_from(([(0, 1), (3, 3), (5, 2)], [(0, 3), (4, 1)]))
    memory: st.SearchStrategy[Any] = st.integers(n - 1, 3) | (rising if n == 2 else st.integers(2, 4))
    allocation = draw(st.sampled_from(("variable", "fixed"))) if n == 2 else "variable"
    return Star(
        rows=sorted(rows, key=lambda row: row.time), facts=facts, links=shape,
        windows=tuple(draw(st.integers(n, 9)) for _ in range(n)),
        memory=draw(memory if allocation == "variable" else st.integers(2, 4)), allocation=allocation,
        model=draw(st.sampled_from(("buffered", "inplace"))), objective=draw(st.sampled_from(("min", "count", "sum"))),
        start=draw(st.sampled_from((None, None, None, 1, 4))), filtering=draw(st.sampled_from(filters)), weighted=draw(st.booleans()),
    )  # fmt: skip


def _facts(n: int) -> st.SearchStrategy[Fact]:
    begin, value = st.sampled_from((None, None, None, None, -1, 0, 1, 2, 3, 5)), st.integers(0, 1)
    stay = st.sampled_from((None, None, None, 1, 2, 3, 4, 6))
    weight = st.sampled_from((1.0, 2.0, 0.5))
    return st.builds(_fact, st.tuples(*(value,) * n), begin, stay, weight)


def _fact(keys: tuple[int, ...], begin: int | None, stay: int | None, weight: float) -> Fact:
    first = -math.inf if begin is None else begin
    end = math.inf if stay is None else (stay if begin is None else begin + stay)
    return Fact(keys, first, end, weight)
