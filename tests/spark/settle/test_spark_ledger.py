"""The ledger of a query on Spark over bad days: a batch that failed before a reshard, copied and old checkpoints, odd names, 0.1.0."""

from __future__ import annotations

import shutil
import tarfile
from collections import Counter
from typing import Any

import pytest

import penstock as ps
from places import DATA

pytest.importorskip("pyspark")

from keep_checkpoint import show_root
from keep_ledger import OPTIONS, PLAYED
from keep_ledger import parts as kept_parts
from penstock.cli import run
from penstock.ledger.epochs import runs
from penstock.ledger.ledger import find
from penstock.spark.reshard.reshard import reshard
from penstock.spark.settle.settle import settlement
from sparks import ON_SPARK, SCHEMA, add_batches, bag, in_batches, joined, ran, rows, spark_join

pytestmark = ON_SPARK


def some_parts(n: int) -> dict[str, list[list[tuple[Any, ...]]]]:
    return {side: [rows(f"{side}{number}", 40, seconds=30, seed=number) for number in range(n)] for side in "lr"}


def exact(spark: Any, parts: dict[str, list[list[tuple[Any, ...]]]]) -> Counter[Any]:
    return bag(spark_join(*(spark.createDataFrame([row for part in parts[side] for row in part], SCHEMA) for side in "lr"), ["k"], 10))


@pytest.mark.slow
def test_a_ledger_of_an_earlier_release_goes_on(spark, tmp_path):
    """Two batches were played and the first was settled, by code that wrote no manifests."""
    for archive in sorted(DATA.glob("ledger-*.tar.gz")):
        folder = tmp_path / archive.name
        with tarfile.open(archive) as file:
            file.extractall(folder, filter="data")
        show_root(folder)
        places = {"checkpoint": str(folder / "checkpoint"), "to": str(folder / "settled"), "spark": spark}
        shutil.copytree(folder, folder.with_suffix(".as-it-was"))
        as_it_was = settlement(str(folder.with_suffix(".as-it-was") / "archive"), places["checkpoint"], spark=spark)
        assert as_it_was.unverified == 4 and as_it_was.frame.count() > 0
        frames = []
        for side in "lr":
            add_batches(spark, folder / side, kept_parts(side)[PLAYED:])
            frames.append(spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / side / "in")))
        out, _ = ran(joined(*frames, archive=str(folder / "archive"), **OPTIONS), folder)
        done = settlement(str(folder / "archive"), **places)
        assert done.unverified > 0 and done.rows
        settled = spark.read.parquet(places["to"]).select(*out.columns)
        assert bag(out) + bag(settled) == exact(spark, {side: kept_parts(side) for side in "lr"})
        assert run(["ledger", "verify", str(folder / "archive"), "--checkpoint", places["checkpoint"]]) == 0


@pytest.mark.slow
def test_a_failed_batch_and_then_fewer_shards_and_then_the_old_checkpoint_again(spark, tmp_path):
    parts = some_parts(4)
    frames = [in_batches(spark, tmp_path / side, parts[side][:2]) for side in "lr"]
    options = {"memory": 60, "archive": str(tmp_path / "ledger"), "lateness": "0 seconds"}
    ran(joined(*frames, shards=4, **options), tmp_path)
    kept = {name: shutil.copytree(tmp_path / name, tmp_path / "kept" / name) for name in ("checkpoint", "out")}
    for side in "lr":
        add_batches(spark, tmp_path / side, parts[side][2:3])
    ran(joined(*frames, shards=4, **options), tmp_path)
    for name, copy in kept.items():  # the third batch was not committed
        shutil.rmtree(tmp_path / name)
        shutil.copytree(copy, tmp_path / name)
    reshard(spark, str(tmp_path / "checkpoint"), 2)
    out, _ = ran(joined(*frames, shards=2, **options), tmp_path)
    settle = {"checkpoint": str(tmp_path / "checkpoint"), "spark": spark}
    three = {side: part[:3] for side, part in parts.items()}
    assert bag(out) + bag(ps.settle(options["archive"], **settle)) == exact(spark, three)  # the state says which attempts count
    for side in "lr":
        add_batches(spark, tmp_path / side, parts[side][3:])
    out, _ = ran(joined(*frames, shards=2, **options), tmp_path)
    assert bag(out) + bag(ps.settle(options["archive"], **settle)) == exact(spark, parts)
    assert [one.epoch for one in runs(find(options["archive"]).store, find(options["archive"]).folder)] == [1, 2, 3, 4]
    for name, copy in kept.items():  # a sink that knows the batches would not have them played at all
        shutil.rmtree(tmp_path / name)
        shutil.copytree(copy, tmp_path / name)
    with pytest.raises(Exception, match=r"would play batch 2, but batches up to 3 are there.*`penstock ledger rewind .* --to 1`"):
        ran(joined(*frames, shards=4, **options), tmp_path)


NAMES = ["_ROW", "_batch", "_Time", "_ends", "_KEY0", "_bucket", "_value", "row", "time"]


@pytest.mark.slow
def test_columns_may_be_called_as_ours(spark, tmp_path):
    keys = NAMES[::2]
    schema = ", ".join(["ts timestamp", *(f"`{name}` string" for name in NAMES)])

    def frame(tag: str) -> Any:
        data = [(when, *(key if name in keys else f"{name}{value}" for name in NAMES)) for when, key, value in rows(tag, 120, seconds=60)]
        return spark.createDataFrame(data, schema)

    def made(**options: Any) -> Any:
        sides = {tag: ps.stream(frame(tag), time="ts", window="10 seconds") for tag in "lr"}
        return ps.join(sides, on=keys, shards=2, **options)

    few = bag(made(memory=12, archive=str(tmp_path)))
    settled = bag(ps.settle(str(tmp_path), spark=spark))
    assert settled and few + settled == bag(made(memory=10_000))
