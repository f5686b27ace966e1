"""The same steps, one instant at a time in NumPy, for what cannot be compiled: a user's policy, predicate or value, any theta join.

It rescans memory at every instant, as the papers do: O(memory) per instant where the compiled engine needs O(log memory).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.batch import Batch, OnProgress, check_order
from penstock.core.budget import OVERHEAD
from penstock.core.errors import PenstockError
from penstock.core.problem import Problem
from penstock.core.rounding import mean as mean_of
from penstock.core.rounding import raised
from penstock.core.state_encoding import pack, policy_state, unpack
from penstock.core.trace import Floats, Ints
from penstock.core.window import COUNTING, DEAD, NEVER, expiries, followers
from penstock.engine.binding import Columns, combinations
from penstock.engine.contract import (
    LOAD,
    PIECE,
    TUPLE,
    Chosen,
    Engine,
    Keep,
    Played,
    PolicyContract,
    Renumber,
    Statistics,
    Totals,
)  # fmt: skip
from penstock.engine.pickled import is_pickle, take_over, unpickled
from penstock.engine.view import View

_GIVEN = ("problem", "statistics", "keep", "policy")
"""What an engine is made with, and its snapshot does not hold."""


class StepwiseEngine:
    """Plays batches instant by instant; see `penstock.engine.contract`."""

    def __init__(self, problem: Problem, policy: PolicyContract, statistics: Statistics, keep: Keep) -> None:
        self.problem, self.policy, self.statistics, self.keep = problem, policy, statistics, keep
        n = problem.n_streams
        self.totals = Totals()
        self.memory: Columns | None = None
        self.now, self.origin, self.instant, self.importance_seen = -NEVER, 0, 0, 0.0
        self.importance_rest = 0.0  # what that sum cannot hold
        self.seen = np.full(n, -NEVER, dtype=np.int64)
        self.arrivals = np.zeros(n, dtype=np.int64)

    @property
    def is_compiled(self) -> bool:
        """No."""
        return False

    @property
    def is_repeatable(self) -> bool:
        """A user's policy may draw from what nobody keeps."""
        return False

    @property
    def held(self) -> Ints:
        """The tuples in memory, by stream."""
        return np.bincount(self.tuples()["stream"].astype(np.int64), minlength=self.problem.n_streams)

    @property
    def n_bytes(self) -> int:
        """What the columns of the memory take."""
        return 0 if self.memory is None else sum(column.nbytes for column in self.memory.values())

    def keys(self) -> Ints:
        """The keys of the tuples in memory."""
        return np.empty(0, np.int64) if self.memory is None else self.memory["key"]

    def values(self) -> Floats:
        """What is compared, a row per tuple."""
        return np.empty((0, 0)) if self.memory is None else self.memory["values"][np.argsort(self.memory["row"])]

    def check_keepable(self) -> None:
        """Refuse a policy whose state is not data."""
        policy_state(self.policy)

    def count_late(self, rows: int) -> None:
        """Count rows that came too late."""
        self.totals = replace(self.totals, n_late=self.totals.n_late + rows)

    def dismiss(self, rows: Ints) -> None:
        """Let go of these rows."""
        if self.memory is not None:
            self.memory = _pick(self.memory, ~np.isin(self.memory["row"], rows))
            self.totals = replace(self.totals, **self._held(self.memory))

    def adopt(self, other: Engine) -> None:
        """Begin with the tuples of another stepwise engine; each weighs as much as in this one's budget, a tuple."""
        assert isinstance(other, StepwiseEngine), "what this engine cannot have compiled, nobody can"
        for name in vars(self).keys() - {*_GIVEN, "totals"}:
            setattr(self, name, _copied(getattr(other, name)))
        if self.memory is not None and not self.problem.budget.in_bytes:
            self.memory["weight"] = np.ones(len(self.memory["row"]), np.int64)
        held = {} if self.memory is None else self._held(self.memory)
        self.totals = replace(self.totals, instant=other.totals.instant, next_row=other.totals.next_row, **held)

    def merge(self, others: Sequence[Engine], chosen: Chosen, renumber: Renumber, *, next_row: int, counts: bool, statistics: bool) -> None:
        """Refused: what a user's code has learned is its own affair."""
        raise PenstockError("engines must be compiled to be merged; use a new checkpoint")

    def number_from(self, row: int) -> None:
        """Give rows numbers from this one on."""
        self.totals = replace(self.totals, next_row=row)

    def play(self, batch: Batch, progress: OnProgress | None = None) -> Played:
        """Play the next rows."""
        return Played.join(list(self.pieces(batch, progress)), self.problem.n_streams)

    def pieces(self, batch: Batch, progress: OnProgress | None = None, most: int = PIECE) -> Iterator[Played]:
        """Play the next rows, piece by piece."""
        if not len(batch):
            yield Played.join([], self.problem.n_streams)
            return
        check_order(self.problem, batch.time, self.now)
        if self.totals.n_input == 0:
            self.origin = int(batch.time[0])
        columns = self._columns(batch)
        if self.memory is None:
            self.memory = {name: column[:0] for name, column in columns.items()}
        starts = np.concatenate([[0], np.flatnonzero(np.diff(batch.time)) + 1, [len(batch)]])
        parts: list[Played] = []
        held = 0
        for begin, end in itertools.pairwise(starts):
            for part in self._instant({name: column[begin:end] for name, column in columns.items()}, most):
                if held + len(part.outputs) > most and parts:
                    yield Played.join(parts, self.problem.n_streams)
                    parts, held = [], 0
                parts.append(part)
                held += len(part.outputs)
            if progress:
                progress(int(end - begin))
        self.totals = replace(self.totals, next_row=self.totals.next_row + len(batch))
        yield Played.join(parts, self.problem.n_streams)

    def advance(self, seen: Ints) -> Ints:
        """Take note of how far the streams have come elsewhere."""
        self.seen = np.maximum(self.seen, seen)
        self.now = max(self.now, int(self.seen.max()))
        if self.memory is None:
            return np.empty(0, np.int64)
        gone = self.memory["expiry"] <= self._reached(self.memory)
        expired = self.memory["row"][gone]
        self.memory = _pick(self.memory, ~gone)
        self.totals = replace(self.totals, n_expired=self.totals.n_expired + len(expired), **self._held(self.memory))
        return expired

    def trim(self) -> Ints:
        """Shed down to the budget: all leave in the order of their scores now."""
        if self.memory is None or not len(self.memory["time"]):
            return np.empty(0, np.int64)
        self.instant += 1  # nothing arrives in it
        view = self._view(self.memory, self.memory["produced"], self.totals.n_input)
        stay = np.ones(len(view), dtype=bool)
        sheds = self._shed(self.memory, self._order(view), stay, view.budget_step)
        self.memory = _pick(self.memory, stay)
        self.totals = replace(self.totals, n_shed=self.totals.n_shed + len(sheds), instant=self.instant, **self._held(self.memory))
        return sheds

    def retained(self) -> Ints:
        """The rows in memory."""
        return np.empty(0, np.int64) if self.memory is None else np.sort(self.memory["row"])

    def worths(self) -> None:
        """Nothing: scores of a policy have no unit."""

    def worth_unit(self) -> str:
        """What shares go by instead."""
        return LOAD

    def tuples(self) -> dict[str, Any]:
        """The tuples in memory as columns."""
        if self.memory is None:
            return {name: np.empty(0, np.float64 if name == "importance" else np.int64) for name in TUPLE}
        order = np.argsort(self.memory["row"])
        found = {name: self.memory[name][order] for name in TUPLE}
        by_key = self._kinds("rows_per_key")[found["stream"]]
        return found | {"expiry": found["expiry"] - np.where(by_key, self.memory["followers"][order], 0)}

    def snapshot(self) -> bytes:
        """The state between two batches, as data."""
        mine = {name: value for name, value in vars(self).items() if name not in _GIVEN} | {"totals": vars(self.totals)}
        state = {"engine": mine, "statistics": self.statistics.snapshot(), "policy": policy_state(self.policy)}
        return pack(state)

    def restore(self, state: bytes, *, trust: bool = False) -> None:
        """Go on from a snapshot. Those of 0.1.0 are pickles, which run what is in them: they need `trust`."""
        if is_pickle(state):
            mine, statistics, policy = unpickled(state, trust)
            vars(self).update(mine)
            self.statistics.restore(statistics)
            take_over(self.policy, policy)
            return
        try:
            found = unpack(state)
            mine, statistics, policy = (dict(found[name]) for name in ("engine", "statistics", "policy"))
            totals = Totals(**mine.pop("totals"))
        except (PenstockError, KeyError, TypeError, ValueError):
            raise PenstockError(f"state must be a snapshot of this engine, got {len(state)} bytes that are none") from None
        known = set(vars(self)) - set(_GIVEN)
        vars(self).update({name: value for name, value in mine.items() if name in known} | {"totals": totals})
        self.statistics.restore(statistics)
        self.policy.restore(policy)

    def freeze(self) -> dict[str, Any]:
        """The state as it is."""
        return {"snapshot": self.snapshot()}

    def thaw(self, state: dict[str, Any]) -> None:
        """Go on from what `freeze` gave."""
        self.restore(state["snapshot"])

    def _columns(self, batch: Batch) -> Columns:
        problem, size = self.problem, len(batch)
        expiry = expiries(
            problem.windows, batch.stream, batch.time, batch.lifetime, self.arrivals,
            instantly=problem.switch("varying-window") == "instant",
        )  # fmt: skip
        if problem.counts_keys:  # without a key there is no window
            expiry = np.where(self._kinds("rows_per_key")[batch.stream] & (batch.key < 0), DEAD, expiry)
        row = np.arange(size) + self.totals.next_row
        return {
            "stream": batch.stream,
            "time": batch.time,
            "row": row,
            "expiry": expiry,
            "key": np.where((batch.key < 0) | (expiry == DEAD), -1 - row, batch.key),
            "importance": np.ones(size) if batch.importance is None else batch.importance,
            "weight": batch.size + OVERHEAD if problem.budget.in_bytes and batch.size is not None else np.ones(size, np.int64),
            "price": np.zeros(size) if batch.price is None else batch.price,
            "values": batch.key[:, None] if batch.values is None else batch.values,
            "rates": np.zeros((size, problem.n_streams)),
            "arrived": np.zeros(size, np.int64),
            "produced": np.zeros(size, np.int64),
            "produced_value": np.zeros(size),
            "memo": np.zeros(size),
            "followers": np.zeros(size, np.int64),
        }

    def _instant(self, new: Columns, most: int) -> Iterator[Played]:
        """Play an instant; its outputs come before the rest of what happens in it."""
        problem, n = self.problem, self.problem.n_streams
        assert self.memory is not None
        time = int(new["time"][0])
        self.now, self.instant = max(self.now, time), self.instant + 1
        np.add.at(self.arrivals, new["stream"], 1)
        np.maximum.at(self.seen, new["stream"], time)
        for importance in new["importance"].tolist():
            self.importance_seen, self.importance_rest = raised(self.importance_seen, self.importance_rest, importance)
        new["arrived"] = np.full(len(new["time"]), self.instant)
        if problem.counts_keys:
            self._follow(new)
        counting = self._kinds(*COUNTING)
        late = int(np.count_nonzero((new["expiry"] <= self._horizon()) & ~counting[new["stream"]]))

        gone = self.memory["expiry"] <= self._reached(self.memory)
        expired = self.memory["row"][gone]
        memory = _pick(self.memory, ~gone)

        candidates = {name: np.concatenate([memory[name], new[name]]) for name in memory}
        before = np.arange(len(memory["time"]))
        arrivals = np.arange(len(memory["time"]), len(candidates["time"]))
        limit = np.where(counting[candidates["stream"]], NEVER, candidates["expiry"])
        produced = candidates["produced"].copy()
        seen = self.totals.n_input + len(new["time"])
        if problem.model == "buffered":
            yield from self._join(candidates, limit, before, arrivals, most)
            view = self._view(candidates, produced, seen, self._outputs_of(candidates, limit, before, arrivals))
        else:
            view = self._view(candidates, produced, seen)
        self.statistics.arrive(view)
        order = self._order(view)

        stay = view.staying.copy()
        if problem.model == "buffered":
            view.done = self._done(candidates, stay)
        stay &= ~view.done
        at_once = candidates["row"][~view.staying]
        expired_at = np.repeat([self.instant - 1, self.instant], [len(expired), len(at_once)])
        expired = np.concatenate([expired, at_once])
        sheds = self._shed(candidates, order, stay, view.budget_step, self.policy.due(view))
        self.policy.observe(view, order[stay[order]])
        if problem.model == "inplace":
            before = before[stay[before]]
            yield from self._join(candidates, limit, before, arrivals, most)
            view.now_has(self._outputs_of(candidates, limit, before, arrivals))
            view.done = self._done(candidates, stay)
        self.policy.after(view)
        stay &= ~view.done
        done = candidates["row"][view.done]
        self.memory = _pick(candidates, stay)

        held = np.bincount(self.memory["stream"], minlength=n)
        self.totals = replace(
            self.totals,
            n_input=seen,
            n_shed=self.totals.n_shed + len(sheds),
            n_expired=self.totals.n_expired + len(expired),
            n_late=self.totals.n_late + late,
            n_done=self.totals.n_done + len(done),
            peak_memory=max(self.totals.peak_memory, int(self.memory["weight"].sum())),
            instant=self.instant,
            **self._held(self.memory),
        )
        rows = self.memory["row"]
        yield Played(
            np.empty((0, n + 1), np.int64),
            sheds if self.keep.sheds else sheds[:0],
            expired if self.keep.expired else expired[:0],
            np.stack([np.full(len(rows), self.instant), rows], axis=1) if self.keep.retained else np.empty((0, 2), np.int64),
            np.array([[time, *held]]) if self.keep.series else np.empty((0, n + 1), np.int64),
            np.full(len(sheds) if self.keep.sheds else 0, self.instant),
            expired_at if self.keep.expired else expired_at[:0],
            done if self.keep.done else done[:0],
            np.full(len(done) if self.keep.done else 0, self.instant),
        )

    def _done(self, candidates: Columns, stay: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Those that stay and have been in as many outputs as was promised: they leave, and make room."""
        return stay & (candidates["produced"] >= self.problem.most_outputs[candidates["stream"]])

    @staticmethod
    def _held(memory: Columns) -> dict[str, int]:
        return {"retained": len(memory["time"]), "used": int(memory["weight"].sum())}

    def _view(self, candidates: Columns, produced: Ints, seen: int, make_outputs: Callable[[], Ints] | None = None) -> View:
        clock = np.where(self._kinds("rows"), self.arrivals, self.now)
        mean = mean_of(self.importance_seen, self.importance_rest, float(seen))
        none = np.empty((0, self.problem.n_streams + 1), np.int64)
        return View(
            self.problem, self.statistics, candidates, self.now, clock, self.instant, mean, self.origin, produced, make_outputs or none.copy
        )  # fmt: skip

    def _order(self, view: View) -> Ints:
        """The candidates, the next to leave first."""
        scores = np.asarray(self.policy.score(view), dtype=np.float64)
        if scores.shape != (len(view),) or np.isnan(scores).any():
            raise PenstockError(f"policy {self.policy.name!r} must return one number per candidate ({len(view)}), got {scores!r}")
        return np.lexsort((view.row, view.stream, view.time, *reversed(self.policy.ties(view)), scores))

    def _kinds(self, *kinds: str) -> NDArray[np.bool_]:
        """Which streams have windows of these kinds."""
        return np.array([window.kind in kinds for window in self.problem.windows])

    def _reached(self, columns: Columns) -> Ints:
        """What has passed by the clock of each tuple's window: time, rows of its stream, or rows of its stream and key after it."""
        by_stream = np.where(self._kinds("rows"), self.arrivals, self._horizon())[columns["stream"]]
        return np.where(self._kinds("rows_per_key")[columns["stream"]], columns["followers"], by_stream) if len(by_stream) else by_stream

    def _follow(self, new: Columns) -> None:
        """Count the arrivals of an instant as followers of those that came before, in memory and in the instant itself."""
        assert self.memory is not None
        arrived = new["stream"], new["key"]
        self.memory["followers"] = self.memory["followers"] + followers(self.memory["stream"], self.memory["key"], *arrived)
        same = (arrived[0][:, None] == arrived[0]) & (arrived[1][:, None] == arrived[1])
        new["followers"] = np.triu(same, 1).sum(axis=1)

    def _horizon(self) -> int:
        if self.problem.clock == "global":
            return int(self.now)
        return -NEVER if (self.seen == -NEVER).any() else int((self.seen - self.problem.lateness).min())

    def _join(self, columns: Columns, limit: Ints, before: Ints, arrivals: Ints, most: int) -> Iterator[Played]:
        """Make every combination with at least one arrival, each at its last arrival, and count it."""
        problem = self.problem
        count, total = 0, 0.0
        for members, latest in self._combinations(columns, limit, before, arrivals, most):
            values = np.array([problem.objective.of(importances) for importances in columns["importance"][members].tolist()])
            np.add.at(columns["produced"], members, 1)
            np.add.at(columns["produced_value"], members, values[:, None])
            count += int(np.count_nonzero(latest >= problem.start))
            for value in values[latest >= problem.start].tolist():  # one by one: the sum must not depend on how it is grouped
                total += value
            if self.keep.outputs:
                outputs = np.column_stack([latest, columns["row"][members]])
                yield replace(Played.join([], problem.n_streams), outputs=outputs)
        self.totals = replace(self.totals, n_output=self.totals.n_output + count, value=self.totals.value + total)

    def _combinations(self, columns: Columns, limit: Ints, before: Ints, arrivals: Ints, most: int) -> Iterator[tuple[Ints, Ints]]:
        """The members of the outputs of an instant, up to so many at a time, and their latest times."""
        for number, pivot in enumerate(arrivals):
            others = np.concatenate([before, arrivals[:number]])
            for members in combinations(self.problem, columns, limit, int(pivot), others, most):
                yield members, columns["time"][members].max(axis=1)

    def _outputs_of(self, columns: Columns, limit: Ints, before: Ints, arrivals: Ints) -> Callable[[], Ints]:
        """What makes the outputs of an instant once more."""

        def make() -> Ints:
            found = self._combinations(columns, limit, before, arrivals, PIECE)
            parts = [np.column_stack([latest, columns["row"][members]]) for members, latest in found]
            return np.concatenate([np.empty((0, self.problem.n_streams + 1), np.int64), *parts])

        return make

    def _shed(self, columns: Columns, order: Ints, stay: NDArray[np.bool_], step: int, due: NDArray[np.bool_] | None = None) -> Ints:
        """Take those that are due, then the lowest ranks, out of `stay` until every pool is within its budget; their rows, in order."""
        budget = self.problem.budget
        sheds: list[int] = []
        due = stay & False if due is None else stay & due
        order = order[np.argsort(~due[order], kind="stable")]
        for which, cap in enumerate(budget.caps[step]):
            mine = order[stay[order] & (budget.pool[columns["stream"][order]] == which)]
            weight = columns["weight"][mine]
            left = weight.sum() - np.cumsum(weight)
            excess = max(0 if weight.sum() <= cap else int(np.argmax(left <= cap)) + 1, int(due[mine].sum()))
            stay[mine[:excess]] = False
            sheds += columns["row"][mine[:excess]].tolist()
        return np.array(sheds, dtype=np.int64)


def _pick(columns: Columns, chosen: NDArray[np.bool_]) -> Columns:
    return {name: column[chosen] for name, column in columns.items()}


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copied(one) for name, one in value.items()}
    return value.copy() if isinstance(value, np.ndarray) else value
