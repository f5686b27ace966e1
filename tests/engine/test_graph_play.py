"""Joins over a join graph, played: against the oracle, and the contract of every policy."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import oracle
import penstock as ps
from graphs import BLIND, GraphCase, graph_cases
from penstock.core.batch import Batch
from penstock.core.errors import PenstockError
from penstock.core.problem import Problem
from penstock.engine import binding
from penstock.optimum.gains import Gains, share_values
from penstock.optimum.instants import number_instants
from policy_kinds import ON_EQUALITY
from strategies import DETERMINISTIC_ON_STATS, EVERYTHING, examples, opened, play_in_parts

SLOW = settings(examples(), max_examples=400)


def agree(case: GraphCase) -> None:
    if case.on_one_key and case.policy not in BLIND:
        case = replace(case, policy="fifo")  # p knows more there: see test_links_on_one_key_are_an_ordinary_join
    assert case.played() == case.expected()


@examples(3)
@given(graph_cases(most=5))
def test_the_engine_plays_a_graph_as_the_oracle_does(case):
    agree(case)


@pytest.mark.parametrize("stats", ("whole", "window", "decayed"))
@examples()
@given(case=graph_cases(most=4, policies=DETERMINISTIC_ON_STATS, windows=("time",)))
def test_prices_are_products_over_the_partners(stats, case):
    """Memory for a third of the rows: many leave, and the order in which they do shows every price."""
    assume(len(case.windows) > 2)
    agree(replace(case, stats=stats, memory=max(len(case.windows), len(case.rows) // 3), allocation="variable"))


@pytest.mark.slow
@SLOW
@given(graph_cases(most=5, longest=9))
def test_the_engine_plays_larger_graphs_as_the_oracle_does(case):
    agree(case)


@examples(2)
@given(graph_cases(most=5, policies=BLIND, windows=("time", "rows")))
def test_the_exact_join_is_the_definition(case):
    case = replace(case, rows=sorted(case.rows, key=lambda row: row.time), clock="global", lateness=())
    wanted = [(time, *members) for time, members in oracle.exact(case.rows, len(case.windows), case.windows, predicate=case.predicate)]
    options = {name: case.options()[name] for name in ("window", "predicate", "cross")}
    run = ps.exact(case.trace, keep=ps.Keep(outputs=True), **options)
    assert sorted(map(tuple, run.outputs.tolist())) == wanted


def world(seed: int, ticks: int = 14) -> ps.Trace:
    """Three streams, a chain R.a = S.a, S.b < T.b with a near link beside it, without a key."""
    random = np.random.default_rng(seed)
    stream = random.permuted(np.repeat(["R", "S", "T"], ticks))
    columns: dict[str, Any] = {"stream": stream.tolist(), "time": np.sort(random.integers(0, ticks, 3 * ticks)).tolist()}
    columns |= {"a": random.integers(0, 3, 3 * ticks).tolist(), "b": random.integers(0, 4, 3 * ticks).tolist()}
    columns |= {"x": random.integers(0, 3, 3 * ticks) / 2.0, "importance": random.choice([1.0, 2.0, 4.0], 3 * ticks)}
    return ps.Trace(columns, key=(), streams=("R", "S", "T"))


LINKS = ["R.a = S.a", "S.b < T.b", "|R.x - T.x| <= 0.5"]


class Produced(ps.Policy):
    """A user's own, which looks at what tuples have produced."""

    name = "produced"

    def score(self, view: ps.View) -> Any:
        return view.produced_value + view.remaining / 64


@pytest.mark.parametrize("policy", [*ps.POLICIES, Produced()], ids=lambda policy: getattr(policy, "name", policy))
@pytest.mark.parametrize("window", (6, "rows:7"), ids=str)
def test_every_policy_keeps_its_contract_on_a_graph_or_says_why_not(policy, window):
    trace = world(3)
    options: dict[str, Any] = {"window": window, "predicate": LINKS, "policy": policy, "keep": EVERYTHING, "half_life": 4.0}
    exact = Counter(map(tuple, ps.exact(trace, window=window, predicate=LINKS, keep=EVERYTHING).outputs.tolist()))
    assert exact
    try:
        small = {stats: ps.simulate(trace, memory=9, stats=stats, **options) for stats in ("whole", "window", "decayed")}
    except PenstockError as refusal:
        assert "links" in str(refusal)
        return
    for run in small.values():
        assert run.n_shed > 0 and max(len(rows) for _, rows in run.memory_log) == run.peak_memory <= 9
        got = Counter(map(tuple, run.outputs.tolist()))
        assert got and not got - exact and run.n_output == got.total()
    ample = ps.simulate(trace, memory=len(trace), stats="whole", **options)
    assert Counter(map(tuple, ample.outputs.tolist())) == exact and ample.n_shed == 0
    fixed = ps.simulate(trace, memory=9, allocation="fixed", stats="whole", **options)
    assert all(held <= 3 for _, *streams in fixed.series.tolist() for held in streams)


