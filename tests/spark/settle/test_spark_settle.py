"""A join on Spark with an archive: what it emitted and what is settled later are together the exact result."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import penstock as ps

pytest.importorskip("pyspark")

from sparks import ON_SPARK, SCHEMA, add_batches, at, bag, in_batches, joined, ran, rows, spark_join
from strategies import later

pytestmark = ON_SPARK


def exact(spark, parts):
    frames = [spark.createDataFrame([row for part in parts[side] for row in part], SCHEMA) for side in "lr"]
    return spark_join(*frames, ["k"], 10).toDF("k", "l_ts", "l_v", "r_ts", "r_v")


def disorderly(tag: str, n: int = 4) -> list[list[tuple]]:
    """Micro-batches, some of whose rows come far too late."""
    random = Random(tag)

    def row(number: int, i: int) -> tuple:
        late = random.randrange(40) if random.random() < 0.2 else 0
        return at(max(0, 15 * number + random.randrange(15) - late)), random.choice("aabcdef"), f"{tag}{number}.{i}"

    return [[row(number, i) for i in range(50)] for number in range(n)]


# A few, since each is a query and its restart; test_settle.py has all policies.
@pytest.mark.parametrize(("policy", "condition"), (("prob", None), later("rand", None), later("fifo", "l_v < r_v")))
def test_emitted_and_settled_are_everything_over_a_restart_with_less_memory(spark, tmp_path, policy, condition):
    parts = {side: disorderly(side) for side in "lr"}
    archive, checkpoint = str(tmp_path / "ledger"), str(tmp_path / "checkpoint")
    frames = [in_batches(spark, tmp_path / side, parts[side][:2]) for side in "lr"]
    options = {"shards": 2, "lateness": "1 second", "policy": policy, "archive": archive, "condition": condition}
    ran(joined(*frames, memory=40, **options), tmp_path)
    early = ps.settle(archive, checkpoint=checkpoint, to=str(tmp_path / "settled"), spark=spark).drop("settlement")
    first = bag(early)
    for side in "lr":
        add_batches(spark, tmp_path / side, parts[side][2:])
    out, seen = ran(joined(*frames, memory=20, **options), tmp_path)
    owed = ps.debt(archive, checkpoint=checkpoint, spark=spark)
    later = bag(ps.settle(archive, checkpoint=checkpoint, to=str(tmp_path / "settled"), spark=spark).drop("settlement"))
    whole = exact(spark, parts) if condition is None else exact(spark, parts).where(condition)
    assert bag(out) + first + later == bag(whole)
    assert owed == sum(later.values()) > 0 and sum(first.values()) > 0
    assert ps.debt(archive, checkpoint=checkpoint, spark=spark) == 0
    assert seen[-1]["total_n_shed"] > 0 and seen[-1]["total_n_late"] > 0
    assert seen[-1]["total_lost_is_exact"] and seen[-1]["total_lost"] == sum((first + later).values())  # late rows are in the loss


@pytest.mark.slow
@pytest.mark.versions
def test_what_a_broken_promise_missed_is_lost_and_settled_over_a_restart(spark, tmp_path):
    """Each row should have one partner, and has several: it leaves with the first, and settling makes what the others would have made."""
    parts = {side: disorderly(side) for side in "lr"}
    archive, checkpoint = str(tmp_path / "ledger"), str(tmp_path / "checkpoint")
    frames = [in_batches(spark, tmp_path / side, parts[side][:2]) for side in "lr"]
    options = {"shards": 2, "lateness": "1 second", "policy": "prob", "archive": archive, "matches": 1}
    ran(joined(*frames, memory=1000, **options), tmp_path)
    for side in "lr":
        add_batches(spark, tmp_path / side, parts[side][2:])
    with pytest.raises(Exception, match="matches was"):
        ran(joined(*frames, memory=30, **options | {"matches": None}), tmp_path)
    out, seen = ran(joined(*frames, memory=30, **options), tmp_path)
    settled = bag(ps.settle(archive, checkpoint=checkpoint, to=str(tmp_path / "settled"), spark=spark).drop("settlement"))
    assert bag(out) + settled == bag(exact(spark, parts))
    assert seen[-1]["total_n_done"] > 100 and seen[0]["n_done"] > 0
    assert seen[-1]["total_lost_is_exact"] and seen[-1]["total_lost"] == sum(settled.values()) > 0


@pytest.mark.slow
@pytest.mark.versions
def test_in_order_the_debt_is_what_the_meter_counted(spark, tmp_path):
    parts = {side: [[row for row in rows(side, 150, seconds=60) if at(b) <= row[0] < at(b + 20)] for b in (0, 20, 40)] for side in "lr"}
    frames = [in_batches(spark, tmp_path / side, parts[side]) for side in "lr"]
    _, seen = ran(joined(*frames, memory=16, shards=2, lateness="0 seconds", archive=str(tmp_path / "ledger")), tmp_path)
    assert ps.debt(str(tmp_path / "ledger"), checkpoint=str(tmp_path / "checkpoint"), spark=spark) == seen[-1]["total_lost"] > 0


def test_a_batch_query_is_settled_too(spark, tmp_path):
    left, right = (spark.createDataFrame(rows(tag, 300), SCHEMA) for tag in "lr")
    made = bag(joined(left, right, memory=20, shards=2, archive=str(tmp_path)))
    settled = bag(ps.settle(str(tmp_path), spark=spark))
    whole = bag(spark_join(left, right, ["k"], 10))
    assert made + settled == whole and settled


@pytest.mark.slow
@pytest.mark.versions
def test_an_archive_that_cannot_be_written_fails_the_query(spark, tmp_path):
    (tmp_path / "file").write_text("in the way")
    frames = [in_batches(spark, tmp_path / side, [rows(side, 10)]) for side in "lr"]
    with pytest.raises(Exception, match="archive"):
        ran(joined(*frames, archive=str(tmp_path / "file" / "ledger")), tmp_path)
    assert not list(Path(tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
