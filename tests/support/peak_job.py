"""A job of test_peak.py: a worker plays batches of `rows` x `rows` rows, one instant each; prints what it made and lost, and its peak."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.shard.shard import Shard
from penstock.shard.shard_plan import ShardPlan
from penstock.spark.join import shard_player


def main(rows: int, keys: int, memory: int, predicate: str, judged: bool, batches: int) -> None:
    """Keys of the left stream are `keys` apart from those of the right one: 0 makes all rows match, in any predicate with "="."""
    names = ["l_k", "r_k"] if predicate != "=" else ["k"]
    schema = pa.schema([*((name, pa.int64()) for name in names), ("l_v", pa.int64()), ("r_v", pa.int64())])
    options: dict[str, Any] = {"window": 20, "memory": memory, "policy": "fifo", "stats": "decayed"}
    more: dict[str, Any] = {}
    payload = (("l_v",), ("r_v",))
    if predicate != "=":
        options["predicate"] = predicate
        payload = (("l_k", "l_v"), ("r_k", "r_v"))
        more = {"sent": (("key0",), ("key1",)), "columns": (("k",), ("k",)), "numeric": ((True,), (True,)), "route": "one"}
    if judged:
        schema = schema.append(pa.field("__lost", pa.float64()))
        more |= {"condition": "l_v > 0", "judged": (("l_v",), ())}
    plan = ShardPlan(("l", "r"), 0 if predicate != "=" else 1, payload, options, schema, ("time", "time"), **more)
    shard = Shard(plan)
    counts: dict[str, float] = {}
    made = 0
    for batch in range(batches):
        tables = []
        for number, side in enumerate("lr"):
            own = {"time": np.full(rows, batch), "order": np.arange(rows), f"{side}_v": np.arange(rows)}
            key = np.full(rows, keys * (1 - number))
            own |= {f"key{number}": key, f"{side}_k": key} if predicate != "=" else {"key0": key}
            tables.append(pa.table(own))
        frames = shard_player._handed_on(shard.pieces(tables, np.array([batch, batch])))
        while True:
            try:
                made += len(next(frames))
            except StopIteration as end:
                counts = end.value.counts
                break
    peak = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert peak is not None
    print(json.dumps({"made": counts["total_n_output"], "lost": counts["total_lost"], "cells": made, "peak": int(peak[1]) << 10}))


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
