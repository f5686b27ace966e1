"""`penstock reshard`: the state of a stopped query for another number of shards.

All tuples, ghosts and counts of the old shards are taken apart by key and put together again. Tuples keep their numbers, so a ledger
goes on; new ones get numbers that no shard has given. What belongs to no key, such as the totals of the query, goes to the first shard.

Differs from a query that had the new number of shards from the start: which tuples are in memory, since the old shards shed by their
own budgets; and clocks of decayed counts are brought to one, which rounds them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from penstock.core.errors import PenstockError
from penstock.core.trace import Bools, Ints
from penstock.core.value import OBJECTIVES
from penstock.engine.contract import Renumber
from penstock.policies.table import POLICIES
from penstock.shard.division import SPAN, part_of, shard_count
from penstock.shard.keys import KeyBook
from penstock.shard.meter.interval import Crowd, Reach
from penstock.shard.meter.loss import Loss
from penstock.shard.meter.meter import Meter
from penstock.shard.meter.sample import Units
from penstock.shard.payload import Block, Payload
from penstock.shard.shard import Shard
from penstock.shard.shard_ids import shard_ids
from penstock.shard.shard_plan import ShardPlan
from penstock.shard.state.state_rows import ShardState, whole
from penstock.shard.state.state_settings import made_with, plan_of
from penstock.shard.waiting_rows import divided as divide_aside
from penstock.spark.join.stream import comparable
from penstock.spark.reshard.rewrite import StateRows, rewrite_state

Places = Callable[[Sequence[pa.Array]], Ints]
"""The new shard of each key, by the columns of the keys."""

Mine = Callable[[int, int, Ints], Bools]
"""Which keys of an old shard belong to a new one: `mine(new, old, keys)`."""


def reshard(spark: SparkSession, checkpoint: str, shards: int) -> str:
    """Rewrite the state in a checkpoint for another number of shards; where the old checkpoint is now. Interrupted, it is called again."""
    count = shard_count(shards)
    purpose = f"shards={count}"
    return rewrite_state(spark, checkpoint, lambda rows: _rewritten(spark, rows, count), variables=("head", "cells"), purpose=purpose)


def _rewritten(spark: SparkSession, rows: StateRows, count: int) -> StateRows:
    facts = made_with(rows["head"][0][2])
    fixed = facts["fixed"]
    if fixed.get("compared") is not None:
        how = "through relations" if "through" in fixed else f"by {fixed['predicate']!r}"
        raise PenstockError(
            f"the state of a join {how} cannot be divided anew, only that of keys named by on=: its rows may be in shards by cell or by "
            "fact, or be copies in a matrix; use a new checkpoint"
        )
    if not _divisible(fixed, plan_of(facts)):  # before any of the state is read
        raise PenstockError("the state of a policy or value function of yours cannot be divided; use a new checkpoint")
    old = opened(rows)
    plan = old[0].plan
    if not all(shard.engine.is_compiled for shard in old):
        raise PenstockError("the state was begun by an earlier release, step by step, and cannot be divided; use a new checkpoint")
    if any(str(window).startswith("rows:") for window in fixed["window"].values()):
        raise PenstockError("shards must be 1 where a window counts the rows of a whole stream; the state cannot be divided")
    if count == len(plan.shards):
        raise PenstockError(f"shards must differ from what the query has, got {count}")
    ids = shard_ids(count)
    new = divided(old, _planned(plan, ids), lambda columns: _places(spark, columns, count))
    found: StateRows = {"head": [], "cells": []}
    for shard, number in zip(new, ids, strict=True):
        head, cells = whole(shard)
        found["head"].append(((int(number),), None, head))
        found["cells"] += [((int(number),), at, (cell,)) for at, cell in cells.items()]
    return found


def _divisible(fixed: Mapping[str, object], plan: ShardPlan) -> bool:
    """Whether a state is that of the compiled engine, which alone can be divided."""
    own = fixed["policy"] not in POLICIES or fixed.get("objective") not in (None, *OBJECTIVES)
    return not own and Shard(plan).engine.is_compiled


def _planned(plan: ShardPlan, ids: Ints) -> ShardPlan:
    ghosts = max(1, plan.ghosts * len(plan.shards) // len(ids))
    overhead = None if plan.overhead is None else max(1, plan.overhead * len(plan.shards) // len(ids))
    shards = tuple(int(number) for number in ids)
    options = plan.options | {"memory": part_of(plan.budget, plan.streams, len(ids), of=len(plan.shards))}
    return replace(plan, shards=shards, options=options, ghosts=ghosts, overhead=overhead)


def opened(rows: StateRows) -> list[Shard]:
    """The shards in a state, by number."""
    heads = {int(key[0]): head for key, _, head in rows["head"]}
    cells: dict[int, dict[object, object]] = {key: {} for key in heads}
    for key, at, value in rows["cells"]:
        cells[int(key[0])][at] = value
    plan = plan_of(made_with(next(iter(heads.values()))))
    return [
        ShardState(plan, number, lambda head=heads[key]: head, lambda _: None, _Cells(cells[key])).open(None)  # type: ignore[misc]
        for number, key in enumerate(plan.shards)
        if key in heads
    ]


class _Cells(dict[object, object]):
    """A map state, to read."""

    def iterator(self) -> Iterator[tuple[object, object]]:
        return iter(self.items())

    def updateValue(self, key: object, value: object) -> None:  # noqa: N802
        raise NotImplementedError

    def removeKey(self, key: object) -> None:  # noqa: N802
        raise NotImplementedError


def _places(spark: SparkSession, columns: Sequence[pa.Array], count: int) -> Ints:
    """The shard of each key, as `ps.join` has it."""
    if not len(columns[0]):
        return np.empty(0, dtype=np.int64)
    frame = spark.createDataFrame(pa.table({f"k{number}": column for number, column in enumerate(columns)}))
    keys = [comparable(F.col(field.name), field.dataType) for field in frame.schema]
    found = frame.select(F.pmod(F.xxhash64(*keys), F.lit(count)).alias("at")).toArrow()
    return np.asarray(found["at"]).astype(np.int64)


def divided(old: Sequence[Shard], plan: ShardPlan, places: Places) -> list[Shard]:
    """The tuples of the old shards in new ones; `places(key columns)` says which key goes where."""
    types = [field.type for field in plan.schema][: plan.keys]
    books = [shard.book for shard in old]
    book, renumber = _one_book(books)
    out = []
    engines = [shard.engine for shard in old]
    shadows = [shard.meter.shadow for shard in old]
    both = [(of, one) for of, pair in enumerate(zip(engines, shadows, strict=True)) for one in pair if one is not None]
    keys = [renumber(of, one.keys()) for of, one in both]
    latest = max(one.totals.next_row for one in engines)
    keys += [renumber(of, part["key"]) for of, one in enumerate(old) for part in one.meter.past.parts]
    known = np.unique(np.concatenate(keys))
    known = known[known >= 0]
    place = dict(zip(known.tolist(), places(book.columns(known, types)).tolist(), strict=True))

    def mine(number: int, of: int, key: Ints) -> Bools:
        """Which tuples of an old shard belong to a new one; those that match nothing stay in the first."""
        return np.array([place.get(k, 0) == number for k in renumber(of, key).tolist()], dtype=bool)

    aside = divide_aside([shard.aside for shard in old], plan, places)
    for number in range(len(plan.shards)):
        shard = Shard(plan, number)
        shard.aside = aside[number]
        shard.book = _copy(book)
        here, free = partial(mine, number), (latest // SPAN + 1 + number) * SPAN
        shard.engine.merge(engines, here, renumber, next_row=free, counts=number == 0, statistics=True)
        if any(shadow is not None for shadow in shadows):  # some of whose tuples may come from engines
            pairs = [shadow or engine for shadow, engine in zip(shadows, engines, strict=True)]
            shard.meter.begin(shard.engine)
            assert shard.meter.shadow is not None
            shard.meter.shadow.merge(pairs, here, renumber, next_row=free, counts=False, statistics=False)
        _divide_meter([one.meter for one in old], shard.meter, number, renumber)
        _divide_past([one.meter for one in old], shard.meter, number, mine, renumber)
        if number == 0:
            shard.trimmed = np.concatenate([one.trimmed for one in old])
        shard.reserve(shard.aside.used(shard.problem.budget))
        shard.trim()
        for kind in ("payload", "judged"):
            kept = shard.engine.retained() if kind == "payload" else shard.meter.watched(shard.engine)
            setattr(shard, kind, _blocks([getattr(one, kind) for one in old], kept))
        shard.n_null = sum(one.n_null for one in old) if number == 0 else 0
        shard.attempts = sorted({attempt for one in old for attempt in one.attempts})
        out.append(shard)
    return out


def _one_book(books: Sequence[KeyBook]) -> tuple[KeyBook, Renumber]:
    """All names in one book, and how the numbers of each old one read in it."""
    book, maps = KeyBook(lasting=books[0].lasting), []
    for one in books:
        order = np.argsort(one.number)
        maps.append((one.number[order], book.look_up(one.names)[order]))

    def renumber(of: int, key: Ints) -> Ints:
        numbers, new = maps[of]
        odd = np.flatnonzero((key >= 0) & (key % 2 == 1))
        out = key.copy()
        if len(numbers):
            at = np.minimum(np.searchsorted(numbers, key[odd]), len(numbers) - 1)
            named = numbers[at] == key[odd]  # others are counted without a name, by a number that is the same in all books
            out[odd[named]] = new[at[named]]
        return out

    return book, renumber


def _copy(book: KeyBook) -> KeyBook:
    new = KeyBook()
    vars(new).update(vars(book))
    return new


def _divide_meter(old: Sequence[Meter], new: Meter, number: int, renumber: Renumber) -> None:
    new.q = min(one.q for one in old)
    new.heavy = np.unique(np.concatenate([renumber(of, one.heavy) for of, one in enumerate(old)]))
    new.blind_until = max(one.blind_until for one in old)
    units = [renumber(of, one.units.unit) if new.by_key else one.units.unit for of, one in enumerate(old)]
    order = np.argsort(np.concatenate(units))
    new.units = Units(np.concatenate(units)[order], np.concatenate([one.units.sums for one in old])[order])
    new.dearest = max(one.dearest for one in old)
    new.reach = Reach.joined([one.reach for one in old])
    new.crowd = Crowd.joined([one.crowd for one in old])
    new.total = Loss()
    if number == 0:
        for one in old:
            new.total.add(one.total)


def _divide_past(old: Sequence[Meter], new: Meter, number: int, mine: Mine, renumber: Renumber) -> None:
    """Rows that came in different shards at the same time follow each other by their numbers, which says enough: all have been played."""
    pasts = [one.past for one in old]
    for of, past in enumerate(pasts):
        for part in past.parts:
            here = mine(number, of, part["key"])
            own = {name: column[here] for name, column in part.items()} | {"key": renumber(of, part["key"][here])}
            new.past.parts += [own] if here.any() else []
    new.past.passed, new.past.forgotten = max(past.passed for past in pasts), max(past.forgotten for past in pasts)
    new.past.stretches = np.concatenate([past.stretches for past in pasts])
    new.unkept = any(one.unkept for one in old)


def _blocks(old: Sequence[Payload], retained: Ints) -> Payload:
    """The payload of what is retained, one block per stream."""
    new = Payload()
    blocks = [block for one in old for block in one.blocks.values()]
    for stream in sorted({block.stream for block in blocks}):
        mine = [block for block in blocks if block.stream == stream]
        rows = np.concatenate([block.rows for block in mine])
        here = np.flatnonzero(np.isin(rows, retained))
        here = here[np.argsort(rows[here])]
        if len(here):
            table = pa.concat_tables([block.table for block in mine]).take(pa.array(here)).combine_chunks()
            new.blocks[new.next] = Block.of(stream, rows[here], table)
            new.next += 1
    return new
