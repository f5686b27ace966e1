"""A join has as many partitions as shards, in a default session too; other queries keep theirs, and nobody waits in silence."""

from __future__ import annotations

import logging
import time
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from penstock.core import compiled
from penstock.spark.join.partitions import SHUFFLE, STATEFUL, Partitions
from penstock.spark.observe import first_batch as awaited
from penstock.spark.observe.first_batch import Awaited
from sparks import ON_SPARK, SCHEMA, in_batches, joined, rows


class TestOnSpark:
    pytestmark = ON_SPARK

    @pytest.fixture
    def plain(self, spark):
        """A session in which nobody has said how many partitions there are."""
        session = spark.newSession()
        session.conf.unset(SHUFFLE)
        assert session.conf.get(SHUFFLE) == "200"
        return session

    def sides(self, spark: Any, folder: Any) -> list[Any]:
        parts = {side: [rows(side, 20, seed=n) for n in range(2)] for side in "lr"}
        return [in_batches(spark, folder / side, parts[side]) for side in "lr"]

    def test_a_join_has_as_many_partitions_as_shards_and_other_queries_keep_theirs(self, plain, tmp_path):
        frames = self.sides(plain, tmp_path)
        frame = joined(*frames, shards=3, name="three")
        other = frames[0].writeStream.format("noop").trigger(availableNow=True).start()
        assert plain.conf.get(STATEFUL) == "3"  # that query has no such join in it
        other.awaitTermination()
        query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()
        assert plain.conf.get(STATEFUL, None) is None
        query.awaitTermination()
        found = {state.numShufflePartitions for progress in query.recentProgress for state in progress.stateOperators}
        assert found == {3} and plain.conf.get(SHUFFLE) == "200"

    def test_what_was_set_is_used_and_far_too_many_are_warned_of_once(self, spark, tmp_path, caplog):
        session = spark.newSession()
        session.conf.set(SHUFFLE, "9")
        frames = [session.readStream.schema(SCHEMA).parquet(str(tmp_path)) for _ in "lr"]
        with caplog.at_level(logging.WARNING, logger="penstock"):
            joined(*frames, shards=3, name="some")
            assert not caplog.records and session.conf.get(STATEFUL, None) == ("9" if STATEFUL == SHUFFLE else None)
            for _ in range(2):
                joined(*frames, shards=2, name="many")
        (record,) = caplog.records
        assert "join many: spark.sql.shuffle.partitions is 9, so every batch runs 9 tasks for 2 shards" in record.getMessage()

    @pytest.mark.slow
    @pytest.mark.versions
    def test_a_query_started_again_without_new_rows_says_that_it_waits(self, spark, tmp_path, monkeypatch, caplog):
        monkeypatch.setattr(awaited, "SECONDS", 0.5)
        frame = joined(*self.sides(spark, tmp_path), shards=2, name="idle")
        writer = frame.writeStream.format("noop").queryName("idle").option("checkpointLocation", str(tmp_path / "c"))
        writer.trigger(availableNow=True).start().awaitTermination()
        with caplog.at_level(logging.WARNING, logger="penstock"):
            query = writer.trigger(processingTime="0 seconds").start()
            assert said(caplog, "query idle: it is waiting for new rows", tries=400)
            query.stop()


def test_a_checkpoint_with_far_more_partitions_than_shards_is_told_once(caplog):
    follower = Partitions(SimpleSession())
    follower.shards["old"] = 2
    state = SimpleNamespace(numShufflePartitions=200)
    progress = SimpleNamespace(id="q1", stateOperators=[state], observedMetrics={"old": {"total_recall": 1.0}})
    with caplog.at_level(logging.WARNING, logger="penstock"):
        for _ in range(2):
            follower.progressed(progress)
    (record,) = caplog.records
    assert "the checkpoint of query q1 keeps 200 partitions, so every batch runs 200 tasks for 2 shards" in record.getMessage()
    assert "begin with a new checkpoint" in record.getMessage()


class SimpleSession:
    """Something to refer to, with the one query `running`."""

    def __init__(self, running: Any = None, jsc: Any = "there") -> None:
        self.streams = SimpleNamespace(get=lambda query: running)
        self.sparkContext = SimpleNamespace(_jsc=jsc)


def said(caplog: pytest.LogCaptureFixture, wanted: str, tries: int = 100) -> bool:
    for _ in range(tries):
        if any(wanted in record.getMessage() for record in caplog.records):
            return True
        time.sleep(0.05)
    return False


