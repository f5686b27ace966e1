"""Golab's Tables 5 to 7 (name, rate, window, values), the walk that gives their figures, and plain loops that count what they visit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random

Row = tuple[str, float, float, float]
TABLE_5: list[Row] = [("S1", 10, 100, 500), ("S2", 1, 100, 50), ("S3", 1, 200, 40), ("S4", 3, 100, 5)]
TABLE_6: list[Row] = [("S1", 100, 100, 200), ("S2", 1, 100, 200), ("S3", 1, 100, 20), ("S4", 3, 100, 2)]
TABLE_7: list[Row] = [("S1", 11, 100, 200), ("S2", 10, 100, 100), ("S3", 1, 100, 65), ("S4", 1, 100, 20)]


def walked(rows: Sequence[Row], order: Sequence[str], buckets: Mapping[str, int] | None = None) -> float:
    """The cost of a global order, eager, by the walk of the issue."""
    by_name = {row[0]: row[1:] for row in rows}
    cost = 0.0
    for name, rate, _, values in rows:
        x, d = rate, values
        for other in order:
            if other != name:
                rate_j, window_j, values_j = by_name[other]
                cost += x * rate_j * window_j / (buckets or {}).get(other, 1)
                x, d = x * rate_j * window_j / max(d, values_j), min(d, values_j)
    return cost


Tuple = tuple[float, int]


def visits_per_tick(
    rows: Sequence[Row],
    order_of: Callable[[int], Sequence[int]],
    *,
    ticks: int,
    tau: float | None = None,
    buckets: Sequence[int] | None = None,
    seed: int = 0,
) -> tuple[float, float]:
    """Join random arrivals (Poisson, uniform values from 1) by loops in these orders; visits and comparisons per tick.

    A window is a list, oldest first. An execution is at every arrival or every tau ticks, for the arrivals since the last one; expiration
    follows it. Inside of the loop of the new tuples a loop ends at the first tuple that is newer.
    """
    random = Random(seed)
    arrivals = sorted((at, i) for i, row in enumerate(rows) for at in _poisson(random, row[1], ticks))
    cells = [[[] for _ in range(b)] for b in buckets or [1] * len(rows)]
    new: list[list[Tuple]] = [[] for _ in rows]
    counts = [0, 0]
    begun = max(row[2] for row in rows) * 2
    done = 0.0

    def evaluate(now: float) -> None:
        for origin in range(len(rows)):
            if new[origin]:
                _loop(rows, origin, order_of(origin), cells, new, {}, 0, counts if now > begun else [0, 0])
        for i, row in enumerate(rows):
            new[i].clear()
            for cell in cells[i]:
                while cell and cell[0][0] <= now - row[2]:
                    cell.pop(0)

    for at, i in arrivals:
        if tau is None:
            evaluate(at)  # nothing is new: expire
        while tau is not None and at > done + tau:
            done += tau
            evaluate(done)
        row = (at, random.randint(1, int(rows[i][3])))
        cells[i][row[1] % len(cells[i])].append(row)
        new[i].append(row)
        if tau is None:
            evaluate(at)
    return counts[0] / (ticks - begun), counts[1] / (ticks - begun)


def _poisson(random: Random, rate: float, ticks: int) -> Iterator[float]:
    at = random.expovariate(rate)
    while at < ticks:
        yield at
        at += random.expovariate(rate)


def _loop(
    rows: Sequence[Row],
    origin: int,
    order: Sequence[int],
    cells: list[list[list[Tuple]]],
    new: list[list[Tuple]],
    chosen: dict[int, Tuple],
    depth: int,
    counts: list[int],
) -> None:
    if depth == len(order):
        return
    stream = order[depth]
    bound = next(iter(chosen.values()), None)
    visited = [u for cell in cells[stream] for u in cell] if bound is None else cells[stream][bound[1] % len(cells[stream])]
    if stream == origin:
        visited = [u for u in (new[stream] if bound is None else visited) if u in new[stream]]
    newest = chosen.get(origin, (math.inf, 0))[0]
    for u in list(visited):
        if u[0] > newest:
            break
        counts[0] += depth > 0
        pivot = u[0] if stream == origin else newest
        members = {**chosen, stream: u}
        if pivot < math.inf and any(not pivot - rows[i][2] < v[0] <= pivot for i, v in members.items()):
            continue
        counts[1] += depth > 0
        if bound is None or u[1] == bound[1]:
            _loop(rows, origin, order, cells, new, members, depth + 1, counts)
