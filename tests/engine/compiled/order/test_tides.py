"""Tournaments are held only while memory may run over: tides fill the memory, leave it, and come back."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import penstock as ps
from penstock.engine.compiled.engine import CompiledEngine
from policy_kinds import DRAWN, WEIGHED
from strategies import EVERYTHING, opened


def a_tide(streams: int, *, weighed: bool = False) -> ps.Trace:
    """Four high tides of two rows a tick, with twice a window of low tide, one row in five ticks, after each."""
    rng = np.random.default_rng(streams)
    high, low = np.repeat(np.arange(20), 2), np.arange(20, 60, 5)
    time = np.concatenate([tide * 60 + part for tide in range(4) for part in (high, low)])
    size, names = len(time), list("ABCDEF"[:streams])
    columns = {"stream": rng.choice(names, size), "time": time, "key": rng.integers(0, 6, size)}
    return ps.Trace(columns | ({"importance": rng.integers(1, 5, size).astype(float)} if weighed else {}), streams=names)


@pytest.mark.wide
@pytest.mark.parametrize("streams", (2, 3, 6))
@pytest.mark.parametrize("allocation", ("variable", "fixed"))
@pytest.mark.parametrize("policy", [name for name in ps.POLICIES if name not in DRAWN])
def test_what_is_shed_between_tides_is_what_steps_shed(policy, allocation, streams):
    spec = {"window": 20, "memory": 12, "allocation": allocation, "policy": policy, "stats": "decayed", "half_life": 15.0}
    trace = a_tide(streams, weighed=policy in WEIGHED)
    runs = [ps.simulate(trace, keep=EVERYTHING, stepwise=stepwise, **spec) for stepwise in (False, True)]
    assert runs[0].sheds.tolist() == runs[1].sheds.tolist()
    assert len(runs[0].sheds) > 20
    assert runs[0].outputs.tolist() == runs[1].outputs.tolist()


@pytest.mark.parametrize(("policy", "streams", "ever"), [("prob", 2, True), ("life", 2, True), ("ep", 6, True), ("ep", 5, False)])
def test_a_tournament_begins_with_the_flood_and_ends_with_the_ebb(policy, streams, ever):
    engine, batch = opened(a_tide(streams), window=20, memory=12, policy=policy, stats="decayed", half_life=15.0)
    assert isinstance(engine, CompiledEngine)
    held = []
    for begin, end in pairwise((0, 5, 40, 48, 53, 88)):
        engine.play(batch.cut(begin, end))
        held.append(bool(engine.memory.tournaments_held))
    assert held == [False, ever, False, False, ever]
