"""The interval of an estimated loss holds at its level: per batch and for a life, by count and by value, however few the ghosts."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines import running_engine
from penstock.core.batch import Batch
from penstock.core.problem import Problem
from penstock.core.trace import LIMIT
from penstock.engine.contract import Keep
from penstock.shard.meter.interval import Crowd, Reach, limits
from penstock.shard.meter.loss import Loss
from penstock.shard.meter.meter import Meter
from strategies import COMPILED

Estimate = tuple[Loss, dict[str, float]]  # and the truth


def keys_of(kind: str, random: Any, rows: int) -> Any:
    """A stream of keys."""
    if kind == "zipf":
        weight = 1 / np.arange(1, 301)
        return random.choice(300, size=rows, p=weight / weight.sum())
    out = random.integers(0, {"few keys": 8, "many keys": 3000, "bursts": 1000}[kind], rows)
    for begin in range(0, rows if kind == "bursts" else 0, 150):
        at = begin + random.integers(0, 100)
        out[at : at + random.integers(5, 40)] = 1000 + random.integers(0, 20)
    return out


def estimates(
    kind: str, ghosts: int, seed: int, *, streams: int = 2, predicate: str = "=", rows: int = 1800
) -> tuple[list[Estimate], Estimate]:
    """A run in a small part of the memory it needs: what the meter says of each batch with a sample, and of all of them."""
    random = np.random.default_rng([seed, streams])
    key, stream = keys_of(kind, random, rows), random.integers(0, streams, rows)
    worth = random.choice([1.0, 2.0, 20.0], size=rows, p=[0.6, 0.35, 0.05])
    names, window, size = tuple("RSTU"[:streams]), rows // 6, rows // 12
    common: dict[str, Any] = {"window": window, "stats": "window", "clock": "streams", "has_importance": True, "predicate": predicate}
    problem = Problem.of(names, memory=40, **common)
    engine = running_engine(problem, "fifo", Keep(outputs=True, sheds=True))
    exact = running_engine(Problem.of(names, memory=LIMIT - 1, **common), "fifo", Keep())
    meter = Meter(problem, ghosts=ghosts, seed=seed)
    found: list[Estimate] = []
    for begin in range(0, rows, size):
        now = slice(begin, begin + size)
        own = key[now] if predicate == "=" else np.arange(begin, begin + size)
        batch = Batch(
            stream[now], np.arange(begin, begin + size), own, worth[now], values=None if predicate == "=" else key[now, None] / 1.0
        )
        made, there = engine.totals, exact.totals
        meter.before(batch, engine)
        loss = meter.after(batch, engine, made, engine.play(batch))[0]
        exact.play(batch)
        clocks = np.array([batch.time[batch.stream == s].max(initial=-LIMIT) for s in range(streams)])
        for one in (engine, exact):
            one.advance(clocks)
        meter.advance(clocks, engine)
        assert meter.shadow is None or streams > 2 or meter.shadow.totals.retained - engine.totals.retained <= ghosts
        if loss.estimated:
            found.append((loss, missing(exact.totals, there, engine.totals, made)))
    nothing = type(made)()
    return found, (meter.total, missing(exact.totals, nothing, engine.totals, nothing))


def missing(exact: Any, exact_before: Any, made: Any, made_before: Any) -> dict[str, float]:
    lost = exact.n_output - exact_before.n_output - made.n_output + made_before.n_output
    return {"lost": lost, "lost_value": exact.value - exact_before.value - made.value + made_before.value}


def bounds(loss: Loss, name: str) -> tuple[float, float]:
    """The interval of `lost` or `lost_value`, as the metrics have it."""
    value = "" if name == "lost" else "value_"
    sampled = getattr(loss, "sampled" if name == "lost" else "sampled_value")
    low, high = limits(sampled, getattr(loss, f"{value}variance"), getattr(loss, f"{value}reach"))
    assert low <= sampled * (1 + 1e-9) and sampled <= high * (1 + 1e-9)
    counted = getattr(loss, name) - sampled
    return counted + low, counted + high


def misses(kind: str, ghosts: int, runs: int, **options: Any) -> tuple[Counter[str], Counter[str]]:
    """How many estimates there were, of batches and of lives, and how many truths lay outside their intervals."""
    told: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for seed in range(runs):
        batches, life = estimates(kind, ghosts, seed, **options)
        for of, (loss, truth) in [*(("batch", one) for one in batches), ("life", life)]:
            for name, value in truth.items() if loss.estimated else ():
                low, high = bounds(loss, name)
                told[f"{of} {name}"] += 1
                wrong[f"{of} {name}"] += not low - 1e-6 <= value <= high + 1e-6
    return told, wrong


def most_wrong(told: int) -> float:
    """Of so many at 95 %: more come once in a thousand times, if all were independent; batches of one run are not quite."""
    return 0.05 * told + 3.1 * math.sqrt(0.05 * 0.95 * told) + 1


STREAMS = ("zipf", "few keys", "many keys", "bursts")


@pytest.mark.wide
@pytest.mark.skipif(not COMPILED, reason="many runs, too long for an engine that is not compiled")
@pytest.mark.parametrize("ghosts", (5, 20, 50, 200, 800))
@pytest.mark.parametrize("kind", STREAMS)
def test_the_truth_lies_in_the_interval_however_few_the_ghosts(kind, ghosts):
    told, wrong = misses(kind, ghosts, 8, rows=1800 if ghosts < 800 else 7200)
    assert set(told) == {"batch lost", "batch lost_value", "life lost", "life lost_value"}
    for name, times in told.items():
        assert wrong[name] <= most_wrong(times), (name, wrong[name], times)


@pytest.mark.slow
@pytest.mark.skipif(not COMPILED, reason="many runs, too long for an engine that is not compiled")
@pytest.mark.parametrize("ghosts", (5, 20, 50, 200))
@pytest.mark.parametrize("kind", STREAMS)
def test_the_interval_holds_at_its_stated_level(kind, ghosts):
    told, wrong = misses(kind, ghosts, 100)
    for name, times in told.items():
        assert wrong[name] <= most_wrong(times), (name, wrong[name], times)


@pytest.mark.skipif(not COMPILED, reason="many runs, too long for an engine that is not compiled")
@pytest.mark.parametrize("kind", ("zipf", "few keys", "bursts"))
@pytest.mark.parametrize("ghosts", (20, 100))
def test_three_streams_have_an_interval_too(kind, ghosts):
    told, wrong = misses(kind, ghosts, 6, streams=3, rows=1200)
    for name, times in told.items():
        assert wrong[name] <= most_wrong(times), (name, wrong[name], times)


@pytest.mark.parametrize(("predicate", "streams"), [("eps:3", 2), ("<", 2), ("eps:3", 3)])
def test_joins_other_than_equality_have_an_interval_or_say_that_there_is_none(predicate, streams):
    ghosts = 40 if streams == 2 else 15
    told, wrong = misses("zipf", ghosts, 2, predicate=predicate, streams=streams, rows=480)
    assert told["batch lost"] > 10
    for name, times in told.items():
        assert wrong[name] <= most_wrong(times), (name, wrong[name], times)
    if streams > 2:
        loss = estimates("zipf", ghosts, 1, predicate=predicate, streams=streams, rows=480)[1][0]
        assert loss.reach == math.inf and bounds(loss, "lost")[1] == math.inf


@pytest.mark.skipif(not COMPILED, reason="many runs, too long for an engine that is not compiled")
def test_the_interval_is_narrow_where_the_sample_can_tell():
    """A quarter of the ghosts in the sample, all of the heaviest keys: the figure is good to some percent, and says so."""
    for kind in ("zipf", "few keys"):
        (loss, truth), width = estimates(kind, 200, 1)[1], []
        low, high = bounds(loss, "lost")
        width.append((high - low) / truth["lost"])
        assert max(width) < 0.25, kind


@given(st.floats(0, 1e9), st.floats(0, 1e12), st.floats(0, 1e6))
def test_an_interval_has_the_estimate_in_it_and_a_width_where_something_may_be_unseen(sampled, variance, reach):
    low, high = limits(sampled, variance, reach)
    assert 0 <= low <= sampled * (1 + 1e-9) and sampled + reach <= high * (1 + 1e-9)
    assert limits(sampled, variance, math.inf) == (0.0, math.inf)


def test_a_count_of_events_that_weigh_the_same_has_the_interval_of_a_poisson_count():
    """Against the exact limits (Garwood 1936) at 95 %: 0: 0 to 3.69, 1: 0.025 to 5.57, 4: 1.09 to 10.24, 10: 4.80 to 18.39."""
    for seen, low, high in ((0, 0.0, 3.69), (1, 0.025, 5.57), (4, 1.09, 10.24), (10, 4.80, 18.39)):
        found = limits(float(seen), float(seen), 1.0)
        assert low - 0.15 <= found[0] <= low and high <= found[1] <= high * 1.03


@given(st.lists(st.tuples(st.integers(0, 9), st.floats(0, 9)), min_size=1, max_size=150), st.integers(1, 60))
def test_no_unit_weighs_more_than_the_reach(batches, life):
    """Against every unit that could be: one that comes after each batch and lives for so long."""
    reach, now, weights = Reach(), 0, []
    for step, weight in batches:
        reach.weigh(np.array([weight, 2 * weight]), now)
        weights.append((now, weight))
        now += step
        reach.begin(now + life)
    assert len(reach.ends) <= 65
    ends = np.cumsum([step for step, _ in batches])
    heaviest = max(sum(w for begin, w in weights[at + 1 :] if begin < end + life) for at, end in enumerate(ends.tolist()))
    assert reach.largest[0] >= heaviest - 1e-9 and reach.largest[1] == pytest.approx(2 * reach.largest[0])
    if len(batches) < 60:
        assert reach.largest[0] == pytest.approx(heaviest)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), min_size=1, max_size=150), st.integers(1, 60))
def test_no_key_has_more_tuples_than_its_crowd(batches, life):
    crowd, now, came = Crowd(), 0, []
    for step, count in batches:
        now += step
        came.append((now + life, count))
        crowd.add(np.array([count, 0.0]), now + life)
        live = crowd.live(now, 2)
        assert live[0] >= sum(count for end, count in came if end > now) and live[1] == 0
    assert Crowd().live(0, 3).tolist() == [0.0, 0.0, 0.0]