@examples()
@given(graph_cases(), st.data())
def test_batches_and_snapshots_change_nothing(case, data):
    instants = (np.flatnonzero(np.diff(case.trace.time)) + 1).tolist()
    cuts = data.draw(st.sets(st.sampled_from(instants), max_size=3)) if instants else set()
    engine, batch = opened(case.trace, keep=EVERYTHING, **case.options())
    whole = engine.play(batch)
    parts, _ = opened(case.trace, keep=EVERYTHING, **case.options())
    assert np.array_equal(play_in_parts(parts, batch, cuts).outputs, whole.outputs)
    cut = max(cuts, default=0)
    before, _ = opened(case.trace, keep=EVERYTHING, **case.options())
    first = before.play(batch.cut(0, cut)).outputs
    after, _ = opened(case.trace, keep=EVERYTHING, **case.options())
    after.restore(before.snapshot())
    assert np.array_equal(np.concatenate([first, after.play(batch.cut(cut, len(batch))).outputs]), whole.outputs)
    assert replace(after.totals, n_steps=0) == replace(engine.totals, n_steps=0)  # who holds a tournament steps more


@pytest.mark.parametrize("policy", ps.POLICIES)
@pytest.mark.parametrize("stats", ("whole", "window", "decayed", "sketch"))
def test_links_on_one_key_are_an_ordinary_join(policy, stats):
    trace = world(5)
    keyed = ps.Trace(trace.table, key="a", streams=trace.streams)
    options: dict[str, Any] = {"window": 8, "memory": 9, "policy": policy, "stats": stats, "keep": EVERYTHING}
    plain, linked = ps.simulate(keyed, **options), ps.simulate(trace, predicate="T.a = S.a, S.a = R.a", **options)
    assert plain.n_shed > 0
    assert plain.summary() == linked.summary()
    assert np.array_equal(plain.outputs, linked.outputs) and np.array_equal(plain.sheds, linked.sheds)


@pytest.mark.parametrize("policy", [name for name in ps.POLICIES if name not in ON_EQUALITY])
@pytest.mark.parametrize(("predicate", "links"), [("<", "R.b < S.b"), ("eps:1", "|S.b - R.b| <= 1"), ("!=", "R.b != S.b")])
def test_one_link_between_two_streams_is_a_plain_predicate(predicate, links, policy):
    both = world(7).table
    both = both.filter(np.asarray(both["stream"]) != "T")
    plain, linked = (ps.Trace(both, key=key, streams=("R", "S")) for key in ("b", ()))
    options: dict[str, Any] = {"window": 8, "memory": 5, "policy": policy, "stats": "whole", "seed": 3}
    assert ps.simulate(plain, predicate=predicate, **options).summary() == ps.simulate(linked, predicate=links, **options).summary()


@examples()
@given(graph_cases(most=3, policies=("fifo",), windows=("time",), longest=3))
def test_the_optimum_over_a_graph(case):
    case = replace(case, rows=sorted(case.rows, key=lambda row: row.time))
    options = {name: case.options()[name] for name in ("window", "memory", "predicate", "cross", "objective", "allocation")}
    best = ps.optimum(case.trace, method="states", **options)
    replayed = ps.simulate(case.trace, policy="opt", **options)
    assert replayed.value == pytest.approx(best.value)
    assert best.value >= ps.simulate(case.trace, policy="fifo", **options).value - 1e-9
    if len(case.windows) == 2:
        assert ps.optimum(case.trace, method="chain", **options).value == pytest.approx(best.value)


@examples()
@given(graph_cases(most=4, policies=("fifo",), windows=("time",)))
def test_the_shares_of_the_bound_add_up_to_the_exact_value(case):
    case = replace(case, rows=sorted(case.rows, key=lambda row: row.time))
    assume(len(case.windows) > 2)
    options = {name: case.options()[name] for name in ("window", "predicate", "cross", "objective")}
    problem = Problem.of(case.streams, memory=1, has_importance=case.importance, **options)
    batch = Batch.of(case.trace, problem)
    _, _, shares, together = share_values(Gains.of(case.trace, problem), number_instants(case.trace, problem, batch))
    assert shares.sum() + together == pytest.approx(ps.exact(case.trace, **options).value)


def test_a_chain_is_joined_link_by_link(monkeypatch):
    """The streams next to the arrival cut down those behind them: never 50 x 50 pairs, though only three streams away do links end."""
    size = 50
    rows = [("S", i, i) for i in range(size)] + [("T", i, i) for i in range(size)] + [("U", i, i) for i in range(size)] + [("R", 7, 7)]
    names, a, b = zip(*rows, strict=True)
    trace = ps.Trace({"stream": names, "time": [*range(3 * size), 3 * size], "a": a, "b": b}, key=(), streams=("R", "S", "T", "U"))
    cells: list[int] = []
    match = binding.match

    def counted(*sides: Any, **pair: Any) -> Any:
        found = match(*sides, **pair)
        cells.append(found.size)
        return found

    monkeypatch.setattr(binding, "match", counted)
    links = "R.a = S.a, S.b = T.b, T.a = U.a"
    run = ps.simulate(trace, window=10_000, memory=len(trace), policy="fifo", stats="window", predicate=links, stepwise=True)
    assert run.n_output == 1
    assert sum(cells) > 0 and max(cells) <= size


@examples()
@given(st.integers(0, 10_000))
def test_a_long_join_is_cut_into_blocks(seed):
    trace = world(seed, ticks=6)
    options: dict[str, Any] = {"window": 9, "memory": len(trace), "policy": "fifo", "stats": "window", "predicate": LINKS}
    whole = ps.simulate(trace, keep=EVERYTHING, **options).outputs
    assume(len(whole))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(binding, "_CELLS", 3)
        assert np.array_equal(ps.simulate(trace, keep=EVERYTHING, **options).outputs, whole)
