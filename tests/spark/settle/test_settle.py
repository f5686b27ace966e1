"""Settling on Spark: what was emitted and what is settled are together the exact result, each output once."""

from __future__ import annotations

import base64
import datetime as dt
import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from ledgers import a_checkpoint, a_pruned_ledger
from penstock.cli import run
from penstock.core.value import OBJECTIVES, Objective
from penstock.ledger.ledger import Ledger, find
from penstock.ledger.sealed import sealed
from penstock.ledger.settled_marks import marks
from penstock.ledger.store import Store
from shards import BATCHES, Members, Shard, owed, plan_of, shards_of, write

pyspark = pytest.importorskip("pyspark")
from pyspark import cloudpickle  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402, N812
from pyspark.sql import types as T  # noqa: E402, N812
from pyspark.sql.pandas.types import to_arrow_schema  # noqa: E402

from penstock.spark.settle.owed import _value  # noqa: E402
from sparks import ON_SPARK, bag_of_members  # noqa: E402
from strategies import later  # noqa: E402

pytestmark = ON_SPARK


@pytest.fixture(autouse=True)
def _brisk(request: pytest.FixtureRequest) -> Iterator[None]:
    """Small inputs: planning and compiling would take longer than joining."""
    options = {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
    }
    if "spark" not in request.fixturenames:
        yield
        return
    conf = request.getfixturevalue("spark").conf
    for name, value in options.items():
        conf.set(name, value)
    yield
    for name in options:
        conf.unset(name)


CASES: dict[str, tuple[tuple[int | None, ...], dict[str, Any]]] = {
    "two streams": ((3, 20), {}),
    "three streams": ((9, 4, 12), {"keys": 3}),
    "no window": ((None, 6), {"half_life": 8.0}),
}


@pytest.mark.parametrize("case", ("two streams", later("three streams"), later("no window")))
def test_emitted_and_settled_are_the_exact_result(spark, tmp_path, case):
    windows, options = CASES[case]
    """At once, and in steps while the query goes on; whatever the policy, the budget, the disorder and the batches."""
    shards = shards_of(windows, **options)
    ledger = Ledger(tmp_path / "archive", plan_of(windows), "q1")
    parts: list[Counter[Members]] = []
    done = 0
    for upto in (2, 3, BATCHES):
        write(ledger, shards, range(done, upto))
        frame = ps.settle(tmp_path / "archive", checkpoint=a_checkpoint(tmp_path / "c", upto), to=tmp_path / "to", spark=spark)
        parts.append(bag_of_members(frame))
        assert parts[-1] == owed(shards, range(done, upto))
        done = upto
    everything = owed(shards)
    assert sum(parts, Counter()) == everything and len(everything) > 100 and max(everything.values()) == 1
    assert bag_of_members(ps.settle(tmp_path / "archive", checkpoint=tmp_path / "c", since=-1, spark=spark)) == everything
    # What was written is there once, too.
    assert bag_of_members(spark.read.parquet(str(tmp_path / "to"))) == everything
    again = ps.settle(tmp_path / "archive", checkpoint=tmp_path / "c", to=tmp_path / "to", spark=spark)
    assert again.columns == frame.columns and again.count() == 0
    assert [mark.rows for mark in marks(find(tmp_path / "archive"))] == [sum(part.values()) for part in parts]


def pickled(function: Any) -> str:
    return "pickle:" + base64.b64encode(cloudpickle.dumps(function)).decode()


def test_values_are_those_of_the_engine(spark):
    own = lambda imps: imps[0] - 2 * imps[2]  # noqa: E731
    random = Random(3)
    rows = [[random.random() * 10 for _ in "abc"] for _ in range(20)]
    columns = [F.col(name) for name in "abc"]
    names = {name: Objective.parse(name) for name in OBJECTIVES} | {"own": Objective.parse(own)}
    got = spark.createDataFrame(rows, "a double, b double, c double").select(*(_value(one, columns).alias(n) for n, one in names.items()))
    for worths, row in zip(rows, got.collect(), strict=True):
        assert row.asDict() == {name: one.of(worths) for name, one in names.items()}


