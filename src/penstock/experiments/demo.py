"""The demonstration: the sample pipeline through Spark, then the same rows through the simulator, exactly and under a rival."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset

from penstock.core.trace import Ints, Trace
from penstock.engine.contract import Keep
from penstock.engine.run import JoinRun
from penstock.generator.zipf import with_times
from penstock.pipeline.recipe import Recipe
from penstock.policies.table import AUTO
from penstock.simulator.simulate import exact, simulate

SAMPLE = Path(__file__).with_name("demo.toml")
SOURCE = "shop"


@dataclass(frozen=True)
class Contestant:
    """One way to play the join: what came out, and what it held."""

    name: str
    policy: str
    n_output: int
    n_shed: int
    most: int  # tuples held
    outputs: Ints  # the time of each joined row
    held: Ints  # rows (time, tuples held)


@dataclass(frozen=True)
class MicroBatch:
    """A micro-batch on Spark: from when to when, what arrived in it and what it shed."""

    begin: int
    end: int
    arrived: int
    shed: int


@dataclass(frozen=True)
class Demo:
    """What the demonstration found; times are microseconds since 1970."""

    n_input: int
    memory: int
    stretch: int  # the length of a batch
    bursts: list[tuple[int, int]]
    whole: Contestant
    run: Contestant
    rivals: list[Contestant]
    batches: list[MicroBatch]

    def recall(self, one: Contestant) -> float:
        """The share of the exact result."""
        return one.n_output / self.whole.n_output if self.whole.n_output else 1.0

    def over_time(self, one: Contestant) -> list[tuple[int, float]]:
        """The share of the exact result in each stretch of time, by its middle."""
        first, last = int(self.whole.held[0, 0]), int(self.whole.held[-1, 0])
        edges = np.arange(first, last + self.stretch + 1, self.stretch)
        mine, all_ = (np.histogram(played.outputs, edges)[0] for played in (one, self.whole))
        return [(int(at) + self.stretch // 2, float(m / a)) for at, m, a in zip(edges[:-1], mine, all_, strict=True) if a]


RIVALS: Mapping[str, Callable[[Trace, Recipe], Contestant]] = {
    "fifo, same memory": lambda trace, recipe: simulated(trace, recipe, "fifo", "fifo, same memory"),
    "the optimum": lambda trace, recipe: simulated(trace, recipe, "opt", "the optimum"),
}
"""What the run is compared with, beside the exact result: by the name in the table, a way to play the same rows."""


def rows(recipe: Recipe) -> Trace:
    """The rows that the generator of the sample makes, all at once."""
    source = recipe.sources[SOURCE]
    table = recipe.generator(SOURCE).arrivals(0, source["ticks"] + source["disorder"], source["ticks"])
    return Trace(with_times(table, source["start"], source["tick"]), streams=tuple(recipe.streams))


def compare(recipe: Recipe, run: Contestant | None, batches: Sequence[MicroBatch] = ()) -> Demo:
    """Play the rows of the sample exactly and under each rival; without a run on Spark, the simulator makes that one too."""
    trace = rows(recipe)
    source = recipe.sources[SOURCE]
    stretch = source["tick"] * (source["ticks_per_batch"] or max(1, source["ticks"] // 20))
    whole = _played(exact(trace, window=_windows(recipe), keep=Keep(outputs=True, series=True)), "exact")
    if run is None:
        run = simulated(trace, recipe, recipe.join["policy"] or AUTO, "simulated")
        run = replace(run, name=f"{run.policy}, simulated")
    rivals = [play(trace, recipe) for play in RIVALS.values()]
    period, length, _ = recipe.generator(SOURCE).burst
    starts = range(period - length, source["ticks"], period) if length else ()
    bursts = [(source["start"] + at * source["tick"], source["start"] + (at + length) * source["tick"]) for at in starts]
    return Demo(len(trace), recipe.join["memory"], stretch, bursts, whole, run, rivals, list(batches))


def simulated(trace: Trace, recipe: Recipe, policy: str, name: str) -> Contestant:
    """The join of the sample in one piece, without Spark, in the same memory."""
    options: dict[str, Any] = {"stats": recipe.join["stats"] or "decayed", "seed": recipe.join["seed"] or 0}
    keep = Keep(outputs=True, series=True)
    return _played(simulate(trace, window=_windows(recipe), memory=recipe.join["memory"], policy=policy, keep=keep, **options), name)


def on_spark(recipe: Recipe, events: Sequence[Mapping[str, Any]]) -> tuple[Contestant, list[MicroBatch]]:
    """What a run on Spark left behind: its joined rows in Parquet, and the events of its batches."""
    policy = str(events[-1]["policy"])
    source = recipe.sources[SOURCE]
    ends = [source["start"] + _tick(event) * source["tick"] for event in events]
    begins = [source["start"], *ends][: len(ends)]
    batches = [
        MicroBatch(begin, end, int(event["n_input"]), int(event["n_shed"])) for begin, end, event in zip(begins, ends, events, strict=True)
    ]
    held = np.array([(end, event["retained_rows"]) for end, event in zip(ends, events, strict=True)], dtype=np.int64)
    times = joined_times(recipe)
    shed = sum(batch.shed for batch in batches)
    return Contestant(f"{policy}, this run", policy, len(times), shed, int(held[:, 1].max()), times, held), batches


def joined_times(recipe: Recipe) -> Ints:
    """The time of each joined row in the sink: that of its latest member."""
    columns = [f"{name}_{stream['time']}" for name, stream in recipe.streams.items()]
    table = pyarrow.dataset.dataset(recipe.sink["path"], format="parquet").to_table(columns)
    times = [np.asarray(table[column].cast(pa.timestamp("us", tz="UTC"), safe=False).cast(pa.int64())) for column in columns]
    return np.maximum.reduce(times)


def _played(run: JoinRun, name: str) -> Contestant:
    assert run.outputs is not None and run.series is not None
    held = np.column_stack([run.series[:, 0], run.series[:, 1:].sum(axis=1)])
    return Contestant(name, run.policy, run.n_output, run.n_shed, run.peak_memory, run.outputs[:, 0], held)


def _windows(recipe: Recipe) -> dict[str, Any]:
    return {name: stream["window"] for name, stream in recipe.streams.items()}


def _tick(event: Mapping[str, Any]) -> int:
    """How far a batch has come: the offset of the generator."""
    return int(json.loads(event["offsets"][0])["tick"])
