"""What `--shards` promises: the simulator plays what the join on Spark plays, row by row, and its recall is the query's to the digit."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import pytest

import penstock as ps
from penstock.shard.shares.next_shares import EQUAL

pytest.importorskip("pyspark")
from pyspark.sql import DataFrame, SparkSession

from commands import simulated
from sparks import ON_SPARK, ran
from strategies import EVERYTHING, later

pytestmark = ON_SPARK

DATA = Path(os.environ.get("PENSTOCK_DATA", "no data")) / "nyc_green_taxi" / "green_tripdata_2023-01.parquet"
SECOND = 1_000_000


def joined(frames: dict[str, DataFrame], *, window: str, **options: Any) -> DataFrame:
    """The join on Spark of frames with time, key, n and perhaps importance; rows of one time in the order of n."""
    weighed = "importance" if "importance" in next(iter(frames.values())).columns else None
    streams = {name: ps.stream(frame, time="time", window=window, importance=weighed, order="n") for name, frame in frames.items()}
    return ps.join(streams, on="key", ahead=None, **options)


def in_files(spark: SparkSession, folder: Path, table: pa.Table, length: int) -> dict[str, DataFrame]:
    """The streams of a table, that bring a stretch of time of this length in each batch."""
    stretch, frames = np.asarray(table["time"].cast(pa.int64())) // length, {}
    for stream in sorted(pc.unique(table["stream"]).to_pylist()):
        (folder / stream).mkdir()
        for number in range(stretch.max() + 1):
            file = folder / stream / f"{number}.parquet"
            chosen = pc.and_(pc.equal(table["stream"], stream), pa.array(stretch == number))
            pyarrow.parquet.write_table(table.filter(chosen).drop_columns("stream"), file)
            os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))  # files are read in the order of their times
        schema = spark.read.parquet(str(folder / stream)).schema
        frames[stream] = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / stream))
    return frames


def arrivals(kind: pa.DataType, weighed: bool) -> pa.Table:
    """Three rows a second or none, for 400 seconds; a few keys of a type come most of the time."""
    random = Random(str(kind))
    short = pa.types.is_integer(kind) or pa.types.is_floating(kind)  # a trace refuses numbers that floating point cannot tell apart
    names = [f"{'' if short else '1' * number}{number}" for number in range(30)]
    rows = [(stream, at) for at in range(400) if at == 0 or random.random() < 0.7 for stream in sorted(random.choices("lr", k=3))]
    columns = {
        "stream": pa.array([stream for stream, _ in rows]),
        "time": pa.array([at * SECOND for _, at in rows], pa.timestamp("us", tz="UTC")),
        "key": pa.array([random.choice(names[: random.choice((3, 30))]) for _ in rows]).cast(kind),
        "n": pa.array(range(len(rows))),
    }
    return pa.table(columns | ({"importance": pa.array([random.choice((1.0, 2.0, 4.0)) for _ in rows])} if weighed else {}))


# A few, since each is a query of several batches: every type of key has a policy that decides otherwise.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "kind", "shards"),
    (("prob", pa.string(), 3), later("dgl", pa.int16(), 2), later("life", pa.float64(), 5), later("rand", pa.decimal128(38, 0), 2)),
)
def test_a_stream_in_batches_is_what_shards_play(spark, tmp_path, policy, kind, shards):
    table = arrivals(kind, policy == "dgl")
    options: dict[str, Any] = {"window": "40 seconds", "memory": 20, "policy": policy, "shards": shards}
    out, seen = ran(joined(in_files(spark, tmp_path, table, 100 * SECOND), **options), tmp_path)
    trace = ps.Trace(table, streams=("l", "r"))
    run = ps.simulate(trace, batch="100 seconds", keep=EVERYTHING, shared=False, **options)
    assert Counter((row["l_n"], row["r_n"]) for row in out.collect()) == Counter(map(tuple, run.outputs[:, 1:].tolist()))
    total = seen[-1]
    assert len(seen) == 4 and run.n_shed > 0
    assert [total[f"total_{name}"] for name in ("n_shed", "n_expired", "n_late")] == [run.n_shed, run.n_expired, run.n_late]
    assert total["total_recall"] == run.n_output / ps.exact(trace, window="40 seconds").n_output


# Two runs: a restart goes on with the shares that were in effect.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "place", "shards"),
    (("prob", "archive", 3), later("fifo", "shared", 4), later("learned", "archive", 2), later("rand", "shared", 3)),
)
def test_shares_move_on_spark_as_they_do_in_the_simulator(spark, tmp_path, policy, place, shards):
    table = arrivals(pa.string(), False)
    options: dict[str, Any] = {"window": "40 seconds", "memory": 30, "policy": policy, "shards": shards}
    frames = in_files(spark, tmp_path, table, 25 * SECOND)
    late = [sorted((tmp_path / stream).iterdir(), key=lambda path: path.stat().st_mtime)[9:] for stream in "lr"]
    for path in (path for one in late for path in one):
        path.rename(path.with_name(f"_{path.name}"))  # hidden until the restart
    made = joined(frames, **options, **{place: str(tmp_path / "ours")})
    _, before = ran(made, tmp_path)
    for path in (path for one in late for path in one):
        path.with_name(f"_{path.name}").rename(path)
    out, after = ran(made, tmp_path)
    trace = ps.Trace(table, streams=("l", "r"))
    run = ps.simulate(trace, batch="25 seconds", keep=EVERYTHING, **options)
    got = Counter((row["l_n"], row["r_n"]) for row in out.collect())
    assert (len(before), len(after)) == (9, 7)
    assert got == Counter(map(tuple, run.outputs[:, 1:].tolist()))
    assert [after[-1][f"total_{name}"] for name in ("n_shed", "n_expired")] == [run.n_shed, run.n_expired]
    assert max(batch["retained_rows"] for batch in [*before, *after]) <= 30
    summaries = list((tmp_path / "ours").glob("*/shares/batch-000000015-*.json"))
    shares = [json.loads(path.read_text(encoding="utf-8"))["share"][0] for path in summaries]
    assert len(shares) == shards and len(set(shares)) > 1 and sum(shares) <= shards * EQUAL
    if place == "archive":
        owed = ps.settle(str(tmp_path / "ours"), checkpoint=str(tmp_path / "checkpoint"), spark=spark)
        whole = ps.exact(trace, window="40 seconds", keep=EVERYTHING)
        assert got + Counter((row["l_n"], row["r_n"]) for row in owed.collect()) == Counter(map(tuple, whole.outputs[:, 1:].tolist()))


def test_whether_shares_move_is_told_beforehand_and_bad_folders_are_refused(spark, tmp_path):
    frames = in_files(spark, tmp_path, arrivals(pa.string(), False), 200 * SECOND)

    def shares(streaming: bool = True, **options: Any) -> str:
        chosen = frames if streaming else {name: spark.read.parquet(str(tmp_path / name)) for name in frames}
        streams = {name: ps.stream(frame, time="time", window="40 seconds") for name, frame in chosen.items()}
        told = ps.explain(streams, on="key", memory=30, **{"shards": 2} | options)
        return next(line for line in told.splitlines() if line.startswith("shares"))

    archive, other = str(tmp_path / "archive"), str(tmp_path / "other")
    assert "by summaries in " + archive in shares(archive=archive) and other in shares(archive=archive, shared=other)
    assert "neither an archive nor a folder" in shares() and "equal, whatever" in shares(archive=archive, shared=False)
    assert "one shard has all" in shares(shards=1, shared=other) and "batch query" in shares(streaming=False, archive=archive)
    for options, said in (
        ({"shared": True}, "shared must be a folder or URL .* got True"),
        ({"shared": "a*b"}, "shared must be a folder or URL"),
        ({"shared": other, "streaming": False}, "shared must be left out of a batch query"),
        ({"shared": str(tmp_path / "l")}, "shared"),
    ):
        with pytest.raises(ps.PenstockError, match=said):
            shares(**options)


def taxis() -> pa.Table:
    """Drop-offs and pickups of January by zone, as one table in the order of time."""
    trips = pyarrow.parquet.read_table(DATA)
    parts = []
    for stream, when, where in (("dropoff", "lpep_dropoff_datetime", "DOLocationID"), ("pickup", "lpep_pickup_datetime", "PULocationID")):
        time = trips[when].cast(pa.timestamp("us"))
        part = pa.table({"stream": pa.array([stream] * len(trips)), "time": time, "key": trips[where]})
        parts.append(part.filter(pc.and_(pc.equal(pc.year(time), 2023), pc.equal(pc.month(time), 1))))
    table = pa.concat_tables(parts).sort_by([("time", "ascending"), ("stream", "ascending")])
    return table.append_column("n", pa.array(range(len(table))))


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_file(), reason="PENSTOCK_DATA names no folder with nyc_green_taxi")
@pytest.mark.parametrize("policy", ("prob", "life", "fifo"))  # a month of trips, twice each
def test_on_taxi_data_the_command_line_says_the_recall_of_the_query(spark, tmp_path, capsys, policy):
    """A batch query, which is one batch; and a stream that brings ten days at a time."""
    table, file = taxis(), tmp_path / "trace.parquet"
    pyarrow.parquet.write_table(table, file)
    told = ["--window", "30 minutes", "--memory", "60", "--policy", policy, "--shards", "2", "--streams", "dropoff,pickup"]
    options: dict[str, Any] = {"window": "30 minutes", "memory": 60, "policy": policy, "shards": 2}
    plain = spark.read.parquet(str(file))
    made = joined({name: plain.where(plain.stream == name).drop("stream") for name in ("dropoff", "pickup")}, **options).count()
    (got,) = simulated(capsys, file, *told)
    exact = ps.exact(ps.read_trace(file), window="30 minutes").n_output
    assert got["n_output"] == made and got["recall"] == made / exact and 0.2 < got["recall"] < 0.98
    begin = int(table["time"].cast(pa.int64())[0].as_py())
    ten_days = 10 * 86_400 * SECOND
    shifted = pc.subtract(table["time"].cast(pa.int64()), begin).cast(pa.timestamp("us"))
    frames = in_files(spark, tmp_path, table.set_column(1, "time", shifted), ten_days)
    _, seen = ran(joined(frames, **options), tmp_path)
    (got,) = simulated(capsys, file, *told, "--batch", "10 days")
    assert (seen[-1]["total_n_output"], seen[-1]["total_recall"]) == (got["n_output"], got["recall"])
