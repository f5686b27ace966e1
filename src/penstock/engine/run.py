"""What happened: the result of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from penstock.core.batch import Batch, OnProgress
from penstock.core.facts import Facts
from penstock.core.problem import Problem
from penstock.core.trace import Ints
from penstock.engine.contract import Keep, PolicyContract, Statistics, read_keep
from penstock.engine.opening import open_engine


@dataclass(frozen=True)
class JoinRun:
    """The counts of a run and, on request, its outputs, its memory after each instant, and what left."""

    policy: str
    n_input: int
    n_output: int
    value: float
    n_shed: int
    n_expired: int
    n_late: int
    peak_memory: int
    streams: tuple[str, ...]
    seconds: float
    outputs: Ints | None = None  # one line per output: time, the row of each stream's member, the row of each relation's fact
    sheds: Ints | None = None  # rows, in the order in which they were shed
    shed_at: Ints | None = None  # for each of them the number of the instant, from 0 on
    expired: Ints | None = None  # rows, in the order in which they expired
    memory_log: list[tuple[int, Ints]] | None = None  # after each instant: its time, the rows retained
    series: Ints | None = None  # after each instant: its time, tuples held per stream
    n_done: int | None = None  # tuples that left after as many outputs as promised; None where nothing is promised (`matches`)
    done: Ints | None = None  # rows, in the order in which they left
    n_filtered: int | None = None  # rows that were never played, for want of a fact; None where no relation links the streams
    filtered: Ints | None = None  # these rows
    n_ahead: int | None = None  # rows that were put aside or dropped because they were ahead; None where none could be

    def summary(self) -> dict[str, Any]:
        """The numbers, as the command line prints them."""
        names = ("policy", "n_input", "n_output", "value", "n_shed", "n_expired", "n_late", "peak_memory")
        asked = {name: getattr(self, name) for name in ("n_filtered", "n_done", "n_ahead")}
        return {name: getattr(self, name) for name in names} | {name: count for name, count in asked.items() if count is not None}


def memory_log(series: Ints, retained: Ints) -> list[tuple[int, Ints]]:
    """Cut the retained rows (instant, row) into one sorted array per instant (numbered from 1)."""
    order = np.lexsort((retained[:, 1], retained[:, 0]))
    rows = retained[order, 1]
    ends = np.searchsorted(retained[order, 0], np.arange(1, len(series) + 1), side="right")
    parts = np.split(rows, ends[:-1]) if len(series) else []
    return [(int(time), part) for time, part in zip(series[:, 0], parts, strict=True)]


def record(
    problem: Problem,
    policy: PolicyContract,
    statistics: Statistics,
    batch: Batch,
    keep: Keep | None,
    *,
    stepwise: bool,
    progress: OnProgress | None,
    facts: Sequence[Facts] = (),
) -> JoinRun:
    """Play a whole trace as one batch, and write down what happened."""
    keep = read_keep(keep)
    if keep.retained:
        keep = replace(keep, series=True)
    engine = open_engine(problem, policy, statistics, keep, stepwise=stepwise)
    if facts:
        engine.know(facts)
    began = perf_counter()
    played = engine.play(batch, progress)
    seconds = perf_counter() - began
    totals = engine.totals
    return JoinRun(
        policy=policy.name,
        n_input=totals.n_input,
        n_output=totals.n_output,
        value=totals.value,
        n_shed=totals.n_shed,
        n_expired=totals.n_expired,
        n_late=totals.n_late,
        peak_memory=totals.peak_memory,
        streams=problem.streams,
        seconds=seconds,
        outputs=_listed(problem, played.outputs) if keep.outputs else None,
        sheds=played.sheds if keep.sheds else None,
        shed_at=played.shed_at - 1 if keep.sheds else None,
        expired=played.expired if keep.expired else None,
        memory_log=memory_log(played.series, played.retained) if keep.retained else None,
        series=played.series if keep.series else None,
        n_done=totals.n_done if problem.has_matches else None,
        done=played.done if keep.done else None,
        n_filtered=totals.n_filtered if problem.through else None,
        filtered=played.filtered if keep.filtered else None,
    )


def _listed(problem: Problem, outputs: Ints) -> Ints:
    """Outputs in order: through relations an engine makes them fact by fact."""
    return outputs[np.lexsort(outputs.T[::-1])] if problem.through else outputs
