"""What every policy keeps beside the checks of `ps.check_policy` (test_policy_checks.py): snapshots anywhere, odd batches."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.engine.contract import Played
from penstock.simulator.policy_checks import EVERYTHING, Trial, as_lists, between_instants, play_in_parts
from strategies import COMPILED, PLAYED_WINDOW, STATS, SWITCHES, cases, examples, memories, opened

each_policy = pytest.mark.parametrize("policy", ps.POLICIES)
each_form = pytest.mark.parametrize("stepwise", (False, True), ids=("compiled", "stepwise"))


def a_trial(policy: str, stepwise: bool = False) -> Trial:
    return Trial(lambda: policy, stepwise=stepwise, ticks=32 if COMPILED else 16)


@each_form
@each_policy
def test_what_is_written_down_changes_nothing(policy, stepwise):
    trial = a_trial(policy, stepwise)
    silent = ps.simulate(trial.trace, stepwise=stepwise, **trial.options())
    assert silent.summary() == trial.run().summary()


def assert_same_counts(got: Any, wanted: Any) -> None:
    names = [name for name in vars(wanted) if name != "n_steps"]
    assert {name: getattr(got, name) for name in names} == {name: getattr(wanted, name) for name in names}


@pytest.mark.wide
@each_policy
def test_a_snapshot_after_every_instant(policy):
    trial = a_trial(policy)
    engine, batch = trial.open()
    whole = as_lists(engine.play(batch))
    state, parts = None, []
    cuts = [0, *between_instants(trial.trace), len(batch)]
    for begin, end in pairwise(cuts):
        next_one, _ = trial.open()
        if state is not None:
            next_one.restore(state)
        parts.append(next_one.play(batch.cut(begin, end)))
        state = next_one.snapshot()
    assert as_lists(Played.join(parts, 2)) == whole


@each_form
@each_policy
def test_an_empty_batch_is_no_instant(policy, stepwise):
    trial = a_trial(policy, stepwise)
    engine, batch = trial.open()
    nothing = as_lists(engine.play(batch.cut(0, 0)))
    assert not any(nothing.values())
    middle = between_instants(trial.trace)[9]
    split = as_lists(play_in_parts(engine, batch, [middle, middle]))
    engine, batch = trial.open()
    assert split == as_lists(engine.play(batch))


@each_policy
def test_a_memory_of_many_tuples_and_keys_survives_a_snapshot(policy):
    """More than the arrays of the compiled engine hold at first."""
    trace = ps.generate(300 if COMPILED else 45, keys=400, rate=2, importance="rare", top=16, seed=6)
    options = {"window": 60, "memory": 100, "seed": 1}
    engine, batch = opened(trace, keep=EVERYTHING, policy=policy, **options)
    cut = len(trace) * 2 // 3
    engine.play(batch.cut(0, cut))
    assert engine.totals.retained == 100
    other, _ = opened(trace, keep=EVERYTHING, policy=policy, **options)
    other.restore(engine.snapshot())
    rest = batch.cut(cut, len(batch))
    assert as_lists(other.play(rest)) == as_lists(engine.play(rest))


@examples(4)
@given(
    cases(
        n=st.integers(2, 3),
        policies=tuple(ps.POLICIES),
        windows=PLAYED_WINDOW,
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


@pytest.mark.parametrize("stepwise", (False, True))
def test_bytes_that_are_no_snapshot_are_refused(stepwise):
    engine, _ = a_trial("prob", stepwise).open()
    with pytest.raises(ps.PenstockError, match=r"state must be a snapshot of this engine, got 7 bytes that are none"):
        engine.restore(b"nothing")
