"""What differs between the supported versions of Spark; `make test-sparks` runs this file and others on each of them."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import penstock as ps
from penstock.cli import run
from penstock.experiments.demo import SAMPLE
from penstock.pipeline.recipe import check_recipe, read_recipe
from penstock.spark.observe.follow import follow
from penstock.spark.pipeline import query as pipeline
from penstock.spark.reshard.reshard import reshard
from penstock.spark.session.presence import GENERATOR, LEAST
from sparks import ON_SPARK, SCHEMA, VERSION, add_batches, bag, in_batches, joined, ran, rows, spark_join

pytestmark = [*ON_SPARK, pytest.mark.slow, pytest.mark.versions]
RESHARD = (4, 2)


def contents(folder: Path) -> dict[str, bytes]:
    """All files in a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_this_version_is_supported():
    assert VERSION >= LEAST


def test_another_number_of_shards_or_why_not(spark, tmp_path):
    """Before 4.2 it is refused, and nothing is touched."""
    parts = {side: [rows(side, 40, seconds=30, seed=seed) for seed in range(2)] for side in "lr"}
    frames = [in_batches(spark, tmp_path / side, parts[side][:1]) for side in "lr"]
    ran(joined(*frames, memory=40, shards=2), tmp_path)
    before, count = contents(tmp_path), 2
    if VERSION < RESHARD:
        with pytest.raises(ps.PenstockError, match=r"penstock reshard does, needs Spark 4\.2 or newer, got 4\.\d.*; nothing was changed"):
            reshard(spark, str(tmp_path / "checkpoint"), 3)
        assert contents(tmp_path) == before
    else:
        reshard(spark, str(tmp_path / "checkpoint"), 3)
        count = 3
    for side in "lr":
        add_batches(spark, tmp_path / side, parts[side][1:])
    out, seen = ran(joined(*frames, memory=40, shards=count), tmp_path)
    everything = [spark.createDataFrame([row for part in parts[side] for row in part], SCHEMA) for side in "lr"]
    exact, got = bag(spark_join(*everything, ["k"], 10)), bag(out)
    assert not got - exact and seen[-1]["total_lost"] == sum(exact.values()) - sum(got.values()) > 0


def test_a_pipeline_from_files(spark, tmp_path):
    for side in "lr":
        spark.createDataFrame(rows(side, 60), SCHEMA).repartition(2).write.parquet(str(tmp_path / side))
    found = {
        "sources": {side: {"kind": "parquet", "path": str(tmp_path / side), "files_per_batch": 1} for side in "lr"},
        "streams": {side: {"source": side, "time": "ts", "window": "10 seconds", "lateness": "1 hour"} for side in "lr"},
        "join": {"on": "k", "memory": 1000, "shards": 2},
        "sink": {"kind": "parquet", "path": str(tmp_path / "out"), "checkpoint": str(tmp_path / "state"), "trigger": "available now"},
    }
    recipe = check_recipe(found)
    events = list(follow(pipeline.start(recipe, pipeline.build(recipe, spark)), "penstock"))
    exact = spark_join(*(spark.read.parquet(str(tmp_path / side)) for side in "lr"), ["k"], 10)
    assert len(events) == 2 and events[-1]["total_n_input"] == 120
    assert bag(spark.read.parquet(str(tmp_path / "out")).select("k", "l_ts", "l_v", "r_ts", "r_v")) == bag(exact)


@pytest.mark.skipif(VERSION >= GENERATOR, reason="this version has it")
def test_without_a_generator_the_simulator_plays_the_demo(spark, tmp_path, capsys):
    with pytest.raises(ps.PenstockError, match=r"sources\.shop: kind 'generator' needs Spark 4\.2 or newer, got 4\.[01]\."):
        pipeline.build(read_recipe(SAMPLE, {}), spark)
    assert run(["demo", "--out", str(tmp_path / "demo"), "--set", "sources.shop.ticks=120", "--format", "json"]) == 0
    said = capsys.readouterr()
    assert "needs Spark 4.2 or newer" in said.err and json.loads(said.out)["n_input"] > 0


def test_a_batch_below_its_recall_is_warned_of(spark, tmp_path, caplog):
    frames = [in_batches(spark, tmp_path / side, [rows(side, 80)]) for side in "lr"]
    with caplog.at_level(logging.WARNING, logger="penstock"):
        frame = joined(*frames, memory=4, shards=1, min_recall=0.9)
        query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "state")).trigger(availableNow=True).start()
        query.awaitTermination()
        told = ps.progress(query)
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    assert told is not None and 0 < told.joins["penstock"]["recall"] < 0.9
    assert any("below min_recall 0.9" in record.getMessage() for record in caplog.records)
