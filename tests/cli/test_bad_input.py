"""Bad input: one clear line that names what is wrong and what was received, exit status 2, and nothing is written."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from penstock.cli import run

STREAM = ["R", "S", "R", "S"]
GOOD: dict[str, Any] = {"stream": STREAM, "time": [0, 0, 1, 1], "key": [1, 2, 2, 1]}
OUTPUTS = ("--outputs", "outputs.csv", "--memory-log", "log.csv", "--plot", "memory.svg")


def parquet(**columns: Any) -> Callable[[Path], Path]:
    """A trace file with some columns replaced; None leaves one out."""

    def make(folder: Path) -> Path:
        kept = {name: column for name, column in (GOOD | columns).items() if column is not None}
        pyarrow.parquet.write_table(pa.table(kept), folder / "trace.parquet")
        return folder / "trace.parquet"

    return make


def text(name: str, content: str | bytes) -> Callable[[Path], Path]:
    """A file with this content."""

    def make(folder: Path) -> Path:
        data = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(data)
        return folder / name

    return make


def refused(capsys: pytest.CaptureFixture[str], folder: Path, arguments: list[str]) -> str:
    """Run a command that must be refused, in `folder`; what it said."""
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    status = run(arguments)
    captured = capsys.readouterr()
    assert status == 2, captured
    assert captured.out == ""
    assert captured.err.startswith("penstock: ")
    assert captured.err.count("\n") == 1, captured.err
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    return captured.err


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


TRACES = {
    "no column key": (parquet(key=None), ["stream, time, key", "key missing", "it has: stream, time"]),
    "no columns at all": (text("t.csv", "hello\n1\n"), ["stream, time, key missing", "hello"]),
    "time of a wrong type": (parquet(time=[0.0, 0.5, 1.0, 1.0]), ["'time'", "integer or timestamp", "double"]),
    "time in words": (parquet(time=["a", "b", "c", "d"]), ["'time'", "string"]),
    "null time": (parquet(time=[0, None, 1, 1]), ["'time'", "null", "row 1"]),
    "stream of a wrong type": (parquet(stream=[1.0, 2.0, 1.0, 2.0]), ["'stream'", "double"]),
    "null stream": (parquet(stream=["R", None, "S", "R"]), ["'stream'", "null"]),
    "importance of a wrong type": (parquet(importance=list("abcd")), ["'importance'", "numeric", "string"]),
    "importance NaN": (parquet(importance=[1.0, float("nan"), 1.0, 1.0]), ["'importance'", "positive", "nan", "row 1"]),
    "importance zero": (parquet(importance=[1.0, 1.0, 0.0, 1.0]), ["'importance'", "positive", "0.0", "row 2"]),
    "importance negative": (parquet(importance=[1, 1, 1, -4]), ["'importance'", "positive", "-4", "row 3"]),
    "importance null": (parquet(importance=[1.0, None, 1.0, 1.0]), ["'importance'", "None", "row 1"]),
    "importance beyond products": (parquet(importance=[1e200, 1.0, 1.0, 1.0]), ["'importance'", "1e+150", "row 0"]),
    "importance infinite": (parquet(importance=[float("inf"), 1.0, 1.0, 1.0]), ["'importance'", "inf", "row 0"]),
    "lifetime zero": (parquet(lifetime=[1, 0, 1, 1]), ["'lifetime'", "at least 1", "row 1"]),
    "empty trace": (
        parquet(stream=pa.array([], pa.string()), time=pa.array([], pa.int64()), key=pa.array([])),
        ["empty"],
    ),
    "empty trace as CSV": (text("t.csv", "stream,time,key\n"), ["empty"]),
    "one stream only": (parquet(stream=["R"] * 4), ["at least two streams", "only R"]),
    "a folder": (lambda folder: (folder / "t.csv").mkdir() or folder / "t.csv", ["t.csv", "folder"]),
    "empty file": (text("t.csv", ""), ["t.csv", "csv table"]),
    "not a Parquet file": (text("t.parquet", "hello"), ["t.parquet", "parquet table"]),
    "not JSON Lines": (text("t.jsonl", "{oops\n"), ["t.jsonl", "jsonl table"]),
    "ragged CSV": (text("t.csv", "stream,time,key\nR,0\nS,1,2,3\n"), ["t.csv", "csv table"]),
    "binary noise": (text("t.parquet", bytes(range(256)) * 9), ["t.parquet", "parquet table"]),
    "another kind of file": (text("t.xlsx", "x"), [".parquet, .csv, .jsonl", "t.xlsx"]),
    "nested key": (parquet(key=[[1], [2], [2], [1]]), ["'key'", "nested"]),
    "nested column": (parquet(extra=[{"a": 1}] * 4), ["'extra'", "nested", "struct"]),
    "nested JSON": (text("t.jsonl", '{"stream": "R", "time": 0, "key": [1]}\n'), ["'key'", "nested"]),
    "huge time": (parquet(time=[0, 0, 1, 1 << 62]), ["'time'", "2**60", str(1 << 62), "row 3"]),
    "huge unsigned time": (parquet(time=pa.array([0, 0, 1, 1 << 63], pa.uint64())), ["'time'", "2**60", str(1 << 63)]),
    "huge time in CSV": (text("t.csv", f"stream,time,key\nR,0,1\nS,{10**30},1\n"), ["'time'"]),
    "huge lifetime": (parquet(lifetime=[1, 1, 1, 1 << 62]), ["'lifetime'", str(1 << 62)]),
}


@pytest.mark.parametrize(("make", "said"), TRACES.values(), ids=TRACES)
def test_a_bad_trace(capsys, folder, make, said):
    message = refused(capsys, folder, ["simulate", str(make(folder)), "--window", "5", "--memory", "2", *OUTPUTS])
    assert [part for part in said if part not in message] == []


OPTIONS = {
    "unknown policy": ("--policy porb", ["policy", "'porb'", "did you mean 'prob'"]),
    "second policy unknown": ("--policy prob,dimprob", ["'dimprob'", "did you mean 'dimpprob'"]),
    "policy with brackets": ("--policy [bold]prob[/bold]", ["[bold]prob[/bold]"]),
    "a policy twice": ("--policy prob,fifo,prob", ["--policy", "once", "'prob,fifo,prob'"]),
    "no policy": ("--policy ,", ["--policy", "','"]),
    "second policy not defined": ("--policy prob,dgl --window none", ["'dgl'", "window", "'none'"]),
    "window zero": ("--window 0", ["window", "positive", "'0'"]),
    "window negative": ("--window -7", ["window", "positive", "'-7'"]),
    "window not a number": ("--window soon", ["window", "'soon'"]),
    "window NaN": ("--window nan", ["window", "'nan'"]),
    "window a fraction": ("--window 1.5", ["window", "'1.5'"]),
    "window of one stream": ("--window R=5", ["window", "R, S", "got R"]),
    "window of another stream": ("--window R=5,Q=5", ["window", "R, S", "Q"]),
    "window of a stream zero": ("--window R=5,S=0", ["window of S", "'0'"]),
    "window of rows zero": ("--window rows:0", ["window must count rows in a whole number from 1", "'rows:0'"]),
    "window huge": (f"--window {10**30}", ["window", str(10**30)]),
    "window from a huge time on": (f"--window 0:5,{10**30}:4", ["window", str(10**30)]),
    "memory zero": ("--memory 0", ["memory", "positive", "'0'"]),
    "memory negative": ("--memory -3", ["memory", "positive", "'-3'"]),
    "memory not a number": ("--memory lots", ["memory", "'lots'"]),
    "memory a fraction": ("--memory 1.5", ["memory", "'1.5'"]),
    "memory of one stream": ("--memory R=5", ["memory", "R, S", "got R"]),
    "memory of a stream zero": ("--memory R=5,S=0", ["memory of S", "'0'"]),
    "memory too small to divide": ("--memory 1 --allocation fixed", ["memory", "at least 2", "got 1"]),
    "memory in bytes without sizes": ("--memory 10KB", ["memory", "'size'"]),
    "memory huge": (f"--memory {10**30}", ["memory", str(10**30)]),
    "memory from a huge time on": (f"--memory 0:5,{10**30}:4", ["memory", str(10**30)]),
    "unknown allocation": ("--allocation fixd", ["allocation", "'fixd'", "did you mean 'fixed'"]),
    "unknown stats": ("--stats hole", ["stats", "'hole'", "did you mean 'whole'"]),
    "given without rates": ("--stats given", ["--rates", "--stats given"]),
    "rates without given": ("--rates rates.csv", ["--rates", "--stats given"]),
    "no such rates": ("--stats given --rates none.csv", ["none.csv"]),
    "unknown objective": ("--objective mni", ["objective", "'mni'", "did you mean 'min'"]),
    "start not a number": ("--start noon", ["--start", "'noon'"]),
    "start huge": (f"--start {10**400}", ["--start", "2**60"]),
    "seed negative": ("--seed -1", ["--seed", "'-1'"]),
    "seed not a number": ("--seed x", ["--seed", "'x'"]),
    "alpha zero": ("--alpha 0", ["alpha", "positive", "0.0"]),
    "alpha NaN": ("--alpha nan", ["alpha", "positive", "nan"]),
    "beta negative": ("--beta -1", ["beta", "-1.0"]),
    "half-life not a number": ("--half-life long", ["--half-life", "'long'"]),
    "half-life missing": ("--policy prob --stats decayed --window none", ["half_life"]),
    "two weights": ("--weights 1,2", ["weights", "three"]),
    "weights not numbers": ("--weights 1,2,x", ["--weights", "'x'"]),
    "unknown model": ("--model inplce", ["model", "'inplce'", "did you mean 'inplace'"]),
    "unknown clock": ("--clock stream", ["clock", "'stream'", "did you mean 'streams'"]),
    "lateness negative": ("--lateness -1", ["lateness", "-1"]),
    "lateness not a number": ("--lateness x", ["lateness", "'x'"]),
    "half-life too short": ("--stats decayed --half-life 1e-320", ["half_life", "half a tick", "1e-320"]),
    "lateness without the clock that asks for it": ("--lateness 3", ["--lateness 3", "--clock streams"]),
    "lateness of one stream": ("--lateness R=1", ["lateness", "R, S"]),
    "unknown predicate": ("--predicate ~", ["predicate", "'~'"]),
    "epsilon negative": ("--predicate eps:-1", ["eps", "'eps:-1'"]),
    "unknown switch": ("--set nm=memory", ["switch", "'nm'"]),
    "unknown value of a switch": ("--set mn=memry", ["switch mn", "'memry'", "did you mean 'memory'"]),
    "switch without a value": ("--set mn", ["--set", "'mn'"]),
    "missing key column": ("--key a,b", ["a, b missing"]),
    "too few streams named": ("--streams R", ["streams", "['R']"]),
    "a stream named twice": ("--streams R,S,S", ["streams", "['R', 'S', 'S']"]),
    "unknown format": ("--format yaml", ["--format", "'yaml'"]),
    "unknown option": ("--widnow 5", ["--widnow"]),
    "extra argument": ("--seed 1 2", ["must end in .parquet", "'2'"]),
    "outputs of another kind": ("--outputs out.txt", ["--outputs", "'out.txt'"]),
    "outputs nowhere": ("--outputs nowhere/out.csv", ["--outputs", "'nowhere/out.csv'"]),
    "outputs over the trace": ("--outputs trace.parquet", ["TRACE and --outputs", "'trace.parquet'"]),
    "one file for two": ("--outputs log.csv", ["--outputs and --memory-log", "'log.csv'"]),
    "plot of another kind": ("--plot picture.gif", ["--plot", "'picture.gif'"]),
    "plot a folder": ("--plot pictures.png", ["--plot", "folder 'pictures.png'"]),
}


@pytest.mark.wide
@pytest.mark.parametrize(("options", "said"), OPTIONS.values(), ids=OPTIONS)
def test_a_bad_option(capsys, folder, options, said):
    parquet()(folder)
    (folder / "pictures.png").mkdir()
    base = {"--window": "5", "--memory": "2"} | dict(zip(OUTPUTS[::2], OUTPUTS[1::2], strict=True))
    given = options.split()
    arguments = [part for name, value in base.items() if name not in given for part in (name, value)]
    message = refused(capsys, folder, ["simulate", "trace.parquet", *arguments, *given])
    assert [part for part in said if part not in message] == []


@pytest.mark.parametrize("missing", ["--window", "--memory", "TRACE"])
def test_what_must_be_given(capsys, folder, missing):
    parts = {"TRACE": [str(parquet()(folder))], "--window": ["--window", "5"], "--memory": ["--memory", "2"]}
    del parts[missing]
    assert f"'{missing}'" in refused(capsys, folder, ["simulate", *(word for part in parts.values() for word in part)])


def test_a_file_that_is_not_there(capsys, folder):
    assert "'none.parquet'" in refused(capsys, folder, ["simulate", "none.parquet", "--window", "5", "--memory", "2", *OUTPUTS])


def test_a_folder_is_no_trace(capsys, folder):
    (folder / "folder.csv").mkdir()
    assert "'folder.csv'" in refused(capsys, folder, ["simulate", "folder.csv", "--window", "5", "--memory", "2", *OUTPUTS])


def test_times_that_decrease_are_accepted_but_said(capsys, folder):
    file = parquet(time=[0, 4, 3, 5])(folder)
    assert run(["simulate", str(file), "--window", "9", "--memory", "2", "--format", "json"]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("note: 1 row is earlier than the row before it")
    assert len(json.loads(captured.out)) == 1


def test_times_that_decrease_are_refused_where_the_window_counts_rows(capsys, folder):
    file = parquet(time=[0, 4, 3, 5])(folder)
    message = refused(capsys, folder, ["simulate", str(file), "--window", "rows:2", "--stats", "whole", "--memory", "2", *OUTPUTS])
    assert "got 3 after 4 in row 2" in message


RATES = {
    "no column rate": ("stream,key\nR,1\n", ["--rates", "lacks rate"]),
    "rate in words": ("stream,key,rate\nR,1,often\n", ["'rate'", "string"]),
    "negative rate": ("stream,key,rate\nR,1,-2\n", ["rates >= 0", "-2"]),
    "unknown stream": ("stream,key,rate\nQ,1,2\n", ["R, S", "'Q'"]),
    "key of a wrong type": ("stream,key,rate\nR,a,2\n", ["'key'", "string"]),
    "two rates for a key": ("stream,key,rate\nR,1,2\nR,1,3\n", ["two for R 1"]),
    "null rate": ("stream,key,rate\nR,1,\nR,2,1\n", ["nulls", "'rate'"]),
}


@pytest.mark.parametrize(("content", "said"), RATES.values(), ids=RATES)
def test_bad_rates(capsys, folder, content, said):
    (folder / "rates.csv").write_text(content)
    options = ["--window", "5", "--memory", "2", "--stats", "given", "--rates", "rates.csv", *OUTPUTS]
    message = refused(capsys, folder, ["simulate", str(parquet()(folder)), *options])
    assert [part for part in said if part not in message] == []


@pytest.mark.parametrize("failing", ["outputs", "log", "plot"])
def test_when_one_file_cannot_be_written_none_is(capsys, folder, monkeypatch, failing):
    from penstock.core import tables
    from penstock.experiments import figures

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    written = tables.write_table
    if failing == "plot":
        monkeypatch.setattr(figures, "save", full)
    else:
        monkeypatch.setattr(tables, "write_table", lambda table, path: (full if failing in path.name else written)(table, path))
    arguments = ["simulate", str(parquet()(folder)), "--window", "5", "--memory", "2", *OUTPUTS]
    assert "No space left on device" in refused(capsys, folder, arguments)


def test_a_folder_that_may_not_be_written_to(capsys, folder, monkeypatch):
    monkeypatch.setattr("os.access", lambda _, mode: mode != os.W_OK)  # as for anybody who is not root
    arguments = ["simulate", str(parquet()(folder)), "--window", "5", "--memory", "2", *OUTPUTS]
    message = refused(capsys, folder, arguments)
    assert "--outputs must be in a folder that you may write to, got 'outputs.csv'" in message


GENERATE = {
    "no ticks": ("--n 0", ["--n", "'0'"]),
    "ticks not a number": ("--n many", ["--n", "'many'"]),
    "no keys": ("--keys 0", ["--keys", "'0'"]),
    "negative skew": ("--skew -1", ["skew", "-1.0"]),
    "skew NaN": ("--skew nan", ["skew", "nan"]),
    "skew not a number": ("--skew steep", ["--skew", "'steep'"]),
    "skew of one stream": ("--skew R=1", ["--skew", "R, S", "'R=1'"]),
    "three skews for two streams": ("--skew 1,2,3", ["skew", "[1.0, 2.0, 3.0]"]),
    "no rate": ("--rate 0", ["rate", "0.0"]),
    "bad burst": ("--burst 5:9:2", ["burst", "'5:9:2'"]),
    "disorder beyond measure": ("--disorder 1000000000000", ["disorder", "1000000000000"]),
    "more rows than can be": ("--rate 1e300", ["rate", "rows", "e+30"]),
    "more keys than can be": ("--keys 10000000000", ["keys", "1e+10"]),
    "negative disorder": ("--disorder -1", ["--disorder", "'-1'"]),
    "unknown ranks": ("--ranks corelated", ["ranks", "'corelated'", "did you mean 'correlated'"]),
    "unknown importance": ("--importance rar", ["importance", "'rar'", "did you mean 'rare'"]),
    "more groups than keys": ("--groups 60 --importance rare", ["groups", "60"]),
    "negative seed": ("--seed -1", ["--seed", "'-1'"]),
    "huge seed": (f"--seed {10**40}", ["--seed", "2**60"]),
    "a stream twice": ("--streams R,R", ["streams", "['R', 'R']"]),
    "more facts than there are": ("--relation facts.csv --facts-active 2", ["--facts-active", "at most 1", "2.0"]),
    "facts that all stay, at a rate": ("--relation facts.csv --facts-rate 1", ["--facts-rate", "1.0"]),
    "more ticks than can be": (f"--n {10**15}", ["n must", "1e+15"]),
}


@pytest.mark.parametrize(("options", "said"), GENERATE.values(), ids=GENERATE)
def test_bad_options_of_generate(capsys, folder, options, said):
    message = refused(capsys, folder, ["generate", "out.csv", *options.split()])
    assert [part for part in said if part not in message] == []


@pytest.mark.parametrize(
    "arguments",
    [
        "generate out.txt",
        "generate nowhere/out.csv",
        "generate",
        "demo --seed x",
        "demo --out file.txt",
        "bench core --policies fifo,porb",
        "bench core --memory 0",
        "bench core --rows few",
        "bench cores",
        "policies --format xml",
        "simulat trace.csv",
        "--versoin",
    ],
)
def test_bad_options_of_the_others(capsys, folder, arguments):
    (folder / "file.txt").write_text("not a folder")
    refused(capsys, folder, arguments.split())
