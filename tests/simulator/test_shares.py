"""Memory that moves between shards: what they keep of the value of one, and that they never hold more than the memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.policies.table import POLICIES
from policy_kinds import NEEDS_BOUND
from strategies import EVERYTHING, later

WINDOW = 400


def with_a_heavy_key(seed: int = 0, ticks: int = 6_000) -> ps.Trace:
    """Zipf(1) keys, and one that has 30 % of all rows."""
    plain = ps.generate(ticks, keys=200, ranks="correlated", seed=seed)
    keys = np.asarray(plain.table["key"]).copy()
    keys[np.random.default_rng(seed).random(len(keys)) < 0.3] = 7
    return ps.Trace(plain.table.set_column(plain.table.column_names.index("key"), "key", [keys]), streams=plain.streams)


def of_one(trace: ps.Trace, shards: int, **options: Any) -> float:
    """What shards keep of the value of one, after a warm-up of five windows."""
    late = int(np.searchsorted(trace.time, 5 * WINDOW))
    begun = ps.Trace(trace.table.slice(0, late), streams=trace.streams)
    options |= {"window": WINDOW, "batch": 40}
    many, one = (
        ps.simulate(trace, shards=count, **options).n_output - ps.simulate(begun, shards=count, **options).n_output for count in (shards, 1)
    )
    return many / one


# Small memories, in which a row more or less counts; benchmarks/shards.py has the figures.
@pytest.mark.parametrize(
    ("policy", "shards", "least"), (("prob", 4, 0.97), later("fifo", 4, 0.97), later("rand", 8, 0.94), later("prob", 8, 0.95))
)
def test_shards_keep_nearly_what_one_keeps_though_one_key_has_most(policy, shards, least):
    trace = with_a_heavy_key()
    assert of_one(trace, shards, memory=400, policy=policy, shared=False) < 0.9
    assert of_one(trace, shards, memory=400, policy=policy) > least


@pytest.mark.parametrize("memory", (24, {"R": 12, "S": 15}, "0:40,900:16"), ids=str)
@pytest.mark.parametrize("policy", ["prob", "fifo", *(later(name) for name in POLICIES if name not in ("prob", "fifo"))])
def test_together_they_never_hold_more_than_the_memory_at_any_time(policy, memory):
    trace = with_a_heavy_key(3, 1_500)
    bound = {"half_life": 200} if policy in NEEDS_BOUND else {}
    run = ps.simulate(trace, window=100, memory=memory, policy=policy, shards=3, batch=25, keep=EVERYTHING, **bound)
    parts = memory if isinstance(memory, dict) else {}
    for time, *held in run.series.tolist():
        # Each shard notices by a row of its own that the memory has become smaller, or in the next batch.
        most = 40 if isinstance(memory, str) and time < 925 else 16 if isinstance(memory, str) else 27 if parts else 24
        assert sum(held) <= most and all(own <= parts.get(name, most) for own, name in zip(held, trace.streams, strict=True))
    assert len(run.sheds) == run.n_shed > 0 and run.peak_memory <= 40
    assert (np.diff(run.shed_at) >= 0).all() and len(set(run.sheds.tolist())) == run.n_shed
    equal = ps.simulate(trace, window=100, memory=memory, policy=policy, shards=3, batch=25, keep=EVERYTHING, shared=False, **bound)
    assert equal.sheds.tolist() != run.sheds.tolist()  # they have moved


@pytest.mark.parametrize("policy", ("fifo", later("prob")))
def test_a_memory_in_bytes_moves_too(policy):
    plain = with_a_heavy_key(5, 2_000)
    sizes = np.random.default_rng(1).integers(1, 400, len(plain))
    trace = ps.Trace(plain.table.append_column("size", [sizes]), streams=plain.streams)
    got = {
        shared: ps.simulate(trace, window=WINDOW, memory="60 KB", policy=policy, shards=4, batch=40, shared=shared)
        for shared in (True, False)
    }
    assert got[True].n_output > 1.1 * got[False].n_output and got[True].peak_memory <= 60_000


def test_shards_that_do_not_meet_have_equal_shares_and_so_has_one_batch():
    trace = with_a_heavy_key(1, 800)
    options: dict[str, Any] = {"window": 100, "memory": 24, "policy": "prob", "shards": 3}
    whole, still = (ps.simulate(trace, shared=shared, **options).n_output for shared in (True, False))
    assert whole == still  # one batch, as in a batch query
    assert ps.simulate(trace, batch=20, **options).n_output > still
    many = {"window": 100, "memory": 400, "policy": "prob", "shards": 40, "batch": 20}
    assert ps.simulate(trace, **many).n_output != ps.simulate(trace, shared=False, **many).n_output  # they meet in every third batch


def test_the_same_run_twice_moves_the_same():
    trace = with_a_heavy_key(2, 1_000)
    runs = [ps.simulate(trace, window=100, memory=24, policy="rand", shards=3, batch=20, seed=4, keep=EVERYTHING) for _ in "ab"]
    assert runs[0].sheds.tolist() == runs[1].sheds.tolist() and runs[0].outputs.tolist() == runs[1].outputs.tolist()
