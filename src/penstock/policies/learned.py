"""`learned`: keep what can expect most, by what the stream itself has shown. Ours; after LHD (Beckmann, Chen and Cidon 2018).

What a tuple is worth are the outputs that it can still expect, per place in memory and time. Its key has a count in each partner stream,
as in `prob`; the policy learns how far the count can be believed: by how long ago the key came there, and how long ago in the tuple's own
stream. So it knows a key that comes once from one that comes back, and a session that has ended from one that goes on. What is learned and
when it is put into use: docs/decisions/0023.

This is the whole policy in plain Python. The compiled form is in statistics/returns.py, which learns, and engine/compiled/chances.py.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from penstock.core.errors import PenstockError
from penstock.core.problem import Problem
from penstock.core.rounding import rounded
from penstock.core.trace import Bools, Floats, Ints
from penstock.engine.chance_steps import (
    COUNT_BOUNDS,
    COUNTS,
    EPOCH_ROWS,
    EPOCHS,
    FEW_KEYS,
    FIRST_EPOCH,
    FORGOTTEN,
    GAP_ENDS,
    GAPS,
    KEPT,
    LEAST,
    NOTHING,
    ONE,
    SAMPLE,
    TIMERS,
    TRUST,
    Scale,
)
from penstock.engine.contract import Ranking
from penstock.engine.ranking_codes import FirstScore, Kind, Prices
from penstock.engine.view import View
from penstock.policies.base import Policy

_NEVER = -1e18
_Held = dict[int, list[int]]
_CLUES = ("count", "last")


class Learned(Policy):
    """Score: the outputs (or value) that a tuple can expect per tick, over the best stay; per byte where memory is in bytes.

    >>> from penstock import generate, simulate
    >>> visits = generate(4000, orders=0.0, delay=50, seed=1)
    >>> [simulate(visits, window=400, memory=40, policy=policy).n_output for policy in ("prob", "learned")]
    [12, 1258]
    """

    name = "learned"
    summary = "the least expected output by what was learned of how soon keys come again leaves first"
    needs = "equal keys"
    paper = "ours, after Beckmann and others 2018"

    def __init__(self) -> None:
        self.keys: dict[int, dict[str, Any]] = {}
        self.classes: dict[int, dict[int, dict[str, Any]]] = {}  # by stream and key
        self.came: Ints = np.zeros(0, np.int64)
        self.foretold: Ints = np.zeros(0, np.int64)
        self.spent: Ints = np.zeros(0, np.int64)
        self.chances: Floats = np.zeros(0)
        self.best: dict[int, float] = {}  # by state: the best average, of two streams
        self.means: list[list[float]] = []
        self.began: int | None = None
        self.step, self.rows, self.mask, self.clock, self.kept = 0, 0, 0, 0, FEW_KEYS

    def check(self, problem: Problem) -> None:
        """It counts arrivals of equal keys, and must know how fast counts age."""
        if not problem.predicate.is_equality:
            got = "a join through relations" if problem.through else f"the predicate {problem.predicate.name!r}"
            raise PenstockError(f"policy 'learned' counts equal keys, got {got}; use 'prob'")
        if problem.ageless:
            raise PenstockError(
                "half_life must be given where a window is not a length of time, got none: policy 'learned' must know how fast counts age; "
                "without a half_life, policy 'auto' takes one that need not"
            )

    def ranking(self, problem: Problem) -> Ranking:
        """All tuples of a class expect the same; where their outputs differ in value, or they in size, that orders the class."""
        alike = problem.steady and not problem.budget.in_bytes
        return Ranking(Kind.PRICE if alike else Kind.SCORE_TIMES_PRICE, Prices.CHANCES, FirstScore.EXPECTED)

    def score(self, view: View) -> Floats:
        """What each candidate can expect."""
        if view.new.any():
            self._learn(view)
        price = np.array([self._known(int(s), int(k))["price"] for s, k in zip(view.stream, view.key, strict=True)], np.float64)
        alike = view.problem.steady and not view.problem.budget.in_bytes
        return price if alike else price * view.memo

    def _known(self, stream: int, key: int) -> dict[str, Any]:
        return self.classes.setdefault(stream, {}).setdefault(key, {"price": 0.0, "clue": None, "event": 0, "step": -1})

    def _learn(self, view: View) -> None:
        """Take note of an instant: rows, then prices."""
        problem, scale = view.problem, Scale.of(view.problem)
        n, now = problem.n_streams, max(int(view.now) >> scale.shift, self.clock if self.began is not None else -(1 << 62))
        if self.began is None:
            self._open(n, now, scale)
        self.clock = now
        renewed = False
        assert self.began is not None
        if now >= self.began + self.step and self.rows >= EPOCH_ROWS:
            self._renew(now, scale, n)
            renewed = True
        new = np.flatnonzero(view.new)
        for at in new:
            self._count(int(view.stream[at]), int(view.key[at]), now, scale)
        for at in new:
            self._arrive(int(view.stream[at]), int(view.key[at]), float(view.importance[at]), now, scale, weighs=not problem.steady)
        self.rows += len(new)
        held, before = _counted(view, view.staying, n), _counted(view, ~view.new, n)
        coming = {int(key) for key in view.key[new]}
        self._price(held, before, coming, now, scale, renewed=renewed)
        for at in new:
            view.memo[at] = self._value(view, int(at), n)

    def _open(self, n: int, now: int, scale: Scale) -> None:
        shape = (n, n, COUNTS, GAPS, GAPS)
        self.came, self.foretold, self.spent = (np.zeros(shape, np.int64) for _ in range(3))
        self.chances = np.ones(shape)
        self.chances[:, :, 0] = 0.0
        self.means = [[0.0, 0.0] for _ in range(n)]
        self.began, self.step = now, _part(scale.reach, FIRST_EPOCH)

    def _count(self, stream: int, key: int, now: int, scale: Scale) -> None:
        """Count an arrival in the states that its instant ends: a tuple that waited for it meets all that come with it."""
        fact = self.keys.get(key)
        if fact is None or not _sampled(key, self.mask):
            return
        self._settle(fact, now, scale)
        count, last = fact["count"][stream], fact["last"][stream]
        step = _gap_step(now - last, scale.reach) if count > 0 else GAPS - 1
        for own, span in enumerate(scale.spans):
            gap = now - fact["last"][own]
            if own != stream and gap < span:
                self.came[own, stream, _count_step(count), step, _gap_step(gap, scale.reach)] += ONE

    def _arrive(self, stream: int, key: int, importance: float, now: int, scale: Scale, *, weighs: bool) -> None:
        """A key comes."""
        if key < 0:
            return
        n = len(scale.spans)
        fact = self.keys.setdefault(key, {"count": [0.0] * n, "last": [_NEVER] * n, "mean": [0.0] * n, "until": float(now)})
        count, last = fact["count"][stream], fact["last"][stream]
        fact["until"] = float(now)
        if count > 0:
            count = math.floor(count * float(np.exp2((last - now) / scale.half_life)) * ONE) / ONE
        fact["count"][stream] = count + 1.0
        fact["last"][stream] = float(now)
        if weighs:
            fact["mean"][stream] += (importance - fact["mean"][stream]) / fact["count"][stream]
            self.means[stream][0] += importance
            self.means[stream][1] += 1.0

    def _settle(self, fact: dict[str, Any], now: float, scale: Scale) -> None:
        """Count what a key spent in each of its states until now."""
        n, reach, begin = len(scale.spans), scale.reach, fact["until"]
        fact["until"] = float(now)
        for own in range(n):
            end = min(now, fact["last"][own] + scale.spans[own])
            if fact["last"][own] <= _NEVER or begin >= end:
                continue
            for other in range(n):
                if other == own:
                    continue
                count = fact["count"][other]
                bounds = {begin, end, *(fact["last"][own] + _end(step, reach) for step in range(TIMERS))}
                if count > 0:
                    bounds |= {fact["last"][other] + _end(step, reach) for step in range(TIMERS)}
                cuts = sorted(cut for cut in bounds if begin <= cut <= end)
                for left, right in itertools.pairwise(cuts):
                    step = _gap_step(left - fact["last"][other], reach) if count > 0 else GAPS - 1
                    cell = (own, other, _count_step(count), step, _gap_step(left - fact["last"][own], reach))
                    spent = math.floor(right) - math.floor(left)
                    self.foretold[cell] += int(count * ONE) * spent
                    self.spent[cell] += spent

    def _renew(self, now: int, scale: Scale, n: int) -> None:
        """Put what was learned into use, and forget some of it."""
        for key, fact in self.keys.items():
            if _sampled(key, self.mask):
                self._settle(fact, now, scale)
        chances = np.zeros_like(self.chances)
        for own, other in np.ndindex(n, n):
            came, foretold = self.came[own, other], self.foretold[own, other]
            for often, gap, own_gap in np.ndindex(COUNTS - 1, GAPS, GAPS):
                chances[own, other, 1 + often, gap, own_gap] = _drawn(came[1:], foretold[1:], (often, gap, own_gap), scale.pace)
            new, spent = came[0, -1], self.spent[own, other, 0, -1]
            if new.sum() > 0:
                chances[own, other, 0, -1] = (new / ONE + 1.0) / (spent + 1.0 / (new.sum() / ONE / max(spent.sum(), 1)))
        self.chances, self.best = chances, {}
        assert self.began is not None
        left = 2.0 ** (-((now - self.began) / scale.reach) / KEPT)
        self.came, self.foretold, self.spent = (np.floor(table * left).astype(np.int64) for table in (self.came, self.foretold, self.spent))
        if len(self.keys) > self.kept:
            self.keys = {key: fact for key, fact in self.keys.items() if _alive(fact, now, scale.half_life)}
            self.kept = max(FEW_KEYS, 2 * len(self.keys))
        self.mask = 0
        while len(self.keys) > SAMPLE * (self.mask + 1):
            self.mask = 2 * self.mask + 1
        self.began, self.rows, self.step = now, 0, min(2 * self.step, _part(scale.reach, EPOCHS))

    def _price(self, held: _Held, before: _Held, coming: set[int], now: int, scale: Scale, *, renewed: bool) -> None:
        """Price what has come, what has waited long enough, and all of it in a new epoch."""
        n = len(scale.spans)
        self.classes = {
            stream: {key: one for key, one in own.items() if key in held and held[key][stream]} for stream, own in self.classes.items()
        }
        for key, counts in held.items():
            for stream in range(n):
                if not counts[stream]:
                    continue
                one = self._known(stream, key)
                due = one["step"] >= 0 and one["event"] + _end(one["step"], scale.reach) <= now
                if key in coming:
                    one["event"], due = float(now), True
                    one["clue"] = {name: list(self.keys[key][name]) for name in _CLUES} if key >= 0 else None
                if due:
                    after = 0 if key in coming else max(one["step"] + 1, _gap_step(now - one["event"], scale.reach))
                    one["step"] = after if after < TIMERS else -1
                if (due or renewed) and key >= 0:  # without a key there is nothing to expect
                    one["price"] = self._expected(one["clue"], stream, counts if key in coming else before[key], now, scale)

    def _expected(self, clue: dict[str, list[float]], own: int, held: list[int], now: int, scale: Scale) -> float:
        """The best average, over any stay, of the outputs that can be expected in it."""
        reach, others = scale.reach, [stream for stream in range(len(held)) if stream != own]
        steps = {other: _gap_step(now - clue["last"][other], reach) if clue["count"][other] > 0 else GAPS - 1 for other in others}
        weight = {other: clue["count"][other] * scale.pace if clue["count"][other] > 0 else 1.0 for other in others}
        own_step = _gap_step(now - clue["last"][own], reach)
        often = {other: _count_step(clue["count"][other]) for other in others}
        if len(held) == 2:
            (other,) = others
            state = ((own * COUNTS + often[other]) * GAPS + steps[other]) * GAPS + own_step
            if state not in self.best:
                stays = self._stays(own, often, steps, own_step, scale, {other: 1.0})
                self.best[state] = _shortened(max([0.0, *(sums[other] / stay for sums, stay in stays)]))
            return float(rounded(max(NOTHING, self.best[state] * weight[other])))
        there = {other: float(held[other]) for other in others}
        found = [NOTHING]
        for sums, stay in self._stays(own, often, steps, own_step, scale, weight):
            found.append((math.prod(there[other] + sums[other] for other in others) - math.prod(there.values())) / stay)
        return float(rounded(max(found)))

    def _stays(
        self, own: int, often: dict[int, int], steps: dict[int, int], own_step: int, scale: Scale, weight: dict[int, float]
    ) -> Iterator[tuple[dict[int, float], float]]:
        """What can be expected of each partner until each change of state, and how long that is; a state is taken as it begins."""
        reach, steps, sums = scale.reach, dict(steps), dict.fromkeys(steps, 0.0)
        own_gap, gaps = _begin(own_step, reach), {other: _begin(step, reach) for other, step in steps.items()}
        life, stay = scale.spans[own] - own_gap, 0.0
        while stay < life:
            ends = {other: _end(step, reach) - gaps[other] for other, step in steps.items() if step < TIMERS}
            own_end = _end(own_step, reach) - own_gap if own_step < TIMERS else math.inf
            until = min([life, own_end, *ends.values()])
            for other, step in steps.items():
                chance = float(self.chances[own, other, often[other], step, own_step])
                sums[other] += chance * weight[other] * (until - stay)
            yield sums, max(until, LEAST * reach)
            steps = {other: step + (until >= ends.get(other, math.inf)) for other, step in steps.items()}
            own_step += until >= own_end
            stay = until

    def _value(self, view: View, at: int, n: int) -> float:
        """What an output of an arrival is worth with partners of the mean importance of its key, per byte where bytes count."""
        value = 1.0
        if not view.problem.steady:
            fact = self.keys.get(int(view.key[at]), {"count": [0.0] * n})
            members = []
            for stream in range(n):
                total, rows = self.means[stream]
                around = total / rows if rows else 1.0
                members.append(fact["mean"][stream] if fact["count"][stream] > 0 else around)
            members[int(view.stream[at])] = float(view.importance[at])
            value = view.problem.objective.of(members)
        return value / float(view.weight[at]) if view.problem.budget.in_bytes else value


def _drawn(came: Ints, foretold: Ints, cell: tuple[int, int, int], pace: float) -> float:
    """The quotient of a cell, drawn to that of its neighbours, that to theirs, and in the end to 1."""
    often, gap, _ = cell
    quotient = 1.0
    for part in ((slice(None),) * 3, (slice(None), gap), (often, gap), cell):
        quotient = (came[part].sum() / ONE + TRUST * quotient) / (foretold[part].sum() / ONE * pace + TRUST)
    return float(quotient)


def _part(reach: float, parts: int) -> int:
    return max(1, int(reach) // parts)


def _begin(step: int, reach: float) -> float:
    return _end(step - 1, reach) if step else 0.0


def _end(step: int, reach: float) -> float:
    return reach * GAP_ENDS[step]


def _gap_step(gap: float, reach: float) -> int:
    return sum(gap >= _end(step, reach) for step in range(TIMERS))


def _count_step(count: float) -> int:
    return 0 if count <= 0 else 1 + sum(count >= bound for bound in COUNT_BOUNDS)


def _shortened(number: float) -> float:
    """A number to five bits."""
    fraction, exponent = math.frexp(number)
    return math.ldexp(math.floor(fraction * 64) / 64, exponent)


def _counted(view: View, chosen: Bools, n: int) -> _Held:
    """How many of the chosen candidates each stream has, by key."""
    held: _Held = {}
    for at in np.flatnonzero(chosen):
        held.setdefault(int(view.key[at]), [0] * n)[int(view.stream[at])] += 1
    return held


def _sampled(key: int, mask: int) -> bool:
    mixed = ((key ^ (key >> 31)) & 0x7FFFFFFF) * 0x2545F491
    return ((mixed >> 12) & mask) == 0


def _alive(fact: dict[str, Any], now: int, half_life: float) -> bool:
    counts = zip(fact["count"], fact["last"], strict=True)
    return max(count * float(np.exp2((last - now) / half_life)) if count > 0 else 0.0 for count, last in counts) >= FORGOTTEN
