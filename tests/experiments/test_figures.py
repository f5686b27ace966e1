"""Charts: what they contain, and that they need neither a browser nor a network."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.core.budget import Pools
from penstock.experiments import demo, figures
from penstock.experiments.timeline import timeline
from penstock.pipeline.recipe import read_recipe

ROWS = [
    {"policy": policy, "memory": memory, "recall": recall}
    for policy, recalls in {"prob": (0.5, 0.7, 1.0), "mine": (0.2, 0.4, 1.0)}.items()
    for memory, recall in zip((0.05, 0.1, 1.0), recalls, strict=True)
]


@pytest.fixture(scope="module")
def runs() -> list[ps.JoinRun]:
    trace = ps.generate(200, keys=8, seed=3)
    return [ps.simulate(trace, window=30, memory=10, policy=p, stats="whole", keep=ps.Keep(series=True)) for p in ("prob", "fifo")]


def data_of(chart: object) -> list[dict[str, object]]:
    """All values that a chart draws."""
    return [row for values in chart.to_dict()["datasets"].values() for row in values]


def test_png_is_a_png(tmp_path, runs):
    figures.save(figures.memory_over_time(runs), tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_svg_is_an_svg_with_the_words_in_it(tmp_path, runs):
    figures.save(figures.memory_over_time(runs, budget=Pools.parse(10, ("R", "S"))), tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert text.startswith("<svg")
    assert all(words in text for words in ("tuples in memory", "time (ticks)", "prob: ", "fifo: ", "the budget, 10 tuples"))


@pytest.mark.parametrize("which", ["memory", "recall"])
def test_html_needs_no_network(tmp_path, runs, which):
    chart = figures.memory_over_time(runs) if which == "memory" else figures.recall_by_memory(ROWS)
    figures.save(chart, tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text()
    assert "vegaEmbed" in text
    assert not re.search(r"<script[^>]+src\s*=", text)
    assert not re.search(r"<link[^>]+href\s*=", text)
    assert not re.search(r"@import|import\s*\(?['\"]https?:", text)


def test_another_suffix_is_refused(tmp_path, runs):
    with pytest.raises(ps.PenstockError, match=r"\.png, \.svg or \.html"):
        figures.save(figures.memory_over_time(runs), tmp_path / "a.gif")


def test_memory_over_time_draws_the_series(runs):
    drawn = [row for row in data_of(figures.memory_over_time(runs[:1])) if "stream" in row]
    series = runs[0].series
    assert [row["tuples"] for row in drawn if row["stream"] == "R"] == series[:, 1].tolist()
    assert [row["tuples"] for row in drawn if row["stream"] == "S"] == series[:, 2].tolist()


def test_a_long_series_is_thinned_and_keeps_its_peak():
    held = np.random.default_rng(1).integers(0, 50, size=(30_000, 2))
    held[12_345] = (400, 300)
    series = np.column_stack([np.arange(30_000), held])
    thin = figures.thinned(series)
    assert len(thin) <= figures.MOST_POINTS
    assert [12_345, 400, 300] in thin.tolist()
    assert np.all(np.diff(thin[:, 0]) > 0)
    assert figures.thinned(series[:100]).tolist() == series[:100].tolist()


def test_time_does_not_go_back(runs):
    series = runs[0].series.copy()
    series[50, 0] = 3
    drawn = [row["time"] for row in data_of(figures.memory_over_time([replace(runs[0], series=series)])) if row["stream"] == "R"]
    assert drawn == sorted(drawn)


def test_a_budget_that_changes_is_a_line_of_steps(runs):
    chart = figures.memory_over_time(runs[:1], budget=Pools.parse("0:10,60:4,900:8", ("R", "S")))
    line = [(row["time"], row["budget"]) for row in data_of(chart) if "budget" in row]
    assert sorted(set(line)) == [(0, 10), (60, 4), (199, 4)]


def test_a_budget_in_bytes_is_not_drawn_among_tuples(runs):
    chart = figures.memory_over_time(runs[:1], budget=Pools.parse("1 KB", ("R", "S")))
    assert all("budget" not in row for row in data_of(chart))


def test_timestamps_become_dates(runs):
    chart = figures.memory_over_time(runs[:1], timestamps=True)
    assert "time (UTC)" in chart.to_json()
    assert [row["time"] for row in data_of(chart)][:3] == [0.0, 0.001, 0.002]


def test_runs_without_a_series_are_refused(runs):
    with pytest.raises(ps.PenstockError, match="series=True"):
        figures.memory_over_time([replace(runs[0], series=None)])
    with pytest.raises(ps.PenstockError, match="at least one run"):
        figures.memory_over_time([])


def test_recall_by_memory_lists_the_best_policy_first():
    chart = figures.recall_by_memory(ROWS)
    colour = chart.to_dict()["layer"][0]["encoding"]["color"]
    assert colour["scale"]["domain"] == ["prob", "mine"]
    assert len(set(colour["scale"]["range"])) == 2


def test_recall_by_memory_has_a_panel_per_measure():
    rows = [row | {"measure": measure} for measure in ("outputs", "value") for row in ROWS]
    assert len(figures.recall_by_memory(rows).to_dict()["hconcat"]) == 2
    with pytest.raises(ps.PenstockError, match="at least one point"):
        figures.recall_by_memory([])


SHORT = {
    "sources.shop.ticks": 120,
    "sources.shop.ticks_per_batch": 40,
    "sources.shop.rate": [3, 1],
    "sources.shop.keys": 40,
    "join.memory": 60,
}


def test_the_picture_of_the_demo_shows_recall_memory_and_batches(tmp_path):
    recipe = read_recipe(demo.SAMPLE, SHORT)
    simulated = demo.compare(recipe, None)
    assert len(timeline(simulated).to_dict()["vconcat"]) == 2
    second = 1_000_000
    start = recipe.sources["shop"]["start"]
    batches = [demo.MicroBatch(start + at * second, start + (at + 40) * second, 160, 120) for at in (0, 40, 80)]
    found = replace(simulated, batches=batches)
    chart = timeline(found)
    assert len(chart.to_dict()["vconcat"]) == 3
    figures.save(chart, Path(tmp_path) / "demo.svg")
    text = (tmp_path / "demo.svg").read_text()
    assert all(words in text for words in ("of the memory, learned keeps", "fifo, same memory", "budget: 60", "time (UTC)", "arrived"))


def test_recall_over_time_counts_every_output_once():
    found = demo.compare(read_recipe(demo.SAMPLE, SHORT), None)
    shares = found.over_time(found.run)
    assert len(shares) == 3 and all(0 <= share <= 1 for _, share in shares)
    assert [share for _, share in found.over_time(found.whole)] == [1.0, 1.0, 1.0]
    assert found.whole.n_output == len(found.whole.outputs) and found.run.most <= 60
