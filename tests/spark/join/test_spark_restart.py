"""Restarts of a join on Spark: going on, changing one's mind, and what may not change; what is in the state."""

from __future__ import annotations

import shutil
import tarfile
from collections import Counter
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F  # noqa: N812

import penstock as ps
from penstock.shard.state.state_rows import ShardState
from penstock.spark.reshard.state_report import explain_checkpoint
from places import DATA
from sparks import ON_SPARK, SCHEMA, add_batches, bag, in_batches, joined, ran, rows, spark_join
from strategies import later

pytestmark = ON_SPARK


def streams_of(spark, folder, parts):
    return {side: in_batches(spark, folder / side, parts[side]) for side in "lr"}


def some_parts(n: int = 4) -> dict[str, list[list[tuple[Any, ...]]]]:
    return {side: [rows(f"{side}{number}", 40, seconds=30, seed=number) for number in range(n)] for side in "lr"}


def test_a_restart_goes_on_where_the_query_stopped(spark, tmp_path):
    parts = some_parts()
    frames = streams_of(spark, tmp_path, {side: parts[side][:2] for side in "lr"})
    _, before = ran(joined(frames["l"], frames["r"], memory=40, shards=2), tmp_path)
    for side in "lr":
        add_batches(spark, tmp_path / side, parts[side][2:])
    out, after = ran(joined(frames["l"], frames["r"], memory=40, shards=2), tmp_path)
    assert before[-1]["total_n_input"] == 160 and after[-1]["total_n_input"] == 320
    assert out.count() == after[-1]["total_n_output"]
    everything = [spark.createDataFrame([row for part in parts[side] for row in part], SCHEMA) for side in "lr"]
    exact = bag(spark_join(*everything, ["k"], 10))
    got = bag(out)
    assert not got - exact and after[-1]["total_lost"] == sum(exact.values()) - sum(got.values()) > 0


@pytest.mark.slow
@pytest.mark.versions
def test_a_checkpoint_keeps_its_policy_where_none_is_named_and_explain_shows_what_was_learned(spark, tmp_path):
    parts = some_parts(2)
    frames = streams_of(spark, tmp_path, {side: parts[side][:1] for side in "lr"})
    _, before = ran(joined(*frames.values(), memory=40, shards=2, policy="prob"), tmp_path)
    _, new = ran(joined(*frames.values(), memory=40, shards=2), tmp_path / "new")
    for side in "lr":
        add_batches(spark, tmp_path / side, parts[side][1:])
    _, after = ran(joined(*frames.values(), memory=40, shards=2), tmp_path)
    assert [batch[-1]["policy"] for batch in (before, after, new)] == ["prob", "prob", "learned"]
    told = explain_checkpoint(spark, str(tmp_path / "checkpoint"))
    left, right = (after[-1][f"memory_{side}"] for side in "lr")
    assert "policy     prob" in told and f"l {left}, r {right} tuples in 2 shards" in told and "learned" not in told
    told = explain_checkpoint(spark, str(tmp_path / "new" / "checkpoint"))
    assert "policy     learned" in told and "a key in l: its rows in r per 10 seconds, by the time since the last one there" in told
    assert "#" in told and told.count("up to") == 18


@pytest.mark.slow
@pytest.mark.versions
@pytest.mark.parametrize(("then", "most"), (({"memory": 10}, 10), later({"memory": 200}, 200), later({"memory": {"l": 5, "r": 30}}, 35)))
def test_memory_may_change_at_a_restart_and_the_loss_is_still_counted(spark, tmp_path, then, most):
    parts = some_parts()
    frames = streams_of(spark, tmp_path, {side: parts[side][:2] for side in "lr"})
    _, before = ran(joined(*frames.values(), memory=60, shards=1), tmp_path)
    for side in "lr":
        add_batches(spark, tmp_path / side, parts[side][2:])
    out, after = ran(joined(*frames.values(), shards=1, **then), tmp_path)
    everything = [spark.createDataFrame([row for part in parts[side] for row in part], SCHEMA) for side in "lr"]
    assert before[-1]["retained_rows"] == 60 and max(batch["retained_rows"] for batch in after) <= most
    assert after[-1]["total_lost"] + out.count() == spark_join(*everything, ["k"], 10).count()
    shed, total = sum(batch["n_shed"] for batch in [*before, *after]), after[-1]["total_n_shed"]
    assert shed == total


