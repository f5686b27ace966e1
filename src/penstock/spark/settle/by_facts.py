"""Settling a join through relations: from tuples to their facts, from each of these to the tuples that have it, and on from there.

A fact links a tuple where it has its number and is active at its time, as in the shards (docs/decisions/0031).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import reduce
from operator import mul

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.window import Window

from penstock.ledger.ledger import TIME
from penstock.ledger.ledger_plan import NO_LINKS, LedgerPlan
from penstock.ledger.relation_pages import BEGIN, END, FACT, KNOWN, PLACE, VERSION, WEIGHT, relations_of
from penstock.ledger.store import Store
from penstock.spark.settle.trusted import plain


def facts_frames(
    spark: SparkSession, store: Store, folder: str, plan: LedgerPlan, result: T.StructType, last: Sequence[str] = ()
) -> list[DataFrame]:
    """The facts of a ledger, by relation, with columns that no other has; where relations go on, up to their last pages."""
    frames = []
    types = json.loads(plan.links)["types"] if plan.links != NO_LINKS else {}
    for which, one in enumerate(relations_of(plan)):
        fields = [T.StructField(f"_key{slot}", plain(T.DataType.fromDDL(types[f"key{slot}"]))) for slot in one.slots]
        fields += [T.StructField(name, T.LongType()) for name in (BEGIN, END)] + [T.StructField(WEIGHT, T.DoubleType())] * one.weighted
        fields += [T.StructField(name, T.LongType()) for name in (FACT, VERSION, PLACE)] * one.grows
        shown = {own: result[name].dataType for own, name in one.columns(plan).items()}
        fields += [T.StructField(own, kind) for own, kind in shown.items() if not isinstance(kind, T.NullType)]
        pages = one.pages(store, folder, last[which] if one.grows else None)
        frame = spark.read.schema(T.StructType(fields)).parquet(*(f"{store.url}/{page}" for page, _ in pages))
        names = [field.name for field in fields]
        if one.grows:
            frame, names = _latest(frame), [*names, KNOWN]
        frames.append(frame.select(*(F.col(name).alias(name if name in shown else own_name(name, which)) for name in names)))
    return frames


def _latest(lines: DataFrame) -> DataFrame:
    """Of the lines of a fact, the latest, with the version since which it is known."""
    fact = Window.partitionBy(FACT)
    found = lines.withColumn(KNOWN, F.min(VERSION).over(fact)).withColumn("_last", F.max(VERSION).over(fact))
    return found.where(F.col(VERSION) == F.col("_last")).drop("_last")


def through_facts(sides: Sequence[DataFrame], plan: LedgerPlan, facts: Sequence[DataFrame], on: list[str]) -> DataFrame:
    """The members of all streams that facts link; beside the facts, they have equal values of the columns `on`."""
    out, bound, left = sides[0], {0}, dict(enumerate(relations_of(plan)))
    while left:
        which = next(which for which, one in left.items() if set(one.streams) & bound)
        one = left.pop(which)
        links = sorted(zip(one.streams, one.slots, strict=True), key=lambda link: link[0] not in bound)
        for place, (stream, slot) in enumerate(links):
            out = out.join(facts[which], _holds(which, stream, slot)) if place == 0 else _with(out, sides[stream], on)
            out = out if place == 0 else out.where(_holds(which, stream, slot))
            bound.add(stream)
    return out


def _with(out: DataFrame, side: DataFrame, on: list[str]) -> DataFrame:
    return out.join(side, on) if on else out.crossJoin(side)  # which Spark makes a join on what `_holds` says is equal


def _holds(which: int, stream: int, slot: int) -> Column:
    """Whether a fact of a relation links the tuple of a stream."""
    time = F.col(f"{TIME}_{stream}")
    same = F.col(f"_key{slot}") == F.col(own_name(f"_key{slot}", which))
    return same & (F.col(own_name(BEGIN, which)) <= time) & (time < F.col(own_name(END, which)))


def weight_of(plan: LedgerPlan) -> Column:
    """What the facts of an output weigh together."""
    weights = [F.col(own_name(WEIGHT, which)) for which, one in enumerate(relations_of(plan)) if one.weighted]
    return reduce(mul, weights, F.lit(1.0))


def own_name(name: str, which: int) -> str:
    """A column of the facts of a relation, which are joined with those of others."""
    return f"{name}_of_{which}"
