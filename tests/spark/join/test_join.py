"""The join on Spark: against Spark's own join, against the simulator."""

from __future__ import annotations

import datetime as dt
import sys
from collections import Counter
from decimal import Decimal
from itertools import pairwise
from random import Random
from typing import Any

import pytest

import penstock as ps

pytest.importorskip("pyspark")
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from penstock.shard.shard_ids import shard_ids
from policy_kinds import WEIGHED
from sparks import ON_SPARK, SCHEMA, START, bag, in_batches, joined, ran, rows, spark_join
from strategies import later

pytestmark = ON_SPARK

KEYS: dict[str, tuple[str, list[Any]]] = {
    "string": ("k string", ["a", "b", "ä", "", None]),
    "bigint": ("k bigint", [0, -1, 7, (1 << 63) - 1, -(1 << 63), None]),
    "boolean": ("k boolean", [True, False, None]),
    "date": ("k date", [dt.date(2026, 1, 1), dt.date(1969, 12, 31), None]),
    "decimal": ("k decimal(20, 3)", [Decimal("1.500"), Decimal("-7.001"), None]),
    "double": ("k double", [0.0, -0.0, float("nan"), 1.5, None]),
    "binary": ("k binary", [b"", b"\x00", b"ab", None]),
    "timestamp": ("k timestamp", [START, START + dt.timedelta(microseconds=1), None]),
}


@pytest.mark.parametrize("kind", [kind if kind in ("string", "double") else later(kind) for kind in KEYS])
def test_ample_memory_gives_sparks_own_join_for_every_type_of_key(spark, kind):
    schema, values = KEYS[kind]
    random = Random(kind)
    sides = [
        spark.createDataFrame([(ts, random.choice(values), v) for ts, _, v in rows(tag, 60)], f"ts timestamp, {schema}, v string")
        for tag in "lr"
    ]
    got = bag(joined(*sides, shards=2).select(F.hash("k"), "l_ts", "l_v", "r_ts", "r_v"))
    assert got == bag(spark_join(*sides, ["k"], 10).select(F.hash("k"), "l.ts", "l.v", "r.ts", "r.v"))
    assert got


WIDER = {
    "int and bigint": ("int", "bigint", "bigint"),
    "bigint and decimal": ("bigint", "decimal(9, 2)", "decimal(22,2)"),
    "float and smallint": ("float", "smallint", "double"),
    "date and timestamp": ("date", "timestamp", "timestamp"),
}


@pytest.mark.parametrize("pair", [name if name in ("int and bigint", "date and timestamp") else later(name) for name in WIDER])
def test_keys_of_types_that_spark_would_widen_are_widened(spark, pair):
    left, right, wide = WIDER[pair]
    number = {"date": "date_add(date'2026-01-01', {0})", "timestamp": "timestamp'2026-01-01' + make_dt_interval({0})"}
    sides = [
        spark.createDataFrame(rows(tag, 40), SCHEMA).withColumn(
            "k", F.expr(f"cast({number.get(kind, '{0}').format('cast(ascii(k) % 4 as int)')} as {kind})")
        )
        for tag, kind in zip("lr", (left, right), strict=True)
    ]
    got = joined(*sides, shards=2)
    assert got.schema["k"].dataType.simpleString() == wide
    assert bag(got.drop("k")) == bag(spark_join(*sides, ["k"], 10).drop("k")) != bag(got.limit(0).drop("k"))


@pytest.mark.slow
@pytest.mark.versions
@pytest.mark.parametrize("shards", (later(1), 7))
def test_keys_of_several_columns_and_payload_of_any_type(spark, shards):
    extra = ["length(v) as n", "named_struct('a', v, 'b', array(1, null)) as s", "map('x', v) as m", "cast(null as decimal(9, 2)) as d"]
    sides = [spark.createDataFrame(rows(tag, 80), SCHEMA).selectExpr("*", *extra, "cast(ts as timestamp_ntz) as z") for tag in "lr"]
    got = joined(*sides, on=["k", "n"], shards=shards)
    assert got.columns == ["k", "n", *(f"{side}_{column}" for side in "lr" for column in ("ts", "v", "s", "m", "d", "z"))]
    found = got.selectExpr("k", "n", "l_ts", "l_v", "r_ts", "r_v")
    assert bag(found) == bag(spark_join(*sides, ["k", "n"], 10))
    for row in got.limit(5).collect():
        assert row["r_s"].a == row["r_v"] and row["r_s"].b == [1, None] and row["r_m"] == {"x": row["r_v"]} and row["l_d"] is None


