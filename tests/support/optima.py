"""The optimum by its definition: every way to choose who stays, in plain Python, and Das's own graph.

`best` knows nothing of the engine or of the solvers. At every instant it tries each set of tuples that fits the budget; outputs are
those of the oracle's rules. `das_graph` is the network of Das 4.1 as printed, solved by a general solver.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations, pairwise, product
from typing import Any

from ortools.graph.python import min_cost_flow

import oracle
from oracle import Row, Tuple


def best(
    rows: Sequence[Row], n_streams: int, *, windows: Sequence[oracle.Window], memory: Any, allocation: str = "variable",
    objective: str | Callable[[list[float]], float] = "count", model: str = "buffered", predicate: Any = "=", start: int | None = None,
    switches: Mapping[str, str] | None = None, weighted: bool = False, goal: str = "max",
) -> float:  # fmt: skip
    """The largest value of all schedules, or the least of those that shed only what they must.

    >>> rows = [Row(0, 0, "a"), Row(0, 1, "b"), Row(1, 2, "a"), Row(1, 3, "b")]
    >>> best(rows, 2, windows=[("time", 4)] * 2, memory=1), best(rows, 2, windows=[("time", 4)] * 2, memory=2)
    (1, 2)
    """
    tuples = oracle.place(rows, windows, switches or {}, None)
    value = objective if callable(objective) else oracle.VALUES[objective]
    match = oracle.matcher(predicate)
    last = tuples[-1].instant
    better = max if goal == "max" else min

    def inside(x: Tuple, instant: int, now: int) -> bool:
        if x.limit is not None:
            return sum(y.stream == x.stream and y.ordinal > x.ordinal and y.instant <= instant for y in tuples) < x.limit
        return x.expiry > now

    @cache
    def follow(instant: int, held: frozenset[int]) -> float:
        """What can be had from this instant on, with these rows in memory before it."""
        if instant > last:
            return 0
        arrivals = [x for x in tuples if x.instant == instant]
        now = arrivals[0].time
        memory_now = [tuples[number] for number in sorted(held) if inside(tuples[number], instant, now)]
        candidates = memory_now + [x for x in arrivals if x.limit is None or inside(x, instant, now)]

        def earned(met: list[Tuple]) -> float:
            found = (c for c in oracle.combined(met, arrivals, n_streams) if oracle.admitted(c, match))
            return sum(value([x.importance for x in c]) for c in found if start is None or max(x.time for x in c) >= start)

        outcomes = []
        for stay in _choices(candidates, oracle.pools(memory, allocation, n_streams, now), weighted, goal):
            met = memory_now if model == "buffered" else [x for x in memory_now if x.number in stay]
            outcomes.append(earned(met) + follow(instant + 1, stay))
        return better(outcomes)

    return follow(0, frozenset())


def _choices(candidates: list[Tuple], pools: list[tuple[list[int], int]], weighted: bool, goal: str) -> Iterator[frozenset[int]]:
    """Every set that fits the pools; for the least value, only those that shed no more than they must."""
    parts = []
    for streams, budget in pools:
        mine = [x for x in candidates if x.stream in streams]
        sizes = range(len(mine) + 1) if goal == "max" else [min(len(mine), budget)]
        parts.append([kept for size in sizes for kept in combinations(mine, size) if oracle.weight(kept, weighted) <= budget])
    for chosen in product(*parts):
        yield frozenset(x.number for part in chosen for x in part)


def das_graph(
    r: Sequence[Any], s: Sequence[Any], window: int, memory: int, *, fixed: bool, worth: Callable[[int, int], int] = lambda i, j: 1,
    grows: int | None = None,
) -> int | None:  # fmt: skip
    """OPT-offline (Das 4.1): one tuple per stream and tick; worth(i, j) of the pair (r[i], s[j]). None where no flow is possible.

    Node (x, i, j): the tuple that arrived at i in stream x is in memory at j. Memory is even, and at most 2 (w - 1) (docs/readings.md, 9).
    With `grows`, two more slots are there from that tick on, by a source of their own as Das 6.1.1 has it (which is not exact,
    docs/readings.md, 10).

    >>> das_graph([1, 1, 1, 3, 2], [2, 3, 1, 1, 3], 3, 2, fixed=True), das_graph([1, 1, 1, 3, 2], [2, 3, 1, 1, 3], 3, 2, fixed=False)
    (5, 6)
    """
    streams, ticks, half = (r, s), len(r), memory // 2
    numbers: dict[Any, int] = {}
    graph = min_cost_flow.SimpleMinCostFlow()

    def node(name: Any) -> int:
        return numbers.setdefault(name, len(numbers))

    def arc(tail: Any, head: Any, gain: int = 0) -> None:
        graph.add_arc_with_capacity_and_unit_cost(node(tail), node(head), 1, -gain)

    def gain(x: int, i: int, j: int) -> int:
        pair = (i, j) if x == 0 else (j, i)
        return worth(*pair) if r[pair[0]] == s[pair[1]] else 0

    for x in range(len(streams)):
        for i in range(ticks):
            for j in range(i, min(i + window, ticks)):
                if j + 1 < min(i + window, ticks):
                    arc((x, i, j), (x, i, j + 1), gain(x, i, j + 1))
                if j > i:
                    for y in (x,) if fixed else range(2):
                        arc((x, i, j), (y, j, j))
                if j == ticks - 1:
                    arc((x, i, j), "t")
            if i < half:
                arc("s", (x, i, i))
    if grows is not None:
        for x in range(2):
            arc("source", (x, grows, grows))
        graph.set_node_supply(node("source"), 2)
    together = [t for t in range(ticks) if r[t] == s[t]]
    stops = ["s", *(("pair", t) for t in together), "t"]
    for tail, head in pairwise(stops):
        arc(tail, head, worth(head[1], head[1]) if isinstance(head, tuple) else 0)
    graph.set_node_supply(node("s"), memory + 1)
    graph.set_node_supply(node("t"), -memory - 1 - (0 if grows is None else 2))
    if graph.solve() != graph.OPTIMAL:
        return None
    assert math.isfinite(graph.optimal_cost())
    return int(-graph.optimal_cost())
