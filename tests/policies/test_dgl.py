"""How `dgl` is rounded (docs/decisions/0001): both forms by the same rule, which is as good as exact fractions."""

from __future__ import annotations

import io
import math
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest

import oracle
from agreement import agree
from oracle import Context, Row, Tuple
from penstock.core.problem import Problem
from penstock.core.rounding import mean, raised
from penstock.core.state_encoding import pack, unpack
from penstock.engine import units
from penstock.engine.gain_loss import MOST, UNIT, factors, in_units
from penstock.simulator.policy_checks import between_instants
from plays import each_form
from strategies import COMPILED, EVERYTHING, Case, later, opened

FAR_APART = (1e-9, 1.0, 1e9)
FOURTHS_AND_TWELFTHS = (4, 12)


def fractions(x: Tuple, context: Context) -> tuple[Any, ...]:
    """The definition, in exact fractions."""
    mn, importance, state = context.mn(x), Fraction(x.importance), context.state
    if x.instant == context.instant:
        state[x.number] = importance * (mn if context.switches.get("dgl-init") == "simpprob" else 1)
    elif any(y.stream != x.stream and context.match(x, y) for y in context.arrivals):
        alpha = context.window(x) if context.alpha is None else Fraction(context.alpha)
        state[x.number] += importance * mn * context.remaining(x) / alpha
    else:
        seen = [Fraction(y.importance) for y in context.seen]
        beta = sum(seen) / len(seen) / context.window(x) if context.beta is None else Fraction(context.beta)
        state[x.number] = max(Fraction(0), state[x.number] - beta)
    return (state[x.number], x.importance, mn)


def a_case(seed: int, importances: tuple[float, ...], windows: tuple[int, ...], kind: str = "time") -> Case:
    random = Random(f"{seed} {importances} {windows}")
    time, rows = 0, []
    for _ in range(random.randint(12, 30)):
        rows.append(Row(random.randrange(2), time, random.randrange(4), random.choice(importances)))
        time += random.choice((0, 0, 1, 1, 2))
    return Case(
        rows=rows,
        windows=[(kind, random.choice(windows)) for _ in range(2)],
        memory=random.randint(2, 6),
        policy="dgl",
        model=random.choice(("buffered", "inplace")),
        stats="window",
        alpha=random.choice((None, None, 4.0, 7.0, 0.3)),
        beta=random.choice((None, None, 1e-9, 0.5)),
        switches=random.choice(({}, {"dgl-init": "simpprob"})),
    )


def sheds(case: Case, policy: Any = "dgl") -> list[int]:
    """Who is shed, by the oracle."""
    names = ("windows", "memory", "model", "stats", "alpha", "beta", "switches")
    return oracle.simulate(case.rows, 2, policy=policy, **{name: getattr(case, name) for name in names}).sheds


@pytest.mark.parametrize(
    ("importances", "windows", "share", "count"),
    [
        (FAR_APART, FOURTHS_AND_TWELFTHS, 0.0, 300),
        later(FAR_APART, FOURTHS_AND_TWELFTHS, 0.0, 1500),
        later(FAR_APART, (3, 4, 7, 12), 0.001, 1500),
        later((1.0,), FOURTHS_AND_TWELFTHS, 0.0, 300),
        later((1.0, 2.0, 4.0), FOURTHS_AND_TWELFTHS, 0.0, 300),
        # Products of these are rounded, so that a gain for three ticks and one for six may not be one for nine.
        later((0.1,), (3, 12), 0.02, 300),
        later((0.1, 0.2, 0.3), (3, 4, 12), 0.01, 300),
    ],
)
def test_both_forms_shed_the_same_and_what_exact_fractions_would(importances, windows, share, count):
    count, unlike = count if COMPILED else 30, 0
    for seed in range(count):
        case = a_case(seed, importances, windows)
        found = case.played()["sheds"]
        assert found == case.played(stepwise=True)["sheds"] == sheds(case), seed
        unlike += found != sheds(case, fractions)
    assert unlike <= share * count


@pytest.mark.parametrize(
    ("importances", "windows", "kind"),
    [
        ((5e-324, 1e-300, 1e-20, 1e-9, 1.0), (3, 12), "time"),
        ((1.0, 1e25, 1e100, 1e150), (3, 12), "time"),  # all have lost so much that they begin again
        (FAR_APART, (9973, 9967, 99991, 99989), "rows"),
        (FAR_APART, ((1 << 31) - 1, (1 << 30) + 1, 12), "time"),  # no common multiple
        (FAR_APART, (3, 5, 12), "tumbling"),
    ],
)
def test_both_forms_shed_the_same_whatever_importances_and_windows(importances, windows, kind):
    for seed in range(60 if COMPILED else 10):
        case = a_case(seed, importances, windows, kind)
        found = case.played()["sheds"]
        assert found == case.played(stepwise=True)["sheds"] == sheds(case), seed


def test_all_streams_lose_before_anybody_gains():
    """The streams share a tournament. At time 9 row 12 raises row 3, and row 7 has lost a thousand-millionth more than row 9."""
    streams, times, keys = "0010101100101", (0, 2, 3, 4, 5, 5, 6, 6, 6, 7, 7, 8, 9), "3103210310123"
    rows = [Row(int(stream), time, int(key)) for stream, time, key in zip(streams, times, keys, strict=True)]
    switches = {"dgl-init": "simpprob"}
    case = Case(rows=rows, windows=[("time", 12), ("time", 4)], memory=3, policy="dgl", model="inplace", beta=1e-9, switches=switches)
    assert sheds(case)[-1] == 7
    agree(case)


