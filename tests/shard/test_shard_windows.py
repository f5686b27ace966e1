"""A shard with windows of every kind: what the simulator makes, over a restart with every batch, and nothing lost that is not counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from held_shards import Held, a_batch, clocks_of, plan, table
from penstock.shard.shard import Shard
from strategies import later

WINDOWS: dict[str, Any] = {
    "tumbling": "tumbling:30",
    "landmark": {"l": "landmark:90", "r": 20},
    "changing": "0:30,100:6,180:25",
    "changing, by the instant": "0:30,100:6,180:25",
    "lifetimes": 20,
}


@pytest.mark.parametrize(("lifetime", "said"), ((None, "got null"), (0, "got 0 microseconds"), (-5, "got -5 microseconds")))
def test_a_lifetime_that_is_none_fails_the_batch(lifetime, said):
    facts = plan(15, "fifo", lifetimes=(True, False))
    tables = [table("l", [(5, "a"), (6, "a")]).append_column("lifetime", pa.array([3, lifetime], pa.int64())), table("r", [(5, "a")])]
    with pytest.raises(ps.PenstockError, match=f"lifetime of stream l must be at least 1 microsecond, and below .*, {said}"):
        Shard(facts).play(tables, clocks_of(tables))


def test_rows_before_a_landmark_meet_nobody_and_count_nowhere():
    facts = plan(15, "prob")
    facts = replace(facts, options=facts.options | {"window": "landmark:10", "half_life": 20})
    tables = [table("l", [(5, "a"), (5, "b"), (12, "a")]), table("r", [(5, "a"), (11, "a"), (13, "b")])]
    result = Shard(facts).play(tables, clocks_of(tables))
    assert pa.concat_tables(result.joined).to_pylist() == [{"k": "a", "l_v": 12, "r_v": 11}]
    assert (result.counts["n_late"], result.counts["retained_rows"], result.counts["lost"]) == (0, 3, 0)


POLICIES = ("prob", later("fifo"), later("learned"), later("life"), later("dgl"))


@pytest.mark.parametrize("nearby", (False, True), ids=("from the state", "from a local copy"))
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", WINDOWS)
def test_a_shard_joins_like_the_simulator_and_counts_what_it_loses(tmp_path, kind, policy, nearby):
    if kind == "landmark" and policy in ("life", "dgl"):
        pytest.skip("these need a window that tuples leave")
    window, random, held = WINDOWS[kind], Random(f"{kind} {policy}"), Held()
    weighed, mortal = policy == "dgl", kind == "lifetimes"
    options = {"half_life": 20, "switches": {"varying-window": "instant"} if "instant" in kind else {}}
    lives: dict[tuple[str, int], int] = {}
    arrivals: list[tuple[int, str, int, str]] = []
    made: list[tuple[int, int]] = []
    facts = plan(15, policy)
    facts = replace(facts, options=facts.options | options | {"window": window}, lifetimes=(True, False) if mortal else ())
    if weighed:
        facts = replace(facts, has_importance=True, schema=facts.schema.append(pa.field("value", pa.float64())))
    for number in range(10):
        tables = a_batch(random, number * 25, 25)
        for at, side in enumerate("lr"):
            came = tables[at]
            times, values = came["time"].to_pylist(), came[f"{side}_v"].to_pylist()
            arrivals += zip(times, side * len(times), values, came["key0"].to_pylist(), strict=True)
            own = [random.randrange(1, 40) if side == "l" else 20 for _ in times]
            lives |= {(side, value): life for value, life in zip(values, own, strict=True)}
            came = came.append_column("lifetime", pa.array(own)) if mortal and side == "l" else came
            tables[at] = came.append_column("importance", pa.array(np.ones(len(times)))) if weighed else came
        _, result = held.play(facts, tables, tmp_path if nearby else None)
        joined = pa.concat_tables(result.joined)
        made += zip(joined["l_v"].to_pylist(), joined["r_v"].to_pylist(), strict=True)
        assert result.counts["retained_rows"] <= 15
    arrivals.sort(key=lambda row: row[:3])
    columns = {"stream": [s for _, s, _, _ in arrivals], "time": [t for t, *_ in arrivals], "key": [k for *_, k in arrivals]}
    columns |= {"lifetime": [lives[s, v] for _, s, v, _ in arrivals]} if mortal else {}
    columns |= {"importance": [1.0] * len(arrivals)} if weighed else {}
    trace = ps.Trace(columns, streams=("l", "r"))
    told = {"window": window, "stats": "decayed", "clock": "streams", "keep": ps.Keep(outputs=True), **options}
    run, whole = ps.simulate(trace, memory=15, policy=policy, **told), ps.exact(trace, **told)
    assert run.outputs is not None and run.n_shed > 0
    assert Counter(made) == Counter((arrivals[left][2], arrivals[right][2]) for _, left, right in run.outputs.tolist())
    assert result.counts["total_n_output"] == run.n_output < whole.n_output
    assert result.counts["total_lost"] == whole.n_output - run.n_output
