"""Compile before anybody waits: a small piece of everything that most joins need, played once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from penstock.generator.generate import generate
from penstock.optimum.optimum import optimum
from penstock.simulator.policy_checks import Trial, survives_a_restart
from penstock.simulator.simulate import exact, simulate


def warm() -> Iterator[str]:
    """Compile what joins, shards, snapshots, statistics and the optimum need; each is named before it is played.

    >>> list(warm())
    ['join', 'restart', 'shards', 'statistics', 'optimum', 'strategies']
    """
    trace = generate(200, keys=2000, seed=1)
    small = generate(20, keys=4, seed=1)
    yield "join"
    simulate(trace, window=20, memory=30)
    yield "restart"
    trial = Trial(lambda: "prob")
    survives_a_restart(trial)
    engine, batch = trial.open()
    engine.play(batch)
    engine.trim()
    engine.dismiss(np.array([0]))
    yield "shards"
    simulate(trace, window=20, memory=30, shards=2, batch=2)
    yield "statistics"
    for stats in ("decayed", "sketch"):
        simulate(trace, window=20, memory=30, policy="prob", stats=stats)
    simulate(trace, window=20, memory=30, policy="prob", stats="decayed", predicate="eps:1")
    yield "optimum"
    optimum(small, window=4, memory=2)
    yield "strategies"
    exact(small, window=4, strategy="eager")
