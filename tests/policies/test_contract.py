"""The contract: what every policy keeps, whatever it decides. One suite, each check against each policy."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.core.budget import OVERHEAD
from penstock.engine.contract import Played
from strategies import (
    ANY_WINDOW,
    COMPILED,
    EVERYTHING,
    STATS,
    SWITCHES,
    cases,
    examples,
    kept_promise,
    memories,
    opened,
    play_in_parts,
)


class Moody(ps.Policy):
    """A user's own: looks at past outputs, keeps a state in itself and a number per tuple."""

    name = "moody"

    def __init__(self) -> None:
        self.mood = 0

    def score(self, view: ps.View) -> Any:
        self.mood += len(view.outputs)
        view.memo[view.new] = self.mood % 5
        return view.produced + (view.memo + view.row * self.mood) % 7


POLICIES = {name: lambda name=name: name for name in ps.POLICIES} | {"a user's own": Moody}

# Everything that changes how a run is played, a few at a time; `disorder` is of the trace.
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {"window": 8, "stats": "whole"},
    "by value, in place": {"window": {"R": 4, "S": 12}, "stats": "window", "objective": "sum", "model": "inplace"},
    "fixed, decayed": {"window": "tumbling:8", "allocation": "fixed", "stats": "decayed", "half_life": 3.0},
    "counted in rows": {"window": "rows:9", "stats": "decayed", "half_life": 2.0, "switches": {"mn": "memory"}},
    "late": {"window": 8, "disorder": 5, "clock": "streams", "lateness": 5, "stats": "sketch", "objective": "min"},
    "late, unpromised": {"window": "0:8,20:3", "disorder": 5, "clock": "global", "stats": "whole"},
}

BUDGETS: dict[str, dict[str, Any]] = {
    "variable": {"memory": 7},
    "fixed": {"memory": 7, "allocation": "fixed"},
    "per stream": {"memory": {"R": 2, "S": 5}},
    "changing": {"memory": [(0, 9), (10, 3), (20, 6)]},
    "changing, fixed": {"memory": "0:4,8:12,25:2", "allocation": "fixed"},
    "bytes": {"memory": "700 B"},
    "bytes per stream": {"memory": {"R": "200 B", "S": "450 B"}},
}

each_policy = pytest.mark.parametrize("policy", POLICIES)
# Without compilation every second setting must do.
each_setting = pytest.mark.parametrize("setting", list(SETTINGS) if COMPILED else list(SETTINGS)[1::2])
each_form = pytest.mark.parametrize("stepwise", (False, True), ids=("compiled", "stepwise"))


def a_trace(disorder: int = 0, ticks: int = 32 if COMPILED else 16) -> ps.Trace:
    """Two streams of unequal rates with bursts, importances and sizes."""
    plain = ps.generate(ticks, keys=6, rate=(1, 1.5), burst="10:1:6", importance="uniform", top=4, disorder=disorder, seed=disorder + 3)
    sizes = np.random.default_rng(1).integers(1, 90, len(plain))
    return ps.Trace(plain.table.append_column("size", [sizes]), streams=plain.streams)


def laid_out(setting: str, policy: str, **more: Any) -> tuple[ps.Trace, dict[str, Any]]:
    """The trace and the arguments of a run."""
    options = dict(SETTINGS[setting])
    trace = a_trace(options.pop("disorder", 0))
    return trace, {"memory": 8, "policy": POLICIES[policy](), "seed": 4} | options | more


def as_lists(played: Played) -> dict[str, list[Any]]:
    """What happened, in its order; but what expires in an instant does so all at once."""
    ordered = {name: getattr(played, name).tolist() for name in ("outputs", "sheds", "retained", "series")}
    return ordered | {"expired": sorted(played.expired.tolist())}


def between_instants(trace: ps.Trace) -> list[int]:
    return (np.flatnonzero(np.diff(trace.time)) + 1).tolist()


