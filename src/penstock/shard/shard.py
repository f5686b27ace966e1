"""One shard: an engine, the numbers of its keys, the payload of its tuples and the loss meter. Spark-free, so that it can be tested alone.

A batch of rows comes in, is put into the order of play, played, joined with its payload, and counted.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch
from penstock.core.budget import TUPLE_OVERHEAD
from penstock.core.errors import PenstockError
from penstock.core.problem import Problem
from penstock.core.trace import MOST, Floats, Ints
from penstock.core.window import COUNTING
from penstock.engine.contract import Engine, Keep, Played, Totals
from penstock.engine.opening import is_stepwise, open_engine
from penstock.ledger.manifest import Attempt
from penstock.policies.table import POLICIES, open_policy
from penstock.shard.cells import UNKNOWN, ticks
from penstock.shard.counts import PLAYED, TOTAL
from penstock.shard.division import LIVE, SPAN, for_tuples
from penstock.shard.facts.followed import Versions
from penstock.shard.facts.shard_facts import ShardFacts
from penstock.shard.facts.unlinked import without_values
from penstock.shard.given_rates import source_of
from penstock.shard.keys import LASTING, KeyBook
from penstock.shard.late_rows import broken_promises, without_refused
from penstock.shard.meter.loss import Loss
from penstock.shard.meter.meter import Meter
from penstock.shard.overhead import for_statistics, ghost_of, ghosts_in, place_of
from penstock.shard.payload import Changes, Payload
from penstock.shard.predicate_columns import LINKS, compared_columns, numbers_in
from penstock.shard.results.joined_rows import JoinedRows, judged_names
from penstock.shard.results.ledger_rows import LedgerRows
from penstock.shard.results.output_limit import Quota
from penstock.shard.row_bytes import row_bytes
from penstock.shard.row_order import ranks
from penstock.shard.shard_plan import IMPORTANCE, ShardPlan
from penstock.shard.shares.holding import Holding
from penstock.shard.shares.next_shares import Summary
from penstock.shard.stream_window import lifetimes_of, without_dead
from penstock.shard.waiting_rows import Aside, Tables, Told
from penstock.statistics.table import open_running


@dataclass
class Result:
    """What a shard returns of a batch."""

    counts: dict[str, float]
    changes: dict[str, Changes]  # in its blocks: of payload, and of what a condition looks at
    batch: Batch  # as it was played
    names: tuple[pa.Array, Ints]  # of the keys that are new in this batch, and their numbers
    arrived: list[pa.Table | None] = field(default_factory=list)  # for the ledger: by stream, the rows with `row` and `arrived`
    left: pa.Table | None = None
    aside: list[pa.Table | None] = field(default_factory=list)  # for the ledger: the rows that wait from this batch on
    late: int = 0  # rows that broke the promise of their lateness, beside those that the engine counted
    joined: list[pa.Table] = field(default_factory=list)  # the joined rows, where they have not been handed out piece by piece


def _forgetting(part: Played) -> Played:
    """What is played without its outputs; a part of their array would keep all of it."""
    return replace(part, outputs=part.outputs[:0].copy())


class Shard:
    """The memory of one shard and its engine."""

    def __init__(self, plan: ShardPlan, number: int = 0) -> None:
        self.plan, self.number = plan, number
        options = dict(plan.options)
        policy = options.pop("policy")
        options |= {"has_importance": plan.has_importance, "has_lifetime": plan.lifetimes}
        options |= {} if plan.through is None else {"through": plan.through.through}
        self.problem = Problem.of(plan.streams, clock="streams", **options)
        if self.problem.budget.in_bytes:
            caps = self.problem.budget.caps
            caps[:] = for_tuples(caps, plan.overhead or 0)
        self.holding = Holding(self.problem.budget, len(plan.streams))
        self.caps = self.holding.caps  # what the engine may hold where nothing is put aside
        self.engine = self._open(policy)
        self.engine.number_from(number * SPAN)
        self.book = KeyBook(lasting=self.problem.predicate.is_equality)
        self.meter = Meter(self.problem, self._most_ghosts(), wants_rows=plan.judged is not None)
        self.facts = None if plan.through is None else ShardFacts(plan.through, number, len(plan.shards), self.problem.stays)
        self.joined = JoinedRows(plan, self.problem.objective, self.facts)
        self.recorded = LedgerRows(plan, self.problem)
        self.payload = Payload()
        self.judged = Payload()  # of memory and ghosts: the columns of the condition
        self.trimmed = np.empty(0, dtype=np.int64)  # rows that a smaller budget drove out, before the next batch
        self.trimmed_at = 0
        self.n_null = self.n_filtered = 0  # rows without a time, and those that nothing links, all over
        self.attempts: list[Attempt] = []  # what the ledger has of it last; of all shards, where their number has changed since
        self.aside = Aside(plan)
        self.files: dict[tuple[str, int], str] = {}  # of its blocks on this machine (state/local_copy.py)
        self.knows = plan.through is None  # whether its engine has been told the facts that link its tuples

    def _open(self, policy: Any, *, stepwise: bool = False) -> Engine:
        room = None if self.plan.overhead is None else for_statistics(self.plan.overhead)
        chosen = open_policy(policy, self.problem, room=room)
        self.chosen = chosen.name
        self.place = TUPLE_OVERHEAD if room is None else place_of(self.problem, chosen)  # what a tuple weighs beside its Arrow bytes
        self.policy = list(POLICIES).index(chosen.name) if chosen.name in POLICIES else -1
        keep = Keep(outputs=True, sheds=True, expired=True, done=True)
        given = source_of(self.plan.given, self.problem) if self.problem.stats == "given" else None
        statistics = open_running(self.problem, chosen, room, given)
        self.room = statistics.room
        return open_engine(self.problem, chosen, statistics, keep, stepwise=stepwise)

    def go_on(self, state: bytes | dict[str, Any], *, trust: bool = False) -> None:
        """Have an engine go on from what one gave: a snapshot, or what it froze. What the stepwise engine began it plays on."""
        if self.engine.is_compiled and is_stepwise(state):
            self.engine = self._open(self.plan.options["policy"], stepwise=True)
        self.knows = self.plan.through is None
        if isinstance(state, bytes):
            self.engine.restore(state, trust=trust)
        else:
            self.engine.thaw(state)

    def _know(self, batch: Batch | None = None) -> None:
        """Tell the engine the facts of this shard that tuples have, and rows of a batch; no state holds them."""
        if self.facts is not None and not (self.knows and batch is None):
            values = [*self.meter.values(self.engine), *([] if batch is None or batch.values is None else [batch.values])]
            facts = self.facts.in_use(np.concatenate(values).astype(np.int64))
            if not self.knows or any(one is not other for one, other in zip(facts, self.meter.facts, strict=True)):
                self.engine.know(facts)
                self.meter.know(facts)
            self.knows = True

    def see(self, versions: Versions) -> None:
        """The versions of relations that the next batch sees."""
        if self.facts is not None and versions:
            self.facts.see(versions, int(self.engine.seen.max()))
            self.knows = False

    def _most_ghosts(self) -> int:
        """How many ghosts the meter may keep: so many as were asked for, if they have room."""
        if self.plan.overhead is None:
            return self.plan.ghosts
        room = self.plan.overhead - self.room
        return min(self.plan.ghosts, ghosts_in(room, len(self.book.number), self.book.name_bytes, ghost_of(self.problem)))

    def sift(self, tables: Tables, told: Told) -> tuple[Tables, Ints]:
        """Before a batch is played: its rows that are not ahead, those that need wait no longer, and the clocks of the streams."""
        if self.plan.ahead is None and not self.aside.n_ahead:
            self.reserve(self.aside.used(self.problem.budget))
            return tables, told.clocks
        room = self.caps.min(axis=0) // 2  # so that what is ahead cannot drive out everything else
        sifted, clocks = self.aside.sift(tables, told, self.engine.seen, self.problem.budget, room)
        self.reserve(self.aside.used(self.problem.budget))
        return sifted, clocks

    def hold(self, share: Ints) -> None:
        """Have this share of the memory from the next `reserve` on, which sheds what has no room in it."""
        self.holding.take(share)
        self.caps = self.holding.caps

    def summary(self, batch: int, heard: tuple[int, ...] = ()) -> Summary:
        """What other shards are told after a batch, by one that has `heard` so much of them."""
        self.holding.heard = heard
        return self.holding.summary(self.engine, self.problem, batch=batch, shard=self.number, shards=len(self.plan.shards))

    def reserve(self, used: Ints) -> None:
        """Leave so much of each pool to rows that are put aside."""
        caps = self.problem.budget.caps
        left = np.maximum(1, self.caps - used)
        less = (left < caps).any()
        caps[:] = left
        if less and self.engine.totals.used > caps.min():
            self.trim()

    def play(self, tables: Sequence[pa.Table | None], clocks: Ints) -> Result:
        """Play one micro-batch, and hold all of its joined rows."""
        pieces, joined = self.pieces(tables, clocks), []
        while True:
            try:
                joined.append(next(pieces))
            except StopIteration as end:
                return replace(end.value, joined=joined)

    def pieces(self, tables: Sequence[pa.Table | None], clocks: Ints, quota: Quota | None = None) -> Generator[pa.Table, None, Result]:
        """Play one micro-batch: the rows of each stream, and how far each stream has come in all shards.

        Joined rows are handed out while it is played: all at once may be many times what is held. What it returns then is the rest.
        """
        before, names_from, trimmed = self.engine.totals, len(self.book.number), len(self.trimmed)
        tables, refused = without_refused(tables, self.plan.times, self.problem, self.engine.seen)
        batch, places = self._arrange(tables)
        self._know(batch)
        names = self.book.since(names_from)  # before any is forgotten: who plays the batch again must forget the same
        broken = broken_promises(batch, self.engine.seen, self.problem)
        first_row = before.next_row
        for stream, (table, rows) in enumerate(zip(tables, places, strict=True)):
            if table is not None and len(rows):
                self._take_in(stream, table, first_row + rows)
        self.meter.before(batch, self.engine)
        parts = []
        for part in self.engine.pieces(batch):
            if quota is not None:
                quota.take(len(part.outputs))
            yield from self.joined.made(self.payload, part.outputs)
            parts.append(_forgetting(part))
        played = Played.join(parts, len(self.plan.streams), len(self.problem.through))
        for missed, weight in self.meter.missed(batch, self.engine, before, played):
            if self.plan.judged is not None:
                yield from self.joined.lost(self.judged, missed, weight)
        departed, left = self._end(played, clocks)
        if self.plan.shared is not None:
            self.holding.note(batch, self.problem, int(self.engine.seen.max()))
        changes = {"block": self.payload.close(departed, self._limit())}
        if self.plan.judged is not None:
            changes["judged"] = self.judged.close(self._unwatched())
        late = refused + broken - (self.engine.totals.n_late - before.n_late)  # beside those that the engine counted
        self.engine.count_late(late)
        changes |= self.aside.changes()
        result = Result(self._counts(before, self.meter.loss, trimmed), changes, batch, names, late=late)
        if self.plan.archive is not None:
            result.arrived, result.left = self.recorded.arrived(tables, places, batch, before), left
            self._record_aside(result)
        return result

    def _limit(self) -> int | None:
        """The bytes that payload may take, dead or alive, where the budget is in bytes."""
        budget = self.problem.budget
        if not budget.in_bytes:
            return None
        return int(budget.at(int(self.engine.seen.max())).sum() / LIVE) - self.place * self.engine.totals.retained

    def _unwatched(self) -> Ints:
        """The rows that no lost output can have in it any more."""
        held = [block.rows for block in (*self.judged.blocks.values(), *self.judged.new)]
        return np.setdiff1d(np.concatenate([np.empty(0, np.int64), *held]), self.meter.watched(self.engine), assume_unique=True)

    def replay(self, batch: Batch, clocks: Ints) -> None:
        """Go through a batch again for what it leaves behind; payload is not touched."""
        self._know(batch)
        before = self.engine.totals
        self.meter.before(batch, self.engine)
        parts = [_forgetting(part) for part in self.engine.pieces(batch)]
        played = Played.join(parts, len(self.plan.streams), len(self.problem.through))
        for _ in self.meter.missed(batch, self.engine, before, played):
            pass
        self._advance(clocks)
        self.trimmed = self.trimmed[:0]

    def _arrange(self, tables: Sequence[pa.Table | None]) -> tuple[Batch, list[Ints]]:
        """All rows in the order of play, by time, stream and `order`; and the place of each row of each stream in it."""
        parts = [table for table in tables if table is not None and table.num_rows]
        streams = [number for number, table in enumerate(tables) if table is not None and table.num_rows]
        sizes = [part.num_rows for part in parts]
        time = np.concatenate([np.empty(0, np.int64), *(ticks(part[self.plan.times[n]]) for n, part in zip(streams, parts, strict=True))])
        stream = np.repeat(np.array(streams, dtype=np.int64), sizes)
        order = np.argsort(time, kind="stable")
        rises, along = time[order], stream[order]
        if ((rises[1:] == rises[:-1]) & (along[1:] == along[:-1])).any():
            order = np.lexsort((np.concatenate([ranks(part) for part in parts]), stream, time))
            along = stream[order]
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        found = self._compared(parts, streams, place) if self.plan.sent and parts else {}
        if not self.plan.sent or not parts:
            found["key"] = np.concatenate([np.empty(0, np.int64), *(self.book.numbers(self._keys(part)) for part in parts)])
        key = without_dead(self.problem, stream, time, found["key"])
        lifetime = lifetimes_of(self.problem, stream, time, parts, streams)
        lifetime = None if lifetime is None else lifetime[order]
        importance = self._importances(parts, streams)[order] if self.plan.has_importance and parts else None
        weights = [row_bytes(without_values(part)) for part in parts if self.problem.budget.in_bytes]
        size = np.concatenate(weights)[order] + (self.place - TUPLE_OVERHEAD) if weights else None  # the engine adds the rest
        ends = np.cumsum([0, *sizes])
        places = [np.empty(0, np.int64) for _ in tables]
        for number, begin, end in zip(streams, ends, ends[1:], strict=False):
            places[number] = place[begin:end]
        rest = {name: column[order] for name, column in (found | {"key": key}).items()}
        batch = Batch(along, rises, importance=importance, lifetime=lifetime, size=size, **rest)
        return self.engine.statistics.priced(self.problem, batch), places

    def _compared(self, parts: list[pa.Table], streams: list[int], place: Ints) -> dict[str, Any]:
        """What the predicate compares, as columns of a batch: numbers as they are, and of everything else the numbers of its values."""
        return compared_columns(self.plan, self.problem, self.book, parts, streams, self.engine.totals.next_row + place)

    def _importances(self, parts: list[pa.Table], streams: list[int]) -> Floats:
        found = [np.asarray(part[IMPORTANCE].to_numpy(), dtype=np.float64) for part in parts]
        for stream, column in zip(streams, found, strict=True):
            bad = np.flatnonzero(~((column > 0) & (column <= MOST)))
            if len(bad):
                raise PenstockError(f"importance of stream {self.plan.streams[stream]} must be above 0 and finite, got {column[bad[0]]}")
        return np.concatenate(found)

    def _keys(self, table: pa.Table) -> list[pa.Array]:
        return [table[f"key{number}"] for number in range(self.plan.keys)]

    def _take_in(self, stream: int, table: pa.Table, rows: Ints) -> None:
        """Hold the payload of new rows, by row."""
        if (rows[1:] < rows[:-1]).any():
            order = np.argsort(rows, kind="stable")  # each task sent its rows in order: a few runs to merge
            rows, table = rows[order], table.take(pa.array(order))
        kept = [*self.plan.payload[stream], *([IMPORTANCE] if self.plan.has_importance else [])]
        keys = [f"key{number}" for number in range(self.plan.keys)]
        self.payload.add(stream, rows, table.select([*(keys if stream == 0 else ()), *kept]))
        if self.plan.judged is not None:
            worth = [IMPORTANCE] if self.plan.has_importance else []
            names = judged_names(self.plan, self.plan.judged[stream])
            self.judged.add(stream, rows, table.select([*names, *worth]))

    def _advance(self, clocks: Ints) -> Ints:
        """Take note of the clocks of all shards; the rows that expire with them."""
        expired = np.empty(0, dtype=np.int64)
        if (clocks > UNKNOWN).any():
            expired = self.engine.advance(clocks)
            self.meter.ghosts = self._most_ghosts()
            self.meter.advance(clocks, self.engine)
        if self.book.is_crowded:
            self.book.prune(self._keys_in_use())
        return expired

    def _keys_in_use(self) -> Ints:
        """The numbers that memory, ghosts and statistics refer to; of those that last, statistics need no name."""
        engines = [one for one in (self.engine, self.meter.shadow) if one is not None]
        known = [*(one.keys() for one in engines), *(part["key"] for part in self.meter.past.parts)]
        if self.book.lasting and not (self.book.number < LASTING).any():
            return np.concatenate(known)
        statistics = self.engine.statistics
        known.append(statistics.keys())
        if self.problem.predicate.name == LINKS:
            compared = [one.values() for one in engines] + [part["values"] for part in self.meter.past.parts]
            known += map(numbers_in, [*compared, statistics.values()])
        return np.concatenate(known)

    def _end(self, played: Played, clocks: Ints) -> tuple[Ints, pa.Table]:
        """End the batch: who has left the memory, and in which instant last."""
        trimmed, self.trimmed = self.trimmed, self.trimmed[:0]
        start = self.engine.totals.instant
        expired = self._advance(clocks)
        rows = np.concatenate([trimmed, played.sheds, played.done, played.expired, expired])
        at = [np.full(len(trimmed), self.trimmed_at), played.shed_at, played.done_at, played.expired_at, np.full(len(expired), start)]
        return rows, pa.table({"row": rows, "left": np.concatenate(at)})

    def trim(self) -> None:
        """Shed down to the budget, which may be smaller than it was."""
        self._know()
        self.trimmed_at = self.engine.totals.instant
        exact = self.meter.shadow is None
        if exact:
            self.meter.begin(self.engine)
        trimmed = self.engine.trim()
        if exact and not len(trimmed):
            self.meter.shadow = None  # it need not have begun
        self.trimmed = np.concatenate([self.trimmed, trimmed])

    def _record_aside(self, result: Result) -> None:
        """Rows that wait from now on, and those that were dropped: they have come, and have met nobody.

        The numbers of the dropped are below 0, from where no engine counts.
        """
        result.aside = self.recorded.waiting(self.aside.came)
        if any(window.kind in COUNTING for window in self.problem.windows):
            return  # rows that are not played do not count there
        last = -1 - (self.number * SPAN + self.aside.numbered - self.aside.n_gone)
        for stream, own in enumerate(self.recorded.dropped(self.aside.dropped, last, self.engine.totals.instant)):
            if own is not None:
                there, at = result.arrived[stream], self.engine.totals.instant - 1
                result.arrived[stream] = own if there is None else pa.concat_tables([there, own.cast(there.schema)])
                left = pa.table({"row": own["row"], "left": np.full(own.num_rows, at)})
                result.left = pa.concat_tables([result.left, left])

    def _counts(self, before: Totals, loss: Loss, trimmed: int) -> dict[str, float]:
        """The counts of the batch, those of the life of the shard with the prefix `total_`, and what is held now."""
        totals = self.engine.totals
        counts = {name: getattr(totals, name) - getattr(before, name) for name in _PLAYED} | vars(loss)
        counts["n_shed"] += trimmed
        counts |= {TOTAL + name: getattr(totals, name) for name in _PLAYED}
        counts |= {TOTAL + name: value for name, value in vars(self.meter.total).items()}
        counts |= {f"held_{number}": int(held) for number, held in enumerate(self.engine.held + self.aside.held)}
        waiting = int(self.aside.held.sum())
        for name in ("n_input", "n_shed"):  # what was dropped has come and gone
            counts[name] += self.aside.n_gone
            counts[TOTAL + name] += self.aside.n_dropped
        came, late, doubt = (0, 0, False) if self.facts is None else self.facts.late(self.meter.horizon)
        counts |= {"n_late_facts": came, "total_n_late_facts": late}
        for prefix, gone in (("", self.aside.n_gone or doubt), (TOTAL, self.aside.n_dropped or late)):
            if gone:  # what it would have made with rows that are yet to come, or have been, nobody can count, nor bound
                counts |= {f"{prefix}{name}": value for name, value in _UNKNOWN.items()}
        counts |= {"n_ahead": self.aside.n_came, "total_n_ahead": self.aside.n_ahead, "retained_ahead": waiting}
        size = self.payload.n_bytes + TUPLE_OVERHEAD * totals.retained + self.aside.n_bytes
        counts |= {"retained_rows": totals.retained + waiting, "retained_bytes": size}
        statistics, ghosts = self.engine.statistics, self.meter.past.n_bytes + (self.meter.shadow.n_bytes if self.meter.shadow else 0)
        counts |= {"overhead_statistics": statistics.n_bytes, "overhead_sketched": int(statistics.is_sketch)}
        counts |= {"overhead_ghosts": ghosts, "overhead_index": self.engine.n_bytes + self.book.n_bytes}
        part = self.holding.part
        return counts | {"policy": self.policy, "share": part, "share_most": part, "share_least": 1 / part}


_UNKNOWN = {"estimated": 1.0, "unknown": np.inf, "unknown_value": np.inf}
_PLAYED = tuple(count.name for count in PLAYED)
