"""The demonstration: one join, less and less memory, one policy after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from penstock.core.budget import Budget
from penstock.core.engine import Keep
from penstock.core.run import JoinRun
from penstock.core.trace import Trace
from penstock.generate import generate
from penstock.simulate import exact, simulate

SHARES = (0.05, 0.1, 0.2, 0.5)
"""Memory, as shares of what the exact join holds."""
TENTH = 0.1
BY_COUNT = ("elife", "prob", "life", "rand", "fifo")
BY_VALUE = ("prob", "simp", "simpprob", "dimpprob", "dgl", "fifo")
DRAWN = ("fifo", "prob")
"""The policies whose memory is drawn over time, beside that of the exact join."""


@dataclass(frozen=True)
class Point:
    """One run: how much of the exact result a policy keeps in a share of the memory."""

    measure: str  # "outputs" or "value"
    policy: str
    memory: float
    recall: float


@dataclass(frozen=True)
class Demo:
    """What the demonstration found."""

    trace: Trace
    window: int
    whole: JoinRun
    points: list[Point]
    drawn: list[JoinRun]
    budget: Budget

    def ranked(self, measure: str) -> list[str]:
        """The policies, the one that keeps most in a tenth of the memory first."""
        mine = [point for point in self.points if point.measure == measure and point.memory == TENTH]
        return [point.policy for point in sorted(mine, key=lambda point: -point.recall)]

    def recall(self, measure: str, policy: str, memory: float) -> float:
        """The recall of one of the points."""
        return next(p.recall for p in self.points if (p.measure, p.policy, p.memory) == (measure, policy, memory))


def streams(seed: int = 0, ticks: int = 10_000) -> Trace:
    """Two streams with skewed keys, three views to an order, bursts of five times the rate; rare keys are important.

    >>> trace = streams(ticks=100)
    >>> len(trace), trace.streams
    (400, ('views', 'orders'))
    """
    return generate(
        ticks,
        streams=("views", "orders"),
        keys=2000,
        skew=1.0,
        rate=(3.0, 1.0),
        burst="2500:250:5",
        importance="rare",
        seed=seed,
    )


def n_runs() -> int:
    """How many times the trace is played."""
    return 2 + len(SHARES) * (len(BY_COUNT) + len(BY_VALUE))


def play(trace: Trace, *, window: int = 1000, seed: int = 0, progress: Callable[[str], Callable[[int], object]] | None = None) -> Demo:
    """Play the trace exactly, then under each policy in each share of the memory.

    >>> demo = play(streams(ticks=100), window=50)
    >>> demo.whole.n_output, len(demo.points)
    (3, 44)
    """

    def watch(name: str) -> Callable[[int], object] | None:
        return progress(name) if progress else None

    points: list[Point] = []
    drawn: dict[str, JoinRun] = {}
    whole = {
        name: exact(trace, window=window, objective=name, keep=Keep(series=True), progress=watch("exact")) for name in ("count", "min")
    }
    most = whole["count"].peak_memory
    for share, policy, objective in _plan():
        keep = Keep(series=objective == "count" and share == TENTH and policy in DRAWN)
        options: dict[str, Any] = {
            "memory": max(2, round(most * share)),
            "policy": policy,
            "objective": objective,
            "seed": seed,
        }
        run = simulate(trace, window=window, keep=keep, progress=watch(f"{policy} in {share:.0%} of the memory"), **options)
        if keep.series:
            drawn[policy] = run
        recall = run.value / whole[objective].value if whole[objective].value else 1.0
        points.append(Point("outputs" if objective == "count" else "value", policy, share, recall))
    budget = Budget.parse(max(2, round(most * TENTH)), trace.streams)
    return Demo(
        trace,
        window,
        whole["count"],
        points,
        [replace(whole["count"], policy="exact"), *(drawn[p] for p in DRAWN)],
        budget,
    )


def chart(demo: Demo) -> Any:
    """The picture: recall against memory, and who holds the memory when there is a tenth of it."""
    from penstock.experiments import figures

    names = {"outputs": "share of the outputs", "value": "share of the value"}
    ends = [Point(measure, policy, 1.0, 1.0) for measure, policy in dict.fromkeys((p.measure, p.policy) for p in demo.points)]
    rows = [vars(point) | {"measure": names[point.measure]} for point in demo.points + ends]
    best = demo.ranked("outputs")[0]
    kept, oldest = (demo.recall("outputs", policy, TENTH) for policy in (best, "fifo"))
    upper = figures.recall_by_memory(
        rows,
        title=f"The same join in a tenth of the memory: dropping the oldest keeps {oldest:.0%} of the result, {best} keeps {kept:.0%}",
        subtitle=f"{len(demo.trace):,} tuples, window {demo.window:,} ticks; the exact join holds up to "
        f"{demo.whole.peak_memory:,} tuples and makes {demo.whole.n_output:,} outputs. "
        "Left: every output counts 1. Right: an output counts its lesser importance, 1 to 100.",
    )
    lower = figures.memory_over_time(
        demo.drawn,
        budget=demo.budget,
        title="Who holds the memory: the exact join takes what it needs, a budget is kept",
        width=956,
    )
    return figures.together(upper, lower)


def _plan() -> Iterator[tuple[float, str, str]]:
    for share in SHARES:
        for policy in BY_COUNT:
            yield share, policy, "count"
        for policy in BY_VALUE:
            yield share, policy, "min"
