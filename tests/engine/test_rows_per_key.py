"""Windows of the last rows of each key: both forms of the engine against the oracle, and what is refused."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
import penstock as ps
from agreement import agree
from penstock.core.problem import Problem
from penstock.engine.contract import Engine
from penstock.engine.opening import open_engine
from penstock.policies.table import open_policy
from penstock.simulator.policy_checks import CHECKS, EVERYTHING, SETTINGS, Trial, keeps_to_the_budget, play_in_parts
from penstock.statistics.table import RUNNING
from policy_kinds import DRAWN, KEYED, LEARNING, ONE_CLOCK
from strategies import (
    ALLOCATIONS,
    COMPILED,
    DETERMINISTIC,
    MODELS,
    OBJECTIVES,
    PER_KEY,
    ROWS,
    SHAPES,
    STATS,
    SWITCHES,
    TIME,
    Case,
    cases,
    examples,
    later,
    memories,
    opened,
    random_case,
)


@examples(4)
@given(cases(windows=PER_KEY))
def test_a_window_for_each_key(case: Case):
    agree(case)


@examples(4)
@given(cases(n=st.integers(2, 3), windows=PER_KEY | TIME | ROWS, batches=True, memory=memories, switches=SWITCHES))
def test_beside_other_windows_and_over_batches(case: Case):
    agree(case)


@examples(2)
@given(cases(n=st.integers(2, 3), windows=PER_KEY | TIME, batches=True, matches=st.none() | st.integers(1, 3)))
def test_tuples_that_leave_with_their_last_output(case: Case):
    agree(case)


@pytest.mark.parametrize("stats", STATS)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("policy", DETERMINISTIC)
@pytest.mark.parametrize("shapes", (2 if COMPILED else 1, later(len(SHAPES))))
def test_policies_models_and_statistics_on_traces_of_every_shape(policy: str, model: str, stats: str, shapes: int):
    if policy in KEYED and stats != STATS[0]:
        return  # it uses none
    random = Random(f"{policy} {model} {stats}")
    for shape in random.sample(list(SHAPES), shapes):
        windows = [("rows_per_key", random.choice((1, 2, 3))), ("rows_per_key", random.choice((1, 2, 4)))]
        options = {"allocation": random.choice(ALLOCATIONS), "objective": random.choice(OBJECTIVES), "half_life": 1.0}
        agree(random_case(f"{policy} {model} {stats}", shape, policy=policy, model=model, stats=stats, windows=windows, **options))


@pytest.mark.parametrize("policy", [name for name in ps.POLICIES if name not in ONE_CLOCK])
def test_every_policy_keeps_the_contract(policy: str, monkeypatch: pytest.MonkeyPatch):
    window = {"window": "rows_per_key:2", "stats": "decayed", "half_life": 1.0 if policy == "life" else 2.0}
    monkeypatch.setitem(SETTINGS, "rows of each key", window)  # type: ignore[arg-type]
    for check in CHECKS:
        if COMPILED or check is not keeps_to_the_budget:
            assert check(Trial(lambda: policy, "rows of each key", ticks=32 if COMPILED else 16)) is None


def long_trace(random: Random, streams: str, rows: int, keys: int) -> ps.Trace:
    times = np.cumsum([random.choice((0, 0, 0, 1, 1, 3)) for _ in range(rows)])
    columns: dict[str, Any] = {"stream": [random.choice(streams) for _ in range(rows)], "time": times}
    columns["key"] = [None if random.random() < 0.03 else random.randrange(keys) for _ in range(rows)]
    return ps.Trace(columns | {"importance": [float(random.choice((1, 2, 4))) for _ in range(rows)]}, streams=list(streams))


@pytest.mark.wide
@pytest.mark.parametrize("policy", [name for name in ps.POLICIES if name not in (*ONE_CLOCK, *DRAWN)])
def test_both_forms_play_a_long_trace_alike(policy: str):
    """More keys and tuples than there is room for at first, three streams, large instants; `learned` and pools of streams among them."""
    random = Random(policy)
    rows = 600 if COMPILED else 150
    for streams, keys in (("RS", 200), ("RST", 12)):
        trace = long_trace(random, streams, rows, keys)
        windows = {stream: random.choice(("rows_per_key:1", "rows_per_key:5", "rows_per_key:9", 100)) for stream in streams[1:]}
        options: dict[str, Any] = {"window": {"R": "rows_per_key:3"} | windows, "memory": 90, "policy": policy, "stats": "decayed"}
        options |= {"half_life": 1.0 if policy == "life" else 32.0, "alpha": 4.0, "beta": 0.25, "allocation": random.choice(ALLOCATIONS)}
        options |= {"model": random.choice(MODELS), "objective": "count" if policy in ("life", *LEARNING) else "sum"}
        cuts, found = sorted(random.sample(range(1, rows), 3)), []
        for stepwise in (False, True):
            engine, batch = opened(trace, keep=EVERYTHING, stepwise=stepwise, **options)
            played = play_in_parts(engine, batch, cuts)
            logs = (sorted(played.outputs.tolist()), played.sheds.tolist(), sorted(played.expired.tolist()), played.series.tolist())
            found.append((*logs, engine.totals.n_output, engine.totals.n_expired, engine.totals.peak_memory))
        assert found[0] == found[1] and engine.totals.n_shed and engine.totals.n_expired


@examples(3)
@given(
    cases(n=st.integers(2, 4), policies=("fifo",), windows=PER_KEY | TIME | ROWS), st.sampled_from(("naive", "eager", "lazy", "general"))
)
def test_every_strategy_has_such_windows(case: Case, strategy: str):
    tau = 3 if strategy in ("lazy", "general") else None
    run = ps.exact(case.trace, window=case.options()["window"], strategy=strategy, tau=tau, keep=ps.Keep(outputs=True))
    wanted = oracle.exact(case.rows, len(case.windows), case.windows, predicate=case.predicate)
    assert run.outputs is not None
    assert sorted(run.outputs.tolist()) == [[time, *members] for time, members in wanted]


def test_other_keys_do_not_push_a_tuple_out():
    """R: a b b, then S: a a. In a window of two rows of the stream, a has left; in one of two rows of its key it has not."""
    trace = ps.Trace({"stream": list("RRRSS"), "time": [0, 1, 2, 3, 4], "key": list("abbaa")})
    assert ps.exact(trace, window="rows:2").n_output == 0
    assert ps.exact(trace, window="rows_per_key:2").n_output == 2
    assert ps.exact(trace, window="R=rows_per_key:1,S=1").n_output == 2
    assert ps.exact(trace, window="rows_per_key:2", strategy="eager").n_output == 2
    assert ps.exact(trace, window="rows_per_key:1", predicate="R.key = S.key", strategy="lazy", tau=2).n_output == 2


def an_engine(trace: ps.Trace, *, stepwise: bool, policy: str = "fifo") -> Engine:
    window = {"R": "rows_per_key:3", "S": "rows_per_key:2", "T": 40}
    problem = Problem.of(trace.streams, window=window, memory=20, stats="window", has_importance=True)
    chosen = open_policy(policy, problem)
    return open_engine(problem, chosen, RUNNING["window"](problem), EVERYTHING, stepwise=stepwise)


def adopted(engine: Engine, new: Any) -> Engine:
    new.problem.budget.caps[:] = 1000  # as a shadow, which sheds nothing
    new.adopt(engine)
    return new


def thawed(engine: Engine, new: Engine) -> Engine:
    new.thaw(engine.freeze())
    return new


def restored(engine: Engine, new: Engine) -> Engine:
    new.restore(engine.snapshot())
    return new


def trimmed(engine: Any, _: Engine) -> Engine:
    engine.problem.budget.caps[:] = 7
    assert len(engine.trim()) > 9
    return engine


def advanced(engine: Any, _: Engine) -> Engine:
    assert len(engine.advance(engine.seen + np.array([30, 30, 30])))  # of T alone
    return engine


def dismissed(engine: Engine, _: Engine) -> Engine:
    engine.dismiss(engine.retained()[::2])
    return engine


@pytest.mark.parametrize("policy", ("fifo", "life", "dimpprob"))
@pytest.mark.parametrize("change", (adopted, thawed, restored, trimmed, advanced, dismissed))
def test_in_the_middle_of_a_run(change: Any, policy: str):
    """Tuples that have been followed already go on as they would have, in either form and from one form into the other."""
    trace = long_trace(Random(policy), "RST", 160, 5)
    _, batch = opened(trace, window=9, memory=9, policy="fifo")
    forms = [(False, False), (True, True), *([(True, False)] if change is adopted else [])]
    found = []
    for before, after in forms:
        engine = an_engine(trace, stepwise=before, policy=policy)
        engine.play(batch.cut(0, 80))
        engine = change(engine, an_engine(trace, stepwise=after, policy=policy))
        left = {name: column.tolist() for name, column in engine.tuples().items() if name in ("row", "expiry")}
        played = engine.play(batch.cut(int(np.searchsorted(batch.time, engine.seen.max() + 1)), 160))
        found.append(
            [left, sorted(played.outputs.tolist()), played.sheds.tolist(), sorted(played.expired.tolist()), played.series.tolist()]
        )
    assert all(one == found[0] for one in found) and found[0][1] and found[0][3]


def test_what_is_turned_away_pushes_out():
    """Memory is full of what is worth more; a row that nobody expects partners for still follows the others of its key."""
    trace = ps.Trace({"stream": list("RRRRS"), "time": range(5), "key": list("aabab")})
    options: dict[str, Any] = {"window": "rows_per_key:2", "memory": 2, "policy": "prob", "stats": "given"}
    rates = {("S", "a"): 1.0, ("S", "b"): 0.0}
    runs = [ps.simulate(trace, given=rates, stepwise=form, keep=EVERYTHING, **options) for form in (False, True)]
    assert [run.sheds.tolist() for run in runs] == [[2, 4], [2, 4]]
    assert [run.expired.tolist() for run in runs] == [[0], [0]]


def test_the_life_that_is_left_is_counted_by_key():
    """Two keys with the same number of partners; of one more rows have come, so that its tuples leave sooner."""
    trace = ps.Trace({"stream": list("SSRRRR"), "time": range(6), "key": list("abaabc")})
    _, batch = opened(trace, window=9, memory=9, policy="fifo")
    problem = Problem.of(trace.streams, window={"R": "rows_per_key:4", "S": 100}, memory=9, stats="window")
    engine = open_engine(problem, open_policy("life", problem), RUNNING["window"](problem))
    engine.play(batch)
    found = engine.worths()
    assert found is not None and sorted(found.score) == [0.0, 3.0, 4.0, 4.0, 96.0, 190.0]


@pytest.mark.parametrize(
    ("options", "said"),
    (
        ({"predicate": "<"}, "predicate must be equality"),
        ({"policy": "elife"}, "'elife' needs one clock"),
        ({"window": "rows_per_key:0.5"}, "whole number from 1, such as rows_per_key:100"),
        ({"policy": "opt"}, "got rows_per_key"),
    ),
)
def test_what_it_does_not_go_with_is_refused(options, said):
    trace = ps.Trace({"stream": list("RS"), "time": [0, 1], "key": [1, 1]})
    with pytest.raises(ps.PenstockError, match=said):
        ps.simulate(trace, **{"window": "rows_per_key:2", "memory": 2, "policy": "prob"} | options)
