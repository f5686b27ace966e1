"""Durations and dates as ticks of a trace: never a guess."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from commands import simulated
from penstock.cli import run
from penstock.core.ticks import in_ticks

DAY = 86_400
PATTERN = r"must be a number of ticks, .* nothing says how long a tick is, got .*: say it by --time-unit s"


def seconds_apart(*times: int, unit: str | None = None) -> ps.Trace:
    columns = {"stream": ["R" if number % 2 == 0 else "S" for number in range(len(times))], "time": list(times), "key": ["a"] * len(times)}
    return ps.Trace(columns, time_unit=unit)


def stamped(*seconds: int) -> ps.Trace:
    streams = ["R" if number % 2 == 0 else "S" for number in range(len(seconds))]
    return ps.Trace({"stream": streams, "time": pa.array(seconds, pa.timestamp("s", tz="UTC")), "key": ["a"] * len(seconds)})


TEN = dt.timedelta(minutes=10)


@pytest.mark.parametrize(
    "window",
    (
        "10 minutes",
        TEN,
        np.timedelta64(10, "m"),
        "tumbling:10 minutes",
        {"R": "10 minutes", "S": 5},
        "R=5,S=10 minutes",
        [(0, TEN)],
        "0:5,9:1 hour",
    ),
)
def test_a_duration_of_an_unknown_unit_is_refused(window):
    """Seconds a day apart were joined: ten minutes were 600 million ticks."""
    trace = seconds_apart(0, DAY)
    for way in (
        lambda: ps.simulate(trace, window=window, memory=5),
        lambda: ps.exact(trace, window=window),
        lambda: ps.exact(trace, window=window, strategy="eager"),
        lambda: ps.optimum(trace, window=window, memory=5),
    ):
        with pytest.raises(ps.PenstockError, match=f"window.* {PATTERN}"):
            way()


def test_with_a_unit_a_duration_is_so_many_ticks():
    for unit, ticks in {"s": 600, "min": 10, "ms": 600_000, "us": 600 * 10**6, "ns": 600 * 10**9}.items():
        trace = seconds_apart(0, ticks - 1, 2 * ticks - 1, unit=unit)
        assert (
            ps.exact(trace, window=TEN).n_output
            == ps.exact(trace, window="10 minutes").n_output
            == ps.exact(trace, window=ticks).n_output
            == 1
        )
        assert ps.optimum(trace, window="10 minutes", memory=5).value == 1
    assert ps.exact(seconds_apart(0, 599, 1200, unit="s"), window="tumbling:10 minutes").n_output == 1
    with pytest.raises(ps.PenstockError, match=r"window must be a whole number of ticks, each 3600 seconds, got '10 minutes'"):
        ps.exact(seconds_apart(0, 1, unit="h"), window="10 minutes")


def test_a_unit_is_for_whole_numbers():
    with pytest.raises(ps.PenstockError, match=r"time_unit must be one of s, ms, .*, got 'sec'"):
        seconds_apart(0, 1, unit="sec")
    with pytest.raises(ps.PenstockError, match="time_unit must be left out where times are timestamps"):
        ps.Trace({"stream": ["R"], "time": pa.array([1], pa.timestamp("s")), "key": [1]}, time_unit="s")


@pytest.mark.parametrize(
    ("option", "value", "ticks"),
    (
        ("lateness", "5 seconds", 5),
        ("lateness", "R=5 seconds,S=0", {"R": 5, "S": "0"}),
        ("lateness", {"R": dt.timedelta(seconds=5), "S": 1}, {"R": 5, "S": 1}),
        ("lateness", np.timedelta64(5, "s"), 5),
        ("window", {"R": np.timedelta64(1, "h"), "S": 5}, {"R": 3600, "S": 5}),
        ("half_life", "90 seconds", 90.0),
        ("alpha", dt.timedelta(milliseconds=500), 0.5),
        ("window", "0:5,9:1 minute", "0:5,9:60"),
        ("window", "landmark:7", "landmark:7"),
        ("window", "rows:100", "rows:100"),
        ("memory", "0:100,500:50", "0:100,500:50"),
        ("memory", "R=0:100,500:50,S=7", {"R": "0:100,500:50", "S": "7"}),
        ("window", None, None),
        ("seed", "1 minute", "1 minute"),
    ),
)
def test_options_as_ticks_of_a_second(option, value, ticks):
    assert in_ticks(seconds_apart(0, 1, unit="s"), **{option: value}) == {option: ticks}


@pytest.mark.parametrize("value", (np.timedelta64("NaT"), np.timedelta64(5, "Y"), np.timedelta64(5, "M"), np.timedelta64(5)))
def test_what_is_no_certain_length_of_time_is_refused(value):
    """Five years were five ticks."""
    with pytest.raises(ps.PenstockError, match="window must be a length of time in weeks, days, hours or less, got"):
        ps.simulate(seconds_apart(0, 1, unit="s"), window=value, memory=5)


@pytest.mark.parametrize(
    ("option", "value"), (("lateness", "5 seconds"), ("half_life", "5 seconds"), ("alpha", TEN), ("lateness", "R=0,S=1 day"))
)
def test_every_length_needs_a_unit(option, value):
    with pytest.raises(ps.PenstockError, match=f"{option}.* {PATTERN}"):
        ps.simulate(seconds_apart(0, 1), window=5, memory=5, clock="streams", **{option: value})


NOON = dt.datetime(1970, 1, 1, 0, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("option", "value", "ticks"),
    (
        ("start", "1970-01-01T00:01", 60_000_000),
        ("start", NOON, 60_000_000),
        ("start", dt.datetime(1970, 1, 1, 0, 1), 60_000_000),
        ("memory", "1970-01-01T00:00:100,1970-01-01T00:01:50", "0:100,60000000:50"),
        ("memory", [(0, "1 KB"), (NOON, "2 KB")], [(0, "1 KB"), (60_000_000, "2 KB")]),
        ("memory", "R=5,S=6", "R=5,S=6"),
        ("window", "landmark:1970-01-01T00:01", "landmark:60000000"),
        ("window", "1970-01-01:1 second,1970-01-02:2 seconds", "0:1000000,86400000000:2000000"),
        ("lateness", "1 second", 1_000_000),
    ),
)
def test_where_there_are_timestamps_times_may_be_dates(option, value, ticks):
    assert in_ticks(stamped(0, 1), **{option: value}) == {option: ticks}
    if option != "lateness" and value != "R=5,S=6":
        with pytest.raises(ps.PenstockError, match=f"{option} must be a number of ticks, because the times of this trace are"):
            in_ticks(seconds_apart(0, 1), **{option: value})


def test_lifetimes_may_be_durations():
    def with_lifetimes(lifetime: Any, unit: str | None) -> ps.Trace:
        return ps.Trace({"stream": ["R", "S"], "time": [0, 9], "key": [1, 1], "lifetime": lifetime}, time_unit=unit)

    lifetime = pa.array([10, 1], pa.duration("s"))
    assert ps.exact(with_lifetimes(lifetime, "s"), window="none").n_output == 1
    assert ps.exact(with_lifetimes(pa.array([9, 1], pa.duration("s")), "s"), window="none").n_output == 0
    with pytest.raises(ps.PenstockError, match="column 'lifetime' must be whole numbers of ticks, because nothing says"):
        with_lifetimes(lifetime, None)
    with pytest.raises(ps.PenstockError, match="got a part of one in row 0"):
        with_lifetimes(lifetime, "min")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text(f"stream,time,key\nR,0,a\nS,599,a\nS,{DAY},a\n")
    return path


@pytest.mark.parametrize("command", ("simulate", "optimum"))
def test_on_the_command_line(file, command, capsys):
    options = [command, str(file), "--window", "10 minutes", "--memory", "5", "--format", "json"]
    assert run(options) != 0
    said = capsys.readouterr().err
    assert "--time-unit s" in said and "Traceback" not in said
    assert run([*options, "--time-unit", "s"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found[0] if isinstance(found, list) else found)["n_output"] == 1


def test_other_options_on_the_command_line(tmp_path, capsys):
    path = tmp_path / "trace.parquet"
    stamped(0, 10, 20, 30).write(path)
    options = ["--lateness", "5 seconds", "--clock", "streams", "--half-life", "1 minute", "--alpha", "1 minute", "--stats", "decayed"]
    options += ["--memory", "1970-01-01T00:00:5,1970-01-01T00:01:2", "--start", "1970-01-01T00:00:15", "--window", "1 minute"]
    assert simulated(capsys, path, *options)[0]["n_output"] == 3
