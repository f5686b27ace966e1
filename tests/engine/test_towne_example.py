"""Towne's worked example (Figures 2 and 3; docs/readings.md, 15 to 17), and rule 8 by hand."""

from __future__ import annotations

import pytest

import penstock as ps

R = [(0, 1, 5), (1, 0, 1), (2, 1, 4), (3, 0, 8), (4, 2, 3), (5, 5, 2)]
S = [(0, 1, 1), (1, 3, 5), (2, 3, 2), (3, 8, 6), (4, 3, 4), (5, 5, 3)]
FACTS = {
    "r": [0, 1, 0, 4, 1, 5],
    "s": [3, 5, 8, 5, 3, 8],
    "begin": [-1, -1, -1, -1, -1, 3],
    "end": [None, None, None, None, 5, None],
}


def figure() -> ps.Trace:
    rows = sorted([("R", *row) for row in R] + [("S", *row) for row in S], key=lambda row: row[1])
    stream, time, key, importance = (list(column) for column in zip(*rows, strict=True))
    return ps.Trace({"stream": stream, "time": time, "key": key, "importance": importance})


@pytest.mark.parametrize("model", ["buffered", "inplace"])
@pytest.mark.parametrize("switch", ["both", "static", "none"])
def test_the_exact_result_has_15_outputs_and_importance_43_whatever_is_filtered_before(model: str, switch: str) -> None:
    facts = ps.relation(FACTS, links=["R.key = r", "s = S.key"])
    run = ps.exact(
        figure(), window=4, through=facts, model=model, switches={"pre-filter": switch}, keep=ps.Keep(outputs=True, filtered=True)
    )
    assert (run.n_output, run.value, run.n_filtered) == (15, 43.0, 0 if switch == "none" else 2)
    assert run.filtered.tolist() == ([] if switch == "none" else [1, 8])  # S of key 1 at 0, R of key 2 at 4: no fact has them
    assert len(set(map(tuple, run.outputs.tolist()))) == 15


def test_a_tuple_leaves_with_its_last_fact_and_is_counted_as_expired() -> None:
    """
    time      0   1   2   3   4
    R         a   b   .   .   .       the fact (a, x) is deleted at 3, (b, x) stays: r(a) leaves in the instant of 3
    S         .   .   x   x   x
    """
    trace = ps.Trace({"stream": ["R", "R", "S", "S", "S"], "time": [0, 1, 2, 3, 4], "key": ["a", "b", "x", "x", "x"]})
    facts = ps.relation({"p": ["a", "b"], "q": ["x", "x"], "end": [3, None]}, links=["R.key = p", "q = S.key"])
    keep = ps.Keep(outputs=True, expired=True, retained=True)
    run = ps.simulate(trace, window=9, memory=9, policy="fifo", through=facts, keep=keep)
    assert run.outputs.tolist() == [[2, 0, 2, 0], [2, 1, 2, 1], [3, 1, 3, 1], [4, 1, 4, 1]]
    assert run.expired.tolist() == [0] and [rows.tolist() for _, rows in run.memory_log][2:] == [[0, 1, 2], [1, 2, 3], [1, 2, 3, 4]]
    late = ps.simulate(trace, window=9, memory=9, policy="fifo", through=facts, clock="streams", keep=keep)
    assert late.expired.tolist() == [] and late.outputs.tolist() == run.outputs.tolist()  # R has come to 1 only: one of 2 may follow


def test_a_fact_that_has_ended_holds_together_what_it_has_joined() -> None:
    """The picture in docs/decisions/0031: r stays, though its only fact has ended."""
    trace = ps.Trace({"stream": ["R", "S", "T"], "time": [0, 1, 3], "key": ["r", "s", "t"]})
    first = ps.relation({"a": ["r"], "b": ["s"], "end": [2]}, links=["R.key = a", "b = S.key"], name="f")
    second = ps.relation({"b": ["s"], "c": ["t"]}, links=["S.key = b", "c = T.key"], name="g")
    assert ps.exact(trace, window=9, through=[first, second], keep=ps.Keep(outputs=True)).outputs.tolist() == [[3, 0, 1, 2, 0, 0]]
