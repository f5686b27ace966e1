"""The loss meter: how many outputs the shed tuples would have made.

A shed tuple leaves a *ghost*. Memory and ghosts together are kept by a second engine that sheds nothing, the shadow; what it makes
and the real engine does not is lost. This holds for any number of streams. While nothing has been shed there is no shadow.

Ghosts have a budget of their own. Beyond it, ghosts of the heaviest keys stay and the others are sampled, by tuple (for more than two
streams by key), each *unit* kept with probability q. Where keys need not be equal there are no heavy ones; and for more than two streams
each ghost is a unit then, so that an output with g of them, all seen, stands for 1 / q^g.

With m the losses seen of a unit, the estimate adds m / q, and its variance is estimated without bias as the sum over kept units of
(2·m·a + m²·(1/q - 1)) / q, where a sums m·(1/q - 1) over the unit's earlier batches: q may fall from batch to batch, and losses of one
unit hang together. For more than two streams a few keys carry most of the loss, more than a normal interval can tell: there the estimate
is given, and its interval is everything.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from penstock.core.batch import Batch
from penstock.core.budget import OVERHEAD
from penstock.core.engine import Engine, Keep, Played, Totals
from penstock.core.problem import Problem
from penstock.core.trace import LIMIT, Floats, Ints
from penstock.core.window import COUNTING, NEVER
from penstock.spark.shadow import Shadow, adopt, dismiss, open_shadow

_ROOM = 0.75  # of the budget that is filled after ghosts had to go


@dataclass
class Loss:
    """Lost outputs and value, with the variances of their estimates (0: exact)."""

    lost: float = 0.0
    lost_value: float = 0.0
    variance: float = 0.0
    value_variance: float = 0.0
    estimated: float = 0.0  # 1 where anything was sampled

    def add(self, other: Loss) -> None:
        """Sum up."""
        for name, value in vars(other).items():
            setattr(self, name, max(self.estimated, value) if name == "estimated" else getattr(self, name) + value)


@dataclass
class Units:
    """What was seen of the sampled units: their sums a, by count and by value."""

    unit: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    sums: Floats = field(default_factory=lambda: np.empty((0, 2)))

    def add(self, unit: Ints, seen: Floats, q: float) -> Floats:
        """Take in what these units lost in a batch (by count, by value); how much the variances of the life of the query grow."""
        known = np.union1d(self.unit, unit)
        sums = np.zeros((len(known), 2))
        sums[np.searchsorted(known, self.unit)] = self.sums
        at = np.searchsorted(known, unit)
        growth = (2 * seen * sums[at] + seen**2 * (1 / q - 1)) / q
        sums[at] += seen * (1 / q - 1)
        self.unit, self.sums = known, sums
        return growth.sum(axis=0)

    def keep(self, unit: Ints) -> None:
        """Forget all others."""
        stays = np.isin(self.unit, unit)
        self.unit, self.sums = self.unit[stays], self.sums[stays]


class Meter:
    """Counts what is lost, batch by batch. Call `before` and `after` around each batch of the engine."""

    def __init__(self, problem: Problem, ghosts: int, *, wants_rows: bool = False, seed: int = 0) -> None:
        self.problem, self.ghosts, self.wants_rows, self.seed = problem, ghosts, wants_rows, seed
        self.keyed = problem.predicate.is_equality
        self.by_key = self.keyed and problem.n_streams > 2  # the unit that is sampled
        self.counting = np.array([window.kind in COUNTING for window in problem.windows])  # expiries are no times there
        self.by_ghost = not self.keyed and problem.n_streams > 2
        self.faint = np.empty(0, dtype=np.int64)  # the ghosts when a batch begins, where each is a unit
        self.shadow: Shadow | None = None
        self.q = 1.0
        self.heavy = np.empty(0, dtype=np.int64)  # keys
        self.idle = False  # the shadow has begun with this batch
        self.blind_until = -LIMIT  # the last expiry of a ghost that was let go
        self.units = Units()
        self.total = Loss()
        self._growth = np.zeros(2)  # of the variances of the life of the query, in this batch

    def before(self, batch: Batch, engine: Engine) -> None:
        """Begin a shadow if this batch may shed something."""
        self.idle = self.shadow is None and _may_shed(self.problem, engine, batch)
        if self.idle:
            self.begin(engine)
        if self.q < 1.0 and self.by_ghost and self.shadow is not None:
            self.faint = np.setdiff1d(self.shadow.retained(), engine.retained(), assume_unique=True)

    def begin(self, engine: Engine) -> None:
        """Begin a shadow of what the engine holds."""
        self.shadow = open_shadow(self.problem, outputs=self.wants_rows)
        adopt(self.shadow, engine)

    def after(self, batch: Batch, engine: Engine, before: Totals, played: Played) -> tuple[Loss, Ints, Floats]:
        """What this batch lost; with `wants_rows`, also the lost outputs that were seen (time, row per stream) and what each stands for."""
        shadow, missed, weight = self.shadow, np.empty((0, self.problem.n_streams + 1), np.int64), np.empty(0)
        if self.idle and engine.totals.n_shed == before.n_shed:
            shadow = self.shadow = None  # it need not have begun
        if shadow is None:
            return Loss(), missed, weight
        if not shadow.keep.outputs and self.q == 1.0:
            start = shadow.totals
            shadow.play(batch)
            end, real = shadow.totals, engine.totals
            lost = (end.n_output - start.n_output) - (real.n_output - before.n_output)
            value = (end.value - start.value) - (real.value - before.value)
            loss = Loss(lost, value if lost else 0.0)
        else:
            tuples = _with_batch(shadow.tuples(), batch, shadow.totals.next_row)
            shadow.keep = Keep(outputs=True)
            made = _without(shadow.play(batch).outputs, played.outputs)
            loss, missed, weight = self._weigh(made, tuples)
        self.total.add(loss if not loss.estimated else replace(loss, variance=self._growth[0], value_variance=self._growth[1]))
        return loss, missed, weight

    def advance(self, seen: Ints, engine: Engine) -> None:
        """End a batch: the clocks of all shards; ghosts that do not fit are let go."""
        shadow = self.shadow
        if shadow is None:
            return
        shadow.advance(seen)
        clock = engine.seen
        horizon = int((clock - self.problem.lateness).min())
        if self.q < 1.0 and horizon >= self.blind_until:
            self.q, self.heavy, self.units = 1.0, self.heavy[:0], Units()
        if self.q == 1.0 and shadow.totals.retained == engine.totals.retained:
            self.shadow = None
            return
        self._make_room(shadow, engine)

    def _weigh(self, made: Ints, tuples: dict[str, Any]) -> tuple[Loss, Ints, Floats]:
        """The loss that these outputs stand for, without those of units that are not in the sample; which are in it, and their weights."""
        rows = made[:, 1:]
        at = np.searchsorted(tuples["row"], rows)
        key = tuples["key"][at[:, 0]]
        if self.q < 1.0 and self.by_ghost:
            return self._weigh_by_ghosts(made, at, tuples)
        unit = key if self.by_key else rows.min(axis=1)
        exact = np.isin(key, self.heavy) if self.q < 1.0 else np.ones(len(unit), dtype=bool)
        kept = exact | (_draw(unit, self.seed) < self.q)
        made, at, unit, exact = made[kept], at[kept], unit[kept], exact[kept]
        value = self._value(at, tuples)
        weight = np.where(exact, 1.0, 1 / self.q)
        loss = Loss(float(weight.sum()), float((weight * value).sum()))
        self._growth = np.zeros(2)
        if self.q < 1.0:
            distinct, which = np.unique(unit[~exact], return_inverse=True)
            seen = np.zeros((len(distinct), 2))
            np.add.at(seen, which, np.stack([np.ones(len(which)), value[~exact]], axis=1))
            own = (seen**2).sum(axis=0) * (1 / self.q - 1) / self.q
            loss = Loss(loss.lost, loss.lost_value, float(own[0]), float(own[1]), 1.0)
            self._growth = self.units.add(distinct, seen, self.q)
            if self.by_key:
                loss.variance = loss.value_variance = np.inf
                self._growth = np.full(2, np.inf)
        return loss, made, weight

    def _weigh_by_ghosts(self, made: Ints, at: Ints, tuples: dict[str, Any]) -> tuple[Loss, Ints, Floats]:
        """The same where every ghost is a unit: how far the estimate may be off is not known."""
        weight = self.q ** -np.isin(made[:, 1:], self.faint).sum(axis=1, dtype=np.float64)
        self._growth = np.full(2, np.inf)
        loss = Loss(float(weight.sum()), float((weight * self._value(at, tuples)).sum()), np.inf, np.inf, 1.0)
        return loss, made, weight

    def _value(self, at: Ints, tuples: dict[str, Any]) -> Floats:
        """The value of outputs whose members are at these places."""
        if self.problem.steady:
            return np.ones(len(at)) * self.problem.objective.of([1.0] * self.problem.n_streams)
        members = [tuples["importance"][column] for column in at.T]
        return self.problem.objective.pairs(*members) if len(members) == 2 else _values(self.problem, members)

    def _make_room(self, shadow: Shadow, engine: Engine) -> None:
        """Keep the ghosts within their budget: the heaviest keys whole, the rest by a smaller sample."""
        if self.q == 1.0 and shadow.totals.retained - engine.totals.retained <= self.ghosts:
            return
        tuples = shadow.tuples()
        ghost = ~np.isin(tuples["row"], engine.retained(), assume_unique=True)
        while True:
            goes = self._goes(tuples, ghost)
            if goes.any():
                dismiss(shadow, tuples["row"][goes])
                expiry = np.where(self.counting[tuples["stream"]], NEVER, tuples["expiry"])[goes & (tuples["key"] >= 0)]
                self.blind_until = max(self.blind_until, int(expiry.max(initial=-LIMIT)))
                tuples, ghost = {name: column[~goes] for name, column in tuples.items()}, ghost[~goes]
            if np.count_nonzero(ghost) <= self.ghosts:
                break
            self._sample_less(tuples, ghost)
        if self.q < 1.0:
            self.units.keep(tuples["key"] if self.by_key else tuples["row"][ghost])

    def _goes(self, tuples: dict[str, Any], ghost: Any) -> Any:
        """Which ghosts are of no use: those that match nothing, and those that are not in the sample."""
        unit = tuples["key"] if self.by_key else tuples["row"]
        sampled = (_draw(unit, self.seed) < self.q) | np.isin(tuples["key"], self.heavy)
        return ghost & ((tuples["key"] < 0) | ~sampled)

    def _sample_less(self, tuples: dict[str, Any], ghost: Any) -> None:
        """Choose the heavy keys, only fewer than before, and a q by which the other ghosts fit."""
        if self.keyed:
            self.heavy = _heaviest(tuples, ghost, self.ghosts * _ROOM / 2, self.heavy if self.q < 1.0 else None)
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
            self.shadow = open_shadow(self.problem, outputs=self.wants_rows)
            self.shadow.thaw(state["shadow"])

    def snapshot(self) -> dict[str, Any]:
        """The state, for keeping."""
        return self._own() | {"shadow": None if self.shadow is None else self.shadow.snapshot()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a snapshot."""
        self._take(state)
        if state["shadow"] is not None:
            self.shadow = open_shadow(self.problem, outputs=self.wants_rows)
            self.shadow.restore(state["shadow"])

    def _own(self) -> dict[str, Any]:
        numbers = {"q": self.q, "heavy": self.heavy, "blind_until": self.blind_until, "total": vars(self.total).copy()}
        return numbers | {"unit": self.units.unit, "sums": self.units.sums}

    def _take(self, state: dict[str, Any]) -> None:
        self.q, self.heavy, self.blind_until = state["q"], state["heavy"], state["blind_until"]
        self.total, self.units = Loss(**state["total"]), Units(state["unit"], state["sums"])


