"""`ps.plan`: its figures are those of the simulator and of the optimum, its memory is the smallest, and its words say what is in it."""

from __future__ import annotations

import ast
import tomllib
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.experiments.plan.blocks import BLOCKS, Blocks, play, play_exact
from penstock.experiments.plan.estimate import estimate
from penstock.experiments.plan.key_sample import sampled
from penstock.experiments.plan.streams import Streams
from penstock.pipeline.recipe import check_recipe


@pytest.fixture(scope="module")
def trace() -> ps.Trace:
    return ps.generate(6000, keys=60, seed=3)


@pytest.fixture(scope="module")
def found(trace: ps.Trace) -> ps.Plan:
    return ps.plan(trace, window=300, recall=0.8)


def test_what_is_said_of_a_memory_is_what_the_simulator_plays(trace, found):
    start = int(Blocks.of(trace, 300).times[0])
    whole = ps.exact(trace, window=300, start=start)
    for point in found.points[:: max(1, len(found.points) // 8)]:
        run = ps.simulate(trace, window=300, memory=point.memory, policy=point.policy, start=start)
        assert point.kept.share == pytest.approx(run.n_output / whole.n_output)
        assert point.kept.low <= point.kept.share <= point.kept.high
    assert found.peak == whole.peak_memory and found.kept.share >= 0.8
    best = ps.optimum(trace, window=300, memory=found.memory, start=start)
    assert found.optimum == pytest.approx(best.value / whole.n_output) and found.regret == pytest.approx(found.optimum - found.kept.share)


def test_no_policy_that_was_tried_needs_less(found):
    less = [point for point in found.points if point.memory < found.memory / 1.03]
    assert less and max(point.kept.share for point in less) < 0.8
    assert found.others[found.policy] == found.kept.share and len(found.others) == 5


def test_a_ttl_of_the_same_memory_is_a_shorter_window(trace, found):
    assert found.ttl is not None and found.ttl_kept is not None and 0 < found.ttl < 1
    start = int(Blocks.of(trace, 300).times[0])
    short = ps.exact(trace, window=round(300 * found.ttl), start=start)
    assert short.peak_memory <= found.memory < found.peak
    assert found.ttl_kept == pytest.approx(short.n_output / ps.exact(trace, window=300, start=start).n_output)


def test_the_words_say_what_was_found(found):
    first, second, third = found.sentences()
    assert first.startswith(f"{found.memory:,} rows of memory keep {found.kept.share:.1%} of the result") and f"{found.peak:,}" in first
    assert found.policy in second and f"{found.optimum:.1%}" in second and "TTL" in third and "one shard" in third
    code = found.code()
    assert f"memory={found.memory}" in code and "window=300" in code and ("policy=" in code) is not found.usual
    assert f"memory = {found.memory}" in found.snippet() and str(found) == "\n".join(found.sentences())
    assert set(found.summary()) >= {"memory", "policy", "kept", "regret", "points", "streams", "answer", "code", "pipeline"}


def test_later_data_of_the_same_kind_lies_in_the_interval():
    """Of thirty pairs of months at most a few are outside an interval at 95 %."""
    outside = 0
    for seed in range(30):
        random = np.random.default_rng(seed)
        n = 4000
        time, key = np.sort(random.integers(0, 10_000, 2 * n)), random.zipf(1.6, 2 * n) % 200
        table = {"stream": random.choice(["R", "S"], 2 * n), "time": time, "key": key}
        whole = ps.Trace(table, streams=["R", "S"])
        now, later = (ps.Trace(whole.table.slice(begin, n), streams=["R", "S"]) for begin in (0, n))
        said = ps.plan(now, window=150, recall=0.7, policies=["prob"], memories=[10])
        begin = int(Blocks.of(later, 150).times[0])
        run = ps.simulate(later, window=150, memory=10, policy="prob", start=begin)
        true = run.n_output / ps.exact(later, window=150, start=begin).n_output
        outside += not said.kept.low <= true <= said.kept.high
    assert outside <= 4


def test_a_sample_of_the_keys_says_about_the_same():
    random = np.random.default_rng(5)
    n = 60_000
    table = {"stream": random.choice(["R", "S"], n), "time": np.arange(n), "key": random.integers(0, 3000, n)}
    trace = ps.Trace(table, streams=["R", "S"])
    some = sampled(trace, 20_000)
    assert len(some.parts) == 8 and not set.intersection(*(set(part.key_values("key").to_pylist()) for part in some.parts))
    small = ps.plan(trace, window=6000, recall=0.7, policies=["fifo", "prob"], rows=20_000)
    whole = ps.plan(trace, window=6000, recall=0.7, policies=["fifo", "prob"], memories=[small.memory])
    assert small.sampled == pytest.approx(1 / 3) and "Played: " in " ".join(small.reasons()) and whole.sampled == 1
    assert small.kept.low <= whole.kept.share <= small.kept.high
    assert small.peak == pytest.approx(whole.peak, rel=0.1)


def test_one_frequent_key_is_not_left_to_chance():
    key = np.where(np.arange(20_000) % 3 == 0, 7, np.arange(20_000))
    trace = ps.Trace({"stream": ["R", "S"] * 10_000, "time": np.arange(20_000), "key": key})
    assert sampled(trace, 5000).whole


def test_value_counts_where_rows_have_an_importance():
    trace = ps.generate(3000, keys=60, importance="uniform", seed=1)
    found = ps.plan(trace, window=200, recall=0.8, policies=["dimpprob", "fifo"])
    start = int(Blocks.of(trace, 200).times[0])
    run, whole = (
        ps.simulate(trace, window=200, memory=found.memory, policy=found.policy, start=start),
        ps.exact(trace, window=200, start=start),
    )
    assert found.by_value and found.kept.share == pytest.approx(run.value / whole.value) and "of the value" in found.sentences()[0]


def test_what_streams_are_like_is_said():
    unique = ps.Trace({"stream": ["R"] * 50 + ["S"] * 50, "time": [*range(50), *range(50)], "key": [*range(50), *range(50)]}, time_unit="s")
    own = Streams.of(unique)
    assert (own.once, own.alone, own.rows_per_second) == (1.0, 0.0, 2.5)
    assert "comes once" in " ".join(ps.plan(unique, window=5, policies=["fifo"]).reasons())


def test_shards_that_are_asked_for_are_played(trace):
    found = ps.plan(trace, window=300, recall=0.8, policies=["prob"], shards=2)
    assert (
        found.shards == 2
        and found.divided is not None
        and 0.5 < found.divided <= 1
        and "2 shards are enough, and keep" in found.sentences()[2]
    )


def test_blocks_cover_what_is_counted(trace):
    blocks = Blocks.of(trace, 300)
    problem_free = ps.exact(trace, window=300, start=int(blocks.times[0]))
    from penstock.core.problem import Problem

    problem = Problem.of(trace.streams, window=300, memory=20, stats="decayed")
    assert len(blocks.times) == BLOCKS + 1 and play_exact(trace, problem, blocks).outputs.sum() == problem_free.n_output
    assert play(trace, problem, "fifo", blocks).outputs.sum() <= problem_free.n_output


def test_an_interval_narrows_with_the_blocks():
    random = np.random.default_rng(1)
    exact = np.full((1, 20), 100.0)
    made = exact - random.integers(0, 40, (1, 20))
    wide, narrow = estimate(made[:, :4], exact[:, :4]), estimate(made, exact)
    assert wide is not None and narrow is not None and narrow.high - narrow.low < wide.high - wide.low
    assert estimate(np.zeros((1, 3)), np.zeros((1, 3))) is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"recall": 1.5}, "recall must be a number above 0 and up to 1, such as 0.95, got 1.5"),
        ({"memories": [0]}, "memories must be positive numbers of rows, got 0"),
        ({"policies": ["best"]}, "policy must be one of"),
        ({"rows": 0}, "rows must be a positive whole number, got 0"),
        ({"window": 0}, "window"),
    ],
)
def test_what_cannot_be_planned_is_refused(trace, options, said):
    with pytest.raises(ps.PenstockError, match=said):
        ps.plan(trace, **{"window": 300} | options)


