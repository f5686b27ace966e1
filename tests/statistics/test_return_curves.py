"""The picture of what `learned` has learned."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import penstock as ps
from penstock.core.batch import Batch
from penstock.core.problem import Problem
from penstock.engine.chance_steps import COUNTS, GAPS, ONE, Scale
from penstock.statistics.return_curves import picture
from penstock.statistics.returns import Returns

MINUTE = 60_000_000


def learned_from(trace: ps.Trace, window: int) -> list[str]:
    """The picture after a trace, whose ticks are seconds."""
    table = trace.table
    times = np.asarray(table["time"]).astype(np.int64) * 1_000_000
    trace = ps.Trace(table.set_column(table.column_names.index("time"), "time", [times]), streams=trace.streams)
    problem = Problem.of(trace.streams, window=window, memory=1000, stats="decayed")
    batch, source, at = Batch.of(trace, problem), Returns(problem), 0
    while at < len(batch):
        _, at = source.rates(batch, at)
    return picture(source.tables, trace.streams, source.scale)


def bars(lines: list[str]) -> list[int]:
    return [line.count("#") for line in lines]


def drawn(came: dict[tuple[int, int, int], float], spent: dict[tuple[int, int, int], int], window: int = 10 * MINUTE) -> list[str]:
    """The picture of R's keys from arrivals and ticks by count, gap and gap in R."""
    tables = np.zeros((3, 2, 2, COUNTS, GAPS, GAPS), dtype=np.int64)
    for cell, rows in came.items():
        tables[0, 0, 1][cell] = rows * ONE
    for cell, ticks in spent.items():
        tables[2, 0, 1][cell] = ticks
    return picture(tables.reshape(3, -1), ["R", "S"], Scale.of(Problem.of(("R", "S"), window=window, memory=4)))


@pytest.mark.parametrize(
    ("window", "whole", "first", "fifth"),
    [
        (10 * MINUTE, "10 minutes", "2.3 seconds", "1.2 minutes"),
        (90 * MINUTE, "90 minutes", "21 seconds", "11 minutes"),
        (7 * 1440 * MINUTE, "7 days", "39 minutes", "21 hours"),
        (10_000_000, "10 seconds", "39 milliseconds", "1.2 seconds"),
        (100, "100 microseconds", "1 microsecond", "12 microseconds"),
    ],
)
def test_the_picture_has_the_length_of_the_window_and_rounded_steps(window, whole, first, fifth):
    lines = drawn({(1, 3, 0): 5}, {(1, gap, 0): 1000 for gap in range(GAPS)}, window)
    assert lines[0] == f"a key in R: its rows in S per {whole}, by the time since the last one there"
    steps = [line.split("  ")[1].strip() for line in lines[1:]]
    assert [steps[step] for step in (0, 4, 8, 9)] == [f"up to {first}", f"up to {fifth}", f"up to {whole}", "longer, or never"]


def test_rows_of_about_the_same_time_do_not_hide_the_others():
    lines = drawn({(1, 0, 0): 90, (1, 1, 0): 4, (1, 2, 0): 1}, {(1, gap, 0): 1000 for gap in range(3)})
    assert bars(lines) == [0, 32, 32, 8] and lines[1].endswith("#>") and lines[2].endswith("##")


def test_where_all_rows_come_at_about_the_same_time_they_are_shown():
    lines = drawn({(1, 0, 0): 90}, {(1, gap, 0): 1000 for gap in range(3)})
    assert bars(lines) == [0, 32, 0, 0] and not lines[1].endswith(">")


def test_nothing_is_drawn_before_anything_is_known():
    assert drawn({}, {}) == ["nothing yet"]
    assert drawn({}, {(0, 9, 0): 10}) == ["a key in R: none of its rows has come in S"]


def test_keys_that_the_partner_has_not_seen_are_shown_by_the_time_in_their_own_stream():
    spent = {(0, 9, gap): 1000 for gap in range(5)} | {(1, 2, 0): 1000}
    few, many = (drawn({(0, 9, 1): 4, (0, 9, 3): 2, (1, 2, 0): came}, spent) for came in (7, 5))
    assert len(few) == 11 and len(many) == 17 and many[:3] == few[:3]
    assert many[11] == "those in the last line: its rows in S per 10 minutes, by the time since its last one in R"
    assert bars(many[12:]) == [0, 26, 0, 13, 0]  # the longest bar is that of the key's next row: 5
    assert many[-1].startswith("  up to 1.2 minutes ")  # no row of R waited longer


def test_sessions_orders_and_zipf_can_be_read():
    sessions = learned_from(ps.generate(9000, sessions="5:20", rate=2.0, seed=1), 10 * MINUTE)
    assert len(sessions) == 22 and "".join(sessions).count("those") == 0
    assert int(np.argmax(bars(sessions)[1:11])) == 4  # a minute and a bit after the last one
    zipf = learned_from(ps.generate(9000, keys=50, skew=1.0, seed=1), 10 * MINUTE)
    assert all(sooner >= later for sooner, later in pairwise(bars(zipf)[1:11])) and bars(zipf)[9] > 0
    orders = learned_from(ps.generate(9000, orders="listed", alone=0.3, delay="gamma:2:250", rate=0.85, seed=1), 1000_000_000)
    assert bars(orders)[1:10] == [0] * 9 and orders[11].startswith("those in the last line")
    assert int(np.argmax(bars(orders)[12:21])) == 5  # the mode of the delay is 250 seconds
    assert orders[21:] == ["a key in S: none of its rows has come in R"]
    assert max(map(len, sessions + zipf + orders)) < 100
