"""What a join owes, as a Spark query over its ledger: the exact join of what arrived, where the members did not meet.

Members meet iff the last of them arrived not after the first of them left. All of a combination are in one shard (routes.py), so copies of
a row are matched with those of their own shard only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from operator import add, and_, mul

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.window import Window

from penstock.core.errors import PenstockError
from penstock.core.trace import LIMIT
from penstock.core.value import Objective
from penstock.ledger.ledger import ARRIVED, BATCH, EXPIRY, GONE, IMPORTANCE, KEY, LEFT, PLACES, ROW, SEEN, SHARD, STREAM, TIME, UNLINKED
from penstock.ledger.ledger_plan import NO_LINKS, LedgerPlan
from penstock.ledger.manifest import Span
from penstock.ledger.relation_pages import KNOWN, PLACE, relations_of
from penstock.ledger.settled_marks import NOTHING, bounds
from penstock.spark.join.join_columns import sql_condition
from penstock.spark.join.route_choice import read_predicate
from penstock.spark.settle.by_facts import own_name, through_facts, weight_of
from penstock.spark.settle.trusted import plain

_VALUE = "_value"
_BUCKET = "_bucket"
_ENDS = "_ends"

Side = Callable[[Column, int], DataFrame]
"""The rows of a stream that meet a condition, to be joined."""
Join = Callable[[list[DataFrame]], DataFrame]


def owed_outputs(
    ledger: DataFrame,
    plan: LedgerPlan,
    schema: T.StructType,
    since: int,
    times: list[Span | None],
    objective: Objective | None = None,
    facts: Sequence[DataFrame] = (),
    seen: Sequence[int] = (),
) -> DataFrame:
    """The outputs whose last member arrived after batch `since`, where the new arrivals have these times; `facts` by relation.

    Where relations go on, also those whose fact became known after `since`, when batches had `seen` these versions.
    """
    gone = ledger.where(F.col(STREAM) == GONE).groupBy(*_identity(plan)).agg(F.min(LEFT).alias(LEFT))
    ledger, plan = _with_ends(ledger, plan), _with_stays(ledger, plan)

    def copies(wanted: Column, stream: int) -> DataFrame:
        own = ledger.where(wanted & (F.col(STREAM) == stream)).drop(LEFT)
        return _side(own.join(gone, _identity(plan), "left"), plan, stream)

    parts = _parts(plan, since, times, copies, lambda sides: _joined(sides, plan, facts).where(_unmet(plan)))
    if plan.grows:
        parts += _apart(ledger, plan, since, times, facts, seen)
    if not parts:  # departures only
        return ledger.sparkSession.createDataFrame([], schema)
    result = reduce(DataFrame.unionByName, [_result(part, plan, schema, objective) for part in parts])
    return result if plan.condition is None else result.where(plan.condition)


def _result(owed: DataFrame, plan: LedgerPlan, schema: T.StructType, objective: Objective | None) -> DataFrame:
    """Combinations as joined rows."""
    if plan.has_importance:
        value = _value(objective, [F.col(f"{IMPORTANCE}_{stream}") for stream in range(len(plan.streams))])
        owed = owed.withColumn(_VALUE, value * weight_of(plan))
    columns = {name: own for stream in range(len(plan.streams)) for own, name in plan.columns(stream).items()}
    columns |= {name: own for one in relations_of(plan) for own, name in one.columns(plan).items()}
    if plan.has_importance:
        columns[schema.names[-1]] = _VALUE
    void = [field.name for field in schema if isinstance(field.dataType, T.NullType)]
    return owed.select(*((F.lit(None) if name in void else F.col(columns[name])).alias(name) for name in schema.names))


def _with_ends(ledger: DataFrame, plan: LedgerPlan) -> DataFrame:
    """With the instant in which a tuple leaves a window of C rows: that of the C-th row after it, of its stream or of its key there."""
    counted = json.loads(plan.counted)
    if counted is None:
        return ledger
    ends = F.lit(None).cast("bigint")
    for stream, window in enumerate(counted):
        if window is not None:
            keys = [f"_{name}" for name in plan.sent(stream)] if window[0] == "rows_per_key" else []
            rows = Window.partitionBy(SHARD, STREAM, *keys).orderBy(ROW)
            ends = F.when(F.col(STREAM) == stream, F.lead(ARRIVED, window[1]).over(rows)).otherwise(ends)
    return ledger.withColumn(_ENDS, ends)


def _with_stays(ledger: DataFrame, plan: LedgerPlan) -> LedgerPlan:
    """With the longest lifetime that the ledger has of a stream whose tuples have their own: nobody knew it beforehand."""
    own = [stream for stream, expires in enumerate(plan.expires) if expires and plan.windows[stream] is None]
    if not own:
        return plan
    stream = F.when(F.col(STREAM) <= UNLINKED, F.lit(UNLINKED) - F.col(STREAM)).otherwise(F.col(STREAM))
    longest = ledger.withColumn(STREAM, stream).where(F.col(STREAM).isin(own)).groupBy(STREAM).agg(F.max(F.col(EXPIRY) - F.col(TIME)))
    found = {stream: length for stream, length in longest.collect() if 0 < length < LIMIT}
    return replace(plan, windows=tuple(found.get(stream, window) for stream, window in enumerate(plan.windows)))


def _parts(plan: LedgerPlan, since: int, times: list[Span | None], side: Side, join: Join) -> list[DataFrame]:
    """The combinations with a member of after `since`, by the first stream that brings one."""
    if since == NOTHING:
        return [join([side(F.lit(True), stream) for stream in range(len(plan.streams))])]
    return [join(_sides(plan, since, pivot, span, side)) for pivot, span in enumerate(times) if span is not None]


def _sides(plan: LedgerPlan, since: int, pivot: int, span: Span, side: Side) -> list[DataFrame]:
    """The streams, where that of `pivot` is the first to bring a new tuple: those before it bring old ones, those after it any."""
    sides = []
    for stream in range(len(plan.streams)):
        if stream == pivot:
            wanted = F.col(BATCH) > since
        else:
            low, high = bounds(span, plan.windows[pivot], plan.windows[stream])
            wanted = F.lit(True) if low is None else F.col(TIME) > low
            wanted = wanted if high is None else wanted & (F.col(TIME) < high)
            wanted = wanted & (F.col(BATCH) <= since) if stream < pivot else wanted
        sides.append(side(wanted, stream))
    return sides


def _apart(
    ledger: DataFrame, plan: LedgerPlan, since: int, times: list[Span | None], facts: Sequence[DataFrame], seen: Sequence[int]
) -> list[DataFrame]:
    """The combinations whose members never had copies in the shard of their fact: when one of them came, nobody knew the fact."""
    alone = F.col(STREAM) <= UNLINKED
    rows = ledger.where(alone | ((F.col(STREAM) >= 0) & (F.col(SHARD) == F.get(F.col(PLACES), F.lit(0)))))  # each once
    rows = rows.withColumn(STREAM, F.when(alone, F.lit(UNLINKED) - F.col(STREAM)).otherwise(F.col(STREAM)))

    def originals(wanted: Column, stream: int) -> DataFrame:
        return _side(rows.where(wanted & (F.col(STREAM) == stream)), plan, stream, apart=True)

    shard = F.col(own_name(PLACE, 0))  # of several relations there is one
    met = reduce(and_, (F.array_contains(F.col(f"{PLACES}_{stream}"), shard) for stream in range(len(plan.streams))))
    parts = _parts(plan, since, times, originals, lambda sides: _joined(sides, plan, facts, apart=True).where(~met))
    if since == NOTHING:
        return parts
    old = [originals(F.col(BATCH) <= since, stream) for stream in range(len(plan.streams))]
    for which, version in enumerate(seen):
        known = [F.col(own_name(KNOWN, other)) <= seen[other] for other in range(which)] + [F.col(own_name(KNOWN, which)) > version]
        chosen = [own.where(wanted) for own, wanted in zip(facts, known, strict=False)]
        parts.append(_joined(old, plan, [*chosen, *facts[which + 1 :]], apart=True))
    return parts


def _side(tuples: DataFrame, plan: LedgerPlan, stream: int, *, apart: bool = False) -> DataFrame:
    """Arrivals of a stream, with `left` (null for those in memory) and, where windows are bounded, the stretch of time to match in.

    Those that are joined `apart`, whatever their shards, have their places instead.
    """
    columns = [F.col(f"_{name}") for name in plan.sent(stream)]
    columns += [] if plan.links == NO_LINKS or apart else [F.col(SHARD)]  # a tuple has copies, which meet only those of their own shard
    own = [ARRIVED, PLACES if apart else LEFT, TIME, *([IMPORTANCE] if plan.has_importance else [])]
    own += [name for name in tuples.columns if name == _ENDS or name.startswith(SEEN)]
    own += [EXPIRY] if plan.expires and plan.expires[stream] else []
    columns += [F.col(name).alias(f"{name}_{stream}") for name in own]
    columns += [F.col(own) for own in plan.columns(stream) if own in tuples.columns]
    windows = [window for window in plan.windows if window is not None]
    if len(windows) == len(plan.windows):
        # Without this, the join of a long ledger would look at every pair of tuples with equal keys, however far apart.
        length = 2 * max(windows)
        if stream == 0:
            columns.append(_floor(TIME, length).alias(_BUCKET))
        else:  # all stretches with tuples of the first stream in them that may match
            first, last = f"{TIME} - {windows[0] - 1}", f"{TIME} + {windows[stream] - 1}"
            columns.append(F.explode(F.sequence(_floor(first, length), _floor(last, length))).alias(_BUCKET))
    return tuples.select(*columns)


def _identity(plan: LedgerPlan) -> list[str]:
    """What distinguishes copies of rows. A row with a key is there once, but may leave another shard than it came to (reshard.py)."""
    return [ROW] if plan.links == NO_LINKS else [SHARD, ROW]


def _floor(text: str, length: int) -> Column:
    return F.expr(f"(({text}) - pmod({text}, {length})) div {length}")


def _joined(sides: list[DataFrame], plan: LedgerPlan, facts: Sequence[DataFrame], *, apart: bool = False) -> DataFrame:
    """The combinations that are in the exact result: of a shard, or `apart`, of all."""
    on = [f"_{name}" for name in plan.sent(0)] if plan.links == NO_LINKS else [SHARD] * (not apart)
    on += [_BUCKET] if _BUCKET in sides[0].columns else []
    out = sides[0] if not facts else through_facts(sides, plan, facts, on)
    for stream, side in enumerate(sides[1:], 1):
        out = out if facts else out.join(side, on)
        for condition in _links(plan, stream):
            out = out.where(condition)
        for other in range(stream):
            for late, early in ((stream, other), (other, stream)):
                window = plan.windows[early]
                if window is not None:
                    out = out.where(F.col(f"{TIME}_{late}") - F.col(f"{TIME}_{early}") < window)
    now = F.greatest(*(F.col(f"{TIME}_{stream}") for stream in range(len(sides))))
    for stream in range(len(sides)):
        if f"{EXPIRY}_{stream}" in out.columns:
            out = out.where(now < F.col(f"{EXPIRY}_{stream}"))
    last = F.greatest(*(F.col(f"{ARRIVED}_{stream}") for stream in range(len(sides))))
    for stream in range(len(sides)):
        ends, arrived = f"{_ENDS}_{stream}", F.col(f"{ARRIVED}_{stream}")
        if ends in out.columns:  # those that arrive together always meet (docs/readings.md, 14)
            out = out.where(F.col(ends).isNull() | (F.col(ends) > last) | (arrived == last))
    return out


def _unmet(plan: LedgerPlan) -> Column:
    """Whether a combination of a shard was not emitted: one had left, or its fact was not known yet, when the last of them arrived."""
    streams = range(len(plan.streams))
    last, left = (of(*(F.col(f"{name}_{stream}") for stream in streams)) for of, name in ((F.greatest, ARRIVED), (F.least, LEFT)))
    unmet = last > left  # null, where none has left
    for which, one in enumerate(relations_of(plan)):
        if one.grows:
            seen = F.greatest(*(F.col(f"{SEEN}{which}_{stream}") for stream in streams))
            unmet = unmet | (F.col(own_name(KNOWN, which)) > seen)
    return unmet


def _links(plan: LedgerPlan, stream: int) -> list[Column]:
    """The links of a stream with those before it."""
    found = json.loads(plan.links)
    return [
        sql_condition(read_predicate(link), *([F.col(f"_{name}") for name in link[end]] for end in ("low", "high")))
        for link in ([] if found is None else found["links"])
        if link["streams"][1] == stream
    ]


def _value(objective: Objective | None, worths: list[Column]) -> Column:
    """The value of an output, computed in the order of the engine, so that no rounding differs; unknown without an objective."""
    if objective is None:
        return F.lit(None).cast("double")
    if objective.function is not None:
        return F.udf(lambda *members: objective.of(list(members)), T.DoubleType())(*worths)
    forms = {
        "count": lambda: F.lit(1.0),
        "min": lambda: F.least(*worths),
        "max": lambda: F.greatest(*worths),
        "sum": lambda: reduce(add, worths),
        "product": lambda: reduce(mul, worths),
        "avg": lambda: reduce(add, worths) / len(worths),
    }
    return forms[objective.name]()


def pages_frame(spark: SparkSession, plan: LedgerPlan, result: T.StructType, pages: list[str], bare: list[str]) -> DataFrame:
    """The rows of pages, and of bare ones of release 0.1.0, in which the columns of the user have their names."""
    ours = _own_schema(plan, result)
    columns = {own: result[name] for stream in range(len(plan.streams)) for own, name in plan.columns(stream).items()}
    kept = {own: field for own, field in columns.items() if not isinstance(field.dataType, T.NullType)}
    schema = T.StructType([*ours, *(T.StructField(own, field.dataType) for own, field in kept.items())])
    frames = [read_parquet(spark, schema, pages)] if pages else []
    if bare:
        meets = {name.lower() for name in ours.names} & {field.name.lower() for field in kept.values()}
        if meets:
            raise PenstockError(
                f"archive of release 0.1.0 cannot be settled where columns are called {', '.join(sorted(meets))}, as its own are"
            )
        frames.append(read_parquet(spark, T.StructType([*ours, *kept.values()]), bare).toDF(*schema.names))
    return reduce(DataFrame.unionByName, frames) if frames else spark.createDataFrame([], schema)


def _own_schema(plan: LedgerPlan, result: T.StructType) -> T.StructType:
    """Our own columns in pages."""
    ours = [T.StructField(name, T.LongType()) for name in (BATCH, SHARD, STREAM, ROW, ARRIVED, LEFT, TIME)]
    links = json.loads(plan.links)
    if links is None:
        ours += [T.StructField(f"{KEY}{number}", result[plan.payload[0][number]].dataType) for number in range(plan.keys)]
    else:
        ours += [T.StructField(f"_{name}", plain(T.DataType.fromDDL(kind))) for name, kind in links["types"].items()]
    ours += [T.StructField(EXPIRY, T.LongType())] if plan.expires else []
    if plan.grows:
        seen = [f"{SEEN}{which}" for which in range(len(relations_of(plan)))]
        ours += [T.StructField(PLACES, T.ArrayType(T.LongType())), *(T.StructField(name, T.LongType()) for name in seen)]
    return T.StructType(ours + ([T.StructField(IMPORTANCE, T.DoubleType())] if plan.has_importance else []))


def read_parquet(spark: SparkSession, schema: T.StructType, paths: list[str]) -> DataFrame:
    """The rows of Parquet files."""
    return spark.read.schema(schema).option("datetimeRebaseMode", "CORRECTED").parquet(*paths)


def without_void(schema: T.StructType) -> T.StructType:
    """Without columns that hold nothing but nulls, which Parquet does not know."""
    return T.StructType([field for field in schema if not isinstance(field.dataType, T.NullType)])


def whole_rows(frame: DataFrame, schema: T.StructType) -> DataFrame:
    """The columns of the result, in their order."""
    void = [field.name for field in schema if isinstance(field.dataType, T.NullType)]
    return frame.select(*(F.lit(None).alias(field.name) if field.name in void else named(field.name) for field in schema))


def named(name: str) -> Column:
    """A column by its name, whatever is in it."""
    return F.col("`" + name.replace("`", "``") + "`")