@pytest.mark.parametrize("policy", [policy if policy == "prob" else later(policy) for policy in ps.POLICIES])
def test_one_shard_does_what_the_simulator_does_whatever_the_batches(spark, tmp_path, policy):
    random = Random(policy)
    arrivals = [
        (second, random.choice("lr"), random.choice("aaabbcdefg"), float(random.choice((1, 2, 4)))) for second in range(90) for _ in "xy"
    ]
    cuts = [0, *sorted(random.sample(range(1, 90), 3)), 90]
    frames = {}
    for side in "lr":
        parts = [
            [(START + dt.timedelta(seconds=t), k, f"{n}", i) for n, (t, s, k, i) in enumerate(arrivals) if s == side and begin <= t < end]
            for begin, end in pairwise(cuts)
        ]
        frames[side] = in_batches(spark, tmp_path / side, parts, "ts timestamp, k string, v string, i double")
    importance = "i" if policy in WEIGHED else None
    sides = {side: ps.stream(frame, time="ts", window="20 seconds", importance=importance, order="v") for side, frame in frames.items()}
    out, seen = ran(ps.join(sides, on="k", memory=12, policy=policy, shards=1), tmp_path, "penstock")

    order = sorted(range(len(arrivals)), key=lambda n: (arrivals[n][0], arrivals[n][1], str(n)))
    columns: dict[str, Any] = {
        "stream": [arrivals[n][1] for n in order],
        "time": [arrivals[n][0] * 1_000_000 for n in order],
        "key": [arrivals[n][2] for n in order],
    }
    if importance:
        columns["importance"] = [arrivals[n][3] for n in order]
    trace = ps.Trace(columns, streams=("l", "r"))
    run = ps.simulate(
        trace, window=20_000_000, memory=12, policy=policy, stats="decayed", clock="streams", keep=ps.Keep(outputs=True, sheds=True)
    )
    wanted = Counter((str(order[left]), str(order[right])) for _, left, right in run.outputs)
    assert Counter((row["l_v"], row["r_v"]) for row in out.collect()) == wanted
    assert seen[-1]["total_n_output"] == run.n_output and seen[-1]["total_n_shed"] == run.n_shed and seen[-1]["total_n_input"] == len(trace)
    assert run.n_shed > 0 and max(batch["retained_rows"] for batch in seen) <= 12


@pytest.mark.parametrize(
    ("shards", "cuts", "disorder"), (later(1, 1, 0), later(2, 4, 0), later(7, 2, 0), later(1, 5, 25), later(2, 2, 25), (7, 3, 25))
)
def test_a_stream_in_any_batches_and_any_order_gives_sparks_own_join(spark, tmp_path, shards, cuts, disorder):
    """And what `ps.exact` gives."""
    random, frames, everything = Random(shards), {}, {}
    for side in "lr":
        came = sorted(rows(side, 90), key=lambda row: (row[0].timestamp() + random.uniform(0, disorder), row[2]))
        everything[side] = came
        edges = [0, *sorted(random.sample(range(1, 90), cuts - 1)), 90]
        frames[side] = in_batches(spark, tmp_path / side, [came[begin:end] for begin, end in pairwise(edges)])
    out, seen = ran(joined(*frames.values(), shards=shards, lateness=f"{disorder} seconds", memory=1000), tmp_path)
    got = bag(out)
    assert got == bag(spark_join(*(spark.createDataFrame(everything[side], SCHEMA) for side in "lr"), ["k"], 10)) and len(seen) == cuts
    arrivals = sorted((ts, side, k, v) for side in "lr" for ts, k, v in everything[side])
    columns = {"stream": [a[1] for a in arrivals], "time": [int(a[0].timestamp()) for a in arrivals], "key": [a[2] for a in arrivals]}
    run = ps.exact(ps.Trace(columns, streams=("l", "r")), window=10, keep=ps.Keep(outputs=True))
    assert Counter((row[2], row[4]) for row in got.elements()) == Counter((arrivals[a][3], arrivals[b][3]) for _, a, b in run.outputs)


