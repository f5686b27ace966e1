"""The cost model and the algorithms count alike: comparisons of long runs on Golab's workload, and orders that follow a drift."""

from __future__ import annotations

import json

import numpy as np
import pytest

import penstock as ps
from penstock.cli import run
from penstock.multiway.cost import CostModel, Setting
from penstock.multiway.measure import measure
from penstock.multiway.stats import WindowStats
from penstock.multiway.workload import TABLE_5, in_ticks, random_arrivals
from places import ROOT

pytestmark = pytest.mark.jit_only  # long runs: hours without compilation

SMALL = {"R": (4, 40, 20), "S": (1, 60, 10), "T": (2, 50, 15)}
"""Rate, window in units of time, values: few enough that the long run is short."""


def model_and_measured(streams, rows, *, strategy, orders=None, access=1, seed=0, **intervals):
    """Comparisons per tick by the model, and measured once the windows are full."""
    rates = {name: spec[0] for name, spec in streams.items()}
    total = sum(rates.values())
    windows = in_ticks({name: spec[1] for name, spec in streams.items()}, rates)
    trace = random_arrivals(rows, {name: (spec[0], spec[2]) for name, spec in streams.items()}, seed=seed)
    order = orders or list(streams)
    facts = [WindowStats(name, rate / total, windows[name], streams[name][2], access) for name, rate in rates.items()]
    model = CostModel(Setting.read(facts, strategy=strategy, **intervals))
    names = list(streams)
    if isinstance(order, dict):
        expected = sum(model.cost_of(i, [names.index(part) for part in order[name]]) for i, name in enumerate(names))
    else:
        expected = model.cost([names.index(name) for name in order])
    full = max(windows.values()) + 2 * intervals.get("expire", intervals.get("tau", 0))
    early = ps.Trace(trace.table.slice(0, full), streams=trace.streams)
    options = {"window": windows, "strategy": strategy, "order": order, "access": "nested" if access == 1 else access, **intervals}
    counted = ps.exact(trace, **options).comparisons - ps.exact(early, **options).comparisons
    return expected, counted / (rows - full)


FIRST = {name: [name, *(other for other in TABLE_5 if other != name)] for name in TABLE_5}
LAST = {"R": ["S", "T", "R"], "S": ["S", "R", "T"], "T": ["S", "T", "R"]}
WAYS = [
    {"strategy": "eager"},
    {"strategy": "eager", "access": 5},
    {"strategy": "eager", "expire": 70},
    {"strategy": "lazy", "tau": 35},
    {"strategy": "lazy", "tau": 35, "expire": 140, "access": 5},
    {"strategy": "naive"},
    {"strategy": "naive", "tau": 35},
    {"strategy": "general", "tau": 70, "orders": LAST},
    {"strategy": "general", "tau": 35, "orders": LAST, "access": 5},
]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_comparisons_agree_with_the_model(way):
    expected, counted = model_and_measured(SMALL, 40_000, **way)
    assert counted == pytest.approx(expected, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    "way",
    [
        {"strategy": "eager"},
        {"strategy": "eager", "access": 5},
        {"strategy": "lazy", "tau": 75},
        {"strategy": "lazy", "tau": 150, "access": 5},
        {"strategy": "naive", "orders": ["S2", "S3", "S4", "S1"], "access": 5},
        {"strategy": "general", "tau": 75, "orders": FIRST | {"S1": ["S2", "S1", "S3", "S4"]}},
    ],
    ids=str,
)  # fmt: skip
def test_comparisons_on_golabs_table_5_agree_with_the_model(way):
    expected, counted = model_and_measured(TABLE_5, 120_000, **way)
    assert counted == pytest.approx(expected, rel=0.05)


def test_golabs_table_5_costs_16000_comparisons_per_unit_of_time():
    expected, counted = model_and_measured(TABLE_5, 60_000, strategy="eager")
    assert expected * 15 == pytest.approx(16_000)
    assert counted * 15 == pytest.approx(16_000, rel=0.05)


