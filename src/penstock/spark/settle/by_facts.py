"""Settling a join through relations: from tuples to their facts, from each of these to the tuples that have it, and on from there.

A fact links a tuple where it has its number and is active at its time, as in the shards (docs/decisions/0031).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import mul

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from penstock.ledger.ledger import TIME, LedgerPlan
from penstock.ledger.relation_pages import BEGIN, END, WEIGHT, relations_of
from penstock.ledger.store import Store


def facts_frames(spark: SparkSession, store: Store, folder: str, plan: LedgerPlan, result: T.StructType) -> list[DataFrame]:
    """The facts of a ledger, by relation, with columns that no other has."""
    frames = []
    for which, one in enumerate(relations_of(plan)):
        one.check(store, folder)
        ours = [*(f"_key{slot}" for slot in one.slots), BEGIN, END]
        fields = [T.StructField(name, T.LongType()) for name in ours] + [T.StructField(WEIGHT, T.DoubleType())] * one.weighted
        shown = {own: result[name].dataType for own, name in one.columns(plan).items()}
        fields += [T.StructField(own, kind) for own, kind in shown.items() if not isinstance(kind, T.NullType)]
        frame = spark.read.schema(T.StructType(fields)).parquet(f"{store.url}/{one.place(folder)}")
        renamed = [F.col(field.name).alias(field.name if field.name in shown else _own(field.name, which)) for field in fields]
        frames.append(frame.select(*renamed))
    return frames


def through_facts(sides: Sequence[DataFrame], plan: LedgerPlan, facts: Sequence[DataFrame], on: list[str]) -> DataFrame:
    """The members of all streams that facts link; beside the facts, they have equal values of the columns `on`."""
    out, bound, left = sides[0], {0}, dict(enumerate(relations_of(plan)))
    while left:
        which = next(which for which, one in left.items() if set(one.streams) & bound)
        one = left.pop(which)
        links = sorted(zip(one.streams, one.slots, strict=True), key=lambda link: link[0] not in bound)
        for place, (stream, slot) in enumerate(links):
            out = out.join(facts[which], _holds(which, stream, slot)) if place == 0 else out.join(sides[stream], on)
            out = out if place == 0 else out.where(_holds(which, stream, slot))
            bound.add(stream)
    return out


def _holds(which: int, stream: int, slot: int) -> Column:
    """Whether a fact of a relation links the tuple of a stream."""
    time = F.col(f"{TIME}_{stream}")
    same = F.col(f"_key{slot}") == F.col(_own(f"_key{slot}", which))
    return same & (F.col(_own(BEGIN, which)) <= time) & (time < F.col(_own(END, which)))


def weight_of(plan: LedgerPlan) -> Column:
    """What the facts of an output weigh together."""
    weights = [F.col(_own(WEIGHT, which)) for which, one in enumerate(relations_of(plan)) if one.weighted]
    return reduce(mul, weights, F.lit(1.0))


def _own(name: str, which: int) -> str:
    return f"{name}_of_{which}"