@pytest.mark.slow
@pytest.mark.versions
def test_whole_numbers_and_dates_find_their_shards_on_the_way(spark, tmp_path):
    """The shard of such keys is found in Python, and the same in every batch; in a batch query Spark finds it."""
    schema, random = "ts timestamp, k int, d date, v string", Random(9)
    days = [START.date(), START.date() - dt.timedelta(30_000), None]
    came = {
        side: [(ts, random.choice([*range(-3, 4), None]), random.choice(days), v) for ts, _, v in sorted(rows(side, 90))] for side in "lr"
    }
    frames = [in_batches(spark, tmp_path / side, [own[:40], own[40:]], schema) for side, own in came.items()]
    out, seen = ran(joined(*frames, on=["k", "d"], shards=3, memory=1000), tmp_path)
    still = [spark.createDataFrame(own, schema) for own in came.values()]
    wanted = bag(spark_join(*still, ["k", "d"], 10))
    assert bag(out) == wanted == bag(joined(*still, on=["k", "d"], shards=3)) and wanted and seen[-1]["total_n_input"] == 180


def test_workers_on_this_machine_run_the_python_of_this_program_unless_told(spark, monkeypatch):
    """Spark takes the first python3 in PATH, which need not be the one that has Penstock."""
    sides = [spark.createDataFrame(rows(tag, 20), SCHEMA) for tag in "lr"]
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "python3")
    joined(*sides)
    assert spark.sparkContext.pythonExec == "python3", "PYSPARK_PYTHON was set"
    monkeypatch.delenv("PYSPARK_PYTHON")
    out = joined(*sides)
    assert spark.sparkContext.pythonExec == sys.executable and bag(out) == bag(spark_join(*sides, ["k"], 10))


def test_a_collision_of_hashes_changes_nothing(spark, monkeypatch):
    """All keys have one hash: they share a shard of three, and still only equal keys match."""
    monkeypatch.setattr("penstock.spark.join.stream.F.xxhash64", lambda *columns: F.lit(5).cast("bigint"))
    sides = [spark.createDataFrame(rows(tag, 60), SCHEMA) for tag in "lr"]
    ample = bag(joined(*sides, shards=3))
    assert ample == bag(spark_join(*sides, ["k"], 10)) and ample


def test_shards_land_on_partitions_in_turn_however_many_there_are(spark):
    ids = spark.createDataFrame([(int(number),) for number in shard_ids(12)], "id bigint")
    for partitions in (1, 2, 3, 7, 12, 200):
        places = [row[0] for row in ids.select(F.pmod(F.hash("id"), F.lit(partitions))).collect()]
        assert places == [number % partitions for number in range(12)]


NAMES = {
    "a condition and importance": ("k", "v", {"condition": "l_v <> r_v"}, {"importance": "length(v)"}),
    "a key called value": later("value", "lost", {"condition": "l_lost <> r_lost"}, {}),
    "dots and backticks": ("k.k", "geo.l`at", {"condition": "`l_geo.l``at` <> '`' and `r_geo.l``at` <> '`'"}, {}),
    "dots without a condition": later("k.k", "geo.l`at", {}, {}),
}


@pytest.mark.parametrize(("key", "payload", "options", "own"), NAMES.values(), ids=NAMES)
def test_columns_may_have_any_names(spark, key, payload, options, own):
    sides = [spark.createDataFrame(rows(tag, 40), SCHEMA) for tag in "lr"]
    renamed = {side: frame.toDF("ts", key, payload) for side, frame in zip("lr", sides, strict=True)}
    streams = {side: ps.stream(frame, time="ts", window="10 seconds", **own) for side, frame in renamed.items()}
    got = ps.join(streams, on=key, memory=1000, shards=2, **options)
    wanted = [key, "l_ts", f"l_{payload}", "r_ts", f"r_{payload}", *(["value"] if own else [])]
    assert got.columns == wanted
    assert Counter(tuple(row)[:5] for row in got.collect()) == bag(spark_join(*sides, ["k"], 10))