def _may_shed(problem: Problem, engine: Engine, batch: Batch) -> bool:
    """Whether this batch may take a pool over its budget."""
    new = len(batch) if batch.size is None or not problem.budget.in_bytes else int((batch.size + OVERHEAD).sum())
    return engine.totals.used + new > int(problem.budget.caps.min())


def _with_batch(tuples: dict[str, Any], batch: Batch, next_row: int) -> dict[str, Any]:
    """Row, key and importance of the tuples and of a batch that comes now."""
    importance = np.ones(len(batch)) if batch.importance is None else batch.importance
    new: dict[str, Any] = {"row": next_row + np.arange(len(batch)), "key": batch.key, "importance": importance}
    return {name: np.concatenate([tuples[name], column]) for name, column in new.items()}


def _without(outputs: Ints, others: Ints) -> Ints:
    """The outputs that are not among the others."""
    if not len(outputs) or not len(others):
        return outputs
    base = outputs[:, 1:].min()
    width = max(1, int(max(outputs[:, 1:].max(), others[:, 1:].max()) - base).bit_length())
    if width * (outputs.shape[1] - 1) < 63:
        mine, theirs = np.zeros(len(outputs), np.int64), np.zeros(len(others), np.int64)
        for column in range(1, outputs.shape[1]):
            mine, theirs = (mine << width) | (outputs[:, column] - base), (theirs << width) | (others[:, column] - base)
        return outputs[~np.isin(mine, theirs)]
    _, which = np.unique(np.concatenate([outputs, others])[:, 1:], axis=0, return_inverse=True)
    return outputs[~np.isin(which[: len(outputs)], which[len(outputs) :])]


def _values(problem: Problem, members: list[Floats]) -> Floats:
    return np.array([problem.objective.of(list(values)) for values in zip(*members, strict=True)])


def _draw(unit: Ints, seed: int) -> Floats:
    """A number in [0, 1) that belongs to a unit for good."""
    mixed = unit.astype(np.uint64) + np.uint64((seed * 2 + 1) * 0x9E3779B97F4A7C15 & (1 << 64) - 1)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return (mixed ^ (mixed >> np.uint64(31))).astype(np.float64) / 2.0**64


def _heaviest(tuples: dict[str, Any], ghost: Any, room: float, among: Ints | None) -> Ints:
    """The keys with the most tuples, as many as have `room` for their ghosts."""
    keys, which, count = np.unique(tuples["key"], return_inverse=True, return_counts=True)
    ghosts = np.bincount(which, weights=ghost, minlength=len(keys))
    order = np.argsort(-count, kind="stable")
    order = order[ghosts[order] > 0]
    if among is not None:
        order = order[np.isin(keys[order], among)]
    return np.sort(keys[order[np.cumsum(ghosts[order]) <= room]])
