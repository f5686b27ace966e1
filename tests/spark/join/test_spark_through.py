"""Joins through relations on Spark: what SQL with interval conditions makes, what is lost is repaid, and another relation is refused."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest

import penstock as ps

pytest.importorskip("pyspark")
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from penstock.relation.record import record
from sparks import ON_SPARK, SCHEMA, add_batches, at, bag, in_batches, ran

pytestmark = ON_SPARK

FACTS = "a string, b string, begin timestamp, end timestamp, weight double, c string"
NEAR = "abs(unix_micros({0}.ts) - unix_micros({1}.ts)) < 10000000"
ACTIVE = "coalesce({0}.begin <= {1}.ts, true) and coalesce({1}.ts < {0}.end, true)"


def rows(tag: str, n: int = 120) -> list[tuple[Any, ...]]:
    """Times of whole seconds, so that there are ties with others and with the times of facts; some keys are null."""
    random = Random(tag)
    times = sorted(random.randrange(60) for _ in range(n))
    return [(at(t), random.choice("abcdefgh") if random.random() < 0.9 else None, f"{tag}{number}") for number, t in enumerate(times)]


def facts(tag: str = "f", n: int = 16) -> list[tuple[Any, ...]]:
    """Facts that come and go, some for ever."""
    random, found = Random(tag), []
    for number in range(n):
        begin = random.choice([None, *range(60)])
        end = random.choice([None, None, *range(begin or 0, 70)])
        times = [None if t is None else at(t) for t in (begin, end)]
        found.append((random.choice("abcdef"), random.choice("abcdef"), *times, random.choice([1.0, 2.0, 4.0]), f"{tag}{number}"))
    return found


def sides(**frames: DataFrame) -> dict[str, Any]:
    return {name: ps.stream(frame, time="ts", window="10 seconds", lateness="1 hour") for name, frame in frames.items()}


def pairs(frame: DataFrame, **more: Any) -> Any:
    return ps.relation(frame, ["l.k = a", "b = r.k"], columns=["c"], name="f", **more)


def exact(spark: Any, left: DataFrame, relation: DataFrame, right: DataFrame, also: str = "true") -> Counter[tuple[Any, ...]]:
    """By Spark's own joins: who is linked by which fact, and what the fact weighs."""
    for name, frame in (("l", left), ("f", relation), ("r", right)):
        frame.createOrReplaceTempView(name)
    on = f"l.k = f.a and f.b = r.k and {ACTIVE.format('f', 'l')} and {ACTIVE.format('f', 'r')} and {NEAR.format('l', 'r')}"
    return bag(spark.sql(f"select l.v, r.v, f.c, f.weight from l join f join r where {on} and {also}"))


def shown(frame: DataFrame) -> Counter[tuple[Any, ...]]:
    return bag(frame.select("l_v", "r_v", "f_c", "value"))


def test_it_is_what_sql_makes_whatever_the_shards(spark):
    left, right = (spark.createDataFrame(rows(tag), SCHEMA) for tag in "lr")
    relation = spark.createDataFrame(facts(), FACTS)
    joined = ps.join(sides(l=left, r=right), through=pairs(relation), memory=10_000, shards=3)
    assert joined.columns == ["l_ts", "l_k", "l_v", "r_ts", "r_k", "r_v", "f_c", "value"]
    found = shown(joined)
    assert found == exact(spark, left, relation, right) and len(found) > 100


