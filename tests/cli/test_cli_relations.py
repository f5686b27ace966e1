"""`penstock simulate --relation`: joins through relations from outside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.cli import run

ROWS = "stream,time,x,y,z\nR,0,1,,\nS,1,,7,3\nT,2,,,5\nR,2,2,,\nR,3,9,,\nS,4,,7,\n"
PAIRS = "a,b,begin,until,w\n1,7,,3,2\n1,7,,,1\n2,7,1,,1\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text(ROWS)
    (tmp_path / "two.csv").write_text("\n".join(line for line in ROWS.splitlines() if line[0] != "T"))
    (tmp_path / "pairs.csv").write_text(PAIRS)
    (tmp_path / "zones.csv").write_text("c,d\n3,5\n")
    return tmp_path


def played(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["simulate", *arguments, "--window", "9", "--memory", "5", "--format", "json"]) == 0
    return dict(json.loads(capsys.readouterr().out)[0])


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["simulate", *arguments, "--window", "9", "--memory", "5"]) == 2
    return capsys.readouterr().err


LINKS = ("--link", "R.x = a", "--link", "b = S.y")


def test_one_relation_with_weights_and_ends(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = ("--relation-end", "until", "--relation-weight", "w", "--relation-id", "w", "--outputs", "out.parquet")
    (folder / "pairs.csv").write_text(PAIRS.replace("2,7,1,,1", "2,7,1,,3"))
    told = played(capsys, "two.csv", "--relation", "pairs.csv", *LINKS, *more)
    # R of 0 and S of 1 by both of their facts; S of 4 by the second alone, and R of 2 by the third, with both S
    assert (told["policy"], told["n_filtered"], told["n_output"], told["value"], told["recall"]) == ("dimpprob", 1, 5, 10.0, 1.0)
    table = pq.read_table(folder / "out.parquet")
    assert table.column_names == ["policy", "time", "R", "S", "pairs"]
    assert sorted(table.select(["time", "R", "S", "pairs"]).to_pylist(), key=str) == [
        {"time": time, "R": r, "S": s, "pairs": fact}
        for time, r, s, fact in [(1, 0, 1, 0), (1, 0, 1, 1), (2, 2, 1, 2), (4, 0, 4, 1), (4, 2, 4, 2)]
    ]  # fmt: skip


def test_several_relations_have_their_own_links_and_streams_may_have_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    links = ("--link", "p: R.x = a", "--link", "p: b = S.y", "--link", "zones: S.z = c, zones: d = T.z")
    more = ("--relation", "p=pairs.csv", "--relation", "zones.csv", "--relation-id", "p=w", "--policy", "fifo")
    (folder / "pairs.csv").write_text(PAIRS.replace("2,7,1,,1", "2,7,1,,3"))
    whole = played(capsys, "rows.csv", *links, *more)
    assert (whole["n_output"], whole["n_filtered"]) == (3, 2)
    rows = [line.split(",") for line in ROWS.splitlines()[1:]]
    for stream in "RST":
        mine = [row for row in rows if row[0] == stream]
        columns = {
            name: pa.array([int(row[at]) if row[at] else None for row in mine], pa.int64())
            for at, name in ((1, "time"), (2, "x"), (3, "y"), (4, "z"))
        }
        pq.write_table(pa.table(columns), folder / f"{stream}.parquet")
    apart = played(capsys, "R.parquet", "S.parquet", "T.parquet", *links, *more, "--outputs", "out.csv")
    assert apart == whole
    assert (folder / "out.csv").read_text().splitlines()[0] == '"policy","time","R","S","T","p","zones"'


def test_what_cannot_be_is_said_in_one_sentence(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    through = ("--relation", "pairs.csv", *LINKS)
    zones = ("--relation", "zones.csv", "--link", "R.x = c", "--link", "d = S.y")
    for wanted, arguments in {
        "--link says something of a relation and needs --relation": LINKS,
        "--relation-end says something of a relation and needs --relation": ("--relation-end", "until"),
        "--link must say what relation pairs links": ("--relation", "pairs.csv"),
        "--link must name its relation where there are several, as in 'pairs: R.x = a'": (*through, "--relation", "zones.csv"),
        "relation of --link must be one of pairs, got 'pears'": (*through, "--link", "pears: R.x = a"),
        "--relation must have relations of different names, got pairs twice": (*through, "--relation", "other/pairs.parquet"),
        "whose times overlap; facts that are different need id=": through,
        "--shards must be left out in a join through relations": (*zones, "--shards", "2"),
        "predicate must be left out where streams are joined through relations": (*zones, "--predicate", "<"),
        "there is no file 'none.csv'": ("--relation", "none.csv", *LINKS),
    }.items():
        told = refused(capsys, "two.csv", *arguments)
        assert wanted in " ".join(told.split()), told
