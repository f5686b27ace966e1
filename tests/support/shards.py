"""Shards that shed, played through the real engine, and what a ledger says of them: the ground for tests of settling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from engines import running_engine
from penstock.core.batch import Batch
from penstock.core.problem import Problem
from penstock.ledger.ledger import Ledger
from penstock.ledger.ledger_plan import LedgerPlan
from penstock.ledger.manifest import Attempt
from penstock.policies.table import POLICIES
from policy_kinds import NEEDS_BOUND, ON_STATS

Members = tuple[int, ...]


@dataclass(frozen=True)
class Arrival:
    """A tuple: its row, its stream, what it carries, and when it came."""

    row: int
    stream: int
    time: int
    key: int | None
    importance: float
    batch: int
    arrived: int


@dataclass
class Shard:
    """The life of a shard: what arrived, what left when (instant, batch), and what was emitted in which batch."""

    number: int
    windows: tuple[int | None, ...]
    arrivals: list[Arrival] = field(default_factory=list)
    left: dict[int, tuple[int, int]] = field(default_factory=dict)
    emitted: list[tuple[int, Members]] = field(default_factory=list)

    def exact(self) -> list[tuple[int, Members]]:
        """The exact result by its definition: the batch of the last arrival, and the rows of the members."""
        sides = [[one for one in self.arrivals if one.stream == stream] for stream in range(len(self.windows))]
        found = []
        for members in product(*sides):
            now = max(one.time for one in members)
            alive = all(w is None or now - w < one.time for w, one in zip(self.windows, members, strict=True))
            if alive and members[0].key is not None and len({one.key for one in members}) == 1:
                found.append((max(one.batch for one in members), tuple(one.row for one in members)))
        return found

    def met(self, members: Members) -> bool:
        """The rule of the ledger: the last had arrived when the first left."""
        arrived = {one.row: one.arrived for one in self.arrivals}
        return max(arrived[row] for row in members) <= min(self.left.get(row, (1 << 62, 0))[0] for row in members)


def played(
    random: Random,
    *,
    windows: tuple[int | None, ...] = (8, 8),
    number: int = 0,
    memory: Any = 6,
    policy: Any = "prob",
    lateness: int = 0,
    disorder: int = 0,
    batches: int = 5,
    rows: int = 60,
    keys: int = 4,
    stepwise: bool = False,
    **options: Any,
) -> Shard:
    """A shard that has played random rows in random micro-batches, sorted within each as on Spark, with clocks from elsewhere."""
    n = len(windows)
    names = tuple("abcdefgh"[:n])
    window = {name: "none" if w is None else w for name, w in zip(names, windows, strict=True)}
    problem = Problem.of(
        names, window=window, memory=memory, clock="streams", lateness=lateness, stats="decayed", has_importance=True, **options
    )
    engine = running_engine(problem, policy, ps.Keep(outputs=True, sheds=True, expired=True), stepwise=stepwise)
    engine.number_from(number << 40)
    shard = Shard(number, windows)
    cuts = sorted(random.randrange(rows + 1) for _ in range(batches - 1))
    now = 0
    stream_of, time_of = [], []
    for _ in range(rows):
        now += random.choice((0, 0, 1, 1, 2))
        stream_of.append(random.randrange(n))
        time_of.append(now - random.randrange(disorder + 1) if random.random() < 0.5 else now)
    seen = np.full(n, -(1 << 62))
    row = number << 40
    for batch, (begin, end) in enumerate(zip([0, *cuts], [*cuts, rows], strict=True)):
        order = sorted(range(begin, end), key=lambda at: (time_of[at], stream_of[at], at))
        key = [random.choice([*range(keys), None]) if random.random() < 0.1 else random.randrange(keys) for _ in order]
        worth = [float(random.choice((1, 2, 4))) for _ in order]
        stream, time = (np.array([column[at] for at in order], dtype=np.int64) for column in (stream_of, time_of))
        before = engine.totals.instant
        result = engine.play(Batch(stream, time, np.array([-1 if k is None else k for k in key], np.int64), np.array(worth)))
        instants = before + np.cumsum(np.diff(time, prepend=time[:1] - 1) != 0)
        for at in range(len(order)):
            shard.arrivals.append(Arrival(row, int(stream[at]), int(time[at]), key[at], worth[at], batch, int(instants[at])))
            seen[stream[at]] = max(seen[stream[at]], time[at])
            row += 1
        for gone, when in zip([*result.sheds, *result.expired], [*result.shed_at, *result.expired_at], strict=True):
            shard.left[int(gone)] = (int(when), batch)
        # Other shards may be ahead of this one.
        ahead = np.where(seen > -(1 << 62), seen + random.choice((0, 0, 3)), seen)
        for gone in engine.advance(ahead):
            shard.left[int(gone)] = (engine.totals.instant, batch)
        shard.emitted += [(batch, tuple(members)) for _, *members in result.outputs.tolist()]
    return shard


BATCHES = 6
ORDER = (*ON_STATS, *(name for name in POLICIES if name not in ON_STATS))
"""All policies; tests that take some shards take the first of them."""


def shards_of(windows: tuple[int | None, ...], **options: Any) -> list[Shard]:
    """A shard per policy, each with its own budget, disorder and lateness: promises are kept in some and broken in others."""
    out = []
    for number, policy in enumerate(ORDER):
        if None in windows and policy in NEEDS_BOUND:
            continue
        random = Random(f"{windows} {policy}")
        memory, disorder, lateness = random.randint(len(windows), 9), random.randint(0, 9), random.choice((0, 3, 9))
        out.append(
            played(
                random, windows=windows, number=number, policy=policy, memory=memory, disorder=disorder, lateness=lateness,
                batches=BATCHES, rows=60, **options,
            )
        )  # fmt: skip
    return out


# ------------------------------------------------------------------------------------------------------------ as ledger


def plan_of(windows: tuple[int | None, ...], **changed: Any) -> LedgerPlan:
    """The plan of a join of such shards: columns k, a_v, b_v, ..., value."""
    names = tuple("abcdefgh"[: len(windows)])
    columns = [("k", "string"), *((f"{name}_v", "long") for name in names), ("value", "double")]
    fields = ", ".join(f'{{"name": "{name}", "type": "{kind}", "nullable": true, "metadata": {{}}}}' for name, kind in columns)
    facts: dict[str, Any] = {
        "name": "test",
        "streams": names,
        "keys": 1,
        "payload": (("k", "a_v"), *((f"{name}_v",) for name in names[1:])),
        "windows": windows,
        "objective": "min",
        "condition": None,
        "schema": f'{{"type": "struct", "fields": [{fields}]}}',
        "has_importance": True,
    }
    return LedgerPlan(**(facts | changed))


def tables(shard: Shard, batch: int) -> tuple[list[pa.Table | None], pa.Table]:
    """What a ledger is given for a batch of a shard."""
    arrived: list[pa.Table | None] = []
    for stream, name in zip(range(len(shard.windows)), "abcdefgh", strict=False):
        mine = [one for one in shard.arrivals if one.stream == stream and one.batch == batch]
        key = pa.array([None if one.key is None else f"{one.row >> 40}/{one.key}" for one in mine], pa.string())
        columns = {
            "row": pa.array([one.row for one in mine], pa.int64()),
            "arrived": pa.array([one.arrived for one in mine], pa.int64()),
            "time": pa.array([one.time for one in mine], pa.int64()),
            "key0": key,
            "importance": pa.array([one.importance for one in mine], pa.float64()),
        }
        columns |= ({"k": key} if stream == 0 else {}) | {f"{name}_v": columns["row"]}
        arrived.append(pa.table(columns) if mine else None)
    gone = [(row, left) for row, (left, when) in shard.left.items() if when == batch]
    left = pa.table({"row": pa.array([r for r, _ in gone], pa.int64()), "left": pa.array([at for _, at in gone], pa.int64())})
    return arrived, left


def write(
    ledger: Ledger,
    shards: Sequence[Shard],
    batches: Sequence[int],
    *,
    epoch: int = 1,
    last: int | None = None,
    count: int = 0,
    **facts: Any,
) -> None:
    """Write these batches of all shards, each after what was written of the batch before; `last` is that of a run that does not stream."""
    made: dict[tuple[int, int], Attempt] = vars(ledger).setdefault("made", {})
    for batch in batches:
        for place, shard in enumerate(shards):
            before = max((one for one in made.values() if one.shard == place and one.batch < batch), default=None)
            more = {
                "shards": count or len(shards),
                "epoch": epoch,
                "after": [] if before is None else [before],
                "last": batch == last,
            } | facts
            made[batch, place] = ledger.write(batch, place, *tables(shard, batch), **more)


def owed(shards: Sequence[Shard], batches: range | None = None) -> Counter[Members]:
    """What the exact result has and the shards have not emitted, of these batches or of all."""
    exact = Counter(members for shard in shards for batch, members in shard.exact() if batches is None or batch in batches)
    emitted = Counter(members for shard in shards for batch, members in shard.emitted if batches is None or batch in batches)
    assert not emitted - exact
    return exact - emitted
