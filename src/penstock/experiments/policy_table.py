"""How every policy does on every kind of stream, in four sizes of memory, beside the optimum: `penstock reproduce policies`.

A part of a data set is played under every policy of the table, statistics `decayed`, in 5, 10, 25 and 50 % of the mean window (rows times
window, by the time that they take). Outputs, or their value where tuples have an importance, are counted from the end of a warm-up on: ten
windows, or two thirds of a trace that has less than fifteen. The optimum is that of the same count; of more than two streams it is out of
reach. A row of the table is the sum over the parts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean

from penstock.core.errors import PenstockError
from penstock.core.trace import Trace
from penstock.experiments.arrival_orders import VARIANTS
from penstock.experiments.policy_sets import PARTS, SETS
from penstock.optimum.optimum import optimum
from penstock.policies.opt import Opt
from penstock.policies.table import POLICIES
from penstock.simulator.simulate import simulate

JUDGED = "learned"
"""The policy that is judged."""
PLAIN = "prob"
"""The one that it is compared with in each row."""
PRINTED = {f"{name}-printed": VARIANTS[name] for name in ("ep", "output")}
"""Policies that we have changed, as the papers have them: by another reading, a switch."""
PLAYED = {name: (name, dict[str, str]()) for name in POLICIES} | PRINTED
"""What is played: policies and their switches."""
_CHANGED = {name for name, _ in PRINTED.values()}
PAPERS = tuple(name for name, (of, _) in PLAYED.items() if name not in _CHANGED and not POLICIES[of].paper.startswith("ours"))
"""Those of the papers."""
MEMORIES = (0.05, 0.1, 0.25, 0.5)
WARM_UP = 10  # windows


@dataclass(frozen=True)
class PolicyPoint:
    """What a policy, or the optimum, kept of a part of a data set in a memory."""

    data: str
    part: int
    memory: float  # as a share of the mean window
    rows: int  # the same in rows
    policy: str
    value: float


@dataclass(frozen=True)
class PolicyRow:
    """A row of the table: a data set in a memory, what each policy kept of all parts, and the most that could be kept."""

    data: str
    memory: float
    values: dict[str, float]
    optimum: float | None

    @property
    def best(self) -> str:
        """The best single policy, in hindsight."""
        return _most(self.values, tuple(self.values))

    @property
    def best_of_papers(self) -> str:
        """The same of those in the papers."""
        return _most(self.values, PAPERS)

    def quotient(self, policy: str) -> float:
        """What a policy kept, as a share of what the best kept.

        >>> PolicyRow("orders", 0.1, {"ep": 80.0, "learned": 100.0}, None).quotient("ep")
        0.8
        """
        most = self.values[self.best]
        return self.values[policy] / most if most > 0 else 1.0


@dataclass(frozen=True)
class Wanted:
    """What is wanted of the judged policy, and what was measured; None where the data was not played."""

    wish: str
    least: float
    found: float | None

    @property
    def verdict(self) -> str:
        """Whether it is met."""
        return "not played" if self.found is None else "yes" if self.found >= self.least else "no"


def sweep(
    names: Sequence[str],
    *,
    seeds: int = PARTS,
    memories: Sequence[float] = MEMORIES,
    scale: float = 1.0,
    data: Path | None = None,
    jobs: int = 1,
    done: Callable[[str, list[PolicyPoint]], object] | None = None,
) -> list[PolicyPoint]:
    """Play parts of these data sets under every policy, `jobs` of them at a time; points in the order of `names`.

    `done` hears of each part: what it was, and all points so far.
    """
    if not 1 <= seeds <= PARTS:
        raise PenstockError(f"seeds must be 1 to {PARTS}, the parts of a data set, got {seeds}")
    tasks = [(name, part) for name in names for part in range(seeds)]
    found: dict[tuple[str, int], list[PolicyPoint]] = {}
    for task, points in _played(tasks, tuple(memories), scale, data, jobs):
        found[task] = points
        if done:
            done(f"{task[0]}, part {task[1] + 1} of {seeds}", _in_order(tasks, found))
    return _in_order(tasks, found)


def _in_order(tasks: Sequence[tuple[str, int]], found: dict[tuple[str, int], list[PolicyPoint]]) -> list[PolicyPoint]:
    return [point for task in tasks for point in found.get(task, [])]


def _played(
    tasks: Sequence[tuple[str, int]], memories: tuple[float, ...], scale: float, data: Path | None, jobs: int
) -> Iterator[tuple[tuple[str, int], list[PolicyPoint]]]:
    if jobs == 1:
        yield from ((task, play(*task, memories, scale, data)) for task in tasks)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(play, *task, memories, scale, data): task for task in tasks}
        try:
            for done in as_completed(waiting):
                yield waiting[done], done.result()
        finally:
            pool.shutdown(cancel_futures=True)


def play(name: str, part: int, memories: Sequence[float], scale: float = 1.0, data: Path | None = None) -> list[PolicyPoint]:
    """A part of a data set, in each memory, under every policy that it can be played under, and the optimum where it is within reach."""
    trace, window = SETS[name].make(part, scale, data), SETS[name].window
    start, mean = _start(trace, window), mean_window(trace, window)
    points = []
    for share in memories:
        rows = max(trace.n_streams, round(share * mean))
        kept = {
            name: simulate(trace, window=window, memory=rows, policy=policy, switches=switches, start=start, seed=part).value
            for name, (policy, switches) in PLAYED.items()
        }
        if trace.n_streams == 2:
            kept[Opt.name] = optimum(trace, window=window, memory=rows, start=start).value
        points += [PolicyPoint(name, part, share, rows, policy, value) for policy, value in kept.items()]
    return points


def mean_window(trace: Trace, window: int) -> float:
    """How many tuples the exact join holds in the mean.

    >>> mean_window(Trace.from_streams(R="abcabc", S="abcabc"), 2)
    4.0
    """
    return min(len(trace), len(trace) * window / _span(trace))


def _span(trace: Trace) -> int:
    return int(trace.time.max() - trace.time.min()) + 1


def _start(trace: Trace, window: int) -> int:
    return int(trace.time.min()) + min(WARM_UP * window, 2 * _span(trace) // 3)


def policy_rows(points: Sequence[PolicyPoint]) -> list[PolicyRow]:
    """The rows of the table."""
    sums: dict[tuple[str, float], dict[str, float]] = {}
    for point in points:
        row = sums.setdefault((point.data, point.memory), {})
        row[point.policy] = row.get(point.policy, 0.0) + point.value
    return [PolicyRow(data, memory, row, row.pop(Opt.name, None)) for (data, memory), row in sums.items()]


def wanted(rows: Sequence[PolicyRow]) -> list[Wanted]:
    """What the judged policy is to reach."""
    at = {(row.data, row.memory): row for row in rows}
    quotients = [row.quotient(JUDGED) for row in rows]

    def over(data: str, memory: float, policy: str) -> float | None:
        row = at.get((data, memory))
        most = None if row is None else row.optimum if policy == Opt.name else row.values[policy]
        return None if row is None or not most else row.values[JUDGED] / most

    return [
        Wanted("of the best single policy, in the mean over all rows", 0.99, fmean(quotients) if quotients else None),
        Wanted("of the best single policy, in each row", 0.95, min(quotients, default=None)),
        Wanted("times `dgl` on sessions at 10 %", 1.6, over("sessions", 0.1, "dgl")),
        Wanted("times `ep`, as printed, on orders at 10 %", 1.25, over("orders", 0.1, "ep-printed")),
        Wanted("of the optimum on orders at 25 %", 0.94, over("orders", 0.25, Opt.name)),
    ]


def here(names: Sequence[str], data: Path | None) -> tuple[list[str], list[str]]:
    """Which of these data sets are there, and which are not."""
    there = [name for name in names if SETS[name].is_there(data)]
    return there, [name for name in names if name not in there]


def data_folder() -> Path | None:
    """The folder of real data sets, which the environment names."""
    named = os.environ.get("PENSTOCK_DATA")
    return Path(named) if named else None


def _most(values: dict[str, float], among: Sequence[str]) -> str:
    return max((name for name in among if name in values), key=lambda name: values[name])
