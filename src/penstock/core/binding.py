"""One join of the stepwise engine: all combinations with one arrival, found by binding stream after stream.

Like a nested-loop join (Golab 4.2), but with whole sets: each stream that is bound is filtered by those bound before, so that no product
of streams is formed that links would cut down again.

    R.a = S.a, S.b < T.b     r arrives     S: those with r's a     T: those above one of these b's     then pairs (s, t) that fit
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.problem import Problem
from penstock.core.trace import Ints
from penstock.core.view import Bools, match

Columns = dict[str, NDArray[Any]]

_CELLS = 1 << 22  # of a matrix of combinations and candidates that is held at once


def combinations(problem: Problem, columns: Columns, limit: Ints, pivot: int, others: Ints) -> Ints:
    """The combinations of `pivot` with one of `others` from each other stream: a line of positions each, by stream, in rising order.

    `others` must be rising. Each member's `limit` must lie beyond the latest time of its combination.
    """
    stream, time, key = columns["stream"], columns["time"], columns["key"]
    first = int(stream[pivot])
    others = others[(key[others] >= 0) & (key[pivot] >= 0)]
    left = {i: others[stream[others] == i] for i in range(problem.n_streams) if i != first}
    bound = {first: np.array([pivot])}
    found = np.array([[pivot]])
    latest, least = time[found[:, 0]], limit[found[:, 0]]
    last = first
    while left:
        for i, candidates in left.items():
            if linked(problem, i, last):
                left[i] = candidates[_matrix(problem, columns, (last, bound[last]), (i, candidates)).any(axis=0)]
            if not len(left[i]):
                return np.empty((0, problem.n_streams), np.int64)
        last = min(left, key=lambda i: (not any(linked(problem, i, j) for j in bound), len(left[i]), i))
        candidates = left.pop(last)
        ties = [
            (_matrix(problem, columns, (j, members), (last, candidates)), np.searchsorted(members, found[:, place]))
            for place, (j, members) in enumerate(bound.items())
            if len(members) > 1 and linked(problem, last, j)  # with a single member, all that are left match it
        ]
        lines, chosen = _fitting(ties, len(found), len(candidates))
        position = candidates[chosen]
        latest = np.maximum(latest[lines], time[position])
        least = np.minimum(least[lines], limit[position])
        alive = latest < least
        found = np.column_stack([found[lines], position])[alive]
        latest, least = latest[alive], least[alive]
        bound[last] = np.unique(found[:, -1]) if left else candidates
    found = found[:, np.argsort(list(bound))]
    return found[np.lexsort(found.T[::-1])]


def linked(problem: Problem, i: int, j: int) -> bool:
    """Whether two streams have anything to compare."""
    return problem.graph is None or problem.predicate.is_equality or bool(problem.graph.between(i, j))


def _fitting(ties: list[tuple[Bools, Ints]], n_lines: int, n_candidates: int) -> tuple[Ints, Ints]:
    """Which candidate (second) continues which line (first): all ties hold."""
    if not ties:
        return np.repeat(np.arange(n_lines), n_candidates), np.tile(np.arange(n_candidates), n_lines)
    lines, chosen = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    span = max(1, _CELLS // max(1, n_candidates))
    for begin in range(0, n_lines, span):
        fits = np.ones((min(span, n_lines - begin), n_candidates), dtype=bool)
        for matrix, at in ties:
            fits &= matrix[at[begin : begin + span]]
        line, candidate = np.nonzero(fits)
        lines.append(line + begin)
        chosen.append(candidate)
    return np.concatenate(lines), np.concatenate(chosen)


def _matrix(problem: Problem, columns: Columns, one: tuple[int, Ints], other: tuple[int, Ints]) -> Bools:
    """Which of one stream's positions (rows) match which of the other's."""
    (i, mine), (j, theirs) = one, other
    sides = (mine, theirs) if i < j else (theirs, mine)
    key, values = columns["key"], columns["values"]
    found = match(problem, *(column[side] for side in sides for column in (key, values)), pair=(min(i, j), max(i, j)))
    return found if i < j else found.T
