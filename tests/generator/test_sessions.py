"""Sessions: how many clicks, how far apart, in which stream."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest, chisquare, kstest

import penstock as ps

N = 30_000


def sessions(trace: ps.Trace) -> list[tuple[np.ndarray, np.ndarray]]:
    """The times and streams of each session that is over."""
    order = np.argsort(trace.key, kind="stable")
    cuts = np.flatnonzero(np.diff(trace.key[order])) + 1
    whole = zip(np.split(trace.time[order], cuts), np.split(trace.stream[order], cuts), strict=True)
    return [(time, stream) for time, stream in whole if time[0] < N - 20 * 60]


@pytest.fixture(scope="module")
def shop() -> ps.Trace:
    return ps.generate(N, sessions="5:20", rate=(2, 1), seed=3)


def test_a_session_has_5_to_20_clicks_each_number_as_often(shop):
    counts = np.bincount([len(time) for time, _ in sessions(shop)], minlength=21)
    assert counts[:5].sum() == 0
    assert len(counts) == 21
    assert chisquare(counts[5:]).pvalue > 0.01


def test_clicks_are_5_to_60_ticks_apart_each_gap_as_often(shop):
    gaps = np.bincount(np.concatenate([np.diff(time) for time, _ in sessions(shop)]))
    assert gaps[:5].sum() == 0
    assert len(gaps) == 61
    assert chisquare(gaps[5:]).pvalue > 0.01


def test_clicks_fall_into_streams_by_their_rates_whatever_came_before(shop):
    streams = [stream for _, stream in sessions(shop)]
    first = sum(int((stream == 0).sum()) for stream in streams)
    assert binomtest(first, sum(map(len, streams)), 2 / 3).pvalue > 0.01
    same = sum(int((stream[1:] == stream[:-1]).sum()) for stream in streams)
    assert binomtest(same, sum(len(stream) - 1 for stream in streams), (2 / 3) ** 2 + (1 / 3) ** 2).pvalue > 0.01


def test_sessions_begin_evenly_and_give_the_rate(shop):
    begins = [int(time[0]) for time, _ in sessions(shop)]
    assert kstest(begins, "uniform", args=(0, N - 20 * 60)).pvalue > 0.01
    steady = (shop.time >= 1200).sum() / (N - 1200)
    assert steady == pytest.approx(3, rel=0.02)
    assert shop.n_backwards == 0


def test_a_delay_of_another_kind_and_a_number_of_clicks(shop):
    trace = ps.generate(N, sessions="3:3", delay="fixed:7", seed=1)
    assert {len(time) for time, _ in sessions(trace)} == {3}
    assert {int(gap) for time, _ in sessions(trace) for gap in np.diff(time)} == {7}


def test_the_same_seed_gives_the_same_sessions_and_another_others():
    made = [ps.generate(500, sessions="5:20", seed=seed).table for seed in (3, 3, 4)]
    assert made[0].equals(made[1])
    assert not made[0].equals(made[2])
