"""What Spark plays, without Spark: one engine per shard with its part of the memory, and every row in the shard of its key's hash.

A batch is played in the order of time and stream; rows that tie keep the order of the trace (on Spark: that of the column `order`). Within
a batch a shard sees its own rows alone, so that its clock lags behind by as much as these are apart. Between two batches each shard hears
how far the streams have come in all of them, and what their tuples are worth, so that memory moves between them (shard/shares). Without
`batch` all rows are one batch, as in a batch query, and shares stay equal.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np

from penstock.core.batch import Batch, OnProgress
from penstock.core.budget import OVERHEAD, Budget, Memory
from penstock.core.errors import PenstockError, choose
from penstock.core.problem import Problem
from penstock.core.trace import Ints, Trace
from penstock.core.window import NEVER
from penstock.engine.contract import Engine, Keep, Played, read_keep
from penstock.engine.opening import open_engine
from penstock.engine.run import JoinRun, memory_log
from penstock.policies.base import Policy, PolicySpec
from penstock.policies.opt import Opt
from penstock.policies.table import AUTO, open_policy
from penstock.shard.division import SPAN, for_tuples, part_of, shard_count
from penstock.shard.overhead import PLACE, overhead_of
from penstock.shard.shares.holding import Holding
from penstock.shard.shares.moves import Summary, next_shares, period
from penstock.shard.spark_hash import placed
from penstock.statistics.table import RUNNING, open_running

_WINDOWS = ("time", "none", "rows_per_key")


def play_shards(
    trace: Trace,
    problem: Problem,
    *,
    shards: Any,
    memory: Memory,
    allocation: str = "variable",
    policy: PolicySpec = AUTO,
    batch: int | None = None,
    shared: bool = True,
    keep: Keep | None = None,
    stepwise: bool = False,
    progress: OnProgress | None = None,
) -> JoinRun:
    """Play a trace in so many shards, and add up what they did. `problem` has the budget of them all, read from `memory`.

    Unless they are `shared`, all shards have equal shares for ever.

    >>> trace = Trace.from_streams(R="abca", S="caba")
    >>> problem = Problem.of(trace.streams, window=4, memory=4, stats="decayed", clock="streams")
    >>> play_shards(trace, problem, shards=2, memory=4, policy="fifo").n_output
    5
    """
    count, keep = check_shards(problem, shards, policy), read_keep(keep)
    whole = Budget.parse(memory, problem.streams, allocation=allocation)
    overhead = overhead_of(None, whole, count)
    part = replace(problem, budget=_part(whole, problem, allocation, count, overhead))
    columns = _columns(trace, part)
    place = placed([trace.table[name] for name in trace.key_columns], len(trace), count) if count > 1 else np.zeros(len(trace), np.int64)
    kept = replace(keep, series=keep.series or keep.retained)
    playing = [_Shard.open(number, part, policy, overhead // 2, kept, stepwise) for number in range(count)]
    began = perf_counter()
    times: list[Ints] = []  # of all instants
    n_instants = 0
    for number, rows in enumerate(_batches(trace, batch)):
        now = np.unique(trace.time[rows])
        meets = shared and count > 1 and number % period(count) == 0
        if meets and number:
            for shard, share in zip(playing, next_shares([shard.told for shard in playing]), strict=True):
                shard.hold(share)
        for shard in playing:
            shard.play(columns, rows[place[rows] == shard.number], progress)
            shard.instants.append(n_instants + np.searchsorted(now, np.unique(trace.time[shard.rows[-1]])))
        times.append(now)
        n_instants += len(now)
        clocks = np.full(problem.n_streams, -NEVER)
        np.maximum.at(clocks, trace.stream[rows], trace.time[rows])
        for shard in playing:
            shard.expired.append(shard.engine.advance(clocks))
            if shared and count > 1:
                shard.weigh(columns, number, count, tell=meets)
    return _summed(playing, keep, np.concatenate(times), perf_counter() - began, whole.most)


def check_shards(problem: Problem, shards: Any, policy: Any) -> int:
    """The number of shards, for a join that Spark divides by its keys."""
    count = shard_count(shards)
    if policy == Opt.name:
        raise PenstockError("policy 'opt' replays the optimum of one memory, got shards: leave one of them out")
    choose("stats of a join in shards", problem.stats, RUNNING)
    choose("model of a join in shards", problem.model, ("buffered",))
    choose("clock of a join in shards", problem.clock, ("streams",))
    if problem.predicate.name != "=" or problem.graph is not None:
        told = problem.predicate.name if problem.graph is None else "links"
        raise PenstockError(f"shards are simulated for equal keys only, got predicate {told!r}: leave shards out")
    if problem.has_lifetime:
        raise PenstockError("shards play what Spark does, which has windows only, got a column 'lifetime': leave it or shards out")
    allowed = _WINDOWS if count > 1 else (*_WINDOWS, "rows")
    for name, window in zip(problem.streams, problem.windows, strict=True):
        if window.kind not in allowed:
            why = "counts the rows of a whole stream, which shards cannot" if window.kind == "rows" else "is none that Spark has"
            raise PenstockError(f"shards must be left out where a window {why}, got {window.kind!r} for stream {name}")
    return count


@dataclass
class _Shard:
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
    told: Summary = field(init=False)  # to the others, after the last batch in which they met

    def __post_init__(self) -> None:
        """Begin with an equal share."""
        self.holding = Holding(self.problem.budget, self.problem.n_streams)

    @classmethod
    def open(cls, number: int, problem: Problem, policy: PolicySpec | None, room: int, keep: Keep, stepwise: bool) -> _Shard:
        """A shard that has seen nothing yet; its statistics take so many bytes at most."""
        problem = replace(problem, budget=replace(problem.budget, caps=problem.budget.caps.copy()))  # shares move
        chosen = open_policy(policy if isinstance(policy, str) else copy.deepcopy(policy), problem, also=(Opt.name,))
        engine = open_engine(problem, chosen, open_running(problem, chosen, room), keep, stepwise=stepwise)
        engine.number_from(number * SPAN)
        return cls(number, problem, chosen, engine)

    def play(self, columns: Batch, rows: Ints, progress: OnProgress | None) -> None:
        """Play these rows."""
        mine = _chosen(columns, rows)
        promised = self.engine.seen - self.problem.lateness
        self.n_late += int(np.count_nonzero(mine.time < promised[mine.stream]))
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


def _part(whole: Budget, problem: Problem, allocation: str, shards: int, overhead: int) -> Budget:
    """The budget of one shard."""
    budget = Budget.parse(part_of(whole, problem.streams, shards), problem.streams, allocation=allocation)
    return replace(budget, caps=for_tuples(budget.caps, overhead)) if budget.in_bytes else budget


def _columns(trace: Trace, problem: Problem) -> Batch:
    """All rows; where sizes count, as heavy as they are on Spark."""
    columns = Batch.of(trace, problem)
    return columns if columns.size is None else replace(columns, size=columns.size + (PLACE - OVERHEAD))


def _chosen(columns: Batch, rows: Ints) -> Batch:
    chosen: dict[str, Any] = {name: None if column is None else column[rows] for name, column in vars(columns).items()}
    return Batch(**chosen)


def _batches(trace: Trace, length: int | None) -> Iterator[Ints]:
    """The rows of each batch in the order of play: those that come while the largest time so far is in one stretch of this length."""
    reached = np.maximum.accumulate(trace.time)
    stretch = np.zeros(len(trace), np.int64) if length is None else (reached - reached[0]) // length
    for rows in np.split(np.arange(len(trace)), np.flatnonzero(np.diff(stretch)) + 1):
        yield rows[np.lexsort((trace.stream[rows], trace.time[rows]))]


def _summed(playing: list[_Shard], keep: Keep, times: Ints, seconds: float, most: int) -> JoinRun:
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


def _outputs(playing: list[_Shard]) -> Ints:
    """The outputs of all shards, batch by batch in the order of time."""
    parts = []
    for batch in range(len(playing[0].played)):
        found = [shard.played[batch].outputs for shard in playing]
        named = [np.column_stack([own[:, :1], shard.of_trace(own[:, 1:])]) for shard, own in zip(playing, found, strict=True)]
        whole = np.concatenate(named)
        parts.append(whole[np.argsort(whole[:, 0], kind="stable")])
    return np.concatenate(parts)


def _series(playing: list[_Shard], times: Ints) -> Ints:
    """After each instant of all shards: its time, and the tuples that they hold together, by stream."""
    held = np.zeros((len(times), len(playing[0].problem.streams)), np.int64)
    for shard in playing:
        own = np.concatenate([np.zeros((1, held.shape[1]), np.int64), shard.result("series")[:, 1:]])
        held += own[shard.held(len(times))]
    return np.column_stack([times, held])


def _memory_log(playing: list[_Shard], times: Ints) -> list[tuple[int, Ints]]:
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
