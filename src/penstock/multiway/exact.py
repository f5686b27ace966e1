"""The exact join by our own means: hashed on exact values, new tuples outermost, no intermediate results, nothing swept.

Every window is hashed by each column that must be equal to another; a bucket holds one value, and its old tuples are dropped
when it is visited. So an arrival touches what it joins with and little more. Whatever is not equality is filtered on the way.

Differs from the paper: expiration has no interval (Golab's eager expiration looks at every bucket, lazy expiration leaves stale
tuples in the way of loops), and new tuples of every stream have an order of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.core.batch import OnProgress, check_order
from penstock.core.graph import is_graph
from penstock.core.problem import Problem
from penstock.core.trace import Trace
from penstock.core.window import NEVER
from penstock.engine.contract import Keep, read_keep
from penstock.engine.run import JoinRun
from penstock.multiway.linked_windows import Tuples, arrange, followers
from penstock.multiway.machine import Machine
from penstock.multiway.nested_loops import ON_VISIT, OUTPUTS, Terms
from penstock.multiway.observe import observed_streams
from penstock.multiway.order import order_joins
from penstock.multiway.pair_checks import read_condition

OPTIONS = {"predicate", "cross", "objective", "start", "switches", "keep", "progress"}
"""The arguments that this join takes; with others, the engine plays."""


def exact_join(trace: Trace, window: Any, options: dict[str, Any]) -> JoinRun | None:
    """The exact result of links that are not one key; None where the engine must play, which does the rest.

    The numbers are those that the engine would give with memory for everything.

    >>> table = {"stream": ["R", "S", "T", "T"], "time": [0, 1, 2, 2], "a": [1, 1, None, None], "b": [None, 5, 5, 7]}
    >>> exact_join(Trace(table, key=()), 4, {"predicate": "R.a = S.a, S.b < T.b"}).n_output
    1
    """
    keep = read_keep(options.get("keep"))
    if not is_graph(options.get("predicate")) or not set(options) <= OPTIONS or keep != Keep(outputs=keep.outputs):
        return None
    facts = {name: value for name, value in options.items() if name not in ("keep", "progress")}
    problem = Problem.of(
        trace.streams, window=window, memory=len(trace) * trace.n_streams, has_importance=trace.importance is not None,
        has_lifetime=trace.lifetime is not None, **facts,
    )  # fmt: skip
    if problem.predicate.is_equality or problem.objective.function is not None:
        return None
    if trace.n_backwards and any(w.kind == "landmark" for w in problem.windows):
        return None
    return _join(trace, problem, keep, options.get("progress"))


def _join(trace: Trace, problem: Problem, keep: Keep, progress: OnProgress | None) -> JoinRun:
    check_order(problem, trace.time, -NEVER)
    machine = open_join(trace, problem, keep)
    machine.play_all(progress)
    n_output = int(machine.counts[OUTPUTS])
    each = problem.objective.of([1.0] * problem.n_streams)
    n_expired, peak = _held(machine.tuples, problem, backwards=trace.n_backwards > 0)
    return JoinRun(
        policy="fifo",
        n_input=len(trace),
        n_output=n_output,
        value=float(machine.value[0]) if machine.terms.objective else n_output * each,
        n_shed=0,
        n_expired=n_expired,
        n_late=int((machine.tuples.out <= machine.tuples.instant).sum()),  # before a landmark: dead on arrival
        peak_memory=peak,
        streams=problem.streams,
        seconds=machine.seconds,
        outputs=machine.outputs(),
    )


def open_join(trace: Trace, problem: Problem, keep: Keep) -> Machine:
    """The windows of the exact join, empty."""
    tuples = arrange(trace, problem.windows, instantly=problem.switch("varying-window") == "instant")
    condition = read_condition(trace, problem, tuples.row)
    buckets = [condition.distinct if condition.classes else 0] * trace.n_streams
    streams = observed_streams(tuples, condition, problem.windows, buckets)
    plan = order_joins(streams, on=condition.graph, per_stream=True, cross=True)
    orders = [[trace.streams.index(name) for name in plan.orders[origin]] for origin in trace.streams]
    objective = 0 if problem.steady else problem.objective.code
    start = -NEVER if np.isinf(problem.start) else int(problem.start)
    terms = Terms(every=0, expire_every=ON_VISIT, start=start, objective=objective, keep=int(keep.outputs))
    return Machine(tuples, condition, terms, trace.importance if objective else None, buckets=buckets, exact=True, orders=orders)


def _held(tuples: Tuples, problem: Problem, *, backwards: bool) -> tuple[int, int]:
    """How many tuples expire, and the most that are held after an instant (docs/decisions/0001)."""
    if backwards:  # then nothing can be promised, and nothing expires
        return 0, len(tuples.row)
    last = int(tuples.instant[-1])
    left = np.maximum(tuples.out, tuples.instant + 1)
    for number, window in enumerate(problem.windows):
        if window.kind == "rows":  # those that their own instant pushes out are not held at its end
            mine = tuples.stream == number
            left[mine] = followers(tuples.instant[mine], window.length)
    gone = left <= last
    change = np.bincount(tuples.instant, minlength=last + 1) - np.bincount(left[gone], minlength=last + 1)
    return int(gone.sum()), int(np.cumsum(change).max())
