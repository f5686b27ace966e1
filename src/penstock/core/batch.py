"""A batch: the next rows of all streams, in arrival order, as the engine takes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.errors import PenstockError
from penstock.core.link_columns import link_values, shared_keys
from penstock.core.problem import Problem
from penstock.core.trace import Floats, Ints, Trace
from penstock.core.window import COUNTING, NEVER

OnProgress = Callable[[int], object]
"""Called with the number of rows that are done since it was last called."""


@dataclass(frozen=True)
class Batch:
    """Rows as columns: `key` is one integer per row (equal keys, equal integers; negative ones match nothing)."""

    stream: Ints
    time: Ints
    key: Ints
    importance: Floats | None = None
    lifetime: Ints | None = None
    size: Ints | None = None
    price: Floats | None = None  # p of each row, where the statistics fix it beforehand
    values: NDArray[Any] | None = None  # where the predicate is not equality: the key columns, or what links (graph.py) or facts compare

    def __len__(self) -> int:
        return len(self.time)

    @classmethod
    def of(cls, trace: Trace, problem: Problem, values: NDArray[Any] | None = None) -> Batch:
        """All rows of a trace; with the numbers that facts have for their values (relation/numbered.py) where these link the streams."""
        graph = problem.graph
        if problem.through:
            key = np.arange(len(trace))
        elif graph is None:
            key = trace.key
        elif problem.predicate.is_equality:
            key = shared_keys(trace, graph)
        else:
            key, values = np.arange(len(trace)), link_values(trace, graph)
        if problem.predicate.takes_numbers:
            values, null = trace.numbers()
            key = np.where(null, -1 - np.arange(len(trace)), np.arange(len(trace)))
        elif problem.predicate.name == "user":
            columns = [trace.key_values(name).to_pylist() for name in trace.key_columns]
            values = np.empty((len(trace), len(columns)), dtype=object)
            for number, column in enumerate(columns):
                values[:, number] = column
        elif not problem.predicate.is_equality and graph is None and not problem.through:
            values = key[:, None]
        if trace.lifetime is None and any(window.kind == "landmark" for window in problem.windows):
            began = np.array([window.length if window.kind == "landmark" else -NEVER for window in problem.windows])
            key = np.where(trace.time < began[trace.stream], -1, key)  # dead from the start: it counts nowhere
        if problem.budget.in_bytes and trace.size is None:
            raise PenstockError("memory in bytes needs a column 'size' in the trace; give a number of rows instead")
        return cls(trace.stream, trace.time, key, trace.importance, trace.lifetime, trace.size, values=values)

    def cut(self, begin: int, end: int) -> Batch:
        """The rows from `begin` to before `end`.

        >>> one = np.array([0, 1, 2])
        >>> len(Batch(one, one, one).cut(1, 3))
        2
        """
        parts: dict[str, Any] = {name: None if column is None else column[begin:end] for name, column in vars(self).items()}
        return Batch(**parts)


def check_order(problem: Problem, time: Ints, now: int) -> None:
    """Windows counted in rows depend on the order of arrival: refuse rows whose time decreases."""
    if any(w.kind in COUNTING for w in problem.windows) and len(time):
        previous = np.concatenate([[now], time[:-1]])
        bad = np.flatnonzero(time < previous)
        if len(bad):
            at = bad[0]
            raise PenstockError(f"window rows:C needs times that do not decrease, got {time[at]} after {previous[at]} in row {at}")
