"""`learned`: both forms alike over epochs, whatever is joined; and the streams that it is for."""

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.core.batch import Batch
from penstock.core.problem import Problem
from penstock.engine.chance_steps import SAMPLE
from penstock.engine.opening import open_engine
from penstock.policies import learned
from penstock.policies.learned import Learned
from penstock.statistics import returns
from penstock.statistics.returns import Returns
from strategies import BOUNDED, COMPILED, EVERYTHING, PER_KEY, WINDOWS, cases, examples, later, memories


@examples(4)
@given(cases(n=st.integers(2, 3), windows=BOUNDED | WINDOWS["rows"] | PER_KEY, memory=memories, batches=True))
def test_both_forms_shed_alike(case):
    case = replace(case, policy="learned", half_life=1.0)
    assert case.played() == case.played(stepwise=True)


@pytest.fixture
def short_epochs(monkeypatch):
    """Epochs that a short trace has some of."""
    for module in (learned, returns):
        monkeypatch.setattr(module, "EPOCH_ROWS", 40)


def random_trace(random: Random, rows: int, streams: str, *, weighed: bool, tick: int = 1, late: int = 0) -> ps.Trace:
    """Keys of several kinds: a few that return, many that come some times and no more, and some rows without one."""
    time, found = 0, []
    keys = random.choice([3, 10, 60])
    for number in range(rows):
        time += random.choice([0, 0, 1, 1, 2, 4])
        key = random.randrange(keys) if random.random() < 0.7 else number // 5
        came = max(0, time - (random.randrange(late + 1) if random.random() < 0.2 else 0)) * tick
        found.append((random.choice(streams), came, None if random.random() < 0.03 else key, random.choice([1.0, 2.0, 5.0, 10.0])))
    names = ("stream", "time", "key", "importance")[: 4 if weighed else 3]
    columns = dict(zip(names, zip(*found, strict=True), strict=False))
    return ps.Trace(pa.table({name: list(column) for name, column in columns.items()}), streams=tuple(streams))


@pytest.mark.wide
@pytest.mark.usefixtures("short_epochs")
@pytest.mark.parametrize("seed", [*range(10), *map(later, range(10, 24))])
def test_both_forms_learn_alike(seed):
    """Over several epochs: two to four streams, windows of all kinds, values, sizes of memory."""
    random = Random(seed)
    streams = random.choice(["RS", "RS", "RST", "RSTU"])
    weighed = random.random() < 0.4
    tick, late = (
        random.choice([1, 1, 1_000_003]),
        random.choice([0, 0, 5]),
    )  # a long tick has instants that differ in less than is looked at
    several = {stream: random.choice([5, 20, 60]) * tick for stream in streams}
    window: Any = random.choice([20 * tick, 60 * tick, 200 * tick, several, "rows:30", f"tumbling:{60 * tick}", "none"])
    late = 0 if window == "rows:30" else late  # which needs rows in order
    trace = random_trace(random, 500 if COMPILED else 250, streams, weighed=weighed, tick=tick, late=late)
    options: dict[str, Any] = {
        "window": window,
        "memory": random.choice([5, 20, 9 * len(streams)]),
        "model": random.choice(["buffered", "inplace"]),
        "allocation": random.choice(["variable", "fixed"]),
        "objective": random.choice(["sum", "product", "max", "min", "avg"]) if weighed else None,
        "half_life": 20 * tick if window in ("rows:30", "none") else None,
        "clock": "streams" if late else "global",
        "lateness": late * tick,
        "keep": EVERYTHING,
    }
    compiled, stepwise = (ps.simulate(trace, policy="learned", stepwise=form, **options) for form in (False, True))
    assert compiled.sheds.tolist() == stepwise.sheds.tolist()
    assert compiled.n_output == stepwise.n_output
    assert compiled.value == pytest.approx(stepwise.value)


def test_a_memory_in_bytes_keeps_what_is_worth_most_per_byte():
    """Of two keys that come equally often the smaller rows stay; both forms alike."""
    times = np.repeat(np.arange(600), 4)
    table = {
        "stream": ["R", "S"] * 1200,
        "time": times,
        "key": np.tile([0, 0, 1, 1], 600),
        "size": np.tile([400, 400, 40, 40], 600),
    }
    trace = ps.Trace(pa.table(table))
    runs = [ps.simulate(trace, window=50, memory="6 KB", policy="learned", stepwise=form, keep=EVERYTHING) for form in (False, True)]
    assert runs[0].sheds.tolist() == runs[1].sheds.tolist()
    met = np.bincount(np.asarray(trace.table["key"])[runs[0].outputs[:, 1]], minlength=2)
    assert met[1] > 10 * met[0]


