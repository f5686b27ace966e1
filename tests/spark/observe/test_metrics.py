"""What a join on Spark says of itself: counts, losses, recall; conditions; a recall that must be reached."""

from __future__ import annotations

import logging
import math
from itertools import pairwise
from random import Random
from typing import Any

import pytest

import penstock as ps

pytest.importorskip("pyspark")
from pyspark.sql import functions as F  # noqa: N812

from penstock.shard.counts import HAPPENING, counted, over_shards
from penstock.shard.meter.interval import limits
from penstock.spark.observe.metrics import RESULTS, metrics
from sparks import ON_SPARK, SCHEMA, at, bag, in_batches, joined, ran, rows, spark_join
from strategies import later

pytestmark = ON_SPARK


def two_streams(spark, folder, n=240, seconds=90, cuts=(0, 20, 55, 90), keys="aaabbcdefg"):
    """Skewed streams in micro-batches; and all their rows."""
    random = Random(n)
    made = {side: [(at(random.randrange(seconds)), random.choice(keys), f"{side}{i}") for i in range(n)] for side in "lr"}
    frames = {}
    for side, rows_ in made.items():
        parts = [[row for row in rows_ if at(begin) <= row[0] < at(end)] for begin, end in pairwise(cuts)]
        frames[side] = in_batches(spark, folder / side, parts)
    return frames, {side: spark.createDataFrame(rows_, SCHEMA) for side, rows_ in made.items()}


SOME = "l_v < r_v or k = 'a'"
TOLD = (
    later(1, {}, False),
    later(3, {}, False),
    later(2, {"condition": SOME}, False),
    later(1, {"policy": "fifo"}, False),
    (2, {"condition": SOME}, True),
)


@pytest.mark.slow
@pytest.mark.parametrize(("shards", "options", "collide"), TOLD)
def test_the_recall_that_is_told_is_the_recall_there_is(spark, tmp_path, monkeypatch, shards, options, collide):
    if collide:
        monkeypatch.setattr("penstock.spark.join.stream.F.xxhash64", lambda *columns: F.lit(5).cast("bigint"))
    frames, all_rows = two_streams(spark, tmp_path)
    out, seen = ran(joined(*frames.values(), memory=30, shards=shards, lateness="0 seconds", **options), tmp_path)
    exact = spark_join(all_rows["l"], all_rows["r"], ["k"], 10).toDF("k", "l_ts", "l_v", "r_ts", "r_v")
    if "condition" in options:
        exact = exact.where(options["condition"])
    got, whole = bag(out), bag(exact)
    assert not got - whole
    last = seen[-1]
    assert last["total_n_output"] == sum(got.values()) == sum(batch["n_output"] for batch in seen)
    assert last["total_lost"] == sum(whole.values()) - sum(got.values()) == sum(batch["lost"] for batch in seen) > 0
    assert last["total_recall"] == last["total_recall_low"] == last["total_recall_high"] == sum(got.values()) / sum(whole.values())
    assert last["total_lost_is_exact"] and last["total_n_input"] == 480 and last["total_value_recall"] == last["total_recall"]
    for batch in seen:
        assert batch["retained_rows"] <= 30 and batch["memory_l"] + batch["memory_r"] == batch["retained_rows"]
        assert 0 <= batch["recall"] <= 1 and batch["retained_bytes"] > 0


@pytest.mark.slow
def test_few_ghosts_make_an_estimate_that_says_so(spark, tmp_path):
    frames, _ = two_streams(spark, tmp_path)
    _, seen = ran(joined(*frames.values(), memory=30, shards=1, lateness="0 seconds", ghosts=20), tmp_path)
    last = seen[-1]
    assert not last["total_lost_is_exact"] and last["total_recall_low"] < last["total_recall"] < last["total_recall_high"]


@pytest.mark.slow
def test_rows_without_a_time_are_counted_and_dropped(spark, tmp_path, caplog):
    left, right = rows("l", 20), rows("r", 20)
    frames = [in_batches(spark, tmp_path / tag, [[*part, (None, "a", "x"), (None, "b", "y")]]) for tag, part in (("l", left), ("r", right))]
    with caplog.at_level(logging.WARNING, logger="penstock"):
        out, seen = ran(joined(*frames, shards=2), tmp_path)
    assert (seen[-1]["n_null"], seen[-1]["n_input"]) == (4, 40)
    assert bag(out) == bag(spark_join(spark.createDataFrame(left, SCHEMA), spark.createDataFrame(right, SCHEMA), ["k"], 10))
    assert [record.message for record in caplog.records if "without a time" in record.message]


