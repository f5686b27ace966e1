"""Statistics `decayed` where p is more than the count of a key: under comparisons, distances and links, and by the value of outputs.

p of a tuple is the decayed weight of the past arrivals that match it. They are remembered as entries, arrivals that no price can tell apart
in one, and found by the same indexes as tuples in memory. A tuple in memory needs no second look: each arrival that matches it adds to it.

*Bounded.* Of each stream at most `most` entries are remembered. When there are more, half as many are drawn, an entry with a chance in
proportion to its weight (those above a threshold for certain, the others then weigh as much as the threshold), so that the expectation of
every sum stays what it was. With m entries behind an estimate its standard error is at most 1 / sqrt(m) of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.batch import Batch
from penstock.core.errors import PenstockError
from penstock.core.problem import Problem
from penstock.core.rounding import aged
from penstock.core.trace import Bools, Floats, Ints
from penstock.engine.compiled.linked.past import NEEDS_ROOM, TOO_MANY, Rows, fill_past, in_order, open_past, tally, thin_past, weigh_all
from penstock.engine.contract import Renumber
from penstock.engine.finding import linked_pairs
from penstock.engine.number_bits import as_bits, from_bits
from penstock.statistics.forward import FORGOTTEN
from penstock.statistics.remembered import Remembered

MOST = 1 << 16
"""Entries of a stream that are remembered, where nothing else bounds them."""
_LEAST = 64
_INDEXED, _PLAIN = 108, 48  # bytes of an entry in an index, and beside
_SPAN = 64  # rows of an instant that there is room for at first


class DecayedMatches(Remembered):
    """Decayed sums over the past arrivals that match.

    >>> problem = Problem.of(("R", "S"), window=10, memory=4, predicate="eps:1", stats="decayed")
    >>> time, stream, key = (np.array(c) for c in ([0, 10, 10], [0, 1, 0], [0, 1, 2]))
    >>> batch = Batch(stream, time, key, values=np.array([[5], [6], [7]]))
    >>> DecayedMatches(problem).rates(batch, 0)[0].tolist()
    [[1.0, 0.0], [3.0, 2.0], [2.0, 2.0]]
    """

    def __init__(self, problem: Problem, room: int | None = None) -> None:
        super().__init__(problem)
        n, width = problem.n_streams, 2 if problem.graph is None else problem.graph.slots[-1].stop
        entry = 2 * (_INDEXED * linked_pairs(problem) + 8 * width + _PLAIN)  # there is room for twice as many, so that they may grow
        self.room = room or 0
        self.most = MOST if room is None else min(MOST, max(_LEAST, room * 2 // 3 // (n * entry)))
        self.drawn = 0  # how often entries have been drawn
        self.whole: bool | None = None
        self.filled = 0
        self.past: Any = None
        self.apart = False  # what is remembered plainly is one arrival for all that are priced alike

    @property
    def n_bytes(self) -> int:
        """What the entries and their indexes take."""
        own = 0 if self.past is None else sum(array.nbytes for array in self.arrays.values()) + sum(column.nbytes for column in self.past)
        return own + super().n_bytes

    def age(self, batch: Batch, begin: int) -> int:
        """Move the origin where it must, and forget what has become light."""
        steps = self.forward.move(batch.time[begin])
        if steps and self.past is None and self.history:
            self._load()
        if steps and self.past is not None:
            weight = aged(self.past.weight[: self.filled], steps)
            self._keep(weight >= FORGOTTEN, weight)
        return steps

    def rates(self, batch: Batch, begin: int) -> tuple[Floats, int]:
        """For each row the weight of what matches it in every stream, its instant included, and what it weighs itself."""
        span = self.forward.span(batch.time[begin:])
        part = slice(begin, begin + span)
        weight = np.exp2(self.forward.exponents(batch.time[part]))
        values = self._values(batch.key[:, None] if batch.values is None else batch.values)[part]
        importance = np.ones(span) if batch.importance is None else batch.importance[part]
        columns = _plain(batch.stream[part], batch.time[part], batch.key[part], values, importance, weight)
        rates = np.zeros((span, self.problem.n_streams))
        at = np.array([0, self.filled, _SPAN])
        if self.past is None:
            self._open(values.shape[1], _LEAST, _SPAN)
        while (state := tally(self.memory, self.past, Rows(*columns), rates, self.most, at)) or at[0] < span:
            self.filled = int(at[1])
            if state == NEEDS_ROOM:
                self._grow(int(at[2]))
            elif state == TOO_MANY:
                self._draw()
            at[1] = self.filled
        self.filled = int(at[1])
        return rates, begin + span

    def weigh(self, stream: Ints, key: Ints, values: Ints, importance: Floats | None) -> tuple[Floats, Floats]:
        """The rates of tuples that were played already, their values as bits, and the weight of all arrivals by stream."""
        rates = np.zeros((len(stream), self.problem.n_streams))
        importance = np.ones(len(stream)) if importance is None else importance
        if len(stream):
            none = np.zeros(len(stream))
            rows = Rows(*_plain(stream.astype(np.int64), none.astype(np.int64), key.astype(np.int64), values, importance, none))
            weigh_all(self.memory, self.past, rows, rates)
        return rates, self.past.mass

    def keys(self) -> Ints:
        """The keys of the arrivals, where keys are compared."""
        if self.past is None:
            return super().keys()
        return self.values()[:, 0].astype(np.int64) if self.problem.predicate.is_equality else np.empty(0, np.int64)

    def values(self) -> Floats:
        """What is compared of the arrivals."""
        return super().values() if self.past is None else from_bits(self._entries()[1], whole=bool(self.whole))

    def snapshot(self) -> dict[str, Any]:
        """The clock and what is remembered, as the plain form has it."""
        if self.past is not None:
            order = in_order(self.arrays, self.memory, self.filled)
            stream, values, importance, weight = self._entries()
            stream, importance, weight = stream[order], importance[order], weight[order]
            seen = from_bits(values[order], whole=bool(self.whole))
            key = seen[:, 0].astype(np.int64) if self.problem.predicate.is_equality else np.zeros(len(stream), np.int64)
            self.history = [(stream, key, seen, importance, weight)]
        state = super().snapshot() | {"drawn": np.array(self.drawn), "apart": np.array(self.apart or self.past is not None)}
        if self.past is not None:
            self.history = []
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what was remembered."""
        super().restore(state)
        self.drawn, self.apart = int(state.get("drawn", 0)), bool(state.get("apart", False))
        self.past = None

    def merge(self, states: Sequence[dict[str, Any]], renumber: Renumber) -> list[float]:
        """Refused: what is remembered of shards that share arrivals cannot be told apart."""
        raise PenstockError("statistics of such a join cannot be merged; use a new checkpoint")

    def arrive(self, view: Any) -> None:
        """The plain form."""
        super().arrive(view)

    def _thin(self) -> None:
        """The plain form: within the bound."""
        for at_last in (False, True):
            if np.bincount(self.history[0][0].astype(np.int64)).max() <= self.most:
                return
            if at_last:
                self._draw()
            else:
                self.history = [self._alone(self.history[0])]

    def _draw(self) -> None:
        """Draw entries of the streams that have too many."""
        plain = self.past is None
        if plain:
            self.history = [self._alone(self.history[0])]
            stream, key, values, importance, weight = self.history[0]
            bits = as_bits(values) if values.dtype != object else key[:, None]
        else:
            stream, bits, importance, weight = self._entries()
        kept, weight = drawn(stream, bits, importance, weight, self.most, self.drawn)
        self.drawn += 1
        if plain:
            self.history = [(stream[kept], key[kept], values[kept], importance[kept], weight[kept])]
        else:
            self._keep(kept, weight)

    def _alone(self, arrivals: tuple[NDArray[Any], ...]) -> tuple[NDArray[Any], ...]:
        """One arrival for all that are priced alike, with the weight of all."""
        _, first, which = np.unique(self._alike(arrivals), return_index=True, return_inverse=True)
        return (*(column[first] for column in arrivals[:4]), np.bincount(which.reshape(-1), arrivals[4]))

    def _values(self, values: NDArray[Any]) -> Ints:
        """What is compared, as bits of the kind that is kept."""
        whole = values.dtype.kind == "i"
        if self.whole is None or (self.filled == 0 and not self.history):
            self.whole = whole
        if self.past is None and self.history:
            self._load()
        if self.whole and not whole:
            stream, bits, importance, weight = self._entries()
            self.whole = False
            self._remember(stream, as_bits(bits.astype(np.float64)), importance, weight)
        return as_bits(values if self.whole else values.astype(np.float64))

    def _load(self) -> None:
        """Index what a snapshot had."""
        stream, _, values, importance, weight = self.history[0] if self.apart else self._alone(self.history[0])
        self.history, self.whole, self.apart = [], values.dtype.kind == "i", False
        self._remember(stream.astype(np.int64), as_bits(values), importance, weight)

    def _entries(self) -> tuple[Ints, Ints, Floats, Floats]:
        """What is remembered: stream, values, importance, weight."""
        if self.past is None:
            return np.empty(0, np.int64), np.empty((0, 1), np.int64), np.empty(0), np.empty(0)
        part = slice(0, self.filled)
        values = self.arrays["values"].reshape(-1, int(self.memory.width))[part].copy()
        return (self.past.stream[part].copy(), values, self.past.importance[part].copy(), self.past.weight[part].copy())

    def _keep(self, kept: Bools, weight: Floats) -> None:
        """Forget the other entries, and give these their weights."""
        few = 8 * np.count_nonzero(kept) < len(self.past.stream)
        if few and len(self.past.stream) > _LEAST:
            stream, values, importance, _ = self._entries()
            self._remember(stream[kept], values[kept], importance[kept], weight[kept])
            return
        self.past.weight[: self.filled] = weight
        self.filled = int(thin_past(self.memory, self.past, np.where(kept, np.cumsum(kept) - 1, -1)))

    def _remember(self, stream: Ints, values: Ints, importance: Floats, weight: Floats, items: int = _LEAST, rows: int = _SPAN) -> None:
        """Begin anew with these, and with room for as many more, or for the most that there can be."""
        most = self.problem.n_streams * self.most
        room = 2 * len(stream) if 4 * len(stream) < most else max(most, len(stream)) + 2 * rows
        self._open(values.shape[1], max(items, room), rows)
        none = np.zeros(len(stream), np.int64)
        self.filled = int(fill_past(self.arrays, self.memory, self.past, Rows(*_plain(stream, none, none, values, importance, weight))))

    def _grow(self, rows: int) -> None:
        """Have room for an instant of so many rows."""
        entries = self._entries()
        self._remember(*entries, items=len(entries[0]) + 2 * rows, rows=max(_SPAN, 2 * rows))

    def _open(self, width: int, items: int, rows: int) -> None:
        self.arrays, self.memory, self.past = open_past(self.problem, width, items, rows)
        self.memory.whole = bool(self.whole)
        self.filled = 0


