"""Folders that must lie apart: an archive in a source is read as rows, a checkpoint in a sink as results."""

from __future__ import annotations

import os

import pytest

import penstock as ps
from penstock.ledger.places import mixed, overlap
from penstock.pipeline.recipe import RecipeError, check_recipe

pytest.importorskip("pyspark")

from sparks import ON_SPARK, SCHEMA, in_batches, joined, rows


def test_links_and_urls_are_followed(tmp_path):
    (tmp_path / "in").mkdir()
    os.symlink(tmp_path / "in", tmp_path / "link")
    source = str(tmp_path / "in")
    for place, found in {
        f"{tmp_path}/link/archive": "inside",
        f"file://{tmp_path}/in/": "the same as",
        f"file:{tmp_path}/x/../link": "the same as",
        str(tmp_path): "around",
        f"{tmp_path}/inside": None,
        "s3://in": None,
    }.items():
        assert overlap(place, source) == found, place


def test_object_stores_are_compared_by_their_prefixes():
    assert overlap("s3a://Bucket/a/b?region=eu", "s3://bucket/a/") == "inside"
    assert overlap("s3://bucket/ab", "s3://bucket/a") is None
    assert overlap("s3://bucket/a", "gs://bucket/a") is None
    assert overlap("hdfs://node:8020/a", "hdfs://node:8020/a/*/part-*.parquet") == "the same as"


def test_nothing_is_compared_with_itself():
    assert not list(mixed({"archive": "/a", "to": None}, {"archive": ["/a"]}))


def recipe(tmp_path, **places: str) -> None:
    (tmp_path / "in").mkdir(exist_ok=True)
    stream = {"source": "files", "time": "ts", "window": "10 seconds"}
    where = {name: str(tmp_path / place) for name, place in places.items()}
    check_recipe(
        {
            "sources": {"files": {"kind": "parquet", "path": str(tmp_path / "in" / "*.parquet"), "schema": "ts timestamp, k string"}},
            "streams": {"l": stream, "r": stream},
            "join": {"on": "k", "memory": 100, "archive": where["archive"]},
            "sink": {"kind": "parquet", "path": where["path"], "checkpoint": where["checkpoint"]},
        }
    )


APART = {"archive": "archive", "path": "out", "checkpoint": "checkpoint"}


def test_places_that_lie_apart_are_no_mistake(tmp_path):
    recipe(tmp_path, **APART)


@pytest.mark.parametrize(
    ("places", "told"),
    (
        ({"archive": "in/archive"}, r"join\.archive must lie apart from sources\.files\.path .* inside it"),
        ({"archive": "in"}, r"join\.archive must be another place than sources\.files\.path"),
        ({"archive": "out/archive"}, r"join\.archive must lie apart from sink\.path .* inside it"),
        ({"archive": "checkpoint/archive"}, r"join\.archive must lie apart from sink\.checkpoint .* inside it"),
        ({"checkpoint": "out/checkpoint"}, r"sink\.checkpoint must lie apart from sink\.path .* inside it"),
        ({"checkpoint": "in/checkpoint"}, r"sink\.checkpoint must lie apart from sources\.files\.path .* inside it"),
        ({"path": "checkpoint/out"}, r"sink\.checkpoint must lie apart from sink\.path .* around it"),
        ({"path": "in/out"}, r"sink\.path must lie apart from sources\.files\.path .* inside it"),
    ),
)
def test_a_pipeline_with_a_place_inside_another_is_refused(tmp_path, places, told):
    with pytest.raises(RecipeError, match=told):
        recipe(tmp_path, **APART | places)


class TestOnSpark:
    pytestmark = ON_SPARK

    @pytest.mark.slow
    def test_a_join_sees_what_its_streams_read(self, spark, tmp_path):
        parts = [[], []]
        left, right = (in_batches(spark, tmp_path / side, parts) for side in "lr")
        for archive in (tmp_path / "l" / "in" / "archive", tmp_path / "r" / "in", tmp_path):
            with pytest.raises(ps.PenstockError, match=r"archive must .* what stream [lr] reads"):
                joined(left, right, archive=str(archive))
        joined(left, right, archive=str(tmp_path / "archive"))
        files = spark.read.schema(SCHEMA).parquet(str(tmp_path / "l" / "in"))
        with pytest.raises(ps.PenstockError, match=r"archive must .* what stream l reads"):
            joined(files, files, archive=f"file://{tmp_path}/l/in/archive")

    def test_a_query_says_at_its_start_that_its_checkpoint_is_in_its_sink(self, spark, tmp_path, caplog):
        """A query of any kind, in a session with a join: Spark does not ask before it starts."""
        left, right = (in_batches(spark, tmp_path / side, [[]]) for side in "lr")
        joined(left, right, archive=str(tmp_path / "out" / "archive"))
        with caplog.at_level("ERROR", logger="penstock"):
            query = left.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "out" / "checkpoint"))
            query.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
        said = " ".join(record.getMessage() for record in caplog.records)
        assert "checkpoint must lie apart from the sink" in said and "archive must lie apart from the sink" in said

    @pytest.mark.slow
    def test_a_join_whose_checkpoint_is_in_its_sink_is_stopped_before_it_has_begun(self, spark, tmp_path, caplog):
        left, right = (in_batches(spark, tmp_path / side, [rows(side, 5)] * 3) for side in "lr")
        writer = joined(left, right, name="inside").writeStream.format("parquet").trigger(availableNow=True)
        with caplog.at_level("ERROR", logger="penstock"):
            query = writer.option("checkpointLocation", str(tmp_path / "out" / "checkpoint")).start(str(tmp_path / "out"))
            query.awaitTermination()
        said = [record.getMessage() for record in caplog.records]
        assert "checkpoint must lie apart from the sink" in said[0] and said[1] == f"query {query.id} is stopped"
        assert not list((tmp_path / "out" / "checkpoint" / "commits").glob("[0-9]*")) and query.exception() is None
        apart = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start(str(tmp_path / "apart"))
        apart.awaitTermination()  # others are still listened to
        assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == said and apart.lastProgress is not None

    def test_what_is_settled_is_not_written_into_the_archive(self, spark, tmp_path):
        with pytest.raises(ps.PenstockError, match="to must lie apart from archive"):
            ps.settle(tmp_path, to=tmp_path / "settled", spark=spark)