def test_a_first_batch_that_takes_long_says_what_it_waits_for(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(awaited, "SECONDS", 0.05)
    monkeypatch.setattr(awaited, "checkpoint_of_query", lambda spark, query: str(tmp_path))
    monkeypatch.setattr(compiled, "_cache_folder", lambda: str(tmp_path))
    monkeypatch.setattr(compiled.config, "DISABLE_JIT", 0)
    session = SimpleSession()
    follower = Awaited(session)
    event = SimpleNamespace(id="q1", runId="r1", name="mine")
    with caplog.at_level(logging.WARNING, logger="penstock"):
        with compiled.turn(str(tmp_path)):
            follower.started(event)
            assert said(caplog, "query mine: its Python workers compile")
        assert said(caplog, "query mine: it plays its first batch")
        follower.progressed(SimpleNamespace(runId="r1", durationMs={"addBatch": 5}))
        assert not follower.over
        (tmp_path / "commits").mkdir()
        (tmp_path / "commits" / "0").touch()
        follower.started(SimpleNamespace(id="q1", runId="r2", name=None))
        assert said(caplog, "query q1: it restores its state and plays its next batch")
        follower.ended(SimpleNamespace(runId="r2"))
    assert not follower.over


def test_a_query_without_new_rows_says_that_it_waits_for_them(monkeypatch, caplog):
    monkeypatch.setattr(awaited, "SECONDS", 0.05)
    monkeypatch.setattr(awaited, "checkpoint_of_query", lambda spark, query: None)
    monkeypatch.setattr(compiled, "is_compiling", lambda: True)  # for another query of this machine
    running = SimpleNamespace(status={"isDataAvailable": False}, lastProgress=SimpleNamespace(durationMs={"latestOffset": 3}))
    session = SimpleSession(running)
    follower = Awaited(session)
    with caplog.at_level(logging.WARNING, logger="penstock"):
        follower.started(SimpleNamespace(id="q1", runId="r1", name="mine"))
        assert said(caplog, "query mine: it is waiting for new rows")
        assert not said(caplog, "compile", tries=5)
        running.status = {"isDataAvailable": True}
        assert said(caplog, "query mine: its Python workers compile")
        follower.progressed(SimpleNamespace(runId="r1", durationMs={"addBatch": 5}))
    assert not follower.over


def test_workers_that_compile_for_long_give_a_sign_each_minute(monkeypatch, caplog):
    monkeypatch.setattr(awaited, "SECONDS", 0.02)
    monkeypatch.setattr(awaited, "MINUTE", 0.5)
    monkeypatch.setattr(awaited, "checkpoint_of_query", lambda spark, query: None)
    monkeypatch.setattr(compiled, "is_compiling", lambda: True)
    session = SimpleSession()
    follower = Awaited(session)
    with caplog.at_level(logging.WARNING, logger="penstock"):
        follower.started(SimpleNamespace(id="q1", runId="r1", name="mine"))
        assert said(caplog, "query mine: still compiling, 2 minutes")
        follower.progressed(SimpleNamespace(runId="r1", durationMs={"addBatch": 5}))
    told = [record.getMessage().removeprefix("query mine: ") for record in caplog.records]
    assert told[0].startswith("its Python workers compile") and told[1:3] == ["still compiling, 1 minute", "still compiling, 2 minutes"]


def test_nobody_waits_for_a_session_that_has_been_stopped(monkeypatch, caplog):
    monkeypatch.setattr(awaited, "SECONDS", 0.05)
    monkeypatch.setattr(awaited, "checkpoint_of_query", lambda spark, query: None)
    session = SimpleSession(jsc=None)
    Awaited(session).started(SimpleNamespace(id="q1", runId="r1", name="mine"))
    assert not said(caplog, "mine", tries=5)


def test_without_a_wait_nothing_is_said(monkeypatch, caplog):
    monkeypatch.setattr(awaited, "SECONDS", 0.3)
    monkeypatch.setattr(awaited, "checkpoint_of_query", lambda spark, query: None)
    follower = Awaited(SimpleSession())
    follower.started(SimpleNamespace(id="q1", runId="r1", name=None))
    follower.progressed(SimpleNamespace(runId="r1", durationMs={"addBatch": 5}))
    time.sleep(0.5)
    assert not caplog.records
