"""`penstock plan`: a table for people, an object for programs, a picture; from files or from the ledger of a join."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.cli import run
from penstock.ledger.archived_rows import archived_trace
from penstock.ledger.epochs import enter
from penstock.ledger.ledger import Ledger
from shards import plan_of, played, write


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    random = Random(1)
    for name in ("orders", "clicks"):
        times = sorted(random.randrange(3_600_000_000) for _ in range(1500))
        table = {"ts": pa.array(times, pa.timestamp("us", "UTC")), "user": [min(int(random.paretovariate(0.7)), 500) for _ in times]}
        pq.write_table(pa.table(table), tmp_path / f"{name}.parquet")
    return [str(tmp_path / f"{name}.parquet") for name in ("orders", "clicks")]


def test_a_plan_for_files(files, tmp_path, capsys):
    picture = tmp_path / "plan.png"
    options = ["--time", "ts", "--key", "user", "--window", "5 minutes", "--recall", "0.8", "--policy", "prob,fifo"]
    assert run(["plan", *files, *options, "--plot", str(picture)]) == 0
    out = capsys.readouterr().out
    assert "rows of memory keep" in out and "later, prob" in out and '"orders": ps.stream(orders, time="ts", window="5 minutes")' in out
    assert "[join]" in out and picture.stat().st_size > 10_000
    assert run(["plan", *files, *options, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["policy"] == "prob" and found["kept"]["share"] >= 0.8 and found["answer"][0] in out
    trace = ps.simulate  # the figures are those of the simulator: tests/experiments/plan
    assert callable(trace) and len(found["points"]) > 10


def test_a_plan_for_the_rows_of_a_ledger(tmp_path, capsys):
    shards = [played(Random(number), number=number, disorder=6, memory=4, batches=6, rows=50) for number in range(3)]
    ledger = Ledger(tmp_path / "a", plan_of((8, 8)), "q1")
    assert enter(ledger, "first", 0, []) == 1
    write(ledger, shards, range(6))
    trace, windows = archived_trace(tmp_path / "a")
    rows = sum(len(part) for shard in shards for part in shard.arrived[:5]) if hasattr(shards[0], "arrived") else len(trace)
    assert len(trace) == rows and set(windows.values()) == {"8 microseconds"}
    assert run(["plan", "--archive", str(tmp_path / "a"), "--recall", "0.7", "--policy", "fifo"]) == 0
    said = capsys.readouterr()
    assert (
        "rows of memory keep" in said.out and 'window="8 microseconds"' in said.out and "put your column in the place of time" in said.err
    )


def test_the_windows_of_a_ledger_are_written_as_users_do(tmp_path):
    plan = plan_of((600_000_000, 8))
    shards = [played(Random(0), number=0, disorder=6, memory=4, batches=2, rows=50)]
    ledger = Ledger(tmp_path / "a", plan, "q1")
    assert enter(ledger, "first", 0, []) == 1
    write(ledger, shards, range(2))
    assert list(archived_trace(tmp_path / "a")[1].values()) == ["10 minutes", "8 microseconds"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "penstock plan needs a TRACE, or --archive FOLDER, got neither"),
        (["x.csv", "--archive", "y"], "got both"),
        (["x.csv"], "--window must say how long tuples wait for partners"),
        (["--archive", "y", "--key", "k"], "--key must be left out with --archive"),
        (["x.csv", "--window", "5", "--recall", "no"], "--recall"),
    ],
)
def test_what_is_wrong_is_said(options, said, capsys):
    assert run(["plan", *options]) == 2
    assert said in capsys.readouterr().err
