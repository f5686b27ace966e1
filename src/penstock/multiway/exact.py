"""The exact join by our own means: hashed on exact values, new tuples outermost, no intermediate results, nothing swept.

Every window is hashed by each column that must be equal to another; a bucket holds one value, and its old tuples are dropped
when it is visited. So an arrival touches what it joins with and little more. Whatever is not equality is filtered on the way.

Differs from the paper: expiration has no interval (Golab's eager expiration looks at every bucket, lazy expiration leaves stale
tuples in the way of loops), and every origin has an order of its own.
"""

from __future__ import annotations

import numpy as np

from penstock.core.engine import Keep
from penstock.core.problem import Problem
from penstock.core.run import JoinRun
from penstock.core.trace import Ints, Trace
from penstock.core.window import NEVER
from penstock.multiway.links import Condition
from penstock.multiway.machine import Machine, Progress
from penstock.multiway.probe import ON_VISIT, OUTPUTS, Terms
from penstock.multiway.windows import Tuples

CHUNK = 50_000


def open_join(trace: Trace, problem: Problem, tuples: Tuples, condition: Condition, keep: Keep) -> Machine:
    """The windows of the exact join, empty."""
    objective = 0 if problem.steady else problem.objective.code
    terms = Terms(0, ON_VISIT, -NEVER if np.isinf(problem.start) else int(problem.start), objective, int(keep.outputs))
    return Machine(
        tuples, condition, terms, trace.importance if objective else None,
        buckets=[max(condition.distinct, default=0)] * trace.n_streams, exact=True, orders=greedy_orders(tuples, condition, trace.n_streams),
    )  # fmt: skip


def greedy_orders(tuples: Tuples, condition: Condition, n: int) -> list[list[int]]:
    """For every origin the stream next that leaves the fewest combinations, by counts over the whole trace."""
    last = int(tuples.instant[-1]) + 1
    stay = np.minimum(tuples.out, last) - tuples.instant
    held = np.bincount(tuples.stream, weights=np.maximum(stay, 0), minlength=n) / last
    distinct = [[len(np.unique(condition.links.codes[tuples.stream == s, c])) for c in range(len(condition.classes))] for s in range(n)]
    orders = []
    for origin in range(n):
        order = [origin]
        while len(order) < n:
            rest = [s for s in range(n) if s not in order]
            order.append(min(rest, key=lambda s: (_matches(s, order, condition, held, distinct), s)))
        orders.append(order)
    return orders


def _matches(stream: int, bound: list[int], condition: Condition, held: Ints, distinct: list[list[int]]) -> float:
    expected = float(held[stream])
    for check, _ in condition.checks(stream, bound):
        expected /= max([distinct[s][~check] for s in (stream, *bound) if s in condition.classes[~check]]) if check < 0 else 3
    return expected
