"""What cells play: a line of a figure on a trace.

A line is a policy, `exact` (no limit on memory) or `opt` (the optimum); `probv` is `prob` with one memory for all streams, where others
have equal parts; `sja` is the schedule that makes the most outputs, whatever they are worth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from time import process_time
from typing import Any

from penstock.core.problem import Problem
from penstock.core.trace import Trace
from penstock.engine.contract import Keep
from penstock.engine.run import JoinRun
from penstock.generator.generate import generate
from penstock.optimum.optimum import find_optimum, optimum, to_play
from penstock.optimum.replay import replay
from penstock.policies.table import AUTO, POLICIES
from penstock.relation.numbered import open_through
from penstock.simulator.simulate import exact, simulate

LEARNING = ("learned", AUTO)
"""They learn as the stream runs, whatever others may know of it."""
KWON: dict[str, tuple[str, dict[str, str]]] = {
    "ep": ("ep", {"ep-finishes": "last"}),
    "frequency": ("frequency", {}),
    "output": ("output", {"output-counts": "ever"}),
    "random": ("kwon-random", {}),
}
"""Kwon's policies as he has them, by the names that he gives them."""


@lru_cache(maxsize=4)
def streams(n: int = 5600, *, seed: int, **how: Any) -> Trace:
    """Generated streams; those of cells that are neighbours are made once."""
    return generate(n, seed=seed, **how)


def value(
    trace: Trace,
    line: str,
    *,
    window: Any,
    memory: int,
    start: int = 0,
    stats: str = "whole",
    objective: str | None = "count",
    through: Any = None,
    model: str = "buffered",
    seed: int = 0,
    **more: Any,
) -> float:
    """What a line keeps: outputs, or their value."""
    common: dict[str, Any] = {"window": window, "start": start, "objective": objective, "through": through, "model": model}
    if line == "exact":
        return exact(trace, **common).value
    if line in ("opt", "optv"):
        return optimum(trace, **common, memory=memory, allocation=allocation(line)).value
    if line == "sja":
        return semantic(trace, memory=memory, **common)
    return run(trace, line, memory=memory, stats=stats, seed=seed, **common, **more).value


def run(trace: Trace, line: str, *, stats: str = "whole", keep: Keep | None = None, seed: int = 0, **common: Any) -> JoinRun:
    """A run of a policy."""
    policy, switches = of_line(line)
    stats = "decayed" if policy in LEARNING else stats
    return simulate(
        trace, policy=policy, allocation=allocation(line), stats=stats, switches=switches or None, keep=keep, seed=seed, **common
    )


def of_line(line: str) -> tuple[str, Mapping[str, str]]:
    """The policy of a line, and its switches."""
    if line in KWON:
        return KWON[line]
    plain = line.removesuffix("v")
    known = (*POLICIES, AUTO, "opt")
    return (line if line in known else plain), {}


def allocation(line: str) -> str:
    """Equal parts, as in the papers, or one memory for all streams.

    >>> allocation("prob"), allocation("probv")
    ('fixed', 'variable')
    """
    return "variable" if line.endswith("v") else "fixed"


def semantic(trace: Trace, *, memory: int, window: Any, start: int, objective: str | None, through: Any, model: str) -> float:
    """The value of the schedule that has the most outputs (Ojewole's and Towne's SJA)."""
    numbered = open_through(trace, through)
    said: dict[str, Any] = {
        "window": window,
        "memory": memory,
        "allocation": "fixed",
        "start": start,
        "model": model,
        "through": () if numbered is None else numbered.through,
        "has_importance": trace.importance is not None,
    }
    counted = Problem.of(trace.streams, **said, objective="count")
    valued = Problem.of(trace.streams, **said, objective=objective)
    played = to_play(trace, counted, numbered)
    found = find_optimum(played, counted)
    return replay(played, valued, found.schedule).value


def seconds(work: Callable[[], object]) -> float:
    """The time of the processor that some work takes."""
    began = process_time()
    work()
    return process_time() - began
