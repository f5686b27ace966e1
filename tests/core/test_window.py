"""Windows against their definitions, and what is no window."""

from __future__ import annotations

import datetime
import math
from typing import Any

import numpy as np
import pytest

import penstock as ps
from nouns import STREAMS, refused, trace
from penstock.core.window import DEAD, NEVER, Window, parse_windows


def length_at(schedule: list[tuple[int, int]], t: int) -> int:
    return [length for begin, length in [(-math.inf, schedule[0][1]), *schedule] if begin <= t][-1]


# Whether a tuple of time u is inside at tick t >= u, provided that it was until then.
DEFINITIONS: dict[str, tuple[Any, Any]] = {
    "sliding": (3, lambda u, t: t - 3 < u <= t),
    "of one tick": (1, lambda u, t: u == t),
    "tumbling": ("tumbling:4", lambda u, t: u // 4 == t // 4),
    "tumbling by ticks": ("tumbling:1", lambda u, t: u == t),
    "landmark": ("landmark:5", lambda u, t: u >= 5),
    "landmark before zero": ("landmark:-2", lambda u, t: u >= -2),
    "unbounded": ("none", lambda u, t: True),
    "changing": ("0:6,10:2,15:4", lambda u, t: t - length_at([(0, 6), (10, 2), (15, 4)], u) < u),
}
INSTANTLY: dict[str, list[tuple[int, int]]] = {
    "shrinking": [(0, 6), (10, 2)],
    "growing": [(0, 2), (10, 7)],
    "back and forth": [(0, 6), (8, 1), (9, 6), (14, 3), (15, 12), (16, 1), (20, 5)],
    "late to begin": [(12, 3), (20, 9)],
}
LONG = 60
TIMES = np.arange(-9, 30)


def first_outside(u: int, inside: Any) -> int:
    """The first tick from u on at which the definition puts u outside; NEVER if none comes, DEAD if u never was inside."""
    if not inside(u, u):
        return DEAD
    return next((t for t in range(u + 1, u + LONG) if not inside(u, t)), NEVER)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_an_expiry_is_the_first_tick_outside(name):
    spec, inside = DEFINITIONS[name]
    assert Window.parse(spec).expiries(TIMES).tolist() == [first_outside(int(u), inside) for u in TIMES]


@pytest.mark.parametrize("name", INSTANTLY)
def test_a_window_that_changes_for_what_is_there_already(name):
    schedule = INSTANTLY[name]
    wanted = [first_outside(int(u), lambda u, t: u == t or t - length_at(schedule, t) < u) for u in TIMES]
    assert Window.parse(schedule).expiries(TIMES, instantly=True).tolist() == wanted


@pytest.mark.parametrize("stepwise", (False, True), ids=("compiled", "stepwise"))
@pytest.mark.parametrize("name", DEFINITIONS)
def test_two_tuples_join_iff_the_earlier_is_inside_when_the_later_comes(name, stepwise):
    spec, inside = DEFINITIONS[name]
    for u in range(-3, 18):
        # R at u; S at every tick around it; each pair by itself has a key of its own
        ticks = list(range(u - 8, u + 9))
        rows = sorted([("R", u, t) for t in ticks] + [("S", t, t) for t in ticks], key=lambda row: row[1])
        stream, time, key = zip(*rows, strict=True)
        joined = ps.exact(
            ps.Trace({"stream": list(stream), "time": list(time), "key": list(key)}, streams=STREAMS),
            window=spec, stepwise=stepwise, keep=ps.Keep(outputs=True),
        )  # fmt: skip
        late = {t for t in ticks if t >= u and inside(u, u) and inside(t, t) and inside(u, t)}
        early = {t for t in ticks if t < u and inside(u, u) and inside(t, t) and inside(t, u)}
        assert {time[row] for row in joined.outputs[:, 2]} == late | early


@pytest.mark.parametrize("stepwise", (False, True), ids=("compiled", "stepwise"))
@pytest.mark.parametrize("count", (1, 2, 3))
def test_a_window_of_rows_holds_the_last_of_its_stream(count, stepwise):
    # R     0   1   2   .   4   .   6        S asks at 3, 5 and 7: which R are among the last `count`?
    # S     .   .   .   3   .   5   .   7
    times = {"R": [0, 1, 2, 4, 6], "S": [3, 5, 7]}
    rows = sorted((t, name) for name, ticks in times.items() for t in ticks)
    table = ps.Trace({"stream": [name for _, name in rows], "time": [t for t, _ in rows], "key": [1] * len(rows)})
    run = ps.exact(table, window=f"R=rows:{count},S=rows:1", stepwise=stepwise, keep=ps.Keep(outputs=True))
    asked = [(r, s) for r, s in zip(table.time[run.outputs[:, 1]], table.time[run.outputs[:, 2]], strict=True) if r < s]
    assert sorted(asked) == sorted((r, s) for s in times["S"] for r in [t for t in times["R"] if t < s][-count:])


def test_a_window_of_rows_refuses_rows_out_of_order():
    late = trace(time=[0, 2, 1, 1])
    with refused("window rows:C needs times that do not decrease, got 1 after 2 in row 2"):
        ps.simulate(late, window="R=rows:3,S=9", memory=2, stats="whole")


def test_windows_by_stream():
    assert parse_windows("R=400,S=rows:8", STREAMS) == (Window("time", 400), Window("rows", 8))
    assert parse_windows({"S": None, "R": "tumbling:7"}, STREAMS) == (Window("tumbling", 7), Window("none"))
    assert parse_windows("R=0:4,9:2,S=5", STREAMS)[0].schedule == ((0, 4), (9, 2))
    assert parse_windows("2 minutes", STREAMS) == (Window("time", 120_000_000),) * 2
    assert parse_windows(datetime.timedelta(minutes=2), STREAMS) == (Window("time", 120_000_000),) * 2
    assert parse_windows("R=1 second,S=250 milliseconds", STREAMS) == (Window("time", 10**6), Window("time", 250_000))


@pytest.mark.parametrize(
    "window",
    (0, -3, "0", "-3", "three", 2.5, "2.5", math.nan, math.inf, True, "rows:0", "rows:x", "rows:", "tumbling:-1",
     "landmark:soon", "3 fortnights", 1 << 60, 10**30, "0:4,9", "0:4,x:2", "0:0", "", "400;", "ROWS:3", datetime.timedelta(0)),
)  # fmt: skip
def test_a_window_that_is_none_says_what_would_be_one(window):
    with refused("window must (be|count) .*, got "):
        ps.simulate(trace(), window=window, memory=2)


@pytest.mark.parametrize("window", ([], [(5, 1), (0, 2)], [(0, 1), (0, 2)], "5:1,0:2"))
def test_a_window_over_time_has_rising_times(window):
    with refused("window over time must have rising times, got"):
        ps.simulate(trace(), window=window, memory=2)


@pytest.mark.parametrize("window", ([("soon", 4)], [(0, 4, 5)], [0, 4], [(0, "long")]))
def test_a_window_over_time_is_made_of_pairs(window):
    with refused("window .*must be .*, got"):
        ps.simulate(trace(), window=window, memory=2)


@pytest.mark.parametrize("window", ({"R": 3}, {"R": 3, "S": 3, "T": 3}, "R=3,T=4"))
def test_windows_by_stream_name_every_stream(window):
    with refused("window must name each of the streams R, S, got R"):
        ps.simulate(trace(), window=window, memory=2)


def test_streams_with_numbers_are_named_by_numbers():
    numbered = ps.Trace({"stream": [1, 2, 1], "time": [0, 1, 2], "key": [5, 5, 5]})
    assert ps.simulate(numbered, window={1: 1, 2: 9}, memory={1: 2, "2": 1}).n_output == 1
    with refused("window must name each of the streams 1, 2, got 1, 1, 2"):
        ps.exact(numbered, window={1: 1, "1": 2, 2: 9})


def test_a_window_by_stream_says_whose_is_wrong():
    with refused("window of S must be a positive number of ticks"):
        ps.simulate(trace(), window="R=3,S=0", memory=2)
    with refused("window must read like R=400,S=800, got 'R=3,R=4'"):
        ps.simulate(trace(), window="R=3,R=4", memory=2)


def test_integers_of_numpy_are_whole_numbers():
    assert Window.parse(np.int64(4)) == Window.parse("4") == Window("time", 4)