def refused(**options: Any) -> Any:
    """A join of two small frames, with something wrong."""
    return lambda spark: joined(*(spark.createDataFrame(rows("l", 3), SCHEMA) for _ in "lr"), **options)


def a_mix(spark: SparkSession) -> DataFrame:
    endless = spark.readStream.format("rate").load().selectExpr("timestamp as ts", "'a' as k", "'b' as v")
    return joined(spark.createDataFrame(rows("l", 3), SCHEMA), endless)


def other_types(spark: SparkSession) -> DataFrame:
    left, right = (spark.createDataFrame(rows("l", 3), SCHEMA) for _ in "lr")
    return joined(left, right.withColumn("k", F.lit(1)))


def twins(spark: SparkSession) -> Any:
    return ps.stream(spark.sql("select now() a, 1 b, 2 b"), time="a", window="1 hour", key="b")


def sided(**options: Any) -> Any:
    return lambda spark: ps.stream(spark.createDataFrame(rows("l", 3), SCHEMA), time="ts", window="1 hour", **options)


def two_cases(spark: SparkSession) -> DataFrame:
    one = ps.stream(spark.createDataFrame(rows("l", 3), SCHEMA), time="ts", window="1 hour")
    return ps.join({"a": one, "A": one}, on="k", memory=9)


def more_keys(spark: SparkSession) -> DataFrame:
    frame = spark.createDataFrame(rows("l", 3), SCHEMA)
    one, two = (ps.stream(frame, time="ts", window="1 hour", key=key) for key in (["k"], ["k", "v"]))
    return ps.join({"a": one, "b": two}, memory=9)


def nested_floats(spark: SparkSession) -> DataFrame:
    one = ps.stream(spark.createDataFrame(rows("l", 3), SCHEMA).withColumn("k", F.array(F.lit(0.0))), time="ts", window="1 hour")
    return ps.join({"a": one, "b": one}, on="k", memory=9)


