"""The ordered index against a sorted list, and statistics of matches against the sums that they estimate."""

from __future__ import annotations

from bisect import bisect_left, insort
from random import Random
from typing import Any

import numpy as np
import pytest

from penstock.core.batch import Batch
from penstock.core.problem import Problem
from penstock.engine.compiled.linked.links import LinkTables, fill, index_sizes
from penstock.engine.compiled.linked.ordered import BLOCK, insert, place_in, remove, room_for, shelf_of, thin
from penstock.engine.compiled.state import ARRAYS, attach, in_one_block
from penstock.statistics.matches import DecayedMatches, drawn
from strategies import COMPILED

Key = tuple[int, float, int]


def opened(items: int) -> tuple[dict[str, Any], Any]:
    """Two empty indexes with room for so many items."""
    linked = LinkTables.of(Problem.of(("R", "S"), window=1, memory=1, predicate="<"))
    arrays = in_one_block(dict.fromkeys(ARRAYS, 1) | index_sizes(linked, 2, items, 1, counted=False))
    memory = attach(arrays)
    fill(arrays, memory, linked, items)
    return arrays, memory


def contents(arrays: dict[str, Any], memory: Any, index: int) -> list[Key]:
    """The entries in order, as the directory leads to them."""
    base = index * int(memory.room)
    found: list[Key] = []
    for shelf in arrays["shelves"][base : base + arrays["indexes"]["shelves"][index]]:
        lines = arrays["entries"][shelf["block"] * BLOCK :][: shelf["length"]]
        assert 0 < len(lines) <= BLOCK and (shelf["cell"], shelf["value"], shelf["row"]) == tuple(lines[0])[:3]
        found += [(int(line["cell"]), float(line["value"]), int(line["row"])) for line in lines]
    return found


@pytest.mark.wide
@pytest.mark.parametrize("few", (1, 3, 1000))
@pytest.mark.parametrize("seed", range(3))
def test_an_index_is_a_sorted_list(few, seed):
    """Filled, thinned out and filled again, with few and with many equal values; two indexes do not meet."""
    random, size = Random(f"{few} {seed}"), 900 if COMPILED else 200
    arrays, memory = opened(size)
    expected: list[list[Key]] = [[], []]
    for step in range(6 * size):
        growing = step % (3 * size) < 2 * size
        index = random.randrange(2)
        mine = expected[index]
        if len(mine) < size and (not mine or random.random() < (0.8 if growing else 0.1)):
            entry = (random.randrange(2), float(random.randrange(few)), step)
            insert(memory, index, *entry, step)
            insort(mine, entry)
        else:
            remove(memory, index, *mine.pop(random.randrange(len(mine))))
        if step % 97 == 0:
            assert contents(arrays, memory, index) == mine
            assert arrays["indexes"]["shelves"][index] <= room_for(len(mine))
        if step % 13 == 0 and mine:
            probe = (random.randrange(2), float(random.randrange(few)), -1)
            shelf = int(shelf_of(memory, index, *probe))
            before = sum(arrays["shelves"]["length"][index * int(memory.room) : shelf]) + int(place_in(memory, shelf, *probe))
            assert before == bisect_left(mine, probe)


@pytest.mark.parametrize("part", (0.0, 0.02, 0.4, 0.9, 1.0))
@pytest.mark.parametrize("few", (3, 1000))
def test_what_is_thinned_out_is_a_sorted_list(few, part):
    """Again and again a part of the items stays, under new numbers, and others come."""
    random, size = Random(f"{few} {part}"), 900 if COMPILED else 200
    arrays, memory = opened(size)
    expected: list[Key] = []
    for _ in range(4):
        for item in range(len(expected), size):
            entry = (random.randrange(2), float(random.randrange(few)), item)
            insert(memory, 0, *entry, item)
            insort(expected, entry)
        kept = np.array([random.random() < part for _ in range(size)])
        number = np.where(kept, np.cumsum(kept) - 1, -1)
        thin(memory, 0, number)
        expected = [(cell, value, int(number[item])) for cell, value, item in expected if kept[item]]
        assert contents(arrays, memory, 0) == expected
        assert arrays["indexes"]["shelves"][0] <= room_for(len(expected))


