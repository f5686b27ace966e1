"""The job of `penstock bench spark` on Apache Flink: an interval join of two CSV files; prints one line of JSON. See flink.md.

python flink_join.py FOLDER WINDOW_MS PARALLELISM, where FOLDER has l.csv and r.csv without header: t (ms), k, v.
"""

import json
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from pyflink.table import EnvironmentSettings, TableEnvironment

SOURCE = """CREATE TABLE {name} (t BIGINT, k BIGINT, v STRING,
ts AS TO_TIMESTAMP_LTZ(t, 3), WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND)
WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')"""
SINK = """CREATE TABLE {name} (k BIGINT, l_t BIGINT, l_v STRING, r_t BIGINT, r_v STRING)
WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')"""
JOIN = """INSERT INTO {sink} SELECT l.k, l.t, l.v, r.t, r.v FROM {left} l, {right} r
WHERE l.k = r.k AND l.ts > r.ts - INTERVAL '{seconds}' SECOND AND l.ts < r.ts + INTERVAL '{seconds}' SECOND"""


def run(tables: TableEnvironment, name: str, left: Path, right: Path, out: Path, window: int) -> float:
    tables.execute_sql(SOURCE.format(name=f"l_{name}", path=left.as_uri()))
    tables.execute_sql(SOURCE.format(name=f"r_{name}", path=right.as_uri()))
    tables.execute_sql(SINK.format(name=f"out_{name}", path=out.as_uri()))
    join = JOIN.format(sink=f"out_{name}", left=f"l_{name}", right=f"r_{name}", seconds=f"{window // 1000}.{window % 1000:03d}")
    began = time.perf_counter()
    tables.execute_sql(join).wait()
    return time.perf_counter() - began


def lines(path: Path) -> int:
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.read_bytes().count(b"\n") for file in files)


def main() -> None:
    folder, window, parallelism = Path(sys.argv[1]).resolve(), int(sys.argv[2]), sys.argv[3]
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.get_config().set("parallelism.default", parallelism)
    left, right = folder / "l.csv", folder / "r.csv"
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch)
        for side in (left, right):  # a first, small run, so that the clock does not count how Java starts
            with side.open("rb") as whole:
                (out / side.name).write_bytes(b"".join(whole.readline() for _ in range(10_000)))
        run(tables, "small", out / "l.csv", out / "r.csv", out / "small", window)
        seconds = run(tables, "whole", left, right, out / "whole", window)
        found = {
            "rows": lines(left) + lines(right),
            "seconds": seconds,
            "outputs": lines(out / "whole"),
            "version": version("apache-flink"),
        }
    print(json.dumps(found))


main()
