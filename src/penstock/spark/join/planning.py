"""A join, planned: its arguments checked, its columns, its route and its shards chosen, and nothing of it running yet."""

from __future__ import annotations

import inspect
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812

from penstock.core.budget import Memory
from penstock.core.errors import PenstockError, choose
from penstock.core.graph import is_graph
from penstock.core.predicate import PredicateSpec
from penstock.core.ticks import EVENT_TIME, in_ticks
from penstock.core.value import ObjectiveSpec
from penstock.core.window import COUNTING, Window
from penstock.ledger.ledger_plan import FUNCTION, LedgerPlan
from penstock.ledger.store import folder_of
from penstock.policies.base import PolicySpec
from penstock.policies.table import AUTO
from penstock.shard.division import part_of, shard_count
from penstock.shard.given_rates import GIVEN, mark_of, read_given
from penstock.shard.overhead import overhead_of
from penstock.shard.shard import Shard
from penstock.shard.shard_ids import shard_ids
from penstock.shard.shard_plan import LOST, TIME, VALUE, ShardPlan
from penstock.shard.shares.joint_budget import Budget
from penstock.shard.state.state_settings import JOINS
from penstock.shard.stream_window import ends_of
from penstock.spark.join.arguments import (
    check_archive,
    check_condition,
    check_filter,
    judged_columns,
    least_recall,
    limit_of,
    memory_of,
    name_of,
    shared_folder,
    usual_shards,
    whole_number,
    yes_or_no,
)
from penstock.spark.join.arrow_types import arrow_schema
from penstock.spark.join.condition_settings import ANSI, ZONE, terms_of
from penstock.spark.join.join_columns import Comparison, compare
from penstock.spark.join.route_choice import links_in_ledger, places, route_of, sent_columns
from penstock.spark.join.routes import Route
from penstock.spark.join.stream import Stream, prepared
from penstock.spark.join.through import Linked, compare_through, read_relations
from penstock.spark.join.widening import widened
from penstock.statistics.table import RUNNING

_OPTIONS = ("seed", "alpha", "beta", "half_life", "weights", "switches")


@dataclass(frozen=True)
class PlannedJoin:
    """A join that has been checked and planned, and not yet assembled."""

    plan: ShardPlan
    frames: list[DataFrame]
    schema: T.StructType
    route: Route
    comparison: Comparison
    shard: Shard
    least: float | None
    action: str
    budget: Budget | None = None  # of several joins

    @property
    def unit(self) -> str:
        """In what its tuples are weighed."""
        return self.shard.engine.worth_unit()

    @property
    def spark(self) -> SparkSession:
        """Where it will run."""
        return self.frames[0].sparkSession


