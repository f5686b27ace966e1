"""The experiment on keys that visit streams in orders: who is ahead, how sure that is, and its charts."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.stats import t

import penstock as ps
from penstock.cli import run as command_line
from penstock.experiments import arrival_orders as experiment
from penstock.experiments.arrival_orders_chart import recall_by_setting, recall_by_trace


@pytest.mark.jit_only  # minutes without compilation
def test_a_sweep_says_who_is_ahead():
    found = experiment.sweep(policies=("ep", "fifo"), skews=[2.0], delays=[0.2], memories=[0.1], seeds=3, ticks=3000)
    assert [(point.policy, point.verdict) for point in found] == [("ep", "ahead"), ("fifo", "behind")]


@pytest.mark.jit_only  # minutes without compilation
def test_recalls_are_shares_of_the_exact_join():
    trace = ps.generate(2000, streams=experiment.STREAMS, orders=2.0, delay=100, first="complete", seed=1)
    found = experiment.play(trace, 500, ("ep", "fifo"), (0.1, 1.0), allocation="variable")
    exact = ps.exact(trace, window=500)
    assert found[1.0, "ep"] == found[1.0, "fifo"] == 1.0
    run = ps.simulate(trace, window=500, memory=round(0.1 * exact.peak_memory), policy="ep", switches={"ep-finishes": "last"})
    assert found[0.1, "ep"] == run.n_output / exact.n_output < 1


@pytest.mark.parametrize("values", ([0.1, 0.4], [0.3, 0.5, 0.2, 0.9], list(np.linspace(0, 1, 11))))
def test_intervals_are_students(values):
    mean, low, high = experiment.interval(values)
    wanted = t.interval(0.95, len(values) - 1, np.mean(values), np.std(values, ddof=1) / math.sqrt(len(values)))
    assert mean == pytest.approx(np.mean(values))
    assert (low, high) == pytest.approx(wanted, abs=1e-3)


def test_a_verdict_needs_an_interval_on_one_side_of_zero():
    point = experiment.OrdersPoint("ep", 1.0, 0.2, 0.1, 0.5, 0.4, 0.6, 0.1, 0.05, 0.15)
    assert point.verdict == "ahead"
    assert experiment.OrdersPoint(*list(vars(point).values())[:7], 0.0, -0.1, 0.1).verdict == "even"
    assert experiment.OrdersPoint(*list(vars(point).values())[:7], -0.2, -0.3, -0.1).verdict == "behind"


@pytest.mark.jit_only  # minutes without compilation
def test_the_experiment_from_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(experiment, "SKEWS", (2.0,))
    monkeypatch.setattr(experiment, "DELAYS", (0.1,))
    monkeypatch.setattr(experiment.sweep, "__kwdefaults__", experiment.sweep.__kwdefaults__ | {"skews": (2.0,), "delays": (0.1,)})
    picture = tmp_path / "orders.svg"
    assert command_line(["reproduce", "arrival-orders", "--seeds", "2", "--ticks", "2000", "--plot", str(picture), "--format", "json"]) == 0
    points = json.loads(capsys.readouterr().out)
    assert len(points) == len(experiment.MEMORIES) * len(experiment.POLICIES)
    assert all(0 <= point["recall"] <= 1 and point["low"] <= point["recall"] <= point["high"] for point in points)
    assert "<svg" in picture.read_text()
    assert command_line(["reproduce", "arrival-orders", "--seeds", "2", "--ticks", "2000"]) == 0
    assert "its lead over the next" in capsys.readouterr().out
    for bad, message in ((["--seeds", "99"], "seeds must be 2 to 11"), (["--allocation", "shared"], "--allocation must be")):
        assert command_line(["reproduce", "arrival-orders", *bad]) == 2
        assert message in capsys.readouterr().err


def test_charts_have_a_panel_per_setting():
    points = [
        experiment.OrdersPoint(policy, orders, delay, memory, 0.5, 0.4, 0.6, 0.1, 0.05, 0.15)
        for policy in ("ep", "fifo")
        for orders in (0.0, 1.0)
        for delay in (0.1, 0.2, 0.5)
        for memory in (0.1, 0.4)
    ]
    chart = recall_by_setting(points).to_dict()
    assert [len(line["hconcat"]) for line in chart["vconcat"]] == [3, 3]
    rows = [{"policy": "ep", "memory": 0.1, "recall": 0.9}]
    assert len(recall_by_trace(dict.fromkeys("abcde", rows)).to_dict()["vconcat"]) == 2
