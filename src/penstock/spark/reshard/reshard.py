"""`penstock reshard`: the state of a stopped query for another number of shards.

All tuples, ghosts and counts of the old shards are taken apart by key and put together again. Tuples keep their numbers, so a ledger
goes on; new ones get numbers that no shard has given. What belongs to no key, such as the totals of the query, goes to the first shard.

Differs from a query that had the new number of shards from the start: which tuples are in memory, since the old shards shed by their
own budgets; and clocks of decayed counts are brought to one, which rounds them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from penstock.core.budget import Budget
from penstock.core.errors import PenstockError
from penstock.core.trace import Floats, Ints
from penstock.core.value import OBJECTIVES
from penstock.engine.compiled.engine import FastEngine
from penstock.engine.contract import Engine
from penstock.engine.ranking_codes import Kind
from penstock.policies.table import POLICIES
from penstock.shard.division import SPAN, shard_count
from penstock.shard.keys import KeyBook
from penstock.shard.meter.interval import Crowd, Reach
from penstock.shard.meter.loss import Loss
from penstock.shard.meter.meter import Meter
from penstock.shard.meter.sample import Units
from penstock.shard.payload import Block, Payload
from penstock.shard.shard import Shard
from penstock.shard.shard_ids import shard_ids
from penstock.shard.shard_plan import Plan
from penstock.shard.state_rows import Vault, plan_of, unzipped, whole, zipped
from penstock.shard.waiting_rows import divided as divide_aside
from penstock.spark.join.stream import comparable
from penstock.spark.reshard.rewrite import StateRows, rewrite_state
from penstock.statistics.bounded import folded

_SUMMED = ("n_input", "n_output", "n_shed", "n_expired", "n_late", "steps", "gains", "attempts", "made", "value", "importance_seen")
_TUPLE = tuple(
    f"memory.{name}"
    for name in ("time", "row", "expiry", "stream", "ground", "importance", "score", "marks", "weights", "key", "price", "band")
)
_LARGEST = ("now", "instant", "next_row", "peak")


def reshard(spark: SparkSession, checkpoint: str, shards: int) -> str:
    """Rewrite the state in a checkpoint for another number of shards; where the old checkpoint is now. Interrupted, it is called again."""
    count = shard_count(shards)
    purpose = f"shards={count}"
    return rewrite_state(spark, checkpoint, lambda rows: _rewritten(spark, rows, count), variables=("head", "cells"), purpose=purpose)


def _rewritten(spark: SparkSession, rows: StateRows, count: int) -> StateRows:
    made_with = json.loads(rows["head"][0][2][1])["fixed"]
    if made_with.get("compared") is not None:
        raise PenstockError(
            f"the state of a join by {made_with['predicate']!r} cannot be divided anew, only that of keys named by on=: its rows may be in "
            "shards by cell, or be copies in a matrix; use a new checkpoint"
        )
    if not _divisible(made_with, plan_of(json.loads(rows["head"][0][2][1]))):  # before any of the state is read
        raise PenstockError("the state of a policy or value function of yours or of rows_per_key cannot be divided; use a new checkpoint")
    old = opened(rows)
    plan = old[0].plan
    if any(str(window).startswith("rows:") for window in made_with["window"].values()):
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


def _divisible(made_with: dict[str, Any], plan: Plan) -> bool:
    """Whether a state is that of the compiled engine, which alone can be divided."""
    own = made_with["policy"] not in POLICIES or made_with.get("objective") not in (None, *OBJECTIVES)
    return not own and isinstance(Shard(plan).engine, FastEngine)


def _planned(plan: Plan, ids: Ints) -> Plan:
    ghosts = max(1, plan.ghosts * len(plan.shards) // len(ids))
    overhead = None if plan.overhead is None else max(1, plan.overhead * len(plan.shards) // len(ids))
    shards = tuple(int(number) for number in ids)
    return replace(plan, shards=shards, options=_split_anew(plan, len(ids)), ghosts=ghosts, overhead=overhead)


def _split_anew(plan: Plan, count: int) -> dict[str, Any]:
    """The options with the budget of one of `count` shards instead of one of those there are."""
    memory = Budget.parse(plan.options["memory"], plan.streams, allocation=plan.options.get("allocation") or "variable")
    caps = memory.caps * len(plan.shards) // count
    amounts = {name: f"{cap} b" if memory.in_bytes else int(cap) for name, cap in zip(plan.streams, caps[0], strict=False)}
    alone = len(caps[0]) == 1
    return plan.options | {"memory": next(iter(amounts.values())) if alone else amounts}


def opened(rows: StateRows) -> list[Shard]:
    """The shards in a state, by number."""
    heads = {int(key[0]): head for key, _, head in rows["head"]}
    cells: dict[int, dict[Any, Any]] = {key: {} for key in heads}
    for key, at, value in rows["cells"]:
        cells[int(key[0])][at] = value
    plan = plan_of(json.loads(next(iter(heads.values()))[1]))
    return [
        Vault(plan, number, lambda head=heads[key]: head, lambda _: None, _Cells(cells[key])).open(None)  # type: ignore[misc]
        for number, key in enumerate(plan.shards)
        if key in heads
    ]


class _Cells(dict[Any, Any]):
    """A map state, to read."""

    def iterator(self) -> Iterator[tuple[Any, Any]]:
        return iter(self.items())

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802
        raise NotImplementedError

    def removeKey(self, key: Any) -> None:  # noqa: N802
        raise NotImplementedError


def _places(spark: SparkSession, columns: Sequence[pa.Array], count: int) -> Ints:
    """The shard of each key, as `ps.join` has it."""
    if not len(columns[0]):
        return np.empty(0, dtype=np.int64)
    frame = spark.createDataFrame(pa.table({f"k{number}": column for number, column in enumerate(columns)}))
    keys = [comparable(F.col(field.name), field.dataType) for field in frame.schema]
    found = frame.select(F.pmod(F.xxhash64(*keys), F.lit(count)).alias("at")).toArrow()
    return np.asarray(found["at"]).astype(np.int64)


def divided(old: Sequence[Shard], plan: Plan, places: Any) -> list[Shard]:
    """The tuples of the old shards in new ones; `places(key columns)` says which key goes where."""
    types = [field.type for field in plan.schema][: plan.keys]
    books = [shard.book for shard in old]
    book, renumber = _one_book(books)
    out = []
    states = [_engine_state(shard.engine) for shard in old]
    shadows = [None if shard.meter.shadow is None else _engine_state(shard.meter.shadow) for shard in old]
    both = [(of, state) for of, pair in enumerate(zip(states, shadows, strict=True)) for state in pair if state is not None]
    keys = [renumber(of, state["memory.key"]) for of, state in both]
    keys += [renumber(of, part["key"]) for of, one in enumerate(old) for part in one.meter.past.parts]
    known = np.unique(np.concatenate(keys))
    known = known[known >= 0]
    place = dict(zip(known.tolist(), places(book.columns(known, types)).tolist(), strict=True))

    def mine(number: int, of: int, key: Ints) -> Any:
        """Which tuples of an old shard belong to a new one; those that match nothing stay in the first."""
        return np.array([place.get(k, 0) == number for k in renumber(of, key).tolist()], dtype=bool)

    aside = divide_aside([shard.aside for shard in old], plan, places)
    for number in range(len(plan.shards)):
        shard = Shard(plan, number)
        shard.aside = aside[number]
        shard.book = _copy(book)
        shard.engine.restore(_joined(states, shard.engine, number, mine, renumber))
        if any(shadows):
            pairs = [shadow or state for shadow, state in zip(shadows, states, strict=True)]
            shard.meter.begin(shard.engine)
            assert shard.meter.shadow is not None
            shard.meter.shadow.restore(_joined(pairs, shard.meter.shadow, number, mine, renumber, counts=False))
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


def _one_book(books: Sequence[KeyBook]) -> tuple[KeyBook, Any]:
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


def _engine_state(engine: Engine) -> dict[str, Any]:
    return unzipped(engine.snapshot())


def _joined(states: Sequence[dict[str, Any]], engine: Engine, number: int, mine: Any, renumber: Any, *, counts: bool = True) -> bytes:
    """The snapshot of a new engine, from those of the old ones."""
    out = _engine_state(engine)
    chosen = [mine(number, of, state["memory.key"]) for of, state in enumerate(states)]
    clocks = [_clock(state) for state in states]
    latest = max(clocks)
    columns = [name for name in _TUPLE if name in out]
    parts: dict[str, list[Any]] = {name: [] for name in columns}
    for of, state in enumerate(states):
        here = chosen[of]
        for name in columns:
            column = state[name][here] if name in state else np.zeros(np.count_nonzero(here), out[name].dtype)
            if name == "memory.key":
                column = renumber(of, column)
            elif name == "memory.price":
                column = column * 2.0 ** ((clocks[of] - latest) * (len(states[0]["memory.lane.seen"]) - 1))
            elif name == "memory.score" and "memory.lane.offset" in state:
                column = column - state["memory.lane.offset"][state["memory.stream"][here]]
            parts[name].append(column)
    merged = {name: np.concatenate(found) for name, found in parts.items()}
    order = np.argsort(merged["memory.row"])
    out |= {name: column[order] for name, column in merged.items()}
    out |= _marks(out, engine)
    lanes = {name: np.stack([state[f"memory.lane.{name}"] for state in states]) for name in ("seen", "arrivals", "clock", "ceiling")}
    out |= {f"memory.lane.{name}": found.max(axis=0) for name, found in lanes.items()}
    out["memory.lane.offset"] = np.zeros_like(out["memory.lane.offset"])
    for name in _LARGEST:
        out[f"memory.count.{name}"] = np.array(max(int(state[f"memory.count.{name}"]) for state in states))
    out["memory.count.next_row"] = np.array((int(out["memory.count.next_row"]) // SPAN + 1 + number) * SPAN)
    for name in _SUMMED:
        total = sum(state[f"memory.count.{name}"] for state in states) if number == 0 and counts else 0
        out[f"memory.count.{name}"] = np.asarray(total, dtype=out[f"memory.count.{name}"].dtype)
    if counts:  # a shadow, some of whose tuples may come from engines, has no statistics
        for name in ("origin", "moved", "dawn", "half_life"):
            out[f"memory.count.{name}"] = states[clocks.index(latest)][f"memory.count.{name}"]
        out |= _statistics(states, clocks, latest, renumber)
    if "memory.band" in out:  # what all shards have learned of existence patterns
        made, seen = (np.sum([state[f"memory.band.{name}"] for state in states], axis=0) for name in ("made", "seen"))
        done = out["memory.band.price"] < 0
        out |= {"memory.band.made": made, "memory.band.seen": seen, "memory.band.price": np.where(done, -1.0, made / np.maximum(seen, 1))}
    out["memory.pools"] = np.empty(0, np.int64)  # counted again
    out["memory.straggling"] = np.array(True)  # the chains of several shards do not follow each other
    out["origin"] = states[0]["origin"]
    return zipped(out)


def _marks(state: dict[str, Any], engine: Engine) -> dict[str, Any]:
    """What fifo and rand remember of a tuple: its age, older than all that comes; or its place among those to draw from."""
    assert isinstance(engine, FastEngine)
    stream, time = state["memory.stream"], state["memory.time"]
    drawable = np.bincount(stream, minlength=len(state["memory.lane.seen"]))
    if engine.ranking.kind == Kind.ARRIVAL:
        return {"memory.marks": np.argsort(np.argsort(time, kind="stable")) - len(time)}
    if engine.ranking.kind == Kind.DRAW:
        marks = np.empty(len(time), dtype=np.int64)
        for number in range(len(drawable)):
            marks[stream == number] = np.arange(drawable[number])
        return {"memory.marks": marks, "memory.lane.drawable": drawable}
    return {}


def _clock(state: dict[str, Any]) -> float:
    """How far the forward weights of decayed counts have come: the exponent of an arrival at time 0, negative."""
    if "statistics.clock" not in state or not state["memory.count.half_life"]:
        return 0.0
    origin, moved, _ = (int(value) for value in state["statistics.clock"])
    return float(origin / float(state["memory.count.half_life"]) + moved)


def _statistics(states: Sequence[dict[str, Any]], clocks: list[float], latest: float, renumber: Any) -> dict[str, Any]:
    """The counts of all keys, in the units of one clock. A key is in one shard, and what others know of it is older: the largest counts."""
    scale = [2.0 ** (clock - latest) for clock in clocks]
    out = {name: value for name, value in states[clocks.index(latest)].items() if name.startswith("statistics.")}
    tables = [state["statistics.table"] * by for state, by in zip(states, scale, strict=True) if "statistics.table" in state]
    if tables:
        narrow = min(table.shape[-1] for table in tables)
        out["statistics.table"] = np.maximum.reduce([folded(table, narrow) for table in tables])
    if "statistics.key" in out:
        keys = np.concatenate([renumber(of, state["statistics.key"]) for of, state in enumerate(states)])
        sums: Floats = np.concatenate([state["statistics.sums"] * by for state, by in zip(states, scale, strict=True)])
        out["statistics.key"], which = np.unique(keys, return_inverse=True)
        out["statistics.sums"] = np.zeros((len(out["statistics.key"]), sums.shape[1]))
        np.maximum.at(out["statistics.sums"], which, sums)
    return out


def _divide_meter(old: Sequence[Meter], new: Meter, number: int, renumber: Any) -> None:
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


def _divide_past(old: Sequence[Meter], new: Meter, number: int, mine: Any, renumber: Any) -> None:
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
