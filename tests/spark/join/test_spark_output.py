"""How many outputs a batch may have on Spark: one too many fails it, and nothing of it is committed."""

from __future__ import annotations

import pytest

import penstock as ps

pytest.importorskip("pyspark")
from penstock.core.errors import PenstockError
from penstock.shard.counts import counted
from penstock.spark.join.gate import guard
from penstock.spark.observe.metrics import COUNTS
from sparks import ON_SPARK, SCHEMA, at, bag, in_batches, joined, ran, rows
from strategies import later


def results(streams: int, outputs: list[int]):
    import pyarrow as pa

    names = counted(streams)
    for made in outputs:
        own = [float(made) if name == "n_output" else 0.0 for name in names]
        yield pa.record_batch({"cell": pa.array([b"x", None]), COUNTS: pa.array([None, own], pa.list_(pa.float64()))})


def test_the_guard_adds_up_the_shards_and_lets_rows_pass_before():
    assert len(list(guard(2, most=10)(results(2, [4, 6])))) == 2
    passing = guard(2, most=10)(results(2, [4, 7]))
    assert next(passing).num_rows == 2
    with pytest.raises(PenstockError, match=r"it is 10, and all shards together have made 11 outputs"):
        next(passing)


@pytest.mark.parametrize(("most", "what"), [(0, "0"), (1.5, "1.5"), (True, "True"), ("many", "'many'")])
def test_a_limit_must_be_a_whole_number(most, what):
    from penstock.spark.join.arguments import whole_number

    with pytest.raises(PenstockError, match=f"max_output_per_batch must be a whole number >= 1, got {what}"):
        whole_number("max_output_per_batch", most)


class TestOnSpark:
    pytestmark = ON_SPARK

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("shards", "options"),
        [(2, {}), later(1, {}), later(2, {"condition": "l_v < r_v"})],
        ids=("of all shards", "of one", "with a condition"),
    )
    def test_a_batch_beyond_the_limit_fails_and_a_larger_one_goes_on(self, spark, tmp_path, shards, options):
        parts = {side: [rows(side, 20, seed=1), [(at(200 + i), "abcdefgh"[i % 8], f"{side}x{i}") for i in range(64)]] for side in "lr"}

        def run(limit):
            frames = [spark.readStream.schema(lines.schema).option("maxFilesPerTrigger", 1).parquet(place) for place, lines in sources]
            return ran(joined(*frames, shards=shards, window="100 seconds", max_output_per_batch=limit, **options), tmp_path)

        sources = []
        for side in "lr":
            frame = in_batches(spark, tmp_path / side, parts[side])
            sources.append((str(tmp_path / side / "in"), frame))
        # The second batch makes 8 keys x 8 x 8 = 512 outputs, about half of them in each of two shards.
        with pytest.raises(Exception, match="max_output_per_batch") as failure:
            run(511)
        assert "in batch 1. Nothing of it is committed" in str(failure.value) and "it is 511" in str(failure.value)
        assert ("all shards together have" in str(failure.value)) == (shards > 1)
        first = bag(spark.read.parquet(str(tmp_path / "out")))
        assert all("x" not in row[2] for row in first)
        out, seen = run(512)
        assert not first - bag(out)
        assert sum("x" in row[2] for row in bag(out).elements()) == seen[-1]["n_output"] > 0
        assert "condition" in options or seen[-1]["n_output"] == 512

    @pytest.mark.slow
    def test_a_batch_query_has_one_limit_for_all_of_it(self, spark):
        frames = [
            spark.createDataFrame([(at(i), "a", f"{side}{i}") for i in range(10)], "ts timestamp, k string, v string") for side in "lr"
        ]
        assert joined(*frames, shards=1, window="1 hour", max_output_per_batch=100).count() == 100
        with pytest.raises(Exception, match=r"it is 99, and shard 0 alone has made 100 outputs or more in this batch query"):
            joined(*frames, shards=1, window="1 hour", max_output_per_batch=99).count()

    def test_so_many_shards_are_refused_at_once(self, spark, tmp_path):
        frame = spark.createDataFrame([(at(0), "a", "x")], SCHEMA)
        sides = {name: ps.stream(frame, time="ts", window="1 hour") for name in "lr"}
        for refuses in (ps.join, ps.explain):
            with pytest.raises(PenstockError, match="shards must be at most 10,000, got 1,000,000,000: each shard"):
                refuses(sides, on="k", memory=10**12, shards=10**9)
        assert "limit      a batch in which all shards make more than 1,000 outputs fails" in ps.explain(
            sides, on="k", memory=10, shards=2, max_output_per_batch=1000
        )
        from penstock.spark.reshard.reshard import reshard

        with pytest.raises(PenstockError, match="shards must be at most 10,000"):
            reshard(spark, str(tmp_path), 10**9)