# ------------------------------------------------------------------------------------------------------------- budgets


@each_form
@each_policy
@pytest.mark.parametrize("disorder", (0, 5))
@pytest.mark.parametrize("budget", BUDGETS)
def test_the_budget_is_never_exceeded_after_an_instant(budget, disorder, policy, stepwise):
    trace, spec = a_trace(disorder), BUDGETS[budget]
    run = ps.simulate(trace, window=8, policy=POLICIES[policy](), stats="whole", keep=EVERYTHING, stepwise=stepwise, **spec)
    assert run.n_shed > 0
    now, most = -np.inf, 0
    for time, rows in run.memory_log:
        now = max(now, time)
        weights = trace.size[rows] + OVERHEAD if "bytes" in budget else np.ones(len(rows), int)
        streams = trace.stream[rows]
        used = [int(weights[streams == number].sum()) for number in range(2)]
        for held, limit in zip(*pools(spec, used, now), strict=True):
            assert held <= limit
        most = max(most, sum(used))
    assert run.peak_memory == most


def pools(spec: dict[str, Any], used: list[int], now: float) -> tuple[list[int], list[int]]:
    """What each pool holds, and what it may hold now."""
    memory = spec["memory"]
    if isinstance(memory, dict):
        return used, [int(str(amount).removesuffix(" B")) for amount in memory.values()]
    if isinstance(memory, str) and ":" in memory:
        memory = [tuple(map(int, part.split(":"))) for part in memory.split(",")]
    if isinstance(memory, list):
        memory = [amount for begin, amount in memory if begin <= now][-1]
    total = int(str(memory).removesuffix(" B"))
    return (used, [total // 2] * 2) if "allocation" in spec else ([sum(used)], [total])


# ------------------------------------------------------------------------------------------------------ the exact join


def exactly(trace: ps.Trace, options: dict[str, Any]) -> Counter[tuple[int, ...]]:
    kept = {name: options[name] for name in ("window", "objective") if name in options}
    if trace.n_backwards:
        kept |= {"clock": "streams", "lateness": 1000}
    run = ps.exact(trace, keep=EVERYTHING, **kept)
    assert run.n_shed == 0
    return Counter(map(tuple, run.outputs.tolist()))


@each_form
@each_setting
@each_policy
def test_the_output_is_part_of_the_exact_join(policy, setting, stepwise):
    trace, options = laid_out(setting, policy)
    outputs = ps.simulate(trace, keep=EVERYTHING, stepwise=stepwise, **options).outputs
    exact = exactly(trace, options)
    assert max(exact.values()) == 1
    assert 0 < len(outputs) < len(exact)
    assert Counter(map(tuple, outputs.tolist())) <= exact


@each_form
@each_setting
@each_policy
def test_ample_memory_gives_the_exact_join(policy, setting, stepwise):
    trace, options = laid_out(setting, policy)
    options |= {"memory": 2 * len(trace)}
    if trace.n_backwards:
        rows = [Late(int(stream), int(time)) for stream, time in zip(trace.stream, trace.time, strict=True)]
        lateness = dict(zip(trace.streams, kept_promise(rows, 2), strict=True))
        options |= {"clock": "streams", "lateness": lateness}
    run = ps.simulate(trace, keep=EVERYTHING, stepwise=stepwise, **options)
    assert run.n_shed == 0
    assert Counter(map(tuple, run.outputs.tolist())) == exactly(trace, options)


class Late:
    """What `kept_promise` looks at."""

    def __init__(self, stream: int, time: int) -> None:
        self.stream, self.time = stream, time


# ---------------------------------------------------------------------------------------------------------- repetition


@each_form
@each_setting
@each_policy
def test_the_same_seed_gives_the_same_run(policy, setting, stepwise):
    runs = []
    for _ in range(2):
        trace, options = laid_out(setting, policy)
        run = ps.simulate(trace, keep=EVERYTHING, stepwise=stepwise, **options)
        log = [(time, rows.tolist()) for time, rows in run.memory_log]
        runs.append((run.summary(), run.outputs.tolist(), run.sheds.tolist(), log, run.series.tolist()))
    assert runs[0] == runs[1]


@each_form
@each_policy
def test_what_is_written_down_changes_nothing(policy, stepwise):
    trace, options = laid_out("plain", policy)
    silent = ps.simulate(trace, stepwise=stepwise, **options)
    trace, options = laid_out("plain", policy)
    assert silent.summary() == ps.simulate(trace, stepwise=stepwise, keep=EVERYTHING, **options).summary()


# ------------------------------------------------------------------------------------------------- batches, snapshots


@each_form
@each_setting
@each_policy
def test_any_split_between_instants_gives_the_same_run(policy, setting, stepwise):
    def parts(cuts: list[int]) -> tuple[Any, ...]:
        trace, options = laid_out(setting, policy)
        engine, batch = opened(trace, keep=EVERYTHING, stepwise=stepwise, **options)
        played = as_lists(play_in_parts(engine, batch, cuts))
        counts = vars(engine.totals).copy()
        del counts["n_steps"]  # of heaps, which a batch may begin anew
        return played, counts

    random = Random(f"{policy} {setting}")
    possible = between_instants(laid_out(setting, policy)[0])
    whole = parts([])
    splits = [[random.choice(possible)], random.sample(possible, len(possible) // 3), possible]
    for cuts in splits if COMPILED else splits[1:2]:
        assert parts(cuts) == whole


@each_form
@each_setting
@each_policy
def test_a_snapshot_and_its_restoration_change_nothing(policy, setting, stepwise):
    random = Random(f"{policy} {setting}")
    trace, options = laid_out(setting, policy)
    for _ in range(3 if COMPILED else 1):
        cut = random.randrange(1, len(trace))  # inside an instant, too: the batch ends there in both runs
        engine, batch = opened(trace, keep=EVERYTHING, stepwise=stepwise, **options | {"policy": POLICIES[policy]()})
        engine.play(batch.cut(0, cut))
        state = engine.snapshot()
        assert isinstance(state, bytes)
        other, _ = opened(trace, keep=EVERYTHING, stepwise=stepwise, **options | {"policy": POLICIES[policy]()})
        other.restore(state)
        rest = batch.cut(cut, len(batch))
        wanted = as_lists(engine.play(rest))
        assert as_lists(other.play(rest)) == wanted
        assert_same_counts(other.totals, engine.totals)
        third, _ = opened(trace, keep=EVERYTHING, stepwise=stepwise, **options | {"policy": POLICIES[policy]()})
        third.restore(state)  # the same bytes serve again: nobody has written to them
        assert as_lists(third.play(rest)) == wanted


def assert_same_counts(got: Any, wanted: Any) -> None:
    names = [name for name in vars(wanted) if name != "n_steps"]
    assert {name: getattr(got, name) for name in names} == {name: getattr(wanted, name) for name in names}


@each_policy
def test_a_snapshot_after_every_instant(policy):
    trace, options = laid_out("plain", policy)
    engine, batch = opened(trace, keep=EVERYTHING, **options)
    whole = as_lists(engine.play(batch))
    state, parts = None, []
    cuts = [0, *between_instants(trace), len(trace)]
    for begin, end in pairwise(cuts):
        next_one, _ = opened(trace, keep=EVERYTHING, **options | {"policy": POLICIES[policy]()})
        if state is not None:
            next_one.restore(state)
        parts.append(next_one.play(batch.cut(begin, end)))
        state = next_one.snapshot()
    assert as_lists(Played.join(parts, 2)) == whole


@each_form
@each_policy
def test_a_snapshot_before_the_first_row(policy, stepwise):
    trace, options = laid_out("plain", policy)
    engine, batch = opened(trace, keep=EVERYTHING, stepwise=stepwise, **options)
    other, _ = opened(trace, keep=EVERYTHING, stepwise=stepwise, **options | {"policy": POLICIES[policy]()})
    other.restore(engine.snapshot())
    assert as_lists(other.play(batch)) == as_lists(engine.play(batch))


@each_form
@each_policy
def test_an_empty_batch_is_no_instant(policy, stepwise):
    trace, options = laid_out("plain", policy)
    engine, batch = opened(trace, keep=EVERYTHING, stepwise=stepwise, **options)
    nothing = as_lists(engine.play(batch.cut(0, 0)))
    assert not any(nothing.values())
    middle = between_instants(trace)[9]
    split = as_lists(play_in_parts(engine, batch, [middle, middle]))
    engine, batch = opened(trace, keep=EVERYTHING, stepwise=stepwise, **options | {"policy": POLICIES[policy]()})
    assert split == as_lists(engine.play(batch))


@each_policy
def test_a_memory_of_many_tuples_and_keys_survives_a_snapshot(policy):
    """More than the arrays of the compiled engine hold at first."""
    trace = ps.generate(300 if COMPILED else 45, keys=400, rate=2, importance="rare", top=16, seed=6)
    options = {"window": 60, "memory": 100, "seed": 1}
    engine, batch = opened(trace, keep=EVERYTHING, policy=POLICIES[policy](), **options)
    cut = len(trace) * 2 // 3
    engine.play(batch.cut(0, cut))
    assert engine.totals.retained == 100
    other, _ = opened(trace, keep=EVERYTHING, policy=POLICIES[policy](), **options)
    other.restore(engine.snapshot())
    rest = batch.cut(cut, len(batch))
    assert as_lists(other.play(rest)) == as_lists(engine.play(rest))


@examples(4)
@given(
    cases(
        n=st.integers(2, 3),
        policies=tuple(ps.POLICIES),
        windows=ANY_WINDOW,
        memory=memories,
        switches=SWITCHES,
        disorder=4,
        clocks=("global", "streams"),
        stats=(*STATS, "sketch"),
    ),
    st.integers(0, 24),
    st.booleans(),
)
def test_a_snapshot_of_any_run(case, cut, stepwise):
    engine, batch = opened(case.trace, keep=EVERYTHING, stepwise=stepwise, **case.options())
    other, _ = opened(case.trace, keep=EVERYTHING, stepwise=stepwise, **case.options())
    engine.play(batch.cut(0, cut))
    other.restore(engine.snapshot())
    rest = batch.cut(min(cut, len(batch)), len(batch))
    assert as_lists(other.play(rest)) == as_lists(engine.play(rest))
    assert_same_counts(other.totals, engine.totals)


# -------------------------------------------------------------------------------------------------------- conservation


@each_form
@each_setting
@each_policy
def test_every_row_is_shed_or_expires_or_is_retained(policy, setting, stepwise):
    trace, options = laid_out(setting, policy)
    engine, batch = opened(trace, keep=EVERYTHING, stepwise=stepwise, **options)
    played = engine.play(batch)
    totals = engine.totals
    last = played.retained[played.retained[:, 0] == played.retained[:, 0].max(initial=0), 1]
    assert len(last) == totals.retained
    assert totals.n_shed + totals.n_expired + totals.retained == totals.n_input == len(trace)
    assert (len(played.sheds), len(played.expired)) == (totals.n_shed, totals.n_expired)
    assert sorted([*played.sheds, *played.expired, *last]) == list(range(len(trace)))


@pytest.mark.parametrize("stepwise", (False, True))
def test_bytes_that_are_no_snapshot_are_refused(stepwise):
    engine, _ = opened(a_trace(), keep=EVERYTHING, stepwise=stepwise, window=4, memory=4, policy="prob")
    with pytest.raises(ps.PenstockError, match=r"state must be a snapshot of this engine, got 7 bytes that are none"):
        engine.restore(b"nothing")
