"""The last attempts of all shards, as the state in a query's checkpoint names them."""

from __future__ import annotations

import json
import os

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.core.errors import PenstockError
from penstock.ledger.attempts import StateHeads
from penstock.ledger.manifest import Attempt
from penstock.shard.state.state_rows import is_join


def state_heads(spark: SparkSession, checkpoint: str | os.PathLike[str] | None, name: str) -> StateHeads:
    """How to read them from the state of the join `name` after a batch."""

    def read(batch: int) -> list[Attempt]:
        root = os.fspath(checkpoint) if checkpoint is not None else ""
        try:
            stores = spark.read.format("state-metadata").option("batchId", batch).load(root).collect()
            found = [text for store in stores if is_join(store["operatorProperties"]) for text in _settings(spark, root, batch, store)]
        except PySparkException as error:
            raise PenstockError(
                f"which attempts at batch {batch} count does not follow from the ledger alone, and the state in checkpoint {root!r} "
                f"cannot be read: {str(error).splitlines()[0]}"
            ) from None
        mine = [facts for facts in map(json.loads, found) if facts["made"]["name"] == name]
        if not mine:
            raise PenstockError(f"checkpoint must have the state of the join {name!r} after batch {batch}, got {root!r}: there is none")
        return sorted({Attempt(*one) for facts in mine for one in facts.get("attempts", [])})

    return read


def _settings(spark: SparkSession, root: str, batch: int, store: object) -> list[str]:
    reader = spark.read.format("statestore").option("batchId", batch).option("operatorId", store["operatorId"])  # type: ignore[index]
    return [str(row[0]) for row in reader.option("stateVarName", "head").load(root).select("value.settings").collect()]