CHANGES = {
    "shards": ({"shards": 3}, "shards was 2, now it is 3"),
    "window": later({"window": "11 seconds"}, "window was l: 10 seconds, r: 10 seconds, now it is l: 11 seconds, r: 11 seconds"),
    "policy": later({"policy": "fifo"}, "policy was learned, now it is fifo"),
    "name": later({"name": "other"}, "name was penstock, now it is other"),
    "archive": later({"archive": "ledger"}, "archive was not written, now it is written"),
    "half-life": later({"half_life": "1 minute"}, "half_life was None, now it is 1 minute"),
}


@pytest.fixture(scope="module")
def stopped(spark, tmp_path_factory):
    """A query that ran and stopped."""
    folder = tmp_path_factory.mktemp("stopped")
    frames = streams_of(spark, folder, {side: part[:1] for side, part in some_parts().items()})
    ran(joined(*frames.values(), shards=2, memory=40), folder)
    for side, parts in some_parts().items():
        add_batches(spark, folder / side, parts[1:2])
    return folder


@pytest.mark.parametrize(("change", "said"), CHANGES.values(), ids=CHANGES)
def test_what_may_not_change_is_refused_before_data_is_touched(spark, stopped, tmp_path, change, said):
    folder = shutil.copytree(stopped, tmp_path / "copy")
    frames = [
        spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(stopped / side / "in")) for side in "lr"
    ]  # where the checkpoint knows them
    written = sorted(path.name for path in (folder / "out" / "_spark_metadata").iterdir())
    with pytest.raises(Exception, match=f"the checkpoint was made with other settings: .*{said}"):
        ran(joined(*frames, **({"shards": 2, "memory": 40} | change)), folder)
    assert sorted(path.name for path in (folder / "out" / "_spark_metadata").iterdir()) == written


@pytest.mark.slow
@pytest.mark.versions
@pytest.mark.parametrize("changed", ({"key": "j"}, later({"time": "other"})), ids=str)
def test_other_columns_of_the_same_types_are_other_keys_and_times(spark, tmp_path, changed):
    parts = some_parts(2)
    frames = streams_of(spark, tmp_path, {side: part[:1] for side, part in parts.items()})
    wide = {side: frame.withColumn("j", F.upper("k")).withColumn("other", F.col("ts")) for side, frame in frames.items()}

    def again(**own: str) -> Any:
        given = {"l": {}, "r": own}
        sides = {
            side: ps.stream(wide[side], window="10 seconds", **({"time": "ts", "key": "k", "columns": ["v"]} | given[side]))
            for side in "lr"
        }
        return ran(ps.join(sides, memory=40, shards=1), tmp_path)

    again()
    for side in "lr":
        add_batches(spark, tmp_path / side, parts[side][1:])
    with pytest.raises(Exception, match=r"time and key columns was .*'r': .'ts', 'k'.*, now it is .*'r': "):
        again(**changed)
    again()


@pytest.mark.slow
def test_a_ledger_lives_as_long_as_its_query(spark, tmp_path):
    """Neither given up nor begun anew: what was shed in between could not be settled. It may be moved with what is in it."""
    parts = some_parts(3)
    frames = streams_of(spark, tmp_path, {side: part[:1] for side, part in parts.items()})

    def again(archive: str | None) -> Any:
        return ran(joined(*frames.values(), memory=40, shards=2, archive=None if archive is None else str(tmp_path / archive)), tmp_path)

    again("ledger")
    for side in "lr":
        add_batches(spark, tmp_path / side, parts[side][1:])
    with pytest.raises(Exception, match="archive was written, now it is not written"):
        again(None)
    with pytest.raises(Exception, match=r"archive must be the folder with the ledger of this query, penstock-.*, got .*elsewhere"):
        again("elsewhere")
    shutil.rmtree(tmp_path / "elsewhere", ignore_errors=True)
    (tmp_path / "ledger").rename(tmp_path / "elsewhere")
    out, _ = again("elsewhere")
    settled = ps.settle(str(tmp_path / "elsewhere"), checkpoint=str(tmp_path / "checkpoint"))
    everything = [spark.createDataFrame([row for part in parts[side] for row in part], SCHEMA) for side in "lr"]
    assert settled.count() > 0 and bag(out) + bag(settled.select(*out.columns)) == bag(spark_join(*everything, ["k"], 10))


