"""`penstock simulate` on what users have: a file or folder per stream, and several memories."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

import penstock as ps
from commands import simulated
from penstock.cli import run
from penstock.core.tables import read_table, write_table

JOIN = ("--window", "30", "--memory", "10")


def halves(trace: ps.Trace, folder: Path, names: dict[str, str], suffix: str = ".parquet") -> list[str]:
    """The streams of a trace as files, their rows shuffled, under other names of columns; and the paths."""
    paths = []
    for place, stream in enumerate(trace.streams):
        own = trace.table.filter(pa.array(trace.stream == place)).drop_columns("stream")
        own = own.append_column("mine", pa.array(range(len(own)))).append_column("stream", pa.array(["x"] * len(own)))
        order = list(range(len(own)))
        random.Random(place).shuffle(order)
        own = own.take(order).rename_columns([names.get(name, name) for name in own.column_names])
        path = folder / f"{stream}{suffix}"
        write_table(own, path)
        paths.append(str(path))
    return paths


@pytest.fixture
def trace() -> ps.Trace:
    """Distinct times in each stream, so that no order of rows is lost by shuffling."""
    return ps.generate(150, keys=8, importance="rare", seed=3)


@pytest.mark.parametrize("suffix", (".parquet", ".csv", ".jsonl"))
def test_a_file_per_stream_is_the_trace_that_they_make(capsys, tmp_path, trace, suffix):
    paths = halves(trace, tmp_path, {"time": "ts", "key": "zone", "importance": "fare"}, suffix)
    options = ["--time", "ts", "--key", "zone", "--importance", "fare", "--policy", "prob,dgl", *JOIN]
    outputs = tmp_path / "outputs.parquet"
    got = simulated(capsys, paths[0], *paths[1:], *options, "--outputs", str(outputs))
    for line in got:
        wanted = ps.simulate(trace, window=30, memory=10, policy=line["policy"], keep=ps.Keep(outputs=True))
        assert {name: line[name] for name in wanted.summary()} == wanted.summary()
    # Outputs have the rows of the files, by which the keys of their members are found.
    keys = [read_table(Path(path))["zone"].to_pylist() for path in paths]
    table = read_table(outputs).to_pylist()
    assert len(table) == sum(line["n_output"] for line in got) and all(keys[0][row["R"]] == keys[1][row["S"]] for row in table)


def test_columns_may_have_other_names_in_each_stream(capsys, tmp_path):
    (tmp_path / "up.csv").write_text("at,zone,part,noise\n7,a,1,\n2,b,1,z\n5,b,2,z\n")
    (tmp_path / "off.csv").write_text("part,place,noise,ts\n1,b,9,2\n2,b,9,3\n1,a,9,8\n")
    paths = [str(tmp_path / "up.csv"), str(tmp_path / "off.csv")]
    options = ["--time", "up=at,off=ts", "--window", "5", "--memory", "9"]
    (got,) = simulated(capsys, *paths, *options, "--key", "up=zone,off=place")
    assert (got["n_input"], got["n_output"], got["recall"]) == (6, 5, 1)
    (got,) = simulated(capsys, *paths, *options, "--key", "up=zone,up=part,off=place,off=part")
    assert got["n_output"] == 3
    (got,) = simulated(capsys, *paths, *options, "--predicate", "up.zone = off.place, up.part < off.part")
    assert got["n_output"] == 1


def test_a_folder_is_all_of_its_files_whatever_their_order(capsys, tmp_path, trace):
    one, *rest = halves(trace, tmp_path, {})
    (tmp_path / "R" / "day=1").mkdir(parents=True)
    table = pyarrow.parquet.read_table(one)
    pyarrow.parquet.write_table(table.slice(50), tmp_path / "R" / "part-0.parquet")
    wide = table.slice(0, 50)
    wide = wide.set_column(wide.column_names.index("key"), "key", wide["key"].cast(pa.int16()))
    pyarrow.parquet.write_table(wide, tmp_path / "R" / "day=1" / "part-1.parquet")
    (tmp_path / "R" / "_SUCCESS").write_text("")
    (tmp_path / "R" / "_temporary.parquet").write_text("no table")
    (got,) = simulated(capsys, tmp_path / "R", *rest, *JOIN)
    assert got["n_output"] == ps.simulate(ps.Trace(trace.table.drop_columns("importance")), window=30, memory=10).n_output


def test_rows_of_one_time_go_by_stream_and_place(capsys, tmp_path):
    """As on Spark: the streams in their order, and what ties in one as it comes."""
    pyarrow.parquet.write_table(pa.table({"time": [5, 5, 1], "key": [1, 2, 3]}), tmp_path / "b.parquet")
    pyarrow.parquet.write_table(pa.table({"time": [5, 1], "key": [3, 4]}), tmp_path / "a.parquet")
    log = tmp_path / "log.jsonl"
    simulated(capsys, tmp_path / "b.parquet", str(tmp_path / "a.parquet"), *JOIN, "--policy", "fifo", "--memory-log", str(log))
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert lines == [{"policy": "fifo", "time": 1, "b": [2], "a": [1]}, {"policy": "fifo", "time": 5, "b": [0, 1, 2], "a": [0, 1]}]


def test_times_of_any_unit_and_rows_without_one(capsys, tmp_path):
    up = pa.table({"ts": pa.array([3_000, None, 1_000], pa.timestamp("ms")), "key": pa.array([1, 1, 2], pa.int16())})
    off = pa.table({"ts": pa.array([2 * 10**9, 4 * 10**9], pa.timestamp("ns")), "key": pa.array([1, 1], pa.int64())})
    pyarrow.parquet.write_table(up, tmp_path / "up.parquet")
    pyarrow.parquet.write_table(off, tmp_path / "off.parquet")
    paths = [str(tmp_path / "up.parquet"), str(tmp_path / "off.parquet")]
    assert run(["simulate", *paths, "--time", "ts", "--window", "10 seconds", "--memory", "9", "--format", "json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == "note: rows of up without a time are left out, as on Spark: 1\n"
    assert json.loads(captured.out)[0]["n_output"] == 2


REFUSED: dict[str, tuple[list[str], str]] = {
    "a column that is not there": (["--key", "place"], "must have the columns time, place; place missing, it has: "),
    "a column of one stream": (["--key", "R=key"], "--key must name as many columns for each of the streams R, S, got 'R=key'"),
    "a column of no stream": (["--key", "T=key"], "--key must name columns, or columns by stream (R, S), got 'T=key'"),
    "two times": (["--time", "time,key"], "--time must name one column for each of the streams R, S, got 'time,key'"),
    "a text as time": (["--time", "stream"], "must be of an integer or timestamp type, got 'stream' of type string"),
    "too few names": (["--streams", "A"], "--streams must name each of the 2 files, got A"),
    "one name twice": (["--streams", "A,A"], "streams must have different names, got A more than once"),
    "a key beside links": (["--key", "key", "--predicate", "R.key = S.key"], "--key must be left out where links name the columns"),
    "outputs of several memories": (["--memory", "20,30", "--outputs", "o.csv"], "--outputs is about one memory, got 3: 10, 20, 30"),
    "a memory twice": (["--memory", "20,20"], "--memory must give each memory once, got '20' more than once"),
    "half a list": (["--memory", "20,"], "--memory must be one or more values with commas between them, got '20,'"),
    "rows and bytes in a picture": (["--size", "mine", "--memory", "1KB", "--plot", "p.svg"], "by rows or by bytes, got rows and bytes"),
    "a picture without recall": (["--memory", "5", "--no-exact", "--plot", "p.svg"], "shows recall by rows or by bytes, got --no-exact"),
}


@pytest.mark.parametrize(("options", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_read_or_meant_is_refused(capsys, tmp_path, monkeypatch, trace, options, said):
    monkeypatch.chdir(tmp_path)
    paths = halves(trace, tmp_path, {})
    table = pyarrow.parquet.read_table(paths[0])
    pyarrow.parquet.write_table(table.set_column(table.column_names.index("mine"), "mine", pa.array([9] * len(table))), paths[0])
    pyarrow.parquet.write_table(table.set_column(table.column_names.index("mine"), "mine", pa.array([9] * len(table))), paths[1])
    assert run(["simulate", *paths, *JOIN, *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and said in captured.err and captured.err.splitlines()[-1].startswith("penstock: "), captured.err


def test_types_that_do_not_compare_and_empty_folders_are_refused(capsys, tmp_path):
    (tmp_path / "up.csv").write_text("time,key\n1,a\n")
    (tmp_path / "off.csv").write_text("time,key\n1,2023-01-01\n")
    paths = [str(tmp_path / "up.csv"), str(tmp_path / "off.csv")]
    assert run(["simulate", *paths, *JOIN]) == 2
    assert "key must have one type in all streams, got string in up, date32[day] in off" in capsys.readouterr().err
    (tmp_path / "none").mkdir()
    assert run(["simulate", paths[0], str(tmp_path / "none"), *JOIN]) == 2
    assert "must have files that end in .parquet, .csv, .jsonl, .json, got none" in capsys.readouterr().err
    assert run(["simulate", paths[0], *JOIN, "--time", "ts"]) == 2
    assert "--time names a column of streams that have a file each, got 'ts' with one file" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------------ several memories


def test_several_memories_are_several_runs_beside_the_optimum(capsys, trace_file):
    got = simulated(capsys, trace_file, "--window", "30", "--memory", "5,20", "--memory", "R=3,S=9", "--policy", "prob,fifo")
    assert [(line["memory"], line["policy"]) for line in got] == [(m, p) for m in (5, 20, "R=3,S=9") for p in ("opt", "prob", "fifo")]
    trace = ps.read_trace(trace_file)
    whole = ps.exact(trace, window=30)
    for line in got:
        wanted = ps.simulate(trace, window=30, memory=line["memory"], policy=line["policy"])
        assert {name: line[name] for name in wanted.summary()} == wanted.summary()
        assert (line["recall"], line["value_recall"]) == (wanted.n_output / whole.n_output, wanted.value / whole.value)


def test_the_table_has_a_line_per_memory_and_a_column_per_policy(capsys, tmp_path):
    file = tmp_path / "trace.parquet"
    trace = ps.generate(150, keys=8, seed=3)
    trace.write(file)
    assert run(["simulate", str(file), "--window", "30", "--memory", "5,2000", "--policy", "prob,fifo"]) == 0
    said = capsys.readouterr().out
    whole = ps.exact(trace, window=30)
    small = {policy: ps.simulate(trace, window=30, memory=5, policy=policy).n_output / whole.n_output for policy in ("opt", "prob", "fifo")}
    lines = [line.split() for line in said.splitlines()]
    assert ["memory", "opt", "prob", "fifo"] in lines
    assert ["5", *(word for policy in ("opt", "prob", "fifo") for word in (f"{100 * small[policy]:.1f}", "%"))] in lines
    assert ["2,000", *(["100.0", "%"] * 3)] in lines
    assert f"{whole.n_output:,} outputs, for which it holds up to {whole.peak_memory:,} rows" in said


def test_an_optimum_out_of_reach_is_left_out_with_a_note(capsys, tmp_path):
    file = tmp_path / "trace.parquet"
    ps.generate(60, streams=("R", "S", "T"), keys=3, seed=1).write(file)
    assert run(["simulate", str(file), "--window", "16", "--memory", "8,16", "--format", "json"]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("note: the optimum is left out: policy 'opt' has no schedule") and captured.err.count("\n") == 1
    assert [line["policy"] for line in json.loads(captured.out)] == ["learned", "learned"]


def test_a_curve_per_policy_is_drawn(capsys, tmp_path, trace_file):
    picture = tmp_path / "sizes.svg"
    simulated(capsys, trace_file, "--window", "30", "--memory", "5,20,40", "--policy", "prob,fifo", "--plot", str(picture))
    text = picture.read_text()
    assert all(word in text for word in ("memory (rows)", "share of the exact value", ">opt<", ">prob<", ">fifo<", "holds up to"))


def test_shards_on_the_command_line(capsys, trace_file):
    trace = ps.read_trace(trace_file)
    (got,) = simulated(capsys, trace_file, "--window", "30", "--memory", "12", "--shards", "3", "--batch", "40")
    wanted = ps.simulate(trace, window=30, memory=12, shards=3, batch=40)
    assert {name: got[name] for name in wanted.summary()} == wanted.summary()
    sizes = simulated(capsys, trace_file, "--window", "30", "--memory", "12,30", "--shards", "3")
    assert [line["n_output"] for line in sizes if line["policy"] == "learned"] == [
        ps.simulate(trace, window=30, memory=memory, shards=3).n_output for memory in (12, 30)
    ]
    best = [line["n_output"] for line in sizes if line["policy"] == "opt"]
    assert best == [ps.simulate(trace, window=30, memory=memory, policy="opt").n_output for memory in (12, 30)]
    assert run(["simulate", str(trace_file), "--window", "30", "--memory", "12", "--shards", "3"]) == 0
    assert "in a memory of 12 rows, in 3 shards" in capsys.readouterr().out
    assert run(["simulate", str(trace_file), "--window", "30", "--memory", "12", "--shards", "none"]) == 2
    assert "--shards must be a whole number >= 1, got 'none'" in capsys.readouterr().err
