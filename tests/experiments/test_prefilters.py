"""What the filters of joins through relations are worth: values that add up, and rule 8 with ample memory. No time is tested."""

from __future__ import annotations

import json

import pytest

import penstock as ps
from penstock.cli import run as command_line
from penstock.experiments import prefilters as experiment


def silent(text: str) -> None:
    pass


@pytest.mark.jit_only  # minutes without compilation
def test_rule_8_saves_value_where_memory_is_scarce_and_changes_nothing_where_it_is_ample():
    found = experiment.gains(seeds=3, ticks=1000, memories=(20, 100), stays=(50,), say=silent)
    scarce, ample = ([point for point in found if point.memory == memory] for memory in (20, 100))
    assert len(scarce) == len(ample) == len(experiment.POLICIES)
    assert all(point.both == point.static == point.none == point.exact and point.gain == 0 for point in ample)
    assert all(point.static < point.both < point.exact for point in scarce if point.policy in ("simp", "dgl"))
    assert [point.verdict for point in scarce if point.policy in ("simp", "dgl")] == ["saves"] * 2
    assert {point.verdict for point in ample} == {"even"}


@pytest.mark.jit_only
def test_with_ample_memory_each_filter_gives_the_same_outputs():
    trace, through = experiment.join_of(3, 500, 250, stay=50)
    options = {"window": 50, "memory": 100, "policy": "dgl", "keep": ps.Keep(outputs=True)}
    made = [ps.simulate(trace, through=through, switches={"pre-filter": switch}, **options) for switch in ("both", "static", "none")]
    assert all(one.n_output == len(one.outputs) > 1000 for one in made)
    assert all((one.outputs == made[0].outputs).all() for one in made)


@pytest.mark.jit_only
def test_fewer_facts_filter_more_and_the_optimum_stays():
    found = experiment.times(runs=1, ticks=300, facts=(10, 50, 500), say=silent)
    assert [one.facts for one in found] == [10, 50, 500]
    assert found[0].filtered > found[1].filtered > found[2].filtered == 0
    assert found[0].value < found[1].value < found[2].value
    assert all(one.seconds > 0 and one.ratio == one.unfiltered / one.seconds for one in found)


@pytest.mark.jit_only
def test_the_experiment_from_the_command_line(capsys, monkeypatch):
    for name in ("gains", "times"):
        usual = getattr(experiment, name).__kwdefaults__
        few = {"policies": ("simp",), "memories": (20,), "stays": (50,)} if name == "gains" else {"facts": (50,)}
        monkeypatch.setattr(getattr(experiment, name), "__kwdefaults__", usual | few)
    sizes = ["--seeds", "2", "--ticks", "100", "--runs", "1"]
    assert command_line(["reproduce", "pre-filter", *sizes, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["gains"]) == len(found["times"]) == 1
    assert found["gains"][0]["verdict"] in ("saves", "even", "costs")
    assert command_line(["reproduce", "pre-filter", *sizes]) == 0
    said = capsys.readouterr().out
    assert "What the filters save: value" in said and "times as fast" in said
    assert command_line(["reproduce", "pre-filter", "--seeds", "12"]) == 2
    assert "seeds must be 2 to 11" in capsys.readouterr().err
