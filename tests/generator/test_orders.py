"""Keys that visit streams in orders: what the generator promises."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binomtest, chisquare, kstest

import penstock as ps
from penstock.cli import run as command_line
from penstock.core.tables import read_table
from penstock.generator.orders import all_orders, visits

NAMES = ("R", "S", "T")


def paths(trace: ps.Trace) -> dict[int, list[tuple[int, int]]]:
    """For each key its visits: (time, stream), by time."""
    out: dict[int, list[tuple[int, int]]] = {}
    for key, time, stream in zip(trace.key.tolist(), trace.time.tolist(), trace.stream.tolist(), strict=True):
        out.setdefault(key, []).append((time, stream))
    return out


@pytest.mark.parametrize("n", range(1, 6))
def test_orders_are_all_ordered_selections(n):
    orders = all_orders(n)
    assert len(orders) == len(set(orders)) == sum(math.perm(n, size) for size in range(1, n + 1))
    assert all(len(set(order)) == len(order) for order in orders)


@pytest.mark.parametrize("skew", (0.0, 1.0, 2.0))
def test_orders_follow_zipf(skew):
    trace = visits(20_000, streams=NAMES, orders=skew, delay="fixed:1", seed=2)
    found = paths(trace)
    counts: dict[tuple[int, ...], int] = {}
    for way in found.values():
        if way[0][0] < 19_000:  # later ones may be cut by the end
            order = tuple(stream for _, stream in way)
            counts[order] = counts.get(order, 0) + 1
    weights = np.arange(1, 16) ** -skew
    observed = sorted(counts.values(), reverse=True) + [0] * (15 - len(counts))
    if skew == 0:
        assert chisquare(observed).pvalue > 1e-3
    else:  # sorting by what came out favours the fit; the draws are many enough for the large classes
        share = np.array(observed) / sum(observed)
        np.testing.assert_allclose(share[:4], (weights / weights.sum())[:4], rtol=0.12)


def test_a_key_visits_each_stream_at_most_once_and_later_each_time():
    for way in paths(visits(3000, streams=NAMES, orders=0.0, delay=30, seed=5)).values():
        times, streams = zip(*way, strict=True)
        assert len(set(streams)) == len(streams)
        assert (np.diff(times) >= 1).all()


def test_rates_and_delays_are_met():
    trace = visits(20_000, streams=NAMES, orders=0.0, delay=50, rate=2.0, seed=1)
    assert len(trace) == pytest.approx(20_000 * 2 * 3, rel=0.02)  # the visits beyond the end are missing
    waits = np.concatenate([np.diff([time for time, _ in way]) for way in paths(trace).values() if way[0][0] < 19_000])
    assert waits.mean() == pytest.approx(50, rel=0.03)
    assert kstest(waits, "expon", args=(0, 50)).statistic < 0.03
    fixed = visits(2000, streams=NAMES, orders=0.0, delay="fixed:60", seed=1)
    assert {int(wait) for way in paths(fixed).values() for wait in np.diff([time for time, _ in way])} == {60}


def test_the_most_frequent_order_may_be_asked_to_be_complete():
    for seed in range(6):
        found = paths(visits(4000, streams=NAMES, orders=3.0, delay="fixed:1", first="complete", seed=seed))
        complete = sum(len(way) == 3 for way in found.values())
        assert complete > 0.75 * len(found)  # 1 / zeta(3) = 0.83


def test_keys_may_repeat_by_a_normal_distribution():
    trace = visits(20_000, streams=NAMES, orders=0.0, repeats=25.0, seed=1)
    assert trace.key_values("key").to_numpy().mean() == pytest.approx(100, abs=0.2)
    assert trace.key_values("key").to_numpy().var() == pytest.approx(25, rel=0.05)


def test_listed_streams_are_visited_first_to_last_and_a_share_stays_alone():
    trace = ps.generate(20_000, streams=NAMES, orders="listed", alone=0.3, delay="fixed:5", rate=0.5, seed=1)
    ways = [tuple(stream for _, stream in way) for way in paths(trace).values() if way[0][0] < 19_900]
    assert set(ways) == {(0,), (0, 1, 2)}
    alone = sum(way == (0,) for way in ways)
    assert binomtest(alone, len(ways), 0.3).pvalue > 0.01
    assert len(trace) == pytest.approx(20_000 * 0.5 * 3, rel=0.02)


def test_drawn_orders_may_stay_alone_too():
    ways = paths(ps.generate(5000, streams=NAMES, orders=0.0, alone=1.0, seed=1)).values()
    assert {len(way) for way in ways} == {1}
    assert {way[0][1] for way in ways} == {0, 1, 2}


def test_delays_follow_their_distributions():
    gamma = waits_of(ps.generate(60_000, orders="listed", delay="gamma:3:200", seed=1), before=58_000)
    assert gamma.mean() == pytest.approx(200, rel=0.02)
    assert kstest(gamma, "gamma", args=(3, 0, 200 / 3)).statistic < 0.02
    uniform = waits_of(ps.generate(20_000, orders="listed", delay="uniform:5:60", seed=1), before=19_900)
    assert chisquare(np.bincount(uniform, minlength=61)[5:]).pvalue > 0.01
    assert (uniform.min(), uniform.max()) == (5, 60)


def waits_of(trace: ps.Trace, before: int) -> np.ndarray:
    return np.concatenate([np.diff([time for time, _ in way]) for way in paths(trace).values() if way[0][0] < before])


def test_the_same_seed_gives_the_same_trace_and_another_another():
    made = [ps.generate(500, streams=NAMES, orders=1.0, seed=seed).table for seed in (3, 3, 4)]
    assert made[0].equals(made[1])
    assert not made[0].equals(made[2])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"orders": -1.0}, "orders must be a number >= 0"),
        ({"orders": "x"}, "orders must be a number >= 0"),
        ({"orders": 1.0, "delay": 0}, "delay must be a mean number of ticks >= 1"),
        ({"orders": 1.0, "delay": "often"}, "delay must be a mean number of ticks >= 1"),
        ({"orders": 1.0, "delay": "gamma:2"}, "delay must be a mean number of ticks >= 1, or .* got 'gamma:2'"),
        ({"orders": 1.0, "delay": "gamma:0:50"}, "delay must be a mean number of ticks >= 1"),
        ({"orders": 1.0, "delay": "uniform:0:50"}, "delay must be a mean number of ticks >= 1"),
        ({"orders": 1.0, "delay": "uniform:1.5:50"}, "delay must be a mean number of ticks >= 1"),
        ({"orders": 1.0, "delay": float("nan")}, "delay must be a mean number of ticks >= 1"),
        ({"orders": "lsted"}, "orders must be a number >= 0, the Zipf exponent of the orders, or \"listed\", got 'lsted'"),
        ({"orders": "listed", "first": "complete"}, 'first must be left out with orders="listed"'),
        ({"orders": 1.0, "alone": 1.5}, "alone must be a share from 0 to 1, got 1.5"),
        ({"orders": 1.0, "rate": 0.0}, "rate must be"),
        ({"orders": 1.0, "rate": (1, 2)}, "rate must be one number"),
        ({"orders": 1.0, "repeats": 0.0}, "repeats must be a number > 0"),
        ({"orders": 1.0, "first": "last"}, "first must be"),
        ({"orders": 1.0, "burst": "5:2:3"}, "burst does not go with orders=1.0"),
        ({"orders": 1.0, "keys": 7}, "keys does not go with orders=1.0"),
        ({"orders": 1.0, "streams": tuple("ABCDEFGH")}, "streams must be at most 7"),
        ({"orders": 1.0, "seed": -1}, "seed must be"),
    ],
)
def test_bad_orders_are_refused(options, message):
    with pytest.raises(ps.PenstockError, match=message):
        ps.generate(100, **options)


def test_orders_from_the_command_line(tmp_path, capsys):
    file = tmp_path / "orders.csv"
    arguments = ["--n", "300", "--streams", "R,S,T", "--orders", "1.5", "--delay", "fixed:7", "--first", "complete", "--seed", "4"]
    assert command_line(["generate", str(file), *arguments]) == 0
    wanted = ps.generate(300, streams=NAMES, orders=1.5, delay="fixed:7", first="complete", seed=4)
    assert read_table(file).to_pylist() == wanted.table.to_pylist()
    assert command_line(["generate", str(file), "--orders", "many"]) == 2
    assert "--orders must be a number" in capsys.readouterr().err
