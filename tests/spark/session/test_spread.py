"""Independent pieces of work on Spark: each is done once, in order, and a sweep on Spark gives the numbers of one in this process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from penstock.experiments.reproduce import cell_store, runner
from penstock.spark.session.spread import slots, spread
from sparks import ON_SPARK

pytestmark = ON_SPARK


def test_pieces_come_back_in_order(spark):
    pieces = [f"p{number}" for number in range(23)]
    assert spread(spark, os.path.basename, [f"/a/{piece}" for piece in pieces]) == pieces
    assert spread(spark, os.path.basename, ["/a/alone"]) == ["alone"]
    assert slots(spark) >= 1


def test_a_sweep_on_spark_gives_the_same_numbers(spark, tmp_path):
    found = []
    for number, how in enumerate((None, lambda work, pieces: spread(spark, work, pieces))):
        kept = cell_store.CellStore(tmp_path / str(number))
        plan = runner.cells_to_play(["golab-fig03b", "das-fig04"], kept, seeds=1, quick=True)
        runner.run(plan, kept, spread=how, slots=slots(spark), bar=_Silent())
        found.append({name: kept.read(name) for name in plan.wanted})
    assert found[0] == found[1] and all(found[0].values())


def test_an_interrupted_sweep_prints_no_trace(tmp_path):
    """In a process of its own, interrupted when the first cells are there."""
    command = [sys.executable, "-c", "from penstock.cli import main; main()", "reproduce", "das-fig07", "--out", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 300
        while process.poll() is None and time.monotonic() < until and not list(tmp_path.glob("cells/*.parquet")):
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and "the same command goes on from there" in said
    assert "Traceback" not in said and "ERROR" not in said


class _Silent:
    def advance(self, amount: int = 1) -> None:
        """Nothing is shown."""

    def say(self, label: str) -> None:
        """Nothing is shown."""