def read_back(spark, checkpoint, plan_frame_options) -> dict[int, Any]:
    """The shards in a checkpoint, through Spark's state reader."""
    heads = spark.read.format("statestore").option("stateVarName", "head").load(str(checkpoint)).collect()
    cells = spark.read.format("statestore").option("stateVarName", "cells").option("flattenCollectionTypes", True).load(str(checkpoint))
    found: dict[int, Any] = {}
    for row in heads:
        found[row["key"][0]] = (tuple(row["value"]), {})
    for row in cells.collect():
        found[row["key"][0]][1][tuple(row["user_map_key"])] = tuple(row["user_map_value"])
    return found


class Cells(dict):
    def iterator(self):
        return iter(self.items())


@pytest.mark.slow
@pytest.mark.versions
@pytest.mark.parametrize(("memory", "shards"), (later(30, 1), later(31, 2), ("12 KB", 2)))
def test_the_state_itself_is_within_the_budget(spark, tmp_path, monkeypatch, memory, shards):
    """Read back with Spark's state reader, and opened as a worker would."""
    from penstock.spark.join import join as operator

    plans = []
    monkeypatch.setattr(operator, "JoinProcessor", lambda plan, code, make=operator.JoinProcessor: plans.append(plan) or make(plan, code))
    frames = streams_of(spark, tmp_path, some_parts())
    _, seen = ran(joined(*frames.values(), memory=memory, shards=shards), tmp_path)
    held: Counter[str] = Counter()
    for key, (head, cells) in read_back(spark, tmp_path / "checkpoint", None).items():
        number = plans[0].shards.index(key)
        shard = ShardState(plans[0], number, lambda head=head: head, None, Cells(cells)).open(None)
        held["rows"] += len(shard.engine.retained())
        held["alive"] += sum(block.n_alive for block in shard.payload.blocks.values())
        held["bytes"] += sum(block.table.nbytes for block in shard.payload.blocks.values())
    assert held["rows"] == held["alive"] == seen[-1]["retained_rows"] > 0
    assert held["rows"] <= (30 if memory == 30 else 31 if memory == 31 else 10**6)
    parts = [seen[-1][name] for name in ("statistics_bytes", "ghost_bytes", "index_bytes")]
    assert min(parts) > 0 and seen[-1]["overhead_bytes"] == sum(parts) and not seen[-1]["statistics_is_sketch"]
    if memory == "12 KB":
        assert held["bytes"] <= 12_000 and seen[-1]["retained_bytes"] <= 12_000 and seen[-1]["n_shed"] > 0


def test_a_checkpoint_of_an_earlier_release_goes_on(spark, tmp_path):
    """Made by keep_checkpoint.py when its format was new: two batches were played."""
    spark = spark.newSession()
    from keep_checkpoint import CONDITION, OPTIONS, parts, show_root

    for archive in sorted([*DATA.glob("checkpoint-*.tar.gz"), *DATA.glob("condition-*.tar.gz")]):
        more = CONDITION if archive.name.startswith("condition") else {}
        folder = tmp_path / archive.name
        with tarfile.open(archive) as file:
            file.extractall(folder, filter="data")
        show_root(folder)
        frames = []
        spark.conf.set("spark.sql.shuffle.partitions", "5")  # another session than the one that made it; the checkpoint's own number counts
        for side in "lr":
            add_batches(spark, folder / side, parts(side)[2:])
            frames.append(spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / side / "in")))
        out, seen = ran(joined(*frames, **OPTIONS, **more), folder)
        assert len(seen) == 1 and seen[0]["n_input"] == 80 and seen[0]["total_n_input"] == 240
        everything = [spark.createDataFrame([row for part in parts(side) for row in part], SCHEMA) for side in "lr"]
        exact = spark_join(*everything, ["k"], 10).toDF("k", "l_ts", "l_v", "r_ts", "r_v").where(more.get("condition", "true"))
        whole, got = bag(exact), bag(out)
        assert seen[0]["total_lost"] == (whole - got).total()
        assert not got - whole and seen[0]["total_n_output"] == sum(got.values()) and seen[0]["n_output"] > 0
