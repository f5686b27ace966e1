"""The command line against the oracle."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from commands import summed_up
from penstock.cli import run as command_line
from penstock.core.tables import read_table, write_table
from strategies import (
    ALLOCATIONS,
    COUNTS,
    DETERMINISTIC,
    MODELS,
    OBJECTIVES,
    SHAPES,
    STATS,
    Case,
    random_case,
)


@pytest.mark.parametrize("suffix", (".csv", ".parquet", ".jsonl"))
@pytest.mark.parametrize("shape", SHAPES)
def test_the_command_line_says_what_the_oracle_says(capsys, tmp_path, shape, suffix):
    """All policies in one command; every option that has a combination of its own above takes its turn."""
    random = Random(f"{shape} {suffix}")
    options = {
        "allocation": random.choice(ALLOCATIONS), "model": random.choice(MODELS), "stats": random.choice(STATS),
        "objective": random.choice(OBJECTIVES),
    }  # fmt: skip
    case = random_case(suffix, shape, half_life=1.0, **options)
    files = {name: tmp_path / f"{name}{suffix}" for name in ("trace", "outputs", "memory", "rates")}
    case.trace.write(files["trace"])
    arguments = [
        "simulate", str(files["trace"]), "--format", "json", "--streams", "R,S", "--policy", ",".join(DETERMINISTIC),
        "--window", ",".join(f"{name}={w[1]}" for name, w in zip(case.streams, case.windows, strict=True)),
        "--memory", str(case.memory), "--beta", str(case.beta), "--weights", ",".join(map(str, case.weights)),
        "--outputs", str(files["outputs"]), "--memory-log", str(files["memory"]),
    ]  # fmt: skip
    for name, value in options.items():
        arguments += [f"--{name}", value]
    for name, value in (("--alpha", case.alpha), ("--half-life", case.half_life)):
        arguments += [] if value is None else [name, str(value)]
    if case.given is not None:
        write_rates(case, files["rates"])
        arguments += ["--rates", str(files["rates"])]

    status = command_line(arguments)
    printed = capsys.readouterr()
    assert status == 0, printed.err
    outputs, memory = lines(files["outputs"]), lines(files["memory"])
    for policy, summary in zip(DETERMINISTIC, json.loads(printed.out), strict=True):
        expected = replace(case, policy=policy).expected()
        assert summed_up(summary) == {"policy": policy} | {name: expected[name] for name in COUNTS}
        mine = [row for row in outputs if row["policy"] == policy]
        assert sorted((row["time"], row["R"], row["S"]) for row in mine) == expected["outputs"]
        log = [(row["time"], retained(row["rows"])) for row in memory if row["policy"] == policy]
        assert log == expected["memory"]


def write_rates(case: Case, path: Path) -> None:
    assert case.given is not None
    pairs = list(case.given.items())
    columns = {
        "stream": [case.streams[stream] for (stream, _), _ in pairs],
        "key": [key for (_, key), _ in pairs],
        "rate": [float(rate) for _, rate in pairs],
    }
    write_table(pa.table(columns), path)


def lines(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".jsonl":  # may be empty, which is no table to Arrow
        return [json.loads(line) for line in path.read_text().splitlines()]
    return read_table(path).to_pylist()


def retained(cell: Any) -> list[int]:
    """A list, or its text in a CSV file."""
    if cell is None or isinstance(cell, int):
        return [] if cell is None else [cell]
    return [int(row) for row in cell.split()] if isinstance(cell, str) else list(cell)
