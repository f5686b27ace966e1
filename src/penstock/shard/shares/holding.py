"""What a shard holds of the memory: its share, and what it notes of its load for the next summary."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from penstock.core.batch import Batch
from penstock.core.budget import Pools
from penstock.core.problem import Problem
from penstock.core.trace import Ints
from penstock.engine.contract import Engine
from penstock.shard.overhead import PLACE
from penstock.shard.shares.next_shares import EQUAL, Summary, equal_share, part
from penstock.shard.shares.worth_summary import Load, points_of


class Holding:
    """The share of a shard in a memory of which an equal share is `budget`.

    >>> holding = Holding(Pools.parse(100, ("R", "S")), streams=2)
    >>> holding.share = np.array([EQUAL * 3 // 2])
    >>> holding.caps.tolist(), holding.is_equal
    ([[150]], False)
    """

    def __init__(self, budget: Pools, streams: int) -> None:
        self.equal = replace(budget, caps=budget.caps.copy())
        self.share = equal_share(budget.caps.shape[1])
        self.load = Load(np.zeros(streams))
        self.heard: tuple[int, ...] = ()  # by join of the budget: the batch of its last summary that is known, -1 for none; its own too

    @property
    def caps(self) -> Ints:
        """What may be held, by time and pool."""
        return part(self.equal.caps, self.share)

    @property
    def is_equal(self) -> bool:
        """Whether the share is that of all others at the beginning."""
        return bool((self.share == EQUAL).all())

    @property
    def part(self) -> float:
        """The share as a part of an equal one: 1.5 where it is half as much again."""
        return max(1, int(self.share.sum())) / (EQUAL * len(self.share))

    def note(self, batch: Batch, problem: Problem, now: int) -> None:
        """Take note of a batch that has been played."""
        if len(batch):
            self.load.add(batch, problem, now)

    def summary(self, engine: Engine, problem: Problem, *, batch: int, shard: int, shards: int) -> Summary:
        """What the others are told after a batch."""
        caps = self.equal.at(int(engine.seen.max()))
        points = points_of(engine, problem, self.load, caps)
        totals = engine.totals
        size = max(PLACE, totals.used // max(1, totals.retained)) if problem.budget.in_bytes else 1
        row = tuple(int(EQUAL * size // cap) + 1 for cap in caps)
        return Summary(batch, shard, shards, tuple(self.share.tolist()), row, points, engine.worth_unit(), self.heard)

    def facts(self) -> dict[str, Any]:
        """What is kept of it, as JSON."""
        found = {"share": self.share.tolist(), "load": self.load.sums.tolist(), "at": int(self.load.at)}
        return found | ({"heard": list(self.heard)} if self.heard else {})

    def restore(self, facts: dict[str, Any]) -> None:
        """Take over what was kept, also of a memory that was divided into other pools: then the least share of any is that of all."""
        self.take(np.array(facts["share"], np.int64))
        self.heard = tuple(facts.get("heard", ()))
        if len(facts["load"]) == len(self.load.sums):
            self.load = Load(np.array(facts["load"], np.float64), int(facts["at"]))

    def take(self, share: Ints) -> None:
        """Hold this share from now on."""
        self.share = share.copy() if share.shape == self.share.shape else np.full_like(self.share, share.min())
