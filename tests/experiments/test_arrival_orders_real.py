"""What docs/arrival-orders.md says of the road-traffic fines. Needs the data sets: PENSTOCK_DATA names their folder."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest

from places import ROOT

FOLDER = Path(os.environ.get("PENSTOCK_DATA", "no data"))
SCRIPT = ROOT / "benchmarks" / "arrival_orders_real.py"


def script() -> Any:
    spec = importlib.util.spec_from_file_location("arrival_orders_real", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.skipif(not (FOLDER / "road_traffic_fines").is_dir(), reason="PENSTOCK_DATA names no folder with road_traffic_fines")
@pytest.mark.parametrize("allocation", ("fixed", "variable"))
def test_on_the_fines_the_newest_of_a_pattern_should_leave_and_not_the_oldest(allocation):
    real = script()
    trace, window = real.fines(FOLDER, 4, 220)
    assert len({*zip(trace.stream.tolist(), trace.key.tolist(), strict=True)}) == len(trace)  # every key once in each stream
    found = real.play(trace, window, real.POLICIES, (0.2,), allocation=allocation)
    recall = {policy: value for (_, policy), value in found.items()}
    assert max(recall, key=recall.get) == "ep-newest"
    assert recall["ep"] < recall["frequency"] < recall["ep-newest"]
