"""What `penstock simulate` writes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

import penstock as ps
from commands import simulated


def rows_of(path: Path) -> list[dict[str, object]]:
    if path.suffix == ".parquet":
        return pyarrow.parquet.read_table(path).to_pylist()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    with path.open() as file:
        return [
            {
                name: text if name == "policy" else [int(n) for n in text.split()] if name == "rows" else int(text)
                for name, text in row.items()
            }
            for row in csv.DictReader(file)
        ]


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_outputs_and_memory_log_are_those_of_the_run(capsys, tmp_path, trace_file, suffix):
    outputs, log = tmp_path / f"outputs{suffix}", tmp_path / f"memory{suffix}"
    options = [
        "--window",
        "30",
        "--memory",
        "10",
        "--policy",
        "prob,fifo",
        "--outputs",
        str(outputs),
        "--memory-log",
        str(log),
    ]
    simulated(capsys, trace_file, *options)
    trace = ps.read_trace(trace_file)
    expected_outputs, expected_log = [], []
    for policy in ("prob", "fifo"):
        played = ps.simulate(trace, window=30, memory=10, policy=policy, keep=ps.Keep(outputs=True, retained=True, series=True))
        expected_outputs += [{"policy": policy, "time": t, "R": r, "S": s} for t, r, s in played.outputs.tolist()]
        expected_log += [{"policy": policy, "time": t, "rows": rows.tolist()} for t, rows in played.memory_log]
    assert rows_of(outputs) == expected_outputs
    assert rows_of(log) == expected_log
    assert sorted(path.name for path in tmp_path.iterdir()) == [log.name, outputs.name]


def test_outputs_name_their_members(capsys, tmp_path):
    file, outputs = tmp_path / "trace.csv", tmp_path / "outputs.csv"
    file.write_text("stream,time,key\ntime,0,a\npolicy,3,a\n")
    simulated(capsys, file, "--window", "5", "--memory", "2", "--outputs", str(outputs))
    assert outputs.read_text().replace('"', "").splitlines() == ["policy,time,row_time,row_policy", "learned,3,0,1"]


def test_outputs_of_timestamps_are_timestamps(capsys, tmp_path):
    file, outputs = tmp_path / "trace.parquet", tmp_path / "outputs.parquet"
    times = pa.array([0, 2_000_000], pa.timestamp("us", tz="UTC"))
    pyarrow.parquet.write_table(pa.table({"stream": ["R", "S"], "time": times, "key": [1, 1]}), file)
    simulated(capsys, file, "--window", "3 seconds", "--memory", "2", "--outputs", str(outputs))
    table = pyarrow.parquet.read_table(outputs)
    assert table["time"].type == times.type
    assert table["time"][0] == times[1]


def test_no_outputs_is_a_table_with_columns_and_no_rows(capsys, tmp_path):
    file, outputs, log = tmp_path / "trace.csv", tmp_path / "outputs.parquet", tmp_path / "log.parquet"
    file.write_text("stream,time,key\nR,0,a\nS,3,b\n")
    simulated(capsys, file, "--window", "5", "--memory", "2", "--outputs", str(outputs), "--memory-log", str(log))
    assert pyarrow.parquet.read_table(outputs).column_names == ["policy", "time", "R", "S"]
    assert len(pyarrow.parquet.read_table(outputs)) == 0
    assert len(pyarrow.parquet.read_table(log)) == 2


def test_an_earlier_file_is_replaced(capsys, tmp_path, trace_file):
    outputs = tmp_path / "outputs.csv"
    outputs.write_text("old")
    simulated(capsys, trace_file, "--window", "30", "--memory", "10", "--outputs", str(outputs))
    assert outputs.read_text().startswith('"policy","time"')


@pytest.mark.parametrize("suffix", [".png", ".svg", ".html"])
def test_plot_draws_the_memory(capsys, tmp_path, trace_file, suffix):
    picture = tmp_path / f"memory{suffix}"
    simulated(capsys, trace_file, "--window", "30", "--memory", "10", "--policy", "prob,fifo", "--plot", str(picture))
    assert picture.stat().st_size > 5_000