def test_a_batch_that_loses_too_much_is_not_committed_and_a_restart_goes_on(spark, tmp_path):
    frames, all_rows = two_streams(spark, tmp_path)

    def run(**options: Any) -> Any:
        return ran(joined(*frames.values(), shards=2, lateness="0 seconds", **options), tmp_path)

    with pytest.raises(Exception, match="min_recall must be reached by every batch"):
        run(memory=20, min_recall=(0.99, "fail"))
    with pytest.raises(Exception, match="min_recall must be reached by every batch"):
        run(memory=21, min_recall=(0.98, "fail"))
    out, seen = run(memory=400)
    exact = spark_join(all_rows["l"], all_rows["r"], ["k"], 10)
    assert bag(out) == bag(exact)
    assert seen[-1]["total_n_input"] == 480 and seen[-1]["total_recall"] == 1.0


@pytest.mark.slow
def test_a_batch_whose_late_rows_missed_too_much_is_not_committed(spark, tmp_path):
    """Nothing is shed: what is missing, late rows have missed."""
    parts = {
        "l": [[*((at(second), "a", f"l{second}") for second in range(20)), (at(45), "c", "l45")], [(at(60), "a", "l60")]],
        "r": [[(at(second), "b", f"r{second}") for second in (0, 45)], [(at(second), "a", f"late{second}") for second in range(20)]],
    }
    frames = [in_batches(spark, tmp_path / side, part) for side, part in parts.items()]
    with pytest.raises(Exception, match="this batch would have a recall of 0"):
        ran(joined(*frames, shards=2, lateness="0 seconds", min_recall=(0.5, "fail")), tmp_path)
    out, seen = ran(joined(*frames, shards=2, lateness="0 seconds"), tmp_path)
    assert out.count() == 0 and seen[-1]["total_lost_is_exact"] and seen[-1]["total_n_shed"] == 0
    assert seen[-1]["lost"] == sum(abs(x - y) < 10 for x in range(20) for y in range(20))


@pytest.mark.slow
def test_a_warning_is_logged_below_min_recall_and_progress_shows_the_metrics(spark, tmp_path, caplog):
    frames, _ = two_streams(spark, tmp_path)
    frame = joined(*frames.values(), memory=20, shards=1, lateness="0 seconds", min_recall=0.99, name="small")
    query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    with caplog.at_level(logging.WARNING, logger="penstock"):
        query.awaitTermination()
    assert any("below min_recall 0.99" in record.message for record in caplog.records)
    found = ps.progress(query)
    assert found is not None and found.joins["small"]["total_n_input"] == 480
    assert "recall" in str(found) and "480" in str(found) and "value" not in str(found)


@pytest.mark.slow
def test_two_joins_live_in_one_query_and_the_value_of_one_is_the_importance_of_the_next(spark, tmp_path):
    frames, _ = two_streams(spark, tmp_path)
    weighed = {side: ps.stream(frame, time="ts", window="10 seconds", importance="length(v)") for side, frame in frames.items()}
    first = ps.join(weighed, on="k", memory=1000, name="first", policy="dimpprob")
    third = in_batches(spark, tmp_path / "third", [rows("t", 40), rows("u", 40), rows("w", 40)])
    sides = {
        "pair": ps.stream(first, time="l_ts", window="10 seconds", importance="value", lateness="20 seconds"),
        "t": ps.stream(third, time="ts", window="10 seconds", lateness="1 hour"),
    }
    second = ps.join(sides, on="k", memory=10_000, name="second")
    out, seen = ran(second, tmp_path, "second")
    assert seen[-1]["total_n_output"] == out.count() > 0 and "value" in out.columns
    assert out.where("value > 4").count() == 0 and out.where("pair_value >= 2").count() == out.count()


@pytest.mark.slow
def test_joined_rows_can_be_watermarked_and_aggregated(spark, tmp_path):
    frames, all_rows = two_streams(spark, tmp_path)
    frame = joined(*frames.values(), memory=1000, shards=2, lateness="0 seconds")
    counted = frame.withWatermark("l_ts", "15 seconds").groupBy(F.window("l_ts", "30 seconds")).count()
    query = counted.writeStream.format("memory").queryName("counted").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.outputMode("complete").trigger(availableNow=True).start().awaitTermination()
    exact = spark_join(all_rows["l"], all_rows["r"], ["k"], 10).toDF("k", "l_ts", "l_v", "r_ts", "r_v")
    assert bag(spark.table("counted")) == bag(exact.groupBy(F.window("l_ts", "30 seconds")).count())


@pytest.mark.slow
def test_a_batch_without_data_forgets_nothing(spark, tmp_path):
    """Spark runs one to move a watermark on: no shard is asked, so the life of the query is that of the batch before."""
    frames, _ = two_streams(spark, tmp_path)
    frame = joined(*frames.values(), memory=8, shards=2, lateness="0 seconds")
    counts = frame.withWatermark("l_ts", "1 second").groupBy(F.window("l_ts", "10 seconds")).count()
    writer = counts.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    query = writer.start()
    query.awaitTermination()
    *_, before, last = (event.observedMetrics["penstock"].asDict() for event in query.recentProgress)
    assert last["n_input"] == 0 and last["recall"] == 1.0 and before["total_lost"] > 0
    assert {last[name] for name in last if name.startswith(("total_", "retained_", "memory_"))} == {None}
    told = ps.progress(query)
    lasting = [name for name in last if name.startswith(("total_", "retained_", "memory_"))]
    assert {name: told.joins["penstock"][name] for name in lasting} == {name: before[name] for name in lasting}
    assert told.joins["penstock"]["n_input"] == 0 and "retained_rows" in str(told)


