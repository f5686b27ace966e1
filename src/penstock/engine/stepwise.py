"""The same steps, one instant at a time in NumPy, for what cannot be compiled: a user's policy, predicate or value, any theta join.

It rescans memory at every instant, as the papers do: O(memory) per instant where the compiled engine needs O(log memory).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.batch import Batch, OnProgress, check_order
from penstock.core.errors import PenstockError
from penstock.core.facts import Facts
from penstock.core.problem import Problem
from penstock.core.rounding import mean as mean_of
from penstock.core.rounding import raised
from penstock.core.state_encoding import pack, policy_state, unpack
from penstock.core.trace import Floats, Ints
from penstock.core.window import COUNTING, NEVER
from penstock.engine.binding import Columns
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
from penstock.engine.fact_index import FactIndex, sift
from penstock.engine.fact_ties import Ties
from penstock.engine.meeting import Meeting
from penstock.engine.pickled import is_pickle, take_over, unpickled
from penstock.engine.tuple_columns import columns_of, copied, follow, leaving, pick, shed
from penstock.engine.view import View

_GIVEN = ("problem", "statistics", "keep", "policy", "facts")
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
        self.facts: FactIndex | None = None

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

    @property
    def structure_bytes(self) -> None:
        """It has no arrays of its own."""

    @property
    def n_examined(self) -> None:
        """It has no index."""

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
            self.memory = pick(self.memory, ~np.isin(self.memory["row"], rows))
            self.totals = replace(self.totals, **self._held(self.memory))

    def adopt(self, other: Engine) -> None:
        """Begin with the tuples of another stepwise engine; each weighs as much as in this one's budget, a tuple."""
        assert isinstance(other, StepwiseEngine), "what this engine cannot have compiled, nobody can"
        for name in vars(self).keys() - {*_GIVEN, "totals"}:
            setattr(self, name, copied(getattr(other, name)))
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

    def know(self, facts: Sequence[Facts]) -> None:
        """The facts from now on."""
        self.facts = FactIndex(self.problem, facts)
        if self.memory is not None and self.facts.filters_memory:
            self.memory["last_chance"], _ = self.facts.chances(*(self.memory[name] for name in ("stream", "time", "values")))

    def play(self, batch: Batch, progress: OnProgress | None = None) -> Played:
        """Play the next rows."""
        return self._joined(list(self.pieces(batch, progress)))

    def pieces(self, batch: Batch, progress: OnProgress | None = None, most: int = PIECE) -> Iterator[Played]:
        """Play the next rows, piece by piece."""
        if not len(batch):
            yield self._joined([])
            return
        check_order(self.problem, batch.time, self.now)
        columns, end, parts = columns_of(self.problem, batch, self.arrivals, self.totals.next_row), None, []
        if self.problem.through:
            columns, filtered, end = self._sifted(batch, columns)
            parts = [replace(self._joined([]), filtered=filtered)] if self.keep.filtered else []
            if progress:
                progress(len(filtered))
        if self.memory is None:
            self.memory = {name: column[:0] for name, column in columns.items() if name != "seen"}
        times = columns["time"]
        if len(times) and self.totals.n_input == self.totals.n_filtered:
            self.origin = int(times[0])
        starts = np.concatenate([[0], np.flatnonzero(np.diff(times)) + 1, [len(times)]])
        held = 0
        for begin, stop in itertools.pairwise(starts if len(times) else []):
            for part in self._instant({name: column[begin:stop] for name, column in columns.items()}, most):
                if held + len(part.outputs) > most and parts:
                    yield self._joined(parts)
                    parts, held = [], 0
                parts.append(part)
                held += len(part.outputs)
            if progress:
                progress(int(stop - begin))
        if end is not None:
            self._hear(end)
        self.totals = replace(self.totals, next_row=self.totals.next_row + len(batch))
        yield self._joined(parts)

    def _sifted(self, batch: Batch, columns: Columns) -> tuple[Columns, Ints, Ints]:
        """The rows that have facts, and what these say of them; the numbers of the others; the clocks at the end."""
        if self.facts is None:
            raise PenstockError("facts of the relations must be known before the first batch, got none: say know(facts)")
        found, totals = sift(self.facts, batch), self.totals
        filtered = columns["row"][found.filtered]
        self.totals = replace(totals, n_input=totals.n_input + len(filtered), n_filtered=totals.n_filtered + len(filtered))
        own = {"seen": found.seen, "last_chance": found.last_chance, "top_weight": found.top_weight}
        return pick(columns, found.row) | own, filtered, found.end

    def _hear(self, seen: Ints) -> None:
        """Take note of how far streams have come."""
        self.seen = np.maximum(self.seen, seen)
        self.now = max(self.now, int(self.seen.max()))

    def advance(self, seen: Ints) -> Ints:
        """Take note of how far the streams have come elsewhere."""
        self._hear(seen)
        if self.memory is None:
            return np.empty(0, np.int64)
        gone = leaving(self.memory) <= self._reached(self.memory)
        expired = self.memory["row"][gone]
        self.memory = pick(self.memory, ~gone)
        self.totals = replace(self.totals, n_expired=self.totals.n_expired + len(expired), **self._held(self.memory))
        return expired

    def trim(self) -> Ints:
        """Shed down to the budget: all leave in the order of their scores now."""
        if self.memory is None or not len(self.memory["time"]):
            return np.empty(0, np.int64)
        self.instant += 1  # nothing arrives in it
        view = self._view(self._meeting(self.memory, len(self.memory["time"])), self.memory["produced"], self.totals.n_input)
        stay = np.ones(len(view), dtype=bool)
        sheds = shed(self.problem.budget, self.memory, self._order(view), stay, view.budget_step)
        self.memory = pick(self.memory, stay)
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
        found = {name: (self.memory[name] if name != "expiry" else leaving(self.memory))[order] for name in TUPLE}
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

    def _instant(self, new: Columns, most: int) -> Iterator[Played]:
        """Play an instant; its outputs come before the rest of what happens in it."""
        problem, n = self.problem, self.problem.n_streams
        assert self.memory is not None
        time = int(new["time"][0])
        self.now, self.instant = max(self.now, time), self.instant + 1
        np.add.at(self.arrivals, new["stream"], 1)
        np.maximum.at(self.seen, new["stream"], time)
        if self.problem.through:
            self._hear(new.pop("seen")[-1])
        for importance in new["importance"].tolist():
            self.importance_seen, self.importance_rest = raised(self.importance_seen, self.importance_rest, importance)
        new["arrived"] = np.full(len(new["time"]), self.instant)
        if problem.counts_keys:
            follow(self.memory, new)
        counting = self._kinds(*COUNTING)
        late = int(np.count_nonzero((new["expiry"] <= self._horizon()) & ~counting[new["stream"]]))

        gone = leaving(self.memory) <= self._reached(self.memory)
        expired = self.memory["row"][gone]
        memory = pick(self.memory, ~gone)

        candidates = {name: np.concatenate([memory[name], new[name]]) for name in memory}
        meeting = self._meeting(candidates, len(memory["time"]))
        produced = candidates["produced"].copy()
        seen = self.totals.n_input + len(new["time"])
        if problem.model == "buffered":
            yield from self._join(meeting, most)
        view = self._view(meeting, produced, seen, made=problem.model == "buffered")
        self.statistics.arrive(view)
        order = self._order(view)

        stay = view.staying.copy()
        if problem.model == "buffered":
            view.done = self._done(candidates, stay)
        stay &= ~view.done
        at_once = candidates["row"][~view.staying]
        expired_at = np.repeat([self.instant - 1, self.instant], [len(expired), len(at_once)])
        expired = np.concatenate([expired, at_once])
        sheds = shed(self.problem.budget, candidates, order, stay, view.budget_step, self.policy.due(view))
        self.policy.observe(view, order[stay[order]])
        if problem.model == "inplace":
            meeting.before = meeting.before[stay[meeting.before]]
            yield from self._join(meeting, most)
            view.now_has(meeting.lines)
            view.done = self._done(candidates, stay)
        self.policy.after(view)
        stay &= ~view.done
        done = candidates["row"][view.done]
        self.memory = pick(candidates, stay)

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
            np.empty((0, n + 1 + len(problem.through)), np.int64),
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

    def _meeting(self, candidates: Columns, old: int) -> Meeting:
        """Candidates of which so many were there before."""
        limit = np.where(self._kinds(*COUNTING)[candidates["stream"]], NEVER, candidates["expiry"])
        ties = None if self.facts is None else Ties(self.facts, candidates)
        return Meeting(self.problem, candidates, limit, np.arange(old), np.arange(old, len(candidates["time"])), ties)

    def _view(self, meeting: Meeting, produced: Ints, seen: int, *, made: bool = False) -> View:
        clock = np.where(self._kinds("rows"), self.arrivals, self.now)
        mean = mean_of(self.importance_seen, self.importance_rest, float(seen - self.totals.n_filtered))
        return View(
            self.problem, self.statistics, meeting.columns, self.now, clock, self.instant, mean, self.origin, produced,
            meeting.lines if made else meeting.none, meeting.ties,
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

    def _horizon(self) -> int:
        if self.problem.clock == "global":
            return int(self.now)
        return -NEVER if (self.seen == -NEVER).any() else int((self.seen - self.problem.lateness).min())

    def _join(self, meeting: Meeting, most: int) -> Iterator[Played]:
        """Make the outputs of an instant, and count them."""
        count, total, columns = 0, 0.0, meeting.columns
        for made in meeting.outputs(most):
            np.add.at(columns["produced"], made.members, 1)
            np.add.at(columns["produced_value"], made.members, made.value[:, None])
            counts = made.latest >= self.problem.start
            count += int(np.count_nonzero(counts))
            for value in made.value[counts].tolist():  # one by one: the sum must not depend on how it is grouped
                total += value
            if self.keep.outputs:
                yield replace(self._joined([]), outputs=made.lines)
        self.totals = replace(self.totals, n_output=self.totals.n_output + count, value=self.totals.value + total)

    def _joined(self, parts: list[Played]) -> Played:
        return Played.join(parts, self.problem.n_streams, len(self.problem.through))
