"""`penstock bench core`: what it measures, and that its figures fit together."""

from __future__ import annotations

import json

import pytest

from penstock.cli import run


@pytest.mark.jit_only  # speed means nothing without compilation
def test_bench_measures_each_policy_against_fifo(capsys):
    arguments = "bench core --rows 2000 --window 100 --memory 20,50 --keys 30 --repeat 2 --policies prob,fifo,dgl"
    assert run([*arguments.split(), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(row["memory"], row["policy"]) for row in found["core"]] == [
        (memory, policy) for memory in (20, 50) for policy in ("prob", "fifo", "dgl")
    ]
    assert all(row["tuples_per_second"] > 0 and row["peak_memory"] <= row["memory"] for row in found["core"])
    assert [row["ratio_to_fifo"] for row in found["core"] if row["policy"] == "fifo"] == [1.0, 1.0]
    assert found["outputs"]["outputs_per_second"] > 0
    four = {row["name"]: row for row in found["four_streams"]}
    assert len(four) == 7 and all(row["outputs"] == four["exact, counted"]["outputs"] for row in four.values())
    assert run(arguments.split()) == 0
    assert "of fifo" in capsys.readouterr().out
