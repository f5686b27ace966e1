"""The gate: rows pass it in as many tasks as there are shards, and what all shards have counted in one."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

pytest.importorskip("pyspark")
import pandas as pd
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from penstock.core.errors import PenstockError
from penstock.shard.cells import CELL, from_cell, to_cell
from penstock.shard.counts import JUDGED, TOTAL, counted
from penstock.shard.shard_ids import partition_keys
from penstock.shard.shard_plan import LOST, VALUE
from penstock.spark.join.gate import AT, Gate, closed, opened
from penstock.spark.observe.metrics import COUNTS
from sparks import ON_SPARK, bag, in_batches, joined, ran, rows, spark_join
from strategies import later

NAMES = counted(2)
SCHEMA = pa.schema([("k", pa.string()), ("l_v", pa.int64()), (VALUE, pa.float64()), (LOST, pa.float64())])
RESULTS = pa.schema([(CELL, pa.binary()), (COUNTS, pa.list_(pa.float64()))])


class Totals:
    """The state of a gate."""

    def __init__(self) -> None:
        self.value = None

    def exists(self) -> bool:
        return self.value is not None

    def get(self):
        return self.value

    def update(self, value) -> None:
        self.value = value


def gate(least: float | None = None) -> Gate:
    made = Gate(2, least=least)
    made.totals = Totals()
    return made


def counts(**some: float) -> list[float]:
    return [float(some.get(name, 0.0)) for name in NAMES]


def test_a_gate_hands_on_the_rows_of_its_task_as_they_come_and_has_no_state():
    own = gate(least=1.0)
    asked = []

    def frames():
        for number in range(3):
            asked.append(number)
            yield pd.DataFrame({CELL: [b"%d" % number], COUNTS: [None]})

    passed = own.handleInputRows((7,), frames(), None)
    assert next(passed)[CELL].tolist() == [b"0"] and asked == [0]
    assert next(passed)[CELL].tolist() == [b"1"] and asked == [0, 1]
    assert [frame[CELL].tolist() for frame in passed] == [[b"2"]]
    assert not own.totals.exists()


def test_the_gate_of_the_counts_adds_up_shards_and_batches():
    own = gate()
    for batch in (1, 2):
        frame = pd.DataFrame({CELL: [None, None], COUNTS: [counts(n_output=5, reach=2), counts(n_output=4, lost=1, reach=3)]})
        (out,) = own.handleInputRows((0,), iter([frame]), None)
        sums = dict(zip(NAMES, out[COUNTS][0], strict=True))
        assert out[CELL].tolist() == [None]
        assert (sums["n_output"], sums["lost"], sums["reach"]) == (9, 1, 3)
        assert (sums[TOTAL + "n_output"], sums[TOTAL + "lost"]) == (9 * batch, batch)


def test_the_gate_of_the_counts_fails_a_batch_that_lost_too_much():
    frames = [pd.DataFrame({CELL: [None], COUNTS: [counts(n_output=5, lost=lost)]}) for lost in (4, 6)]
    with pytest.raises(PenstockError, match=r"min_recall must be reached by every batch: it is 0.6, .* recall of 0.5"):
        list(gate(least=0.6).handleInputRows((0,), iter(frames), None))
    assert list(gate(least=0.5).handleInputRows((0,), iter(frames), None))


def table(random: Random, size: int) -> pa.Table:
    """Rows of a shard: made, lost, and lost ones that stand for several."""
    number = [random.randrange(10) for _ in range(size)]
    return pa.table(
        [[f"k{one}" for one in number], number, [one / 2 for one in number], [random.choice([0.0, 0.0, 1.0, 2.5]) for _ in number]],
        schema=SCHEMA,
    )


@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_what_a_condition_passes_is_cut_out_of_the_cells_and_counted(weighed, step):
    """Spark may cut the rows that it hands on anywhere."""
    random = Random(step)
    tables = [table(random, size) for size in (5, 0, 30, 1, 12)]
    some = counts(n_input=40, n_output=9, lost=3, n_shed=2)
    came = [[to_cell(tables[0]), None], [None, some], [to_cell(tables[1]), None], *([to_cell(one), None] for one in tables[2:])]
    batches = [pa.record_batch([pa.array(column) for column in zip(*part, strict=True)], schema=RESULTS) for part in (came[:2], came[2:])]
    seen = pa.Table.from_batches(list(opened(pa.schema([SCHEMA.field("l_v")]))(iter(batches))))
    assert seen.column_names[:2] == ["l_v", AT]
    passed = seen.filter(pa.array([own < 0 or value < 5 for own, value in zip(seen[AT].to_pylist(), seen["l_v"].to_pylist(), strict=True)]))
    handed = passed.select([1, 2]).combine_chunks().to_batches(max_chunksize=step)
    out = pa.Table.from_batches(list(closed(2, weighed)(iter(handed))))
    wanted = [row for one in tables for row in one.to_pylist() if row["l_v"] < 5]
    made = [{name: value for name, value in row.items() if name != LOST} for row in wanted if row[LOST] == 0]
    assert [row for cell in out[CELL].to_pylist() if cell is not None for row in from_cell(cell).to_pylist()] == made
    of_shard, of_task = (dict(zip(NAMES, own, strict=True)) for own in out[COUNTS].to_pylist() if own is not None)
    assert (of_shard["n_input"], of_shard["n_shed"]) == (40, 2) and not any(of_shard[name] for name in JUDGED)
    value = [row[VALUE] if weighed else 1.0 for row in wanted]
    weight = np.array([row[LOST] for row in wanted])
    guess = np.where(weight == 1, 0, weight)
    found = {
        "n_output": len(made), "value": np.sum(value, where=weight == 0), "lost": weight.sum(), "lost_value": weight @ value,
        "sampled": guess.sum(), "sampled_value": guess @ value,
    }  # fmt: skip
    assert {name: of_task[name] for name in NAMES if of_task[name]} == pytest.approx(found)


def test_a_task_without_shards_counts_nothing():
    assert not list(closed(2, weighed=False)(iter([])))


class TestOnSpark:
    pytestmark = ON_SPARK

    def test_the_keys_of_partitions_go_to_partitions_in_turn(self, spark):
        keys = spark.createDataFrame([(key,) for key in partition_keys(5)], "gate int")
        found = keys.repartition(5, "gate").select("gate", F.spark_partition_id()).collect()
        assert dict(found) == {key: at for at, key in enumerate(partition_keys(5))}

    @pytest.mark.parametrize(
        "options",
        [
            later({"condition": "l_v < r_v or k = 'a'"}),
            later({"min_recall": (0.1, "fail")}),
            later({"max_output_per_batch": 10_000}),
            {"condition": "l_v < r_v or k = 'a'", "min_recall": (0.1, "fail"), "max_output_per_batch": 10_000},
        ],
        ids=lambda options: " and ".join(options),
    )
    def test_rows_are_in_as_many_tasks_as_there_are_shards(self, spark, tmp_path, options):
        parts = {side: [rows(f"{side}{number}", 60, seconds=30, seed=number) for number in range(2)] for side in "lr"}
        frames = [in_batches(spark, tmp_path / side, parts[side]) for side in "lr"]
        out, seen = ran(joined(*frames, shards=2, **options).withColumn("task", F.spark_partition_id()), tmp_path)
        everything = [
            spark.createDataFrame([row for part in parts[side] for row in part], "ts timestamp, k string, v string") for side in "lr"
        ]
        whole = spark_join(*everything, ["k"], 10).toDF("k", "l_ts", "l_v", "r_ts", "r_v").where(options.get("condition", "true"))
        assert bag(out.drop("task")) == bag(whole)
        assert {row["task"] for row in out.select("task").distinct().collect()} == {0, 1}
        assert seen[-1]["total_n_output"] == whole.count() and seen[-1]["share"] == 1.0

    @pytest.mark.slow
    def test_a_batch_with_a_condition_that_loses_too_much_is_not_committed_and_a_restart_goes_on(self, spark, tmp_path):
        parts = {side: [rows(f"{side}{number}", 60, seconds=30, seed=number) for number in range(2)] for side in "lr"}
        frames = [in_batches(spark, tmp_path / side, parts[side]) for side in "lr"]
        condition = "l_v < r_v or k = 'a'"

        def run(**options):
            return ran(joined(*frames, shards=2, condition=condition, **options), tmp_path)

        with pytest.raises(Exception, match="min_recall must be reached by every batch"):
            run(memory=10, min_recall=(0.99, "fail"))
        assert not [*(tmp_path / "out" / "_spark_metadata").glob("[0-9]*")] and not [*(tmp_path / "checkpoint" / "commits").glob("[0-9]*")]
        out, seen = run(memory=1000, min_recall=(0.99, "fail"))
        everything = [
            spark.createDataFrame([row for part in parts[side] for row in part], "ts timestamp, k string, v string") for side in "lr"
        ]
        whole = spark_join(*everything, ["k"], 10).toDF("k", "l_ts", "l_v", "r_ts", "r_v").where(condition)
        assert bag(out) == bag(whole) and seen[-1]["total_n_output"] == whole.count() and seen[-1]["total_recall"] == 1.0