@pytest.mark.slow
@pytest.mark.parametrize("kept", ("a function", "pickle"))
def test_a_function_of_the_users_own_is_given_again(spark, tmp_path, kept):
    """An archive does not have it, or has it as a pickle of release 0.1.0."""
    own = lambda imps: imps[0] - 2 * imps[1]  # noqa: E731
    shards = shards_of((8, 8))[:2]
    worth = {one.row: one.importance for shard in shards for one in shard.arrivals}
    plan = plan_of((8, 8), objective=pickled(own) if kept == "pickle" else kept)
    write(Ledger(tmp_path, plan, "batch-1"), shards, range(BATCHES), last=BATCHES - 1)
    with pytest.raises(ps.PenstockError, match="objective must be given again"):
        ps.settle(tmp_path, spark=spark)
    assert ps.debt(tmp_path, spark=spark) == sum(owed(shards).values()) > 0
    ways: list[dict[str, Any]] = [{"objective": own}, *([{"trust": True}] if kept == "pickle" else [])]
    for way in ways:
        got = {(row["a_v"], row["b_v"]): row["value"] for row in ps.settle(tmp_path, spark=spark, **way).collect()}
        assert got == {(a, b): worth[a] - 2 * worth[b] for a, b in owed(shards)}


def test_outputs_have_values_and_meet_the_condition(spark, tmp_path):
    shards = shards_of((8, 8))
    worth = {one.row: one.importance for shard in shards for one in shard.arrivals}
    plan = plan_of((8, 8), objective="sum", condition="b_v % 3 = 0 and value <> 2")
    write(Ledger(tmp_path, plan, "batch-1"), shards, range(BATCHES), last=BATCHES - 1)
    got = ps.settle(tmp_path, spark=spark)
    assert got.columns == ["k", "a_v", "b_v", "value"]
    wanted = {(a, b): worth[a] + worth[b] for a, b in owed(shards) if b % 3 == 0}
    assert {(row["a_v"], row["b_v"]): row["value"] for row in got.collect()} == {pair: v for pair, v in wanted.items() if v != 2}
    assert wanted


def test_only_committed_batches_count_and_a_replay_takes_the_place_of_what_failed(spark, tmp_path):
    shards = shards_of((8, 8))
    ledger = Ledger(tmp_path / "a", plan_of((8, 8)), "q1")
    write(ledger, shards, range(4))
    # An attempt at batch 3 that failed half way, and had seen something else.
    write(ledger, [shard for shard in shards_of((8, 8), keys=2) if shard.number < 4], [3], count=len(shards))
    log = a_checkpoint(tmp_path / "c", 3)
    assert bag_of_members(ps.settle(tmp_path / "a", checkpoint=log, spark=spark)) == owed(shards, range(3))
    assert bag_of_members(ps.settle(tmp_path / "a", spark=spark)) == owed(shards, range(3))  # batch 3 is the newest
    with pytest.raises(ps.PenstockError, match="through must be a committed batch, up to 2, got 3"):
        ps.settle(tmp_path / "a", checkpoint=log, through=3, spark=spark)
    write(ledger, shards, [3], epoch=2)
    write(ledger, shards, [4], epoch=2)
    a_checkpoint(log, 4)
    assert bag_of_members(ps.settle(tmp_path / "a", checkpoint=log, spark=spark)) == owed(shards, range(4))
    assert ps.debt(tmp_path / "a", checkpoint=log, spark=spark) == sum(owed(shards, range(4)).values())
    assert ps.debt(tmp_path / "a", checkpoint=log, since=1, through=2, spark=spark) == sum(owed(shards, range(2, 3)).values())


@pytest.mark.slow
@pytest.mark.parametrize("step", (5, later(1)), ids=("some gaps", "every gap"))
def test_a_batch_that_commits_between_any_two_reads_is_settled_now_or_later(spark, tmp_path, monkeypatch, step):
    """Settling beside a running query: whatever it has read so far when the next batch commits, nothing is marked that was not read."""
    shards = shards_of((8, 8))[:3]
    own = {name: getattr(Store, name) for name in ("names", "read", "open", "exists")}
    reads = 0
    for gap in range(0, 100, step):
        ledger = Ledger(tmp_path / f"a{gap}", plan_of((8, 8)), "q1")
        write(ledger, shards, range(2))
        log = a_checkpoint(tmp_path / f"c{gap}", 2)
        reads = 0

        def then_commits(ledger: Ledger = ledger, log: Path = log, gap: int = gap) -> None:
            nonlocal reads
            reads += 1
            if reads == gap + 1:
                with monkeypatch.context() as patch:
                    for name, usual in own.items():
                        patch.setattr(Store, name, usual)
                    write(ledger, shards, [2])
                    a_checkpoint(log, 3)

        with monkeypatch.context() as patch:
            for name, usual in own.items():
                patch.setattr(Store, name, lambda *given, usual=usual: (then_commits(), usual(*given))[1])
            ps.settle(tmp_path / f"a{gap}", checkpoint=log, to=tmp_path / f"to{gap}", spark=spark)
        if reads <= gap:
            break
        ps.settle(tmp_path / f"a{gap}", checkpoint=log, to=tmp_path / f"to{gap}", spark=spark)
        assert bag_of_members(spark.read.parquet(str(tmp_path / f"to{gap}"))) == owed(shards, range(3)), gap
    assert 5 < reads < 100


