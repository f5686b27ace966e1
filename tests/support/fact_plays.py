"""Random joins through relations, drawn from a seed, and both engines beside each other on them.

Numbers are dyadic, as in strategies.py. Facts come and go at every moment, several link the same values, and some are never active.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from penstock.core.batch import Batch
from penstock.core.facts import Facts, Through, slots_of
from penstock.core.problem import Problem
from penstock.engine.contract import Engine, Keep, Played
from penstock.engine.opening import open_engine
from penstock.policies.table import open_policy
from penstock.statistics.table import open_statistics

SHAPES: dict[str, dict[str, list[str]]] = {
    "RS": {"f": ["R.x = a", "b = S.y"]},
    "RST": {"f": ["R.x = a", "b = S.y"], "g": ["S.z = a", "b = T.w"]},
    "TRS": {"f": ["R.x = a", "b = S.y"], "g": ["R.z = a", "b = T.w"]},
    "RTS": {"f": ["R.x = a", "b = S.y", "c = T.z"]},
}
"""One relation of two streams, a chain and a star of two, and one relation of three."""
ON_STATS = ("prob", "life", "elife")
POLICIES = ("fifo", *ON_STATS, "simp", "simpprob", "dimpprob", "dgl", "additive")
KEEP = Keep(outputs=True, sheds=True, expired=True, retained=True, series=True, filtered=True)
COUNTS = (
    "n_input", "n_output", "n_shed", "n_expired", "n_late", "n_filtered", "peak_memory", "retained", "used", "instant", "next_row",
)  # fmt: skip


@dataclass(frozen=True)
class FactPlay:
    """A join, its rows and the facts of its relations."""

    problem: Problem
    batch: Batch
    facts: Sequence[Facts]
    policy: str
    rated: Sequence[Facts] | None = None  # those of which rates of the whole trace were made, before others took their place

    def engine(self, *, stepwise: bool, knows: bool = True) -> Engine:
        """An engine, that knows the facts or has yet to be told."""
        policy = open_policy(self.policy, self.problem)
        source, _ = open_statistics(self.problem, None, self.batch, by_row=stepwise, policy=policy, facts=self.rated or self.facts)  # type: ignore[arg-type]
        engine = open_engine(self.problem, policy, source, KEEP, stepwise=stepwise)
        if knows:
            engine.know(self.facts)
        return engine


def drawn_facts(random: np.random.Generator, problem: Problem, values: int, ticks: int) -> list[Facts]:
    """A dozen facts or fewer for each relation."""
    found = []
    for one in problem.through:
        size = int(random.integers(0, 12))
        begin = np.where(random.random(size) < 0.3, -(1 << 62), random.integers(0, ticks, size))
        end = np.where(random.random(size) < 0.4, 1 << 62, np.maximum(begin, 0) + random.integers(0, ticks, size))
        keys = random.integers(0, values, (size, len(one.links)))
        weight = random.choice([0.5, 1.0, 2.0, 3.0], size) if one.weighted else None
        found.append(Facts(keys, begin, end, weight, random.permutation(size) + 100 if random.random() < 0.5 else None))
    return found


def drawn_play(random: np.random.Generator) -> FactPlay:
    """A join of at most forty rows."""
    streams = str(random.choice(list(SHAPES)))
    weighted = bool(random.random() < 0.4)
    through = [Through.parse(name, links, streams, weighted=weighted) for name, links in SHAPES[streams].items()]
    n, size, values, ticks = len(streams), int(random.integers(1, 40)), int(random.integers(1, 5)), int(random.integers(2, 25))
    stream, time = random.integers(0, n, size), np.sort(random.integers(0, ticks, size))
    if random.random() < 0.4:
        time = time - random.integers(0, 4, size) * (random.random(size) < 0.4)
    seen = np.full((size, slots_of(through)[-1].stop), -1)
    for at, link in enumerate(link for one in through for link in one.links):
        mine = stream == link.stream
        seen[mine, at] = random.integers(-1 if random.random() < 0.3 else 0, values, np.count_nonzero(mine))
    policy = str(random.choice(POLICIES))
    allocation = str(random.choice(["fixed", "variable", "variable"]))
    stats = str(random.choice(["decayed", "window", "whole"])) if policy in ON_STATS else "window"
    switches = {"pre-filter": ["both", "both", "static", "none"], "rates": ["tick", "arrival"], "dgl-init": ["importance", "simpprob"]}
    important, mortal = bool(random.random() < 0.6), bool(random.random() < 0.2)
    problem = Problem.of(
        streams, window={name: int(random.integers(1, 10)) for name in streams}, memory=int(random.integers(n, 9)),
        allocation=allocation, through=through, objective=str(random.choice(["count", "min", "max", "sum", "product", "avg"])),
        stats=stats, half_life=1.0 if stats == "decayed" else None, model=str(random.choice(["buffered", "inplace"])),
        clock=str(random.choice(["global", "streams"])), lateness=int(random.integers(0, 3)),
        switches={name: str(random.choice(choices)) for name, choices in switches.items()},
        has_importance=important, has_lifetime=mortal,
    )  # fmt: skip
    importance = random.choice([0.5, 1.0, 2.0, 4.0], size) if important else None
    lifetime = random.integers(1, 9, size) if mortal else None
    batch = Batch(stream, time, np.arange(size), importance, lifetime, values=seen)
    return FactPlay(problem, batch, drawn_facts(random, problem, values, ticks), policy)


def play_both(random: np.random.Generator, case: FactPlay) -> bool:
    """Both engines do the same, cut anywhere, with snapshots between, and when the relations change; whether one was compiled."""
    plain, fast = case.engine(stepwise=True), case.engine(stepwise=False)
    cuts = [0, *sorted(random.integers(0, len(case.batch) + 1, int(random.integers(0, 3))).tolist()), len(case.batch)]
    for begin, end in pairwise(cuts):
        rows = case.batch.cut(begin, end)
        pieces = list(fast.pieces(rows, None, int(random.integers(1, 4))))
        _compare(plain, plain.play(rows), fast, Played.join(pieces, case.problem.n_streams, len(case.problem.through)))
        if random.random() < 0.4:
            other = case.engine(stepwise=False, knows=random.random() < 0.5)
            if random.random() < 0.5:
                other.restore(fast.snapshot())
            else:
                other.thaw(fast.freeze())
            other.know(case.facts)
            fast = other
        if random.random() < 0.25:
            case = replace(case, facts=drawn_facts(random, case.problem, 4, 20), rated=case.rated or case.facts)
            plain.know(case.facts)
            fast.know(case.facts)
        _between(random, case.problem, plain, fast)
    case.problem.budget.caps[:] = np.maximum(1, case.problem.budget.caps - 2)  # of both engines
    assert plain.trim().tolist() == fast.trim().tolist() and sorted(plain.retained()) == sorted(fast.retained())
    return fast.is_compiled


def _between(random: np.random.Generator, problem: Problem, plain: Engine, fast: Engine) -> None:
    """What a shard asks of its engine between two batches: clocks of others, rows that came too late, rows that go elsewhere."""
    if random.random() < 0.3:
        seen = np.maximum(plain.seen, 0) + random.integers(0, 5, problem.n_streams)
        assert sorted(plain.advance(seen)) == sorted(fast.advance(seen))
    if random.random() < 0.2:
        for engine in (plain, fast):
            engine.count_late(2)
    if random.random() < 0.2:
        gone = plain.retained()[random.random(len(plain.retained())) < 0.3]
        for engine in (plain, fast):
            engine.dismiss(gone)
    assert sorted(plain.retained()) == sorted(fast.retained()) and plain.seen.tolist() == fast.seen.tolist()
    assert {name: getattr(fast.totals, name) for name in COUNTS} == {name: getattr(plain.totals, name) for name in COUNTS}


def _compare(plain: Engine, expected: Played, fast: Engine, found: Played) -> None:
    for name in ("outputs", "retained"):
        assert _sorted(getattr(found, name)) == _sorted(getattr(expected, name)), name
    for name in ("series", "sheds", "shed_at", "filtered"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist(), name
    assert sorted(zip(found.expired, found.expired_at, strict=True)) == sorted(zip(expected.expired, expected.expired_at, strict=True))
    assert {name: getattr(fast.totals, name) for name in COUNTS} == {name: getattr(plain.totals, name) for name in COUNTS}
    assert np.isclose(fast.totals.value, plain.totals.value)  # summed up in another order


def _sorted(lines: Any) -> list[list[int]]:
    return list(map(list, sorted(map(tuple, lines.tolist()))))
