"""The loss meter: what it counts is what the exact join has and the engine has not; what it estimates holds its interval."""

from __future__ import annotations

import math
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from engines import running_engine
from penstock.core.batch import Batch
from penstock.core.problem import Problem
from penstock.core.trace import LIMIT
from penstock.engine.contract import Keep
from penstock.shard.meter.meter import Meter
from penstock.shard.meter.sample import Units


def problem_of(streams: int, memory: int, importance: bool, lateness: int = 9) -> Problem:
    names = tuple("RSTU"[:streams])
    return Problem.of(names, window=12, memory=memory, stats="decayed", clock="streams", lateness=lateness, has_importance=importance)


def batches_of(random: Random, streams: int, n: int, keys: int, importance: bool, disorder: int) -> list[Batch]:
    """Micro-batches, each in order of time; the next may begin before the last has ended, by less than 9 (test_past.py has late rows)."""
    out = []
    for begin in range(0, n * 6, 6):
        size = random.randrange(1, 14)
        time = np.sort([begin + random.randrange(6 + disorder) for _ in range(size)])
        stream = np.array([random.randrange(streams) for _ in range(size)])
        order = np.lexsort((stream, time))
        key = np.array([random.choice([-1, *range(keys)]) for _ in range(size)])
        worth = np.array([random.choice([1.0, 2.0, 0.5]) for _ in range(size)]) if importance else None
        out.append(Batch(stream[order], time[order], key, worth))
    return out


@settings(deadline=None, max_examples=150)
@given(st.randoms(use_true_random=False), st.sampled_from((2, 2, 3)), st.sampled_from(tuple(ps.POLICIES)), st.booleans())
def test_what_is_counted_is_what_is_missing(random, streams, policy, importance):
    problem = problem_of(streams, random.randrange(1, 12), importance)
    exact = running_engine(problem_of(streams, LIMIT - 1, importance), "fifo", Keep())
    engine = running_engine(problem, policy, Keep(outputs=True, sheds=True))
    meter = Meter(problem, ghosts=10**6, wants_rows=random.random() < 0.5)
    for batch in batches_of(random, streams, random.randrange(1, 9), 3, importance, random.randrange(9)):
        clocks = np.array([batch.time[batch.stream == s].max(initial=-LIMIT) for s in range(streams)])
        before, whole = engine.totals, exact.totals
        meter.before(batch, engine)
        played = engine.play(batch)
        loss, missed, weight = meter.after(batch, engine, before, played)
        exact.play(batch)
        engine.advance(clocks)
        exact.advance(clocks)
        meter.advance(clocks, engine)
        made = exact.totals.n_output - whole.n_output
        assert loss.lost == made - (engine.totals.n_output - before.n_output)
        assert math.isclose(loss.lost_value, exact.totals.value - whole.value - engine.totals.value + before.value, abs_tol=1e-9)
        assert (loss.variance, loss.estimated) == (0.0, 0.0)
        if meter.wants_rows:
            assert len(missed) == loss.lost and (weight == 1.0).all()
    assert meter.total.lost == exact.totals.n_output - engine.totals.n_output


def test_the_growth_of_a_variance_is_unbiased():
    """By enumeration: two batches with q 1/2 then 1/4, one unit that loses 3, then 2."""
    draws = (np.arange(4) + 0.5) / 4
    estimates, variances = [], []
    for u in draws:
        units, lost, variance = Units(), 0.0, 0.0
        for q, m in ((0.5, 3.0), (0.25, 2.0)):
            if u < q:
                variance += units.add(np.array([7]), np.array([[m, m]]), q)[0]
                lost += m / q
        estimates.append(lost)
        variances.append(variance)
    assert np.mean(estimates) == 5.0
    assert math.isclose(np.mean(variances), np.var(estimates))