def test_sparks_own_checkpoint_is_understood(spark, tmp_path):
    """The id and the commit log of a query that Spark has run."""
    spark.range(1).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("id bigint").parquet(str(tmp_path / "in"))
    query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()
    query.awaitTermination()
    shards = shards_of((8, 8))[:2]
    write(Ledger(tmp_path / "a", plan_of((8, 8)), query.id), shards, range(2))
    write(Ledger(tmp_path / "a", plan_of((8, 8)), "another"), shards, range(2))
    assert ps.debt(tmp_path / "a", checkpoint=tmp_path / "c", spark=spark) == sum(owed(shards, range(1)).values())
    with pytest.raises(ps.PenstockError, match="query must be that of the checkpoint"):
        ps.settle(tmp_path / "a", checkpoint=tmp_path / "c", query="another", spark=spark)


@pytest.mark.slow
def test_a_settlement_that_failed_is_made_again_even_if_it_comes_farther(spark, tmp_path, monkeypatch):
    shards = shards_of((8, 8))
    ledger = Ledger(tmp_path / "a", plan_of((8, 8)), "q1")
    write(ledger, shards, range(2))
    options = {"to": tmp_path / "to", "spark": spark}
    ps.settle(tmp_path / "a", checkpoint=a_checkpoint(tmp_path / "c", 1), **options)
    write(ledger, shards, range(2, 4))
    with monkeypatch.context() as patch:
        # Everything is written but the mark.
        patch.setattr("penstock.spark.settle.settle._rows", lambda *_: (_ for _ in ()).throw(OSError("gone")))
        with pytest.raises(OSError, match="gone"):
            ps.settle(tmp_path / "a", checkpoint=a_checkpoint(tmp_path / "c", 3), **options)
    with pytest.raises(ps.PenstockError, match=r"to must be .*where a settlement was begun and not finished, got .*elsewhere"):
        ps.settle(tmp_path / "a", checkpoint=tmp_path / "c", to=tmp_path / "elsewhere", spark=spark)
    write(ledger, shards, [4])
    got = ps.settle(tmp_path / "a", checkpoint=a_checkpoint(tmp_path / "c", 5), **options)
    assert bag_of_members(got) == owed(shards, range(1, 5))
    assert bag_of_members(spark.read.parquet(str(tmp_path / "to"))) == owed(shards, range(5))
    shutil.rmtree(tmp_path / "c" / "commits")
    with pytest.raises(ps.PenstockError, match="checkpoint must have the batches that are settled, up to 4, but it ends with 2"):
        ps.settle(tmp_path / "a", checkpoint=a_checkpoint(tmp_path / "c", 3), **options)
    with pytest.raises(ps.PenstockError, match="since cannot be chosen with to"):
        ps.settle(tmp_path / "a", since=3, **options)


@pytest.mark.slow
def test_old_files_that_cannot_match_are_not_read(spark, tmp_path):
    """They may be gone: a settled ledger can be cut off behind the windows."""
    shards = shards_of((8, 8))
    ledger = Ledger(tmp_path / "a", plan_of((8, 8)), "q1")
    write(ledger, shards, range(BATCHES))
    twins = []
    for shard in shards:  # the same once more, much later
        move = 1 + max(one.arrived for one in shard.arrivals)
        later = [
            type(one)(one.row + (1 << 30), one.stream, one.time + 10**6, one.key, one.importance, one.batch + BATCHES, one.arrived + move)
            for one in shard.arrivals
        ]
        left = {r + (1 << 30): (at + move, b + BATCHES) for r, (at, b) in shard.left.items()}
        twins.append(Shard(shard.number, shard.windows, later, left))
    first = ps.settle(tmp_path / "a", checkpoint=a_checkpoint(tmp_path / "c", BATCHES), to=tmp_path / "to", spark=spark)
    assert bag_of_members(first) == owed(shards)
    write(ledger, twins, range(BATCHES, 2 * BATCHES))
    for file in (tmp_path / "a").rglob("batch-00000000[0-4]-*.parquet"):
        file.write_text("not Parquet: who reads this, fails")
    second = ps.settle(tmp_path / "a", checkpoint=a_checkpoint(tmp_path / "c", 2 * BATCHES), to=tmp_path / "to", spark=spark)
    assert bag_of_members(second) == Counter({tuple(row + (1 << 30) for row in members): n for members, n in owed(shards).items()})