SHARES = {
    "nothing to make": [{}],
    "nothing lost": [{"n_output": 7, "value": 9.5}, {"n_output": 1, "value": 0.5}],
    "all lost": [{"lost": 3, "lost_value": 4.5}],
    "counted": [{"n_output": 30, "lost": 10, "value": 12.0, "lost_value": 4.0}, {"n_output": 10, "lost": 2, "value": 1.0}],
    "estimated": [
        {"n_output": 90, "lost": 10.4, "sampled": 8.4, "variance": 9.0, "reach": 2.0, "estimated": 1},
        {"lost": 2, "lost_value": 8.0, "sampled_value": 8.0, "value_variance": 4.0, "value_reach": 1.5, "reach": 1.0},
    ],
    "surely little": [{"n_output": 50, "lost": 1.5, "sampled": 1.5, "variance": 400.0, "reach": 1.5, "estimated": 1}],
    "nothing seen": [{"n_output": 50, "value": 5.0, "reach": 4.0, "value_reach": 9.0, "estimated": 1}],
    "nobody knows": [
        {"n_output": 50, "lost": 5, "sampled": 3.0, "variance": math.inf, "value_variance": math.inf, "reach": math.inf, "estimated": 1},
        {"value": 1.0, "value_reach": math.inf},
    ],
    "too late": [{"n_output": 50, "lost": 2, "unknown": 30.0, "unknown_value": 4.5, "value": 9.0, "estimated": 1}, {"unknown": 2.0}],
}


@pytest.mark.parametrize("which", [name if name in ("counted", "estimated", "nobody knows") else later(name) for name in SHARES])
def test_metrics_are_those_of_all_shards_together(spark, which):
    """Against sums in plain Python; cells of joined rows stand between the counts and count for nothing."""
    shards = SHARES[which]
    names = counted(2)
    rows = [(None, [float(shard.get(name, shard.get(name.removeprefix("total_"), 0.0))) for name in names]) for shard in shards]
    told = spark.createDataFrame([(bytearray(b"cell"), None), *rows], RESULTS).agg(*metrics(("l", "r"), 0.5)).first().asDict()
    sums = {count.name: over_shards(count.name, [shard.get(count.name, 0.0) for shard in shards]) for count in HAPPENING}
    for prefix in ("", "total_"):
        for kind, made, *names in (
            ("recall", sums["n_output"], "lost", "sampled", "variance", "reach", "unknown"),
            ("value_recall", sums["value"], "lost_value", "sampled_value", "value_variance", "value_reach", "unknown_value"),
        ):
            lost, sampled, variance, reach, unknown = (sums[name] for name in names)
            low, high = limits(sampled, variance, reach)
            for bound, less in (("", lost), ("_low", lost - sampled + high + unknown), ("_high", lost - sampled + low)):
                share = made / (made + less) if made + less > 0 else 1.0
                assert told[f"{prefix}{kind}{bound}"] == pytest.approx(share), (prefix, kind, bound)
            assert told[f"{prefix}{kind}_low"] <= told[f"{prefix}{kind}"] <= told[f"{prefix}{kind}_high"]
        assert told[f"{prefix}n_output"] == sums["n_output"]
        assert told[f"{prefix}lost"] == round(sums["lost"])
        assert told[f"{prefix}lost_is_exact"] == (not any(shard.get("estimated") for shard in shards))
    assert told["min_recall"] == 0.5
    assert told["memory_l"] == told["retained_rows"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(("moving", "budget"), ((0, 100), (80, 130)), ids=("of its own", "of several joins"))
def test_shares_are_told_as_parts_of_an_equal_one(spark, moving, budget):
    """Rows without counts of a shard, as a condition makes them, count for nothing."""
    shares = [{"share": part, "share_most": part, "share_least": 1 / part} for part in (0.5, 2.25)]
    rows = [(None, [float(shard.get(name, 0.0)) for name in counted(2)]) for shard in [*shares, {}]]
    found = metrics(("l", "r"), shards=2, moving=moving, budget_rows=100)
    told = spark.createDataFrame([(bytearray(b"cell"), None), *rows], RESULTS).agg(*found).first().asDict()
    assert (told["share"], told["share_min"], told["share_max"]) == (1.375, 0.5, 2.25) and told["budget_rows"] == budget
    nothing = spark.createDataFrame([], RESULTS).agg(*found).first().asDict()
    assert nothing["share"] is None and nothing["share_min"] is None
