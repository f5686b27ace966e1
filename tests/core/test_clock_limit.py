"""Rows that are ahead: the rule against a slow twin, and in the simulator."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
import penstock as ps
from penstock.core.clock_limit import Front, Limit, counts_by_cell, read_limit
from penstock.core.trace import LIMIT
from penstock.simulator.rearranged import order_of_play

TIMES = st.integers(0, 3000) | st.integers(0, 60_000) | st.sampled_from((LIMIT, -LIMIT))
BATCHES = st.lists(st.lists(TIMES, max_size=40), min_size=1, max_size=12)


@given(BATCHES, st.sampled_from((1, 3, 40, 400)), st.none() | st.integers(0, 40_000))
def test_the_rule_is_that_of_its_slow_twin(batches, length, stamp):
    limit, front, twin = Limit(length), Front(), oracle.Ahead(length)
    for number, times in enumerate(batches):
        now = None if stamp is None else stamp + 100 * number
        front.advance(counts_by_cell(np.array(times, np.int64), limit), limit, now)
        asked = sorted({time for batch in batches for time in batch})
        plays = front.admits(limit.cells(np.array(asked, np.int64)), limit, now)
        assert plays.tolist() == twin.plays(times, asked, now)


@given(BATCHES, st.integers(1, 400), st.integers(1, 5))
def test_it_does_not_matter_how_tasks_divide_the_rows(batches, length, tasks):
    limit, one, several = Limit(length), Front(), Front()
    for times in batches:
        one.advance(counts_by_cell(np.array(times, np.int64), limit), limit)
        several.advance(np.concatenate([counts_by_cell(np.array(times[task::tasks], np.int64), limit) for task in range(tasks)]), limit)
        assert one.cell == several.cell and one.total == several.total
        assert one.recent.tolist() == several.recent.tolist()


CASES: dict[str, tuple[list[list[int]], list[int]]] = {
    "one stray": ([[1, 2, 3], [4, 9999, 5], [6, 7]], [9999]),
    "two strays of one time": ([[1, 2, 3], [4, 9999, 9999, 5], [6, 7]], [9999, 9999]),
    "strays scattered over many batches": (
        [[t, 5000 + 700 * t] if t % 9 == 0 else [t] * 60 for t in range(100)],
        [5000 + 6300 * n for n in range(12)],
    ),
    "a gap in a backfill": ([list(range(50)), list(range(5000, 5050)), [5100]], []),
    "a gap within a batch": ([[*range(50), *range(5000, 5050)], [5100]], []),
    "a long batch": ([list(range(0, 50_000, 90))], []),
    "steps below the limit": ([[300 * number] for number in range(30)], []),
    "a stray that comes first": ([[9999], [1, 2, 3, 4], [5, 6]], []),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_who_waits_to_the_end(case):
    batches, wanted = CASES[case]
    limit, front, waiting = Limit(400), Front(), []
    for times in batches:
        front.advance(counts_by_cell(np.array(times), limit), limit)
        waiting = [t for t in waiting if not front.releases(limit.cells(np.array([t])), limit)[0]]
        waiting += [t for t in times if not front.admits(limit.cells(np.array([t])), limit)[0]]
    assert sorted(waiting)[: len(wanted)] == wanted[: len(waiting)] and bool(waiting) == bool(wanted)


def test_what_is_near_the_batchs_own_timestamp_is_live_and_what_is_beyond_needs_half_of_all_rows():
    limit, front = Limit(400), Front()
    front.advance(counts_by_cell(np.array([1, 2, 3]), limit), limit, 1_000_000)
    live, future = np.array([999_900]), np.array([2_000_000])
    front.advance(counts_by_cell(np.array([999_900]), limit), limit, 1_000_000)  # after a gap, sparse, and live: it does not wait
    assert front.admits(limit.cells(live), limit, 1_000_000).all()
    for _ in range(20):
        front.advance(counts_by_cell(np.array([4, 5, 6, 7, 2_000_000]), limit), limit, 1_000_000)
        assert not front.admits(limit.cells(future), limit, 1_000_000).any()
    front.advance(counts_by_cell(np.full(10, 2_000_000), limit), limit, 1_000_000)
    assert front.admits(limit.cells(future), limit, 1_000_000).all()


def test_a_limit_is_read_or_refused():
    assert read_limit(None) is None and read_limit(("10 seconds", "drop")) == Limit(10_000_000, True)
    for wrong, said in (
        ("soon", 'ahead must be a positive number of ticks or a duration such as "2 days", "none", or a length and "wait" or "drop"'),
        ("rows:5", "or a length and .*got 'rows:5'"),
        ((5, "forget"), "action of ahead must be"),
        ((1, 2, 3), "ahead must be"),
        (0, "ahead must"),
    ):
        with pytest.raises(ps.PenstockError, match=said):
            read_limit(wrong)


# ------------------------------------------------------------------------------------------------------------- simulator


def a_trace(stray: bool, both: bool = False) -> ps.Trace:
    random = Random(5)
    found = [(side, t, random.choice("abc")) for t in range(300) for side in "RS"]
    if stray:
        found[200:200] = [("R", 1 << 50, "a"), *([("S", 1 << 55, "a")] if both else [])]
    columns = zip(*found, strict=True)
    return ps.Trace(dict(zip(("stream", "time", "key"), map(list, columns), strict=True)), streams=("R", "S"))


@pytest.mark.parametrize("both", (False, True))
@pytest.mark.parametrize("stepwise", (False, True))
def test_the_simulator_has_the_guard_where_asked(both, stepwise):
    options: dict[str, Any] = {"window": 20, "memory": 30, "policy": "fifo", "clock": "streams", "stepwise": stepwise}
    clean = ps.simulate(a_trace(False), **options, keep=ps.Keep(outputs=True))
    poisoned = ps.simulate(a_trace(True, both), **options)
    guarded = ps.simulate(a_trace(True, both), **options, ahead=100, keep=ps.Keep(outputs=True, sheds=True, retained=True))
    dropped = ps.simulate(a_trace(True, both), **options, ahead=(100, "drop"))
    assert poisoned.n_ahead is None and (not both or poisoned.n_output < clean.n_output)
    assert guarded.n_ahead == dropped.n_ahead == 1 + both and guarded.n_late == 0
    assert guarded.n_output == dropped.n_output == clean.n_output
    assert guarded.n_input == clean.n_input + 1 + both == dropped.n_input + 1 + both
    moved = np.array([row if row < 200 else row + 1 + both for row in range(600)])
    assert guarded.outputs is not None and clean.outputs is not None
    assert guarded.outputs[:, 1:].tolist() == moved[clean.outputs[:, 1:]].tolist()


@given(st.lists(TIMES, min_size=1, max_size=600), st.integers(1, 400))
def test_all_rows_of_a_trace_are_played_once(times, length):
    order, n_ahead = order_of_play(np.array(times, np.int64), Limit(length))
    assert sorted(order.tolist()) == list(range(len(times))) and 0 <= n_ahead <= len(times)
    kept, gone = order_of_play(np.array(times, np.int64), Limit(length, drop=True))
    assert len(kept) + gone == len(times) and len(set(kept.tolist())) == len(kept)


@pytest.mark.parametrize("policy", ps.POLICIES)
@pytest.mark.parametrize("stepwise", (False, True))
def test_the_largest_times_do_no_harm_in_the_simulator(policy, stepwise):
    """Sums with windows, ages and decayed counts stay within 64 bits: the pairs of either end are found, and no others."""
    columns = {"stream": ["R", "S"] * 3, "time": [-LIMIT, -LIMIT + 5, 0, 5, LIMIT - 5, LIMIT], "key": ["a"] * 6}
    for clock in ("global", "streams"):
        run = ps.simulate(ps.Trace(columns), window=10, memory=4, policy=policy, stats="decayed", clock=clock, stepwise=stepwise)
        assert run.n_output == 3
