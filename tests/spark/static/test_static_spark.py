"""Truncated joins on Spark: what is kept is the plan of the histograms, the same rows in any partitions, window by window too."""

from __future__ import annotations

import json
from collections import Counter
from random import Random

import numpy as np
import pytest

import penstock as ps
from penstock.cli import run
from places import SHARED
from strategies import later

pytest.importorskip("pyspark")
from pyspark.sql import functions as F  # noqa: N812

from sparks import ON_SPARK, SCHEMA, at, bag, in_batches, ran, rows

pytestmark = ON_SPARK

TAXI = SHARED / "nyc_green_taxi"


def relations(spark, n=120):
    """Two relations with keys that match, keys that do not, nulls and complete duplicates."""
    random = Random(n)
    made = {}
    for name, keys in (("l", "aaabbcdexy"), ("r", "abbbccdezz")):
        some = [(at(random.randrange(60)), random.choice([*keys, None]), f"{random.randrange(6)}") for _ in range(n)]
        made[name] = spark.createDataFrame(some + some[:10], SCHEMA)
    return made


def histograms(frames):
    return {name: Counter(row.k for row in frame.select("k").collect()) for name, frame in frames.items()}


@pytest.mark.parametrize(("budget", "method"), (
    ({"keep": 60}, "optimal"), later({"drop": 200}, "adg"), ({"keep": (30, 20)}, "ndg"), later({"keep": {"l": 30, "r": 20}}, "optimal"),
    later({"keep": 240}, "auto"),
))  # fmt: skip
def test_frames_are_truncated_as_their_histograms_are(spark, budget, method):
    frames = relations(spark)
    done = ps.truncate(frames, on="k", method=method, **budget)
    sizes = histograms(frames)
    order = sorted({key for one in sizes.values() for key in one if key is not None})
    counts = {name: {key: one[key] for key in order if one[key]} | {None: one[None]} for name, one in sizes.items()}
    told = ps.truncate(counts, method=method, **budget)
    assert (done.n_output, done.n_exact, done.n_kept, done.most) == (told.n_output, told.n_exact, told.n_kept, told.most)
    kept = {name: bag(frame) for name, frame in done.relations.items()}
    assert {name: sum(rows.values()) for name, rows in kept.items()} == done.n_kept
    assert all(kept[name] <= bag(frame) for name, frame in frames.items())
    assert done.relations["l"].join(done.relations["r"], "k").count() == done.n_output
    if budget == {"keep": 240}:  # nothing of use is lost; what else is kept has a key
        assert done.n_lost == 0 and sum(done.n_kept.values()) == 240
        assert any(row[1] not in "abcde" for row in kept["l"] if row[1] is not None)
    else:
        assert all(row[1] is not None for rows in kept.values() for row in rows)


@pytest.mark.slow
def test_which_tuples_stay_does_not_depend_on_partitions_or_order(spark):
    frames = relations(spark)
    options = {"on": "k", "keep": (31, 17), "method": "ndg"}
    first = {name: bag(frame) for name, frame in ps.truncate(frames, **options).relations.items()}
    mixed = {name: frame.orderBy(F.rand(2)).repartition(5) for name, frame in frames.items()}
    assert {name: bag(frame) for name, frame in ps.truncate(mixed, **options).relations.items()} == first
    # The order of tuples that match nothing is stable too.
    filled = [ps.truncate(some, on="k", keep=255).relations for some in (frames, mixed)]
    assert {name: bag(frame) for name, frame in filled[0].items()} == {name: bag(frame) for name, frame in filled[1].items()}


def test_keys_of_several_columns_with_other_names_and_zeros_of_either_sign(spark):
    one = spark.createDataFrame(
        [(0.0, "x", 1, {"m": 1}), (-0.0, "x", 2, {"m": 1}), (1.5, "y", 3, {}), (None, "x", 4, {})],
        "a double, b string, v int, m map<string, int>",
    )
    two = spark.createDataFrame([(0.0, "x"), (1.5, "z"), (None, "x")], "p double, `q r` string")
    done = ps.truncate({"one": one, "two": two}, on={"one": ["a", "b"], "two": ["p", "q r"]}, keep=3)
    assert done.n_exact == done.n_output == 2
    assert sorted(row.v for row in done.relations["one"].collect()) == [1, 2]
    assert done.relations["one"].columns == ["a", "b", "v", "m"] and done.relations["two"].columns == ["p", "q r"]


