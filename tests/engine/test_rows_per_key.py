"""Windows of the last rows of each key: the engine against the oracle, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
import penstock as ps
from agreement import agree
from strategies import COMPILED, MODELS, PER_KEY, ROWS, SHAPES, SWITCHES, TIME, Case, cases, examples, later, memories, random_case


@examples(4)
@given(cases(windows=PER_KEY))
def test_a_window_for_each_key(case: Case):
    agree(case)


@examples(4)
@given(cases(n=st.integers(2, 3), windows=PER_KEY | TIME | ROWS, batches=True))
def test_beside_other_windows_and_over_batches(case: Case):
    agree(case)


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