def a_trace(seed: int) -> Case:
    """All sums of floats in it are exact."""
    random = Random(seed)
    times = sorted(random.randrange(60) for _ in range(120))
    rows = [Row(random.randrange(2), time, random.randrange(5), random.choice((1.0, 2.0, 8.0))) for time in times]
    return Case(rows=rows, windows=[("time", 16)] * 2, memory=9, policy="dgl", stats="window", alpha=4.0, beta=1.0)


def of_an_earlier_version(state: bytes, stepwise: bool) -> bytes:
    """A snapshot as it was when scores were floats."""
    if stepwise:
        found = unpack(state)
        assert found["policy"].pop("kept") and "importance_rest" in found["engine"]
        found["engine"].pop("importance_rest")
        return pack(found)
    with np.load(io.BytesIO(state)) as file:
        arrays = {name: file[name] for name in file.files}
    sums, lost, stream = arrays.pop("memory.sums"), arrays.pop("memory.lost"), arrays["memory.stream"]
    arrays.pop("memory.count.importance_rest")
    numbers = [[(high << 124) + (mid << 62) + low for high, mid, low in parts.tolist()] for parts in (sums, lost)]
    offset = np.array([2.5, 16.0])
    score = [(sums_of - numbers[1][of]) / (4 << UNIT) for sums_of, of in zip(numbers[0], stream.tolist(), strict=True)]
    arrays |= {"memory.score": np.where(arrays["memory.ground"], 0.0, np.array(score) + offset[stream]), "memory.lane.offset": offset}
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


@each_form
def test_a_snapshot_of_an_earlier_version_goes_on(stepwise):
    for seed in range(8):
        case = a_trace(seed)
        options = case.options() | {"keep": EVERYTHING, "stepwise": stepwise}
        engine, batch = opened(case.trace, **options)
        cut = between_instants(case.trace)[25]
        engine.play(batch.cut(0, cut))
        again, _ = opened(case.trace, **options)
        again.restore(of_an_earlier_version(engine.snapshot(), stepwise))
        rest = batch.cut(cut, len(batch))
        assert again.play(rest).sheds.tolist() == engine.play(rest).sheds.tolist() != []


def test_several_engines_as_one_keep_the_scores():
    for seed in range(8):
        case = a_trace(seed)
        options = case.options() | {"keep": EVERYTHING}
        engine, batch = opened(case.trace, **options)
        cut = between_instants(case.trace)[25]
        engine.play(batch.cut(0, cut))
        again, _ = opened(case.trace, **options)
        again.merge([engine], lambda of, key: key > -99, lambda of, key: key, next_row=cut, counts=True, statistics=False)
        rest = batch.cut(cut, len(batch))
        assert again.play(rest).sheds.tolist() == engine.play(rest).sheds.tolist() != []


def test_a_smaller_budget_between_two_batches_is_no_instant():
    """Nobody gains or loses while nothing comes."""
    for seed in range(20):
        case = a_case(seed, (1.0, 2.0, 3.0), FOURTHS_AND_TWELFTHS)
        gone = []
        for stepwise in (False, True):
            engine, batch = opened(case.trace, **case.options() | {"memory": 8, "stepwise": stepwise})
            engine.play(batch)
            smaller, _ = opened(case.trace, **case.options() | {"memory": 3, "stepwise": stepwise})
            smaller.restore(engine.snapshot())
            gone.append(smaller.trim().tolist())
        assert gone[0] == gone[1]


def test_whole_units():
    random = Random(3)
    for _ in range(2000):
        number = math.ldexp(random.random() + 0.5, random.randint(-120, 110))
        assert units.whole(number) == units.parts_of(in_units(number))
    for number in (0.0, 5e-324, 2.0**-91, 2.0**-90, 2.0**95 - 2.0**42, 2.0**95, 1.7e308, math.inf):
        assert units.whole(number) == units.parts_of(in_units(number))
    assert in_units(math.inf) == MOST


def test_the_factors_have_no_fractions():
    def of(window: Any, **more: Any) -> Any:
        return factors(Problem.of(("R", "S"), window=window, memory=2, has_importance=True, **more), now=5)

    assert [part.tolist() for part in of({"R": 4, "S": 12})[1:]] == [[3.0, 1.0]] * 2
    assert of({"R": 4, "S": 12}, alpha=8).gain.tolist() == [3.0, 3.0]
    assert of({"R": 4, "S": 12}, beta=0.5).loss.tolist() == [12.0, 12.0]
    assert of("none", alpha=8, beta=0.5).start == 8.0
    assert of("none", alpha=0.3, beta=0.5).start == 1.0
    assert of("0:4,5:6", alpha=8).loss.tolist() == [4.0, 4.0]
    assert of({"R": (1 << 40) - 1, "S": 1 << 40}).start == 1.0


def test_the_mean_is_rounded_once():
    random = Random(4)
    for importances in ((0.1,), FAR_APART, (1.0, 2.0, 4.0), (1.3, 1e-3, 7e6)):
        high, low, exact = 0.0, 0.0, Fraction(0)
        for count in range(1, 300):
            number = random.choice(importances)
            high, low = raised(high, low, number)
            exact += Fraction(number)
            assert mean(high, low, float(count)) == float(exact / count)
