"""`penstock relation` and `penstock lookup`: what they write, what they print, and what they refuse."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet
import pytest

from penstock.cli import run
from penstock.relation.history import History

LINKS = ["--link", "pickup.zone = a", "--link", "b = dropoff.zone"]
PAIRS = "a,b,begin,end,note\n2,9,,,x\n1,7,0,5,y\n1,7,0,5,z\n1,8,3,3,x\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.csv").write_text(PAIRS)
    with duckdb.connect("zones.duckdb") as made:
        made.execute("CREATE TABLE pairs AS FROM 'pairs.csv'")
    return tmp_path


def answered(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> dict[str, object]:
    assert run([*arguments, "--format", "json"]) == status
    return json.loads(capsys.readouterr().out)


def test_check_counts_what_is_there_and_what_is_wrong(folder, capsys):
    for source in ("pairs.csv", "duckdb:zones.duckdb#pairs"):
        found = answered(capsys, "relation", "check", source, *LINKS, "--at", "4", status=1)
        indexes = found.pop("missing_indexes")
        assert found == {
            "facts": 4, "keys": {"a": 2, "b": 3}, "active": 3, "null_keys": 0, "backwards": 0, "duplicates": 1, "overlapping": 0,
            "unneeded": ["note"], "good": False,
        }  # fmt: skip
    assert indexes == [
        'CREATE INDEX IF NOT EXISTS "penstock_pairs_a_begin" ON "pairs" ("a", "begin")',
        'CREATE INDEX IF NOT EXISTS "penstock_pairs_b_begin" ON "pairs" ("b", "begin")',
    ]
    assert run(["relation", "check", "pairs.csv", *LINKS, "--columns", "note"]) == 0
    assert "wrong" not in capsys.readouterr().out
    assert run(["relation", "check", "duckdb:zones.duckdb#pairs", *LINKS]) == 1
    said = capsys.readouterr()
    assert "wrong: 1 facts there again" in said.out and "columns that do not matter: note" in said.out and "CREATE INDEX" in said.err


def test_prepare_removes_what_does_not_matter_and_creates_indexes(folder, capsys):
    for source in ("pairs.csv", "duckdb:zones.duckdb#pairs"):
        found = answered(capsys, "relation", "prepare", source, *LINKS, "--out", "small.parquet")
        assert (found["facts"], found["removed"]) == (2, {"columns": 1, "idle": 1, "duplicates": 1})
        small = pyarrow.parquet.read_table("small.parquet")
        assert small.to_pydict() == {"a": [1, 2], "b": [7, 9], "begin": [0, None], "end": [5, None]}
    assert len(found["indexes"]) == 2 and not found["created"]
    assert run(["relation", "prepare", "duckdb:zones.duckdb#pairs", *LINKS, "--create-indexes"]) == 0
    assert capsys.readouterr().out.count("created: CREATE INDEX") == 2
    found = answered(capsys, "relation", "prepare", "duckdb:zones.duckdb#pairs", *LINKS, "--create-indexes")
    assert found == {"indexes": [], "created": True}
    assert answered(capsys, "relation", "check", "small.parquet", *LINKS)["good"]


def test_record_keeps_a_history_and_lookup_reads_it(folder, capsys):
    def seen(rows: str, at: str) -> dict[str, object]:
        Path("now.csv").write_text("zone,fare\n" + rows)
        link = ["--link", "rides.zone = zone", "--columns", "fare"]
        return answered(capsys, "relation", "record", "now.csv", *link, "--history", "fares", "--time", at)

    assert seen("a,10\nb,20\n", "0") == {"history": "fares", "version": 1, "processed": 0, "begun": 2}
    assert seen("a,12\n", "5") == {"history": "fares", "version": 2, "processed": 5, "begun": 3, "ended": 2}
    Path("rides.csv").write_text("time,zone\n1,a\n5,a\n6,b\n7,\n")
    found = answered(capsys, "lookup", "rides.csv", "--relation", "history:fares", "--link", "rides.zone = zone", "--out", "priced.csv")
    assert found == {
        "file": "priced.csv", "n_input": 4, "n_output": 2, "access": "scan", "n_facts": 3, "examined": 12, "compared": 0,
    }  # fmt: skip
    assert Path("priced.csv").read_text().splitlines() == ['"time","zone","fares_fare"', '1,"a",10', '5,"a",12']


def test_lookup_of_a_trace(folder, capsys):
    Path("trace.csv").write_text("stream,time,zone\npickup,1,1\ndropoff,6,9\npickup,5,1\n")
    arguments = ["lookup", "trace.csv", "--relation", "small.csv", *LINKS, "--out", "out.jsonl", "--access", "index"]
    Path("small.csv").write_text("a,b,begin,end\n1,7,0,5\n2,9,,\n")
    assert run(arguments) == 0
    assert "out.jsonl: 2 rows, of 3; by index, which examined 2 of 2 facts" in capsys.readouterr().out
    assert [json.loads(line)["small_b"] for line in Path("out.jsonl").read_text().splitlines()] == [7, 9]


def test_lookup_of_a_folder(folder, capsys):
    Path("rides").mkdir()
    for number, row in enumerate(("1,a", "5,b")):
        Path(f"rides/{number}.csv").write_text(f"ts,zone\n{row}\n")
    Path("fares.csv").write_text("zone,fare\na,10\nb,20\n")
    options = ["--relation", "fares.csv", "--link", "rides.zone = zone", "--time", "ts", "--out", "priced.csv"]
    assert answered(capsys, "lookup", "rides", *options)["n_output"] == 2
    assert Path("priced.csv").read_text().splitlines() == ['"ts","zone","fares_fare"', '1,"a",10', '5,"b",20']


def test_record_goes_on_until_it_is_interrupted(folder):
    with duckdb.connect("zones.duckdb") as made:
        made.execute("CREATE TABLE live (a INTEGER, b INTEGER)")
    # A process that is started in the background may ignore interrupts, and those that it starts inherit that.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from penstock.cli import main; main()"
    options = ["record", "duckdb:zones.duckdb#live", *LINKS, "--history", "h", "--every", "100 ms"]
    with subprocess.Popen(
        [sys.executable, "-c", code, "relation", *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as going:
        for number in range(1, 3):
            deadline = time.monotonic() + 60
            while History("h").latest() < number and time.monotonic() < deadline:
                time.sleep(0.05)
            while True:  # the other process reads for a moment now and then
                try:
                    with duckdb.connect("zones.duckdb") as made:
                        made.execute(f"INSERT INTO live VALUES ({number}, 0)")
                    break
                except duckdb.IOException:
                    time.sleep(0.02)
        going.send_signal(signal.SIGINT)
        try:
            assert going.wait(60) == 130 and "interrupted; h has version " in going.stderr.read()
        finally:
            going.kill()
    facts = History("h").facts(2)
    assert facts["a"].to_pylist() == [1] and facts["begin"].type == pa.timestamp("us", "UTC")


REFUSED = {
    "relation check pairs.csv --link a": "links of relation pairs must be texts",
    "relation check pairs.csv --link 'r.x = c'": "must have the column 'c', it has: a, b, begin",
    "relation check pairs.xls --link 'r.x = a'": "must end in .parquet",
    "relation check postgresql://me:secret@h/d#t --link 'r.x = a'": "must have no password in it, got one in 'postgresql://...'",
    "relation check duckdb:zones.duckdb#pairs --link 'r.x = a' --at soon": "--at must be a whole number or a time",
    "relation prepare pairs.csv --link 'r.x = a'": "takes --out FILE, or --create-indexes for a database, got neither",
    "relation prepare pairs.csv --link 'r.x = a' --create-indexes": "--create-indexes is for a table in a database",
    "relation prepare pairs.csv --link 'r.x = a' --out a.txt": "--out must be a file that ends in",
    "relation prepare pairs.csv --link 'r.x = a' --out ./pairs.csv": "SOURCE and --out must be different files, got 'pairs.csv' for both",
    "relation record pairs.csv --link 'r.x = a' --history h --time 3 --every 1s": "--time is for one table as it was",
    "relation record pairs.csv --link 'r.x = a' --history h --time 3": "each fact once, got a = 1 more than once",
    "relation record pairs.csv --link 'r.x = begin' --history h --time 3": "must have another name than",
    "relation record feed:pairs.csv --link 'r.x = a' --history h": "op in row 0 of pairs.csv must be one of insert",
    "relation record feed:none.jsonl --link 'r.x = a' --history h": "there is no change feed 'none.jsonl'",
    "lookup pairs.csv --relation history:nowhere --link 'r.a = a' --out o.csv --time a": "must be a folder in which Penstock keeps",
    "lookup pairs.csv --relation pairs.csv --link 'r.a = a' --out o.csv": "TRACE and --relation must be different files",
}


@pytest.mark.parametrize("command", REFUSED)
def test_what_is_wrong_is_refused_in_one_line(command, folder, capsys):
    import shlex

    assert run(shlex.split(command)) == 2
    said = capsys.readouterr()
    assert said.err.startswith("penstock: ") and said.err.count("\n") == 1 and REFUSED[command] in said.err, said.err
    assert "secret" not in said.err and said.out == ""
