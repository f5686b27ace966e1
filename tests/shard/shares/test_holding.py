"""The share of a shard through its life: logs, snapshots, copies on the machine, and other settings at a restart."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from held_shards import Held, a_batch, clocks_of, plan
from penstock.core.budget import Pools
from penstock.policies.table import POLICIES
from penstock.shard.shard import Result, Shard
from penstock.shard.shard_plan import ShardPlan
from penstock.shard.shares.holding import Holding
from penstock.shard.shares.next_shares import EQUAL
from policy_kinds import WEIGHED
from strategies import later

FIXED = {"l": 8, "r": 6}
SHARED: dict[str, Any] = {"shards": (0, 1), "shared": "a folder"}


def played(held: Held, own: ShardPlan, tables: list[Any], share: float | None, nearby: Any) -> tuple[Shard, Result]:
    """One batch with a share of the memory, from the state and back into it."""
    clocks, vault = clocks_of(tables), held.vault(own)
    shard = vault.open(nearby)
    if share is not None:
        shard.hold(np.full(len(shard.holding.share), int(share * EQUAL)))
    shard.reserve(np.zeros(1, np.int64))
    result = shard.play(tables, clocks)
    vault.save(shard, result, clocks, nearby)
    return shard, result


@pytest.mark.parametrize(
    ("policy", "memory"),
    [("prob", 12), ("rand", FIXED), *(later(name, memory) for name in POLICIES if name not in WEIGHED for memory in (12, FIXED))],
    ids=str,
)
def test_a_shard_that_is_rebuilt_sheds_by_the_shares_that_were_in_effect(policy, memory, tmp_path):
    """Three lives of one shard: rebuilt from the state in every batch, in every fourth, and never (from copies on the machine)."""
    random = Random(policy)
    batches = [a_batch(random, 15 * number, 20) for number in range(16)]
    shares = [random.choice((0.25, 0.5, 1.0, 1.75, 3.0)) if number % 2 else None for number in range(16)]
    own, seen = plan(memory, policy, **SHARED), []
    for nearby in (lambda _: None, lambda number: None if number % 4 == 0 else tmp_path / "some", lambda _: tmp_path / "all"):
        held, rows = Held(), []
        for number, (tables, share) in enumerate(zip(batches, shares, strict=True)):
            shard, result = played(held, own, tables, share, nearby(number))
            rows.append((shard.engine.retained().tolist(), [table.to_pylist() for table in result.joined], result.counts["n_shed"]))
            assert (shard.engine.held <= shard.caps.max()).all() and shard.engine.totals.used <= shard.caps.sum()
        seen.append(rows)
    assert seen[0] == seen[1] == seen[2]
    assert sum(shed for *_, shed in seen[0]) > 100


def test_the_head_of_the_state_has_the_share_and_the_load():
    held, own = Held(), plan(12, "prob", **SHARED)
    shard, _ = played(held, own, a_batch(Random(1), 0, 20), 1.5, None)
    found = json.loads(held.head[1])["holding"]
    assert found == shard.holding.facts() and found["share"] == [EQUAL * 3 // 2] and sum(found["load"]) > 5
    assert "holding" not in json.loads(_head(plan(12, "prob")))  # whoever has no folder has a state as before


def _head(own: ShardPlan) -> str:
    held = Held()
    played(held, own, a_batch(Random(1), 0, 20), None, None)
    return str(held.head[1])


@pytest.mark.parametrize(("then", "most"), ((6, 9), (40, 60), ({"l": 4, "r": 10}, 21)), ids=str)
def test_a_restart_with_another_memory_scales_the_share(then, most):
    held = Held()
    for number in range(3):
        played(held, plan(12, "prob", **SHARED), a_batch(Random(number), 15 * number, 20), 1.5, None)
    shard, _ = played(held, plan(then, "prob", **SHARED), a_batch(Random(4), 45, 20), None, None)
    assert shard.caps.sum() == most and shard.engine.totals.used <= most


def test_without_a_folder_a_share_stays_as_it_is():
    held, own = Held(), plan(12, "fifo", **SHARED)
    for number in range(3):
        played(held, own, a_batch(Random(number), 15 * number, 20), 0.5, None)
    shard, _ = played(held, replace(own, shared=None), a_batch(Random(5), 45, 20), None, None)
    assert shard.caps.tolist() == [[6]] and json.loads(held.head[1])["holding"]["share"] == [EQUAL // 2]


def test_a_summary_says_what_a_row_takes():
    holding = Holding(Pools.parse("64 KB", ("l", "r")), 2)
    shard = Shard(plan("64 KB", "fifo", **SHARED, overhead=1000))
    assert holding.summary(shard.engine, shard.problem, batch=1, shard=0, shards=2).row == (EQUAL * 256 // 64000 + 1,)
    rows = Shard(plan(1000, "fifo", **SHARED))
    assert rows.summary(7).row == (66,) and rows.summary(7).batch == 7