def watermarked(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").load().selectExpr("timestamp as ts", "'a' as k").withWatermark("ts", "1 minute")


REFUSED = {
    "a mix": (a_mix, "all streaming or all batch"),
    "key types": (other_types, "same types"),
    "no such key": (refused(on="key"), "'key': no such column"),
    "a lifetime of texts": (
        sided(lifetime="v"),
        "lifetime must be an interval of days to seconds, .* type string",
    ),
    "no lifetime": (sided(lifetime="w + 1"), "lifetime must be an SQL expression over ts, k, v, got 'w [+] 1'"),
    "given rates without equal keys": (
        refused(predicate="!=", stats="given", given={("l", "a"): 1.0}),
        "stats 'given' holds rates by key and needs equal keys named by on=, got !=",
    ),
    "rates that are not given": (refused(stats="given"), "given must be a table of rates exactly when stats is 'given'"),
    "memory": (refused(memory=0), "memory must be"),
    "memory per shard": (refused(memory=3, shards=4), "at least one row per shard"),
    "bytes per shard": (
        refused(memory="10 B", shards=2),
        "one row per shard .2; a row takes 256 bytes and its own, .* got '10 B'",
    ),
    "options": (refused(options={"seed": 1}), "join's option must be one of .* got 'options'"),
    "more keys in one": (more_keys, "keys must have as many columns in all streams, got: a has k; b has k, v"),
    "overhead": (refused(overhead=256), 'overhead must be a size such as "256 MB", got 256'),
    "a name of one dot": (refused(name="."), r"name must be more than dots, which are folders, got '\.'"),
    "a name of two dots": (refused(name=".."), r"name must be more than dots, which are folders, got '\.\.'"),
    "overhead without room": (
        refused(overhead="1 KB", shards=4),
        "overhead must be at least 64 KB for each shard .256000 bytes., got '1 KB'",
    ),
    "overhead of bytes": (refused(memory="1 MB", overhead="2 MB"), "overhead is a part of a memory in bytes and must be at most half"),
    "memory in the middle": (refused(memory="12 parsecs"), "memory must be"),
    "shards": (refused(shards=0), "shards must be a whole number >= 1"),
    "an option": (refused(sharps=2), "did you mean"),
    "recall": (refused(min_recall=1.5), "min_recall must be a number"),
    "what to do": (refused(min_recall=(0.5, "cry")), "warn, fail"),
    "a condition": (refused(condition="l_v < nowhere"), "condition must be an SQL expression over k, l_ts"),
    "a number for a condition": (refused(condition="1 + 1"), "condition must be true or false"),
    "no condition": (refused(condition=" "), "condition must be an SQL expression over k, l_ts.*, as a text, got ' '"),
    "a condition that is none": (refused(condition=5), "condition must be an SQL expression over k, l_ts.*, as a text, got 5"),
    "an unfinished condition": (refused(condition="l_v >"), "condition must be an SQL expression .*, got 'l_v >': Syntax error"),
    "a key twice": (refused(on=["k", "k"]), "on, for stream l, must name each column once, got k, k"),
    "a watermark": (lambda spark: ps.stream(watermarked(spark), time="ts", window="1 hour"), "must not carry a watermark"),
    "twice the same name": (
        lambda spark: ps.stream(spark.sql("select now() a, 1 b, 2 b"), time="a", window="1 hour", key="b"),
        "more than once",
    ),
    "window": (refused(window="10 fortnights"), "window must be a duration"),
    "policy": (refused(policy="porb"), "did you mean 'prob'"),
    "outer": (refused(how="left"), "how must be 'inner'"),
    "stats": (refused(stats="whole"), "stats.*decayed"),
    "an aggregate for a condition": (refused(condition="max(l_v) > 'a'"), "condition must be an SQL expression"),
    "half a condition": (refused(condition="true) or (true"), "condition must be an SQL expression"),
    "memory by name": (refused(memory={"l": 1, "r": 8}, shards=2), "at least one row per shard"),
    "archive": (refused(archive="/tmp/{a}"), "archive must be a folder or URL without"),
    "no archive": (refused(archive=""), "archive must be a folder"),
    "a warning of a batch query": (refused(min_recall=0.9), "min_recall of batch DataFrames must fail"),
    "switches": (refused(switches="x"), "switches must be names with values"),
    "on": (refused(on=5), "on must be the name of a column or a list of names, got 5"),
    "no frame": (lambda spark: ps.stream(None, time="ts", window="1 hour"), "df must be a Spark DataFrame, got None"),
    "importance": (sided(importance="zz"), "importance must be an SQL expression over ts, k, v, got 'zz'"),
    "a text for importance": (sided(importance="v"), "importance must be a number, got 'v' of type string"),
    "a number for importance": (sided(importance=5), "importance must be a column or an SQL expression, got 5"),
    "columns": (sided(columns=5), "columns must be the name of a column or a list of names, got 5"),
    "order": (lambda spark: ps.stream(spark.sql("select now() a, array(1) b"), time="a", window="1 hour", order="b"), "order must be"),
    "upper and lower case": (lambda spark: ps.stream(spark.sql("select now() a, 1 v, 2 V"), time="a", window="1 hour"), "more than once"),
    "streams": (two_cases, "different names to the columns"),
    "floats in a key": (nested_floats, "must not name arrays or structs with floats"),
    "time": (lambda spark: ps.stream(spark.range(3), time="id", window="1 hour"), "column of timestamps"),
}


@pytest.mark.parametrize(("make", "said"), REFUSED.values(), ids=REFUSED)
def test_nonsense_is_refused_before_anything_runs(spark, make, said, capfd):
    with pytest.raises(ps.PenstockError, match=said):
        make(spark)
    assert '"logger"' not in capfd.readouterr().err  # PySpark's own account of it, as JSON