def test_three_relations_and_one_without_rows(spark):
    frames = [spark.createDataFrame([(key,) for key in keys], "k string") for keys in ("aab", "abbc", "abc")]
    done = ps.truncate(frames, on="k", keep=[2, 2, 2])
    assert done.n_exact == 4 and done.method == "ndg" and done.n_kept == {"A": 2, "B": 2, "C": 2}
    empty = spark.createDataFrame([], "k string")
    nothing = ps.truncate([frames[0], empty], on="k", keep=2)
    assert nothing.n_exact == 0 and nothing.relations["A"].count() == 2 and nothing.relations["B"].count() == 0


def test_many_columns_do_not_stop_the_optimizer(spark):
    columns = [F.lit(number).alias(f"c{number}") for number in range(24)]
    frame = spark.range(50).select((F.col("id") % 3).alias("k"), *columns)
    done = ps.truncate([frame, frame], on="k", keep=20)
    assert sum(one.count() for one in done.relations.values()) == 20


@pytest.mark.parametrize(("options", "message"), (
    ({"on": "nope", "keep": 1}, "no such column"),
    ({"keep": 1}, "on must name the key columns"),
    ({"on": {"l": "k"}, "keep": 1}, "each of l, r"),
    ({"on": {"l": "k", "r": "ts"}, "keep": 1}, "same types in all relations, got: l has string; r has timestamp"),
    ({"on": "k", "keep": -1}, "whole number"),
    ({"on": "k", "keep": 1, "drop": 1}, "got both"),
    ({"on": "k", "keep": 1, "method": "ndg"}, "adg"),
    ({"on": "k", "keep": 1, "time": "ts"}, "belong together"),
    ({"on": "k", "keep": 1, "time": "v", "window": "1 minute"}, "column of timestamps"),
    ({"on": "k", "keep": 1, "time": "ts", "window": "soon"}, "duration"),
))  # fmt: skip
def test_bad_input_is_refused_before_anything_is_counted(spark, options, message):
    with pytest.raises(ps.PenstockError, match=message):
        ps.truncate(relations(spark, 5), **options)


def test_a_frame_and_a_histogram_do_not_go_together_and_a_stream_needs_windows(spark, tmp_path):
    frame = relations(spark, 5)["l"]
    with pytest.raises(ps.PenstockError, match="all DataFrames or all histograms"):
        ps.truncate([frame, {"a": 1}], on="k", keep=1)
    live = in_batches(spark, tmp_path, [rows("l", 3)])
    with pytest.raises(ps.PenstockError, match="is a stream: give time= and window="):
        ps.truncate([live, frame], on="k", keep=1)
    with pytest.raises(ps.PenstockError, match="all streams or none"):
        ps.truncate([live, frame], on="k", keep=1, time="ts", window="1 minute")


# ------------------------------------------------------------------------------------------------------------- windows


@pytest.mark.slow
def test_each_window_is_truncated_as_if_it_were_alone(spark):
    frames = relations(spark)
    done = ps.truncate(frames, on="k", keep=40, time="ts", window="20 seconds")
    figures = {row.start: row for row in done.windows.collect()}
    kept = {name: bag(frame) for name, frame in done.relations.items()}
    assert len(figures) == 3
    together: dict[str, Counter] = {"l": Counter(), "r": Counter()}
    for start, row in figures.items():
        inside = {name: frame.where((F.col("ts") >= F.lit(start)) & (F.col("ts") < F.lit(row.end))) for name, frame in frames.items()}
        alone = ps.truncate(inside, on="k", keep=40)
        assert (row.n_output, row.n_exact, row.n_kept, row.n_lost, row.method) == (
            alone.n_output, alone.n_exact, alone.n_kept, alone.n_lost, "optimal",
        )  # fmt: skip
        for name, frame in alone.relations.items():
            together[name] += bag(frame)
    assert kept == together


