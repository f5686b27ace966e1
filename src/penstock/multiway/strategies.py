"""Golab's algorithms for window joins of many streams, each with its counters (Golab 3).

| name | algorithm | evaluates | new tuples' loop |
|---|---|---|---|
| `naive` | NAIVE MULTI-WAY | at each arrival, or every tau | where the order has it |
| `eager` | EAGER MULTI-WAY | at each arrival | outermost |
| `lazy` | LAZY MULTI-WAY | every tau | outermost |
| `general` | GENERAL LAZY MULTI-WAY | every tau | where each stream's own order has it |
| `count` | COMPUTECOUNTJOIN, windows of rows | at each arrival, or every tau | outermost |

All give the same result. Each scans windows (`access="nested"`), hash buckets, or some of both (the hybrid join of Golab 3.5).

Differs from the paper: re-evaluations take the half-open interval of tau ticks since the last one (readings 25).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.engine import Keep
from penstock.core.errors import PenstockError, choose
from penstock.core.fast import check_order
from penstock.core.problem import Problem
from penstock.core.run import JoinRun
from penstock.core.trace import Trace, check_trace
from penstock.core.window import NEVER, whole
from penstock.multiway import probe
from penstock.multiway.links import Condition, read_condition
from penstock.multiway.machine import Machine, Progress
from penstock.multiway.plan import NESTED, first_in
from penstock.multiway.windows import arrange

CHUNK = 50_000  # rows between two reports of progress


@dataclass(frozen=True)
class Strategy:
    """An algorithm: whether new tuples go outermost, and whether it evaluates every tau (None: as told)."""

    new_first: bool
    lazy: bool | None


STRATEGIES = {
    "naive": Strategy(new_first=False, lazy=None),
    "eager": Strategy(new_first=True, lazy=False),
    "lazy": Strategy(new_first=True, lazy=True),
    "general": Strategy(new_first=False, lazy=True),
    "count": Strategy(new_first=True, lazy=None),
}


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
    objective: Any = None,
    start: int | None = None,
    switches: Mapping[str, str] | None = None,
    keep: Keep | None = None,
    progress: Progress | None = None,
) -> StrategyRun:
    """Join the streams of a trace by one of Golab's algorithms and count its steps.

    `order` is one order of all streams, or one per stream; `access` is "nested", "hash" (a bucket per value), a number of
    buckets, or one number per hashed stream; `expire` is "eager", "lazy" (every tau) or a number of ticks.

    >>> trace = Trace.from_streams(R="abca", S="caba")
    >>> run = run_strategy(trace, window=4, strategy="eager")
    >>> run.n_output, run.comparisons, run_strategy(trace, window=4, strategy="lazy", tau=2, access="hash").comparisons
    (6, 16, 6)
    """
    check_trace(trace)
    kind = STRATEGIES[choose("strategy", strategy, STRATEGIES)]
    problem = Problem.of(
        trace.streams, window=window, memory=len(trace) * trace.n_streams, objective=objective, start=start, switches=switches,
        predicate=predicate, cross=cross, has_importance=trace.importance is not None, has_lifetime=trace.lifetime is not None,
    )  # fmt: skip
    if strategy == "count" and any(w.kind != "rows" for w in problem.windows):
        raise PenstockError(f"strategy 'count' needs windows that count rows, such as rows:100, got {window!r}")
    if problem.objective.function is not None:
        raise PenstockError("objective must be a name for strategy=, such as 'min', got a function")
    check_order(problem, trace.time, -NEVER)
    every = _tau(strategy, kind, tau)
    keep = keep or Keep()
    terms = probe.Terms(
        every=every,
        expire_every=_expire(expire, every),
        start=-NEVER if start is None else int(problem.start),
        objective=0 if problem.steady else problem.objective.code,
        keep=int(keep.outputs),
    )
    tuples = arrange(trace, problem.windows, instantly=problem.switch("varying-window") == "instant")
    condition = read_condition(trace, problem, tuples.row)
    orders = read_orders(order, trace.streams, kind)
    machine = Machine(
        tuples, condition, terms, trace.importance if terms.objective else None,
        buckets=read_access(access, trace.streams, condition), exact=access == "hash", orders=orders,
    )  # fmt: skip
    for begin in range(0, len(trace), CHUNK):
        machine.play(min(begin + CHUNK, len(trace)))
        if progress:
            progress(min(CHUNK, len(trace) - begin))
    return _told(machine, problem, strategy)


def read_orders(order: Any, streams: Sequence[str], kind: Strategy) -> list[list[int]]:
    """One order of all streams per origin, from one for all or one for each."""
    names: Mapping[str, Any]
    if isinstance(order, Mapping):
        if kind.lazy is None and not kind.new_first:
            raise PenstockError(f"order of strategy 'naive' is one for all streams, got one for each: {order!r}")
        names = order
        if set(names) != set(streams):
            raise PenstockError(f"order must name each of the streams {', '.join(streams)}, got {', '.join(map(str, names)) or 'none'}")
    else:
        names = dict.fromkeys(streams, streams if order is None else order)
    orders = {}
    for origin, name in enumerate(streams):
        listed = _listed(names[name])
        positions = [streams.index(choose("stream in order", part, streams)) for part in listed]
        if kind.new_first and origin not in positions:
            positions.insert(0, origin)
        if sorted(positions) != list(range(len(streams))):
            raise PenstockError(f"order must have each of the streams {', '.join(streams)} once, got {', '.join(listed) or 'none'}")
        orders[origin] = positions
    return first_in(orders, len(streams)) if kind.new_first else [orders[origin] for origin in range(len(streams))]


def read_access(access: Any, streams: Sequence[str], condition: Condition) -> list[int]:
    """The number of buckets of each stream; `NESTED` for none."""
    if access == "nested":
        return [NESTED] * len(streams)
    if not condition.classes:
        raise PenstockError(f"access must be 'nested' where no columns must be equal, got {access!r}")
    if access == "hash":
        return [condition.distinct] * len(streams)
    if isinstance(access, Mapping):
        for name in access:
            choose("stream in access", name, streams)
        return [_buckets(access[name], f"access of {name}") if name in access else NESTED for name in streams]
    return [_buckets(access, "access")] * len(streams)


def _buckets(number: Any, name: str) -> int:
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 1:
        raise PenstockError(f"{name} must be 'nested', 'hash', or a number of buckets of at least 1 (by stream), got {number!r}")
    return int(number)


def _listed(order: Any) -> list[str]:
    if isinstance(order, str):
        return [part.strip() for part in order.split(",")]
    if not isinstance(order, Sequence):
        raise PenstockError(f"order must be names of streams, got {order!r}")
    return [str(part) for part in order]


def _tau(strategy: str, kind: Strategy, tau: Any) -> int:
    """The interval of re-evaluation; 0 where each arrival is evaluated."""
    if tau is None:
        if kind.lazy:
            raise PenstockError(f"strategy {strategy!r} evaluates every tau ticks: give tau=, at least 1")
        return 0
    if kind.lazy is False:
        raise PenstockError(f"strategy {strategy!r} evaluates at each arrival, it takes no tau, got {tau!r}: see 'lazy'")
    every = whole(tau, "tau", "a whole number of ticks, at least 1")
    if every < 1:
        raise PenstockError(f"tau must be at least one tick, got {tau!r}")
    return every


def _expire(expire: Any, every: int) -> int:
    """The interval of expiration. Lazy evaluation needs what it has not seen yet: no eager, no more frequent expiration (Golab 3.3)."""
    if expire is None:
        return every if every else probe.EAGER_EXPIRATION
    if expire == "eager":
        if every:
            raise PenstockError("expire must be 'lazy' or at least tau where evaluation is lazy, got 'eager'")
        return probe.EAGER_EXPIRATION
    if expire == "lazy":
        if not every:
            raise PenstockError("expire='lazy' needs an interval where evaluation is eager: give a number of ticks")
        return every
    ticks = whole(expire, "expire", "'eager', 'lazy' or a whole number of ticks")
    if ticks < 1:
        raise PenstockError(f"expire must be at least one tick, got {expire!r}")
    if ticks < every:
        raise PenstockError(f"expire must be no more often than evaluation (every {every} ticks), got {expire!r}")
    return ticks


def _told(machine: Machine, problem: Problem, strategy: str) -> StrategyRun:
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
    )
