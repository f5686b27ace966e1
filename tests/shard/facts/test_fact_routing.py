"""Where rows go in a join through a relation: every output is made in exactly one shard, and a row without a fact goes nowhere."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.facts import Through
from penstock.core.window import NEVER
from penstock.shard.cells import SHARD
from penstock.shard.facts import values as values_module
from penstock.shard.facts.routing import Routing, marked, unmarked
from penstock.shard.facts.sent import SentFacts
from penstock.shard.facts.values import Values
from strategies import examples

DAY = dt.date(2026, 1, 1)
KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "whole": (pa.int64(), [-(1 << 62), -1, 0, 7, 1 << 62]),
    "narrow": (pa.int16(), [-1, 0, 7, 300]),
    "text": (pa.string(), ["", "a", "b", "ab"]),
    "double": (pa.float64(), [0.0, 0.5, -1e300, float("inf")]),
    "date": (pa.date32(), [DAY, DAY + dt.timedelta(days=1), dt.date(1900, 1, 1)]),
    "yes": (pa.bool_(), [True, False]),
}
TIMES = st.integers(0, 8)


@st.composite
def linked(draw: Any, links: int = 2) -> tuple[SentFacts, list[tuple[Any, ...]], list[list[tuple[int, Any]]]]:
    """Facts (values, begin, end), what is sent of them, and the rows of each stream (time, value)."""
    kinds = [KINDS[draw(st.sampled_from(sorted(KINDS)))] for _ in range(links)]
    fact = st.tuples(*(st.sampled_from(pool) for _, pool in kinds), TIMES | st.just(-NEVER), TIMES | st.just(NEVER))
    facts = draw(st.lists(fact, max_size=12))
    columns = {f"key{number}": pa.array([one[number] for one in facts], kind) for number, (kind, _) in enumerate(kinds)}
    columns |= {name: pa.array([one[at] for one in facts], pa.int64()) for name, at in (("begin", links), ("end", links + 1))}
    names = "RST"[:links]
    through = [Through.parse("f", [f"{name}.x = a{number}" for number, name in enumerate(names)], names)]
    rows = [draw(st.lists(st.tuples(TIMES, st.none() | st.sampled_from(pool)), max_size=8)) for _, pool in kinds]
    return SentFacts.of(through, [pa.table(columns)]), facts, rows


def batch_of(sent: SentFacts, stream: int, rows: list[tuple[int, Any]]) -> pa.RecordBatch:
    kind = sent.open().distinct[stream].type
    values = pa.array([value for _, value in rows], kind)
    return pa.record_batch({"time": pa.array([t for t, _ in rows], pa.int64()), f"key{stream}": values, "v": np.arange(len(rows))})


def routed(sent: SentFacts, stream: int, rows: list[tuple[int, Any]], shards: int) -> tuple[dict[int, set[int]], int]:
    """The shards of each row, and how many were filtered."""
    found, filtered = Routing(sent, stream, shards)(batch_of(sent, stream, rows), np.array([t for t, _ in rows], np.int64))
    places = list(zip(found["v"].to_pylist(), found[SHARD].to_pylist(), strict=True))
    assert len(set(places)) == len(places)
    return {row: {shard for other, shard in places if other == row} for row, _ in places}, filtered


@pytest.mark.parametrize("links", (2, 3))
@examples(1)
@given(data=st.data(), shards=st.integers(1, 4))
def test_every_output_is_made_in_exactly_one_shard(links, data, shards):
    sent, facts, rows = data.draw(linked(links))
    places, filtered = zip(*(routed(sent, stream, own, shards) for stream, own in enumerate(rows)), strict=True)
    active = [
        [{n for n, one in enumerate(facts) if one[stream] == value and value is not None and one[-2] <= t < one[-1]} for t, value in own]
        for stream, own in enumerate(rows)
    ]
    for stream, own in enumerate(active):
        assert set(places[stream]) == {row for row, some in enumerate(own) if some}
        assert filtered[stream] == sum(not some for some in own)
    assert all(len(own) == 1 for own in places[0].values())
    of_shard = [Counter(one.numbers.tolist()) for shard in range(shards) for one in sent.open().facts(shard, shards)]
    assert sum(of_shard, Counter()) == Counter(range(len(facts)))
    for members in product(*(range(len(own)) for own in rows)):
        for fact in set.intersection(*(active[stream][row] for stream, row in enumerate(members))):
            met = set.intersection(*(places[stream][row] for stream, row in enumerate(members)))
            assert len(met) == 1 and fact in of_shard[met.pop()]


@examples(1)
@given(data=st.data(), shards=st.integers(1, 3))
def test_rows_of_a_batch_query_are_marked_and_counted_alike(data, shards):
    sent, _, (rows, _) = data.draw(linked())
    batch = batch_of(sent, 0, rows)
    batch = batch.set_column(0, "time", pa.array([None if t == 8 else t for t, _ in rows], pa.timestamp("us", "UTC")))
    timed = batch.filter(batch["time"].is_valid())
    wanted, filtered = Routing(sent, 0, shards)(timed, np.asarray(timed["time"].cast(pa.int64())))
    found = pa.Table.from_batches(list(marked(Routing(sent, 0, shards), "time", batch.schema.names)(iter([batch]))))
    assert found.column_names[0] == SHARD and found.filter(found["time"].is_null()).num_rows == batch["time"].null_count
    kept, counted = unmarked(found.filter(found["time"].is_valid()).combine_chunks().to_batches()[0] if len(timed) else wanted, np.empty(0))
    assert counted == filtered and kept.select(wanted.schema.names).to_pylist() == wanted.to_pylist()


def test_values_whose_hashes_are_the_same_keep_numbers_of_their_own(monkeypatch):
    monkeypatch.setattr(values_module, "hashed", lambda names: np.full(len(names), 7))
    zones = Values(pa.array(["a", "b", "c"]))
    assert zones.numbers(pa.array(["c", "d", None, "a", "b"])).tolist() == [2, -1, -1, 0, 1]
