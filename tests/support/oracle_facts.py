"""The oracle of joins through relations: docs/decisions/0031 rule by rule, slow and in plain Python, without code of the engine.

    R(x)  --x = a-->  F(a, b, [begin, end))  --b = y-->  S(y)

The steps of an instant, windows and policies are those of oracle.py; what matches, what it counts and who is played at all is here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import oracle
from oracle import INFINITY, Context, Number, Result, Row, Tuple, Window, null, rounded

Link = tuple[int, str]
"""A stream and its column; a fact has a value for each link of its relation, in their order."""


@dataclass(frozen=True)
class Fact:
    """A fact; None is no begin and no end."""

    values: tuple[Any, ...]
    begin: int | None = None
    end: int | None = None
    weight: float = 1.0

    def active(self, time: Number) -> bool:
        return (self.begin is None or self.begin <= time) and time < self.until

    @property
    def until(self) -> Number:
        return INFINITY if self.end is None else self.end


Relation = tuple[Sequence[Link], Sequence[Fact]]


@dataclass
class FactResult(Result):
    """What happened; outputs are (time, rows by stream, facts by relation)."""

    n_filtered: int = 0
    filtered: list[int] = field(default_factory=list)
    expired: list[int] = field(default_factory=list)


def has(fact: Fact, links: Sequence[Link], x: Row) -> bool:
    """Whether a fact has the value of a row, which its relation links, at its time."""
    value, own = next((value, column) for value, (stream, column) in zip(fact.values, links, strict=True) if stream == x.stream)
    return not null(x.columns[own]) and bool(x.columns[own] == value) and fact.active(x.time)


def links_of(relations: Sequence[Relation], x: Row) -> list[Relation]:
    """The relations that link a row's stream."""
    return [(links, facts) for links, facts in relations if x.stream in [stream for stream, _ in links]]


def is_filtered(relations: Sequence[Relation], x: Row) -> bool:
    """Whether some relation has no fact for a row."""
    return any(not any(has(f, links, x) for f in facts) for links, facts in links_of(relations, x))


def chains(relations: Sequence[Relation], members: Sequence[Row]) -> list[tuple[int, ...]]:
    """The facts, by relation, that join these members, of each stream one."""
    found = [
        [number for number, f in enumerate(facts) if all(has(f, links, members[stream]) for stream, _ in links)]
        for links, facts in relations
    ]
    return list(product(*found))


def exact(rows: Sequence[Row], windows: Sequence[Window], relations: Sequence[Relation]) -> list[tuple[Any, ...]]:
    """The exact result, whatever the order of the rows: every combination looked at."""
    tuples = oracle.place(rows, windows, {}, None)
    outputs = []
    for members in product(*([x for x in tuples if x.stream == s] for s in range(len(windows)))):
        latest = max(x.time for x in members)
        if all(latest < x.expiry for x in members):
            outputs += [(latest, *(x.number for x in members), *facts) for facts in chains(relations, members)]
    return sorted(outputs)


