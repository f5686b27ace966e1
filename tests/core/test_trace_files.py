"""Traces in files, and back."""

from __future__ import annotations

import pyarrow as pa
import pytest

import penstock as ps
from nouns import refused, trace


def a_full_trace() -> ps.Trace:
    more = {"importance": [1.5, 2, 3, 4], "lifetime": [5, 6, 7, 8], "size": [1, 2, 3, 4], "note": [None, "x y", 'q"', "ä"]}
    return trace(key=["a", None, "", "a"], **more)


@pytest.mark.parametrize("suffix", (".parquet", ".csv", ".jsonl", ".json", ".CSV"))
def test_a_trace_survives_its_file(tmp_path, suffix):
    file = tmp_path / f"trace{suffix}"
    written = a_full_trace()
    written.write(file)
    read = ps.read_trace(file)
    assert read.table.to_pydict() == written.table.to_pydict()
    assert read.key.tolist() == written.key.tolist()


@pytest.mark.parametrize("suffix", (".parquet", ".csv"))
def test_timestamps_survive_their_file(tmp_path, suffix):
    file = tmp_path / f"trace{suffix}"
    stamped = trace(time=pa.array([0, 0, 1_500_000, 1_500_000], pa.timestamp("us")))
    stamped.write(file)
    assert ps.read_trace(file).time.tolist() == stamped.time.tolist()


def test_a_csv_file_by_hand(tmp_path):
    file = tmp_path / "trace.csv"
    file.write_text('stream,time,key\nR,0,\nS,0,\nR,1,""\nS,1,""\nR,2,7\nS,2,7\n')
    read = ps.read_trace(file)
    assert ps.exact(read, window=1).n_output == 2  # empty is null, quoted it is a text
    assert ps.read_trace(str(file), streams=("S", "R")).streams == ("S", "R")


def test_json_lines_by_hand(tmp_path):
    file = tmp_path / "trace.jsonl"
    file.write_text('{"stream": "R", "time": 0, "key": 1}\n{"stream": "S", "time": 0, "key": 1, "note": "x"}\n')
    assert ps.exact(ps.read_trace(file), window=1).n_output == 1
    file.write_text('{"stream": "R", "time": 0, "key": {"a": 1}}\n')
    with refused("column 'key' is nested"):
        ps.read_trace(file)


def test_files_that_cannot_be_read(tmp_path):
    with refused("there is no file '.*nowhere.csv'"):
        ps.read_trace(tmp_path / "nowhere.csv")
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    with refused("folder.csv' is a folder, not a file"):
        ps.read_trace(folder)
    with refused(r"the file to read must end in .parquet, .csv, .jsonl, .json, got '.*trace.txt'"):
        ps.read_trace(tmp_path / "trace.txt")
    for suffix in ("parquet", "jsonl", "csv"):
        broken = tmp_path / f"broken.{suffix}"
        broken.write_bytes(b"PAR1 \x00\xff{ not a table")
        with refused(r"is not a readable|a trace needs the columns"):
            ps.read_trace(broken)
        broken.write_bytes(b"")
        with refused(f"is not a readable {suffix} table"):
            ps.read_trace(broken)


def test_files_that_cannot_be_written(tmp_path):
    with refused("the file to write must end in"):
        trace().write(tmp_path / "trace.xls")
    with refused("there is no folder"):
        trace().write(tmp_path / "nowhere" / "trace.csv")


def test_a_parquet_file_with_nested_columns_is_refused(tmp_path):
    import pyarrow.parquet

    file = tmp_path / "nested.parquet"
    nested = pa.table({"stream": ["R", "S"], "time": [0, 1], "key": [1, 1], "tags": [["a"], ["b", "c"]]})
    pyarrow.parquet.write_table(nested, file)
    with refused("column 'tags' is nested"):
        ps.read_trace(file)
