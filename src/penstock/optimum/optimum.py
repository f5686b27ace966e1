"""Trace + budget -> Optimum: choose a method, solve, and replay what it found."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from penstock.core.batch import Batch, OnProgress
from penstock.core.budget import Pools
from penstock.core.errors import PenstockError, choose
from penstock.core.problem import Problem
from penstock.core.ticks import in_ticks
from penstock.core.trace import Ints, Trace, check_trace
from penstock.core.value import USER
from penstock.engine.contract import Keep
from penstock.engine.run import JoinRun, record
from penstock.optimum import states
from penstock.optimum.gains import Gains, count_outputs
from penstock.optimum.linked import LinkedTrace, batch_of, facts_of
from penstock.optimum.replay import replay, schedule_of
from penstock.optimum.schedule import NEVER, Optimum, check_order
from penstock.optimum.size import Size, size_chain, size_class
from penstock.optimum.solve import Solution, fits_class, solve_chain, solve_class
from penstock.policies.fifo import Fifo
from penstock.relation.numbered import Numbered, open_through
from penstock.statistics.base import Source

LIMIT = "4 GiB"
"""What a method may be expected to take before it is refused."""


@dataclass(frozen=True)
class Need:
    """What a method expects to need: its own counts, and bytes; `hopeless` says why more memory would not help."""

    counts: Mapping[str, int]
    bytes: int
    hopeless: str = ""

    def fits(self, most: int) -> bool:
        """Whether it can be done in so many bytes."""
        return self.bytes <= most and not self.hopeless

    def __str__(self) -> str:
        counts = [f"{_round(number)} {name}" for name, number in self.counts.items()]
        return f"{', '.join(counts)}, {_mebibytes(self.bytes)}"


@dataclass(frozen=True)
class Found:
    """What a method hands back."""

    value: float
    leaves: Ints
    size: dict[str, int]
    solution: Solution | None = None


@dataclass(frozen=True)
class Method:
    """A way to the optimum: where it does not apply and why, what it needs, how it is done."""

    refusal: Callable[[Trace, Problem, str], str | None]
    need: Callable[[Trace, Problem, str], Need]
    solve: Callable[[Trace, Problem, str, OnProgress | None], Found]


def optimum(
    trace: Trace,
    *,
    window: Any,
    memory: Any,
    objective: Any = None,
    allocation: str = "variable",
    method: str = "auto",
    goal: str = "max",
    model: str = "buffered",
    predicate: Any = "=",
    cross: bool = False,
    through: Any = None,
    start: Any = None,
    switches: Mapping[str, str] | None = None,
    limit: Any = LIMIT,
    schedule: bool = True,
    progress: OnProgress | None = None,
) -> Optimum:
    """The best value that any policy could have reached on this trace, and the schedule that reaches it.

    `goal="min"` asks for the least value among schedules that keep memory full. `limit` is what a method may take of the machine's memory.
    `through` joins the streams through a relation, or several (`ps.relation`), where each fact that links two tuples makes an output.

    `schedule=False`, with method "states", finds the value alone: it holds the states of two instants instead of all.

    >>> trace = Trace.from_streams(R=[1, 1, 1, 3, 2], S=[2, 3, 1, 1, 3])
    >>> optimum(trace, window=3, memory=2, allocation="fixed").value
    5.0
    >>> optimum(trace, window=3, memory=2).value
    6.0
    """
    check_trace(trace)
    timed = in_ticks(trace, window=window, memory=memory, start=start)
    numbered = open_through(trace, through)
    problem = Problem.of(
        trace.streams, **timed, allocation=allocation, predicate=predicate, cross=cross, objective=objective, model=model,
        through=() if numbered is None else numbered.through, switches=switches,
        has_importance=trace.importance is not None, has_lifetime=trace.lifetime is not None,
    )  # fmt: skip
    played = to_play(trace, problem, numbered)
    if not isinstance(schedule, bool):
        raise PenstockError(f"schedule must be True or False, got {schedule!r}")
    if not schedule:
        return _value_alone(played, problem, method, goal, progress)
    return told(played, find_optimum(played, problem, method=method, goal=goal, limit=limit, progress=progress))


def find_optimum(
    trace: Trace, problem: Problem, *, method: str = "auto", goal: str = "max", limit: Any = LIMIT, progress: OnProgress | None = None,
    announce: Callable[[str], object] | None = None,
) -> Optimum:  # fmt: skip
    """`optimum`, for a problem that has been read; `announce` hears beforehand what the method expects to need."""
    check(trace, problem, method, goal)
    began = perf_counter()
    whole = _whole(trace, problem, goal)
    if whole is not None:
        schedule = np.full(len(trace), NEVER, dtype=np.int64)
        return Optimum(whole.value, whole.n_output, "exact", schedule, perf_counter() - began, goal=goal)
    name, need = choose_method(trace, problem, method, goal, limit)
    if announce:
        announce(f"{name}: some {need}" if name in METHODS else f"too large for an exact answer (some {need}): an upper bound instead")
    if name == "bound":
        return _bound(trace, problem, began)
    found = METHODS[name].solve(trace, problem, goal, progress)
    run = replay(trace, problem, found.leaves, Keep(sheds=True))
    if not math.isclose(run.value, found.value, rel_tol=1e-9, abs_tol=1e-9 * max(1, run.n_output)):
        raise RuntimeError(f"method {name!r} claims the value {found.value}, but its schedule replays to {run.value}")
    seconds = perf_counter() - began
    prices = None if found.solution is None else found.solution.prices
    return Optimum(
        run.value, run.n_output, name, schedule_of(run), seconds, goal=goal, prices=prices, size=found.size, solution=found.solution
    )


def _value_alone(trace: Trace, problem: Problem, method: str, goal: str, progress: OnProgress | None) -> Optimum:
    if method != "states":
        raise PenstockError(f'schedule=False goes with method="states": a flow has its schedule without further cost, got {method!r}')
    check(trace, problem, method, goal)
    began = perf_counter()
    need = _states_need(trace, problem, goal, most=states.MOST_UNTRACED)
    if need.hopeless:
        raise PenstockError(f"this trace is too large for method 'states': some {need}, and {need.hopeless}; use a shorter trace")
    found = states.solve_states(trace, problem, goal=goal, traced=False, progress=progress)
    size = {"n_states": found.n_states}
    return Optimum(found.value, None, "states", found.leaves, perf_counter() - began, goal=goal, size=size)


def find_schedule(trace: Trace, problem: Problem) -> Ints:
    """The schedule of the optimum, for policy `opt`."""
    found = find_optimum(trace, problem)
    if not found.exact:
        raise PenstockError(
            f"policy 'opt' has no schedule for {problem.n_streams} streams and {len(trace):,} rows: the optimum is out of reach, and the "
            "upper bound on it comes without one; use a shorter trace or leave opt out"
        )
    return found.schedule


def to_play(trace: Trace, problem: Problem, numbered: Numbered | None) -> Trace:
    """The rows of a trace that the optimum looks at; with relations only those that have facts."""
    check_order(trace)
    return trace if numbered is None else LinkedTrace(trace, problem, numbered)


def told(trace: Trace, found: Optimum) -> Optimum:
    """An optimum by the rows and instants of the trace that was given, where only some of them were played."""
    return replace(found, schedule=trace.told(found.schedule)) if isinstance(trace, LinkedTrace) and found.exact else found


def check(trace: Trace, problem: Problem, method: str = "auto", goal: str = "max") -> None:
    """Refuse what has no optimum, or none by this method, before any work is done."""
    check_order(trace)
    if problem.has_matches:
        raise PenstockError("policy 'opt' knows by itself when a tuple has met its last partner, got matches: leave one of them out")
    choose("method", method, ("auto", *METHODS))
    choose("goal", goal, ("max", "min"))
    if problem.budget.in_bytes and trace.size is None:
        Batch.of(trace, problem)  # says what is missing
    each = problem.objective.of([1.0] * problem.n_streams) if problem.steady else 0.0
    if not math.isfinite(each):
        raise PenstockError(f"objective must give finite values where an optimum is asked for, got {each}")
    refusal = None if method == "auto" else METHODS[method].refusal(trace, problem, goal)
    if refusal:
        raise PenstockError(f"method {method!r} does not apply: {refusal}; {_instead(trace, problem, goal)}")


def choose_method(trace: Trace, problem: Problem, method: str, goal: str, limit: Any = LIMIT) -> tuple[str, Need]:
    """The method to use, and what it needs: the first that applies and fits into `limit`; `bound` where none does."""
    most = _bytes(limit)
    names = [name for name, one in METHODS.items() if method in ("auto", name) and one.refusal(trace, problem, goal) is None]
    needs: dict[str, Need] = {}
    for name in names:
        needs[name] = METHODS[name].need(trace, problem, goal)
        if needs[name].fits(most):
            return name, needs[name]
    if method == "auto" and goal == "max" and problem.n_streams > 2 and not problem.budget.in_bytes:
        return "bound", needs["states"]
    need = needs[names[0]]
    raise PenstockError(
        f"this trace is too large for method {names[0]!r}: some {need}, and {need.hopeless or f'the limit is {_mebibytes(most)}'}; "
        f"{_instead(trace, problem, goal, without=names[0], most=most)}"
    )


def _instead(trace: Trace, problem: Problem, goal: str, without: str = "", most: int | None = None) -> str:
    """Advice: the methods that would do."""
    fitting = [
        name
        for name, one in METHODS.items()
        if name != without and one.refusal(trace, problem, goal) is None and (most is None or one.need(trace, problem, goal).fits(most))
    ]
    if fitting:
        return f"use method {fitting[0]!r}"
    if problem.budget.in_bytes:
        return "give the memory in rows"
    if goal == "max" and problem.n_streams > 2:
        return "method 'auto' gives an upper bound"
    return "use a shorter trace, or raise the limit"


def _whole(trace: Trace, problem: Problem, goal: str) -> JoinRun | None:
    """The exact join, where memory holds all of it and nothing is better shed."""
    batch, facts = batch_of(trace, problem), facts_of(trace)
    run = record(problem, Fifo(), Source(), batch, None, stepwise=False, progress=None, facts=facts)
    if run.n_shed:
        return None
    if goal == "max" and problem.objective.code == USER and (Gains.of(trace, problem, most=states.MOST_OUTPUTS).value < 0).any():
        return None
    return run


def _bound(trace: Trace, problem: Problem, began: float) -> Optimum:
    found = count_outputs(trace, problem)
    if found > states.MOST_OUTPUTS:
        raise PenstockError(f"the exact join has {found:,} outputs, too many even for an upper bound; use a shorter trace or window")
    value = solve_chain(trace, problem).value
    return Optimum(value, None, "bound", np.empty(0, dtype=np.int64), perf_counter() - began, exact=False)


def _flow_refusal(trace: Trace, problem: Problem, goal: str) -> str | None:
    if goal == "min":
        return "a flow finds the largest value, got goal 'min'"
    if problem.budget.in_bytes:
        return "tuples of unequal size are no flow, got a memory in bytes"
    if problem.n_streams > 2:
        return f"an output of {problem.n_streams} streams needs several stored tuples at once, which is no flow"
    return None


def _flow(size: Callable[[Trace, Problem], Size], solve: Callable[[Trace, Problem, OnProgress | None], Solution]) -> dict[str, Any]:
    """What the two flows share."""

    def need(trace: Trace, problem: Problem, goal: str) -> Need:
        found = size(trace, problem)
        return Need({"nodes": found.n_nodes, "arcs": found.n_arcs}, found.n_bytes)

    def solved(trace: Trace, problem: Problem, goal: str, progress: OnProgress | None) -> Found:
        found = solve(trace, problem, progress)
        return Found(found.value, found.leaves, {"n_nodes": found.n_nodes, "n_arcs": found.n_arcs}, found)

    return {"need": need, "solve": solved}


def _states_refusal(trace: Trace, problem: Problem, goal: str) -> str | None:
    if goal == "min" and problem.budget.in_bytes:
        return "the least value in a full memory is defined for a budget in rows, got one in bytes"
    return None


def _states_need(trace: Trace, problem: Problem, goal: str, most: int = states.MOST_STATES) -> Need:
    outputs = count_outputs(trace, problem)
    if outputs > states.MOST_OUTPUTS:
        return Need({"outputs to list": outputs}, 100 * outputs, f"no more than {states.MOST_OUTPUTS:,} can be")
    found = states.size_states(trace, problem, goal=goal)
    hopeless = f"more than {most:,} take too long" if found > most else ""
    return Need({"states": found}, found * states.STATE_BYTES, hopeless)


def _solve_states(trace: Trace, problem: Problem, goal: str, progress: OnProgress | None) -> Found:
    plan = states.solve_states(trace, problem, goal=goal, progress=progress)
    return Found(plan.value, plan.leaves, {"n_states": plan.n_states})


METHODS: dict[str, Method] = {
    "class": Method(
        lambda trace, problem, goal: _flow_refusal(trace, problem, goal) or fits_class(trace, problem), **_flow(size_class, solve_class)
    ),
    "chain": Method(_flow_refusal, **_flow(size_chain, solve_chain)),
    "states": Method(_states_refusal, _states_need, _solve_states),
}
"""The methods, in the order in which `auto` tries them."""


def _bytes(limit: Any) -> int:
    budget = None
    if isinstance(limit, str) and ":" not in limit:  # one size, not sizes that change with time
        with suppress(PenstockError):
            budget = Pools.parse(limit, ("R", "S"))
    if budget is None or not budget.in_bytes:
        raise PenstockError(f'limit must be a size such as "4 GiB", got {limit!r}')
    return budget.most


def _mebibytes(amount: int) -> str:
    return f"{_round(amount / 2**20)} MiB" if amount >= 2**20 else "less than 1 MiB"


def _round(number: float) -> str:
    return f"{number:,.0f}" if number < 1e15 else f"{number:.0e}"