def plan_join(
    streams: Mapping[str, Stream],
    *,
    on: str | Sequence[str] | None,
    predicate: PredicateSpec,
    cross: bool,
    through: Any = None,
    memory: Memory | Budget,
    policy: PolicySpec | None,
    allocation: str,
    stats: str,
    given: Mapping[tuple[str, Any], float] | None,
    objective: ObjectiveSpec,
    condition: str | None,
    shards: int | None,
    archive: str | None,
    shared: str | bool | None,
    min_recall: float | tuple[float, str] | None,
    max_output_per_batch: int | None,
    ghosts: int,
    ahead: str | tuple[str, str] | None,
    overhead: str | None,
    how: str,
    name: str,
    trust: bool = False,
    **options: Any,
) -> PlannedJoin:
    """Check the arguments of `join` and say how it will run."""
    if str(how).lower() != "inner":
        raise PenstockError(f"how must be 'inner', got {how!r}: of a tuple that was shed nobody can say that it has no match")
    known = [option for option in inspect.signature(plan_join).parameters if option != "options"]
    for option in options:
        choose("join's option", option, (*known, *_OPTIONS))
    _check_sides(streams)
    linked = read_relations(through, streams)
    check_filter(options.get("switches"), linked is not None)
    streams = streams if is_graph(predicate) or linked is not None else widened(streams, on)
    sides, names = list(streams.values()), tuple(streams)
    spark = sides[0].frame.sparkSession
    compared = compare(streams, on, predicate, cross) if linked is None else compare_through(streams, on, predicate, cross, linked)
    weighed = any(side.importance is not None for side in sides) or any(one.weighted for one in compared.through)
    route = route_of(streams, compared, None if shards is None else shard_count(shards), lambda: usual_shards(spark))
    keys: Sequence[tuple[str, ...]] = compared.columns if compared.by_key else [()] * len(sides)
    out = [_payload(n, s, k) for (n, s), k in zip(streams.items(), keys, strict=True)]
    sent = sent_columns(compared)
    frames = [
        prepared(side, own, columns, weighed, places(route, compared, number, own))
        for number, (side, own, columns) in enumerate(zip(sides, sent, out, strict=True))
    ]
    schema = _schema(sides, keys, out, [] if linked is None else linked.shown, weighed)
    check_condition(spark, condition, schema, archived=archive is not None)
    terms = terms_of(spark, condition)
    least, action = least_recall(min_recall)
    place = folder_of(archive)
    check_archive(place, dict(streams))
    late = place is not None and linked is not None and bool(linked.facts.followed)  # facts may be, and the ledger must be told
    if late:
        _check_late(sides, names, ahead)
    limit = None if late else limit_of(ahead, sides)
    budget, common = memory_of(memory, names, allocation, overhead)
    parts = route.shards * (1 if common is None else common.parts)
    table = rates_of(given, stats, names, compared, arrow_schema(schema).types[: len(keys[0])])
    plan = ShardPlan(
        streams=names,
        keys=len(keys[0]),
        payload=tuple(tuple(columns.values()) for columns in out),
        options={
            "window": {n: s.window for n, s in streams.items()},
            "lateness": {n: s.lateness for n, s in streams.items()},
            "matches": {n: s.matches for n, s in streams.items()} if any(s.matches for s in sides) else None,
            "memory": part_of(budget, names, parts),
            "allocation": allocation,
            "policy": AUTO if policy is None else policy,
            "stats": choose("stats", stats, (*RUNNING, GIVEN)),
            "objective": objective,
        }
        | compared.options()
        | in_ticks(EVENT_TIME, **options),
        schema=arrow_schema(schema if condition is None else T.StructType([*schema, T.StructField(LOST, T.DoubleType())])),
        times=tuple(columns.get(side.time, TIME) for side, columns in zip(sides, out, strict=True)),
        has_importance=weighed,
        lifetimes=tuple(side.lifetime is not None for side in sides) if any(side.lifetime is not None for side in sides) else (),
        name=name_of(name),
        shards=tuple(int(i) for i in shard_ids(route.shards)),
        ghosts=max(1, whole_number("ghosts", ghosts) // route.shards),
        overhead=overhead_of(overhead, budget, parts if budget.in_bytes else route.shards),
        condition=condition,
        judged=None if condition is None else judged_columns(condition, schema, len(keys[0]), out),
        archive=place,
        shared=shared_folder(shared, place, dict(streams), shards=route.shards, budget=common),
        joins=() if common is None or common.shared is None else tuple(common.joins),
        run=f"batch-{uuid.uuid4()}",
        sent=() if compared.by_key else tuple(tuple(own) for own in sent),
        columns=() if compared.by_key else compared.columns,
        numeric=compared.numeric,
        route=route.kind,
        trust=yes_or_no("trust", trust),
        max_output=None if max_output_per_batch is None else whole_number("max_output_per_batch", max_output_per_batch),
        ahead=limit if sides[0].frame.isStreaming else None,
        given=table,
        through=None if linked is None else linked.shipped(spark),
        facts={
            "name": name,
            "archive": "not written" if archive is None else "written",
            "time and key columns": {n: [s.time, *own] for (n, s), own in zip(streams.items(), compared.columns, strict=True)},
            **({} if linked is None else linked.settings),
            **terms,
            **({} if common is None else {JOINS: list(common.joins)}),
            **({} if table is None else {GIVEN: mark_of(table)}),
        },
    )
    shard = Shard(plan)  # whatever is wrong with the options is said now, and not by a worker
    if plan.options["policy"] == AUTO:
        plan = replace(plan, options=plan.options | {"policy": shard.chosen}, auto=True)
    if sides[0].frame.isStreaming:
        shard.engine.check_keepable()
    if archive is not None:
        plan = _archived(plan, shard, schema, compared, linked)
    if not sides[0].frame.isStreaming and least is not None and action == "warn":
        raise PenstockError(
            f'min_recall of batch DataFrames must fail, got {least:g} to warn of: say ({least:g}, "fail"), or look at the metrics'
        )
    made = PlannedJoin(plan, frames, schema, route, compared, shard, least, action, common)
    if common is not None:
        common.check(name, route.shards, made.unit)
    return made


def rates_of(given: Any, stats: str, streams: Sequence[str], compared: Comparison, kinds: Sequence[Any]) -> Any:
    """The table of given rates by the columns of the key; None where statistics are others."""
    if (given is None) != (stats != GIVEN):
        raise PenstockError(f"given must be a table of rates exactly when stats is 'given', got stats {stats!r}")
    if given is None:
        return None
    if not compared.by_key:
        raise PenstockError(f"stats 'given' holds rates by key and needs equal keys named by on=, got {compared.text}")
    return read_given(given, streams, kinds)


def _check_late(sides: Sequence[Stream], names: Sequence[str], ahead: Any) -> None:
    """Refuse what a ledger cannot say of rows that facts link later; their copies are written in one batch, so that none may wait."""
    for side, name in zip(sides, names, strict=True):
        if str(side.window).partition(":")[0] in COUNTING:
            raise PenstockError(
                f"window of stream {name} must not count rows where an archive is kept of a join through a relation that goes on, got "
                f"{side.window!r}: which rows count depends on facts that are not known yet"
            )
    if ahead not in (None, "auto"):
        raise PenstockError(
            f"ahead must be left out where an archive is kept of a join through a relation that goes on, got {ahead!r}: no row waits there"
        )


def _archived(plan: ShardPlan, shard: Shard, schema: T.StructType, compared: Comparison, linked: Linked | None) -> ShardPlan:
    """The plan with what settling must know."""
    relations, values = ([], []) if linked is None else (linked.in_ledger, linked.values_in_ledger)
    objective = shard.problem.objective
    named = objective.name if objective.function is None else FUNCTION
    ledger = LedgerPlan(
        name=plan.name,
        streams=plan.streams,
        keys=plan.keys,
        payload=((*plan.key_names, *plan.payload[0]), *plan.payload[1:]),
        windows=shard.problem.stays,
        objective=named if plan.has_importance else None,
        condition=plan.condition,
        schema=schema.json(),
        has_importance=plan.has_importance,
        **links_in_ledger(compared, plan.sent, relations, values),
        expires=ends_of(shard.problem),
        counted=json.dumps(counted_rows(shard.problem.windows)),
        zone=plan.facts.get(ZONE),
        ansi=plan.facts.get(ANSI),
    )
    return replace(plan, ledger=ledger)


def counted_rows(windows: Sequence[Window]) -> list[list[Any] | None] | None:
    """By stream, the kind and size of a window that counts rows; None where there is none."""
    found = [[window.kind, window.length] if window.kind in COUNTING else None for window in windows]
    return found if any(found) else None


def _check_sides(streams: Mapping[str, Stream]) -> None:
    """Refuse what are no streams."""
    if not isinstance(streams, Mapping):
        raise PenstockError(f"streams must be two or more of ps.stream by name, got a {type(streams).__name__}")
    for name, side in streams.items():
        if not isinstance(name, str) or not name:
            raise PenstockError(f"streams must have texts for names, got {name!r}")
        if not isinstance(side, Stream):
            raise PenstockError(f"streams must be made by ps.stream, got a {type(side).__name__} for {name}")
    if len(streams) < 2:
        raise PenstockError(f"streams must be two or more of ps.stream by name, got {', '.join(streams) or 'none'}")
    sides = list(streams.values())
    if len({side.frame.isStreaming for side in sides}) > 1:
        which = ", ".join(f"{n} {'streams' if s.frame.isStreaming else 'does not'}" for n, s in streams.items())
        raise PenstockError(f"streams must be all streaming or all batch, got a mix: {which}")


def _payload(name: str, side: Stream, keys: Sequence[str]) -> dict[str, str]:
    """The columns of a stream that go into the result beside the keys, and their names there."""
    kept = side.columns if side.columns is not None else tuple(side.frame.columns)
    return {column: f"{name}_{column}" for column in kept if column not in keys}


def _schema(
    sides: list[Stream], keys: Sequence[tuple[str, ...]], out: list[dict[str, str]], shown: Sequence[T.StructField], weighed: bool
) -> T.StructType:
    fields = [T.StructField(key, sides[0].frame.schema[key].dataType) for key in keys[0]]
    for side, columns in zip(sides, out, strict=True):
        fields += [T.StructField(new, side.frame.schema[old].dataType) for old, new in columns.items()]
    fields += shown
    if weighed:
        fields.append(T.StructField(VALUE, T.DoubleType()))
    names = [field.name.lower() for field in fields]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise PenstockError(f"streams must give different names to the columns of the result, got {', '.join(repeated)} twice")
    return T.StructType(fields)
