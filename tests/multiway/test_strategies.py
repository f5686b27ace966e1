"""Golab's algorithms: each gives the result of the definition, and does the steps that its printed form does."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import golab
import penstock as ps
from golab_cases import NAMES, OUTPUTS, found, links_of, make_trace, rows_of, written
from penstock.multiway.options import STRATEGIES
from penstock.multiway.strategies import run_strategy
from strategies import ANY_WINDOW, examples, specification


@st.composite
def ways(draw: st.DrawFn, n: int, *, hashed: bool) -> dict[str, Any]:
    """A strategy with its options: any order, any access, any intervals that are allowed."""
    strategy = draw(st.sampled_from([name for name in STRATEGIES if name != "count"]))
    names = NAMES[:n]
    order: Any = st.permutations(names)
    if strategy != "naive":
        order |= st.fixed_dictionaries({name: st.permutations(names) for name in names})
    lazy = STRATEGIES[strategy].lazy
    tau = draw(st.integers(1, 9)) if lazy or (lazy is None and draw(st.booleans())) else None
    expire = draw(st.sampled_from((None, "lazy", tau + 2)) if tau else st.sampled_from((None, "eager", 1, 5)))
    buckets = st.integers(1, 4)
    access = st.just("nested")
    if hashed:
        access |= st.just("hash") | buckets | st.dictionaries(st.sampled_from(names), buckets, max_size=n)
    return {"strategy": strategy, "order": draw(st.none() | order), "tau": tau, "expire": expire, "access": draw(access)}


@examples(6)
@given(st.data())
def test_every_strategy_gives_the_definition_over_any_graph_and_windows(data):
    n = data.draw(st.integers(2, 5))
    rows = data.draw(rows_of(n))
    windows = data.draw(st.lists(ANY_WINDOW, min_size=n, max_size=n))
    links = data.draw(links_of(n))
    hashed = any(link[2] == "=" for link in links)
    options = data.draw(ways(n, hashed=hashed))
    spec = {name: specification(window) for name, window in zip(NAMES[:n], windows, strict=True)}
    run = run_strategy(make_trace(rows, n), window=spec, predicate=[written(link) for link in links], keep=OUTPUTS, **options)
    assert found(run) == golab.definition(golab.items(rows), windows, links)


@examples(3)
@given(st.data())
def test_every_strategy_gives_the_definition_with_one_predicate_on_the_key(data):
    n = data.draw(st.integers(2, 5))
    rows = data.draw(rows_of(n))
    windows = data.draw(st.lists(ANY_WINDOW, min_size=n, max_size=n))
    predicate = data.draw(st.sampled_from(("=", "=", "!=", "<=", ">", "eps:1")))
    comparison = ("eps", 1.0) if predicate == "eps:1" else predicate
    links = [(low, ("key",), comparison, high, ("key",)) for high in range(n) for low in range(high)]
    options = data.draw(ways(n, hashed=predicate == "="))
    spec = {name: specification(window) for name, window in zip(NAMES[:n], windows, strict=True)}
    run = run_strategy(make_trace(rows, n), window=spec, predicate=predicate, keep=OUTPUTS, **options)
    assert found(run) == golab.definition(golab.items(rows), windows, links)


@examples(4)
@given(st.data())
def test_steps_are_those_of_the_printed_algorithms(data):
    n = data.draw(st.integers(2, 4))
    rows = data.draw(rows_of(n, keys=st.integers(0, 3)))
    lengths = data.draw(st.lists(st.sampled_from((1, 2, 4, 8, 16)), min_size=n, max_size=n))
    options = data.draw(ways(n, hashed=True))
    options["order"] = options["order"] or list(NAMES[:n])
    trace = make_trace(rows, n)
    run = run_strategy(trace, window=dict(zip(NAMES[:n], lengths, strict=True)), keep=OUTPUTS, **options)
    work = golab.run(
        golab.items(ranked(rows)), lengths, nests(options, n), tau=options["tau"],
        expire=options["expire"] if isinstance(options["expire"], int) else None, buckets=by_stream(options["access"], n),
    )  # fmt: skip
    assert found(run) == sorted(work.outputs)
    assert (run.comparisons, run.timely) == (work.visits, work.timely)
    assert run.insertions == len(rows) and run.n_expired <= len(rows)


def ranked(rows):
    """Keys as ranks, which is what is hashed."""
    ranks = {key: rank for rank, key in enumerate(sorted({values["key"] for _, _, values in rows}))}
    return [(stream, time, values | {"key": ranks[values["key"]]}) for stream, time, values in rows]


def nests(options, n):
    names = NAMES[:n]
    orders = [options["order"][name] if isinstance(options["order"], dict) else options["order"] for name in names]
    positions = [[names.index(name) for name in order] for order in orders]
    if options["strategy"] in ("eager", "lazy"):
        positions = [[i, *(s for s in order if s != i)] for i, order in enumerate(positions)]
    return positions


def by_stream(access, n):
    if access == "nested":
        return {}
    if isinstance(access, dict):
        return {NAMES.index(name): number for name, number in access.items()}
    return dict.fromkeys(range(n), 1000 if access == "hash" else access)


@examples(2)
@given(st.data())
def test_count_windows_follow_computecountjoin(data):
    n = data.draw(st.integers(2, 4))
    rows = data.draw(rows_of(n))
    lengths = data.draw(st.lists(st.integers(1, 4), min_size=n, max_size=n))
    tau = data.draw(st.none() | st.integers(1, 9))
    spec = {name: f"rows:{length}" for name, length in zip(NAMES[:n], lengths, strict=True)}
    run = run_strategy(make_trace(rows, n), window=spec, strategy="count", tau=tau, keep=OUTPUTS)
    orders = [[i, *(s for s in range(n) if s != i)] for i in range(n)]
    work = golab.run(golab.items(rows), lengths, orders, tau=tau, rows=True)
    assert found(run) == sorted(work.outputs)


TABLE_2 = [(0, 90), (0, 100), (1, 150), (1, 180), (2, 195), (2, 205)]


def test_without_the_timestamp_check_golabs_table_3_comes_out_wrong():
    rows = [(stream, time, {"key": 1}) for stream, time in TABLE_2]
    orders = [[0, 1, 2]] * 3
    wrong = golab.run(golab.items(rows), [101] * 3, orders, tau=100, expire=1000, check=False).outputs
    right = golab.run(golab.items(rows), [101] * 3, orders, tau=100, expire=1000).outputs
    assert (len(wrong), len(right)) == (8, 2)
    for options in ({"strategy": "naive"}, {"strategy": "general"}, {"strategy": "lazy"}, {"strategy": "lazy", "access": 2}):
        run = run_strategy(make_trace(rows, 3), window=101, tau=100, expire=1000, keep=OUTPUTS, **options)
        assert [[TABLE_2[row][1] for row in members] for _, members in found(run)] == [[100, 150, 195], [100, 180, 195]]


def test_rows_out_of_order_give_the_definition_too():
    random = np.random.default_rng(3)
    rows = [(int(random.integers(3)), int(random.integers(40)), {"key": int(random.integers(3))}) for _ in range(60)]
    links = [(0, ("key",), "=", 1, ("key",)), (1, ("key",), "=", 2, ("key",))]
    expected = golab.definition(golab.items(rows), [("time", 6)] * 3, links)
    assert len(expected) > 10
    for options in ({"strategy": "eager"}, {"strategy": "general", "tau": 7, "access": 2}):
        assert found(run_strategy(make_trace(rows, 3), window=6, keep=OUTPUTS, **options)) == expected


def test_a_full_log_goes_on_where_it_stopped(monkeypatch):
    monkeypatch.setattr("penstock.multiway.machine.ROOM", 3)
    rows = [(stream, time, {"key": 1}) for time in range(6) for stream in range(3)]
    trace = make_trace(rows, 3)
    links = [(0, ("key",), "=", 1, ("key",)), (1, ("key",), "=", 2, ("key",))]
    expected = golab.definition(golab.items(rows), [("time", 3)] * 3, links)
    for options in ({"strategy": "eager"}, {"strategy": "naive", "tau": 2}):
        run = run_strategy(trace, window=3, keep=OUTPUTS, **options)
        assert found(run) == expected


REFUSED = [
    ({"strategy": "lzy"}, "strategy must be one of naive, eager, lazy, general, count, got 'lzy' (did you mean 'lazy'?)"),
    ({"strategy": "lazy"}, "evaluates every tau ticks: give tau="),
    ({"strategy": "lazy", "tau": 0}, "tau must be at least one tick, got 0"),
    ({"strategy": "lazy", "tau": 0.5}, "tau must be a whole number of ticks, at least 1, or a duration, got 0.5"),
    ({"strategy": "eager", "tau": 3}, "takes no tau, got 3"),
    ({"strategy": "lazy", "tau": 3, "expire": "eager"}, "expire must be 'lazy' or at least tau where evaluation is lazy, got 'eager'"),
    ({"strategy": "general", "tau": 3, "expire": 2}, "expire must be no more often than evaluation (every 3 ticks), got 2"),
    ({"strategy": "eager", "expire": "lazy"}, "give a number of ticks"),
    ({"strategy": "eager", "expire": 0}, "expire must be at least one tick, got 0"),
    ({"strategy": "eager", "access": 0}, "a number of buckets of at least 1 and at most 10,000,000 (by stream), got 0"),
    ({"strategy": "eager", "access": {"R": 0}}, "access of R must be"),
    ({"strategy": "eager", "access": {"X": 4}}, "stream in access must be one of R, S, got 'X'"),
    ({"strategy": "eager", "access": "tree"}, "at most 10,000,000 (by stream), got 'tree'"),
    ({"strategy": "eager", "access": "hash", "predicate": "<"}, "access must be 'nested' where no columns must be equal"),
    ({"strategy": "eager", "order": ["R", "X"]}, "stream in order must be one of R, S, got 'X'"),
    ({"strategy": "eager", "order": ["R", "R"]}, "order must have each of the streams R, S once, got R, R"),
    ({"strategy": "eager", "order": 3}, "order must be names of streams, got 3"),
    ({"strategy": "general", "tau": 2, "order": {"R": "R,S"}}, "order must name each of the streams R, S, got R"),
    ({"strategy": "naive", "order": {"R": "R,S", "S": "R,S"}}, "order of strategy 'naive' is one for all streams"),
    ({"strategy": "eager", "order": "R,S", "reorder": 0.2}, "order must be left out with reorder=, which chooses orders itself"),
    ({"strategy": "count"}, "strategy 'count' needs windows that count rows"),
    ({"strategy": "eager", "predicate": lambda a, b: a == b}, "predicate must be a comparison for strategy="),
    ({"strategy": "eager", "predicate": "R.key = S.nothing"}, "must name columns of the trace, got 'nothing'; it has: stream, time, key"),
    ({"strategy": "eager", "objective": sum}, "objective must be a name for strategy="),
    ({"strategy": "eager", "access": 10**12}, "at most 10,000,000 (by stream), got 1000000000000"),
    ({"strategy": "lazy", "tau": "3 parsecs"}, "at least 1, or a duration, got '3 parsecs'"),
    ({"strategy": "eager", "keep": "outputs"}, "keep must be a ps.Keep, such as ps.Keep(outputs=True), got 'outputs'"),
    ({"strategy": "eager", "memory": 5}, "with strategy=, got memory=5"),
    ({"tau": 5}, "without strategy=, got tau=5"),
    ({"memory": 5}, "without strategy=, got memory=5"),
    ({"keep": "outputs"}, "keep must be a ps.Keep, such as ps.Keep(outputs=True), got 'outputs'"),
    ({"keep": "outputs", "predicate": "R.key < S.key"}, "keep must be a ps.Keep, such as ps.Keep(outputs=True), got 'outputs'"),
]


@pytest.mark.parametrize(("options", "told"), REFUSED)
def test_what_cannot_be_is_refused(options, told):
    with pytest.raises(ps.PenstockError) as error:
        ps.exact(ps.Trace.from_streams(R=[1, 2], S=[1, 2]), window=4, **options)
    assert told in str(error.value)


def test_intervals_may_be_durations_as_windows_are():
    seconds = np.arange(6).astype("datetime64[s]").astype("datetime64[us]")
    trace = ps.Trace({"stream": list("RSRSRS"), "time": seconds, "key": [1] * 6})
    for tau in ("2 seconds", 2_000_000):
        run = ps.exact(trace, window="2 seconds", strategy="lazy", tau=tau, expire="4 seconds")
        assert (run.n_output, run.evaluations) == (5, 3)


def test_one_stream_is_no_join():
    with pytest.raises(ps.PenstockError, match="a join needs at least two streams"):
        run_strategy(ps.Trace.from_streams(R=[1, 2]), window=4, strategy="eager")


def seconds(unit: str | None = "s") -> ps.Trace:
    columns = {"stream": ["R", "S"] * 30, "time": [2 * i for i in range(60)], "key": [i // 2 % 3 for i in range(60)]}
    return ps.Trace(columns, time_unit=unit)


def test_durations_of_tau_and_expire_are_ticks_of_the_trace():
    """A tick is a second: "10 seconds" was taken for 10,000,000 of them."""
    options = {"window": "20 seconds", "strategy": "lazy", "keep": OUTPUTS}
    told = ps.exact(seconds(), tau="10 seconds", expire=timedelta(seconds=20), **options)
    same = ps.exact(seconds(), tau=10, expire=20, **options)
    assert (told.evaluations, told.peak_memory, told.comparisons) == (same.evaluations, same.peak_memory, same.comparisons)
    assert told.evaluations == 12 and found(told) == found(same)


@pytest.mark.parametrize("options", ({"tau": "10 seconds"}, {"tau": 10, "expire": "10 seconds"}, {"tau": timedelta(seconds=10)}))
def test_a_duration_where_nothing_says_how_long_a_tick_is_is_refused(options):
    name = "expire" if "expire" in options else "tau"
    with pytest.raises(ps.PenstockError, match=rf"{name} must be a number of ticks, .* got .*--time-unit s"):
        ps.exact(seconds(None), window=20, strategy="lazy", **options)


def test_a_tau_that_is_no_whole_number_of_ticks_is_refused():
    with pytest.raises(ps.PenstockError, match="tau must be a whole number of ticks, each 1 seconds, got '100 milliseconds'"):
        ps.exact(seconds(), window=20, strategy="lazy", tau="100 milliseconds")
