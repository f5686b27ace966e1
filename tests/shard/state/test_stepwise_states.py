"""Windows of each key's rows in a shard; and a state that the stepwise engine wrote, which it plays on, where a new one is compiled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import oracle
from held_shards import Held, a_batch, plan
from penstock.core.errors import PenstockError
from penstock.shard.meter import meter
from penstock.shard.shard import Shard
from penstock.shard.shard_ids import shard_ids
from penstock.shard.shard_plan import ShardPlan
from penstock.shard.state.state_rows import whole

ROWS = 2
POLICIES = ("fifo", "prob", "life", "learned")


def planned(policy: str, memory: int = 15) -> ShardPlan:
    own = plan(memory, policy)
    return replace(own, options=own.options | {"window": f"rows_per_key:{ROWS}", "half_life": 32})


@contextmanager
def earlier_release() -> Iterator[None]:
    """Where such windows were played step by step."""
    opened, shadow = Shard._open, meter.open_shadow
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Shard, "_open", lambda self, policy, **_: opened(self, policy, stepwise=True))
        patch.setattr(meter, "open_shadow", partial(shadow, stepwise=True))
        yield


def in_batches(seed: str) -> list[list[pa.Table]]:
    random = Random(seed)
    return [a_batch(random, number * 25, 25) for number in range(8)]


def played(policy: str, tables: list[list[pa.Table]], nearby: Path | None, earlier: int = 0, memories: tuple[int, ...] = (15,)) -> Any:
    """All batches, the first `earlier` of them by an earlier release: the joined rows of each, and the last counts."""
    held, made = Held(), []
    for number, batch in enumerate(tables):
        told = planned(policy, memories[min(number, len(memories) - 1)])
        if number < earlier:
            with earlier_release():
                shard, result = held.play(told, batch, nearby)
        else:
            shard, result = held.play(told, batch, nearby)
        assert shard.engine.is_compiled == (earlier == 0)
        assert shard.meter.shadow is None or shard.meter.shadow.is_compiled or earlier
        joined = pa.concat_tables(result.joined)
        made.append(sorted(zip(joined["l_v"].to_pylist(), joined["r_v"].to_pylist(), strict=True)))
    return made, result.counts


def exact(tables: list[list[pa.Table]]) -> Counter[Any]:
    """The exact result from the oracle."""
    rows = sorted(
        (time, stream, order, key, value)
        for batch in tables
        for stream, one in enumerate(batch)
        for time, order, key, value in zip(*(one[name].to_pylist() for name in ("time", "order", "key0", f"{'lr'[stream]}_v")), strict=True)
    )
    found = oracle.exact([oracle.Row(stream, time, key) for time, stream, _, key, _ in rows], 2, [("rows_per_key", ROWS)] * 2)
    return Counter((rows[left][4], rows[right][4]) for _, (left, right) in found)


@pytest.mark.wide
@pytest.mark.parametrize("nearby", (False, True), ids=("from the state", "from a local copy"))
@pytest.mark.parametrize("policy", POLICIES)
def test_it_goes_on_as_if_nothing_had_changed(tmp_path, policy, nearby):
    tables = in_batches(policy)
    wanted, counts = played(policy, tables, tmp_path / "new" if nearby else None)
    for earlier in (1, 4):
        made, own = played(policy, tables, tmp_path / str(earlier) if nearby else None, earlier)
        assert made == wanted
        assert (own["total_lost"], own["total_n_shed"], own["total_n_expired"]) == tuple(
            counts[name] for name in ("total_lost", "total_n_shed", "total_n_expired")
        )
    everything = exact(tables)
    assert not Counter(row for batch in wanted for row in batch) - everything and counts["total_n_shed"] > 0
    assert counts["total_lost"] == everything.total() - counts["total_n_output"] > 0


@pytest.mark.parametrize("nearby", (False, True), ids=("from the state", "from a local copy"))
def test_under_another_memory_too(tmp_path, nearby):
    tables, memories = in_batches("memories"), (9, 9, 9, 12, 12, 5)
    wanted, counts = played("prob", tables, tmp_path / "new" if nearby else None, memories=memories)
    made, own = played("prob", tables, tmp_path / "old" if nearby else None, 3, memories)
    assert made == wanted and own["total_lost"] == counts["total_lost"] > 0


def test_it_is_not_divided_anew():
    reshard = pytest.importorskip("penstock.spark.reshard.reshard")
    own = replace(planned("fifo"), shards=(int(shard_ids(1)[0]),))
    with earlier_release():
        head, cells = whole(Shard(own))
    rows = {"head": [((own.shards[0],), None, head)], "cells": [((own.shards[0],), at, (cell,)) for at, cell in cells.items()]}
    with pytest.raises(PenstockError, match="begun by an earlier release, step by step, and cannot be divided"):
        reshard._rewritten(None, rows, 3)
