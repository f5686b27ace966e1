"""The compiled exact join over links gives what the engine gives, in outputs and in numbers."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import golab
import penstock as ps
from golab_cases import NAMES, OUTPUTS, found, links_of, make_trace, rows_of, written
from penstock.multiway.exact import exact_join
from strategies import ANY_WINDOW, BOUNDED, examples, specification


@st.composite
def graph_cases(draw, windows=ANY_WINDOW):
    n = draw(st.integers(2, 5))
    chosen = draw(st.lists(windows, min_size=n, max_size=n))
    rows, links = draw(rows_of(n)), draw(links_of(n))
    spec = {name: specification(window) for name, window in zip(NAMES[:n], chosen, strict=True)}
    return rows, chosen, links, {"window": spec, "predicate": [written(link) for link in links], "keep": OUTPUTS}


@examples(4)
@given(graph_cases())
def test_the_exact_join_gives_the_definition(case):
    rows, windows, links, options = case
    run = ps.exact(make_trace(rows, len(windows)), **options)
    assert found(run) == golab.definition(golab.items(rows), windows, links)


@examples()
@given(graph_cases(), st.integers(0, 12), st.sampled_from(("count", "min", "sum", "avg", "product")))
def test_the_exact_join_gives_the_numbers_of_the_engine(case, start, objective):
    rows, windows, _, options = case
    trace = make_trace([(s, t, values | {"importance": 1 + (t + s) % 4}) for s, t, values in rows], len(windows))
    options |= {"start": start, "objective": objective}
    played = ps.simulate(trace, memory=len(rows) * len(windows), policy="fifo", stepwise=True, **options)
    joined = ps.exact(trace, **options)
    assert joined.summary() == pytest.approx(played.summary())
    assert sorted(joined.outputs.tolist()) == sorted(played.outputs.tolist())


@examples()
@given(graph_cases(BOUNDED), st.randoms(use_true_random=False))
def test_rows_in_any_order_give_the_same(case, random):
    rows, windows, links, options = case
    random.shuffle(rows)
    run = ps.exact(make_trace(rows, len(windows)), **options)
    assert found(run) == golab.definition(golab.items(rows), windows, links)
    assert run.n_expired == 0 or not any(a > b for (_, a, _), (_, b, _) in pairwise(rows))


def test_lifetimes_end_a_tuple_before_its_window():
    rows = [
        (0, 0, {"a": 1, "lifetime": 2}),
        (0, 1, {"a": 1, "lifetime": 9}),
        (1, 2, {"a": 1, "lifetime": 1}),
        (2, 3, {"a": 1, "lifetime": 5}),
    ]
    trace = make_trace(rows, 3, key="a")
    run = ps.exact(trace, window=100, predicate="R.a = S.a, S.a <= T.a, R.a = T.a", keep=OUTPUTS)
    assert found(run) == []
    later = make_trace([*rows[:2], (1, 2, {"a": 1, "lifetime": 4}), rows[3]], 3, key="a")
    assert found(ps.exact(later, window=100, predicate="R.a = S.a, S.a <= T.a, R.a = T.a", keep=OUTPUTS)) == [(3, (1, 2, 3))]


def test_the_engine_plays_where_the_join_cannot():
    trace = ps.Trace.from_streams(R=[1, 2], S=[1, 2])
    graph = {"predicate": "R.key = S.key, R.key <= S.key"}
    assert exact_join(trace, 4, graph) is not None
    assert exact_join(trace, 4, {"predicate": "="}) is None
    assert exact_join(trace, 4, {"predicate": "R.key = S.key"}) is None  # one key: the engine counts without walking
    assert exact_join(trace, 4, graph | {"policy": "prob"}) is None
    assert exact_join(trace, 4, graph | {"keep": replace(OUTPUTS, series=True)}) is None
    assert exact_join(trace, 4, graph | {"objective": sum}) is None


def test_streams_without_a_link_match_freely_only_if_told():
    trace = ps.Trace({"stream": list("RSTT"), "time": [0, 0, 1, 1], "a": [1, 1, 5, 6]}, key="a")
    with pytest.raises(ps.PenstockError, match="no link between"):
        ps.exact(trace, window=3, predicate="R.a <= S.a")
    assert ps.exact(trace, window=3, predicate="R.a <= S.a", cross=True).n_output == 2


@pytest.mark.jit_only  # many rows
def test_progress_tells_all_rows():
    told: list[int] = []
    random = np.random.default_rng(0)
    size = 120_000
    columns = {"stream": random.integers(0, 2, size), "time": np.arange(size), "a": random.integers(0, 5000, size)}
    trace = ps.Trace(columns, key="a")
    low, high = trace.streams
    run = ps.exact(trace, window=100, predicate=f"{low}.a = {high}.a, {low}.a <= {high}.a", progress=told.append)
    assert sum(told) == run.n_input == size
    assert run.n_output == ps.exact(trace, window=100, strategy="eager", access="hash").n_output > 0


@pytest.mark.parametrize(
    "way",
    [{}, {"strategy": "eager"}, {"strategy": "lazy", "tau": 2 * 10**6}, {"strategy": "general", "tau": 10**17, "reorder": 0.1}],
    ids=str,
)
def test_times_in_microseconds_and_long_windows_have_an_order_too(way):
    day = 86_400 * 10**6
    rows = [(number % 3, number * 20 * day, {"a": number % 2, "b": number % 5}) for number in range(60)]
    links = [(0, ("a",), "=", 1, ("a",)), (1, ("b",), "<=", 2, ("b",))]
    windows = [("time", 400 * day), ("rows", 10**15), ("none",)]
    spec = {name: specification(window) for name, window in zip("RST", windows, strict=True)}
    run = ps.exact(make_trace(rows, 3, key="a"), window=spec, predicate=[written(link) for link in links], keep=OUTPUTS, **way)
    assert found(run) == golab.definition(golab.items(rows), windows, links)