def drifting(rows=40_000):
    """Two halves: first R is fast and S slow, then the other way round; T stays."""
    halves = [random_arrivals(rows // 2, {"R": (a, 50), "S": (b, 50), "T": (4, 50)}, seed=seed) for seed, a, b in ((0, 10, 1), (1, 1, 10))]
    columns = {
        "stream": np.concatenate([[half.streams[i] for i in half.stream] for half in halves]),
        "time": np.arange(rows),
        "key": np.concatenate([half.table["key"].to_numpy() for half in halves]),
    }
    return ps.Trace(columns, streams=("R", "S", "T"))


@pytest.mark.parametrize("way", [{"strategy": "eager"}, {"strategy": "lazy", "tau": 20}, {"strategy": "general", "tau": 50}], ids=str)
def test_orders_that_follow_a_drift_save_comparisons_and_change_nothing(way):
    trace = drifting()
    fixed = ps.exact(trace, window=600, keep=ps.Keep(outputs=True), **way)
    moving = ps.exact(trace, window=600, keep=ps.Keep(outputs=True), reorder=0.2, **way)
    assert fixed.reorderings == 0 < moving.reorderings < 10
    assert moving.comparisons < fixed.comparisons
    assert moving.n_output == fixed.n_output
    assert np.array_equal(np.unique(moving.outputs, axis=0), np.unique(fixed.outputs, axis=0))


def test_selectivities_that_drift_change_the_order_too():
    """R and S swap how many of their tuples match T's; all rates stay."""
    random = np.random.default_rng(2)
    rows = 40_000
    stream = random.integers(0, 3, rows)
    key = random.integers(0, 40, rows)
    rare = np.where(np.arange(rows) < rows // 2, 0, 1)
    key = np.where((stream == rare) & (random.random(rows) < 0.9), 1000 + stream, key)
    trace = ps.Trace({"stream": np.array(["R", "S", "T"])[stream], "time": np.arange(rows), "key": key}, streams=("R", "S", "T"))
    fixed = ps.exact(trace, window=600, strategy="eager", order="R,S,T")
    moving = ps.exact(trace, window=600, strategy="eager", reorder=0.2)
    assert moving.reorderings > 0 and moving.comparisons < fixed.comparisons and moving.n_output == fixed.n_output


def test_a_steady_workload_keeps_its_order():
    trace = random_arrivals(20_000, {"R": (10, 50), "S": (1, 50), "T": (4, 50)}, seed=3)
    assert ps.exact(trace, window=600, strategy="eager", reorder=0.2).reorderings == 0


@pytest.mark.parametrize("threshold", [-1, "much", float("nan")])
def test_a_threshold_is_a_share(threshold):
    with pytest.raises(ps.PenstockError, match="reorder must be a share from 0"):
        ps.exact(drifting(100), window=10, strategy="eager", reorder=threshold)


@pytest.mark.parametrize(
    ("rows", "streams"),
    [(0, {"R": (1, 2), "S": (1, 2)}), (5, {"R": (1, 2)}), (5, {"R": (0, 2), "S": (1, 2)}), (5, {"R": (1, 0), "S": (1, 2)})],
)
def test_a_workload_that_cannot_be_is_refused(rows, streams):
    with pytest.raises(ps.PenstockError, match="random arrivals need"):
        random_arrivals(rows, streams)


def test_a_plan_can_be_measured_over_a_join_graph():
    streams = [
        WindowStats("R", 2, 60, {"a": 10}),
        WindowStats("S", 1, 90, {"a": 20, "b": 5}, buckets=4),
        WindowStats("T", 3, "rows:150", {"b": 8}),
    ]
    setting = Setting.read(streams, "R.a = S.a, S.b <= T.b", strategy="lazy", tau=5)
    for order in (("R", "S", "T"), ("T", "S", "R"), {"R": ("R", "S", "T"), "S": ("S", "T", "R"), "T": ("T", "S", "R")}):
        model, counted = measure(setting, order)
        assert counted == pytest.approx(model, rel=0.05)


def test_what_is_not_uniform_cannot_be_measured():
    setting = Setting.read([WindowStats(name, 1, 9, 3) for name in "RS"], observed={("R", "S"): 0.5})
    with pytest.raises(ps.PenstockError, match="uniform values, got a selectivity of R and S"):
        measure(setting, "RS")


def test_penstock_order_measures(capsys):
    file = str(ROOT / "examples" / "order.toml")
    assert run(["order", file, "--measure", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["measured"]
    assert found[0]["order"] == ["S1", "S2", "S3", "S4"] and found[0]["model"] == 16_000 and len(found) == 10
    assert all(one["measured"] == pytest.approx(one["model"], rel=0.1) for one in found)
    assert run(["order", file, "--measure", "--per-stream", "--buckets", "40"]) == 0
    assert "Model and measurement" in capsys.readouterr().out