def _plain(*columns: NDArray[Any]) -> list[Any]:
    """Columns of the kind that compiled code is made for."""
    return [np.require(column, requirements=("C", "W")) for column in columns]


def drawn(stream: Ints, values: Ints, importance: Floats, weight: Floats, most: int, seed: int) -> tuple[Bools, Floats]:
    """Which entries stay, and what they weigh then: of a stream with more than `most`, about half of that.

    >>> one = np.zeros(1000, np.int64)
    >>> kept, weight = drawn(one, np.arange(1000)[:, None], np.ones(1000), np.ones(1000), 100, 0)
    >>> int(kept.sum()), round(float(weight[kept].sum()))
    (50, 1000)
    """
    kept, weight = np.ones(len(stream), dtype=bool), weight.copy()
    for one in np.flatnonzero(np.bincount(stream) > most):
        mine = np.flatnonzero(stream == one)
        mine = mine[np.lexsort((as_bits(importance[mine]), *values[mine].T))]  # in an order that does not depend on how they came
        threshold = _threshold(weight[mine], most // 2)
        chance = np.minimum(1.0, weight[mine] / threshold)
        # Systematic: one start, then steps of one along the sum of all chances.
        begin = np.random.default_rng([seed, int(one)]).random()
        along = np.floor(np.cumsum(chance) + begin)
        kept[mine] = np.diff(along, prepend=np.floor(begin)) > 0
        weight[mine] = np.maximum(weight[mine], threshold)
    return kept, weight


def _threshold(weight: Floats, wanted: int) -> float:
    """Where chances min(1, weight / threshold) add up to as many as are wanted."""
    heavy = np.sort(weight)[::-1]
    rest = np.cumsum(heavy[::-1])[::-1]
    threshold = rest[:wanted] / np.arange(wanted, 0, -1)
    enough = np.flatnonzero(heavy[:wanted] <= threshold)
    return float(threshold[enough[0]]) if len(enough) else float(heavy[wanted - 1])
