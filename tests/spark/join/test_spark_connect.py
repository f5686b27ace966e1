"""The join where the session is a remote one: under Spark Connect, and in a declarative pipeline."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")
pytest.importorskip("grpc", reason="Spark Connect needs grpcio, which is not there")

from places import SUPPORT
from sparks import ON_SPARK, VERSION, rows

pytestmark = [*ON_SPARK, pytest.mark.slow]
ANY_PORT = {"SPARK_TESTING": "1"}
"""A server of Spark Connect takes port 15002, which the server of the test before may not have given back yet; in tests any free one."""
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def made(folder: Path) -> list[list[str]]:
    """Two files of rows; the pairs that match."""
    sides = {side: rows(side, 60) for side in "lr"}
    for side, found in sides.items():
        (folder / side).mkdir(parents=True)
        columns = dict(zip(("ts", "k", "v"), map(list, zip(*found, strict=True)), strict=True))
        pq.write_table(pa.table(columns | {"ts": pa.array(columns["ts"], pa.timestamp("us", "UTC"))}), folder / side / "a.parquet")
    near = [(x, y) for x in sides["l"] for y in sides["r"] if x[1] == y[1] and abs((x[0] - y[0]).total_seconds()) < 10]
    return sorted([x[2], y[2]] for x, y in near)


def test_a_join_under_spark_connect(tmp_path):
    pairs = [pair for pair in made(tmp_path) if pair[0] != "l7"]
    command = [sys.executable, str(SUPPORT / "connect_job.py"), str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, env=os.environ | ANY_PORT, check=False)
    if VERSION < (4, 1):
        assert "PenstockError: a join under Spark Connect needs Spark 4.1 or newer, got 4.0." in ended.stderr
        return
    assert ended.returncode == 0, (ended.stdout + ended.stderr)[-3000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    assert "connect" in found["kind"] and found["batch"] == pairs
    assert "min_recall must fail under Spark Connect" in found["refused"]
    (registered,) = (tmp_path / "archive").glob("*/runs/*.json")
    assert registered.name == f"0001-000000000-{found['run']}.json"
    told = found["told"]
    assert all(pair in pairs for pair in found["stream"]) and told["total_n_input"] == 120
    watched = found["watched"]
    assert watched["penstock_query_running"] == 0 and watched["penstock_n_input_total"] == 120
    assert watched["penstock_lost_total"] == told["total_lost"] and watched["penstock_recall"] == told["total_recall"]
    assert told["total_n_output"] == len(found["stream"]) and told["total_lost"] == len(pairs) - len(found["stream"]) > 0


PIPELINE = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
import penstock as ps

spark = SparkSession.active()
frames = {{side: spark.readStream.schema("ts timestamp, k string, v string").parquet("{folder}/" + side) for side in "lr"}}
pairs = ps.join({{side: ps.stream(frame, time="ts", window="10 seconds") for side, frame in frames.items()}}, on="k", memory=1000, shards=2)

@dp.table
def joined():
    return pairs
"""


@pytest.mark.skipif(VERSION < (4, 1), reason="Spark has declarative pipelines since 4.1")
@pytest.mark.parametrize("store", ("told", "not told"))
def test_a_table_of_a_declarative_pipeline(tmp_path, store):
    """The functions of a pipeline may not look at a frame, so the join is made beside the function that returns it."""
    pairs = made(tmp_path / "in")
    home = tmp_path / "pipeline"
    (home / "transformations").mkdir(parents=True)
    (home / "transformations" / "joined.py").write_text(PIPELINE.format(folder=tmp_path / "in"))
    spec = f"name: joined\nstorage: file://{tmp_path}/storage\nlibraries:\n  - glob:\n      include: transformations/**\n"
    if store == "told":
        spec += f'configuration:\n  spark.sql.streaming.stateStore.providerClass: {ROCKSDB}\n  spark.sql.shuffle.partitions: "2"\n'
    (home / "spark-pipeline.yml").write_text(spec)
    command = [str(Path(sys.executable).parent / "spark-pipelines"), "run"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "PATH": path} | ANY_PORT
    ended = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=600, env=environment, check=False)
    if store == "not told":
        assert "a join in a declarative pipeline needs spark.sql.streaming.stateStore.providerClass" in ended.stdout + ended.stderr
        return
    assert ended.returncode == 0, (ended.stdout + ended.stderr)[-3000:]
    table = pq.read_table(home / "spark-warehouse" / "joined")
    assert sorted(map(list, zip(table["l_v"].to_pylist(), table["r_v"].to_pylist(), strict=True))) == pairs
