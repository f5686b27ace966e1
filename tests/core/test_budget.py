"""Budgets in rows and bytes, and what is no memory."""

from __future__ import annotations

import math

import numpy as np
import pytest

import penstock as ps
from nouns import STREAMS, refused, trace
from penstock.core.budget import TUPLE_OVERHEAD, Pools


def test_budgets_in_rows():
    assert Pools.parse(5, STREAMS).caps.tolist() == [[5]]
    assert Pools.parse("5", STREAMS).pool.tolist() == [0, 0]
    assert Pools.parse(np.int64(7), STREAMS, allocation="fixed").caps.tolist() == [[3, 3]]
    assert Pools.parse(11, (*STREAMS, "T"), allocation="fixed").caps.tolist() == [[3, 3, 3]]
    assert Pools.parse({"S": 2, "R": 4}, STREAMS).caps.tolist() == [[4, 2]]
    by_name = Pools.parse("R=4,S=2", STREAMS)
    assert (by_name.caps.tolist(), by_name.pool.tolist(), by_name.in_bytes) == ([[4, 2]], [0, 1], False)


def test_budgets_over_time():
    for spec in ("0:9,10:3,20:6", [(0, 9), (10, 3), (20, 6)]):
        budget = Pools.parse(spec, STREAMS)
        assert (budget.times.tolist(), budget.caps.tolist(), budget.most) == ([0, 10, 20], [[9], [3], [6]], 9)
    assert Pools.parse("0:9,10:3", STREAMS, allocation="fixed").caps.tolist() == [[4, 4], [1, 1]]


def test_budgets_by_stream_over_time():
    for spec in ("R=5:9,10:3,S=4", {"R": [(5, 9), (10, 3)], "S": 4}, {"R": "5:9,10:3", "S": [(0, 4)]}):
        budget = Pools.parse(spec, STREAMS)
        assert (budget.times.tolist(), budget.caps.tolist(), budget.most) == ([5, 10], [[9, 4], [3, 4]], 13)
        assert (budget.at(0).tolist(), budget.pool.tolist()) == ([9, 4], [0, 1])
    both = Pools.parse({"R": [(5, 9), (10, 3)], "S": [(7, 1), (10, 2), (20, 8)]}, STREAMS)
    assert both.times.tolist() == [5, 7, 10, 20] and both.caps.tolist() == [[9, 1], [9, 1], [3, 2], [3, 8]]
    # A tuple of R each tick, and one of S: each stream sheds by what it may hold then.
    rows = trace(stream=list("RS" * 8), time=[tick for tick in range(8) for _ in "RS"], key=list(range(16)))
    run = ps.simulate(rows, window=99, memory="R=0:4,5:2,S=0:1,4:3", policy="fifo", keep=ps.Keep(series=True))
    assert run.series[:, 1].tolist() == [1, 2, 3, 4, 4, 2, 2, 2]
    assert run.series[:, 2].tolist() == [1, 1, 1, 1, 2, 3, 3, 3]


@pytest.mark.parametrize(
    ("text", "size"),
    [("1000 B", 1000), ("1KB", 1000), ("1 kib", 1024), ("1.5 MB", 1_500_000), ("2MiB", 2 << 20), ("1 GB", 10**9), ("3GiB", 3 << 30)],
)
def test_budgets_in_bytes(text, size):
    budget = Pools.parse(text, STREAMS)
    assert (budget.most, budget.in_bytes) == (size, True)


@pytest.mark.parametrize("stepwise", (False, True), ids=("compiled", "stepwise"))
def test_a_tuple_weighs_its_size_and_an_overhead(stepwise):
    # Sizes 10, 20, 30, 40: the first three fit exactly, the fourth drives out the first two.
    sized = trace(key=[1, 2, 3, 4], time=[0, 1, 2, 3], size=[10, 20, 30, 40])
    options = {"window": 9, "policy": "fifo", "keep": ps.Keep(sheds=True), "stepwise": stepwise}
    run = ps.simulate(sized, memory=f"{60 + 3 * TUPLE_OVERHEAD} B", **options)
    assert (run.sheds.tolist(), run.peak_memory) == ([0, 1], 60 + 3 * TUPLE_OVERHEAD)
    assert ps.simulate(sized, memory=f"{100 + 4 * TUPLE_OVERHEAD} B", **options).n_shed == 0
    assert ps.simulate(sized, memory="1 B", **options).n_shed == 4


def test_a_budget_in_bytes_needs_sizes():
    with refused("memory in bytes needs a column 'size' in the trace; give a number of rows instead"):
        ps.simulate(trace(), window=2, memory="1 KB")


@pytest.mark.parametrize(
    "memory",
    (0, -3, "-3", 2.5, "2.5", "many", math.nan, math.inf, True, None, "", "0 B", "5 EB", "-1 KB", 10**30, [(0, 0)], "0:5,9:0"),
)
def test_a_memory_that_is_none_says_what_would_be_one(memory):
    with refused('memory must be a positive number of rows or a size such as "512 MB", got '):
        ps.simulate(trace(), window=2, memory=memory)


def test_memory_by_stream_says_whose_is_wrong():
    with refused("memory of S must be a positive number of rows"):
        ps.simulate(trace(), window=2, memory={"R": 1, "S": 0})
    with refused("memory must name each of the streams R, S, got R, T"):
        ps.simulate(trace(), window=2, memory="R=1,T=2")
    with refused("memory of S over time must have rising times"):
        ps.simulate(trace(), window=2, memory={"R": 1, "S": [(5, 1), (5, 2)]})
    with refused("memory must be in rows or in bytes for all streams alike"):
        ps.simulate(trace(size=[1] * 4), window=2, memory={"R": 1, "S": "1 KB"})


@pytest.mark.parametrize("memory", ([], [(5, 1), (0, 2)], [(0, 1), (0, 2)], "5:1,0:2"))
def test_memory_over_time_has_rising_times(memory):
    with refused("memory over time must have rising times, got"):
        ps.simulate(trace(), window=2, memory=memory)


@pytest.mark.parametrize("memory", ([("soon", 4)], [(0, 4, 5)], [0, 4]))
def test_memory_over_time_is_made_of_pairs(memory):
    with refused("memory .*must be .*, got"):
        ps.simulate(trace(), window=2, memory=memory)


def test_memory_over_time_is_in_rows_or_in_bytes():
    with refused("memory"):
        ps.simulate(trace(size=[1] * 4), window=2, memory=[(0, "1 KB"), (5, 100)])


def test_fixed_allocation_needs_a_row_for_each_stream():
    with refused("memory must be at least 2 rows for fixed allocation to 2 streams, got 1"):
        ps.simulate(trace(), window=2, memory=1, allocation="fixed")