@pytest.mark.usefixtures("short_epochs")
def test_it_goes_on_from_a_snapshot_in_the_middle_of_an_epoch():
    trace = random_trace(Random(7), 1500, "RS", weighed=True)
    problem = Problem.of(trace.streams, window=60, memory=20, has_importance=True)
    batch = Batch.of(trace, problem)
    sheds = []
    for cuts in ([1500], [100, 390, 391, 1203, 1500]):
        engine, found, begin = open_engine(problem, Learned(), Returns(problem), EVERYTHING), [], 0
        for end in cuts:
            while end < len(batch) and batch.time[end] == batch.time[end - 1]:
                end += 1
            found += engine.play(batch.cut(begin, end)).sheds.tolist()
            state, begin = engine.snapshot(), end
            engine = open_engine(problem, Learned(), Returns(problem), EVERYTHING)
            engine.restore(state)
        sheds.append(found)
    assert sheds[0] == sheds[1]


@pytest.mark.jit_only
def test_what_is_known_of_keys_stays_in_its_room():
    """A million keys that come once; a sample of them is enough to learn from."""
    problem = Problem.of(("R", "S"), window=200_000, memory=1000)
    source, room = Returns(problem, room=4_000_000), 4_000_000
    rows = np.arange(500_000)
    for begin in range(0, len(rows), 50_000):
        part = rows[begin : begin + 50_000]
        batch = Batch(np.zeros(len(part), np.int64), part, part)
        at = 0
        while at < len(batch):
            _, at = source.rates(batch, at)
        assert source.n_bytes <= room
    assert source.mask > 0
    assert source.filled // (source.mask + 1) <= 2 * SAMPLE


def orders(seed: int, n: int = 20_000, window: int = 20_000) -> ps.Trace:
    """Unique keys, seven in ten with a partner after a gamma-distributed delay."""
    random = np.random.default_rng(seed)
    time, key = np.arange(n) * 10, np.arange(n)
    partner = random.random(n) < 0.7
    return _merged(time, key, (time + random.gamma(2, window / 8, n))[partner].astype(np.int64), key[partner])


def sessions(seed: int, n: int = 3000) -> ps.Trace:
    """Five to twenty clicks, 5 to 60 s apart, on two kinds of page."""
    random = np.random.default_rng(seed)
    begins = np.cumsum(random.exponential(3000.0, n))
    clicks = random.integers(5, 21, n)
    key = np.repeat(np.arange(n), clicks)
    gaps = random.uniform(5000, 60_000, clicks.sum())
    whole = np.cumsum(gaps)
    before = np.repeat(np.concatenate([[0.0], whole[np.cumsum(clicks)[:-1] - 1]]), clicks)
    time, kind = (np.repeat(begins, clicks) + whole - before).astype(np.int64), random.integers(0, 2, clicks.sum())
    return _merged(time[kind == 0], key[kind == 0], time[kind == 1], key[kind == 1])


def _merged(time: Any, key: Any, other_time: Any, other_key: Any) -> ps.Trace:
    times = np.concatenate([time, other_time])
    order = np.argsort(times, kind="stable")
    stream = np.repeat(["R", "S"], [len(time), len(other_time)])
    return ps.Trace(pa.table({"stream": stream[order], "time": times[order], "key": np.concatenate([key, other_key])[order]}))


def outputs(trace: ps.Trace, window: int, part: float, policy: str, **switches: str) -> int:
    memory = int(len(trace) * window / (trace.time.max() - trace.time.min()) * part)
    return ps.simulate(trace, window=window, memory=memory, policy=policy, stats="decayed", switches=switches).n_output


@pytest.mark.jit_only
class TestOnStreamsAsTheyAre:
    def test_keys_that_come_once(self):
        trace = orders(1)
        assert outputs(trace, 20_000, 0.1, "learned") > 1.05 * outputs(trace, 20_000, 0.1, "ep")
        assert outputs(trace, 20_000, 0.1, "learned") > 1.25 * outputs(trace, 20_000, 0.1, "ep", **{"ep-finishes": "last"})
        assert outputs(trace, 20_000, 0.1, "learned") > 50 * outputs(trace, 20_000, 0.1, "prob")
        assert outputs(trace, 20_000, 0.25, "learned") > 0.94 * outputs(trace, 20_000, 0.25, "opt")

    @pytest.mark.parametrize("part", [0.1, 0.25])
    def test_sessions(self, part):
        trace = sessions(1)
        assert outputs(trace, 600_000, part, "learned") > 1.6 * outputs(trace, 600_000, part, "dgl")
        assert outputs(trace, 600_000, part, "learned") > 1.05 * max(outputs(trace, 600_000, part, name) for name in ("fifo", "ep"))

    @pytest.mark.parametrize("part", [0.05, 0.1, 0.25])
    def test_keys_that_return_are_kept_as_prob_keeps_them(self, part):
        trace = ps.generate(20_000, keys=2000, skew=1.0, ranks="correlated", seed=3)
        assert outputs(trace, 1000, part, "learned") > 0.98 * outputs(trace, 1000, part, "prob")
