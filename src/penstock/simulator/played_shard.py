"""One shard of the simulator: an engine with its share of the memory, and what all shards of a join did together."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from penstock.core.batch import Batch, OnProgress
from penstock.core.problem import Problem
from penstock.core.trace import Ints
from penstock.engine.contract import Engine, Keep, Played
from penstock.engine.opening import open_engine
from penstock.engine.run import JoinRun, memory_log
from penstock.policies.base import Policy, PolicySpec
from penstock.policies.opt import Opt
from penstock.policies.table import open_policy
from penstock.shard.division import SPAN
from penstock.shard.late_rows import broken_promises
from penstock.shard.shares.holding import Holding
from penstock.shard.shares.next_shares import Summary
from penstock.statistics.table import open_running


@dataclass
class PlayedShard:
    """One engine, the rows that it has played, and what happened."""

    number: int
    problem: Problem
    policy: Policy
    engine: Engine
    rows: list[Ints] = field(default_factory=list)  # of the trace, in the order of play
    instants: list[Ints] = field(default_factory=list)  # the numbers of its instants among those of all shards
    played: list[Played] = field(default_factory=list)
    expired: list[Ints] = field(default_factory=list)
    n_late: int = 0
    trimmed: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # what a smaller share drove out, before the next batch
    trimmed_at: int = 0
    holding: Holding = field(init=False)
    told: Summary | None = None  # to the others, after the last batch in which they met

    def __post_init__(self) -> None:
        """Begin with an equal share."""
        self.holding = Holding(self.problem.budget, self.problem.n_streams)

    @classmethod
    def open(cls, number: int, problem: Problem, policy: PolicySpec | None, room: int, keep: Keep, stepwise: bool) -> PlayedShard:
        """A shard that has seen nothing yet; its statistics take so many bytes at most."""
        problem = replace(problem, budget=replace(problem.budget, caps=problem.budget.caps.copy()))  # shares move
        chosen = open_policy(policy if isinstance(policy, str) else copy.deepcopy(policy), problem, also=(Opt.name,), room=room)
        engine = open_engine(problem, chosen, open_running(problem, chosen, room), keep, stepwise=stepwise)
        engine.number_from(number * SPAN)
        return cls(number, problem, chosen, engine)

    def play(self, columns: Batch, rows: Ints, progress: OnProgress | None) -> None:
        """Play these rows."""
        mine = _chosen(columns, rows)
        self.n_late += broken_promises(mine, self.engine.seen, self.problem)
        self.rows.append(rows)
        played = self.engine.play(mine, progress)
        if len(self.trimmed):
            sheds, at = np.concatenate([self.trimmed, played.sheds]), np.full(len(self.trimmed), self.trimmed_at)
            played = replace(played, sheds=sheds, shed_at=np.concatenate([at, played.shed_at]))
            self.trimmed = self.trimmed[:0]
        self.played.append(played)
        self.expired.append(played.expired)

    def hold(self, share: Ints) -> None:
        """Hold another share from now on; what has no room in it is shed at once."""
        self.holding.take(share)
        caps = self.problem.budget.caps
        less = (self.holding.caps < caps).any()
        caps[:] = self.holding.caps
        if less and self.engine.totals.used > caps.min():
            self.trimmed_at = self.engine.totals.instant
            trimmed = self.engine.trim()
            self.trimmed = trimmed if self.engine.keep.sheds else trimmed[:0]

    def weigh(self, columns: Batch, batch: int, shards: int, *, tell: bool) -> None:
        """Take note of the load of the batch that was played; where shards meet, sum up what the tuples are worth."""
        self.holding.note(_chosen(columns, self.rows[-1]), self.problem, int(self.engine.seen.max()))
        if tell:
            self.told = self.holding.summary(self.engine, self.problem, batch=batch, shard=self.number, shards=shards)

    def result(self, name: str) -> Ints:
        """What happened in all batches, of one kind."""
        return np.concatenate([getattr(part, name) for part in self.played])

    @cached_property
    def all_rows(self) -> Ints:
        """The rows of all batches, once they have been played."""
        return np.concatenate(self.rows)

    def of_trace(self, numbers: Ints) -> Ints:
        """The rows of the trace that have these numbers here."""
        return self.all_rows[numbers - self.number * SPAN]

    def held(self, instants: int) -> Ints:
        """After each instant of all shards, how many of its own this shard has played."""
        return np.searchsorted(np.concatenate(self.instants), np.arange(instants), side="right")


def _chosen(columns: Batch, rows: Ints) -> Batch:
    chosen: dict[str, Any] = {name: None if column is None else column[rows] for name, column in vars(columns).items()}
    return Batch(**chosen)


def summed(playing: list[PlayedShard], keep: Keep, times: Ints, seconds: float, most: int) -> JoinRun:
    """What all shards did together; the peak is the sum of theirs, each at a time of its own, and at most what they may have together."""
    totals = [shard.engine.totals for shard in playing]
    shed = np.concatenate([np.concatenate(shard.instants)[shard.result("shed_at") - 1] for shard in playing]) if keep.sheds else None
    order = None if shed is None else np.argsort(shed, kind="stable")
    sheds = None if order is None else np.concatenate([shard.of_trace(shard.result("sheds")) for shard in playing])[order]
    return JoinRun(
        policy=playing[0].policy.name,
        n_input=sum(own.n_input for own in totals),
        n_output=sum(own.n_output for own in totals),
        value=sum(own.value for own in totals),
        n_shed=sum(own.n_shed for own in totals),
        n_expired=sum(own.n_expired for own in totals),
        n_late=sum(shard.n_late for shard in playing),
        peak_memory=min(most, sum(own.peak_memory for own in totals)),
        streams=playing[0].problem.streams,
        seconds=seconds,
        outputs=_outputs(playing) if keep.outputs else None,
        sheds=sheds,
        shed_at=None if shed is None else shed[order],
        expired=np.concatenate([shard.of_trace(np.concatenate(shard.expired)) for shard in playing]) if keep.expired else None,
        memory_log=_memory_log(playing, times) if keep.retained else None,
        series=_series(playing, times) if keep.series or keep.retained else None,
        n_done=sum(own.n_done for own in totals) if playing[0].problem.has_matches else None,
        done=np.concatenate([shard.of_trace(shard.result("done")) for shard in playing]) if keep.done else None,
    )


def _outputs(playing: list[PlayedShard]) -> Ints:
    """The outputs of all shards, batch by batch in the order of time."""
    parts = []
    for batch in range(len(playing[0].played)):
        found = [shard.played[batch].outputs for shard in playing]
        named = [np.column_stack([own[:, :1], shard.of_trace(own[:, 1:])]) for shard, own in zip(playing, found, strict=True)]
        whole = np.concatenate(named)
        parts.append(whole[np.argsort(whole[:, 0], kind="stable")])
    return np.concatenate(parts)


def _series(playing: list[PlayedShard], times: Ints) -> Ints:
    """After each instant of all shards: its time, and the tuples that they hold together, by stream."""
    held = np.zeros((len(times), len(playing[0].problem.streams)), np.int64)
    for shard in playing:
        own = np.concatenate([np.zeros((1, held.shape[1]), np.int64), shard.result("series")[:, 1:]])
        held += own[shard.held(len(times))]
    return np.column_stack([times, held])


def _memory_log(playing: list[PlayedShard], times: Ints) -> list[tuple[int, Ints]]:
    """After each instant of all shards: its time, and the rows that they retain together."""
    held, logs = [], []
    for shard in playing:
        log = memory_log(shard.result("series"), shard.result("retained"))
        logs.append([np.empty(0, np.int64), *(shard.of_trace(rows) for _, rows in log)])
        held.append(shard.held(len(times)))
    return [
        (int(time), np.sort(np.concatenate([log[at[instant]] for log, at in zip(logs, held, strict=True)])))
        for instant, time in enumerate(times)
    ]
