"""What the queries that are killed join, and what must come out: plain Python that knows nothing of Penstock.

FOLDER has a folder per stream, and in it a Parquet file per micro-batch. Rows come out of order, some later than their lateness allows.
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
STEP = 10
"""Seconds of event time from one batch to the next."""


@dataclass(frozen=True)
class Query:
    """A join and its input; the memory is a small part of what its windows hold."""

    streams: str
    policy: str
    memory: int
    keys: str
    rows: int  # per stream and batch
    window: int = 20
    lateness: int = 2
    through: str = ""  # the folder of a history of pairs of keys that join, which goes on while the query runs


QUERIES = {
    "prob": Query("lr", "prob", 40, "aaabbcdef", 60),
    "ep": Query("lr", "ep", 30, "abcdefghijklmnopqrst", 60),
    "three": Query("xyz", "prob", 40, "aabbcdefgh", 30),
    "through": Query("lr", "prob", 40, "abcdef", 40, through="pairs"),
}
Bag = Counter[tuple[Any, ...]]


def written(folder: Path, query: str, batches: int) -> Path:
    """The input of so many batches."""
    facts, random = QUERIES[query], Random(f"chaos {query}")
    for side, number in itertools.product(facts.streams, range(batches)):
        when = [_time(random, number) for _ in range(facts.rows)]
        rows = {
            "ts": pa.array(when, pa.timestamp("us", "UTC")),
            "k": [random.choice(facts.keys) for _ in when],
            "v": [f"{side}{number}.{i}" for i in range(facts.rows)],
        }
        file = folder / side / f"{number:03}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(rows), file)
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))  # files are read in the order of their times
    return folder


def _time(random: Random, number: int) -> dt.datetime:
    """In the span of the batch, or, for some rows, up to three spans before."""
    back = random.randrange(3 * STEP) if random.random() < 0.15 else 0
    return START + dt.timedelta(seconds=max(0.0, STEP * number + random.randrange(STEP) - back))


def exact(folder: Path, query: str) -> Bag:
    """All combinations whose members are in their windows when the last of them comes, as rows of the result."""
    facts = QUERIES[query]
    by_key: dict[str, list[list[tuple[int, str]]]] = {}
    for number, side in enumerate(facts.streams):
        for ts, k, v in _rows(sorted((folder / side).glob("*.parquet"))):
            by_key.setdefault(k, [[] for _ in facts.streams])[number].append((ts, v))
    found: Bag = Counter()
    for key, sides in by_key.items():
        for members in _near(sides, facts.window * 1_000_000):
            found[(key, *(value for member in members for value in member))] += 1
    return found


def facts_by(batch: int) -> pa.Table:
    """The pairs of keys that join, before a batch: some more each time."""
    pairs = [(a, b) for a in QUERIES["through"].keys for b in QUERIES["through"].keys]
    Random("pairs").shuffle(pairs)
    return pa.table({"a": [a for a, _ in pairs[: 8 + 3 * batch]], "b": [b for _, b in pairs[: 8 + 3 * batch]]})


def exact_through(folder: Path, facts: Iterable[tuple[str, str, int | None]]) -> Bag:
    """All pairs of rows in a window whose keys a fact links that has begun when both come; facts have no end here."""
    window = QUERIES["through"].window * 1_000_000
    left, right = (list(_rows(sorted((folder / side).glob("*.parquet")))) for side in "lr")
    begins: dict[tuple[str, str], int] = {(a, b): -(1 << 62) if begin is None else begin for a, b, begin in facts}
    return Counter(
        (lt, lk, lv, rt, rk, rv)
        for lt, lk, lv in left
        for rt, rk, rv in right
        if abs(lt - rt) < window and begins.get((lk, rk), 1 << 62) <= min(lt, rt)
    )


def _near(sides: Sequence[list[tuple[int, str]]], window: int) -> Iterable[tuple[tuple[int, str], ...]]:
    """One of each, no two of them a window or more apart."""
    partial: list[tuple[tuple[int, str], ...]] = [()]
    for side in sides:
        partial = [(*some, one) for some in partial for one in side if all(abs(one[0] - other[0]) < window for other in some)]
    return partial


def sink(folder: Path) -> Bag:
    """The rows that a reader of the sink sees: those of the files in its log."""
    log = folder / "out" / "_spark_metadata"
    files: set[str] = set()
    for entry in sorted((path for path in log.iterdir() if not path.name.startswith(".")), key=lambda path: int(path.name.split(".")[0])):
        lines = entry.read_text().splitlines()[1:]
        if entry.name.endswith(".compact"):
            files = set()
        files |= {json.loads(line)["path"] for line in lines}
    return Counter(_rows(folder / "out" / Path(name).name for name in files))


def settled(folder: Path) -> Bag:
    """The rows that a reader of the settlements sees."""
    return Counter(_rows((folder / "settled").glob("settlement=*/[!._]*.parquet")))


def _rows(files: Iterable[Path]) -> Iterable[tuple[Any, ...]]:
    for file in files:
        table = pq.ParquetFile(file).read()
        columns = [_plain(table[name]) for name in table.column_names]
        yield from zip(*columns, strict=True)


def _plain(column: pa.ChunkedArray) -> list[Any]:
    """Times as microseconds, whatever their unit and zone."""
    if pa.types.is_timestamp(column.type):
        return list(column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist())
    return list(column.to_pylist())


def totals(folder: Path) -> dict[str, Any]:
    """What the last batch said of the life of the query."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    last = max(lines, key=lambda line: (line["batch"], line["total_n_input"]))
    return {name: value for name, value in last.items() if name.startswith(("total_", "retained_", "batch"))}
