"""A join at work: windows, plan, counters and log together, played row by row or in parts."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import numpy as np

from penstock.core.batch import OnProgress
from penstock.core.trace import Floats, Ints
from penstock.core.window import NEVER
from penstock.multiway.linked_windows import FRESH, Tuples, open_store
from penstock.multiway.loops import Loops, indexes, make_loops, needs_lists
from penstock.multiway.nested_loops import BATCH, LOGGED, NEXT_EVALUATION, NEXT_EXPIRATION, PIVOT, POSITION, Terms, play
from penstock.multiway.pair_checks import Condition

CHUNK = 50_000  # rows between two reports of progress
ROOM = 1 << 16  # outputs kept in the compiled loops before they are moved


class Machine:
    """Plays tuples through nested loops; `counts` are those of nested_loops.py. `movable`: the loops may change on the way."""

    def __init__(
        self,
        tuples: Tuples,
        condition: Condition,
        terms: Terms,
        importance: Floats | None,
        *,
        buckets: Sequence[int],
        exact: bool,
        orders: Sequence[Sequence[int]],
        movable: bool = False,
    ) -> None:
        n = len(orders)
        self.tuples, self.condition, self.terms, self.exact = tuples, condition, terms, exact
        self.indexes = indexes(condition, buckets, plain=movable or needs_lists(condition, orders))
        self.store = open_store(tuples, n, self.indexes)
        self.plan = self._plan(orders)
        self.importance = np.ones(1) if importance is None else importance[tuples.row]
        self.counts, self.value = np.zeros(9, dtype=np.int64), np.zeros(1)
        self.seconds = 0.0
        self._state = np.zeros(9, dtype=np.int64)
        self._state[PIVOT] = -1
        first = int(tuples.time[0])
        self._state[NEXT_EVALUATION], self._state[NEXT_EXPIRATION] = first + terms.every, first + terms.expire_every
        self._scratch = np.zeros((2, n), dtype=np.int64)
        self._log = np.empty((ROOM if terms.keep else 1, 1 + n), dtype=np.int64)
        self._parts: list[Ints] = []

    def _plan(self, orders: Sequence[Sequence[int]]) -> Loops:
        return make_loops(self.condition, orders, self.indexes, exact=self.exact)

    def reorder(self, orders: Sequence[Sequence[int]]) -> None:
        """Go on by other nested loops."""
        self.plan = self._plan(orders)

    def play_all(self, progress: OnProgress | None = None) -> None:
        """Take all rows."""
        for begin in range(0, len(self.tuples.row), CHUNK):
            end = min(begin + CHUNK, len(self.tuples.row))
            self.play(end)
            if progress:
                progress(end - begin)

    def fill(self, until: int) -> None:
        """Take the rows before `until` into their windows without joining them: a full window to start from."""
        terms, self.terms = self.terms, self.terms._replace(every=NEVER, expire_every=NEVER)
        self._state[NEXT_EVALUATION] = self._state[NEXT_EXPIRATION] = NEVER
        self.play(until)
        self.terms, self.seconds = terms, 0.0
        self._state[BATCH] = self._state[POSITION]
        now = int(self.tuples.time[until])
        self._state[NEXT_EVALUATION], self._state[NEXT_EXPIRATION] = now + terms.every, now
        self.store.ends[:, FRESH] = -1

    def play(self, until: int) -> None:
        """Take the rows before `until`."""
        began = perf_counter()
        done = False
        while not done:
            done = play(
                self.tuples, self.condition.links, self.plan, self.store, self.terms, self.importance, until,
                self._state, self._scratch[0], self._scratch[1], self.counts, self.value, self._log,
            )  # fmt: skip
            if not done:
                self._move()
        self.seconds += perf_counter() - began

    def outputs(self) -> Ints | None:
        """All outputs so far: time, then the row of each stream's member."""
        if not self.terms.keep:
            return None
        self._move()
        found = np.concatenate(self._parts)
        if (np.diff(self.tuples.row) < 0).any():  # the rows had to be sorted by time
            found[:, 1:] = self.tuples.row[found[:, 1:]]
        return found

    def _move(self) -> None:
        self._parts.append(self._log[: self._state[LOGGED]])
        self._log = np.empty_like(self._log)
        self._state[LOGGED] = 0
