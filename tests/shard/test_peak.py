"""A hot key costs time and not memory: the peak of a worker that makes very many outputs, against one that makes none."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from places import SUPPORT
from strategies import COMPILED

pytestmark = [
    pytest.mark.jit_only,
    pytest.mark.skipif(not COMPILED, reason="millions of outputs, too long for an engine that is not compiled"),
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is read from /proc"),
]

ROOM = 256 << 20
"""Bytes that a worker with outputs may take beyond one without."""


@cache
def ran(rows: int, keys: int, memory: int, judged: bool = False, batches: int = 1, predicate: str = "=") -> dict[str, Any]:
    """A worker of its own: its peak is not that of the tests."""
    asked = {"rows": rows, "keys": keys, "memory": memory, "judged": judged, "batches": batches, "predicate": predicate}
    job = SUPPORT / "peak_job.py"
    done = subprocess.run([sys.executable, str(job), json.dumps(asked)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("rows", (3_000, pytest.param(10_000, marks=pytest.mark.slow)))
def test_one_key_in_one_instant_costs_no_memory(rows):
    ran(3, 0, 2)  # compiled code is there then: to make it takes memory too
    hot, calm = (ran(rows, key, 4 * rows) for key in (0, 1))
    assert hot["made"] == rows**2 and calm["made"] == 0
    assert hot["peak"] - calm["peak"] < ROOM


@pytest.mark.slow
def test_what_was_lost_of_one_key_costs_no_memory_where_a_condition_must_see_it():
    rows, options = 3_000, {"judged": True, "batches": 2}
    ran(3, 0, 2, **options)
    hot, calm = (ran(rows, key, 400, **options) for key in (0, 1))
    assert hot["made"] + hot["lost"] == 4 * rows**2 and hot["lost"] > rows**2
    assert calm["made"] == calm["lost"] == 0
    assert hot["peak"] - calm["peak"] < ROOM


@pytest.mark.slow
def test_a_worker_that_compares_step_by_step_holds_no_outputs_either():
    hot, calm = (ran(2_000, key, 8_000, predicate="<=") for key in (0, 1))
    assert hot["made"] == 2_000**2 and calm["made"] == 0
    assert hot["peak"] - calm["peak"] < ROOM
