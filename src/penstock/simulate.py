"""Trace + policy -> JoinRun: the shortest path through the house."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

from penstock.core.batch import Batch
from penstock.core.engine import Keep, Progress, compiled_form, open_engine
from penstock.core.problem import Problem
from penstock.core.run import JoinRun, memory_log
from penstock.core.trace import Trace
from penstock.policies.table import open_policy
from penstock.statistics.table import open_statistics


def simulate(
    trace: Trace,
    *,
    window: Any,
    memory: Any,
    policy: Any = "prob",
    allocation: str = "variable",
    stats: str = "whole",
    objective: Any = None,
    model: str = "buffered",
    clock: str = "global",
    lateness: Any = 0,
    predicate: Any = "=",
    start: int | None = None,
    seed: int = 0,
    alpha: float | None = None,
    beta: float | None = None,
    half_life: float | None = None,
    weights: Sequence[float] = (1.0, 1.0, 0.0),
    given: Mapping[tuple[str, Any], float] | None = None,
    switches: Mapping[str, str] | None = None,
    keep: Keep | None = None,
    stepwise: bool = False,
    progress: Progress | None = None,
) -> JoinRun:
    """Join the streams of a trace under a memory budget and count what comes out.

    >>> trace = Trace.from_streams(R="abca", S="caba")
    >>> simulate(trace, window=4, memory=3, policy="fifo").n_output
    5
    >>> exact(trace, window=4).n_output
    6
    """
    problem = Problem.of(
        trace.streams, window=window, memory=memory, allocation=allocation, predicate=predicate, objective=objective, stats=stats,
        model=model, clock=clock, lateness=lateness, start=start, seed=seed, alpha=alpha, beta=beta, half_life=half_life,
        weights=weights, switches=switches, has_importance=trace.importance is not None, has_lifetime=trace.lifetime is not None,
    )  # fmt: skip
    chosen = open_policy(policy, problem)
    compiled = not stepwise and compiled_form(problem, chosen) is not None
    source, batch = open_statistics(problem, trace, Batch.of(trace, problem), given, by_row=not compiled)
    keep = keep or Keep()
    if keep.retained:
        keep = replace(keep, series=True)
    engine = open_engine(problem, chosen, source, keep, stepwise=stepwise)
    began = perf_counter()
    played = engine.play(batch, progress)
    seconds = perf_counter() - began
    totals = engine.totals
    return JoinRun(
        policy=chosen.name,
        n_input=totals.n_input,
        n_output=totals.n_output,
        value=totals.value,
        n_shed=totals.n_shed,
        n_expired=totals.n_expired,
        n_late=totals.n_late,
        peak_memory=totals.peak_memory,
        streams=trace.streams,
        seconds=seconds,
        outputs=played.outputs if keep.outputs else None,
        sheds=played.sheds if keep.sheds else None,
        expired=played.expired if keep.expired else None,
        memory_log=memory_log(played.series, played.retained) if keep.retained else None,
        series=played.series if keep.series else None,
    )


def exact(trace: Trace, *, window: Any, **options: Any) -> JoinRun:
    """The exact result: the same join with memory for everything, whatever the order of arrival.

    >>> exact(Trace.from_streams(R="aa", S="aa"), window=1).n_output
    2
    """
    if trace.n_backwards and "clock" not in options:
        options |= {"clock": "streams", "lateness": int(trace.time.max() - trace.time.min())}
    memory = len(trace) * trace.n_streams  # ample for fixed allocation too
    merged: dict[str, Any] = {"memory": memory, "policy": "fifo"} | options
    return simulate(trace, window=window, **merged)
