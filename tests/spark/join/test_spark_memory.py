"""A memory by stream that changes over time, on Spark: what the simulator does with it, over a restart."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

import penstock as ps

pytest.importorskip("pyspark")

from sparks import ON_SPARK, START, add_batches, at, bag_of_members, in_batches, ran

pytestmark = ON_SPARK
SECOND = 1_000_000


def test_a_memory_by_stream_that_changes_is_that_of_the_simulator(spark, tmp_path):
    random, start = Random(4), int(START.timestamp())
    order = sorted((random.randrange(90), side, f"{side}{n:03}", random.choice("abcde")) for side in "lr" for n in range(110))
    parts: dict[str, list[list[tuple[Any, ...]]]] = {
        side: [[(at(t), k, v) for t, s, v, k in order if s == side and begin <= t < begin + 30] for begin in (0, 30, 60)] for side in "lr"
    }
    memory = {"l": [(at(0), 12), (at(40), 3), (at(70), 9)], "r": "2026-01-01 00:00:00:6,2026-01-01 00:00:50:14"}

    def query() -> Any:
        frames = {side: spark.readStream.schema("ts timestamp, k string, v string").option("maxFilesPerTrigger", 1) for side in "lr"}
        streams = {
            side: ps.stream(frame.parquet(str(tmp_path / side / "in")), time="ts", window="25 seconds", order="v")
            for side, frame in frames.items()
        }
        return ps.join(streams, on="k", memory=memory, policy="prob", shards=1)

    for side in "lr":
        in_batches(spark, tmp_path / side, parts[side][:2])
    ran(query(), tmp_path)
    for side in "lr":
        add_batches(spark, tmp_path / side, parts[side][2:])
    out, seen = ran(query(), tmp_path)
    columns = {"stream": [s for _, s, *_ in order], "time": [(start + t) * SECOND for t, *_ in order], "key": [k for *_, k in order]}
    told = {
        "l": [((start + t) * SECOND, n) for t, n in ((0, 12), (40, 3), (70, 9))],
        "r": [((start + t) * SECOND, n) for t, n in ((0, 6), (50, 14))],
    }
    run = ps.simulate(
        ps.Trace(columns, streams=("l", "r")), window=25 * SECOND, memory=told, policy="prob", clock="streams", keep=ps.Keep(outputs=True)
    )
    assert run.outputs is not None and run.n_shed > 0
    assert bag_of_members(out) == Counter((order[left][2], order[right][2]) for _, left, right in run.outputs.tolist())
    assert seen[-1]["total_n_shed"] == run.n_shed and seen[-1]["memory_l"] <= 9 and 6 < seen[-1]["memory_r"] <= 14
