"""Small traces and how they are played, for the tests of policies."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as ps
from strategies import EVERYTHING

each_form = pytest.mark.parametrize("stepwise", (False, True), ids=("compiled", "stepwise"))

# Das, Figure 3.
#
#     time     0   1   2   3   4          window 3, memory 2
#     R        1   1   1   3   2          exact: (r0,s2) (r1,s2) (r1,s3) (r2,s2) (r2,s3) (r3,s1) (r3,s4)
#     S        2   3   1   1   3
#
# How often a key occurs in the other stream, p:   r0 r1 r2: 2   r3: 2   r4: 1      s0: 1   s1: 1   s2 s3: 3   s4: 1
FIGURE_3 = ps.Trace.from_streams(R=[1, 1, 1, 3, 2], S=[2, 3, 1, 1, 3])


def played(trace: ps.Trace, policy: Any, **options: Any) -> ps.JoinRun:
    return ps.simulate(trace, policy=policy, keep=EVERYTHING, **{"stats": "whole"} | options)


def pairs(run: ps.JoinRun) -> list[tuple[int, int]]:
    return sorted(map(tuple, run.outputs[:, 1:].tolist()))


def named(run: ps.JoinRun, trace: ps.Trace, rows: Any) -> str:
    """Rows by stream and time, as the papers write them: "r0 s2"."""
    return " ".join(f"{trace.streams[trace.stream[row]].lower()}{trace.time[row]}" for row in rows)


def with_importance(*rows: tuple[str, int, Any, float]) -> ps.Trace:
    stream, time, key, importance = zip(*rows, strict=True)
    columns = {"stream": list(stream), "time": list(time), "key": list(key), "importance": list(importance)}
    return ps.Trace(columns, streams=("R", "S"))


def arrivals(times: list[int], streams: str = "") -> ps.Trace:
    names = list(streams or "R" * len(times))
    return ps.Trace({"stream": names, "time": times, "key": list(range(len(times)))}, streams=("R", "S"))
