"""`ps.join`: check, plan and assemble the join of Spark DataFrames.

streams, each: select, shard, pack  ->  union  ->  one stateful processor per shard  ->  unpack  ->  DataFrame
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.utils import is_remote

from penstock.core.budget import Memory
from penstock.core.errors import PenstockError
from penstock.core.predicate import PredicateSpec
from penstock.core.value import ObjectiveSpec
from penstock.policies.base import PolicySpec
from penstock.relation.relation import Relation
from penstock.shard.cells import FIRST, PACKED, SHARD, STAMP, Batches, packer, unpacker
from penstock.shard.facts.routing import Routing, marked, unmarked
from penstock.shard.shard_plan import VALUE, ShardPlan
from penstock.shard.shares.joint_budget import Budget
from penstock.shard.spark_hash import can_hash
from penstock.shard.worker_start import acknowledge_at_once
from penstock.spark.join.arrow_types import arrow_schema
from penstock.spark.join.gate import AT, BESIDE, GATE, Gate, closed, gate_of, guard, opened
from penstock.spark.join.partitions import match_partitions
from penstock.spark.join.planning import PlannedJoin, plan_join
from penstock.spark.join.processor import JoinProcessor
from penstock.spark.join.stream import Stream, quoted, stream
from penstock.spark.join.task import versions_seen
from penstock.spark.observe.first_batch import Awaited
from penstock.spark.observe.listener import follower_of
from penstock.spark.observe.metrics import RESULTS, constants, metrics, moving_part
from penstock.spark.observe.warn import warn
from penstock.spark.session.sent_code import send_code
from penstock.spark.session.session import use_this_package, use_this_python

_STREAMING = "spark.sql.streaming."
_STORE = f"{_STREAMING}stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""The only store that stateful processors work with."""
_BOUNDS = {
    f"{_STREAMING}minBatchesToRetain": "3",
    f"{_STREAMING}ratioExtraSpaceAllowedInCheckpoint": "0",
    f"{_STREAMING}stateStore.maintenanceInterval": "15s",
    f"{_STREAMING}stateStore.rocksdb.boundedMemoryUsage": "true",
    f"{_STREAMING}stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
"""Set where nobody did: by Spark's defaults a checkpoint keeps 130 versions, RocksDB's memory has no bound, each batch a snapshot."""
_CELL = 8 << 20  # bytes of input that a task of a batch query packs together
GHOSTS = 1_000_000
"""The shed tuples that are remembered by default, so that what they would have made is counted."""


def join(
    streams: Mapping[str, Stream],
    *,
    on: str | Sequence[str] | None = None,
    predicate: PredicateSpec = "=",
    cross: bool = False,
    through: Relation | Sequence[Relation] | None = None,
    memory: Memory | Budget,
    policy: PolicySpec | None = None,
    allocation: str = "variable",
    stats: str = "decayed",
    given: Mapping[tuple[str, Any], float] | None = None,
    objective: ObjectiveSpec = None,
    condition: str | None = None,
    shards: int | None = None,
    archive: str | None = None,
    shared: str | bool | None = None,
    min_recall: float | tuple[float, str] | None = None,
    max_output_per_batch: int | None = None,
    ghosts: int = GHOSTS,
    ahead: str | tuple[str, str] | None = "auto",
    overhead: str | None = None,
    how: str = "inner",
    name: str = "penstock",
    trust: bool = False,
    **options: Any,
) -> DataFrame:
    """Join streams in a memory of so many rows or bytes; what does not fit is shed by value.

    The joined row has the key columns once, then each stream's other columns as `<stream>_<column>`, then `value` when importance is used.
    Where keys are not equal, there is no key of the whole row: all columns are `<stream>_<column>`.

    * `on`: the key columns. `predicate` compares them for every pair of streams: "=" (the default), "<", "<=", ">", ">=", "!=", or
      "eps:0.5" for a distance of at most that. Or it is a list of links between columns, without `on`: ["R.a = S.a", "S.b < T.b"];
      streams without any link to the others are refused unless `cross`.
    * `through`: relations (`ps.relation`) that link the streams, instead of `on` and `predicate`: rows are joined where a fact of each
      relation has their values and was active at their times. Their `columns` are in the joined row as `<relation>_<column>`.
    * `memory`: rows, or a size such as "512 MB", for all shards together; or a `ps.Budget` that several joins share, of which `name` says
      which one this is. `allocation`, `stats`, `objective` and the options `seed`, `alpha`, `beta`, `half_life`, `weights` are those of
      `ps.simulate`. `given` is the table of rates of `stats="given"`: {(stream, key): rate}, a key of several columns as a tuple.
    * `policy`: a name from `penstock policies`, or an object. By default "auto": "learned" where keys are equal, else "prob" or, with
      importance, "dimpprob"; where a window is no length of time and there is no `half_life`, one that needs none. A checkpoint
      keeps the policy that it has.
    * `condition`: an SQL expression over the columns of the joined row that must hold in addition to the predicate.
    * `shards`: into how many parts the keys are divided; by default as many as Spark has cores.
    * `archive`: a folder (or URL) to which all tuples are written, so that `ps.settle` can make the lost outputs later.
    * `shared`: a folder (or URL) in which shards exchange after each batch what their tuples are worth, so that memory moves to
      where it is worth most; by default that of the archive. Without either, or with False, all shards have equal shares.
    * `min_recall`: 0.9 warns when a batch has a smaller recall; (0.9, "fail") fails the batch, and nothing of it is committed.
    * `max_output_per_batch`: 1_000_000 fails a batch in which all shards together make more outputs (before `condition`), and nothing of it
      is committed. Outputs are handed on as they are made, so that a key that very many rows share costs time but no memory.
    * `ghosts`: how many shed tuples are remembered for counting what was lost; beyond that the loss is estimated.
    * `ahead`: a row that is further ahead than other rows or the batch's own timestamp support waits until they do, and is counted as
      `n_ahead`: "1 hour"; ("1 hour", "drop") drops it; None switches that off. By default 2 days, or twice the longest window and lateness
      where that is more. In a batch query rows come in order, and none waits.
    * `overhead`: a size such as "256 MB" for all shards together: what statistics and ghosts may take. Beyond that statistics become a
      sketch, and ghosts are sampled. By default "512 MB"; of a memory in bytes it is a part, a quarter by default.
    * `name`: of the metrics in `observedMetrics`; two joins in one query need two names.
    * `trust`: a checkpoint of release 0.1.0 may be read even where its state is a pickle, which can run code (docs/trust.md).
    """
    arguments = {name: value for name, value in locals().items() if name not in ("streams", "options")}
    made = plan_join(streams, **arguments, **options)
    joined = _assembled(made)
    if made.budget is not None:
        made.budget.enter(made.plan.name, made.route.shards, made.unit)
    return joined


def _assembled(made: PlannedJoin) -> DataFrame:
    """The query."""
    plan, schema, least = made.plan, made.schema, made.least
    streaming = made.frames[0].isStreaming
    if not hasattr(made.frames[0].groupBy(), "transformWithStateInPandas"):
        raise PenstockError(f"a join under Spark Connect needs Spark 4.1 or newer, got {made.spark.version}: use a classic session")
    use_this_python(made.spark)
    use_this_package(made.spark)
    if streaming:
        _set_up(made.spark)
        warn(made.spark, plan.name, least if made.action == "warn" else None, plan.archive, plan.options["lateness"])
        match_partitions(made.spark, plan.name, len(plan.shards))
        if not is_remote():
            follower_of(made.spark, Awaited)
    played = _packed(made.frames, plan, streaming).groupBy(SHARD)
    code = send_code(made.spark) if made.shard.engine.is_compiled else None
    results = played.transformWithStateInPandas(JoinProcessor(plan, code), RESULTS, "Append", "None")
    must = least if made.action == "fail" else None
    recall = must if plan.condition is None else None  # with a condition the gate looks at it
    most = plan.max_output if len(plan.shards) > 1 else None  # a single shard has counted all there is
    unpack = _called(f"{plan.name}: unpack", unpacker(arrow_schema(schema)))
    if recall is not None or most is not None:
        if len(plan.shards) > 1:
            results = results.withColumn(GATE, gate_of(len(plan.shards))).repartition(len(plan.shards), GATE).drop(GATE)
        results = results.mapInArrow(_called(f"{plan.name}: guard", guard(len(plan.streams), recall, most)), RESULTS)
    if plan.condition is not None:
        results = _judged_rows(results, plan, schema, must)
    moves = {"shards": len(plan.shards), "moving": moving_part(plan)}
    observed = results.observe(plan.name, *metrics(plan.streams, least, auto=plan.auto, **moves, **constants(plan)))
    return observed.mapInArrow(unpack, schema)


def _set_up(spark: SparkSession) -> None:
    """Tell Spark which state store, and its bounds where nobody set them."""
    unset = {name: value for name, value in _BOUNDS.items() if spark.conf.get(name, None) is None}
    wanted = unset | ({} if spark.conf.get(_STORE, None) == _ROCKSDB else {_STORE: _ROCKSDB})
    try:
        for name, value in wanted.items():
            spark.conf.set(name, value)
    except PySparkException as error:
        if "DECLARATIVE_PIPELINE" not in str(error.getCondition()):
            raise
        if _STORE in wanted:
            raise PenstockError(
                f"a join in a declarative pipeline needs {_STORE}: {_ROCKSDB} in the configuration of the pipeline (best with "
                f"{', '.join(f'{name}: {value}' for name, value in unset.items())}), got none: functions of a pipeline may not set it"
            ) from None


def _packed(frames: list[DataFrame], plan: ShardPlan, streaming: bool) -> DataFrame:
    """All streams as packed cells; in a batch query in the order of time, so that no shard needs all of its input at once."""
    flush: dict[str, int] = {}
    keys: tuple[str, ...] = ()
    routes: list[Any] = [None] * len(frames)
    if plan.through is not None:
        versions = partial(versions_seen, plan.through, plan.name)
        routes = [Routing(plan.through, number, len(plan.shards), versions, plan.keeps_unlinked) for number in range(len(frames))]
        frames = [frame.drop(SHARD) for frame in frames]
        if not streaming:
            frames = [_routed(frame, route, plan) for frame, route in zip(frames, routes, strict=True)]
            routes = [unmarked] * len(frames)
    if not streaming:
        sorted_by = zip(frames, plan.times, strict=True)
        frames = [frame.repartition(SHARD).sortWithinPartitions(SHARD, quoted(time)) for frame, time in sorted_by]
        flush = {"flush": _CELL}
    elif plan.through is not None:
        pass  # the shard is found as rows are packed
    elif len(plan.shards) == 1 or (plan.route == "key" and plan.keys and can_hash(plan.schema.types[: plan.keys])):
        keys = tuple(f"key{number}" for number in range(plan.keys))
        frames = [frame.drop(SHARD) for frame in frames]
    ids = np.array(plan.shards)
    named = enumerate(zip(frames, plan.times, strict=True))
    packs = [
        packer(number, ids, time, frame.columns, keys, limit=plan.ahead, route=route, **flush)
        for route, (number, (frame, time)) in zip(routes, named, strict=True)
    ]
    steps = [_called(f"{plan.name}: pack {name}", pack) for name, pack in zip(plan.streams, packs, strict=True)]
    packed = [_nameless(frame).mapInArrow(step, PACKED) for frame, step in zip(frames, steps, strict=True)]
    united = packed[0]
    for other in packed[1:]:
        united = united.unionByName(other)
    # In a streaming query this is the batch's own timestamp, of Spark's offset log: a batch that is played again has the same.
    united = united.withColumn(STAMP, F.unix_micros(F.current_timestamp()))
    return united if streaming else united.repartition(SHARD).sortWithinPartitions(SHARD, FIRST)


def _routed(frame: DataFrame, routing: Routing, plan: ShardPlan) -> DataFrame:
    """The rows of a batch query with their shards, before they are sorted."""
    names = frame.columns
    kinds = {field.name: T.LongType() if field.name in plan.sent[routing.stream] else field.dataType for field in frame.schema}
    fields = [T.StructField(SHARD, T.LongType()), *(T.StructField(f"c{number}", kind) for number, kind in enumerate(kinds.values()))]
    step = _called(f"{plan.name}: route {plan.streams[routing.stream]}", marked(routing, plan.times[routing.stream], names))
    return _nameless(frame).mapInArrow(step, T.StructType(fields)).toDF(SHARD, *names)


def _called(name: str, step: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """A step of the join under the name that Spark's UI shows in the plan of a query."""

    def run(batches: Batches) -> Batches:
        acknowledge_at_once()
        yield from step(batches)

    run.__name__ = name
    return run


def _nameless(frame: DataFrame) -> DataFrame:
    """A frame whose columns have numbers for names: `mapInArrow` does not take names with dots or backticks in them."""
    return frame.toDF(*(f"c{number}" for number in range(len(frame.columns))))


def _judged_rows(made: DataFrame, plan: ShardPlan, schema: T.StructType, least: float | None) -> DataFrame:
    """The results without what a condition refuses, through a gate that counts them."""
    streams = len(plan.streams)
    facts = [] if plan.through is None else [plan.through.open().shown(which) for which in range(len(plan.through.through))]
    names = {name for own in (*(plan.judged or ()), *facts) for name in own} | {VALUE}
    judged = [field for field in plan.schema if field.name in names]
    wide = [*(field for field in schema if field.name in names), T.StructField(AT, T.IntegerType()), T.StructField(BESIDE, T.BinaryType())]
    open_rows = made.mapInArrow(_called(f"{plan.name}: open", opened(pa.schema(judged))), T.StructType(wide))
    passed = open_rows.where(F.col(BESIDE).isNotNull() | F.expr(str(plan.condition))).select(AT, BESIDE)
    close = _called(f"{plan.name}: close", closed(streams, plan.has_importance))
    cells = passed.mapInArrow(close, RESULTS).withColumn(GATE, gate_of(len(plan.shards)))
    return cells.groupBy(GATE).transformWithStateInPandas(Gate(streams, least=least), RESULTS, "Append", "None")


__all__ = ["Stream", "join", "stream"]
