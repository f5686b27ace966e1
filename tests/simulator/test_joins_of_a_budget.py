"""Two joins that share a memory: what they keep together, beside two that have a half each, and that they never hold more than it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.core.problem import Problem
from penstock.simulator.sharded import play_joins
from strategies import EVERYTHING, later

WINDOW = 400


def a_trace(keys: int, ticks: int, seed: int, every: int = 1) -> ps.Trace:
    """Zipf(1) keys, the same ones in both streams; all keys alike where there are very many. `every`: only one tick in so many has rows."""
    plain = ps.generate(ticks, keys=keys, ranks="correlated", skew=1.0 if keys < 10_000 else 0.0, seed=seed)
    wanted = plain.time // 40 % every == 0
    return ps.Trace(plain.table.filter(wanted), streams=plain.streams)


def joins(ticks: int = 4_000, seed: int = 0, every: int = 1, **options: Any) -> dict[str, tuple[ps.Trace, Problem]]:
    """One that has many outputs to gain, and one that has nearly none."""
    traces = {"clicks": a_trace(200, ticks, seed), "orders": a_trace(50_000, ticks, seed + 1, every)}
    told = {"window": WINDOW, "memory": 400, "stats": "decayed", "clock": "streams"} | options
    return {name: (trace, Problem.of(trace.streams, **told)) for name, trace in traces.items()}


@pytest.mark.parametrize(("policy", "shards", "more"), (("prob", 2, 1.15), later("learned", 2, 1.15), later("prob", 1, 1.15)))
def test_joins_that_share_a_memory_keep_more_than_with_a_half_each(policy, shards, more):
    options: dict[str, Any] = {"shards": shards, "memory": 200, "batch": 40, "policy": policy}
    moved, fixed = (play_joins(joins(), shared=shared, **options) for shared in (True, False))
    kept, before = (sum(run.n_output for run in runs.values()) for runs in (moved, fixed))
    assert kept > more * before
    assert moved["clicks"].n_output > fixed["clicks"].n_output
    halves = {name: ps.simulate(trace, window=WINDOW, memory=100, shards=shards, batch=40, policy=policy, shared=False)
              for name, (trace, _) in joins().items()}  # fmt: skip
    assert {name: run.n_output for name, run in halves.items()} == {name: run.n_output for name, run in fixed.items()}


@pytest.mark.parametrize("policy", ("prob", "fifo", later("rand"), later("learned")))
@pytest.mark.parametrize("every", (1, 3))  # the second join has rows in one batch of so many
def test_together_they_never_hold_more_than_the_memory_at_any_time(policy, every):
    found = joins(1_500, 3, every)
    runs = play_joins(found, shards=2, memory=60, batch=40, policy=policy, keep=EVERYTHING)
    times = np.unique(np.concatenate([run.series[:, 0] for run in runs.values()]))
    held = np.zeros(len(times), np.int64)
    for run in runs.values():
        at = np.searchsorted(run.series[:, 0], times, side="right")
        held += np.concatenate([[0], run.series[:, 1:].sum(axis=1)])[at]
    assert held.max() <= 60
    most = [run.series[:, 1:].sum(axis=1).max() for run in runs.values()]
    if policy in ("prob", "learned") or every > 1:  # the others go by load, and it is the same
        assert max(most) > 33  # more than a half: it has moved
    again = play_joins(found, shards=2, memory=60, batch=40, policy=policy, keep=EVERYTHING)
    assert all(again[name].sheds.tolist() == run.sheds.tolist() for name, run in runs.items())


def test_a_memory_in_bytes_moves_between_joins_too():
    found = {}
    for name, (trace, _) in joins(2_000, 5).items():
        sized = ps.Trace(trace.table.append_column("size", [np.full(len(trace), 100)]), streams=trace.streams)
        found[name] = sized, Problem.of(sized.streams, window=WINDOW, memory="60 KB", stats="decayed", clock="streams")
    options: dict[str, Any] = {"shards": 2, "memory": "120 KB", "batch": 40, "policy": "prob"}
    moved, fixed = (sum(run.n_output for run in play_joins(found, shared=shared, **options).values()) for shared in (True, False))
    assert moved > 1.1 * fixed
