"""A shard of a join through relations, without Spark: it plays as `ps.simulate` does, goes on from its state, and counts what it loses."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from held_shards import Held
from penstock.core.facts import Through
from penstock.core.window import NEVER
from penstock.shard.cells import UNKNOWN
from penstock.shard.facts import known
from penstock.shard.facts.routing import Routing
from penstock.shard.facts.sent import SentFacts
from penstock.shard.shard_plan import ShardPlan

LINKS = {"f": ["l.k = a", "b = r.k"], "g": ["r.k = a", "b = s.k"]}


def facts_of(random: Random, n: int, weighted: bool) -> dict[str, list[Any]]:
    """Facts that come and go, as columns."""
    columns: dict[str, list[Any]] = {name: [] for name in ("a", "b", "begin", "end", "c")}
    for number in range(n):
        begin = random.choice([None, *range(40)])
        end = random.choice([None, *range(begin or 0, 60)])
        for name, value in zip(columns, (random.choice("pqrs"), random.choice("pqrs"), begin, end, f"c{number}"), strict=True):
            columns[name].append(value)
    return columns | ({"weight": [random.choice([1, 2, 4]) for _ in range(n)]} if weighted else {})


def plan_of(tables: list[dict[str, Any]], streams: str, memory: int, policy: str, weighed: bool) -> ShardPlan:
    names = list(LINKS)[: len(tables)]
    through = [
        Through.parse(name, LINKS[name], streams, weighted="weight" in own) for name, own in zip(names, tables, strict=True)
    ]  # fmt: skip
    sent = []
    for name, own in zip(names, tables, strict=True):
        columns = {"key0": own["a"], "key1": own["b"], f"={name}_c": own["c"]}
        columns |= {at: [none if t is None else t for t in own[at]] for at, none in (("begin", -NEVER), ("end", NEVER))}
        sent.append(pa.table(columns | ({"weight": np.array(own["weight"], np.float64)} if "weight" in own else {})))
    fields = [*((f"{name}_v", pa.int64()) for name in streams), *((f"{name}_c", pa.string()) for name in names)]
    slots = [link.stream for one in through for link in one.links]
    return ShardPlan(
        streams=tuple(streams),
        keys=0,
        payload=tuple((f"{name}_v",) for name in streams),
        options={"window": 12, "memory": memory, "policy": policy, "stats": "decayed"},
        schema=pa.schema([*fields, *([("value", pa.float64())] if weighed else [])]),
        times=("time",) * len(streams),
        has_importance=weighed,
        sent=tuple(tuple(f"key{slot}" for slot, at in enumerate(slots) if at == stream) for stream in range(len(streams))),
        through=SentFacts.of(through, sent),
        route="facts",
    )


def tables_of(plan: ShardPlan, rows: list[dict[str, Any]]) -> list[pa.Table]:
    """Rows of one batch as they come to the shard."""
    tables = []
    for stream, name in enumerate(plan.streams):
        mine = [row for row in rows if row["stream"] == name]
        columns: dict[str, Any] = {"time": pa.array([row["time"] for row in mine], pa.int64()), "order": [row["row"] for row in mine]}
        columns |= {key: pa.array([row["k"] for row in mine], pa.string()) for key in plan.sent[stream]}
        columns |= {"importance": pa.array([row["importance"] for row in mine], pa.float64())} if plan.has_importance else {}
        columns |= {f"{name}_v": pa.array([row["row"] for row in mine], pa.int64())}
        batch = pa.record_batch(columns)
        assert plan.through is not None
        routed, _ = Routing(plan.through, stream, 1)(batch, np.asarray(batch["time"]))
        tables.append(pa.Table.from_batches([routed]).drop_columns("shard"))
    return tables


def trace_of(rows: list[dict[str, Any]], streams: str, weighed: bool) -> ps.Trace:
    names = ("stream", "time", "k", *(["importance"] if weighed else []))
    return ps.Trace({name: [row[name] for row in rows] for name in names}, key="k", streams=list(streams))


def rows_of(random: Random, streams: str, n: int = 160) -> list[dict[str, Any]]:
    """Rows of whole times in their order."""
    times = sorted(random.randrange(60) for _ in range(n))
    rows: list[dict[str, Any]] = [{"stream": random.choice(streams), "time": t, "k": random.choice("pqrst")} for t in times]
    rows = [row | {"importance": float(random.randrange(1, 9))} for row in rows]
    return sorted(rows, key=lambda row: (row["time"], row["stream"]))


@pytest.mark.parametrize(("policy", "weighed", "streams"), [("prob", False, "lr"), ("dimpprob", True, "lr"), ("prob", False, "lrs")])
@pytest.mark.parametrize("seed", range(2))
def test_a_shard_plays_as_the_simulator_does_and_counts_what_it_loses(policy, weighed, streams, seed, monkeypatch, tmp_path):
    monkeypatch.setattr(known, "_FEW", seed * 1000)  # in one of two runs it is told the facts in use only
    random = Random(f"{policy} {streams} {seed}")
    tables = [facts_of(random, 10, weighed) for _ in streams[1:]]
    rows = rows_of(random, streams)
    through = [ps.relation(own, LINKS[name], columns=["c"], name=name) for name, own in zip(LINKS, tables, strict=False)]
    common: dict[str, Any] = {"window": 12, "clock": "streams", "stats": "decayed", "through": through, "keep": ps.Keep(outputs=True)}
    filtered = ps.exact(trace_of(rows, streams, weighed), **common | {"keep": ps.Keep(filtered=True)}).filtered
    rows = [row for number, row in enumerate(rows) if number not in set(filtered.tolist())]  # no shard hears of others within a batch
    rows = [row | {"row": number} for number, row in enumerate(rows)]
    trace = trace_of(rows, streams, weighed)
    run = ps.simulate(trace, memory=8, policy=policy, **common)
    exact = ps.simulate(trace, memory=1000, policy="fifo", **common)
    assert run.n_shed and run.n_output < exact.n_output

    plan = plan_of(tables, streams, 8, policy, weighed)
    held, made, lost = Held(), Counter(), 0.0
    cuts = [0, 20, 21, 40, 61]
    for begin, end in pairwise(cuts):
        now = [row for row in rows if begin <= row["time"] < end]
        clocks = np.array([max((row["time"] for row in now if row["stream"] == name), default=UNKNOWN) for name in streams])
        shard, result = held.play(plan, tables_of(plan, now), tmp_path if seed else None, clocks)
        for joined in result.joined:
            names = [*(f"{name}_v" for name in streams), *(f"{name}_c" for name, _ in zip(LINKS, tables, strict=False))]
            made += Counter(zip(*(joined[name].to_pylist() for name in names), strict=True))
        lost += result.counts["lost"]
    n = len(streams)
    wanted = Counter(
        (*line[1 : 1 + n], *(own["c"][fact] for own, fact in zip(tables, line[1 + n :], strict=True))) for line in run.outputs.tolist()
    )
    assert made == wanted
    totals = shard.engine.totals
    assert (totals.n_shed, totals.value) == (run.n_shed, run.value)
    assert totals.n_output + lost == exact.n_output


@pytest.mark.parametrize(("streams", "ghosts"), [("lr", 10**6), ("lrs", 10**6), ("lr", 5), ("lrs", 5)])
def test_what_late_rows_and_shed_tuples_would_have_made_is_lost(streams, ghosts, monkeypatch):
    """A row that breaks its promise may miss tuples that left because their facts had ended, and not their windows."""
    monkeypatch.setattr(known, "_FEW", 0)
    for seed in range(2):
        random = Random(f"late {streams} {seed}")
        tables = [facts_of(random, 14, weighted=True) for _ in streams[1:]]
        rows = [row | {"row": number} for number, row in enumerate(rows_of(random, streams))]
        through = [ps.relation(own, LINKS[name], columns=["c"], name=name) for name, own in zip(LINKS, tables, strict=False)]
        exact = ps.exact(trace_of(rows, streams, weighed=True), window=12, through=through)
        late = [row["time"] + (random.randrange(30) if random.random() < 0.3 else 0) for row in rows]  # when they come
        plan = replace(plan_of(tables, streams, 20, "dimpprob", weighed=True), ghosts=ghosts)
        held, lost, lost_value, estimated = Held(), 0.0, 0.0, 0.0
        for begin, end in pairwise((0, 15, 30, 45, 90)):
            now = [row for row, at in zip(rows, late, strict=True) if begin <= at < end]
            clocks = np.array([max((row["time"] for row in now if row["stream"] == name), default=UNKNOWN) for name in streams])
            shard, result = held.play(plan, tables_of(plan, now), None, clocks)
            lost, lost_value = lost + result.counts["lost"], lost_value + result.counts["lost_value"]
            estimated += result.counts["estimated"]
        totals = shard.engine.totals
        assert lost and totals.n_shed and bool(estimated) == (ghosts == 5)
        if not estimated:
            assert (totals.n_output + lost, totals.value + lost_value) == (exact.n_output, exact.value)
