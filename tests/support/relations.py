"""Random joins through relations: a `Case` with facts that come and go, as the oracle and penstock both understand it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

import oracle_facts
import penstock as ps
from graphs import ON_LINKS, random_rows
from oracle_facts import Fact, Relation
from penstock.core.batch import Batch
from penstock.core.problem import Problem
from penstock.engine.contract import Engine, Played
from penstock.engine.opening import compiled_form, open_engine
from penstock.engine.run import memory_log
from penstock.policies.table import open_policy
from penstock.relation.numbered import Numbered
from penstock.relation.relation import Relation as Table
from penstock.statistics.table import open_statistics
from policy_kinds import NEEDS_BOUND
from strategies import COUNTS, MODELS, OBJECTIVES, WINDOWS, Case, memories

TREES: dict[str, tuple[tuple[tuple[int, str], ...], ...]] = {
    "pair": (((0, "a"), (1, "b")),),
    "chain": (((0, "a"), (1, "b")), ((1, "a"), (2, "a"))),
    "star": (((1, "b"), (0, "a")), ((0, "a"), (2, "b"))),
    "three links": (((2, "a"), (0, "b"), (1, "a")),),
    "long": (((0, "a"), (1, "a"), (2, "b")), ((3, "a"), (2, "b"))),
}
"""For each relation its links: a stream and its column."""
EVERYTHING = ps.Keep(outputs=True, sheds=True, expired=True, retained=True, series=True, filtered=True)


@dataclass(frozen=True, kw_only=True)
class FactCase(Case):
    """A case whose streams are joined through relations; `known` says which facts are known from which row on, by relation."""

    tree: str = "pair"
    known: Sequence[tuple[int, Sequence[Sequence[Fact]]]] = ()
    weighted: Sequence[bool] = field(default=())

    @cached_property
    def trace(self) -> ps.Trace:
        columns: dict[str, Any] = {"stream": [self.streams[row.stream] for row in self.rows], "time": [row.time for row in self.rows]}
        if self.importance:
            columns["importance"] = [row.importance for row in self.rows]
        columns |= {name: pa.array([row.columns[name] for row in self.rows], pa.int64()) for name in "ab"}
        return ps.Trace(columns, key=(), streams=self.streams)

    def relations(self, facts: Sequence[Sequence[Fact]]) -> list[Relation]:
        return list(zip(TREES[self.tree], facts, strict=True))

    def through(self, facts: Sequence[Sequence[Fact]]) -> list[Table]:
        """Relations as penstock takes them; every fact has an id of its own."""
        return [
            ps.relation(
                {f"k{at}": pa.array([f.values[at] for f in own], pa.int64()) for at in range(len(links))}
                | {name: pa.array([getattr(f, name) for f in own], pa.int64()) for name in ("begin", "end")}
                | ({"weight": pa.array([f.weight for f in own], pa.float64())} if weighted else {})
                | {"n": pa.array(range(len(own)), pa.int64())},
                links=[f"{self.streams[stream]}.{column} = k{at}" for at, (stream, column) in enumerate(links)],
                id="n",
                name=f"f{which}",
            )
            for which, (links, own, weighted) in enumerate(zip(TREES[self.tree], facts, self.weighted, strict=True))
        ]

    def options(self) -> dict[str, Any]:
        return {name: value for name, value in super().options().items() if name not in ("given", "matches", "predicate")}

    def expected(self) -> dict[str, Any]:
        same = (
            "windows", "memory", "policy", "allocation", "stats", "objective", "model", "clock", "lateness", "start", "alpha", "beta",
            "half_life", "weights", "switches", "batches", "importance",
        )  # fmt: skip
        known = [(row, self.relations(facts)) for row, facts in self.known]
        result = oracle_facts.simulate(self.rows, known, **{name: getattr(self, name) for name in same})
        found = {name: getattr(result, name) for name in (*COUNTS, "n_filtered", "filtered", "sheds", "series")}
        if len(self.windows) > 2:  # an average of three is not dyadic
            found["value"] = pytest.approx(found["value"], rel=1e-12)
        return found | {"outputs": sorted(result.outputs), "memory": result.log, "expired": sorted(result.expired)}

    def opened(self, *, stepwise: bool) -> tuple[Engine, Batch, Callable[[Sequence[Sequence[Fact]]], Any]]:
        """An engine that knows nothing yet, all rows as one batch, and what numbers facts."""
        numbered = {id(facts): Numbered.of(self.trace, self.through(facts)) for _, facts in self.known}
        whole = numbered[id(self.known[0][1])]
        options = self.options()
        policy = options.pop("policy")
        problem = Problem.of(self.streams, through=whole.through, has_importance=self.importance, **options)
        chosen, rows = open_policy(policy, problem), Batch.of(self.trace, problem, whole.values)
        by_row = stepwise or compiled_form(problem, chosen) is None
        source, rows = open_statistics(problem, self.trace, rows, by_row=by_row, policy=chosen, facts=whole.facts)
        return open_engine(problem, chosen, source, EVERYTHING, stepwise=stepwise), rows, lambda facts: numbered[id(facts)].facts

    def played(self, *, stepwise: bool = False, snapshots: bool = False) -> dict[str, Any]:
        """What penstock does; with `snapshots`, by a new engine for each batch."""
        engine, rows, number = self.opened(stepwise=stepwise)
        parts = []
        for begin, end in pairwise([0, *self.batches, len(self.rows)]):
            if snapshots:
                state = engine.snapshot()
                engine = self.opened(stepwise=stepwise)[0]
                engine.restore(state)
            now = [(row, facts) for row, facts in self.known if row <= begin]
            if snapshots or now[-1][0] == begin:
                engine.know(number(now[-1][1]))
            parts.append(engine.play(rows.cut(begin, end)))
        played = Played.join(parts, len(self.windows), len(TREES[self.tree]))
        return found(engine.totals, played)


def found(totals: Any, played: Any) -> dict[str, Any]:
    """As plain lists; the order of outputs inside an instant is the engine's own."""
    return {name: getattr(totals, name) for name in (*COUNTS, "n_filtered")} | {
        "filtered": played.filtered.tolist(),
        "outputs": sorted(map(tuple, played.outputs.tolist())),
        "sheds": played.sheds.tolist(),
        "expired": sorted(played.expired.tolist()),
        "memory": [(time, rows.tolist()) for time, rows in memory_log(played.series, played.retained)],
        "series": [(time, held) for time, *held in played.series.tolist()],
    }


