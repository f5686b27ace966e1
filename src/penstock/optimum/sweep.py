"""The optimum for many sizes of memory: OPT(M), what another slot would bring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.core.budget import Budget
from penstock.core.errors import PenstockError
from penstock.core.problem import Problem
from penstock.core.trace import Trace
from penstock.optimum.optimum import LIMIT, find_optimum

A_FEW = 10


@dataclass(frozen=True)
class Point:
    """One size of memory, the optimum there, and how it was found."""

    memory: int
    value: float
    method: str


def find_curve(
    trace: Trace,
    problem: Problem,
    sizes: Sequence[int] | None = None,
    *,
    method: str = "auto",
    limit: Any = LIMIT,
    announce: Callable[[str], object] | None = None,
    progress: Callable[[int], object] | None = None,
) -> list[Point]:
    """The optimum at these sizes in rows; without them, up to the problem's own memory.

    >>> trace = Trace.from_streams(R=[1, 1, 1, 3, 2], S=[2, 3, 1, 1, 3])
    >>> problem = Problem.of(trace.streams, window=3, memory=3)
    >>> [point.value for point in find_curve(trace, problem, [1, 2, 3])]
    [4.0, 6.0, 7.0]
    """
    check_curve(problem)
    fixed = problem.budget.caps.shape[1] > 1
    if sizes is None:
        top, least = problem.budget.most, problem.n_streams if fixed else 1
        sizes = sorted({max(least, top * part // A_FEW) for part in range(1, A_FEW + 1)})
    points = []
    for size in sizes:
        budget = Budget.parse(size, problem.streams, allocation="fixed" if fixed else "variable")
        found = find_optimum(trace, replace(problem, budget=budget), method=method, limit=limit, announce=announce)
        announce = None
        points.append(Point(size, found.value, found.method))
        if progress:
            progress(1)
    return points


def check_curve(problem: Problem) -> None:
    """A curve is over one number."""
    budget = problem.budget
    if budget.in_bytes or len(budget.times) > 1 or len(set(budget.caps[0].tolist())) > 1:
        raise PenstockError("a curve needs one memory in rows that does not change, got one by stream, in bytes or over time")