def test_streams_that_never_meet_are_refused():
    with pytest.raises(ps.PenstockError, match="trace must have rows that are joined after the first window, got none"):
        ps.plan(ps.Trace.from_streams(R="aaaa", S="bbbb"), window=2)


def test_rows_out_of_order_are_played_in_the_order_of_their_times():
    random = np.random.default_rng(2)
    time = np.arange(3000) - random.integers(0, 30, 3000) * (random.random(3000) < 0.2)
    table = {"stream": random.choice(["R", "S"], 3000), "time": time, "key": random.integers(0, 40, 3000)}
    ordered = np.argsort(time, kind="stable")
    found, same = (
        ps.plan(
            ps.Trace({name: np.asarray(column)[rows] for name, column in table.items()}, streams=["R", "S"]), window=100, policies=["prob"]
        )
        for rows in (np.arange(3000), ordered)
    )
    assert found == same


def test_a_promise_that_is_broken_costs_outputs(trace):
    found = ps.plan(trace, window=300, matches=1, policies=["fifo"], memories=[40])
    start = int(Blocks.of(trace, 300).times[0])
    run = ps.simulate(trace, window=300, memory=40, policy="fifo", matches=1, start=start)
    assert found.kept.share == pytest.approx(run.n_output / ps.exact(trace, window=300, start=start).n_output)


