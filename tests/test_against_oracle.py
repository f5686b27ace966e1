"""The engines against the oracle, tuple by tuple: who joins, who leaves and when, who stays after each instant."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
import penstock as ps
from oracle import Row
from penstock.cli import run as command_line
from penstock.core.tables import read_table, write_table
from strategies import (
    ALLOCATIONS,
    ANY_WINDOW,
    BOUNDED,
    COMPILED,
    COUNTS,
    DETERMINISTIC,
    EVERYTHING,
    KEYED,
    MODELS,
    NO_WINDOW,
    OBJECTIVES,
    SCHEDULE,
    SHAPES,
    STATS,
    SWITCHES,
    TIME,
    WINDOWS,
    Case,
    cases,
    examples,
    kept_promise,
    memories,
    random_case,
)

PREDICATES = st.sampled_from(("=", "!=", "<", "<=", ">", ">=", ("eps", 1.0), ("eps", 0.0)))
NUMBERS = st.none() | st.sampled_from((0.0, -0.0, 0.5, 1.0, 2.5, float("nan")))
POINTS = st.none() | st.tuples(*[st.none() | st.integers(0, 4)] * 2)


def agree(case: Case) -> None:
    """Both engines do what the oracle does, and the compiled one counts the same when it writes nothing down."""
    expected = case.expected()
    assert case.played() == expected
    assert case.played(stepwise=True) == expected
    if not case.batches:
        assert case.counted() == {name: expected[name] for name in COUNTS}


# --------------------------------------------------------------------------------------------------- every combination


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("stats", STATS)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("allocation", ALLOCATIONS)
@pytest.mark.parametrize("policy", [name for name in DETERMINISTIC if name not in KEYED])
def test_every_combination_of_options_on_traces_of_every_shape(policy, allocation, model, stats, objective):
    options = {"allocation": allocation, "model": model, "stats": stats, "objective": objective}
    seed = f"{policy} {options}"
    # Without compilation one shape stands for all; over the combinations, each has its turn.
    for shape in SHAPES if COMPILED else Random(seed).sample(list(SHAPES), 1):
        agree(random_case(seed, shape, policy=policy, **options))


@pytest.mark.parametrize("objective", ("count", "sum"))
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("allocation", ALLOCATIONS)
@pytest.mark.parametrize("policy", KEYED)
def test_policies_that_use_no_statistics_on_traces_of_every_shape(policy, allocation, model, objective):
    options = {"allocation": allocation, "model": model, "objective": objective}
    for shape in SHAPES:
        agree(random_case(f"{policy} {options}", shape, policy=policy, **options))


# ------------------------------------------------------------------------------------------------ one thing at a time


@pytest.mark.parametrize("kind", WINDOWS)
@examples(2)
@given(data=st.data())
def test_windows_of_each_kind(kind, data):
    agree(data.draw(cases(windows=WINDOWS[kind])))


@examples(4)
@given(cases(windows=ANY_WINDOW))
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
@given(cases(n=st.integers(3, 4), windows=ANY_WINDOW, memory=memories, keys=st.none() | st.integers(0, 1), longest=20))
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
@given(cases(n=st.just(3), windows=ANY_WINDOW, disorder=5, clocks=("global", "streams"), longest=18))
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
@given(cases(windows=ANY_WINDOW, batches=True))
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
@given(cases(policies=("prob", "life"), stats=("whole", "window"), disorder=4), st.integers(-1, 1))
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


@pytest.mark.parametrize("policy", ("prob", "life"))
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


# --------------------------------------------------------------------------------------------------- everything at once

ANYTHING = {
    "n": st.integers(2, 3),
    "windows": ANY_WINDOW,
    "predicates": st.just("=") | PREDICATES,
    "memory": memories,
    "switches": SWITCHES,
    "disorder": 4,
    "clocks": ("global", "streams"),
    "starts": st.none() | st.integers(0, 9),
    "batches": True,
}


@examples(6)
@given(cases(**ANYTHING))
def test_everything_at_once(case):
    agree(case)


@pytest.mark.slow
@examples(10)
@given(cases(**ANYTHING | {"longest": 40}))
def test_everything_at_once_for_long(case):
    agree(case)


# ------------------------------------------------------------------------------------------------------- larger traces


def larger_case(policy: str, stats: str, **options: Any) -> Case:
    """More tuples and more keys in memory than the compiled engine has room for at first, and large instants."""
    random = Random(f"{policy} {stats}")
    rows, time = [], 0
    for _ in range(150):
        time += random.choice((0, 0, 0, 0, 0, 0, 1, 1, 3))
        key = random.choice((None, random.randrange(8), random.randrange(400)))
        rows.append(Row(random.randrange(2), time, key, random.choice((1.0, 2.0, 4.0, 8.0))))
    return Case(rows=rows, policy=policy, stats=stats, windows=[("time", 64)] * 2, beta=0.25, half_life=1.0, **options)


@pytest.mark.parametrize("stats", ("whole", "window", "decayed"))
@pytest.mark.parametrize("policy", ("prob", "life"))
def test_memory_that_outgrows_its_first_arrays(policy, stats):
    agree(larger_case(policy, stats, memory=90))


@pytest.mark.parametrize("policy", [name for name in DETERMINISTIC if name not in ("prob", "life")])
def test_memory_that_outgrows_its_first_arrays_without_statistics(policy):
    agree(larger_case(policy, "whole", memory=90, objective="sum"))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("disorder", (0, 6))
@pytest.mark.parametrize("policy", [name for name in ps.POLICIES if name not in ("rand", "kwon-random")])
def test_compiled_and_stepwise_engines_play_a_long_trace_alike(policy, disorder, model):
    ticks = 400 if COMPILED else 120
    trace = ps.generate(ticks, keys=60, burst="50:2:9", importance="rare", top=16, groups=5, disorder=disorder, seed=5)
    options = {
        "window": 64, "memory": 90, "policy": policy, "objective": "count", "model": model, "clock": "streams",
        "lateness": disorder, "alpha": 4.0, "beta": 0.125, "keep": EVERYTHING,
    }  # fmt: skip
    compiled, stepwise = (ps.simulate(trace, stepwise=form, **options) for form in (False, True))
    assert compiled.summary() == stepwise.summary()
    assert compiled.sheds.tolist() == stepwise.sheds.tolist()
    assert sorted(compiled.outputs.tolist()) == sorted(stepwise.outputs.tolist())
    assert compiled.series.tolist() == stepwise.series.tolist()


@examples(4)
@given(cases(n=st.integers(2, 3), windows=BOUNDED | WINDOWS["rows"], memory=memories, switches=SWITCHES, batches=True))
def test_elife_which_the_oracle_does_not_know_is_the_same_in_both_engines(case):
    case = replace(case, policy="elife", half_life=1.0)
    assert case.played() == case.played(stepwise=True)


# --------------------------------------------------------------------------------------------------------- exact joins


def joins_exactly(case: Case, outputs: Callable[[Case], Any]) -> None:
    options = {"predicate": case.predicate, "switches": case.switches, "batches": case.batches}
    wanted = oracle.exact(case.rows, len(case.windows), case.windows, **options)
    assert outputs(case) == [(time, *members) for time, members in wanted]


@examples(4)
@given(cases(n=st.integers(2, 4), windows=ANY_WINDOW, predicates=PREDICATES, batches=True, longest=20))
def test_ample_memory_gives_the_exact_join(case):
    ample = replace(case, memory=len(case.rows), allocation="variable")
    for stepwise in (False, True):
        joins_exactly(ample, lambda case, form=stepwise: case.played(stepwise=form)["outputs"])


@examples(4)
@given(cases(n=st.integers(2, 3), windows=BOUNDED | NO_WINDOW | WINDOWS["landmark"], disorder=6, longest=20))
def test_out_of_order_too_while_every_stream_keeps_its_promise(case):
    lateness = kept_promise(case.rows, len(case.windows))
    options = {"memory": len(case.rows), "allocation": "variable", "clock": "streams", "lateness": lateness}
    for stepwise in (False, True):
        joins_exactly(replace(case, **options), lambda case, form=stepwise: case.played(stepwise=form)["outputs"])


@examples()
@given(cases(windows=ANY_WINDOW))
def test_exact_is_the_exact_join(case):
    window = case.options()["window"]
    joins_exactly(case, lambda case: sorted(map(tuple, ps.exact(case.trace, window=window, keep=EVERYTHING).outputs)))


# ---------------------------------------------------------------------------------------------- through the command line


@pytest.mark.parametrize("suffix", (".csv", ".parquet", ".jsonl"))
@pytest.mark.parametrize("shape", SHAPES)
def test_the_command_line_says_what_the_oracle_says(capsys, tmp_path, shape, suffix):
    """All policies in one command; every option that has a combination of its own above takes its turn."""
    random = Random(f"{shape} {suffix}")
    options = {
        "allocation": random.choice(ALLOCATIONS), "model": random.choice(MODELS), "stats": random.choice(STATS),
        "objective": random.choice(OBJECTIVES),
    }  # fmt: skip
    case = random_case(suffix, shape, half_life=1.0, **options)
    files = {name: tmp_path / f"{name}{suffix}" for name in ("trace", "outputs", "memory", "rates")}
    case.trace.write(files["trace"])
    arguments = [
        "simulate", str(files["trace"]), "--format", "json", "--streams", "R,S", "--policy", ",".join(DETERMINISTIC),
        "--window", ",".join(f"{name}={w[1]}" for name, w in zip(case.streams, case.windows, strict=True)),
        "--memory", str(case.memory), "--beta", str(case.beta), "--weights", ",".join(map(str, case.weights)),
        "--outputs", str(files["outputs"]), "--memory-log", str(files["memory"]),
    ]  # fmt: skip
    for name, value in options.items():
        arguments += [f"--{name}", value]
    for name, value in (("--alpha", case.alpha), ("--half-life", case.half_life)):
        arguments += [] if value is None else [name, str(value)]
    if case.given is not None:
        write_rates(case, files["rates"])
        arguments += ["--rates", str(files["rates"])]

    status = command_line(arguments)
    printed = capsys.readouterr()
    assert status == 0, printed.err
    outputs, memory = lines(files["outputs"]), lines(files["memory"])
    for policy, summary in zip(DETERMINISTIC, json.loads(printed.out), strict=True):
        expected = replace(case, policy=policy).expected()
        assert summary == {"policy": policy} | {name: expected[name] for name in COUNTS}
        mine = [row for row in outputs if row["policy"] == policy]
        assert sorted((row["time"], row["R"], row["S"]) for row in mine) == expected["outputs"]
        log = [(row["time"], retained(row["rows"])) for row in memory if row["policy"] == policy]
        assert log == expected["memory"]


def write_rates(case: Case, path: Path) -> None:
    assert case.given is not None
    pairs = list(case.given.items())
    columns = {
        "stream": [case.streams[stream] for (stream, _), _ in pairs],
        "key": [key for (_, key), _ in pairs],
        "rate": [float(rate) for _, rate in pairs],
    }
    write_table(pa.table(columns), path)


def lines(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".jsonl":  # may be empty, which is no table to Arrow
        return [json.loads(line) for line in path.read_text().splitlines()]
    return read_table(path).to_pylist()


def retained(cell: Any) -> list[int]:
    """A list, or its text in a CSV file."""
    if cell is None or isinstance(cell, int):
        return [] if cell is None else [cell]
    return [int(row) for row in cell.split()] if isinstance(cell, str) else list(cell)
