"""The compiled engine: batches handed to the loop of play.py, which stops where arrays must grow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from penstock.core.batch import Batch, OnProgress, check_order
from penstock.core.budget import TUPLE_OVERHEAD
from penstock.core.compiled import say_if_cold
from penstock.core.predicate import check_one_column
from penstock.core.problem import Problem
from penstock.core.trace import Bools, Floats, Ints
from penstock.core.window import DEAD, NEVER, expiries
from penstock.engine.compiled.batch_columns import BatchColumns, instant_size, plain, rises
from penstock.engine.compiled.chances import enqueue_all
from penstock.engine.compiled.facts.prefilter import instant_through
from penstock.engine.compiled.joining.by_links import SCRATCH
from penstock.engine.compiled.layers import worth
from penstock.engine.compiled.layers.allocate import allocate, pattern_bands
from penstock.engine.compiled.layers.portable import as_columns
from penstock.engine.compiled.layers.restorable_arrays import RestorableArrays
from penstock.engine.compiled.logs import ARRIVAL_AT, handed_out, open_logs, with_room
from penstock.engine.compiled.memory import live_slots
from penstock.engine.compiled.play import dismiss, expire, play, trim
from penstock.engine.contract import PIECE, Bands, Keep, Played, Ranking, Statistics, Worths
from penstock.engine.fact_arrays import FILTERED, GROWS
from penstock.engine.finding import needs_index
from penstock.engine.gain_loss import set_factors
from penstock.engine.number_bits import as_bits
from penstock.engine.ranking_codes import Kind, Prices

_FEW = 1024  # bands
_CHUNK = 1 << 18  # rows between two calls of the progress function


class CompiledEngine(RestorableArrays):
    """Plays batches with compiled code; see `penstock.engine.contract`."""

    def __init__(self, problem: Problem, ranking: Ranking, statistics: Statistics, keep: Keep) -> None:
        cold = say_if_cold("play.play")
        super().__init__(problem, ranking, _find_bands(problem, ranking, statistics), statistics)
        self.keep = keep
        seeds = np.random.SeedSequence(problem.seed).generate_state(2)
        self.memory.random1 = 1 + int(seeds[0]) % 2147483561
        self.memory.random2 = 1 + int(seeds[1]) % 2147483397
        if cold:
            self._compile_the_rest()

    def _compile_the_rest(self) -> None:
        """Compile what a restart or a smaller memory will need too, so that nobody waits twice."""
        _, memory = allocate(self.problem, self.ranking, None, slots=1, groups=1, facts=self.facts)
        none = np.empty(0, np.int64)
        trim(memory, self.problem.budget.caps[0], np.empty((1, 2), np.int64))
        dismiss(memory, none)
        enqueue_all(memory, none, none)
        if self.facts is not None:
            self.facts.share(self.memory, self.arrays)

    @property
    def is_compiled(self) -> bool:
        """Yes."""
        return True

    @property
    def is_repeatable(self) -> bool:
        """Draws come from the state."""
        return True

    def check_keepable(self) -> None:
        """Whatever is compiled can be kept."""

    def count_late(self, rows: int) -> None:
        """Count rows that came too late."""
        self.memory.n_late += rows

    def number_from(self, row: int) -> None:
        """Give rows numbers from this one on."""
        self.memory.next_row = row

    def play(self, batch: Batch, progress: OnProgress | None = None) -> Played:
        """Play the next rows."""
        return Played.join(list(self.pieces(batch, progress)), self.problem.n_streams, len(self.problem.through))

    def pieces(self, batch: Batch, progress: OnProgress | None = None, most: int = PIECE) -> Iterator[Played]:
        """Play the next rows, piece by piece."""
        columns = self._columns(batch)
        self.prepared = 0  # rows whose facts have been looked up
        n, budget = self.problem.n_streams, self.problem.budget
        logs = open_logs(n, len(self.problem.through), self.keep, len(batch), int(self.memory.live), most)
        times, caps = plain(budget.times), plain(budget.caps)
        scratch = np.empty((n + SCRATCH, 0), dtype=np.int64)
        position, stop = 0, 0
        while position < len(batch):
            if logs.pause[ARRIVAL_AT] < 0:
                if position >= stop:
                    price = self._price if self.facts is None else self._sift
                    columns, stop = price(batch, columns, position)
                many = self.facts is None and (n > 2 or self.memory.inplace or self.memory.indexed)
                width = len(self.arrays["slots"]) + len(batch) + n if many else 2 * n
                scratch = np.empty((n + SCRATCH, width), dtype=np.int64)
            target = min(stop, position + _CHUNK) if progress else stop
            if self.ranking.kind == Kind.GAIN_LOSS:
                target = set_factors(self.problem, self.arrays["lanes"], int(self.memory.now), batch.time, position, target)
            reached = play(self.memory, times, caps, columns, position, target, logs, scratch)
            if logs.pause[ARRIVAL_AT] >= 0:
                yield self._named(handed_out(logs))
                logs = with_room(logs)
            elif reached < target:
                size = instant_size(batch.time, reached) if self.facts is None else instant_through(self.memory, columns, reached)
                self._make_room(size, straggling=bool(self.memory.straggling))
                logs = with_room(logs)
            if progress:
                progress(reached - position)
            position = reached
        self.memory.next_row += len(batch)
        filtered = np.flatnonzero(columns.leaves == FILTERED) if self.facts is not None and self.keep.filtered else np.empty(0, np.int64)
        yield replace(self._named(handed_out(logs)), filtered=filtered + int(self.memory.next_row) - len(batch))

    def advance(self, seen: Ints) -> Ints:
        """Take note of how far the streams have come elsewhere."""
        lanes = self.arrays["lanes"]
        lanes["seen"] = np.maximum(lanes["seen"], seen)
        self.memory.now = max(int(self.memory.now), int(lanes["seen"].max()))
        log = np.empty((int(self.memory.live), 2), dtype=np.int64)
        return log[: expire(self.memory, int(self.memory.instant), log, 0, True), 0]

    def trim(self) -> Ints:
        """Shed down to the budget."""
        log = np.empty((int(self.memory.live), 2), dtype=np.int64)
        return log[: trim(self.memory, self.problem.budget.caps[int(self.memory.budget_step)], log), 0]

    def dismiss(self, rows: Ints) -> None:
        """Let go of these rows, as if they had never come; they are counted nowhere."""
        live = live_slots(self.memory)
        dismiss(self.memory, live[np.isin(self.arrays["slots"]["row"][live], rows)])

    def worths(self) -> Worths | None:
        """What tuples are worth now; None where nobody can compare them between engines."""
        return worth.worths(self, live_slots(self.memory))

    def worth_unit(self) -> str:
        """In what tuples are weighed, as text."""
        return worth.unit_of(self)

    def _columns(self, batch: Batch) -> BatchColumns:
        problem, ranking = self.problem, self.ranking
        if self.origin is None and len(batch) and self.facts is None:
            self.origin = int(batch.time[0])
            self.memory.dawn = self.origin
        check_order(problem, batch.time, int(self.memory.now))
        expiry = expiries(
            problem.windows, batch.stream, batch.time, batch.lifetime, self.arrays["lanes"]["arrivals"],
            instantly=problem.switch("varying-window") == "instant",
        )  # fmt: skip
        rising = expiry
        if problem.counts_keys:
            by_key = self._by_key(batch.stream)
            expiry = np.where(by_key & (batch.key < 0), DEAD, expiry)  # without a key there is no window
            rising = np.where(by_key, NEVER, expiry)
        ending = self.facts is not None and bool(self.facts.endings)  # a last chance may come before those of earlier rows
        if not self.memory.straggling and (ending or not rises(rising, batch.stream, self.arrays["lanes"]["ceiling"])):
            self._make_room(0, straggling=True)
        row = np.arange(len(batch), dtype=np.int64) + self.memory.next_row
        nobody = (batch.key < 0) | (expiry == DEAD)
        key = np.where(nobody, -1 - row, row if self.memory.indexed else batch.key) if nobody.any() or self.memory.indexed else batch.key
        found = BatchColumns(
            stream=np.asarray(batch.stream, dtype=np.int64),
            time=np.asarray(batch.time, dtype=np.int64),
            key=key,
            expiry=expiry,
            importance=np.ones(len(batch)) if batch.importance is None else batch.importance,
            score=self._first_scores(batch),
            weight=(batch.size + TUPLE_OVERHEAD) if problem.budget.in_bytes and batch.size is not None else np.ones(1, np.int64),
            rates=np.empty((len(batch) if self.memory.growing == GROWS and self.facts is not None else 1, problem.n_streams)),
            band=np.empty(1, np.int64) if self.bands is None or ranking.prices == Prices.PATTERNS else self.bands.of(batch),
            values=self._compared(batch, nobody) if self.memory.indexed else np.empty((1, 1), np.int64),
            leaves=np.ones(1, np.int64) if self.facts is None else np.empty(len(batch), np.int64),
        )
        return BatchColumns(*map(plain, found))

    def _first_scores(self, batch: Batch) -> Floats:
        """The fixed scores of rows, or room for them where facts weigh them."""
        if self.ranking.column is not None:
            return self.ranking.column(batch, self.origin or 0)
        return np.empty(len(batch) if self.memory.tops else 1)

    def _compared(self, batch: Batch, nobody: Bools) -> Ints:
        """What links compare, as it is kept: whole numbers, or the bits of floating point if any batch had some."""
        if self.facts is not None:
            return np.full((len(batch), int(self.memory.width)), -1, np.int64)
        seen = np.where(nobody, -1, batch.key)[:, None] if batch.values is None else batch.values
        if self.problem.graph is None and self.problem.predicate.name not in ("=", "eps"):
            check_one_column(self.problem.predicate, seen.shape[1])
        if seen.shape[1] != self.width and self.problem.graph is None:
            self.width = seen.shape[1]
            self._move()
        whole = seen.dtype.kind == "i"
        if not len(seen):
            return np.empty((0, self.width), np.int64)
        if self.memory.live == 0:
            self.memory.whole = whole
        elif self.memory.whole and not whole:
            state = as_columns(self.memory, self.arrays)
            state["values"], state["count.whole"] = as_bits(state["values"].astype(np.float64)), np.array(0)
            self._move(state)
        return as_bits(seen if self.memory.whole else seen.astype(np.float64))


def _find_bands(problem: Problem, ranking: Ranking, statistics: Statistics) -> Bands | None:
    """The bands: those of `ep`, or where prices never change and there are few of them."""
    if ranking.prices == Prices.PATTERNS:
        return pattern_bands(problem.n_streams)
    if ranking.prices != Prices.RATES or needs_index(problem, ranking):
        return None
    if ranking.kind == Kind.LIFE and problem.counts_keys:
        return None  # tuples with one price have clocks of their own
    found = statistics.bands()
    return found if found is not None and len(found.price) <= max(_FEW, problem.budget.most // 4) else None
