"""The optimum for many sizes of memory: OPT(M), what another slot would bring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.core.budget import Pools
from penstock.core.errors import PenstockError
from penstock.core.problem import Problem
from penstock.core.trace import Trace
from penstock.optimum.curve import STEPWISE, curve
from penstock.optimum.optimum import LIMIT, check, choose_method, find_optimum
from penstock.optimum.size import size_chain, size_class

A_FEW = 10


@dataclass(frozen=True)
class CurvePoint:
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
) -> list[CurvePoint]:
    """The optimum at these sizes in rows; without them, up to the problem's own memory.

    >>> trace = Trace.from_streams(R=[1, 1, 1, 3, 2], S=[2, 3, 1, 1, 3])
    >>> problem = Problem.of(trace.streams, window=3, memory=3)
    >>> [point.value for point in find_curve(trace, problem, [1, 2, 3])]
    [4.0, 6.0, 7.0]
    """
    check(trace, problem, method)
    check_curve(problem)
    fixed = problem.budget.caps.shape[1] > 1
    top, least = problem.budget.most, problem.n_streams if fixed else 1
    few = sorted({max(least, top * part // A_FEW) for part in range(1, A_FEW + 1)})
    if sizes is not None and min(sizes) < least:
        raise PenstockError(f"the sizes of a curve must be at least {least}, got {min(sizes)}")
    name, need = choose_method(trace, problem, method, "max", limit)
    if name in ("class", "chain"):
        if announce:
            announce(f"{name}: some {need}")
        size = (size_class if name == "class" else size_chain)(trace, problem)
        chosen = sizes or (range(least, top + 1) if size.n_steps * top <= STEPWISE else few)
        return [CurvePoint(memory, float(value), name) for memory, value in zip(chosen, curve(trace, problem, chosen), strict=True)]
    points = []
    for memory in sizes or few:
        budget = Pools.parse(memory, problem.streams, allocation="fixed" if fixed else "variable")
        found = find_optimum(trace, replace(problem, budget=budget), method=method, limit=limit, announce=announce)
        announce = None
        points.append(CurvePoint(memory, found.value, found.method))
        if progress:
            progress(1)
    return points


def check_curve(problem: Problem) -> None:
    """A curve is over one number."""
    budget = problem.budget
    if budget.in_bytes or len(budget.times) > 1 or len(set(budget.caps[0].tolist())) > 1:
        raise PenstockError("a curve needs one memory in rows that does not change, got one by stream, in bytes or over time")
