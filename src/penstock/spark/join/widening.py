"""Keys of different types that Spark would compare: all of them become the type that it would compare them in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from penstock.core.errors import PenstockError
from penstock.spark.join.stream import Stream, keys_of, quoted


def widened(streams: Mapping[str, Stream], on: str | Sequence[str] | None) -> dict[str, Stream]:
    """The streams with key columns of one type each, where Spark has one that holds all of theirs: int and bigint become bigint.

    What is wrong with the keys otherwise is for others to say.
    """
    out = dict(streams)
    try:
        keys = [keys_of(name, side, on) for name, side in streams.items()]
    except PenstockError:
        return out
    if len({len(own) for own in keys}) > 1:
        return out
    for columns in zip(*keys, strict=True):
        kinds = [side.frame.schema[name].dataType for side, name in zip(out.values(), columns, strict=True)]
        wide = common_type(next(iter(out.values())).frame.sparkSession, kinds)
        if wide is None:
            continue
        for (name, side), column, kind in zip(out.items(), columns, kinds, strict=True):
            if kind.simpleString() != wide.simpleString():
                out[name] = replace(side, frame=side.frame.withColumn(column, F.col(quoted(column)).cast(wide)))
    return out


def common_type(spark: SparkSession, kinds: Sequence[T.DataType]) -> T.DataType | None:
    """The type in which Spark compares values of different types; None where they are of one type, or have none but texts."""
    if len({kind.simpleString() for kind in kinds}) == 1:
        return None
    texts = [isinstance(kind, T.StringType | T.CharType | T.VarcharType) for kind in kinds]
    if any(texts) and not all(texts):
        return None  # a text that is no number would fail the query, or match nothing
    try:
        return spark.range(0).select(F.coalesce(*(F.lit(None).cast(kind) for kind in kinds))).schema[0].dataType
    except PySparkException:
        return None
