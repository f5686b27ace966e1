"""The engines against the oracle, one option at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
import penstock as ps
from agreement import PREDICATES, agree
from oracle import Row
from strategies import (
    BOUNDED,
    DETERMINISTIC_ON_STATS,
    NO_WINDOW,
    PLAYED_WINDOW,
    SCHEDULE,
    SWITCHES,
    TIME,
    WINDOWS,
    Case,
    cases,
    examples,
    memories,
)

NUMBERS = st.none() | st.sampled_from((0.0, -0.0, 0.5, 1.0, 2.5, float("nan")))


POINTS = st.none() | st.tuples(*[st.none() | st.integers(0, 4)] * 2)


@pytest.mark.parametrize("kind", WINDOWS)
@examples(2)
@given(data=st.data())
def test_windows_of_each_kind(kind, data):
    agree(data.draw(cases(windows=WINDOWS[kind])))


@examples(4)
@given(cases(windows=PLAYED_WINDOW))
def test_another_window_for_each_stream(case):
    agree(case)


@examples(2)
@given(cases(windows=SCHEDULE, switches=st.just({"varying-window": "instant"})))
def test_a_window_that_changes_for_tuples_that_are_there_already(case):
    agree(case)


@examples(4)
@given(cases(windows=BOUNDED | NO_WINDOW, lifetimes=st.integers(1, 9)))
def test_lifetimes(case):
    agree(case)


@examples(4)
@given(cases(memory=memories))
def test_memory_that_changes_or_is_given_by_stream(case):
    agree(case)


@examples(4)
@given(cases(windows=BOUNDED, switches=SWITCHES))
def test_switches(case):
    agree(case)


@examples(4)
@given(cases(predicates=PREDICATES))
def test_predicates_on_whole_numbers(case):
    agree(case)


@examples(4)
@given(cases(predicates=PREDICATES, keys=NUMBERS))
def test_predicates_on_floats(case):
    agree(case)


@examples(2)
@given(cases(predicates=st.sampled_from(("=", "!=")), keys=st.none() | st.sampled_from(("", "a", "b", "ä"))))
def test_equality_of_texts(case):
    agree(case)


@examples(2)
@given(cases(predicates=st.sampled_from(("=", ("eps", 1.0), ("eps", 1.5), ("eps", 5.0))), keys=POINTS))
def test_keys_of_two_columns(case):
    agree(case)


def twice_as_large(low: Any, high: Any) -> bool:
    return 2 * low <= high


def close_in_one_column(low: Any, high: Any) -> bool:
    return abs(low[0] - high[0]) <= 1 or low[1] == high[1]


@examples(2)
@given(cases(predicates=st.just(twice_as_large)))
def test_a_predicate_of_the_user(case):
    agree(case)


@examples()
@given(cases(predicates=st.just(close_in_one_column), keys=POINTS))
def test_a_predicate_of_the_user_on_two_columns(case):
    agree(case)


def loss(importances: list[float]) -> float:
    """Worth less, the more important the first stream's member is."""
    return importances[1] - 2 * importances[0]


@examples(2)
@given(cases(stats=("whole", "window", "decayed")), st.sampled_from((loss, lambda members: -max(members))))
def test_a_value_function_of_the_user_that_may_be_negative(case, objective):
    agree(replace(case, objective=objective))


class Restless(ps.Policy):
    """Keeps what has little time left, and what has many matches, or is expected to have some."""

    name = "restless"

    def score(self, view: ps.View) -> Any:
        return view.mn - view.remaining

    def ties(self, view: ps.View) -> tuple[Any, ...]:
        return (view.p, -view.importance)


def restless(x: oracle.Tuple, context: oracle.Context) -> tuple[Any, ...]:
    return (context.mn(x) - context.remaining(x), context.p(x), -x.importance)


@examples(4)
@given(cases(windows=BOUNDED | WINDOWS["rows"], predicates=PREDICATES))
def test_a_policy_of_the_user(case):
    agree(replace(case, policy=restless, twin=Restless(), half_life=1.0))


@examples(4)
@given(cases(n=st.integers(3, 4), windows=PLAYED_WINDOW, memory=memories, keys=st.none() | st.integers(0, 1), longest=20))
def test_three_and_four_streams(case):
    agree(case)


@examples()
@given(cases(n=st.just(3), predicates=PREDICATES, longest=16))
def test_three_streams_and_predicates_between_each_two(case):
    agree(case)


@examples(4)
@given(cases(windows=BOUNDED, disorder=5, clocks=("global", "streams")))
def test_rows_out_of_order(case):
    agree(case)


@examples(2)
@given(cases(n=st.just(3), windows=PLAYED_WINDOW, disorder=5, clocks=("global", "streams"), longest=18))
def test_three_streams_out_of_order(case):
    agree(case)