START = dt.datetime(1500, 1, 1, tzinfo=dt.UTC)
ODD: dict[str, tuple[str, Any]] = {
    "d": ("decimal(20,3)", Decimal("1.500")),
    "s": ("struct<a:int,b:array<string>>", {"a": 1, "b": [None, "x"]}),
    "m": ("map<string,double>", {"x": 1.5}),
    "z": ("timestamp_ntz", dt.datetime(1500, 1, 1, 12)),
    "t": ("timestamp", START),
    "b": ("binary", bytearray(b"\x00\xff")),
    "i": ("interval day to second", dt.timedelta(days=1, microseconds=1)),
    "y": ("tinyint", -128),
    "n": ("string", None),
    "strange `name`.x": ("date", dt.date(1400, 2, 28)),
    "void": ("void", None),
}


def test_payload_of_any_type_is_settled_as_it_was(spark, tmp_path):
    fields = [T.StructField(name, spark.createDataFrame([], f"x {kind}").schema[0].dataType) for name, (kind, _) in ODD.items()]
    keys = [T.StructField("row", T.LongType()), T.StructField("key0", T.DoubleType())]
    schema = T.StructType([*keys, *fields, T.StructField("r_v", T.StringType())])
    plan = plan_of(
        (8, 8), keys=2, payload=(("row", "key0", *ODD), ("r_v",)), schema=schema.json(), objective=None, has_importance=False,
    )  # fmt: skip
    arrow = to_arrow_schema(T.StructType(fields), timezone="UTC")
    values = {"row": 5, "key0": float("nan")}
    columns = [[1], [1], [5], [5], [float("nan")], [5], [float("nan")]]
    names = ["row", "arrived", "time", "key0", "key1", "row", "key0"]
    arrays = [pa.array(column) for column in columns]
    for (name, (_, value)), field in zip(ODD.items(), arrow, strict=True):
        cell = list(value.items()) if name == "m" else bytes(value) if name == "b" else value
        arrays.append(pa.array([cell], field.type))
        values[name] = value
    left_side = pa.Table.from_arrays(arrays, [*names, *ODD])
    right_side = pa.table({"row": [2], "arrived": [3], "time": [6], "key0": [5], "key1": [float("nan")], "r_v": ["r"]})
    Ledger(tmp_path / "a", plan, "batch-1").write(0, 0, [left_side, right_side], pa.table({"row": [1], "left": [2]}), last=True)
    for frame in (ps.settle(tmp_path / "a", spark=spark), ps.settle(tmp_path / "a", to=tmp_path / "to", spark=spark)):
        assert [(f.name, f.dataType) for f in frame.schema] == [(f.name, f.dataType) for f in schema]
        (row,) = frame.select([c for c in schema.names if "`" not in c and c != "t"]).collect()
        assert {name: row[name] for name in ("d", "m", "z", "b", "i", "y", "n", "void", "r_v")} == (
            {name: values[name] for name in ("d", "m", "z", "b", "i", "y", "n", "void")} | {"r_v": "r"}
        )
        assert row["s"].asDict() == values["s"] and row["row"] == 5 and row["key0"] != row["key0"]
        (rest,) = frame.selectExpr("unix_micros(t)", "cast(`strange ``name``.x` as string)").collect()
        assert tuple(rest) == (round(START.timestamp() * 10**6), "1400-02-28")


# ------------------------------------------------------------------------------------------------------ the command line


def test_what_pruning_took_is_warned_of(spark, tmp_path, caplog):
    a_pruned_ledger(tmp_path, plan_of((8, 8)))
    told = "archive: batches 0 to 1 of the ledger test-q1 were pruned"
    for ask in (ps.settle, ps.debt):
        caplog.clear()
        with caplog.at_level("WARNING", logger="penstock"):
            ask(tmp_path / "a", checkpoint=tmp_path / "c", spark=spark)
        assert [record.getMessage()[: len(told)] for record in caplog.records] == [told]
    caplog.clear()
    with caplog.at_level("WARNING", logger="penstock"):
        ps.debt(tmp_path / "a", checkpoint=tmp_path / "c", through=4, spark=spark)
    assert not caplog.records


def fields(**kinds: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in kinds.items()]}


def linked(**links: Any) -> dict[str, Any]:
    link = {"low": ["key0"], "high": ["key0"], "streams": [0, 1], "predicate": "=", "epsilon": 0}
    return {"links": {"sent": [["key0"], ["key0"]], "types": {"key0": "string"}, "links": [link]} | links}