def test_the_join_to_paste_is_the_one_that_was_planned(trace):
    weighed = ps.generate(2000, keys=30, importance="uniform", seed=1)
    said = {"R": {"time": "ts", "importance": "w"}, "S": {"time": "at", "key": "other"}}
    found = ps.plan(weighed, window={"R": 50, "S": 80}, objective="max", policies=["dimpprob"], recall=0.5, columns=said, shards=3)
    code = found.code()
    assert 'ps.stream(R, time="ts", window=50, importance="w")' in code
    assert 'ps.stream(S, time="at", window=80, importance="importance", key="other")' in code
    assert 'on="key", objective="max", memory=' in code and 'policy="dimpprob", shards=3' in code
    pipeline = tomllib.loads(found.snippet())
    assert pipeline["streams"]["S"] == {"source": "S", "time": "at", "window": 80, "importance": "importance", "key": "other"}
    assert pipeline["join"]["objective"] == "max" and pipeline["join"]["memory"] == found.memory
    near = ps.plan(trace, window=20, predicate="eps:1", policies=["prob"], recall=0.5)
    assert 'predicate="eps:1"' in near.code() and near.streams is None


@pytest.mark.parametrize("names", [("orders", "clicks"), ("from", "my clicks.v2"), ("2026-01.a", "2026-01.b"), ('"quoted"', "höhe")])
def test_what_is_printed_can_be_pasted_whatever_the_streams_are_called(names):
    table = ps.generate(400, keys=10, seed=1, streams=names).table.rename_columns(["stream", "time", "rider's"])
    found = ps.plan(ps.Trace(table, key="rider's", time_unit="s"), window="10 s", recall=0.5, policies=["prob"], memories=[4, 8])
    call: Any = ast.parse(found.code(), mode="eval").body
    frames = [stream.args[0].id for stream in call.args[0].values]
    assert tuple(map(ast.literal_eval, call.args[0].keys)) == names and len(set(frames)) == 2
    assert {each.arg: ast.literal_eval(each.value) for each in call.keywords}["on"] == "rider's"
    sources = "\n".join(f"[sources.{name}]\nkind = 'rate'" for name in frames)
    recipe = check_recipe(tomllib.loads(f"{sources}\n{found.snippet()}\n[sink]\nkind = 'console'"))
    assert list(recipe.streams) == frames and recipe.join["memory"] == found.memory and recipe.join["on"] == ["rider's"]


def test_null_keys_and_lifetimes_are_what_they_are():
    random = np.random.default_rng(3)
    key = [None if dead else int(one) for dead, one in zip(random.random(1000) < 0.4, random.integers(0, 20, 1000), strict=True)]
    table = {"stream": ["R", "S"] * 500, "time": range(1000), "key": key, "lifetime": [40] * 1000}
    found = ps.plan(ps.Trace(table), window=80, policies=["fifo"])
    assert found.streams is not None and found.streams.keys == 20 and found.streams.once < 0.05 and found.ttl is None


@pytest.mark.parametrize("window", ["rows:10", "none"])
def test_a_window_that_is_no_length_is_planned_with_policies_that_need_none(window):
    found = ps.plan(ps.generate(1500, keys=30, seed=4), window=window, recall=0.6)
    assert found.kept.share >= 0.6 and found.ttl is None and "fifo" in found.others


def test_what_is_given_as_a_list_must_be_one(trace):
    for name, wrong in (("memories", []), ("memories", 100), ("policies", []), ("policies", "prob")):
        with pytest.raises(ps.PenstockError, match=f"{name} must be a list with something in it"):
            ps.plan(trace, window=300, **{name: wrong})
    with pytest.raises(ps.PenstockError, match="shards"):
        ps.plan(trace, window=300, shards=0)
