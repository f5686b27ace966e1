"""`penstock explain CHECKPOINT`: what a query's state says of its joins: settings, what is held, and what `learned` has learned."""

from __future__ import annotations

from typing import Any

import numpy as np
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from penstock.core.errors import PenstockError
from penstock.ledger.settled_marks import last_commit
from penstock.policies.table import POLICIES
from penstock.shard.shard import Shard
from penstock.shard.state.state_rows import is_join
from penstock.shard.state.state_settings import made_with
from penstock.shard.stream_window import window_text
from penstock.spark.reshard.reshard import opened
from penstock.spark.reshard.rewrite import StateRows
from penstock.statistics.return_curves import picture


def explain_checkpoint(spark: SparkSession, checkpoint: str) -> str:
    """What the state after the last committed batch says, as text."""
    batch = last_commit(checkpoint)
    if batch < 0:
        raise PenstockError(f"checkpoint must be one with a committed batch, got {checkpoint!r}, which has none")
    try:
        stores = spark.read.format("state-metadata").option("batchId", batch).load(checkpoint).collect()
        joins = [_rows(spark, checkpoint, batch, store) for store in stores if is_join(store["operatorProperties"])]
    except PySparkException as error:
        raise PenstockError(f"checkpoint must have a state that Spark can read, got {checkpoint!r}: {str(error).splitlines()[0]}") from None
    joins = [rows for rows in joins if rows["head"]]
    if not joins:
        raise PenstockError(f"checkpoint must be that of a query with a join of Penstock, got {checkpoint!r}")
    return "\n".join(line for rows in joins for line in _lines(rows, batch))


def _rows(spark: SparkSession, root: str, batch: int, store: Row) -> StateRows:
    reader = spark.read.format("statestore").option("batchId", batch).option("operatorId", store["operatorId"])
    heads = reader.option("stateVarName", "head").load(root).select("key", "value").collect()
    cells = reader.option("stateVarName", "cells").option("flattenCollectionTypes", True).load(root)
    found = cells.select("key", "user_map_key", "user_map_value").collect()
    return {
        "head": [(tuple(key), None, tuple(value)) for key, value in heads],
        "cells": [(tuple(key), tuple(at), tuple(value)) for key, at, value in found],
    }


def _lines(rows: StateRows, batch: int) -> list[str]:
    facts = made_with(rows["head"][0][2])
    fixed: dict[str, Any] = facts["fixed"]
    windows = ", ".join(f"{name} {window_text(window)}" for name, window in fixed["window"].items())
    lines = [
        f"join {facts['made']['name']} of {', '.join(fixed['streams'])}, after batch {batch}",
        f"windows    {windows}",
        f"policy     {fixed['policy']}",
    ]
    if fixed["policy"] not in POLICIES or callable(fixed.get("objective")):
        return [*lines, "memory     cannot be read without the objects of yours that the join was given"]
    shards = opened(rows)
    held = np.sum([shard.engine.held for shard in shards], axis=0)
    by_stream = ", ".join(f"{name} {int(rows):,}" for name, rows in zip(fixed["streams"], held, strict=True))
    lines.append(f"memory     {by_stream} tuples in {len(shards)} shard{'s' if len(shards) > 1 else ''}")
    return [*lines, *_learned(shards, fixed["streams"])]


def _learned(shards: list[Shard], names: list[str]) -> list[str]:
    """What all shards have learned together."""
    counted = [found for shard in shards if (found := shard.engine.statistics.counted_returns()) is not None]
    if not counted:
        return []
    drawn = picture(np.sum([tables for tables, _ in counted], axis=0), names, counted[0][1])
    return [f"learned    {drawn[0]}", *(f"           {line}" for line in drawn[1:])]
