"""The compiled engine: arrays around the loop of play.py, their growth, and snapshots."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from penstock.core.batch import Batch, OnProgress, check_order
from penstock.core.budget import TUPLE_OVERHEAD
from penstock.core.compiled import say_if_cold
from penstock.core.errors import PenstockError
from penstock.core.facts import Facts
from penstock.core.predicate import check_one_column
from penstock.core.problem import Problem
from penstock.core.rounding import aged
from penstock.core.trace import Bools, Floats, Ints
from penstock.core.window import DEAD, NEVER, expiries
from penstock.engine.compiled import worth
from penstock.engine.compiled.allocate import allocate, pattern_bands
from penstock.engine.compiled.batch_columns import BatchColumns, instant_size, plain, rises
from penstock.engine.compiled.chances import enqueue_all
from penstock.engine.compiled.class_prices import count_again
from penstock.engine.compiled.facts.fact_counts import count_all_through
from penstock.engine.compiled.facts.compiled_facts import CompiledFacts
from penstock.engine.compiled.facts.known_facts import fade, rate_columns, take_rates
from penstock.engine.compiled.facts.prefilter import end_of_chunk, instant_through, leaving, prepare, weigh_rows
from penstock.engine.compiled.joining.by_links import SCRATCH
from penstock.engine.compiled.key_clocks import PER_KEY
from penstock.engine.compiled.linked.partners import count_all, weigh_streams
from penstock.engine.compiled.logs import ARRIVAL_AT, handed_out, open_logs, with_room
from penstock.engine.compiled.memory import live_slots
from penstock.engine.compiled.order.tournament import rebuild
from penstock.engine.compiled.play import dismiss, expire, play, trim
from penstock.engine.compiled.portable import as_columns, from_columns, is_sound, merged, slots_in_order
from penstock.engine.compiled.state import ARRAYS, RECORD, attach
from penstock.engine.contract import (
    PIECE,
    TUPLE,
    Bands,
    Chosen,
    Engine,
    Keep,
    Played,
    Ranking,
    Renumber,
    Statistics,
    Totals,
    Worths,
)  # fmt: skip
from penstock.engine.fact_arrays import FILTERED, GROWS, STANDS
from penstock.engine.finding import needs_index
from penstock.engine.gain_loss import set_factors
from penstock.engine.number_bits import as_bits, from_bits
from penstock.engine.ranking_codes import Kind, Prices

_FEW = 1024  # bands
_SMALL = 1 << 16  # slots or classes
_ROWS = 4096  # whose facts are looked up at once: what is fetched is still near when they are played
_CHUNK = 1 << 18  # rows between two calls of the progress function


class CompiledEngine:
    """Plays batches with compiled code; see `penstock.engine.contract`."""

    def __init__(self, problem: Problem, ranking: Ranking, statistics: Statistics, keep: Keep) -> None:
        cold = say_if_cold("play.play")
        self.problem, self.ranking, self.statistics, self.keep = problem, ranking, statistics, keep
        self.bands = self._find_bands()
        self.width = 1
        self.facts = CompiledFacts.of(problem) if problem.through else None
        self.arrays, self.memory = allocate(problem, ranking, self.bands, slots=64, groups=64, facts=self.facts)
        self.origin: int | None = None
        self.prepared = 0
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

    def _find_bands(self) -> Bands | None:
        """The bands: those of `ep`, or where prices never change and there are few of them."""
        if self.ranking.prices == Prices.PATTERNS:
            return pattern_bands(self.problem.n_streams)
        if self.ranking.prices != Prices.RATES or needs_index(self.problem, self.ranking):
            return None
        if self.ranking.kind == Kind.LIFE and self.problem.counts_keys:
            return None  # tuples with one price have clocks of their own
        found = self.statistics.bands()
        return found if found is not None and len(found.price) <= max(_FEW, self.problem.budget.most // 4) else None

    @property
    def is_compiled(self) -> bool:
        """Yes."""
        return True

    @property
    def is_repeatable(self) -> bool:
        """Draws come from the state."""
        return True

    @property
    def totals(self) -> Totals:
        """The counts so far."""
        at = self.memory
        counts = {name: int(at[name]) for name in ("n_input", "n_output", "n_shed", "n_expired", "n_late", "n_done", "n_filtered")}
        rest = {
            "peak_memory": int(at.peak),
            "retained": int(at.live),
            "used": int(self.arrays["pools"].sum()),
            "instant": int(at.instant),
            "next_row": int(at.next_row),
            "n_steps": int(at.steps),
            "n_gains": int(at.gains),
            "n_attempts": int(at.attempts),
        }
        return Totals(**counts, **rest, value=float(at.value))

    @property
    def seen(self) -> Ints:
        """The largest time of each stream."""
        return self.arrays["lanes"]["seen"].copy()

    @property
    def arrivals(self) -> Ints:
        """The rows that have come, by stream."""
        return self.arrays["lanes"]["arrivals"].copy()

    @property
    def held(self) -> Ints:
        """The tuples in memory, by stream."""
        return self.arrays["lanes"]["held"].copy()

    @property
    def structure_bytes(self) -> int:
        """What the engine's own arrays take beside the tuples' numbers: time, row, expiry, stream, key, importance, size."""
        arrays = self.arrays
        own = len(arrays["slots"]) * 25 + len(arrays["groups"]) * 8
        own += sum(len(arrays[name]) * 8 for name in ("ranks", "weights") if len(arrays[name]) > 1)
        return sum(array.nbytes for array in arrays.values()) - own

    @property
    def n_bytes(self) -> int:
        """What all arrays take."""
        return sum(array.nbytes for array in self.arrays.values())

    @property
    def n_examined(self) -> int:
        """The candidates that indexes have offered (joins by links)."""
        return int(self.memory.examined)

    def keys(self) -> Ints:
        """The keys of the tuples in memory, each at least once."""
        if self.memory.indexed:
            return as_columns(self.memory, self.arrays)["key"]
        groups = self.arrays["groups"]
        return groups["key"][groups["members"] > 0]

    def values(self) -> Floats:
        """What links compare, a row per tuple; nothing where keys are compared."""
        if not self.memory.indexed or self.problem.predicate.is_equality:
            return np.empty((0, 0))
        if self.facts is not None:
            return np.asarray(as_columns(self.memory, self.arrays)["values"])
        return from_bits(as_columns(self.memory, self.arrays)["values"], whole=bool(self.memory.whole))

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
                    columns, stop = self._price(batch, columns, position)
                many = self.facts is None and (n > 2 or self.memory.inplace or self.memory.indexed)
                width = len(self.arrays["slots"]) + len(batch) + n if many else 2 * n
                scratch = np.empty((n + SCRATCH, width), dtype=np.int64)
            target = min(stop, position + _CHUNK) if progress else stop
            if self.ranking.kind == Kind.GAIN_LOSS:
                target = set_factors(self.problem, self.arrays["lanes"], int(self.memory.now), batch.time, position, target)
            reached = play(self.memory, times, caps, columns, position, target, logs, scratch)
            if logs.pause[ARRIVAL_AT] >= 0:
                yield self._told(handed_out(logs))
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
        yield replace(self._told(handed_out(logs)), filtered=filtered + int(self.memory.next_row) - len(batch))

    def _told(self, played: Played) -> Played:
        """With the names of facts."""
        if self.facts is not None:
            members = 1 + self.problem.n_streams
            played.outputs[:, members:] = self.facts.names[played.outputs[:, members:]]
        return played

    def know(self, facts: Sequence[Facts]) -> None:
        """The facts from now on: what is in memory is linked anew."""
        if self.facts is None:
            return
        state = as_columns(self.memory, self.arrays) | rate_columns(self.memory, self.arrays)
        self.facts = CompiledFacts.of(self.problem, facts)
        self._move(state, straggling=True)
        if self.memory.dynamic and self.memory.live:
            place = slots_in_order(self.memory, self.arrays)
            self._move(as_columns(self.memory, self.arrays) | {"expiry": leaving(self.memory, place)})
        self._take_rates(state)
        self._count_again()

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

    def retained(self) -> Ints:
        """The rows in memory."""
        return np.sort(self.arrays["slots"]["row"][live_slots(self.memory)])

    def worths(self) -> Worths | None:
        """What tuples are worth now; None where nobody can compare them between engines."""
        return worth.worths(self, live_slots(self.memory))

    def worth_unit(self) -> str:
        """In what tuples are weighed, as text."""
        return worth.unit_of(self)

    def tuples(self) -> dict[str, Any]:
        """The tuples in memory as columns."""
        state = as_columns(self.memory, self.arrays)
        return {name: state.get(name, np.ones(len(state["row"]))) for name in TUPLE}

    def adopt(self, other: Engine) -> None:
        """Begin with the tuples of another engine; what happened before counts nowhere."""
        tuples, seen, totals = other.tuples(), other.seen, other.totals
        stream, expiry = tuples["stream"], tuples["expiry"]
        ordered = rises(np.where(self._by_key(stream), NEVER, expiry), stream, np.full(len(seen), -NEVER))
        state = as_columns(self.memory, self.arrays)
        none = np.zeros(len(stream))
        state |= tuples | {"ground": none.astype(np.int8), "price": none, "score": none, "marks": none.astype(np.int64)}
        if "sums" in state:
            state["sums"] = np.zeros((len(stream), 3), np.int64)
        if "band" in state:
            state["band"] = stream.astype(np.int64) * int(self.memory.patterns)  # nothing is known of their partners
        if "clue" in state:  # nothing is known of their keys
            counts, never = np.zeros((len(stream), len(seen))), np.full((len(stream), len(seen)), -1e18)
            came = seen.max() >> int(self.memory.shift) if len(stream) else 0
            state |= {
                "clue": np.hstack([counts, never]),
                "event": np.full(len(stream), float(came)),
                "step": np.zeros(len(stream), np.int32),
            }
        if self.facts is not None:
            state["values"] = np.asarray(other.values(), dtype=np.int64).reshape(len(stream), int(self.memory.width))
            state["counts"] = np.zeros((len(stream), len(seen)))
        elif self.memory.indexed and len(stream):
            values = tuples["key"][:, None] if self.problem.predicate.is_equality else other.values()
            self.width = values.shape[1]
            state |= {"values": as_bits(values), "count.whole": np.array(values.dtype.kind == "i")}
            if "counts" in state:
                state["counts"] = np.zeros((len(stream), len(seen)))
        state["lane.seen"] = seen
        state["lane.ceiling"] = np.array([expiry[stream == number].max(initial=-NEVER) for number in range(len(seen))])
        state |= {"count.now": seen.max(), "count.instant": totals.instant, "count.next_row": totals.next_row}
        size = max(64, len(stream))
        if self.facts is not None:
            state["ends"] = np.array(expiry)
        self.arrays, self.memory = from_columns(
            self.problem, self.ranking, self.bands, state, slots=size, groups=size, straggling=not ordered, width=self.width,
            facts=self.facts,
        )  # fmt: skip
        if self.facts is not None:
            self._count_again()
        elif self.memory.paired and not self.memory.growing:
            count_all(self.memory, slots_in_order(self.memory, self.arrays))
        self.arrays["lanes"]["arrivals"] = other.arrivals

    def merge(self, others: Sequence[Engine], chosen: Chosen, renumber: Renumber, *, next_row: int, counts: bool, statistics: bool) -> None:
        """Begin with the chosen tuples of other engines."""
        engines = [other for other in others if isinstance(other, CompiledEngine)]
        if self.memory.indexed:
            raise PenstockError("a state that ranks each tuple for itself, not by its key alone, cannot be divided; use a new checkpoint")
        if len(engines) < len(others):
            raise PenstockError("engines must be compiled to be merged; use a new checkpoint")
        shifts = self.statistics.merge([one.statistics.snapshot() for one in engines], renumber) if statistics else None
        parts = [as_columns(one.memory, one.arrays) for one in engines]
        mine = [chosen(of, part["key"]) for of, part in enumerate(parts)]
        kind, prices = self.ranking.kind, self.ranking.prices
        state = merged(as_columns(self.memory, self.arrays), parts, mine, renumber, shifts, kind=kind, prices=prices, counts=counts)
        state["count.next_row"] = np.array(next_row)
        self.origin, size = engines[0].origin, max(64, len(state["time"]))
        sizes = {"slots": size, "groups": size + len(state.get("gone.key", ()))}
        self.arrays, self.memory = from_columns(self.problem, self.ranking, self.bands, state, **sizes, straggling=True)

    def snapshot(self) -> bytes:
        """The state between two batches."""
        file = io.BytesIO()
        columns = as_columns(self.memory, self.arrays)
        if self.facts is not None:
            columns |= rate_columns(self.memory, self.arrays)
        state = {f"memory.{name}": array for name, array in columns.items()}
        state |= {f"statistics.{name}": np.asarray(array) for name, array in self.statistics.snapshot().items()}
        state["origin"] = np.array([NEVER if self.origin is None else self.origin])
        np.savez(file, **state)
        return file.getvalue()

    def restore(self, state: bytes, *, trust: bool = False) -> None:
        """Go on from a snapshot, which is data whether trusted or not."""
        try:
            with np.load(io.BytesIO(state), allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        except (EOFError, ValueError, OSError, zipfile.BadZipFile):
            raise PenstockError(f"state must be a snapshot of this engine, got {len(state)} bytes that are none") from None
        self.statistics.restore(_part(arrays, "statistics."))
        origin = int(arrays["origin"][0])
        self.origin = None if origin == NEVER else origin
        part = _part(arrays, "memory.")
        if not is_sound(part, self.problem.n_streams, len(self.problem.budget.caps), 0 if self.bands is None else len(self.bands.price)):
            raise PenstockError(f"state must be a snapshot of this engine, got {len(state)} bytes with numbers that cannot be in one")
        live = max(64, len(part["time"]))
        sizes = {"slots": live, "groups": live + len(part.get("gone.key", ())), "straggling": bool(part["straggling"])}
        self.width = part["values"].shape[1] if "values" in part else 1
        self.arrays, self.memory = from_columns(self.problem, self.ranking, self.bands, part, **sizes, width=self.width, facts=self.facts)
        if self.facts is not None:
            self._take_rates(part)

    def freeze(self) -> dict[str, Any]:
        """The state as it lies in memory: larger than a snapshot and bound to this version, but nothing has to be linked anew."""
        if self.facts is not None:  # what is known is not of the state, and lies in the same arrays
            return {"columns": self.snapshot()}
        record = {name: self.memory[name].item() for name in RECORD}
        return {"arrays": dict(self.arrays), "record": record, "origin": self.origin, "statistics": self.statistics.freeze()}

    def thaw(self, state: dict[str, Any]) -> None:
        """Go on from what `freeze` gave, in its arrays."""
        if "columns" in state:
            self.restore(state["columns"])
            return
        self.arrays = {name: state["arrays"][name].view(dtype) for name, dtype in ARRAYS.items()}
        self.memory = attach(self.arrays)
        for name, value in state["record"].items():
            self.memory[name] = value
        self.origin = state["origin"]
        self.width = int(self.memory.width) if self.memory.indexed else 1
        self.statistics.thaw(state["statistics"])

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

    def _by_key(self, stream: Ints) -> Bools:
        """Which rows are in windows of the last rows of each key: their expiries are no times."""
        found: Bools = self.arrays["lanes"]["in_rows"][stream] == PER_KEY
        return found

    def _price(self, batch: Batch, columns: BatchColumns, begin: int) -> tuple[BatchColumns, int]:
        """Fill in the rates from row `begin` on; the columns with them, and where they end."""
        if self.facts is not None:
            return self._sift(batch, columns, begin)
        if self.ranking.prices not in (Prices.RATES, Prices.TOTALS, Prices.CHANCES) or self.memory.banded:
            return columns, len(batch)
        if self.memory.indexed and not self.memory.growing:
            return columns, len(batch)
        steps = self.statistics.age(batch, begin)
        if steps:
            groups, slot_prices = self.arrays["groups"], self.arrays["slot_prices"]
            if self.memory.indexed:
                self._weigh_again()
            elif self.ranking.prices == Prices.TOTALS:
                groups["price"] = self.statistics.totals(groups["key"])
            else:
                groups["price"] = self.statistics.reprice(groups["key"], groups["stream"])
            slot_prices["used"] = aged(slot_prices["used"], steps * (self.problem.n_streams - 1))
            rebuild(self.memory)
        if self.ranking.prices == Prices.CHANCES:
            batch = replace(batch, key=columns.key)  # rows that are in no window are of no key
        if self.memory.indexed:
            batch = replace(batch, key=np.where(columns.key < 0, -1, batch.key))
        rates, stop = self.statistics.rates(batch, begin)
        chances = self.statistics.take_chances()
        if chances is not None:
            self.arrays["chances"][:] = chances
            self.memory.renewed = 1
        self.memory.origin, self.memory.half_life, self.memory.moved = self.statistics.units()
        if begin == 0 and stop == len(batch):
            return columns._replace(rates=plain(rates)), stop
        if len(columns.rates) < len(batch):
            columns = columns._replace(rates=np.empty((len(batch), rates.shape[1])))
        columns.rates[begin:stop] = rates
        return columns, stop

    def _sift(self, batch: Batch, columns: BatchColumns, begin: int) -> tuple[BatchColumns, int]:
        """Prepare the rows of some instants from row `begin` on; the columns with them, and where they end."""
        assert self.facts is not None and batch.values is not None
        stop, size = begin, len(batch)
        while stop == begin:
            reached, self.prepared = self.prepared, min(size, self.prepared + max(_ROWS, self.prepared - begin))
            seen = plain(batch.values)
            if prepare(self.memory, columns, seen, reached, self.prepared):
                self.facts.cells_by_link(batch.values[reached : self.prepared])
                self.facts.share(self.memory, self.arrays)
                prepare(self.memory, columns, seen, reached, self.prepared)
            stop = size if self.prepared == size else end_of_chunk(self.memory, columns, begin, self.prepared)
        kept = begin + np.flatnonzero(columns.leaves[begin:stop] != FILTERED)
        if not len(kept):
            return columns, stop
        if self.origin is None:
            self.origin = self.memory.dawn = int(batch.time[kept[0]])
            if self.ranking.column is not None:
                columns = columns._replace(score=plain(self.ranking.column(batch, self.origin)))
        if self.memory.tops:
            weigh_rows(self.memory, columns, columns.score, begin, stop)
        if self.memory.growing == GROWS:
            stop = self._weigh(batch, columns, kept, stop)
        return columns, stop

    def _weigh(self, batch: Batch, columns: BatchColumns, kept: Ints, stop: int) -> int:
        """Fill in what rows that are not filtered weigh; where that ends, because rates must age again, at the latest at `stop`."""
        assert self.facts is not None
        rows = Batch(batch.stream[kept], batch.time[kept], batch.key[kept])
        steps = self.statistics.age(rows, 0)
        if steps:
            fade(self.memory, self.arrays, self.facts, steps)
            self.arrays["slot_prices"]["used"] = aged(self.arrays["slot_prices"]["used"], steps * (self.problem.n_streams - 1))
            self._count_again()
        rates, span = self.statistics.rates(rows, 0)
        columns.rates[kept[:span]] = rates
        self.memory.origin, self.memory.half_life, self.memory.moved = self.statistics.units()
        return int(kept[span]) if span < len(kept) else stop

    def _count_again(self) -> None:
        """Facts or rates are others: take what tuples have counted anew."""
        if self.memory.paired:
            place = slots_in_order(self.memory, self.arrays)
            count_all_through(self.memory, place)
            count_again(self.memory, place)
            rebuild(self.memory)

    def _take_rates(self, state: dict[str, Any]) -> None:
        """Begin with the rates of a state, or with those that are known beforehand."""
        assert self.facts is not None
        if self.memory.growing == STANDS:
            state, self.arrays["lanes"]["mass"] = self.statistics.known_rates()
        if self.memory.growing:
            take_rates(self.memory, self.arrays, self.facts, state)
            weigh_streams(self.memory)

    def _weigh_again(self) -> None:
        """Statistics have forgotten what is old: take the rates of all tuples from what they still know."""
        place, tuples = slots_in_order(self.memory, self.arrays), as_columns(self.memory, self.arrays)
        counts = self.arrays["counts"].reshape(-1, self.problem.n_streams)
        counts[place], self.arrays["lanes"]["mass"] = self.statistics.weigh(
            tuples["stream"], tuples["key"], tuples["values"], tuples.get("importance")
        )
        count_again(self.memory, place)

    def _move(self, state: dict[str, Any] | None = None, *, straggling: bool = False) -> None:
        """Into arrays that are as large, for tuples that may be described otherwise."""
        state = as_columns(self.memory, self.arrays) if state is None else state
        sizes = {name: len(self.arrays[name]) for name in ("slots", "groups", "fresh")}
        straggling |= bool(self.memory.straggling)
        self.arrays, self.memory = from_columns(
            self.problem, self.ranking, self.bands, state, **sizes, straggling=straggling, width=self.width, facts=self.facts
        )

    def _make_room(self, arrivals: int, *, straggling: bool) -> None:
        """Move into larger arrays: by half or a quarter, but not beyond what the budget can ever need."""
        memory, arrays, budget = self.memory, self.arrays, self.problem.budget
        sizes = {"slots": len(arrays["slots"]), "groups": len(arrays["groups"]), "fresh": len(arrays["fresh"])}
        old = dict(sizes)
        needed = int(memory.live) + arrivals
        if sizes["slots"] < needed:
            limit = needed * 5 // 4 if budget.in_bytes else budget.most + arrivals
            sizes["slots"] = max(needed, min(_grown(sizes["slots"]), limit))
        needed = int(memory.live_groups) + arrivals
        if sizes["groups"] < needed:
            limit = needed * 5 // 4 if memory.lasting else max(sizes["slots"], sizes["groups"])
            sizes["groups"] = max(needed, min(_grown(sizes["groups"]), limit))
        sizes["fresh"] = max(sizes["fresh"], arrivals)
        if self.facts is not None:
            self.facts.make_room(memory, arrays, arrivals)
        if sizes != old or straggling != bool(memory.straggling):
            state = as_columns(memory, arrays)
            self.arrays, self.memory = {}, None  # the old arrays need not be there beside the new ones
            del memory, arrays
            self.arrays, self.memory = from_columns(
                self.problem, self.ranking, self.bands, state, **sizes, straggling=straggling, width=self.width, facts=self.facts
            )


def _grown(size: int) -> int:
    """The next size of an array: large ones grow by less, since what is not used is memory too."""
    return 2 * size if size < _SMALL else size * 5 // 4


def _part(arrays: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
