"""Compile before anybody waits: a small piece of everything that most joins need, played once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch
from penstock.core.problem import Problem
from penstock.core.trace import Trace
from penstock.engine.contract import Keep
from penstock.engine.opening import open_engine
from penstock.generator.generate import generate
from penstock.optimum.optimum import optimum
from penstock.policies.table import open_policy
from penstock.relation.numbered import Numbered
from penstock.relation.relation import relation
from penstock.shard.facts.routing import Routing
from penstock.shard.facts.sent import SentFacts
from penstock.simulator.policy_checks import Trial, survives_a_restart
from penstock.simulator.simulate import exact, simulate
from penstock.statistics.table import open_running


def warm() -> Iterator[str]:
    """Compile what joins, shards, snapshots, statistics and the optimum need; each is named before it is played.

    >>> list(warm())
    ['join', 'restart', 'shards', 'statistics', 'relations', 'optimum', 'strategies']
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
    yield "relations"
    _join_through(trace)
    yield "optimum"
    optimum(small, window=4, memory=2)
    yield "strategies"
    exact(small, window=4, strategy="eager")


def _join_through(trace: Trace) -> None:
    """A join through a relation with a restart in the middle, and rows that find their shards."""
    facts = {"a": range(0, 2000, 2), "b": range(1000), "begin": [None, 3] * 500, "end": [None, 150] * 500}
    numbered = Numbered.of(trace, relation(facts, ["R.key = a", "b = S.key"]))
    problem = Problem.of(trace.streams, window=20, memory=30, stats="decayed", through=numbered.through)
    batch, middle, state = Batch.of(trace, problem, numbered.values), len(trace) // 2, None
    for part in (batch.cut(0, middle), batch.cut(middle, len(trace))):
        policy = open_policy("prob", problem)
        engine = open_engine(problem, policy, open_running(problem, policy), Keep())
        if state is not None:
            engine.restore(state)
        engine.know(numbered.facts)
        engine.play(part)
        state = engine.snapshot()
    sent = SentFacts.of(numbered.through, [pa.table({"key0": ["p"], "key1": ["q"], "begin": [0], "end": [9]})])
    Routing(sent, 0, 2)(pa.record_batch({"key0": ["p", "q"]}), np.arange(2))