@pytest.mark.slow
@pytest.mark.parametrize(
    "crafted",
    (
        {"schema": fields(k="string", a_v="long", b_v="long", z="long", value="double")},
        {"schema": fields(k="decimal(99,99)", a_v="long", b_v="long", value="double")},
        {"schema": fields(k="decimal(2,9)", a_v="long", b_v="long", value="double")},
        {"schema": {"type": "struct", "fields": [{"name": 5, "type": "long", "nullable": True, "metadata": {}}]}},
        {"schema": fields()},
        {"keys": 99},
        {"streams": ["a"], "payload": [["k", "a_v"]], "windows": [8]},
        {"streams": [], "payload": [], "windows": []},
        {"payload": [[], []]},
        {"condition": "k"},
        {"condition": "abs(k, k, k) = 1"},
        {"condition": "k.x.y = 1"},
        linked(types={"key0": "nosuch<"}),
        linked(sent=[["key0"]]),
        linked(sent=[["k`)) --"], ["key0"]], types={"k`)) --": "string"}),
    ),
    ids=str,
)
def test_a_plan_that_cannot_be_used_is_told_in_a_sentence(spark, tmp_path, crafted):
    shards = shards_of((8, 8))[:1]
    write(Ledger(tmp_path, plan_of((8, 8)), "batch-1"), shards, range(BATCHES), last=BATCHES - 1)
    file = tmp_path / "test-batch-1" / "plan.json"
    facts = json.loads(file.read_text())
    del facts["checksum"]
    file.write_bytes(sealed(facts | crafted))
    with pytest.raises(ps.PenstockError, match=r"^plan\.json of the archive \S+/test-batch-1 cannot be used: \S") as told:
        ps.settle(tmp_path, spark=spark)
    assert len(str(told.value).splitlines()) == 1


def said(capsys: Any, *arguments: Any) -> tuple[int, str, str]:
    status = run(["settle", *map(str, arguments)])
    out = capsys.readouterr()
    return status, out.out, out.err


def _without_notes(err: str) -> str:
    """What was said, but for what took long."""
    return "".join(line for line in err.splitlines(keepends=True) if not line.startswith("note: "))


def test_the_command_settles_and_says_what(spark, tmp_path, capsys):
    shards: Sequence[Shard] = shards_of((8, 8))[:3]
    ledger = Ledger(tmp_path / "a", plan_of((8, 8)), "q1")
    write(ledger, shards, range(5))
    log = a_checkpoint(tmp_path / "c", 4)
    n = sum(owed(shards, range(4)).values())
    status, out, err = said(capsys, tmp_path / "a", "--checkpoint", log, "--debt")
    assert (status, _without_notes(err)) == (0, "") and f"{n:,} outputs are owed" in out
    status, out, err = said(capsys, tmp_path / "a", "--checkpoint", log, "--to", tmp_path / "to")
    assert (status, _without_notes(err)) == (0, "") and f"{n:,} outputs settled" in out and "batches 0 to 3" in out
    status, out, err = said(capsys, tmp_path / "a", "--checkpoint", log, "--to", tmp_path / "to")
    assert (status, _without_notes(err)) == (0, "") and "nothing to settle" in out
    write(ledger, shards, range(5, BATCHES))
    a_checkpoint(log, BATCHES)
    status, out, err = said(capsys, tmp_path / "a", "--checkpoint", log, "--to", tmp_path / "to", "--format", "json")
    facts = json.loads(out)
    assert status == 0 and facts["rows"] == sum(owed(shards, range(4, BATCHES)).values())
    assert (facts["name"], facts["query"], facts["first_batch"], facts["last_batch"]) == ("test", "q1", 4, BATCHES - 1)
    status, out, err = said(capsys, tmp_path / "a", "--checkpoint", log, "--debt", "--format", "json")
    assert json.loads(out)["debt"] == 0


def test_the_command_refuses_nonsense_in_one_line(tmp_path, capsys):
    for query in ("q1", "q2"):
        Ledger(tmp_path / "a", plan_of((8, 8)), query)
    refused = {
        "no such folder": (tmp_path / "nowhere", "--to", tmp_path / "to"),
        "one of the 2 ledgers": (tmp_path / "a", "--to", tmp_path / "to"),
        "--to DIR or --debt": (tmp_path / "a", "--query", "q1"),
        "no query has written there": (tmp_path / "a", "--checkpoint", tmp_path, "--debt"),
    }
    for text, arguments in refused.items():
        status, out, err = said(capsys, *arguments)
        assert (status, out) == (2, "") and text in err and err.count("\n") == 1
