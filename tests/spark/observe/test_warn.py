"""What the log says of the batches of a join, from the events alone."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from penstock.spark.observe.warn import _Warner


class Session:
    """Something to refer to."""


def batch(number: int, n_input: int | None, n_late: int | None, *, query: str = "q1", name: str = "mine") -> Any:
    counts = {"n_input": n_input, "n_late": n_late, "total_n_null": 0, "total_recall": 1.0}
    return SimpleNamespace(id=query, runId="r1", batchId=number, observedMetrics={name: counts})


@pytest.fixture
def warner():
    made = _Warner(Session())
    made.names |= {"mine": {"l": 3_600_000_000, "r": 3_600_000_000}, "other": {"l": 0, "r": 90_000_000}}
    return made


def test_a_batch_with_many_late_rows_is_warned_of_once_per_query(warner, caplog):
    with caplog.at_level(logging.WARNING, logger="penstock"):
        for event in (batch(0, 200, 20), batch(1, 99, 99), batch(2, None, None), batch(3, 0, 0)):
            warner.progressed(event)
        assert not caplog.records
        for event in (
            batch(4, 31_777, 31_776),
            batch(5, 200, 200),
            batch(6, 200, 21, query="q2", name="other"),
            batch(7, 100, 11, name="new"),
        ):
            warner.progressed(event)
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == (
        "join mine: 31,776 of 31,777 rows of batch 4 came too late: sources must bring rows in the order of time, within the lateness "
        "(l: 1 hour, r: 1 hour), and a folder of files is read by modification time"
    )
    assert "join other: 21 of 200 rows of batch 6 came too late" in said[1]
    assert "within the lateness (l: 0 seconds, r: 90 seconds)" in said[1]
    assert "join new: 11 of 100 rows" in said[2] and "within the lateness, and" in said[2]
    assert len(said) == 3


def test_rows_without_a_time_are_still_warned_of(warner, caplog):
    event = batch(0, 200, 200)
    event.observedMetrics["mine"]["total_n_null"] = 7
    with caplog.at_level(logging.WARNING, logger="penstock"):
        for _ in range(2):
            warner.progressed(event)
    assert sorted(record.getMessage().split()[2] for record in caplog.records) == ["200", "7"]
