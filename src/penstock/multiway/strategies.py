"""Golab's algorithms for window joins of many streams, each with its counters (Golab 3).

| name | algorithm | evaluates | new tuples' loop |
|---|---|---|---|
| `naive` | NAIVE MULTI-WAY | at each arrival, or every tau | where the order has it |
| `eager` | EAGER MULTI-WAY | at each arrival | outermost |
| `lazy` | LAZY MULTI-WAY | every tau | outermost |
| `general` | GENERAL LAZY MULTI-WAY | every tau | where each stream's own order has it |
| `count` | COMPUTECOUNTJOIN, windows of rows | at each arrival, or every tau | outermost |

All give the same result. Each scans windows (`access="nested"`), hash buckets, or some of both (the hybrid join of Golab 3.5).

Differs from the paper: re-evaluations take the half-open interval of tau ticks since the last one (docs/readings.md, 25).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.core.batch import OnProgress, check_order
from penstock.core.errors import PenstockError, choose
from penstock.core.problem import Problem
from penstock.core.ticks import in_ticks, length
from penstock.core.trace import Trace, check_trace
from penstock.core.window import NEVER
from penstock.engine.contract import Keep, read_keep
from penstock.engine.run import JoinRun
from penstock.multiway import nested_loops as probe
from penstock.multiway.drift import Reorder
from penstock.multiway.join_plan import JoinPlan
from penstock.multiway.linked_windows import arrange, count_keys
from penstock.multiway.machine import Machine
from penstock.multiway.observe import in_units, observed_rates, observed_selectivities, observed_streams
from penstock.multiway.options import STRATEGIES, Strategy, read_access, read_expire, read_orders, read_reorder, read_tau
from penstock.multiway.order import order_joins
from penstock.multiway.pair_checks import read_condition

OBSERVED = 2_000  # rows between two looks at rates and selectivities


@dataclass(frozen=True)
class StrategyRun(JoinRun):
    """A run of one of Golab's algorithms: `policy` is its name, and the counts say what it cost."""

    comparisons: int = 0  # tuples visited in any loop but the outermost, stale ones included: what the cost model counts
    timely: int = 0  # those of them that were in their windows when the new tuple came
    bucket_visits: int = 0  # lists and buckets opened by loops
    expiry_visits: int = 0  # lists and buckets looked at by expiration
    insertions: int = 0
    evaluations: int = 0
    reorderings: int = 0


