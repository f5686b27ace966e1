"""Given rates in a shard: what the simulator keeps by them, over restarts, and tables that are none."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from held_shards import Held, a_batch, plan
from penstock.shard.given_rates import mark_of, read_given

STREAMS = ("l", "r")
RATES = {(side, key): float(rate) for side, rates in (("l", (5, 1, 3, 0)), ("r", (2, 9, 0.5, 4))) for key, rate in zip("abcd", rates)}  # noqa: B905
"""Of `e`, `f` and `g` nothing is known."""


@pytest.mark.parametrize("nearby", (False, True), ids=("from the state", "from a local copy"))
@pytest.mark.parametrize("policy", ("prob", "life", "by value"))
def test_a_shard_keeps_by_given_rates_what_the_simulator_keeps(tmp_path, policy, nearby):
    random, held, weighed = Random(policy), Held(), policy == "by value"
    facts = plan(12, "prob" if weighed else policy, given=read_given(RATES, STREAMS, [pa.string()]), has_importance=weighed)
    facts = replace(facts, options=facts.options | {"stats": "given"})
    if weighed:
        facts = replace(facts, schema=facts.schema.append(pa.field("value", pa.float64())))
    arrivals: list[tuple[Any, ...]] = []
    made: list[tuple[int, int]] = []
    for number in range(8):
        tables = a_batch(random, number * 25, 25)
        for at, side in enumerate(STREAMS):
            worth = np.array([random.choice((1.0, 2.0, 4.0)) for _ in range(len(tables[at]))])
            columns = (tables[at][name].to_pylist() for name in ("time", f"{side}_v", "key0"))
            arrivals += [(time, side, value, key, w) for time, value, key, w in zip(*columns, worth, strict=True)]
            tables[at] = tables[at].append_column("importance", pa.array(worth)) if weighed else tables[at]
        _, result = held.play(facts, tables, tmp_path if nearby else None)
        joined = pa.concat_tables(result.joined)
        made += zip(joined["l_v"].to_pylist(), joined["r_v"].to_pylist(), strict=True)
    arrivals.sort(key=lambda row: row[:3])
    columns = {"stream": [a[1] for a in arrivals], "time": [a[0] for a in arrivals], "key": [a[3] for a in arrivals]}
    columns |= {"importance": [a[4] for a in arrivals]} if weighed else {}
    run = ps.simulate(
        ps.Trace(columns, streams=STREAMS), window=20, memory=12, policy="prob" if weighed else policy, stats="given", given=RATES,
        clock="streams", keep=ps.Keep(outputs=True),
    )  # fmt: skip
    assert run.outputs is not None and run.n_shed > 0
    assert Counter(made) == Counter((arrivals[left][2], arrivals[right][2]) for _, left, right in run.outputs.tolist())


def test_a_key_of_several_columns_is_a_tuple_and_the_order_of_a_table_does_not_matter():
    rates = {("r", (2, "x")): 1, ("l", (10, "y")): 2}
    table = read_given(rates, STREAMS, [pa.int64(), pa.string()])
    assert table.to_pylist() == [
        {"key0": 10, "key1": "y", "rate0": 2.0, "rate1": 0.0},
        {"key0": 2, "key1": "x", "rate0": 0.0, "rate1": 1.0},
    ]
    assert mark_of(table) == mark_of(read_given(dict(reversed(rates.items())), STREAMS, [pa.int64(), pa.string()]))
    assert mark_of(table) != mark_of(read_given(rates | {("l", (2, "x")): 1}, STREAMS, [pa.int64(), pa.string()]))


@pytest.mark.parametrize(
    ("given", "said"),
    (
        ([("l", "a", 2)], r"given must be a table of rates such as \{\(stream, key\): rate\}"),
        ({"a": 2}, r"given must be a table of rates such as \{\(stream, key\): rate\}"),
        ({("x", "a"): 2}, "given must name the streams l, r, got 'x'"),
        ({("l", "a"): -1}, "given must have rates >= 0 and at most 1e[+]60, got -1 for l 'a'"),
        ({("l", ("a", "b")): 1}, r"keys have 1 columns here, got \('a', 'b'\)"),
        ({("l", "a"): 1, ("r", 7): 1}, "keys are of type string here"),
    ),
)
def test_what_is_no_table_of_rates_is_refused(given, said):
    with pytest.raises(ps.PenstockError, match=said):
        read_given(given, STREAMS, [pa.string()])
