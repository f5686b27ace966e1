"""What `learned` knows: when each key came last and how often of late, and how soon keys in each state came again.

For every ordered pair of streams a table counts, by state (engine/chance_steps.py), how long keys were in it, how many arrivals in the
second stream their counts foretold meanwhile, and how many came. All keys count, those of shed tuples too, so that what the policy sheds
does not bend what it learns; of very many keys a sample does. An epoch puts what was learned into use (learned_chances.py).

All sums are whole numbers, so that they do not depend on the order in which keys are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.core.batch import Batch
from penstock.core.errors import PenstockError
from penstock.core.problem import Problem
from penstock.core.trace import Floats, Ints
from penstock.engine.chance_steps import (
    COUNTS,
    EPOCH_ROWS,
    EPOCHS,
    FEW_KEYS,
    FIRST_EPOCH,
    FORGOTTEN,
    GAPS,
    Scale,
    keys_in,
    least_room,
)
from penstock.engine.compiled.chances import best_stays
from penstock.engine.contract import Renumber
from penstock.statistics.base import Source
from penstock.statistics.key_sample import sample_mask
from penstock.statistics.learned_chances import faded, learned, opened
from penstock.statistics.return_facts import NOT_YET, fade, observe, rehash, settle_all

UNBORN = -(1 << 62)
"""The clock before anything has come."""
_LEAST = 64  # places of a table
_AHEAD = 1 << 16  # rows that are looked at together


class Returns(Source):
    """How soon keys come again, by what is known of them.

    >>> source = Returns(Problem.of(("R", "S"), window=10, memory=4))
    >>> batch = Batch(*(np.array(c) for c in ([0, 1, 0], [0, 10, 10], [5, 5, 5])))
    >>> source.rates(batch, 0)[0].tolist()
    [[1.0, 0.0, 0.0, -1e+18], [1.5, 1.0, 10.0, 10.0], [1.5, 1.0, 10.0, 10.0]]
    """

    def __init__(self, problem: Problem, room: int | None = None) -> None:
        n = problem.n_streams
        if room is not None and room < least_room(problem):
            raise PenstockError(
                f"policy 'learned' needs {least_room(problem):,} bytes of each shard for what it learns, half of its overhead, got room "
                f"for {room:,}: give more memory or overhead, or have fewer shards, or another policy ('auto' takes one that fits)"
            )
        self.room = room or 0
        self.problem, self.scale = problem, Scale.of(problem)
        self.facts_of_key = n * (2 if problem.steady else 3)
        self.known = np.full(_LEAST, -1, dtype=np.int64)
        self.facts = np.zeros((_LEAST, self.facts_of_key + 1))  # by stream: counts, last times, mean importances; counted until
        self.filled = 0
        cells = n * n * COUNTS * GAPS * GAPS
        self.most = (1 << 62) if room is None else keys_in(problem, room)
        self.tables = np.zeros((3, cells), dtype=np.int64)  # arrivals and foretold arrivals, in parts of ONE, and ticks
        self.chances = self._best(opened(n))
        self.fresh = True
        self.means = np.zeros((n, 2))  # importances and rows, by stream
        self.clock = self.began = UNBORN
        self.kept = FEW_KEYS  # keys that there may be before some are forgotten
        self.step, self.rows, self.mask = _part(self.scale.reach, FIRST_EPOCH), 0, 0  # how long this epoch lasts, and its rows so far

    @property
    def n_bytes(self) -> int:
        """What the facts and tables take."""
        return self.known.nbytes + self.facts.nbytes + self.tables.nbytes + self.chances.nbytes

    def rates(self, batch: Batch, begin: int) -> tuple[Floats, int]:
        """By row, after its instant: the counts of its key by stream, when it came last, and with importances their means."""
        scale = self.scale
        rest = slice(begin, _end_of_instant(batch.time, min(begin + _AHEAD, len(batch))))
        when = np.maximum.accumulate(np.asarray(batch.time[rest], np.int64) >> scale.shift)
        when = np.maximum(when, self.clock)
        if self.began == UNBORN:
            self.began = int(when[0])
        if when[0] >= self.began + self.step and self.rows >= EPOCH_ROWS:
            self._renew(int(when[0]))
        size = self._until(batch.time[rest], when)
        out = np.zeros((size, self.facts_of_key))
        importance = np.ones(1) if batch.importance is None else np.asarray(batch.importance[rest], np.float64)
        stream, time, key = (np.ascontiguousarray(column[rest][:size], np.int64) for column in (batch.stream, batch.time, batch.key))
        at = np.array([0, 0, self.filled, 0])
        settings = np.array([scale.reach, scale.half_life])
        spans = np.array(scale.spans)
        while True:
            most = min(self.most, len(self.known) * 3 // 4)
            if observe(
                self.known, self.facts, stream, time, key, when[:size].copy(), importance, out, self.tables, self.means, settings, spans,
                self.mask, most, at,
            ):  # fmt: skip
                break
            self._make_room(int(when[at[0]]), int(at[2]))
            at[2] = self.filled
        self.filled = int(at[2])
        self.clock, self.rows = int(when[size - 1]), self.rows + size
        return out, begin + size

    def take_chances(self) -> Floats | None:
        """What was learned, if it has been put into use since this was last asked."""
        if not self.fresh:
            return None
        self.fresh = False
        return self.chances

    def _until(self, time: Ints, when: Ints) -> int:
        """The rows before the next epoch, which begins with an instant."""
        early = max(int(np.searchsorted(when, self.began + self.step)), EPOCH_ROWS - self.rows)
        return _end_of_instant(time, max(1, min(early, len(time))))

    def _renew(self, now: int) -> None:
        """An epoch: count what was spent in states, put what was learned into use, and forget a part of it, and keys that come no more."""
        scale = self.scale
        settings, spans = np.array([scale.reach, scale.half_life]), np.array(scale.spans)
        settle_all(self.known, self.facts, self.tables, settings, spans, self.mask, now)
        self.chances = self._best(learned(self.tables, self.problem.n_streams, scale.pace))
        self.fresh = True
        self.tables = faded(self.tables, (now - self.began) / scale.reach)
        if self.filled > self.kept:
            self._forget(now, FORGOTTEN)
            self.kept = max(FEW_KEYS, 2 * self.filled)
        self.mask = sample_mask(self.filled)
        self.began, self.rows, self.step = now, 0, min(2 * self.step, _part(scale.reach, EPOCHS))

    def _best(self, chances: Floats) -> Floats:
        """What is put into use: for two streams, the best average of each state."""
        if self.problem.n_streams > 2:
            return chances
        out = np.zeros_like(chances)
        best_stays(chances, np.array(self.scale.spans), self.scale.reach, out)
        return out

    def _forget(self, now: int, least: float) -> None:
        left = int(fade(self.known, self.facts, self.problem.n_streams, float(now), self.scale.half_life, least))
        self._resize(max(_LEAST, min(2 * left, max(left, self.most) * 4 // 3 + 2)))
        self.filled = left

    def _make_room(self, now: int, filled: int) -> None:
        """Have room for another key: a larger table, or one without the keys that came longest ago."""
        self.filled = filled
        if filled < self.most:
            self._resize(min(len(self.known) * 3 // 2, self.most * 4 // 3 + 2))
            return
        self._drop(now)
        self._resize(max(_LEAST, self.most * 4 // 3 + 2))

    def _drop(self, now: int) -> None:
        """Forget half of the keys, those that came least of late."""
        n = self.problem.n_streams
        facts = self.facts[self.known >= 0]
        age = np.maximum((now - facts[:, n : 2 * n]) / self.scale.half_life, 0.0)
        bar = float(np.median((facts[:, :n] * np.exp2(-age)).max(axis=1)))
        self._forget(now, float(np.nextafter(bar, np.inf)))

    def _resize(self, size: int) -> None:
        known, facts = self.known, self.facts
        self.known = np.full(size, -1, dtype=np.int64)
        self.facts = np.zeros((size, facts.shape[1]))
        rehash(self.known, self.facts, known, facts)

    def counted_returns(self) -> tuple[Ints, Scale]:
        """The tables, whose sums are those of several shards."""
        return self.tables, self.scale

    def keys(self) -> Ints:
        """The keys of which something is known."""
        return self.known[self.known >= 0]

    def snapshot(self) -> dict[str, Any]:
        """What is known of keys, and what was learned."""
        order = np.argsort(self.known)[len(self.known) - np.count_nonzero(self.known >= 0) :]
        return self._learned() | {"key": self.known[order], "facts": self.facts[order]}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what is known; of keys that have no room, those that came most of late."""
        facts, wanted = state["facts"], (len(state["key"]), self.facts.shape[1])
        if facts.shape != wanted or state["tables"].shape != self.tables.shape or state["chances"].shape != self.chances.shape:
            raise PenstockError(f"state must have {wanted[1]} facts for each key, got {facts.shape} for {state['key'].shape} keys")
        count = len(state["key"])
        size = max(_LEAST, min(2 * count, max(count, self.most) * 4 // 3 + 2))
        self.known, self.facts, self.filled = np.full(size, -1, dtype=np.int64), np.zeros((size, facts.shape[1])), count
        rehash(self.known, self.facts, np.asarray(state["key"], np.int64), np.asarray(facts, np.float64))
        self._take(state)
        while self.filled > self.most:
            self._drop(self.clock)

    def freeze(self) -> dict[str, Any]:
        """The same, with the table of keys as it lies in memory."""
        return self._learned() | {"known": self.known, "facts": self.facts, "filled": self.filled}

    def thaw(self, state: dict[str, Any]) -> None:
        """Go on with that table."""
        self.known, self.facts, self.filled = state["known"], state["facts"], state["filled"]
        self._take(state)

    def _learned(self) -> dict[str, Any]:
        clock = np.array([self.clock, self.began, self.step, self.rows, self.mask, self.kept, int(self.fresh)])
        return {"tables": self.tables, "means": self.means, "clock": clock, "chances": self.chances}

    def _take(self, state: dict[str, Any]) -> None:
        self.tables, self.means, self.chances = (np.array(state[name]) for name in ("tables", "means", "chances"))
        self.clock, self.began, self.step, self.rows, self.mask, self.kept, fresh = (int(v) for v in state["clock"])
        self.fresh = bool(fresh)

    def merge(self, states: Sequence[dict[str, Any]], renumber: Renumber) -> list[float]:
        """What several have learned, together. A key is in one of them, and what the others know of it is older."""
        keys = np.concatenate([renumber(of, state["key"]) for of, state in enumerate(states)])
        facts = np.concatenate([state["facts"] for state in states])
        n = self.problem.n_streams
        order = np.lexsort((facts[:, n : 2 * n].max(axis=1, initial=NOT_YET), keys))
        last = np.concatenate([keys[order][1:] != keys[order][:-1], [True]]) if len(order) else np.empty(0, bool)
        latest = max(states, key=lambda state: int(state["clock"][0]))
        out = dict(latest) | {"key": keys[order][last], "facts": facts[order][last]}
        out |= {name: np.sum([state[name] for state in states], axis=0) for name in ("tables", "means")}
        out["chances"] = self._best(learned(out["tables"], n, self.scale.pace))
        out["clock"] = np.array([*latest["clock"][:6], 1])
        self.restore(out)
        return [0.0] * len(states)


def _end_of_instant(time: Ints, end: int) -> int:
    """The next row, from `end` on, that begins an instant."""
    while 0 < end < len(time) and time[end] == time[end - 1]:
        end += 1
    return end


def _part(reach: float, parts: int) -> int:
    return max(1, int(reach) // parts)
