"""Trace + policy -> JoinRun: the shortest path through the house."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any

from penstock.core.batch import Batch, OnProgress
from penstock.core.budget import Memory
from penstock.core.clock_limit import read_limit
from penstock.core.errors import PenstockError
from penstock.core.predicate import PredicateSpec
from penstock.core.problem import Problem
from penstock.core.ticks import in_ticks, length
from penstock.core.trace import LIMIT, Trace, check_trace
from penstock.core.value import ObjectiveSpec
from penstock.core.window import WindowSpec, ticks, whole
from penstock.engine.contract import Keep
from penstock.engine.opening import compiled_form
from penstock.engine.run import JoinRun, record
from penstock.multiway.exact import exact_join
from penstock.multiway.strategies import run_strategy
from penstock.optimum.linked import LinkedTrace
from penstock.optimum.optimum import find_schedule, to_play
from penstock.optimum.replay import replay
from penstock.policies.base import PolicySpec
from penstock.policies.opt import Opt
from penstock.policies.table import AUTO, open_policy
from penstock.relation.numbered import open_through
from penstock.simulator.rearranged import in_rows_of_trace, order_of_play, rearranged
from penstock.simulator.sharded import play_shards
from penstock.statistics.table import open_statistics

_NOT_EXACT = {"trace", "memory", "policy", "matches", "ahead", "shards", "batch", "shared"}
"""Options that an exact join does not take."""
_BATCH = 'a positive number of ticks or a duration such as "1 minute"'


def simulate(
    trace: Trace,
    *,
    window: WindowSpec,
    memory: Memory,
    policy: PolicySpec = AUTO,
    allocation: str = "variable",
    stats: str = "decayed",
    objective: ObjectiveSpec = None,
    model: str = "buffered",
    clock: str | None = None,
    lateness: Any = 0,
    matches: Any = None,
    predicate: PredicateSpec = "=",
    cross: bool = False,
    through: Any = None,
    start: Any = None,
    seed: int = 0,
    alpha: Any = None,
    beta: float | None = None,
    half_life: Any = None,
    weights: Sequence[float] = (1.0, 1.0, 0.0),
    given: Mapping[tuple[str, Any], float] | None = None,
    switches: Mapping[str, str] | None = None,
    keep: Keep | None = None,
    stepwise: bool = False,
    progress: OnProgress | None = None,
    ahead: Any = None,
    shards: int | None = None,
    batch: Any = None,
    shared: bool = True,
) -> JoinRun:
    """Join the streams of a trace under a memory budget and count what comes out. Policy `opt` finds the optimum first, and replays it.

    `policy` is a name from `penstock policies`, or an object; by default "auto": "learned" where keys are equal and `stats` is "decayed",
    else "prob" or, with importance, "dimpprob"; where a window is no length of time and there is no `half_life`, one that needs none. The
    run's `policy` says which it was.

    `predicate` compares keys (`"="`, `"<"`, `"eps:0.5"`, a function), or links columns of streams: `"R.a = S.a, S.b < T.b"`; with `cross`
    the links need not connect all streams. Lengths (`window`, `lateness`, `half_life`, `alpha`) are ticks, or durations, "10 minutes",
    where the length of a tick is known; times (`start`, those in `memory` and `window`) are ticks, or dates where it has timestamps.

    `through` joins the streams through a relation, or several, instead of directly (`ps.relation`); outputs then name their facts too. A
    row without a fact is not played, and is counted as `n_filtered`.

    `matches` is a promise that a tuple takes part in at most so many outputs: 1, or {"S": 1} for some of the streams. It leaves after the
    last of them, which costs nothing while the promise is kept, and is counted as `n_done`. What a broken promise misses is not made.

    `ahead` (a number of ticks or a duration; off by default) keeps a row that is further ahead than others support from moving the clock:
    it is put aside until they do, or with `(limit, "drop")` dropped, and counted as `n_ahead`.

    `stats="decayed"` knows what has arrived so far, as on Spark; `"whole"`, of the papers' experiments, knows the whole trace, and promises
    more than a query can keep. `shards` plays what `ps.join` with so many shards does: each has an engine with its part of the memory
    (`penstock.simulator.sharded`), and `clock` is "streams" there, else "global". Shards learn each other's clocks after each `batch`, a
    length of time, and memory moves to those whose tuples are worth more, as in a join with an archive; with `shared=False` all have equal
    shares. By default all rows are one batch.

    >>> trace = Trace.from_streams(R="abca", S="caba")
    >>> simulate(trace, window=4, memory=3, policy="fifo").n_output
    5
    >>> exact(trace, window=4).n_output
    6
    >>> table = {"stream": ["R", "S", "T", "T"], "time": [0, 1, 2, 2], "a": [1, 1, None, None], "b": [None, 5, 5, 7]}
    >>> exact(Trace(table, key=()), window=4, predicate="R.a = S.a, S.b < T.b").n_output
    1
    """
    arguments = {name: value for name, value in locals().items() if name not in ("trace", "ahead")}
    check_trace(trace)
    if batch is not None and shards is None:
        raise PenstockError(f"batch says when shards hear of each other and needs shards, got {batch!r} without")
    limit = read_limit(ahead, lambda given, name: ticks(length(trace, given, name), name))
    if limit is not None and shards is not None:
        raise PenstockError(f"ahead must be left out with shards, which play a batch in the order of time, got {ahead!r}")
    numbered = open_through(trace, through)
    if limit is not None:
        order, n_ahead = order_of_play(trace.time, limit)
        if numbered is not None:
            arguments["through"] = replace(numbered, values=numbered.values[order])
        return in_rows_of_trace(simulate(rearranged(trace, order), **arguments), order, n_ahead)
    timed = in_ticks(trace, window=window, memory=memory, lateness=lateness, start=start, alpha=alpha, half_life=half_life)
    clock = clock if clock is not None else "global" if shards is None else "streams"
    if numbered is not None:
        _check_through(shards)
    problem = Problem.of(
        trace.streams, **timed, through=() if numbered is None else numbered.through,
        allocation=allocation, predicate=predicate, cross=cross, objective=objective,
        stats=stats, model=model, clock=clock, seed=seed, beta=beta, matches=matches,
        weights=weights, switches=switches, has_importance=trace.importance is not None, has_lifetime=trace.lifetime is not None,
    )  # fmt: skip
    if shards is not None:
        if given is not None:
            raise PenstockError(f"given must be left out with shards, whose statistics learn as they go, got rates of {len(given)} keys")
        step = _batch_length(trace, batch)
        told: dict[str, Any] = {
            "shards": shards,
            "memory": timed["memory"],
            "allocation": allocation,
            "policy": policy,
            "batch": step,
            "shared": shared,
        }
        return play_shards(trace, problem, **told, keep=keep, stepwise=stepwise, progress=progress)
    if policy == Opt.name:
        played = to_play(trace, problem, numbered)
        return _told(played, replay(played, problem, find_schedule(played, problem), keep, stepwise=stepwise, progress=progress))
    chosen = open_policy(policy, problem, also=(Opt.name,))
    compiled = not stepwise and compiled_form(problem, chosen) is not None
    rows, facts = (Batch.of(trace, problem), ()) if numbered is None else (Batch.of(trace, problem, numbered.values), numbered.facts)
    source, rows = open_statistics(problem, trace, rows, given, by_row=not compiled, policy=chosen, facts=facts)
    return record(problem, chosen, source, rows, keep, stepwise=stepwise, progress=progress, facts=facts)


def _told(played: Trace, run: JoinRun) -> JoinRun:
    """A run of the rows that have facts, by the rows of the whole trace."""
    if not isinstance(played, LinkedTrace):
        return run
    filtered = None if run.filtered is None else played.filtered
    run = in_rows_of_trace(run, played.row, None)
    return replace(run, n_input=played.n_input, n_filtered=len(played.filtered), filtered=filtered)


def _check_through(shards: Any) -> None:
    """Refuse what is not there yet for joins through relations."""
    if shards is not None:
        raise PenstockError(f"shards must be left out in a join through relations, got {shards}")


def _batch_length(trace: Trace, batch: Any) -> int | None:
    if batch is None:
        return None
    number = whole(length(trace, batch, "batch"), "batch", _BATCH)
    if number < 1:
        raise PenstockError(f"batch must be {_BATCH}, got {batch!r}")
    return number


def exact(trace: Trace, *, window: Any, strategy: str | None = None, **options: Any) -> JoinRun:
    """The exact result: the same join with memory for everything, whatever the order of arrival.

    With `strategy` one of Golab's algorithms does it and counts its steps (`penstock.multiway.strategies`).

    >>> exact(Trace.from_streams(R="aa", S="aa"), window=1).n_output
    2
    >>> exact(Trace.from_streams(R="aa", S="aa"), window=1, strategy="eager").comparisons
    2
    """
    _check_options(strategy, options)
    if strategy is not None:
        return run_strategy(trace, window=window, strategy=strategy, **options)
    check_trace(trace)
    timed = in_ticks(trace, window=window, **options)
    window, options = timed.pop("window"), timed
    joined = exact_join(trace, window, options)
    if joined is not None:
        return joined
    if trace.n_backwards and "clock" not in options:
        options |= {"clock": "streams", "lateness": min(int(trace.time.max() - trace.time.min()), LIMIT - 1)}
    memory = len(trace) * trace.n_streams  # ample for fixed allocation too
    merged: dict[str, Any] = {"stats": "window"} | options  # nobody leaves: no prices beforehand
    return simulate(trace, window=window, memory=memory, policy="fifo", **merged)


def _check_options(strategy: str | None, options: Mapping[str, Any]) -> None:
    """An exact join sheds nothing, so it takes neither memory nor policy; and tau, order and access only with a strategy that uses them."""
    taken = signature(simulate if strategy is None else run_strategy).parameters.keys() - _NOT_EXACT
    for name, value in options.items():
        if name not in taken:
            told = "without" if strategy is None else "with"
            raise PenstockError(f"exact must be told no other than {', '.join(sorted(taken))} {told} strategy=, got {name}={value!r}")