def run_strategy(
    trace: Trace,
    *,
    window: Any,
    strategy: str = "eager",
    predicate: Any = "=",
    cross: bool = False,
    order: Any = None,
    access: Any = "nested",
    tau: Any = None,
    expire: Any = None,
    reorder: float | None = None,
    objective: Any = None,
    start: int | None = None,
    switches: Mapping[str, str] | None = None,
    keep: Keep | None = None,
    progress: OnProgress | None = None,
) -> StrategyRun:
    """Join the streams of a trace by one of Golab's algorithms and count its steps.

    `order` is one order of all streams, or one per stream, by default the cheapest by `order_joins`; with `reorder=0.2` it
    changes on the way, when rates or selectivities have moved by more than that share. `access` is "nested", "hash" (a bucket
    per value), a number of buckets, or one number per hashed stream; `expire` is "eager", "lazy" (every tau) or a number of ticks.

    >>> trace = Trace.from_streams(R="abca", S="caba")
    >>> run = run_strategy(trace, window=4, strategy="eager")
    >>> run.n_output, run.comparisons, run_strategy(trace, window=4, strategy="lazy", tau=2, access="hash").comparisons
    (6, 16, 6)
    """
    check_trace(trace)
    kind = STRATEGIES[choose("strategy", strategy, STRATEGIES)]
    problem = Problem.of(
        trace.streams, **in_ticks(trace, window=window, start=start), memory=len(trace) * trace.n_streams, objective=objective,
        switches=switches,
        predicate=predicate, cross=cross, has_importance=trace.importance is not None, has_lifetime=trace.lifetime is not None,
    )  # fmt: skip
    if strategy == "count" and any(w.kind != "rows" for w in problem.windows):
        raise PenstockError(f"strategy 'count' needs windows that count rows, such as rows:100, got {window!r}")
    if problem.objective.function is not None:
        raise PenstockError("objective must be a name for strategy=, such as 'min', got a function")
    check_order(problem, trace.time, -NEVER)
    every = read_tau(strategy, kind, length(trace, tau, "tau"))
    terms = probe.Terms(
        every=every,
        expire_every=read_expire(length(trace, expire, "expire"), every),
        start=-NEVER if start is None else int(problem.start),
        objective=0 if problem.steady else problem.objective.code,
        keep=int(read_keep(keep).outputs),
    )
    tuples = arrange(trace, problem.windows, instantly=problem.switch("varying-window") == "instant")
    condition = read_condition(trace, problem, tuples.row)
    if problem.counts_keys:
        tuples = count_keys(tuples, problem.windows, condition.links.codes)
    buckets = read_access(access, trace.streams, condition)
    if order is not None and reorder is not None:
        raise PenstockError(f"order must be left out with reorder=, which chooses orders itself, got {order!r}")
    watch = None if reorder is None else read_reorder(reorder)
    plan: JoinPlan | None = None
    if order is None:
        streams = observed_streams(tuples, condition, problem.windows, buckets)
        like = strategy if strategy != "count" else "lazy" if every else "eager"
        wait, lag = in_units(tuples, every), in_units(tuples, terms.expire_every)
        plan = order_joins(streams, on=condition.graph, cross=True, strategy=like, tau=wait, expire=lag)
    orders = read_orders(order if plan is None else plan.order or plan.orders, trace.streams, kind)
    machine = Machine(
        tuples, condition, terms, trace.importance if terms.objective else None,
        buckets=buckets, exact=access == "hash", orders=orders, movable=watch is not None,
    )  # fmt: skip
    if plan is None or watch is None:
        machine.play_all(progress)
        return _told(machine, problem, strategy, 0)
    return _told(machine, problem, strategy, _play_watching(machine, plan, watch, kind, progress))


def _play_watching(machine: Machine, plan: JoinPlan, watch: Reorder, kind: Strategy, progress: OnProgress | None) -> int:
    """Play, and look at every `OBSERVED` rows whether other orders would do better now; how often they changed."""
    tuples, streams = machine.tuples, plan.setting.names
    changes = 0
    for begin in range(0, len(tuples.row), OBSERVED):
        part = slice(begin, min(begin + OBSERVED, len(tuples.row)))
        machine.play(part.stop)
        found = watch.review(plan, observed_rates(tuples, streams, part), observed_selectivities(tuples, machine.condition, part))
        if found.orders != plan.orders:
            changes += 1
            machine.reorder(read_orders(found.order or found.orders, streams, kind))
        plan = found
        if progress:
            progress(part.stop - part.start)
    return changes


def _told(machine: Machine, problem: Problem, strategy: str, reorderings: int) -> StrategyRun:
    counts = machine.counts.tolist()
    n_output = counts[probe.OUTPUTS]
    each = problem.objective.of([1.0] * problem.n_streams)
    return StrategyRun(
        policy=strategy,
        n_input=counts[probe.INSERTIONS],
        n_output=n_output,
        value=float(machine.value[0]) if machine.terms.objective else n_output * each,
        n_shed=0,
        n_expired=counts[probe.EXPIRATIONS],
        n_late=0,
        peak_memory=counts[probe.PEAK],
        streams=problem.streams,
        seconds=machine.seconds,
        outputs=machine.outputs(),
        comparisons=counts[probe.COMPARISONS],
        timely=counts[probe.TIMELY],
        bucket_visits=counts[probe.BUCKETS],
        expiry_visits=counts[probe.SWEPT],
        insertions=counts[probe.INSERTIONS],
        evaluations=counts[probe.EVALUATIONS],
        reorderings=reorderings,
    )
