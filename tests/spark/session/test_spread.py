"""Independent pieces of work on Spark: each is done once, in order, and a sweep on Spark gives the numbers of one in this process."""

from __future__ import annotations

import os

from penstock.experiments.reproduce import cell_store, runner
from penstock.spark.session.spread import slots, spread


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


class _Silent:
    def advance(self, amount: int = 1) -> None:
        """Nothing is shown."""

    def say(self, label: str) -> None:
        """Nothing is shown."""