@examples(2)
@given(cases(starts=st.integers(-1, 20), disorder=2))
def test_outputs_before_the_start_do_not_count(case):
    agree(case)


@examples(4)
@given(cases(in_bytes=True))
def test_memory_in_bytes(case):
    agree(case)


@examples(4)
@given(cases(windows=PLAYED_WINDOW, batches=True))
def test_a_batch_boundary_inside_an_instant_ends_it(case):
    agree(case)


@examples(2)
@given(cases(policies=("dgl",), windows=TIME | WINDOWS["tumbling"] | WINDOWS["rows"]))
def test_defaults_of_alpha_and_beta(case):
    # All importances are 1, so that their mean is, too, and beta is a power of two.
    rows = [replace(row, importance=1.0) for row in case.rows]
    agree(replace(case, rows=rows, importance=False, alpha=None, beta=None))


@examples(2)
@given(cases(policies=("prob",), stats=("decayed",), windows=BOUNDED))
def test_the_half_life_is_the_longest_window_unless_given(case):
    agree(replace(case, half_life=None))


@examples(4)
@given(cases(policies=DETERMINISTIC_ON_STATS, stats=("whole", "window"), disorder=4), st.integers(-1, 1))
def test_times_and_lives_beyond_what_floats_can_tell_apart(case, shift):
    huge = 1 << 52
    rows = [replace(row, time=row.time * huge + row.time % 3) for row in case.rows]
    windows = [(kind, length * huge + shift) for kind, length in case.windows]
    agree(replace(case, rows=rows, windows=windows, objective="count"))


@examples(4)
@given(cases(disorder=2, batches=True), st.sampled_from((18, 27, 33)))
def test_times_in_microseconds(case, bits):
    """Ties are decided by times that are measured in ever coarser units; a tuple's neighbours are then equally old."""
    rows = [replace(row, time=row.time << bits) for row in case.rows]
    windows = [(kind, length << bits) for kind, length in case.windows]
    late = [lateness << bits for lateness in case.lateness]
    half_life = None if case.half_life is None else case.half_life * 2.0**bits
    agree(replace(case, rows=rows, windows=windows, lateness=late, half_life=half_life))


@examples(4)
@given(
    # Products alone: of sums of such numbers, as dgl and additive have them, the order decides.
    cases(policies=("simp", "simpprob", "dimpprob"), memory=memories, keys=st.integers(0, 40)),
    st.lists(st.sampled_from((1e-300, 0.1, 1 / 3, 1.0, 1.0000001, 1.0000002, 1.125, 1.25, 3.4e38, 1e150)), min_size=24, max_size=24),
)
def test_importances_of_any_size(case, importances):
    rows = [replace(row, importance=importance) for row, importance in zip(case.rows, importances, strict=False)]
    agree(replace(case, rows=rows, importance=True, objective="count"))


def test_an_arrival_that_is_turned_away_waits_for_one_that_ranks_lower():
    """Row 7 is in a window counted in rows, so it is let in first; its price is lower than that of row 8, which is not."""
    pairs = [(1, 1, 1), (0, 1, 1), (1, 1, 0), (0, 2, 0), (0, 3, 0), (1, 3, 0), (0, 3, 1), (0, 4, 1), (1, 4, 0)]
    rows = [Row(stream, time, key) for stream, time, key in pairs]
    agree(Case(rows=rows, windows=[("rows", 4), ("tumbling", 4)], memory=2, policy="prob"))


@pytest.mark.parametrize("policy", DETERMINISTIC_ON_STATS)
def test_large_instants_of_windows_counted_in_rows(policy):
    """More arrivals than the window has rows: most leave in the instant in which they come, and their classes with them."""
    rows = [Row(number % 2, 0, number // 2) for number in range(20)] + [Row(0, 1, 100), Row(1, 2, 100), Row(0, 3, 9)]
    agree(Case(rows=rows, windows=[("rows", 2)] * 2, memory=2, policy=policy, stats="window"))


def test_many_classes_that_reach_the_floor_at_once():
    rows = [Row(0, 0, number) for number in range(100)] + [Row(1, 1, 200), Row(0, 2, 201), Row(1, 3, 3), Row(0, 4, 202)]
    agree(Case(rows=rows, windows=[("time", 1000)] * 2, memory=101, policy="dgl", stats="window", alpha=4.0, beta=0.5))


def test_tuples_before_a_landmark_count_in_no_statistics():
    rows = [Row(1, 0, 1), Row(1, 1, 1), Row(0, 4, 1), Row(0, 5, 2), Row(1, 6, 2), Row(1, 7, 1)]
    for stats in ("whole", "decayed"):
        agree(Case(rows=rows, windows=[("none",), ("landmark", 3)], memory=1, policy="prob", stats=stats, half_life=1.0))
