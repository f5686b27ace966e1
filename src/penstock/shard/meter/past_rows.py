"""The past: rows of earlier batches, so that what late rows have missed is counted after their partners have expired.

A row that breaks the promise of its lateness may find that tuples which it should have met are gone: the exact result does not ask for
the order of arrival. Every batch is therefore kept as it came for some time, the oldest rows forgotten first. It is looked at only when
a row comes that is older than the horizon, for a tuple that has expired can only be missed by such a row:

    horizon = 20, window 10        E expires at 15, so it is gone      a row of time 12 should have met it
                                                                       one of time 20 or later never

Of what is forgotten, the times and the numbers of rows are kept, by stretches, which bounds what even later rows can have missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.core.batch import Batch
from penstock.core.facts import Facts
from penstock.core.problem import Problem
from penstock.core.trace import LIMIT, Floats, Ints
from penstock.core.value import USER
from penstock.core.window import COUNTING, NEVER, expiries
from penstock.engine.binding import combinations
from penstock.engine.contract import PIECE
from penstock.engine.fact_index import FactIndex
from penstock.engine.fact_ties import Ties, facts_of
from penstock.shard.facts.weights import weights_of

COLUMNS = ("row", "stream", "time", "key", "importance", "values", "lifetime")
_SOME = COLUMNS[4:]  # that a batch may have
_STRETCHES = 256  # of forgotten rows
_AT_ONCE = 10_000  # times that are compared with all stretches


@dataclass
class Missed:
    """What late rows have missed by expiry: outputs as an engine lists them, their values, in pieces; the most that may be unknown."""

    pieces: Iterable[tuple[Ints, Floats]] = ()
    unknown: Floats = field(default_factory=lambda: np.zeros(2))  # outputs and value


class Past:
    """The rows of the last batches.

    >>> past = Past(Problem.of(("R", "S"), window=10, memory=4))
    >>> past.add(Batch(*(np.array(column) for column in ([0, 1, 0], [5, 25, 26], [7, 7, 8]))), 0)
    >>> late = Batch(np.array([1]), np.array([12]), np.array([7]))
    >>> [outputs.tolist() for outputs, _ in past.missed(late, 3, horizon=25, held=None).pieces]  # the row of time 5 expired at 15
    [[[12, 0, 3]]]
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.wanted = not any(window.kind in COUNTING for window in problem.windows)  # where late rows are refused
        self.parts: list[dict[str, Any]] = []
        self.passed = -LIMIT  # the largest horizon so far: what had ended by then has expired
        self.forgotten = -LIMIT  # the last expiry of a row that is forgotten
        self.facts: Sequence[Facts] = ()  # that link the streams, where relations do
        self.stretches = np.empty((0, 3 + problem.n_streams))  # of forgotten rows: first and last time, largest importance, rows by stream

    def __len__(self) -> int:
        return sum(len(part["row"]) for part in self.parts)

    @property
    def n_bytes(self) -> int:
        """What they take."""
        return sum(column.nbytes for part in self.parts for column in part.values()) + self.stretches.nbytes

    def add(self, batch: Batch, first_row: int) -> None:
        """Take in the rows of a batch that has been played."""
        if not self.wanted or not len(batch):
            return
        columns = {"stream": batch.stream.astype(np.int8), "time": batch.time, "key": batch.key}
        columns |= {name: column for name in _SOME if (column := getattr(batch, name)) is not None}
        self.parts.append({"row": first_row + np.arange(len(batch)), **columns})

    def keep(self, room: int) -> None:
        """Forget all but so many rows, the oldest first."""
        excess = len(self) - max(0, room)
        while excess > 0:
            part = self.parts.pop(0)
            gone = {name: column[:excess] for name, column in part.items()}
            self._forget(gone)
            if len(part["row"]) > excess:
                self.parts.insert(0, {name: column[excess:].copy() for name, column in part.items()})
            excess -= len(gone["row"])

    def missed(self, batch: Batch, first_row: int, horizon: int, held: Any) -> Missed:
        """What the rows of a batch have missed by expiry; `held()` gives the rows that had not expired when the batch began."""
        self.passed = max(self.passed, horizon)
        late = np.flatnonzero((batch.time < self.passed) & (batch.key >= 0)) if self.wanted and len(batch) else np.empty(0, np.int64)
        if not len(late):
            return Missed()
        now: dict[str, Any] = {
            "row": first_row + late,
            "stream": batch.stream[late].astype(np.int8),
            "time": batch.time[late],
            "key": batch.key[late],
        }
        now |= {name: column[late] for name in _SOME if (column := getattr(batch, name)) is not None}
        before = self._candidates(now)
        columns: dict[str, Any] = {name: np.concatenate([before[name], now[name]]) for name in before}
        columns["limit"] = self._ends(columns)
        leaves = self._leaving(columns)
        expired = leaves <= horizon
        if self.passed > horizon:  # another lateness held then
            old = np.arange(len(columns["row"])) < len(before["row"])
            expired |= old & (leaves <= self.passed) & ~np.isin(columns["row"], held())
        beyond = now["time"] < self.forgotten
        return Missed(self._pieces(columns, expired, len(before["row"])), self._unknown(columns, now, beyond))

    def rows(self) -> Ints:
        """The rows that are kept."""
        return np.concatenate([np.empty(0, np.int64), *(part["row"] for part in self.parts)])

    def _candidates(self, now: dict[str, Any]) -> dict[str, Any]:
        """The rows that are kept, as far as they may match."""
        chosen = []
        keys = np.unique(now["key"])
        for part in self.parts:
            fits = (part["time"] < self.passed) & (part["key"] >= 0)
            if self.problem.predicate.is_equality:
                fits &= np.isin(part["key"], keys)
            chosen.append({name: column[fits] for name, column in part.items()})
        return {name: np.concatenate([column[:0], *(part[name] for part in chosen)]) for name, column in now.items()}

    def _pieces(self, columns: dict[str, Any], expired: Any, first: int) -> Iterator[tuple[Ints, Floats]]:
        """The outputs that the rows from place `first` on have missed: a hot key makes more than there is room for at once."""
        for found, facts in self._combined(columns, expired, np.arange(first, len(columns["row"]))):
            if len(found):
                value = self._values(columns, found) * weights_of(self.facts, facts)
                yield np.column_stack([columns["time"][found].max(axis=1), columns["row"][found], facts]), value

    def _combined(self, columns: dict[str, Any], expired: Any, late: Ints) -> Iterator[tuple[Ints, Ints]]:
        """The combinations that a late row ends and that hold a tuple which had expired before it: places, by stream; and their facts."""
        if self.problem.predicate.is_equality and self.problem.n_streams == 2:
            yield from ((pairs, pairs[:, :0]) for pairs in _pairs(columns, expired, late))
            return
        wide = columns | {"values": columns.get("values", columns["key"][:, None])}
        ties = Ties(FactIndex(self.problem, self.facts), wide) if self.problem.through else None
        for pivot in late.tolist():
            others = np.arange(pivot)
            if self.problem.predicate.is_equality:
                others = others[columns["key"][:pivot] == columns["key"][pivot]]
            limit = columns["limit"]
            made = (
                combinations(self.problem, wide, limit, pivot, others) if ties is None else ties.combinations(limit, pivot, others, PIECE)
            )
            for found in made:
                members, facts = found[:, : self.problem.n_streams], found[:, self.problem.n_streams :]
                if ties is not None:
                    facts, _ = facts_of(ties.index, found)
                gone = expired[members] & ((members < late[0]) | (columns["time"][members] < columns["time"][pivot]))
                yield members[gone.any(axis=1)], facts[gone.any(axis=1)]

    def _values(self, columns: dict[str, Any], found: Ints) -> Floats:
        objective = self.problem.objective
        if self.problem.steady or "importance" not in columns:
            return np.ones(len(found)) * objective.of([1.0] * self.problem.n_streams)
        return np.array([objective.of(members) for members in columns["importance"][found].tolist()], dtype=np.float64)

    def _unknown(self, columns: dict[str, Any], now: dict[str, Any], beyond: Any) -> Floats:
        """What rows that came later than anything that is kept can have missed at most: as many as are near enough in time."""
        if not beyond.any():
            return np.zeros(2)
        streams, stretches = self.problem.n_streams, self.stretches
        lengths = self._stays
        kept = np.bincount(columns["stream"], minlength=streams) * (streams > 2)  # of two, the other is a forgotten one
        most = 0.0
        for stream in range(streams):
            others = [other for other in range(streams) if other != stream]
            times, rows = np.unique(now["time"][beyond & (now["stream"] == stream)], return_counts=True)
            for begin in range(0, len(times), _AT_ONCE):
                time = times[begin : begin + _AT_ONCE, None]
                near = (stretches[:, 0] < time + lengths[stream]) & (stretches[:, 1] > time - lengths[others].max())
                there = near.astype(np.float64) @ stretches[:, 3:]
                some = there[:, others].sum(axis=1) > 0
                most += float((np.prod((kept + there)[:, others], axis=1) * some * rows[begin : begin + _AT_ONCE]).sum())
        dearest = max(float(stretches[:, 2].max(initial=1.0)), float(columns.get("importance", np.ones(1)).max(initial=1.0)))
        steady = self.problem.steady
        each = 1.0 if steady else np.inf if self.problem.objective.code == USER else self.problem.objective.of([dearest] * streams)
        return np.array([most, most * each if most else 0.0])

    def _ends(self, columns: dict[str, Any]) -> Ints:
        windows = self.problem.windows
        instantly = self.problem.switch("varying-window") == "instant"
        none = np.zeros(len(windows), np.int64)
        return expiries(windows, columns["stream"], columns["time"], columns.get("lifetime"), none, instantly=instantly)

    def _leaving(self, columns: dict[str, Any]) -> Ints:
        """When tuples leave: as their windows end, or as the last fact ends that can link them (docs/decisions/0031)."""
        index = FactIndex(self.problem, self.facts) if self.problem.through else None
        if index is None or not index.filters_memory:
            return np.asarray(columns["limit"])
        return np.minimum(columns["limit"], index.chances(columns["stream"].astype(np.int64), columns["time"], columns["values"])[0])

    @property
    def _stays(self) -> Floats:
        """How long a tuple of each stream can stay in its window."""
        return np.array([np.inf if stay is None else float(stay) for stay in self.problem.stays])

    def _forget(self, gone: dict[str, Any]) -> None:
        time = gone["time"]
        self.forgotten = max(self.forgotten, int(self._ends(gone)[gone["key"] >= 0].max(initial=-LIMIT)))
        worth = float(gone["importance"].max()) if "importance" in gone else 1.0
        counts = np.bincount(gone["stream"], minlength=self.problem.n_streams)
        self.stretches = np.concatenate([self.stretches, [[time.min(), time.max(), worth, *counts]]])
        if len(self.stretches) > _STRETCHES:
            pairs = [self.stretches[at : at + 2] for at in range(0, len(self.stretches), 2)]
            self.stretches = np.stack(
                [np.concatenate([[one[:, 0].min(), one[:, 1].max(), one[:, 2].max()], one[:, 3:].sum(axis=0)]) for one in pairs]
            )

    def forget_before(self, rows: int, seen: int) -> None:
        """Go on where nobody has kept anything: so many rows have come, up to this time."""
        if self.wanted and rows:
            self.forgotten = int(min(float(NEVER), seen + self._stays.max()))
            self.stretches = np.array([[-float(NEVER), seen, np.inf, *([rows] * self.problem.n_streams)]])

    def snapshot(self) -> dict[str, Any]:
        """The state, as arrays by name."""
        names = [name for name in COLUMNS if self.parts and name in self.parts[0]]
        state = {name: np.concatenate([part[name] for part in self.parts]) for name in names}
        return state | {"passed": np.array(self.passed), "forgotten": np.array(self.forgotten), "stretches": self.stretches}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a snapshot."""
        self.passed, self.forgotten, self.stretches = int(state["passed"]), int(state["forgotten"]), state["stretches"]
        self.parts = [{name: state[name] for name in COLUMNS if name in state}] if "row" in state else []


def _pairs(columns: dict[str, Any], expired: Any, late: Ints) -> Iterator[Ints]:
    """The same for two streams with equal keys: late rows by late rows, as many as have about `PIECE` candidates."""
    gone = np.flatnonzero(expired)
    gone = gone[np.argsort(columns["key"][gone], kind="stable")]
    begin, end = (np.searchsorted(columns["key"][gone], columns["key"][late], side=side) for side in ("left", "right"))
    count = end - begin
    cuts = np.flatnonzero(np.diff(np.cumsum(count) // PIECE)) + 1
    for some, first, number in zip(*(np.split(column, cuts) for column in (late, begin, count)), strict=True):
        pivot = np.repeat(some, number)
        other = gone[np.repeat(first - np.cumsum(number) + number, number) + np.arange(number.sum())]
        yield _fitting(columns, pivot, other, late[0])


def _fitting(columns: dict[str, Any], pivot: Ints, other: Ints, first: int) -> Ints:
    """Of these pairs of a late row and a tuple that had expired, those that belong to the result; late rows begin at place `first`."""
    time, limit, stream = columns["time"], columns["limit"], columns["stream"]
    fits = (stream[pivot] != stream[other]) & (np.maximum(time[pivot], time[other]) < np.minimum(limit[pivot], limit[other]))
    fits &= (other < first) | ((other < pivot) & (time[other] < time[pivot]))
    pair = np.column_stack([pivot[fits], other[fits]])
    return np.where((stream[pair[:, 0]] == 0)[:, None], pair, pair[:, ::-1]) if len(pair) else pair