@pytest.mark.slow
def test_what_is_shed_is_repaid_and_a_restart_goes_on_with_the_same_facts_only(spark, tmp_path):
    sources = {tag: rows(tag, 240) for tag in "lr"}
    parts = {tag: [own[begin : begin + 60] for begin in range(0, 240, 60)] for tag, own in sources.items()}
    streams = {tag: in_batches(spark, tmp_path / tag, parts[tag][:2]) for tag in "lr"}
    relation = spark.createDataFrame(facts(), FACTS)

    def query(through: Any) -> DataFrame:
        options: dict[str, Any] = {"memory": 24, "policy": "dimpprob", "shards": 2, "condition": "l_v < r_v or f_c > 'f4'"}
        return ps.join(sides(**streams), through=through, archive=str(tmp_path / "archive"), **options)

    _, first = ran(query(pairs(relation)), tmp_path)
    assert first[-1]["n_shed"] and first[-1]["n_filtered"] and first[-1]["lost"]
    for tag in "lr":
        add_batches(spark, tmp_path / tag, parts[tag][2:])
    with pytest.raises(Exception, match=r"facts of relation f was .* Give the relation the facts that it had"):
        ran(query(pairs(relation.where("c != 'f3'"))), tmp_path)
    emitted, seen = ran(query(pairs(relation.orderBy(F.rand(1)))), tmp_path)
    assert seen[-1]["total_n_filtered"] > seen[-1]["n_filtered"] and seen[-1]["lost_is_exact"]

    left, right = (spark.createDataFrame(sources[tag], SCHEMA) for tag in "lr")
    whole = exact(spark, left, relation, right, "(l.v < r.v or f.c > 'f4')")
    settled = ps.settle(tmp_path / "archive", checkpoint=tmp_path / "checkpoint", spark=spark)
    assert shown(emitted) + shown(settled) == whole and shown(settled)
    assert seen[-1]["total_n_output"] + seen[-1]["total_lost"] == sum(whole.values())


@pytest.mark.slow
def test_a_hub_that_a_tenth_of_all_rows_match_breaks_nothing(spark, tmp_path):
    """Its rows all go to one shard, whose memory they would fill five times."""
    random = Random(7)

    def crowd(tag: str) -> list[tuple[Any, ...]]:
        times = sorted(random.randrange(60) for _ in range(1500))
        return [(at(t), "hub" if number % 10 == 0 else f"k{random.randrange(200)}", f"{tag}{number}") for number, t in enumerate(times)]

    left, right = (spark.createDataFrame(crowd(tag), SCHEMA) for tag in "lr")
    others = [(f"k{random.randrange(200)}", f"k{random.randrange(200)}", None, None, 1.0, f"f{number}") for number in range(300)]
    relation = spark.createDataFrame([("hub", "hub", at(5), at(55), 4.0, "hub"), *others], FACTS)
    joined = ps.join(sides(l=left, r=right), through=pairs(relation), memory=20, shards=2, archive=str(tmp_path))
    emitted = shown(joined)
    settled = shown(ps.settle(str(tmp_path), spark=spark))
    whole = exact(spark, left, relation, right)
    assert emitted + settled == whole and settled
    assert sum(count for (*_, fact, _), count in whole.items() if fact == "hub") > 3000
    assert any(fact == "hub" for *_, fact, _ in emitted)


@pytest.mark.slow
def test_a_chain_of_relations_joins_three_streams(spark, tmp_path):
    frames = {tag: spark.createDataFrame(rows(tag, 60), SCHEMA) for tag in "lrs"}
    first, second = (spark.createDataFrame(facts(tag, 12), FACTS).drop("weight") for tag in "fg")
    through = [pairs(first), ps.relation(second, ["r.k = a", "b = s.k"], columns=["c"], name="g")]
    joined = ps.join(sides(**frames), through=through, memory=10_000)
    for name, frame in {**frames, "f": first, "g": second}.items():
        frame.createOrReplaceTempView(name)
    on = [NEAR.format(*two) for two in ("lr", "ls", "rs")] + [ACTIVE.format(*two) for two in ("fl", "fr", "gr", "gs")]
    text = "select l.v, r.v, s.v, f.c, g.c from l join f join r join g join s where l.k = a and f.b = r.k and r.k = g.a and g.b = s.k"
    wanted = bag(spark.sql(f"{text.replace('l.k = a', 'l.k = f.a')} and {' and '.join(on)}"))
    assert bag(joined.select("l_v", "r_v", "s_v", "f_c", "g_c")) == wanted and wanted


