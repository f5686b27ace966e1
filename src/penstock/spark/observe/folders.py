"""The folders that a DataFrame reads files from, as its plan shows, and those that a query writes to, once it runs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from penstock.ledger.places import mixed
from penstock.spark.session.java import Java


def folders_of(frame: DataFrame) -> list[str]:
    """The places that a frame of a classic session reads files from; none where Spark does not show them."""
    if not hasattr(frame, "_jdf"):
        return []
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    return sorted({place for number in range(leaves.size()) for place in _places(leaves.apply(number))})


def misplaced(spark: SparkSession, query: str, archives: Sequence[str]) -> list[str]:
    """What is wrong with the places of a running query: its checkpoint or an archive in its sink, an archive in its checkpoint."""
    running = _running(spark, query)
    if running is None:
        return []
    sink = re.fullmatch(r"FileSink\[(.*)\]", str(running.sink().toString()))
    checkpoint = str(running.resolvedCheckpointRoot())
    there = {"the sink": [sink[1]] if sink else []}
    wrong = list(mixed({"checkpoint": checkpoint}, there))
    for archive in archives:
        wrong += mixed({"archive": archive}, there | {"the checkpoint": [checkpoint]})
    return wrong


def checkpoint_of_query(spark: SparkSession, query: str) -> str | None:
    """The checkpoint of a running query."""
    running = _running(spark, query)
    return None if running is None else str(running.resolvedCheckpointRoot())


def joins(spark: SparkSession, query: str, name: str) -> bool:
    """Whether a running query has the join of this name in it, by its plan as Spark writes it; one that has ended may have had it."""
    running = _running(spark, query)
    return running is None or f"CollectMetrics {name}, " in str(running.analyzedPlan().toString())


def is_new(spark: SparkSession, query: str) -> bool:
    """Whether a running query has not committed any batch."""
    running = _running(spark, query)
    return running is not None and not running.commitLog().getLatestBatchId().isDefined()


def _running(spark: SparkSession, query: str) -> Java:
    found = spark._jsparkSession.streams().get(query)
    return found.streamingQuery() if found is not None and hasattr(found, "streamingQuery") else found


def _places(leaf: Java) -> list[str]:
    kind = str(leaf.getClass().getSimpleName())
    if kind == "StreamingRelation":
        source = leaf.dataSource()
        return [*_texts(source.paths()), *_option(source.options().get("path"))]
    if kind == "StreamingRelationV2":
        found = leaf.extraOptions().get("path")
        return [] if found is None else [str(found)]
    relation = leaf.relation() if kind == "LogicalRelation" else None
    if relation is not None and str(relation.getClass().getSimpleName()) == "HadoopFsRelation":
        return _texts(relation.location().rootPaths())
    return []


def _texts(found: Java) -> list[str]:
    each = (found.apply(number) for number in range(found.size()))
    return [one if isinstance(one, str) else str(one.toString()) for one in each]


def _option(found: Java) -> list[str]:
    return [str(found.get())] if found.isDefined() else []