def simulate(
    rows: Sequence[Row], relations: Sequence[tuple[int, Sequence[Relation]]], *, windows: Sequence[Window], memory: Any,
    policy: Any, allocation: str, stats: str, objective: str, model: str, clock: str, lateness: Sequence[int], start: int | None,
    alpha: float | None, beta: float | None, half_life: float | None, weights: tuple[float, float, float],
    switches: Mapping[str, str], batches: Iterable[int], importance: bool,
) -> FactResult:  # fmt: skip
    """Play the rows. `relations` says what is known of them from which row on, the first of a batch."""
    n = len(windows)
    switch = switches.get("pre-filter", "both")

    def known(number: int) -> Sequence[Relation]:
        return [found for begin, found in relations if begin <= number][-1]

    filtered = [number for number, row in enumerate(rows) if switch != "none" and is_filtered(known(number), row)]
    tuples = oracle.place(rows, windows, switches, batches, filtered)
    if half_life is None:
        half_life = oracle.longest(windows) if stats == "decayed" else INFINITY
    context = FactContext(
        tuples, n, windows, lambda x, y: False, oracle.VALUES[objective], objective == "count", stats, switches, alpha, beta, half_life,
        {}, weights, rows=rows, relations=known(0),
    )  # fmt: skip
    context.match = context.linked
    score = oracle.SCORES[policy]
    value = oracle.VALUES[objective]
    held: list[Tuple] = []
    result = FactResult(n_input=len(rows), n_filtered=len(filtered), filtered=filtered)

    for number in range(tuples[-1].instant + 1 if tuples else 0):
        arrivals = [x for x in tuples if x.instant == number]
        context.relations = known(arrivals[0].number)
        context.arrive(number, arrivals)
        horizon = context.horizon(clock, lateness)

        def leaves(x: Tuple) -> Number:
            ((links, facts),) = context.relations if len(context.relations) == 1 else [((), ())]
            last = max((f.until for f in facts if has(f, links, x)), default=-INFINITY)
            return min(x.expiry, last) if switch == "both" and links else x.expiry

        result.n_late += sum(x.expiry <= horizon for x in arrivals)
        kept = [x for x in held if leaves(x) > horizon]
        result.expired += [x.number for x in held if x not in kept]
        context.memory = kept
        context.begin()

        def joined(met: list[Tuple], arrivals: list[Tuple] = arrivals) -> list[tuple[tuple[Tuple, ...], tuple[int, ...]]]:
            return [
                (members, facts)
                for members in oracle.combined(met, arrivals, n)
                if all(max(y.time for y in members) < x.expiry for x in members)
                for facts in chains(context.relations, members)
            ]

        found = joined(kept) if model == "buffered" else []
        candidates = held = kept + arrivals
        ranks = {x.number: (*score(x, context), x.time, x.stream, x.number) for x in candidates}
        for streams, budget in oracle.pools(memory, allocation, n, context.now):
            while len(pool := [x for x in held if x.stream in streams]) > budget:
                victim = min(pool, key=lambda x: ranks[x.number])
                held = [x for x in held if x.number != victim.number]
                result.sheds.append(victim.number)
        if model == "inplace":
            found = joined([x for x in kept if x in held])
        for members, facts in found:
            time = max(x.time for x in members)
            result.outputs.append((time, *(x.number for x in members), *facts))
            if start is None or time >= start:
                result.n_output += 1
                worth = [context.relations[which][1][fact].weight for which, fact in enumerate(facts)]
                result.value += value([x.importance for x in members]) * math.prod(worth)
        time = arrivals[0].time
        result.log.append((time, sorted(x.number for x in held)))
        result.series.append((time, [sum(x.stream == s for x in held) for s in range(n)]))
        result.peak_memory = max(result.peak_memory, len(held))
    result.n_shed, result.n_expired = len(result.sheds), len(result.expired)
    return result