@pytest.mark.slow
def test_a_stream_emits_each_window_when_it_is_closed_as_a_batch_would(spark, tmp_path):
    parts = {}
    for side in "lr":
        random = Random(side)
        some = sorted(rows(side, 90, seconds=60, keys="abcdx"))
        parts[side] = [some[at : at + 30] for at in range(0, 90, 30)]
        random.shuffle(parts[side][1])
        parts[side].append([(at(500), None, "closes the windows")])
    streams = {side: in_batches(spark, tmp_path / side, parts[side]) for side in "lr"}
    options = {"on": "k", "keep": (9, 7), "method": "ndg", "time": "ts", "window": "20 seconds"}
    live = ps.truncate(streams, lateness="5 seconds", **options)
    whole = {side: spark.createDataFrame([row for part in parts[side][:-1] for row in part], SCHEMA) for side in "lr"}
    still = ps.truncate(whole, **options)
    windows, _ = ran(live.windows, tmp_path)
    for side in "lr":
        emitted = windows.select(F.explode(F.col("kept")[side]).alias("row")).select("row.*")
        assert bag(emitted) == bag(still.relations[side])
        assert 9 * 3 >= emitted.count() > 0
    assert {(row.start, row.n_output) for row in windows.collect()} == {(row.start, row.n_output) for row in still.windows.collect()}
    assert live.relations["l"].isStreaming and live.relations["l"].columns == streams["l"].columns


# -------------------------------------------------------------------------------------------------------- command line


@pytest.mark.slow
def test_the_command_line_truncates_files_and_writes_what_is_kept(spark, tmp_path, capsys):
    for name, frame in relations(spark).items():
        frame.withColumn("ts", F.col("ts").cast("string")).toPandas().to_csv(tmp_path / f"{name}.csv", index=False)
    files = [str(tmp_path / f"{name}.csv") for name in "lr"]
    out = tmp_path / "kept"
    assert run(["static", *files, "--on", "k", "--keep", "60", "--method", "adg", "--format", "json", "--out", str(out)]) == 0
    figures = json.loads(capsys.readouterr().out)
    kept = [spark.read.parquet(str(out / name)) for name in "lr"]
    assert sum(frame.count() for frame in kept) == 60 and kept[0].join(kept[1], "k").count() == figures["n_output"]
    assert figures["n_output"] <= figures["most"]
    assert run(["static", *files, "--on", "k", "--keep", "60", "--out", str(out)]) == 2
    assert run(["static", *files, "--on", "q", "--keep", "60"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert "--out must be a folder that is not there yet" in said[0] and "no such column" in said[1]
    windowed = ["--time", "l=ts,r=ts", "--window", "20 seconds", "--format", "json"]
    assert run(["static", *files, "--on", "k", "--keep", "20", *windowed]) == 0
    assert [row["n_kept"]["l"] + row["n_kept"]["r"] for row in json.loads(capsys.readouterr().out)] == [20, 20, 20]


@pytest.mark.slow
@pytest.mark.skipif(not TAXI.is_dir(), reason="the shared taxi data is not there")
def test_taxi_trips_end_to_end(spark, tmp_path, capsys):
    files = [str(TAXI / f"green_tripdata_2023-0{month}.parquet") for month in (1, 2)]
    names = ["--names", "dropoffs,pickups", "--on", "dropoffs=DOLocationID,pickups=PULocationID"]
    found = {}
    for method in ("optimal", "adg"):
        out = tmp_path / method
        assert run(["static", *files, *names, "--keep", "40000", "--method", method, "--format", "json", "--out", str(out)]) == 0
        found[method] = json.loads(capsys.readouterr().out)
        kept = {name: spark.read.parquet(str(out / name)) for name in ("dropoffs", "pickups")}
        assert sum(frame.count() for frame in kept.values()) == 40_000
        drops = Counter(row[0] for row in kept["dropoffs"].select("DOLocationID").collect())
        picks = Counter(row[0] for row in kept["pickups"].select("PULocationID").collect())
        assert sum(count * picks[zone] for zone, count in drops.items()) == found[method]["n_output"]
    assert min(found["adg"]["n_tuples"].values()) > 60_000
    assert 0.99 * found["optimal"]["n_output"] <= found["adg"]["n_output"] <= found["optimal"]["n_output"] <= found["adg"]["most"]
    counts = [
        np.bincount(np.array(spark.read.parquet(file).select(zone).toPandas()[zone]))
        for file, zone in zip(files, ("DOLocationID", "PULocationID"), strict=True)
    ]
    zones = max(map(len, counts))
    told = ps.truncate([np.pad(one, (0, zones - len(one))) for one in counts], keep=40_000)
    assert told.n_output == found["optimal"]["n_output"]
