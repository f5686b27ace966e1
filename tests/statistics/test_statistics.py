"""Where probabilities come from, each source against its definition."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations, pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
import penstock as ps
from oracle import Row
from penstock.core.batch import Batch
from penstock.core.problem import Problem
from penstock.core.rounding import rounded
from penstock.statistics.decayed import Decayed
from penstock.statistics.sketch import Sketch
from policy_kinds import ON_STATS
from strategies import COMPILED, DETERMINISTIC_ON_STATS, EVERYTHING, Case, later, opened


class Notes(ps.Policy):
    """Sheds the oldest, and writes down p of every candidate in every instant."""

    name = "notes"

    def __init__(self) -> None:
        self.p: list[dict[int, float]] = []

    def score(self, view: ps.View) -> Any:
        self.p.append(dict(zip(view.row.tolist(), view.p.tolist(), strict=True)))
        return view.row


def noted(trace: ps.Trace, **options: Any) -> list[dict[int, float]]:
    """p of every candidate (by row) in every instant."""
    notes = Notes()
    ps.simulate(trace, policy=notes, **{"window": 16, "memory": 12, "stats": "whole"} | options)
    return notes.p


def random_rows(seed: int, n: int, *, streams: int = 2, keys: int = 4, steps: tuple[int, ...] = (0, 1, 1, 3)) -> list[Row]:
    random, time, rows = Random(seed), 0, []
    for _ in range(n):
        time += random.choice(steps)
        key = random.choice([None, *range(keys)])
        rows.append(Row(random.randrange(streams), time, key, random.choice((1.0, 2.0, 4.0))))
    return rows


def trace_of(rows: list[Row], streams: int = 2) -> ps.Trace:
    return Case(rows=rows, windows=[("time", 1)] * streams).trace


# -------------------------------------------------------------------------------------------------------------- whole


def prices(rows: list[Row], value: Any, match: Any) -> list[float]:
    """For each row, the value of its matches in the other stream, over all pairs."""
    out = [0.0] * len(rows)
    for i, j in combinations(range(len(rows)), 2):
        low, high = sorted((rows[i], rows[j]), key=lambda row: row.stream)
        if low.stream != high.stream and None not in (low.key, high.key) and match(low.key, high.key):
            worth = value([low.importance, high.importance])
            out[i] += worth
            out[j] += worth
    return out


def two_to_one(importances: list[float]) -> float:
    return 2 * importances[0] - importances[1]


@pytest.mark.parametrize("predicate", ("=", "<", "!=", "eps:1"))
@pytest.mark.parametrize("objective", [*oracle.VALUES, two_to_one])
def test_whole_is_the_value_of_all_matches_in_the_trace(objective, predicate):
    rows = random_rows(1, 60)
    value = objective if callable(objective) else oracle.VALUES[objective]
    match = (lambda a, b: abs(a - b) <= 1) if predicate == "eps:1" else oracle.COMPARISONS[predicate]
    wanted = prices(rows, value, match)
    for p in noted(trace_of(rows), objective=objective, predicate=predicate):
        assert p == {row: wanted[row] for row in p}


def test_whole_of_three_streams_is_a_product_of_counts():
    rows = random_rows(2, 60, streams=3)
    counts = Counter((row.stream, row.key) for row in rows)
    for p in noted(trace_of(rows, 3), objective="sum"):
        for number, price in p.items():
            others = [counts[stream, rows[number].key] for stream in range(3) if stream != rows[number].stream]
            assert price == (0 if rows[number].key is None else math.prod(others))


def test_rates_are_per_tick_or_per_arrival():
    # R is four times as fast as S: 8 rows to 2. Per tick a partner in R comes more often; per arrival of a partner's
    # stream, one in S is as sure to match.
    #     R   a b a b a b a b        p of s: a in R 4 of 8 rows       p of r: a in S 1 of 2 rows
    #     S   a b
    rows = [Row(0, time, "ab"[time % 2]) for time in range(8)] + [Row(1, 8, "a"), Row(1, 8, "b")]
    per_tick = noted(trace_of(rows))
    assert per_tick[-1] == {number: (1.0 if number < 8 else 4.0) for number in per_tick[-1]}
    per_arrival = noted(trace_of(rows), switches={"rates": "arrival"})
    assert len(set(per_arrival[-1].values())) == 1


@pytest.mark.parametrize("stepwise", (False, True), ids=("compiled", "stepwise"))
def test_rates_decide_who_leaves(stepwise):
    # time     0  1  2  3  4  5  6  7         memory 1
    # R        a  .  a  a  a  .  .  bbbbb     per tick: r0 has 2 partners in S, s1 has 4 in R, so r0 leaves
    # S        .  a  .  .  .  b  a  .         per arrival: r0 has 2 of 3, s1 has 4 of 9, so s1 leaves
    rows = [Row(0, 0, "a"), Row(1, 1, "a"), *(Row(0, time, "a") for time in (2, 3, 4)), Row(1, 5, "b"), Row(1, 6, "a")]
    rows += [Row(0, 7, "b")] * 5
    trace = trace_of(rows)
    options = {"window": 50, "memory": 1, "policy": "prob", "stats": "whole", "keep": ps.Keep(sheds=True), "stepwise": stepwise}
    assert ps.simulate(trace, **options).sheds[0] == 0
    assert ps.simulate(trace, switches={"rates": "arrival"}, **options).sheds[0] == 1


# -------------------------------------------------------------------------------------------------------------- given


@pytest.mark.parametrize("objective", oracle.VALUES)
def test_given_is_the_rate_in_the_table_times_the_value_of_a_pair_of_its_like(objective):
    rows = random_rows(3, 40)
    table = {("R", 0): 0.25, ("R", 1): 3, ("S", 1): 0.5, ("S", 2): 8, ("S", 99): 7}
    value = oracle.VALUES[objective]
    for p in noted(trace_of(rows), stats="given", given=table, objective=objective):
        for number, price in p.items():
            row = rows[number]
            rate = table.get(("SR"[row.stream], row.key), 0)
            assert price == rate * value([row.importance] * 2)


def test_given_of_three_streams_is_a_product_of_rates():
    rows = [Row(0, 0, "a"), Row(1, 0, "a"), Row(2, 0, "a"), Row(2, 0, "b")]
    table = {("R", "a"): 2, ("S", "a"): 3, ("T", "a"): 5, ("R", "b"): 7}
    assert noted(trace_of(rows, 3), stats="given", given=table) == [{0: 15.0, 1: 10.0, 2: 6.0, 3: 0.0}]


def test_given_and_its_table_belong_together():
    trace = trace_of(random_rows(3, 4))
    for options in ({"stats": "given"}, {"given": {("R", 0): 1}}):
        with pytest.raises(ps.PenstockError, match="given must be a table of rates exactly when stats is 'given'"):
            noted(trace, **options)
    with pytest.raises(ps.PenstockError, match="given must name the streams R, S, got 'X'"):
        noted(trace, stats="given", given={("X", 0): 1})
    with pytest.raises(ps.PenstockError, match=r"given must have rates >= 0 and at most 1e\+60, got -1 for R 0"):
        noted(trace, stats="given", given={("R", 0): -1})
    with pytest.raises(ps.PenstockError, match="stats 'given' holds rates by key; for predicate '<'"):
        noted(trace, stats="given", given={("R", 0): 1}, predicate="<")


# ------------------------------------------------------------------------------------------------------------- window


def test_window_counts_what_is_retained_and_what_arrives():
    # time     0   1   2        memory 2: at 1 row 0 has left when row 2 arrives
    # R        a   a   .        at 0: r0 has nobody; at 1: r0 has s2, r1 has s2, s2 has both
    # S        .   a   a        at 2: (r1, s2 are held) r1 has s2 and s3, s2 and s3 have r1
    rows = [Row(0, 0, "a"), Row(0, 1, "a"), Row(1, 1, "a"), Row(1, 2, "a")]
    assert noted(trace_of(rows), stats="window", memory=2, objective="count") == [
        {0: 0.0},
        {0: 1.0, 1: 1.0, 2: 2.0},
        {1: 2.0, 2: 1.0, 3: 1.0},
    ]


# ------------------------------------------------------------------------------------------------------------ decayed


def remembered(rows: list[Row], now: int, half_life: float, streams: int = 2) -> list[Row]:
    """The arrivals so far but for the keys that were forgotten.

    Every 8 half-lives (of three streams 4, of four 2) since the first arrival, a key is forgotten whose arrivals in a stream weigh less
    than 1/256 together.
    """
    step = 8 // (streams - 1)
    there = [row for row in rows if row.time <= now]
    for age in range(step, int((now - rows[0].time) / half_life) + 1, step):
        past = [row for row in there if (row.time - rows[0].time) / half_life < age]
        weights: Counter[Any] = Counter()
        for row in past:
            weights[row.stream, row.key] += 2.0 ** ((row.time - rows[0].time) / half_life - age)
        gone = {one for one, weight in weights.items() if weight < 1 / 256}
        there = [row for row in there if row not in past or (row.stream, row.key) not in gone]
    return there


def log_of_ages(rows: list[Row], x: Row, stream: int, now: int, half_life: float) -> float:
    """log2 of the sum, over the arrivals of a stream so far that match x, of 2 ** -(age / half-life)."""
    found = [row for row in rows if row.time <= now and row.stream == stream and row.key == x.key is not None]
    exponents = [(row.time - now) / half_life for row in found]
    most = max(exponents, default=-math.inf)
    return most + math.log2(math.fsum(2.0 ** (e - most) for e in exponents)) if exponents else -math.inf


@pytest.mark.wide
@pytest.mark.parametrize("half_life", (1.0, later(3.0), 10.0))
@pytest.mark.parametrize("streams", (2, 3, later(4)))
@pytest.mark.parametrize("steps", ((0, 1, 1, 3), (0, 1, 40), (1, 2000)), ids=("steady", "with gaps", "over ages"))
def test_decayed_is_the_sum_of_fading_arrivals(steps, streams, half_life):
    rows = random_rows(4, 80, streams=streams, steps=steps)
    times = sorted({row.time for row in rows})
    instants = noted(trace_of(rows, streams), stats="decayed", half_life=half_life, objective="count")
    for now, p in zip(times, instants, strict=True):
        wanted = {}
        known = remembered(rows, now, half_life, streams)
        for number in p:
            x = rows[number]
            others = [stream for stream in range(streams) if stream != x.stream]
            wanted[number] = sum(log_of_ages(known, x, stream, now, half_life) for stream in others)
        # A factor common to all is left open, so prices count in units of the largest.
        most = max(wanted.values())
        if most > -math.inf:
            largest = max(p.values())
            assert math.isfinite(largest)
            got = {number: price / largest for number, price in p.items()}
            assert got == pytest.approx({number: 2.0 ** (log - most) for number, log in wanted.items()}, rel=1e-9)


def counted_by_rates(source: Any, batch: Batch) -> np.ndarray:
    """All rates of a batch, piece by piece; each in the units of its own instant."""
    begin, parts = 0, []
    while begin < len(batch):
        source.age(batch, begin)
        rates, end = source.rates(batch, begin)
        assert end > begin
        parts.append(rates[: end - begin])
        begin = end
    return np.concatenate(parts)


def problem(**options: Any) -> Problem:
    return Problem.of(("R", "S"), **{"window": 16, "memory": 4} | options)


@pytest.mark.parametrize("step", (40, later(10)))
def test_the_decayed_counts_of_the_compiled_engine_over_thousands_of_half_lives(step):
    """Key 0 arrives in R in every instant and is the unit; the origin of the weights moves many times."""
    random, rows, time = Random(6), [], 0
    for _ in range(400):
        time += random.choice((1, 1, 2, 5, 100, 700))
        rows += [Row(0, time, 0), Row(random.randrange(2), time, random.randrange(1, 5))]
    assert time / 2.0 > 5000
    half_life = 2.0
    columns = (np.array(column) for column in zip(*((row.stream, row.time, row.key) for row in rows), strict=True))
    got = counted_by_rates(Decayed(problem(stats="decayed", half_life=half_life)), Batch(*columns))
    for number in range(0, len(rows), step):
        now, other = rows[number].time, rows[number + 1]
        known = remembered(rows, now, half_life)
        unit = log_of_ages(known, rows[number], 0, now, half_life)
        for stream in range(2):
            wanted = log_of_ages(known, other, stream, now, half_life) - unit
            ratio = got[number + 1, stream] / got[number, 0]
            assert ratio == pytest.approx(2.0**wanted, rel=1e-9, abs=0)


@pytest.mark.parametrize("predicate", ("eps:2", "<"))
@pytest.mark.parametrize("frozen", (False, True))
def test_weights_begin_anew_with_the_first_row_after_a_snapshot(predicate, frozen):
    random = Random(3)
    rows = [Row(random.randrange(2), 10 * at, random.randrange(12), 1.0) for at in range(200)]
    options: dict[str, Any] = {"window": 80, "memory": 9, "policy": "prob", "predicate": predicate, "stats": "decayed", "half_life": 20}

    def fresh() -> tuple[Any, Batch]:
        return opened(trace_of(rows), keep=EVERYTHING, **options)

    engine, batch = fresh()
    whole = engine.play(batch)
    parts, _ = fresh()
    outputs = []
    for cut in range(0, len(rows), 16):  # 160 ticks, after which the weights begin anew
        after, _ = fresh()
        if cut:
            after.thaw(parts.freeze()) if frozen else after.restore(parts.snapshot())
        parts = after
        outputs.append(parts.play(batch.cut(cut, min(cut + 16, len(rows)))).outputs)
    assert np.array_equal(np.concatenate(outputs), whole.outputs)
    assert parts.totals == engine.totals


def test_keys_that_come_no_more_take_no_room():
    """Every key comes once: there are as many counts as some windows bring."""
    source = Decayed(problem(stats="decayed", window=10))
    for begin in range(0, 20_000, 1000):
        time = np.arange(begin, begin + 1000)
        counted_by_rates(source, Batch(time % 2, time, time))
        assert len(source.snapshot()["key"]) < 300 and len(source.known) <= 2048


def long_lived(streams: int) -> list[Row]:
    """Two spells of rows, thousands of half-lives apart; each lasts for about nine hundred."""
    random, time, rows = Random(streams), 0, []
    for number in range(90):
        time += 3000 if number == 45 else random.choice((0, 0, 1, 1, 40, 80))
        rows.append(Row(random.randrange(streams), time, random.randrange(3)))
    return rows


@pytest.mark.parametrize("policy", DETERMINISTIC_ON_STATS)
@pytest.mark.parametrize("streams", (2, 3, 4))
def test_long_runs_over_decayed_statistics_are_the_oracles(streams, policy):
    windows = [("time", 256)] * streams
    case = Case(rows=long_lived(streams), windows=windows, memory=6, policy=policy, stats="decayed", half_life=1.0)
    expected = case.expected()
    assert case.played() == expected
    assert case.played(stepwise=True) == expected


@pytest.mark.parametrize("stats", ("decayed", "sketch"))
@pytest.mark.parametrize("policy", ON_STATS)
def test_long_runs_over_decayed_statistics_are_the_same_in_any_batches(policy, stats):
    trace = Case(rows=long_lived(2), windows=[("time", 256)] * 2).trace
    options = {"window": 256, "memory": 6, "policy": policy, "stats": stats, "half_life": 1.0, "keep": EVERYTHING}
    cuts = [0, *(np.flatnonzero(np.diff(trace.time)) + 1), len(trace)]
    engine, batch = opened(trace, **options)
    whole = engine.play(batch).sheds.tolist()
    for every in (1, 2, 7):
        engine, batch = opened(trace, **options)
        parts = [engine.play(batch.cut(begin, end)).sheds.tolist() for begin, end in pairwise([*cuts[:-1:every], len(trace)])]
        assert [row for part in parts for row in part] == whole


@pytest.mark.parametrize("stats", ("decayed", "sketch"))
@pytest.mark.parametrize("policy", ON_STATS)
def test_a_stream_of_a_thousand_half_lives(policy, stats):
    ticks, half_life = (10_000, None) if COMPILED else (600, 0.5)
    trace = ps.generate(ticks, seed=1)
    run = ps.simulate(trace, window=10, memory=8, policy=policy, stats=stats, half_life=half_life)
    assert run.n_input == len(trace) == run.n_shed + run.n_expired + 8


# ------------------------------------------------------------------------------------------------------------- sketch

WIDTH, DEPTH = 256, 4


def zipf_batch(n: int, keys: int, *, ticks: int, seed: int) -> Batch:
    random = np.random.default_rng(seed)
    weights = 1 / np.arange(1, keys + 1)
    key = random.choice(keys, n, p=weights / weights.sum()).astype(np.int64)
    return Batch(random.integers(0, 2, n), np.sort(random.integers(0, ticks, n)), key)


@pytest.mark.parametrize("seed", range(5))
def test_a_sketch_is_never_below_the_count_and_rarely_far_above(seed):
    """Count-Min: above by more than e/width of the total for at most a share exp(-depth) of the keys."""
    keys = 3000
    batch = zipf_batch(20_000 if COMPILED else 4_000, keys, ticks=1, seed=seed)
    sketch = Sketch(problem(stats="sketch", seed=seed), width=WIDTH, depth=DEPTH)
    estimates = counted_by_rates(sketch, batch)
    for stream in range(2):
        counts = np.bincount(batch.key[batch.stream == stream], minlength=keys)
        seen, where = np.unique(batch.key, return_index=True)
        excess = estimates[where, stream] - counts[seen]
        assert (excess >= 0).all()
        far = excess > math.e / WIDTH * counts.sum()
        assert far.mean() <= math.exp(-DEPTH)


def test_a_sketch_of_decayed_counts_keeps_its_bound():
    batch, half_life = zipf_batch(3000, 800, ticks=400, seed=9), 50.0
    options = {"half_life": half_life, "window": 100}
    true = counted_by_rates(Decayed(problem(stats="decayed", **options)), batch)
    estimates = counted_by_rates(Sketch(problem(stats="sketch", **options), width=WIDTH, depth=DEPTH), batch)
    assert (estimates >= true * (1 - 1e-9)).all()
    # In forward weights the total of a stream is the sum of its weights so far, this instant included.
    weight = np.exp2((batch.time - batch.time[0]) / half_life)
    last = np.searchsorted(batch.time, batch.time, side="right") - 1
    for stream in range(2):
        total = np.cumsum(weight * (batch.stream == stream))[last]
        far = estimates[:, stream] - true[:, stream] > math.e / WIDTH * total
        assert far.mean() <= math.exp(-DEPTH)


def test_a_wide_sketch_is_exact_and_its_memory_is_fixed():
    batch = zipf_batch(2000, 60, ticks=50, seed=3)
    sketch = Sketch(problem(stats="sketch"), width=1 << 14, depth=4)
    size = sketch.table.nbytes
    estimates = counted_by_rates(sketch, batch)
    assert sketch.table.nbytes == size
    assert np.array_equal(estimates, counted_by_rates(Decayed(problem(stats="decayed")), batch))


@pytest.mark.parametrize("stepwise", (False, True), ids=("compiled", "stepwise"))
@pytest.mark.parametrize("policy", ON_STATS)
def test_a_run_over_a_sketch_is_the_run_over_exact_counts_while_keys_are_few(policy, stepwise):
    trace = ps.generate(120, keys=12, seed=8)
    options = {"window": 20, "memory": 8, "policy": policy, "half_life": 7.0, "stepwise": stepwise}
    runs = [ps.simulate(trace, stats=stats, keep=ps.Keep(sheds=True), **options) for stats in ("decayed", "sketch")]
    assert runs[0].sheds.tolist() == runs[1].sheds.tolist()


def test_a_sketch_goes_on_under_another_seed():
    batch = zipf_batch(2_000, 300, ticks=1, seed=4)
    old, new = (Sketch(problem(stats="sketch", seed=seed), width=WIDTH, depth=DEPTH) for seed in (1, 2))
    counted_by_rates(old, batch)
    new.restore(old.snapshot())
    assert new.totals(np.arange(300)).tolist() == old.totals(np.arange(300)).tolist()


def test_a_sketch_counts_equal_keys_only():
    with pytest.raises(ps.PenstockError, match="stats 'sketch' counts equal keys; for predicate '<' use"):
        noted(trace_of(random_rows(3, 4)), stats="sketch", predicate="<")


# ---------------------------------------------------------------------------------------------------------- half-life


@pytest.mark.parametrize("window", ("none", "landmark:0", "rows:5"))
@pytest.mark.parametrize("stats", ("decayed", "sketch"))
def test_a_half_life_must_be_given_where_no_window_suggests_one(stats, window):
    trace = trace_of(random_rows(3, 10))
    with pytest.raises(ps.PenstockError, match="half_life must be given where a window is not a length of time"):
        noted(trace, stats=stats, window=window)
    noted(trace, stats=stats, window=window, half_life=3)


@pytest.mark.parametrize("half_life", (0, -1, math.nan, math.inf, "long"))
def test_a_half_life_is_a_positive_number(half_life):
    with pytest.raises(ps.PenstockError, match='half_life must be a positive number, or a duration such as "10 minutes", got'):
        noted(trace_of(random_rows(3, 10)), stats="decayed", half_life=half_life)


@given(st.floats(2.0**-1000, 1e300) | st.integers(1, 2**53).map(float) | st.integers(0, 2**42).map(lambda x: 2.0**42 + x + 0.5))
def test_rounding_in_bits_is_rounding_of_the_number(x):
    assert rounded(x) == oracle.rounded(x)
    assert rounded(-x) == -rounded(x)
    assert rounded(0.0) == 0.0
    assert rounded(math.inf) == math.inf