@dataclass
class FactContext(Context):
    """What a policy may ask, where facts say what matches."""

    rows: Sequence[Row] = ()
    relations: Sequence[Relation] = ()
    lost: set[tuple[Any, int]] = field(default_factory=set)  # arrivals that are forgotten, by what they are counted under
    first: dict[int, float] = field(default_factory=dict)

    def arrive(self, instant: int, arrivals: list[Tuple]) -> None:
        """Filtered rows move the clock too."""
        super().arrive(instant, arrivals)
        self.now = max(row.time for row in self.heard())

    def heard(self) -> Sequence[Row]:
        """Every row up to the last arrival."""
        return self.rows[: self.arrivals[-1].number + 1]

    def horizon(self, clock: str, lateness: Sequence[int]) -> Number:
        if clock == "global":
            return self.now
        times = [[row.time for row in self.heard() if row.stream == s] for s in range(self.n_streams)]
        return min(max(seen, default=-INFINITY) - late for seen, late in zip(times, lateness, strict=True))

    def between(self, x: Row, stream: int) -> tuple[int, Link] | None:
        """The relation that links x's stream and another directly, and its link to the other."""
        for which, (links, _) in enumerate(self.relations):
            linked = dict(links)
            if x.stream in linked and stream in linked:
                return which, (stream, linked[stream])
        return None

    def facts(self, x: Tuple, which: int) -> list[Fact]:
        """The facts of x in a relation."""
        links, facts = self.relations[which]
        return [f for f in facts if not null(x.key) and has(f, links, x)]

    def linked(self, x: Tuple, y: Tuple) -> bool:
        """Whether two tuples match: a fact is active at the times of both; any two match where no relation links their streams."""
        direct = self.between(x, y.stream)
        if null(x.key) or null(y.key) or direct is None:
            return not null(x.key) and not null(y.key)
        links, facts = self.relations[direct[0]]
        return any(has(f, links, x) and has(f, links, y) for f in facts)

    def pairs(self, x: Tuple, stream: int) -> list[tuple[float, Tuple]]:
        """The partners of x in a stream, each once for every fact between them that still counts, with its weight."""
        direct = self.between(x, stream)
        if direct is None:
            return [(1.0, y) for y in self.near(x, stream)]
        links, _ = self.relations[direct[0]]
        facts = [f for f in self.facts(x, direct[0]) if f.until > self.now]
        return [(f.weight, y) for y in self.near(x, stream) for f in facts if has(f, links, y)]

    def mn(self, x: Tuple) -> Any:
        return math.prod(sum(weight for weight, _ in self.pairs(x, stream)) for stream in self.partners(x))

    def p(self, x: Tuple) -> Number:
        """Nothing is kept: facts come and go."""
        return 0 if null(x.key) else math.prod(self.rate(x, stream) for stream in self.partners(x))

    def rate(self, x: Tuple, stream: int) -> Number:
        if self.stats == "window":
            return sum(weight * self.pair(x, y) for weight, y in self.pairs(x, stream))
        direct = self.between(x, stream)
        all_of = [y for y in (self.tuples if self.stats == "whole" else self.seen) if y.stream == stream and not null(y.key)]

        def weight(y: Tuple, under: Any) -> float:
            if self.stats == "whole":
                return 1.0
            return 0.0 if (under, y.number) in self.lost else 2.0 ** -((self.now - y.time) / self.half_life)

        if direct is None:
            terms = [weight(y, stream) for y in all_of]
        else:
            (which, link) = direct
            at = list(self.relations[which][0]).index(link)
            facts = [f for f in self.facts(x, which) if f.until > self.now]
            same = [(f, y) for f in facts for y in all_of if y.columns[link[1]] == f.values[at]]
            terms = [f.weight * self.pair(x, y) * weight(y, (which, link)) for f, y in same]
        if self.stats == "decayed":
            return rounded(math.fsum(terms))
        played = [y for y in self.tuples if y.stream == stream]
        return sum(terms) / len(played) if self.switches.get("rates") == "arrival" and played else sum(terms)

    def forget(self, step: int, least: float) -> None:
        """Each value of a linked column is forgotten by itself, and each stream as a whole."""
        past = [x for x in self.seen if x not in self.arrivals]
        if not past or self.half_life == INFINITY:
            return
        begin = past[0].time
        age = math.floor((self.arrivals[0].time - begin) / self.half_life / step) * step
        if age <= self.moved:
            return
        self.moved = age
        counted: dict[Any, list[tuple[Any, Tuple]]] = {}
        for x in past:
            worth = x.importance if self.n_streams == 2 and not self.counting else None
            if not null(x.key):
                counted.setdefault((x.stream, None, None), []).append((x.stream, x))
                for which, (links, _) in enumerate(self.relations):
                    for link in links:
                        if link[0] == x.stream:
                            counted.setdefault(((which, link), x.columns[link[1]], worth), []).append(((which, link), x))
        for arrivals in counted.values():
            left = [(under, x) for under, x in arrivals if (under, x.number) not in self.lost]
            if sum(2.0 ** ((x.time - begin) / self.half_life - age) for _, x in left) < least:
                self.lost |= {(under, x.number) for under, x in left}

    def first_importance(self, x: Tuple) -> float:
        """The importance times the largest weights of its facts, as they were when it came."""
        if x.instant == self.instant:
            largest = [max((f.weight for f in facts if has(f, links, x)), default=1.0) for links, facts in links_of(self.relations, x)]
            self.first[x.number] = x.importance * math.prod(largest)
        return self.first[x.number]