def test_what_is_drawn_keeps_every_sum_in_expectation():
    random = np.random.default_rng(3)
    stream, values, weight = np.zeros(600, np.int64), np.arange(600)[:, None], random.gamma(0.5, size=600)
    parts = []
    for seed in range(300):
        kept, heavier = drawn(stream, values, np.ones(600), weight, 200, seed)
        assert 95 <= np.count_nonzero(kept) <= 105 and (heavier[kept] >= weight[kept]).all()
        parts.append([heavier[kept & (values[:, 0] % 5 == part)].sum() for part in range(5)])
    true = np.array([weight[values[:, 0] % 5 == part].sum() for part in range(5)])
    error = np.std(parts, axis=0) / np.sqrt(len(parts))
    assert (np.abs(np.mean(parts, axis=0) - true) < 4 * error).all()


@pytest.mark.parametrize("predicate", ("<", "eps:5"))
def test_beyond_their_bound_rates_are_estimates(predicate):
    """With room for a tenth of what comes: within a few standard errors of the sums, and in its bytes."""
    problem = Problem.of(("R", "S"), window=1000, memory=10, predicate=predicate, stats="decayed")
    random, rows = np.random.default_rng(1), 3000 if COMPILED else 400
    stream, time = random.integers(0, 2, rows), np.arange(rows) // 4
    batch = Batch(stream, time, np.arange(rows), values=random.random((rows, 1)) * 100)
    room = 100_000
    bounded, exact = DecayedMatches(problem, room), DecayedMatches(problem)
    estimate, true = bounded.rates(batch, 0)[0], exact.rates(batch, 0)[0]
    partner = np.arange(rows), 1 - stream
    entries = [np.count_nonzero(bounded._entries()[0] == one) for one in (0, 1)]
    assert max(entries) <= bounded.most < rows // 3 and bounded.n_bytes <= room
    late = np.arange(rows) >= rows // 2
    ratio = estimate[partner][late].sum() / true[partner][late].sum()
    assert abs(ratio - 1) < 0.1


@pytest.mark.parametrize("room", (None, 100_000), ids=("exact", "drawn"))
@pytest.mark.parametrize("predicate", ("<", "eps:5", "R.a = S.a, |S.b - T.b| <= 3, R.c < T.c"))
def test_what_is_remembered_goes_on_from_a_snapshot(predicate, room):
    """Entries that were kept are indexed at once and not one by one: the same arrivals match."""
    streams = ("R", "S", "T")[: 2 if len(predicate) < 6 else 3]
    problem = Problem.of(streams, window=300, memory=10, predicate=predicate, stats="decayed")
    random, rows = np.random.default_rng(5), 3000 if COMPILED else 400
    width = 1 if problem.graph is None else problem.graph.slots[-1].stop
    values = random.integers(0, 40, (rows, width)).astype(float)
    values[random.random((rows, width)) < 0.03] = np.nan if width > 1 else 0.0
    batch = Batch(random.integers(0, len(streams), rows), np.arange(rows) // 4, np.arange(rows), values=values)
    kept, whole = DecayedMatches(problem, room), DecayedMatches(problem, room)
    for begin in range(0, rows, rows // 10):
        part = batch.cut(begin, begin + rows // 10)
        state, kept = kept.snapshot(), DecayedMatches(problem, room)
        kept.restore(state)
        assert np.array_equal(kept.snapshot()["drawn"], state["drawn"])
        at = 0
        while at < len(part.time):
            assert kept.age(part, at) == whole.age(part, at)
            (mine, at), (theirs, _) = kept.rates(part, at), whole.rates(part, at)
            np.testing.assert_allclose(mine, theirs, rtol=1e-9)
    assert len(whole._entries()[0]) == len(kept._entries()[0]) > 64