def test_what_a_relation_on_spark_must_be(spark, tmp_path):
    left, right = (spark.createDataFrame([], SCHEMA) for _ in "lr")
    good: dict[str, list[Any]] = {"a": ["p"], "b": ["q"]}

    def refused(source: Any, said: str, links: Any = ("l.k = a", "b = r.k"), **options: Any) -> None:
        options = {"memory": 10} | options
        streams = options.pop("streams", sides(l=left, r=right))
        with pytest.raises(ps.PenstockError, match=said):
            ps.join(streams, through=ps.relation(source, links, name="f"), **options)

    refused(good, "on must be left out where streams are joined through relations", on="k")
    refused(good, "switch pre-filter must be both or static on Spark, .*, got 'none'", switches={"pre-filter": "none"})
    refused(good | {"a": [7]}, "link k = a of relation f must compare columns of one type, got string and bigint; cast one of them")
    refused(good, "links of relation f must name a column of the frame, got 'z'", links=["l.z = a", "b = r.k"])
    refused(good | {"begin": [5]}, "begin 'begin' of relation f must be of the type of the streams' times")
    refused(good, "through must link all streams, got no relation that leads to s", streams=sides(l=left, r=right, s=right))
    refused(good, "column z. of relation f|relation f must have the .*'z'", links=["l.k = z", "b = r.k"])
    refused(good | {"begin": [dt.datetime(2026, 1, 2)], "end": [at(0)]}, "must have no fact that ends before it begins")
    refused(spark.readStream.format("rate").load(), "must be a table, a file or a batch DataFrame, got a streaming DataFrame")
    record(good, tmp_path / "h", keys=["a", "b"], time=at(0))
    streaming = {"streams": sides(**{tag: in_batches(spark, tmp_path / tag, [[]]) for tag in "lr"})}
    kept = {"archive": str(tmp_path / "z"), **streaming}
    refused(f"history:{tmp_path / 'h'}", "ahead must be left out where an archive is kept .* goes on, got '1 hour'", ahead="1 hour", **kept)
    counting = {name: replace(side, window="rows:9") for name, side in streaming["streams"].items()}
    refused(f"history:{tmp_path / 'h'}", "window of stream l must not count rows .* got 'rows:9'", **kept | {"streams": counting})
    refused("history:memory://h", "must be a history on a file system that all workers share|history must be a folder", **streaming)
    refused("feed:changes.jsonl", "must not be a feed where streams are joined, got 'feed:changes.jsonl': keep its history", **streaming)
    both = [ps.relation(good, ["l.k = a", "b = r.k"], name="f"), ps.relation(good, ["r.k = a", "b = s.k"], name="g")]
    with pytest.raises(ps.PenstockError, match=r"shards must be 1, or left out, in a join through several relations \(f, g\), got 2"):
        ps.join(sides(l=left, r=right, s=right), through=both, memory=10, shards=2)
    relation = ps.relation({"a": ["p", "p"], "b": ["q", "r"]}, ["l.k = a", "b = r.k"])
    text = ps.explain(sides(l=left, r=right), through=relation, memory=10, shards=2)
    assert "by the facts that it has at its time" in text and "copies of a row: l 1, r 1" in text


def test_a_look_up_is_what_sql_makes_of_a_stream_too(spark, tmp_path):
    relation = spark.createDataFrame(facts(), FACTS).withColumn("until", F.col("end"))
    rides = rows("l")
    frame = spark.createDataFrame([*rides, (None, "a", "no time")], SCHEMA)
    tariff = ps.relation(relation, ["l.k = a", "b = r.k"], columns=["c", "until"], name="f")
    for name, one in (("l", frame), ("f", relation)):
        one.createOrReplaceTempView(name)
    wanted = bag(spark.sql(f"select l.*, f.c, f.until from l join f where l.k = f.a and l.ts is not null and {ACTIVE.format('f', 'l')}"))
    found = ps.lookup(frame, tariff, time="ts", name="l")
    assert found.columns == ["ts", "k", "v", "f_c", "f_until"] and bag(found) == wanted and len(wanted) > 50
    stream = in_batches(spark, tmp_path, [rides[:60], rides[60:]])
    query = ps.lookup(ps.stream(stream, time="ts", window="1 second"), tariff, name="l", access="index").writeStream
    query.format("parquet").option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start(
        str(tmp_path / "out")
    ).awaitTermination()
    assert bag(spark.read.schema(found.schema).parquet(str(tmp_path / "out"))) == wanted
    with pytest.raises(ps.PenstockError, match="name must say which of the streams l, r this is"):
        ps.lookup(frame, tariff, time="ts")
    with pytest.raises(ps.PenstockError, match="stream must have no column 'f_c'"):
        ps.lookup(found, tariff, time="ts", name="l")
