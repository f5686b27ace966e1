"""One join of the stepwise engine: all combinations with one arrival, found by binding stream after stream.

Like a nested-loop join (Golab 4.2), but with whole sets: each stream that is bound is filtered by those bound before, so that no product
of streams is formed that links would cut down again.

    R.a = S.a, S.b < T.b     r arrives     S: those with r's a     T: those above one of these b's     then pairs (s, t) that fit
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.problem import Problem
from penstock.core.trace import Bools, Ints
from penstock.engine.view import match

Columns = dict[str, NDArray[Any]]

_CELLS = 1 << 22  # of a matrix of combinations and candidates that is held at once


def combinations(problem: Problem, columns: Columns, limit: Ints, pivot: int, others: Ints, most: int = 1 << 62) -> Iterator[Ints]:
    """The combinations of `pivot` with one of `others` from each other stream: a line of positions each, by stream, in rising order.

    `others` must be rising. Each member's `limit` must lie beyond the latest time of its combination. Where there would be more than
    `most` lines at once, half of the candidates of a stream are bound after the other half: the order of all lines stays the same.
    """
    return in_halves(
        columns["stream"], pivot, others, most, lambda part, limited: _bind(problem, columns, limit, pivot, part, limited)
    )  # fmt: skip


def in_halves(stream: Ints, pivot: int, others: Ints, most: int, bind: Callable[[Ints, int], Ints | None]) -> Iterator[Ints]:
    """What `bind` finds with others, in parts where it would be more than `most` lines."""
    found = bind(others, most)
    if found is None:
        halves = _halves(stream, pivot, others)
        if halves is None:  # nothing is left to be halved
            found = bind(others, 1 << 62)
        else:
            for half in halves:
                yield from in_halves(stream, pivot, half, most, bind)
    if found is not None and len(found):
        yield found


def _halves(stream: Ints, pivot: int, others: Ints) -> tuple[Ints, Ints] | None:
    """The others with one half and with the other half of the first stream that has two; None where none has."""
    own = stream[others]
    for number in range(int(own.max()) + 1):
        at = np.flatnonzero(own == number)
        if number != stream[pivot] and len(at) > 1:
            middle = len(at) // 2
            return np.delete(others, at[middle:]), np.delete(others, at[:middle])
    return None


def _bind(problem: Problem, columns: Columns, limit: Ints, pivot: int, others: Ints, most: int) -> Ints | None:
    """All combinations at once; None where that takes more than `most` lines."""
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
        fitting = _fitting(ties, len(found), len(candidates), most)
        if fitting is None:
            return None
        lines, chosen = fitting
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


def _fitting(ties: list[tuple[Bools, Ints]], n_lines: int, n_candidates: int, most: int) -> tuple[Ints, Ints] | None:
    """Which candidate (second) continues which line (first): all ties hold. None where there are more than `most`."""
    if not ties:
        if n_lines * n_candidates > most:
            return None
        return np.repeat(np.arange(n_lines), n_candidates), np.tile(np.arange(n_candidates), n_lines)
    lines, chosen = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    span = max(1, _CELLS // max(1, n_candidates))
    total = 0
    for begin in range(0, n_lines, span):
        fits = np.ones((min(span, n_lines - begin), n_candidates), dtype=bool)
        for matrix, at in ties:
            fits &= matrix[at[begin : begin + span]]
        line, candidate = np.nonzero(fits)
        total += len(line)
        if total > most:
            return None
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
