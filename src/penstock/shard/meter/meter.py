"""The loss meter: how many outputs the shed tuples would have made.

A shed tuple leaves a *ghost*, and so does one that left on the promise of its stream (`matches`). Memory and ghosts together are kept by a
second engine that sheds nothing, the shadow; what it makes and the real engine does not is lost. This holds for any number of streams.
While nothing has left early there is no shadow.

Ghosts have a budget of their own. Beyond it, ghosts of the heaviest keys stay and the others are sampled, by tuple (for more than two
streams by key), each *unit* kept with probability q. Only an output with a tuple in it that was a ghost when the batch began is an
estimate: all else is still there to be counted. Where keys need not be equal there are no heavy ones; and for more than two streams each
ghost is a unit then, so that an output with g of them, all seen, stands for 1 / q^g, and nothing is known of its error.

With m the losses seen of a unit, the estimate adds m / q, and its variance is estimated without bias as the sum over kept units of
(2·m·a + m²·(1/q - 1)) / q, where a sums m·(1/q - 1) over the unit's earlier batches: q may fall from batch to batch, and losses of one
unit depend on each other. What a unit that nobody has seen may have lost is bounded by what is known for certain (`_reach`), and the
interval allows for it (interval.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from penstock.core.batch import Batch
from penstock.core.budget import TUPLE_OVERHEAD
from penstock.core.facts import Facts
from penstock.core.problem import Problem
from penstock.core.trace import LIMIT, Floats, Ints
from penstock.core.value import USER
from penstock.core.window import COUNTING, NEVER
from penstock.engine.contract import Engine, Keep, Played, Totals
from penstock.engine.opening import is_stepwise
from penstock.shard.facts.weights import most_between, weights_of
from penstock.shard.meter.interval import Crowd, Reach
from penstock.shard.meter.loss import Loss, as_estimated
from penstock.shard.meter.lost_outputs import Seen, TimesInMemory
from penstock.shard.meter.past_rows import Missed, Past
from penstock.shard.meter.sample import Units, draw, heaviest, most_met, most_per_key
from penstock.shard.meter.shadow import open_shadow

_ROOM = 0.75  # of the budget that is filled after ghosts had to go
_PAST = 1 << 15  # rows of the past that are kept, beside twice as many as are held


class Meter:
    """Counts what is lost, batch by batch. Call `before` and `after` around each batch of the engine."""

    def __init__(self, problem: Problem, ghosts: int, *, wants_rows: bool = False, seed: int = 0) -> None:
        self.problem, self.ghosts, self.wants_rows, self.seed = problem, ghosts, wants_rows, seed
        self.keyed = problem.predicate.is_equality
        self.by_key = self.keyed and problem.n_streams > 2  # the unit that is sampled
        self.counting = np.array([window.kind in COUNTING for window in problem.windows])  # expiries are no times there
        self.by_ghost = not self.keyed and problem.n_streams > 2
        self.faint = np.empty(0, dtype=np.int64)  # the ghosts when a batch begins
        self.shadow: Engine | None = None
        self.q = 1.0
        self.heavy = np.empty(0, dtype=np.int64)  # keys
        self.idle = False  # the shadow has begun with this batch
        self.blind_until = -LIMIT  # the last expiry of a ghost that was let go
        self.units = Units()
        self.reach = Reach()
        self.crowd = Crowd()
        self.dearest = 0.0  # the largest importance of a ghost that was let go
        self.horizon, self.fresh = -LIMIT, 0  # when the batch began: the horizon, and the first row to come
        self.loss = Loss()  # of the last batch
        self.past = Past(problem)
        self.unkept = False  # nobody has kept the past so far
        self.total = Loss()
        self._growth = np.zeros(2)  # of the variances of the life of the query, in this batch
        self.facts: Sequence[Facts] = ()  # that link the streams, where relations do

    def know(self, facts: Sequence[Facts]) -> None:
        """The facts that link the streams from now on; to be said after `restore` and `thaw` too."""
        self.facts = self.past.facts = facts
        if self.shadow is not None:
            self.shadow.know(facts)

    def values(self, engine: Engine) -> list[Ints]:
        """What is compared of the tuples in memory, of ghosts, and of the past, a line for each by slot."""
        width = sum(len(one.links) for one in self.problem.through)
        known = [one.values() for one in (engine, self.shadow) if one is not None]
        return [np.asarray(own).reshape(-1, width) for own in (*known, *(part["values"] for part in self.past.parts))]

    def before(self, batch: Batch, engine: Engine) -> None:
        """Begin a shadow if this batch may shed something, or somebody may leave on a promise."""
        self.idle = self.shadow is None and (self.problem.has_matches or _may_shed(self.problem, engine, batch))
        if self.idle:
            self.begin(engine)
        self.horizon, self.fresh = self._horizon_of(engine), engine.totals.next_row
        if self.unkept:
            self.unkept = False
            self.past.forget_before(engine.totals.n_input, int(engine.seen.max()))
        if self.shadow is not None and (self.shadow.keep.outputs or self.q < 1.0):
            self.faint = np.setdiff1d(self.shadow.retained(), engine.retained(), assume_unique=True)

    def begin(self, engine: Engine) -> None:
        """Begin a shadow of what the engine holds."""
        self.shadow = open_shadow(self.problem, outputs=self.wants_rows)
        self.shadow.adopt(engine)
        if self.facts:
            self.shadow.know(self.facts)

    def after(self, batch: Batch, engine: Engine, before: Totals, played: Played) -> tuple[Loss, Ints, Floats]:
        """What this batch lost; with `wants_rows`, also the lost outputs that were seen, as engines list them, and what each stands for."""
        none = np.empty((0, 1 + self.problem.n_streams + len(self.problem.through)), np.int64)
        found = [(none, np.empty(0)), *self.missed(batch, engine, before, played)]
        missed, weight = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return self.loss, missed, weight

    def missed(self, batch: Batch, engine: Engine, before: Totals, played: Played) -> Iterator[tuple[Ints, Floats]]:
        """The same piece by piece: the lost outputs that were seen, and what each stands for; then `loss` is that of the batch.

        Of what the engine played, the sheds and the done must have been kept.
        """
        self.loss = Loss()
        late = self.past.missed(batch, self.fresh, self.horizon, lambda: (self.shadow or engine).retained())
        self.past.add(batch, self.fresh)
        yield from self._by_shedding(batch, engine, before, played)
        yield from self._by_expiry(late)

    def _by_expiry(self, late: Missed) -> Iterator[tuple[Ints, Floats]]:
        """What late rows have missed since their partners had expired; then `loss` has it too."""
        count, value = late.unknown.tolist()
        loss = Loss(estimated=float(count > 0), unknown=count, unknown_value=value)
        for outputs, worth in late.pieces:
            loss.add(Loss(len(outputs), float(worth.sum())))
            yield outputs, np.ones(len(outputs))
        self.loss.add(loss)
        self.total.add(loss)

    def _by_shedding(self, batch: Batch, engine: Engine, before: Totals, played: Played) -> Iterator[tuple[Ints, Floats]]:
        """What a shadow makes of the batch and the engine has not; then `loss` is that."""
        if self.idle and (engine.totals.n_shed, engine.totals.n_done) == (before.n_shed, before.n_done):
            self.shadow = None  # it need not have begun
        shadow = self.shadow
        if shadow is None:
            return
        if not shadow.keep.outputs and self.q == 1.0:
            start = shadow.totals
            shadow.play(batch)
            end, real = shadow.totals, engine.totals
            lost = (end.n_output - start.n_output) - (real.n_output - before.n_output)
            value = (end.value - start.value) - (real.value - before.value)
            self.loss = Loss(lost, value if lost else 0.0)
        else:
            tuples = _with_batch(shadow.tuples(), batch, shadow.totals.next_row)
            stays = TimesInMemory.of(tuples["row"], batch, before, played, self.faint, self.problem.n_streams)
            shadow.keep = Keep(outputs=True)
            seen = Seen()
            for piece in shadow.pieces(batch):
                yield self._weigh(stays.lost(piece.outputs), tuples, seen)
            self.loss = self._estimate(seen)
            if self.q < 1.0:
                self.loss.reach, self.loss.value_reach = self._reach(batch, tuples).tolist()
        self.total.add(self.loss if not self.loss.estimated else self._of_the_life(self.loss))

    def advance(self, seen: Ints, engine: Engine) -> None:
        """End a batch: the clocks of all shards; ghosts and rows of the past that do not fit are let go."""
        if self.shadow is not None:
            self._advance_shadow(self.shadow, seen, engine)
        self.past.passed = max(self.past.passed, self._horizon_of(engine))
        held = (self.shadow or engine).totals.retained
        self.past.keep(min(self.ghosts - (held - engine.totals.retained), 2 * held + _PAST))

    def _horizon_of(self, engine: Engine) -> int:
        return int((engine.seen - self.problem.lateness).min())

    def watched(self, engine: Engine) -> Ints:
        """The rows that may still be in a lost output: in memory, ghosts, and the past."""
        return np.union1d((self.shadow or engine).retained(), self.past.rows())

    def _advance_shadow(self, shadow: Engine, seen: Ints, engine: Engine) -> None:
        shadow.advance(seen)
        if self.q < 1.0 and self._horizon_of(engine) >= self.blind_until:
            self.q, self.heavy, self.crowd, self.dearest = 1.0, self.heavy[:0], Crowd(), 0.0
            if not self.by_key:  # a key is in the sample or not for good
                self.units, self.reach = Units(), Reach(largest=self.reach.largest)
        if self.q == 1.0 and shadow.totals.retained == engine.totals.retained:
            self.shadow = None
            return
        self._make_room(shadow, engine)

    def _weigh(self, made: Ints, tuples: dict[str, Any], seen: Seen) -> tuple[Ints, Floats]:
        """Those of these lost outputs that are in the sample, and their weights; they are added to what has been seen."""
        rows = self._members(made)
        at = np.searchsorted(tuples["row"], rows)
        key = tuples["key"][at[:, 0]]
        if self.q < 1.0 and self.by_ghost:
            return self._weigh_by_ghosts(made, at, tuples, seen)
        unit = key if self.by_key else rows.min(axis=1)
        exact = np.ones(len(unit), dtype=bool)
        if self.q < 1.0:
            exact = np.isin(key, self.heavy) | ~np.isin(rows, self.faint).any(axis=1)
        kept = exact | (draw(unit, self.seed) < self.q)
        made, at, unit, exact = made[kept], at[kept], unit[kept], exact[kept]
        value = self._value(made, at, tuples)
        weight = np.where(exact, 1.0, 1 / self.q)
        seen.add(weight, value)
        if self.q < 1.0:
            seen.add_units(unit[~exact], value[~exact])
        return made, weight

    def _weigh_by_ghosts(self, made: Ints, at: Ints, tuples: dict[str, Any], seen: Seen) -> tuple[Ints, Floats]:
        """The same where every ghost is a unit."""
        rows = self._members(made)
        ghost = np.isin(rows, self.faint)
        kept = (~ghost | (draw(rows, self.seed) < self.q)).all(axis=1)
        made, at, ghost = made[kept], at[kept], ghost[kept]
        weight, value = self.q ** -ghost.sum(axis=1, dtype=np.float64), self._value(made, at, tuples)
        guessed = ghost.any(axis=1)
        seen.add(weight, value)
        seen.add_guess(weight[guessed], value[guessed])
        return made, weight

    def _estimate(self, seen: Seen) -> Loss:
        """The loss that all of a batch stands for; where every ghost is a unit, how far it may be off is not known."""
        self._growth = np.zeros(2)
        if self.q == 1.0:
            return Loss(seen.lost, seen.lost_value)
        if self.by_ghost:
            self._growth = np.full(2, np.inf)
            return Loss(seen.lost, seen.lost_value, np.inf, np.inf, 1.0, float(seen.guessed[0]), float(seen.guessed[1]))
        own, sampled = (seen.sums**2).sum(axis=0) * (1 / self.q - 1) / self.q, seen.sums.sum(axis=0) / self.q
        self._growth = self.units.add(seen.unit, seen.sums, self.q)
        return Loss(seen.lost, seen.lost_value, float(own[0]), float(own[1]), 1.0, float(sampled[0]), float(sampled[1]))

    def _reach(self, batch: Batch, tuples: dict[str, Any]) -> Floats:
        """What one unit outside the sample can weigh at most in this batch, by count and by value."""
        n, objective = self.problem.n_streams, self.problem.objective
        if self.by_ghost:
            return np.full(2, np.inf)
        meets = (batch.key >= 0) & (batch.time < self.blind_until) & ~np.isin(batch.key, self.heavy)
        stream, key = batch.stream[meets], batch.key[meets]
        worth = np.ones(len(batch)) if batch.importance is None else batch.importance
        if self.by_key:
            new = most_per_key(stream, key, np.ones(len(key)), n)
            held = self.crowd.live(self.horizon, n) + new
            count = sum(new[number] * np.prod(np.delete(held, number)) for number in range(n))
            value = count * objective.of([max(self.dearest, float(tuples["importance"].max(initial=0.0)))] * n) if count else 0.0
        else:
            value_of = objective.pairs(worth[meets], np.array(self.dearest)) if not self.problem.steady else np.ones(len(key))
            count, value = (most_met(self.problem, batch, meets, weight) for weight in (np.ones(len(key)), value_of))
        known = self.problem.steady or objective.code != USER
        facts, weight = most_between(self.facts)
        return np.array([count * facts, value * facts * weight if known else np.inf]) / self.q

    def _of_the_life(self, loss: Loss) -> Loss:
        """The same for the life of the query, in which losses of one unit add up."""
        self.reach.weigh(np.array([loss.reach, loss.value_reach]), self.horizon)
        count, value = self.reach.largest.tolist()
        return replace(loss, variance=self._growth[0], value_variance=self._growth[1], reach=count, value_reach=value)

    def _members(self, made: Ints) -> Ints:
        """The rows of the members of outputs."""
        return made[:, 1 : 1 + self.problem.n_streams]

    def _value(self, made: Ints, at: Ints, tuples: dict[str, Any]) -> Floats:
        """The value of outputs whose members are at these places."""
        if self.problem.steady:
            return np.ones(len(at)) * self.problem.objective.of([1.0] * self.problem.n_streams)
        members = [tuples["importance"][column] for column in at.T]
        value = self.problem.objective.pairs(*members) if len(members) == 2 else _values(self.problem, members)
        return value * weights_of(self.facts, made[:, 1 + self.problem.n_streams :])

    def _make_room(self, shadow: Engine, engine: Engine) -> None:
        """Keep the ghosts within their budget: the heaviest keys whole, the rest by a smaller sample."""
        if self.q == 1.0 and shadow.totals.retained - engine.totals.retained <= self.ghosts:
            return
        tuples = shadow.tuples()
        ghost = ~np.isin(tuples["row"], engine.retained(), assume_unique=True)
        expiry = np.where(self.counting[tuples["stream"]], NEVER, tuples["expiry"])
        end = int(expiry.max(initial=-LIMIT))
        if self.by_key and self.q < 1.0:
            light = (tuples["row"] >= self.fresh) & ~np.isin(tuples["key"], self.heavy)
            self._crowd_in(tuples, light, np.zeros(self.problem.n_streams), end)
        while True:
            goes = self._goes(tuples, ghost)
            if goes.any():
                shadow.dismiss(tuples["row"][goes])
                matches = goes & (tuples["key"] >= 0)
                self.blind_until = max(self.blind_until, int(expiry[matches].max(initial=-LIMIT)))
                self.dearest = max(self.dearest, float(tuples["importance"][matches].max(initial=0.0)))
                tuples, ghost, expiry = {name: column[~goes] for name, column in tuples.items()}, ghost[~goes], expiry[~goes]
            if np.count_nonzero(ghost) <= self.ghosts:
                break
            self._sample_less(tuples, ghost)
            if self.by_key:
                light = ~np.isin(tuples["key"], self.heavy)
                self._crowd_in(tuples, light, self.crowd.live(self.horizon, self.problem.n_streams), end)
        if self.q < 1.0:
            self.reach.begin(NEVER if self.by_key else end)
            if self.by_key:
                self.units.keep_largest(self.ghosts)
            else:
                self.units.keep(tuples["row"][ghost])

    def _crowd_in(self, tuples: dict[str, Any], chosen: Any, known: Floats, end: int) -> None:
        """Take note of how many of these tuples one key may have, beyond what is known."""
        chosen = chosen & (tuples["key"] >= 0)
        most = most_per_key(tuples["stream"][chosen], tuples["key"][chosen], np.ones(np.count_nonzero(chosen)), self.problem.n_streams)
        self.crowd.add(np.maximum(most - known, 0.0), end)

    def _goes(self, tuples: dict[str, Any], ghost: Any) -> Any:
        """Which ghosts are of no use: those that match nothing, and those that are not in the sample."""
        unit = tuples["key"] if self.by_key else tuples["row"]
        sampled = (draw(unit, self.seed) < self.q) | np.isin(tuples["key"], self.heavy)
        return ghost & ((tuples["key"] < 0) | ~sampled)

    def _sample_less(self, tuples: dict[str, Any], ghost: Any) -> None:
        """Choose the heavy keys, only fewer than before, and a q by which the other ghosts fit."""
        if self.keyed:
            self.heavy = heaviest(tuples, ghost, self.ghosts * _ROOM / 2, self.heavy if self.q < 1.0 else None)
        light = int(np.count_nonzero(ghost & ~np.isin(tuples["key"], self.heavy)))
        room = max(1.0, self.ghosts * _ROOM - (np.count_nonzero(ghost) - light))
        self.q *= min(1 / 1.5, room / max(1, light))

    def freeze(self) -> dict[str, Any]:
        """The state, with that of the shadow as it lies in memory."""
        return self._own() | {"shadow": None if self.shadow is None else self.shadow.freeze()}

    def thaw(self, state: dict[str, Any]) -> None:
        """Go on from what `freeze` gave."""
        self._take(state)
        if state["shadow"] is not None:
            self.shadow = open_shadow(self.problem, outputs=self.wants_rows, stepwise=is_stepwise(state["shadow"]))
            self.shadow.thaw(state["shadow"])

    def snapshot(self) -> dict[str, Any]:
        """The state, for keeping."""
        return self._own() | {"shadow": None if self.shadow is None else self.shadow.snapshot()}

    def restore(self, state: dict[str, Any], *, trust: bool = False) -> None:
        """Go on from a snapshot; one with a pickle of 0.1.0 in it needs `trust`."""
        self._take(state)
        if state["shadow"] is not None:
            self.shadow = open_shadow(self.problem, outputs=self.wants_rows, stepwise=is_stepwise(state["shadow"]))
            self.shadow.restore(state["shadow"], trust=trust)

    def _own(self) -> dict[str, Any]:
        numbers = {"q": self.q, "heavy": self.heavy, "blind_until": self.blind_until, "total": vars(self.total).copy()}
        numbers |= {"unit": self.units.unit, "sums": self.units.sums, "dearest": self.dearest}
        numbers |= {"reach_ends": self.reach.ends, "reach_sums": self.reach.sums}
        numbers |= {"crowd_ends": self.crowd.ends, "crowd_most": self.crowd.most}
        return numbers | {f"past_{name}": column for name, column in self.past.snapshot().items()}

    def _take(self, state: dict[str, Any]) -> None:
        self.q, self.heavy, self.blind_until = float(state["q"]), state["heavy"], int(state["blind_until"])
        self.units = Units(state["unit"], state["sums"])
        self.unkept = "past_passed" not in state
        if not self.unkept:
            self.past.restore({name.removeprefix("past_"): column for name, column in state.items() if name.startswith("past_")})
        total = {name: float(value) for name, value in state["total"].items()}
        self.total = Loss(**total if "reach" in total else as_estimated(total))
        largest = np.array([self.total.reach, self.total.value_reach])
        if "reach_ends" in state:
            self.reach = Reach(state["reach_ends"], state["reach_sums"], largest)
            self.crowd, self.dearest = Crowd(state["crowd_ends"], state["crowd_most"]), float(state["dearest"])
        elif self.q < 1.0:  # of 0.1.0: what was let go is not known
            self.reach = Reach(np.array([NEVER]), np.full((1, 2), np.inf), largest)


def _may_shed(problem: Problem, engine: Engine, batch: Batch) -> bool:
    """Whether this batch may take a pool over its budget."""
    new = len(batch) if batch.size is None or not problem.budget.in_bytes else int((batch.size + TUPLE_OVERHEAD).sum())
    return engine.totals.used + new > int(problem.budget.caps.min())


def _with_batch(tuples: dict[str, Any], batch: Batch, next_row: int) -> dict[str, Any]:
    """Row, key and importance of the tuples and of a batch that comes now, by row; after a reshard, age is another order."""
    importance = np.ones(len(batch)) if batch.importance is None else batch.importance
    new: dict[str, Any] = {"row": next_row + np.arange(len(batch)), "key": batch.key, "importance": importance}
    order = np.argsort(tuples["row"], kind="stable")
    return {name: np.concatenate([tuples[name][order], column]) for name, column in new.items()}


def _values(problem: Problem, members: list[Floats]) -> Floats:
    return np.array([problem.objective.of(list(values)) for values in zip(*members, strict=True)])