def random_facts(random: Random, links: int, times: Sequence[int], *, weighted: bool, length: int) -> list[Fact]:
    """Facts whose begins and ends are times of rows or next to them; some come back, and some are there twice."""
    out: list[Fact] = []
    moments = [*times, *(time + 1 for time in times)]
    for _ in range(length):
        begin, end = sorted(random.choices(moments, k=2))
        values = out[-1].values if out and random.random() < 0.3 else tuple(random.choice((0, 0, 0, 1, 1, 1, 2)) for _ in range(links))
        bounds = (None if random.random() < 0.5 else begin, None if random.random() < 0.4 else end)
        out.append(Fact(values, *bounds, random.choice((0.5, 1.0, 2.0, 4.0)) if weighted else 1.0))
    return out


PLAIN = {"time": ("time",), "any": ("time", "tumbling", "landmark", "none", "schedule")}


@st.composite
def fact_cases(
    draw: st.DrawFn,
    *,
    trees: Sequence[str] = tuple(TREES),
    policies: Sequence[str] = ON_LINKS,
    batches: bool = False,
    changes: bool = False,
    longest: int = 10,
) -> FactCase:
    """A case through relations: rows in disorder, facts at every moment; with `changes` facts become known between batches."""
    random = Random(draw(st.integers(0, 1 << 32)))
    tree = draw(st.sampled_from(trees))
    n = 1 + max(stream for links in TREES[tree] for stream, _ in links)
    policy = draw(st.sampled_from(policies))
    unusual = draw(st.sampled_from((0, 0, 3)))
    length = random.choice((4, 8, 16, 32))
    kinds = st.one_of(*(WINDOWS[kind] for kind in PLAIN["any"]))
    windows = [("time", length) if random.randrange(10) >= unusual else draw(kinds) for _ in range(n)]
    if policy in NEEDS_BOUND:
        windows = [window if window[0] not in ("none", "landmark") else ("time", 4) for window in windows]
    importance = draw(st.booleans())
    rows = random_rows(random, n, n * random.randint(2, longest), draw(st.sampled_from((0, 0, 3))), importance=importance)
    rows = [row for row in rows if random.random() < 0.95] or rows
    weighted = [random.random() < 0.4 for _ in TREES[tree]]
    times = sorted({row.time for row in rows})

    def facts() -> list[list[Fact]]:
        return [
            random_facts(random, len(links), times, weighted=own, length=random.choice((2, 6, 12, 12)))
            for links, own in zip(TREES[tree], weighted, strict=True)
        ]

    bounds = sorted(draw(st.sets(st.integers(1, len(rows) - 1), max_size=4))) if (batches or changes) and len(rows) > 1 else []
    known = [(0, facts())] + [(at, facts()) for at in bounds if changes and random.random() < 0.7]
    stats = draw(st.sampled_from(("whole", "window", "decayed") if len(known) == 1 else ("window", "decayed")))
    return FactCase(
        rows=rows,
        windows=windows,
        memory=draw(memories(n)) if random.random() < 0.3 else random.choice((n, 2 * n, 3 * n, 5 * n)),
        policy=policy,
        allocation=random.choice(("variable", "variable", "fixed")),
        stats=stats,
        objective=draw(st.sampled_from(OBJECTIVES)),
        model=draw(st.sampled_from(MODELS)),
        clock=draw(st.sampled_from(("global", "streams"))),
        lateness=[random.randint(0, 3) for _ in range(n)],
        start=random.choice((None, None, times[len(times) // 2])),
        alpha=2.0,
        beta=random.choice((0.25, None if not any(w[0] in ("none", "landmark") for w in windows) else 0.5)),
        half_life=1.0,
        weights=draw(st.sampled_from(((1, 1, 0), (-0.5, 2, 1)))),
        switches={
            "pre-filter": random.choice(("both", "both", "static", "none")),
            "mn": random.choice(("memory+arrivals", "memory")),
            "dgl-init": random.choice(("importance", "simpprob")),
            "life-remaining": random.choice(("full", "less-one")),
            "rates": random.choice(("tick", "tick", "arrival")),
        },
        importance=importance,
        batches=bounds,
        tree=tree,
        known=known,
        weighted=weighted,
    )
