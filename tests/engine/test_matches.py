"""`matches`: a promise that a tuple takes part in at most so many outputs, after which it leaves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from agreement import PREDICATES, agree
from penstock.core.problem import Problem, parse_matches
from penstock.simulator.policy_checks import as_lists
from policy_kinds import KEYED
from strategies import BOUNDED, COMPILED, EVERYTHING, PLAYED_WINDOW, STATS, SWITCHES, cases, examples, memories, opened

each_form = pytest.mark.parametrize("stepwise", (False, True), ids=("compiled", "stepwise"))
each_model = pytest.mark.parametrize("model", ("buffered", "inplace"))
PROMISES = st.none() | st.integers(1, 3)
ALL = replace(EVERYTHING, done=True)


# ------------------------------------------------------------------------------------------------------ against the oracle


@examples(3)
@given(
    cases(
        n=st.integers(2, 4),
        windows=PLAYED_WINDOW,
        memory=memories,
        switches=SWITCHES,
        disorder=4,
        clocks=("global", "streams"),
        starts=st.none() | st.integers(0, 9),
        batches=True,
        keys=st.none() | st.integers(0, 2),
        longest=20,
        matches=PROMISES,
    )
)
def test_everything_at_once(case):
    agree(case)


@examples(2)
@given(cases(n=st.integers(2, 4), policies=KEYED, switches=SWITCHES, keys=st.integers(0, 2), windows=BOUNDED, matches=PROMISES))
def test_policies_that_spare_arrivals(case):
    agree(case)


@examples(2)
@given(cases(n=st.integers(2, 3), in_bytes=True, keys=st.integers(0, 2), matches=PROMISES))
def test_memory_in_bytes(case):
    agree(case)


@examples()
@given(cases(n=st.integers(2, 3), predicates=PREDICATES, keys=st.integers(0, 3), matches=PROMISES))
def test_other_predicates(case):
    agree(case)


# ------------------------------------------------------------------------------------------------------ engine by engine


@examples(2)
@given(
    cases(
        n=st.integers(2, 3),
        policies=tuple(ps.POLICIES),
        windows=PLAYED_WINDOW,
        memory=memories,
        disorder=3,
        clocks=("global", "streams"),
        stats=(*STATS, "sketch"),
        keys=st.integers(0, 2),
        matches=PROMISES,
    ),
    st.integers(0, 24),
    st.booleans(),
)
def test_a_snapshot_of_any_run(case, cut, stepwise):
    engine, batch = opened(case.trace, keep=ALL, stepwise=stepwise, **case.options())
    other, _ = opened(case.trace, keep=ALL, stepwise=stepwise, **case.options())
    engine.play(batch.cut(0, cut))
    other.restore(engine.snapshot())
    rest = batch.cut(min(cut, len(batch)), len(batch))
    assert as_lists(other.play(rest)) == as_lists(engine.play(rest))
    assert other.totals.n_done == engine.totals.n_done


@examples(2)
@given(cases(n=st.integers(2, 3), policies=("elife", "learned"), stats=("decayed",), memory=memories, matches=PROMISES, longest=40))
def test_policies_that_the_oracle_does_not_know(case):
    case = replace(case, half_life=None, windows=[("time", 8)] * len(case.windows))
    runs = [ps.simulate(case.trace, stepwise=stepwise, keep=ALL, **case.options()) for stepwise in (False, True)]
    for name in ("sheds", "done", "expired"):
        assert getattr(runs[0], name).tolist() == getattr(runs[1], name).tolist()
    assert runs[0].n_output == runs[1].n_output


@each_form
@each_model
def test_a_tuple_leaves_with_its_last_output(stepwise, model):
    # R has at most one partner: it leaves with it, and S stays. Row 4 finds nobody: the promise was broken.
    trace = ps.Trace({"stream": list("RRSSS"), "time": [0, 0, 1, 2, 3], "key": list("abaab")}, streams=("R", "S"))
    run = ps.simulate(trace, window=9, memory=9, policy="fifo", matches={"R": 1}, model=model, keep=ALL, stepwise=stepwise)
    assert [held.tolist() for _, held in run.memory_log] == [[0, 1], [1, 2], [1, 2, 3], [2, 3, 4]]
    assert run.outputs[:, 1:].tolist() == [[0, 2], [1, 4]]
    assert run.done.tolist() == [0, 1] and (run.n_done, run.n_shed, run.n_expired) == (2, 0, 0)
    assert run.summary()["n_done"] == 2 and "n_done" not in ps.simulate(trace, window=9, memory=9).summary()


@each_form
def test_who_arrives_in_the_same_instant_joins_first(stepwise):
    # Two partners come at once: both outputs are made, though one was promised; the place is free for the arrivals.
    trace = ps.Trace({"stream": list("RSS"), "time": [0, 1, 1], "key": list("aaa")}, streams=("R", "S"))
    run = ps.simulate(trace, window=9, memory=2, policy="fifo", matches={"R": 1}, keep=ALL, stepwise=stepwise)
    assert run.n_output == 2 and run.n_shed == 0 and run.memory_log[-1][1].tolist() == [1, 2]


@pytest.mark.parametrize("policy", ("prob", "fifo", "ep", "rand", "learned"))
@each_form
def test_a_promise_that_is_kept_costs_nothing_and_saves_memory(policy, stepwise):
    trace = ps.generate(400 if COMPILED else 120, orders=0.0, delay=5, first="complete", seed=3)  # each key once in each stream
    whole = ps.exact(trace, window=60)
    ample = ps.simulate(trace, window=60, memory=len(trace), policy=policy, matches=1, stepwise=stepwise)
    assert (ample.n_output, ample.n_shed) == (whole.n_output, 0) and ample.n_done == 2 * whole.n_output
    assert ample.peak_memory < 0.8 * whole.peak_memory
    some = {"window": 60, "memory": ample.peak_memory, "policy": policy, "stepwise": stepwise}
    assert ps.simulate(trace, matches=1, **some).n_output == whole.n_output
    assert ps.simulate(trace, **some).n_shed > 0


@each_form
def test_three_streams_count_outputs(stepwise):
    trace = ps.Trace({"stream": list("RSTT"), "time": [0, 1, 2, 3], "key": list("aaaa")}, streams=("R", "S", "T"))
    run = ps.simulate(trace, window=9, memory=9, policy="fifo", matches={"S": 2}, keep=ALL, stepwise=stepwise)
    assert run.n_output == 2 and run.done.tolist() == [1]


# ------------------------------------------------------------------------------------------------------ what is refused


def test_what_matches_may_be():
    streams = ("R", "S")
    assert parse_matches("R=1", streams) == (1, None) and parse_matches({"R": None}, streams) == ()
    assert not Problem.of(streams, window=1, memory=2).has_matches
    for wrong in (0, -1, 1.5, "two", {"R": 0}, "R=x", True):
        with pytest.raises(ps.PenstockError, match=r"matches of R must be a number of outputs >= 1"):
            parse_matches(wrong, streams)
    with pytest.raises(ps.PenstockError, match=r"stream of matches"):
        parse_matches({"Q": 1}, streams)


def test_the_optimum_needs_no_promise():
    trace = ps.Trace.from_streams(R="ab", S="ba")
    with pytest.raises(ps.PenstockError, match=r"policy 'opt' knows by itself .* got matches"):
        ps.simulate(trace, window=2, memory=1, policy="opt", matches=1)
    with pytest.raises(ps.PenstockError, match=r"got matches=1"):
        ps.exact(trace, window=2, matches=1)


def test_shards_keep_the_promise_too():
    trace = ps.generate(200 if COMPILED else 60, orders=0.0, delay=5, first="complete", seed=3)
    run = ps.simulate(trace, window=60, memory=len(trace), policy="fifo", matches=1, shards=3, keep=ALL)
    assert run.n_output == ps.exact(trace, window=60).n_output
    assert run.n_done == len(run.done) == 2 * run.n_output
