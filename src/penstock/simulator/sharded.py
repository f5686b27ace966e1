"""What Spark plays, without Spark: one engine per shard with its part of the memory, and every row in the shard of its key's hash.

A batch is played in the order of time and stream; rows that tie keep the order of the trace (on Spark: that of the column `order`). Within
a batch a shard sees its own rows alone, so that its clock lags behind by as much as these are apart. Between two batches each shard hears
how far the streams have come in all of them, and what their tuples are worth, so that memory moves between them (shard/shares). Without
`batch` all rows are one batch, as in a batch query, and shares stay equal.

Joins that share a budget (`play_joins`) have their batches at the same times. A join without rows in a batch is not played in it, as on
Spark, and holds what it held.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np

from penstock.core.batch import Batch, OnProgress
from penstock.core.budget import TUPLE_OVERHEAD, Memory, Pools
from penstock.core.errors import PenstockError, choose
from penstock.core.problem import Problem
from penstock.core.trace import Ints, Trace
from penstock.core.window import NEVER
from penstock.engine.contract import Keep, read_keep
from penstock.engine.run import JoinRun
from penstock.policies.base import Policy, PolicySpec
from penstock.policies.opt import Opt
from penstock.policies.table import AUTO
from penstock.shard.division import for_tuples, part_of, shard_count
from penstock.shard.overhead import for_statistics, overhead_of, place_of
from penstock.shard.shares.next_shares import next_shares, period
from penstock.shard.spark_hash import placed
from penstock.shard.stream_window import check_shards
from penstock.simulator.played_shard import PlayedShard, summed
from penstock.statistics.table import RUNNING


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
    whole = Pools.parse(memory, problem.streams, allocation=allocation)
    join = ShardedJoin.open(trace, problem, whole, shards=shards, allocation=allocation, policy=policy, keep=keep, stepwise=stepwise)
    _play([join], ((rows,) for _, rows in _batches(trace, batch)), shared=shared, progress=progress)
    return join.run()


def play_joins(
    joins: Mapping[str, tuple[Trace, Problem]],
    *,
    shards: int,
    memory: int | str,
    batch: int,
    policy: PolicySpec = AUTO,
    shared: bool = True,
    keep: Keep | None = None,
) -> dict[str, JoinRun]:
    """Play several joins that share a memory, as those of a `ps.Budget` on Spark do; unless it is `shared`, each keeps an equal part.

    >>> trace = Trace.from_streams(R="abca", S="caba")
    >>> problem = Problem.of(trace.streams, window=4, memory=4, stats="decayed", clock="streams")
    >>> runs = play_joins({"one": (trace, problem), "other": (trace, problem)}, shards=1, memory=8, batch=2, policy="fifo")
    >>> [run.n_output for run in runs.values()]
    [5, 5]
    """
    made = {
        name: ShardedJoin.open(
            trace, problem, Pools.parse(memory, problem.streams), shards=shards, joins=len(joins), policy=policy, keep=keep
        )
        for name, (trace, problem) in joins.items()
    }
    origin = min(int(join.trace.time[0]) for join in made.values())
    found = [dict(_batches(join.trace, batch, origin)) for join in made.values()]
    stretches = sorted({stretch for one in found for stretch in one})
    _play(list(made.values()), ([one.get(stretch) for one in found] for stretch in stretches), shared=shared)
    return {name: join.run() for name, join in made.items()}


def _play(
    joins: Sequence[ShardedJoin], batches: Iterable[Sequence[Ints | None]], *, shared: bool, progress: OnProgress | None = None
) -> None:
    """Play batches, each the rows of each join, or None where it has none; before a batch memory moves by what shards told last."""
    count = sum(len(join.playing) for join in joins)
    for number, of_joins in enumerate(batches):
        tells = shared and count > 1 and number % period(count) == 0
        telling = [shard for join in joins for shard in join.playing if shard.told is not None] if tells else []
        shares = next_shares([shard.told for shard in telling if shard.told is not None]) if telling else []
        new = {id(shard): share for shard, share in zip(telling, shares, strict=True)}
        for join, rows in zip(joins, of_joins, strict=True):
            if rows is not None:
                for shard in join.playing:
                    if id(shard) in new:
                        shard.hold(new[id(shard)])
                join.play(rows, progress)
                if shared and count > 1:
                    join.weigh(number, tell=tells)


def check_divisible(problem: Problem, shards: Any, policy: Any) -> int:
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
    check_shards(dict(zip(problem.streams, problem.windows, strict=True)), count)
    return count


@dataclass
class ShardedJoin:
    """A join in shards: its rows, where each goes, and what was played so far."""

    trace: Trace
    problem: Problem
    columns: Batch
    place: Ints  # of each row, its shard
    playing: list[PlayedShard]
    keep: Keep
    most: int  # that all together may hold
    times: list[Ints] = field(default_factory=list)  # of all instants
    n_instants: int = 0
    began: float = field(default_factory=perf_counter)

    @classmethod
    def open(
        cls,
        trace: Trace,
        problem: Problem,
        whole: Pools,
        *,
        shards: Any,
        joins: int = 1,
        allocation: str = "variable",
        policy: PolicySpec = AUTO,
        keep: Keep | None = None,
        stepwise: bool = False,
    ) -> ShardedJoin:
        """A join that has seen nothing yet, one of so many that share all of the memory."""
        count, keep = check_divisible(problem, shards, policy), read_keep(keep)
        overhead = overhead_of(None, whole, count * joins if whole.in_bytes else count)
        part = replace(problem, budget=_part(whole, problem, allocation, count * joins, overhead))
        keys = [trace.table[name] for name in trace.key_columns]
        place = placed(keys, len(trace), count) if count > 1 else np.zeros(len(trace), np.int64)
        kept = replace(keep, series=keep.series or keep.retained)
        room = for_statistics(overhead)
        playing = [PlayedShard.open(number, part, policy, room, kept, stepwise) for number in range(count)]
        return cls(trace, problem, _columns(trace, part, playing[0].policy), place, playing, keep, whole.most)

    def play(self, rows: Ints, progress: OnProgress | None) -> None:
        """Play a batch, after which all shards know how far the streams have come."""
        trace, now = self.trace, np.unique(self.trace.time[rows])
        for shard in self.playing:
            shard.play(self.columns, rows[self.place[rows] == shard.number], progress)
            shard.instants.append(self.n_instants + np.searchsorted(now, np.unique(trace.time[shard.rows[-1]])))
        self.times.append(now)
        self.n_instants += len(now)
        clocks = np.full(self.problem.n_streams, -NEVER)
        np.maximum.at(clocks, trace.stream[rows], trace.time[rows])
        for shard in self.playing:
            shard.expired.append(shard.engine.advance(clocks))

    def weigh(self, batch: int, *, tell: bool) -> None:
        """Take note of the load of a batch, and where shards meet, of what their tuples are worth."""
        for shard in self.playing:
            shard.weigh(self.columns, batch, len(self.playing), tell=tell)

    def run(self) -> JoinRun:
        """What all shards did together."""
        return summed(self.playing, self.keep, np.concatenate(self.times), perf_counter() - self.began, self.most)


def _part(whole: Pools, problem: Problem, allocation: str, shards: int, overhead: int) -> Pools:
    """The budget of one shard."""
    budget = Pools.parse(part_of(whole, problem.streams, shards), problem.streams, allocation=allocation)
    return replace(budget, caps=for_tuples(budget.caps, overhead)) if budget.in_bytes else budget


def _columns(trace: Trace, problem: Problem, policy: Policy) -> Batch:
    """All rows; where sizes count, as heavy as they are on Spark."""
    columns = Batch.of(trace, problem)
    return columns if columns.size is None else replace(columns, size=columns.size + (place_of(problem, policy) - TUPLE_OVERHEAD))


def _batches(trace: Trace, length: int | None, origin: int | None = None) -> Iterator[tuple[int, Ints]]:
    """The rows of each batch in the order of play: those that come while the largest time so far is in one stretch of this length."""
    reached = np.maximum.accumulate(trace.time)
    begin = reached[0] if origin is None else origin
    stretch = np.zeros(len(trace), np.int64) if length is None else (reached - begin) // length
    for rows in np.split(np.arange(len(trace)), np.flatnonzero(np.diff(stretch)) + 1):
        yield int(stretch[rows[0]]) if len(rows) else 0, rows[np.lexsort((trace.stream[rows], trace.time[rows]))]
