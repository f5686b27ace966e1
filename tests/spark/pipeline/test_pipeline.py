"""Pipelines on Spark: every kind of source and sink, restarts, and the generator whatever the batches."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cli import run
from penstock.experiments.demo import SAMPLE
from penstock.generator.zipf import Generator
from penstock.pipeline.recipe import check_recipe

pyspark = pytest.importorskip("pyspark")
from pyspark.sql import SparkSession  # noqa: E402

from penstock.spark.observe.follow import follow  # noqa: E402
from penstock.spark.pipeline import query as pipeline  # noqa: E402
from sparks import ON_SPARK  # noqa: E402
from strategies import later  # noqa: E402

pytestmark = ON_SPARK

GENERATOR = {"kind": "generator", "streams": ["v", "o"], "keys": 20, "rate": [2, 1], "ticks": 60, "burst": "20:5:3", "seed": 3}


@pytest.fixture(autouse=True)
def _in_utc(request: pytest.FixtureRequest) -> Iterator[None]:
    """As `penstock run` has it."""
    conf = request.getfixturevalue("spark").conf if "spark" in request.fixturenames else None
    if conf is not None:
        before = conf.get("spark.sql.session.timeZone")
        conf.set("spark.sql.session.timeZone", "UTC")
    yield
    if conf is not None:
        conf.set("spark.sql.session.timeZone", before)


def described(source: dict[str, Any], tmp_path: Path | None = None, **sections: Any) -> dict[str, Any]:
    """What a file would have: views and orders of one source, joined into a memory that is ample."""
    sides = {name: {"source": "shop", "where": f"stream = '{name}'", "time": "time", "window": "10 seconds"} for name in "vo"}
    sink: dict[str, Any] = {"kind": "memory", "trigger": "available now"}
    if tmp_path is not None:
        sink = {"kind": "parquet", "path": str(tmp_path / "out"), "checkpoint": str(tmp_path / "state"), "trigger": "available now"}
    return {
        "sources": {"shop": GENERATOR | source},
        "streams": sides,
        "join": {"on": "key", "memory": 10_000, "shards": 2},
        "sink": sink,
    } | sections


def played(spark: SparkSession, found: dict[str, Any]) -> list[dict[str, Any]]:
    """A pipeline to its end: its events."""
    recipe = check_recipe(found)
    return list(follow(pipeline.start(recipe, pipeline.build(recipe, spark)), recipe.join["name"]))


def exact(ticks: int = 60, **source: Any) -> int:
    options = {name: value for name, value in (GENERATOR | source).items() if name not in ("kind", "ticks", "tick")}
    return int(ps.exact(ps.Trace(Generator(**options).arrivals(0, ticks, ticks)), window=10).n_output)


@pytest.mark.slow
@pytest.mark.parametrize("pace", (later({"ticks_per_batch": 7}), {"ticks_per_batch": 60}, later({"rows_per_second": 100})))
def test_the_generator_gives_the_same_rows_however_batches_are_cut(spark, tmp_path, pace):
    source = GENERATOR | pace | {"disorder": 3, "importance": "rare", "drift": 25}
    found = described(source, tmp_path)
    recipe = check_recipe(found)
    frame = pipeline.SOURCES["generator"](spark, recipe.sources["shop"])
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "state")).trigger(availableNow=True)
    query = writer.start(str(tmp_path / "out"))
    assert query.awaitTermination(120)
    rows = spark.read.parquet(str(tmp_path / "out")).selectExpr("stream", "unix_seconds(time) - 1767225600", "key", "importance").collect()
    whole = recipe.generator("shop").arrivals(0, 63, 60).to_pylist()
    assert Counter(map(tuple, rows)) == Counter(tuple(row.values()) for row in whole)
    assert {row["key"] // 20 for row in rows} == {0, 1, 2}  # 20 keys, which get new names twice
    batches = len([p for p in query.recentProgress if p.numInputRows])
    assert batches == 9 if "ticks_per_batch" in pace and pace["ticks_per_batch"] == 7 else batches >= 1


@pytest.mark.slow
def test_an_endless_generator_keeps_its_pace_until_it_is_stopped(spark):
    source = {name: value for name, value in GENERATOR.items() if name != "ticks"} | {"rows_per_second": 500}
    found = described({}, sources={"shop": source}, sink={"kind": "memory", "table": "endless", "trigger": "processing time 100 ms"})
    recipe = check_recipe(found)
    query = pipeline.start(recipe, pipeline.build(recipe, spark))
    events = follow(query, "penstock")
    first, second = next(events), next(events)
    query.stop()
    assert second["batch"] > first["batch"] and second["total_n_input"] >= second["n_input"] > 0


@pytest.mark.parametrize("kind", ("parquet", *map(later, ("json", "csv"))))
def test_files_in_and_files_out(spark, tmp_path, kind):
    for name in "vo":
        rows = [(dt.datetime(2026, 1, 1, 0, 0, second, tzinfo=dt.UTC), second % 3) for second in range(20)]
        frame = spark.createDataFrame(rows, "time timestamp, key bigint")
        frame.repartition(2, "key").write.format(kind).option("header", True).save(str(tmp_path / name))
    options = {"header": True, "inferSchema": True} if kind == "csv" else {}
    sources = {name: {"kind": kind, "path": str(tmp_path / name), "files_per_batch": 1, "options": options} for name in "vo"}
    if kind == "json":
        sources["v"]["schema"] = sources["o"]["schema"] = "time timestamp, key bigint"
    streams = {name: {"source": name, "time": "time", "window": "10 seconds", "lateness": "1 minute"} for name in "vo"}
    found = described({}, tmp_path, sources=sources, streams=streams)
    found["sink"] |= {"kind": kind, "partition_by": "key"}
    events = played(spark, found)
    assert len(events) > 1 and events[-1]["total_n_input"] == 40
    expected = sum(abs(a - b) < 10 and a % 3 == b % 3 for a in range(20) for b in range(20))
    assert spark.read.format(kind).load(str(tmp_path / "out")).count() == events[-1]["total_n_output"] == expected
    assert (tmp_path / "out" / "key=0").is_dir()


@pytest.mark.slow
def test_sparks_rate_source_to_the_console(spark, capfd):
    sources = {"ticker": {"kind": "rate", "rows_per_second": 20, "partitions": 1}}
    streams = {
        name: {"source": "ticker", "select": ["timestamp", f"value % {n} AS k"], "time": "timestamp", "window": "1 minute"}
        for name, n in (("a", 4), ("b", 6))
    }
    found = described({}, sources=sources, streams=streams, join={"on": "k", "memory": 1000}, sink={"kind": "console", "show": 3})
    recipe = check_recipe(found)
    query = pipeline.start(recipe, pipeline.build(recipe, spark))
    event = next(event for event in follow(query, "penstock") if event["n_output"])
    query.stop()
    assert event["n_input"] >= 2


@pytest.mark.slow
def test_a_pipeline_started_again_goes_on_where_it_stopped(spark, tmp_path):
    found = described({"ticks": 30, "ticks_per_batch": 10}, tmp_path)
    before = played(spark, found)
    assert played(spark, found) == []
    found["sources"]["shop"]["ticks"] = 60
    after = played(spark, found)
    assert [event["batch"] for event in before + after] == list(range(6))
    assert after[-1]["total_n_input"] == len(Generator(streams=("v", "o"), keys=20, rate=(2, 1), burst="20:5:3", seed=3).arrivals(0, 60))
    out = spark.read.parquet(str(tmp_path / "out"))
    assert out.count() == after[-1]["total_n_output"] == exact()


REFUSED = {
    "column": ({"streams": {"v": {"time": "tmie"}}}, r"p\.toml: streams\.v\.time must name a column of the frame, got 'tmie'"),
    "where": ({"streams": {"v": {"where": "nothing > 3"}}}, r"p\.toml: streams\.v\.where: .*`nothing`"),
    "select": ({"streams": {"v": {"select": ["tim e"]}}}, r"p\.toml: streams\.v\.select: "),
    "key": ({"join": {"on": "kye"}}, r"p\.toml: join\.on, for stream v, must name a column"),
}


@pytest.mark.parametrize(("changes", "said"), REFUSED.values(), ids=REFUSED)
def test_what_only_spark_can_see_is_named_by_its_key_too(spark, changes, said):
    found = described({})
    for section, tables in changes.items():
        for name, value in tables.items():
            found[section][name] = found[section][name] | value if isinstance(value, dict) else value
    with pytest.raises(ps.PenstockError, match=said):
        pipeline.build(check_recipe(found, "p.toml"), spark)


SHORT = ["sources.shop.ticks=120", "sources.shop.ticks_per_batch=40", "sources.shop.rate=[3, 1]", "sources.shop.keys=40", "join.memory=60"]
SHORT = [part for text in SHORT for part in ("--set", text)]


def test_run_prints_a_line_per_batch_or_an_object(spark, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    archived = [*SHORT, "--set", "join.archive=demo-out/ledger"]
    assert run(["run", str(SAMPLE), *archived]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[0] for line in lines[:3]] == ["batch 0", "batch 1", "batch 2"]
    done, life, owed = lines[3:]
    assert done.startswith("3 batches: 480 rows in and ") and done.endswith(" joined rows out in demo-out/joined")
    assert life.startswith("in the life of the query: recall ") and " of 480 tuples shed" in life
    command = "penstock settle demo-out/ledger --checkpoint demo-out/checkpoint --to demo-out/joined-settled"
    assert owed.endswith(f" outputs are owed; to get them: {command}")
    assert run(["run", str(SAMPLE), *archived]) == 0
    assert "nothing new" in capsys.readouterr().out
    shutil.rmtree(tmp_path / "demo-out")
    assert run(["run", str(SAMPLE), *SHORT, "--format", "json"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["n_input"] for event in events] == [160, 160, 160]
    assert all(event["retained_rows"] <= 60 and event["rows_per_second"] > 0 for event in events)


@pytest.mark.slow
def test_run_shows_what_went_to_memory(spark, capsys):
    changes = [*SHORT, "--set", 'sink={kind = "memory", trigger = "available now", show = 2}', "--set", "join.shards=1"]
    assert run(["run", str(SAMPLE), *changes]) == 0
    assert "only showing top 2 rows" in capsys.readouterr().out


@pytest.mark.slow
def test_the_demo_compares_and_draws(spark, tmp_path, capsys):
    out = tmp_path / "new" / "demo"
    assert run(["demo", "--out", str(out), *SHORT, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    ways = {way["name"].split(",")[0]: way for way in found["runs"]}
    exact_run, best, this, fifo = (ways[name] for name in ("exact", "the optimum", "learned", "fifo"))
    assert list(ways)[:2] == ["exact", "the optimum"] and best["n_output"] >= max(this["n_output"], fifo["n_output"])
    assert found["batches"] == 3 and found["n_input"] == 480
    assert exact_run["recall"] == 1 and exact_run["n_output"] > this["n_output"] > 0 and this["most_held"] <= 60 and fifo["most_held"] <= 60
    assert all(Path(picture).stat().st_size > 1000 for picture in found["pictures"])
    assert run(["demo", "--out", str(out), *SHORT]) == 0  # what the first has left is replaced
    assert "of exact" in capsys.readouterr().out


def test_the_demo_replaces_nothing_that_is_not_its_own(tmp_path, capsys):
    (tmp_path / "joined").mkdir()
    (tmp_path / "joined" / "thesis.txt").write_text("years of work")
    assert run(["demo", "--out", str(tmp_path), *SHORT]) == 2
    assert "not of a demo" in capsys.readouterr().err and (tmp_path / "joined" / "thesis.txt").exists()


@pytest.mark.slow  # a Spark of its own
def test_ctrl_c_stops_in_good_order(tmp_path):
    sink = f'{{kind = "parquet", path = "{tmp_path / "out"}", checkpoint = "{tmp_path / "state"}"}}'
    changes = ["--set", "sources.shop.rows_per_second=500", "--set", "sources.shop.ticks=100000", "--set", f"sink={sink}"]
    command = [sys.executable, "-c", "from penstock.cli import main; main()", "run", str(SAMPLE), *SHORT[4:], *changes]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert started.stdout.readline().startswith("batch ")
    os.killpg(started.pid, signal.SIGINT)  # to all of its processes, as a terminal does
    told, said = started.communicate(timeout=300)
    last = said.splitlines()[-1]  # before it, what took long
    assert re.fullmatch(r"note: stopped after \d+ batch(es)?; run it again to go on from there", last)
    assert "Traceback" not in said and "in the life of the query: recall " in told
    assert started.returncode == 130


@pytest.mark.slow
def test_lifetimes_a_changing_memory_and_given_rates_reach_the_join(spark, tmp_path):
    (tmp_path / "rates.csv").write_text("stream,key,rate\n" + "".join(f"{side},{key},{key + 1}\n" for side in "vo" for key in range(20)))
    found = described(
        {}, join={"on": "key", "memory": {"v": [[dt.datetime(2026, 1, 1), 9], [dt.datetime(2026, 1, 1, 0, 0, 30), 4]], "o": 7}}
    )
    found["join"] |= {"shards": 1, "policy": "prob", "stats": "given", "given": str(tmp_path / "rates.csv")}
    found["streams"]["v"] = {"source": "shop", "where": "stream = 'v'", "time": "time", "lifetime": "interval 8 seconds"}
    found["streams"]["o"]["window"] = "tumbling:10 seconds"
    last = played(spark, found)[-1]
    rows = check_recipe(found).generator("shop").arrivals(0, 60, 60)
    lives = [8 if s == "v" else 10 - t % 10 for s, t in zip(rows["stream"].to_pylist(), rows["time"].to_pylist(), strict=True)]
    trace = ps.Trace(rows.append_column("lifetime", [lives]), streams=("v", "o"))
    rates = {(side, key): key + 1.0 for side in "vo" for key in range(20)}
    run = ps.simulate(trace, window=10, memory={"v": [(0, 9), (30, 4)], "o": 7}, policy="prob", stats="given", given=rates, clock="streams")
    assert (last["total_n_output"], last["total_n_shed"]) == (run.n_output, run.n_shed) and run.n_shed > 0


@pytest.mark.slow
def test_a_pipeline_joins_through_a_relation(spark, tmp_path):
    lines = [f"{key},{(key * 7 + 3) % 20}" for key in range(0, 20, 2)]
    (tmp_path / "pairs.csv").write_text("\n".join(["a,b", *lines]) + "\n")
    links = ["v.key = a", "b = o.key"]
    zones = {"source": str(tmp_path / "pairs.csv"), "links": links, "lateness": "1 hour"}
    events = played(spark, described({}, relations={"zones": zones}, join={"through": "zones", "memory": 10_000, "shards": 2}))
    trace = ps.Trace(Generator(**{name: value for name, value in GENERATOR.items() if name not in ("kind", "ticks")}).arrivals(0, 60, 60))
    run = ps.exact(trace, window=10, through=ps.relation(tmp_path / "pairs.csv", links))
    assert sum(event["n_output"] for event in events) == run.n_output > 0
    assert events[-1]["total_n_filtered"] == run.n_filtered > 0
