"""`penstock bench spark`: its contenders agree, its report has what it promises. What the clock says is not tested."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from penstock.cli import run
from penstock.cli.benches.bench_spark_output import print_sizes
from penstock.core.errors import PenstockError
from penstock.experiments import peers, stream_speed

pyspark = pytest.importorskip("pyspark")
from pyspark.sql import SparkSession  # noqa: E402

from penstock.spark.bench import contenders  # noqa: E402
from penstock.spark.bench import contest as bench  # noqa: E402
from penstock.spark.bench.contenders import CONTENDERS, Contender, Job  # noqa: E402
from sparks import ON_SPARK  # noqa: E402

TINY = Job(rows=2_000, window=300, keys=750, shards=2, batches=2, own_batches=1, warm_up=1)


def silent(text: str) -> None:
    pass


@pytest.fixture(scope="module")
def timed(spark: SparkSession) -> dict[str, bench.Timing]:
    names = ["pass-through", "spark-heap", "penstock", "penstock-tenth"]
    return {name: bench.measure(spark, name, TINY, say=silent) for name in names}


class TestOnSpark:
    pytestmark: ClassVar[list[Any]] = [*ON_SPARK, pytest.mark.slow]

    def test_the_contenders_agree(self, spark):
        assert bench.check_agreement(spark, ["spark-rocksdb", "penstock", "penstock-condition", "penstock-tenth"], TINY, say=silent) > 1_000

    def test_a_join_of_three_streams_is_what_a_cascade_of_sparks_own_gives(self, spark):
        three = replace(TINY, rows=3_000, streams=3)
        assert bench.check_agreement(spark, ["spark-rocksdb", "penstock", "penstock-tenth"], three, say=silent) > 100
        timing = bench.measure(spark, "penstock", three, say=silent)
        assert (timing.rows, timing.memory, timing.shed) == (6_000, 1_800, 0)

    def test_a_join_by_distance_is_what_spark_gives_by_hand(self, spark):
        near = replace(TINY, predicate="eps:10", keys=contenders.keys_for(TINY.window, 2, reach=10))
        assert bench.check_agreement(spark, ["spark-heap", "penstock", "penstock-tenth"], near, say=silent) > 1_000

    def test_a_join_through_a_relation_is_what_spark_gives_by_hand(self, spark):
        linked = replace(TINY, facts=2_000, keys=contenders.relation_keys(2_000))
        assert bench.check_agreement(spark, ["spark-heap", "penstock", "penstock-tenth"], linked, say=silent) > 500

    def test_a_difference_is_an_error(self, spark, monkeypatch):
        wider = Contender(lambda sides, job, me: contenders._penstock(sides, replace(job, window=2 * job.window), me), share=9)
        monkeypatch.setitem(CONTENDERS, "wider", wider)
        with pytest.raises(bench.ResultsDifferError, match=r"wider and penstock give different results: [0-9]+ rows too many, 0 missing"):
            bench.check_agreement(spark, ["penstock", "wider"], TINY, say=silent)

    def test_numbers_are_positive_and_batches_counted(self, timed):
        for timing in timed.values():
            assert timing.rows == 2_000 * len(timing.seconds)
            assert timing.rows_per_second > 0
            assert timing.outputs > 0
            assert timing.cpu_seconds > 0
            assert timing.checkpoint_bytes > 0
        assert [(timing.warm_up, len(timing.seconds)) for timing in timed.values()] == [(1, 2)] * 4
        bench.check_counts(list(timed.values()))
        assert timed["pass-through"].outputs == timed["pass-through"].rows
        assert timed["pass-through"].state_bytes is None
        assert timed["spark-heap"].state_bytes > 0

    def test_memory_is_what_was_given(self, timed):
        assert (timed["penstock"].memory, timed["penstock"].shed) == (1_200, 0)
        assert timed["penstock-tenth"].memory == 60
        assert timed["penstock-tenth"].shed > 0
        assert timed["penstock-tenth"].state_rows <= 60
        assert timed["penstock-tenth"].outputs < timed["penstock"].outputs

    def test_settings_of_a_contender_end_with_it(self, spark, timed):
        assert spark.conf.get(contenders.FORMAT) == "2"

    def test_peers_get_the_same_rows(self, spark):
        left, right = contenders.sample(spark, TINY, 1_000)
        assert left.column_names == right.column_names == ["t", "k", "v"]
        assert left.num_rows == right.num_rows == 500
        assert left["v"][7].as_py() == "l000000007"
        assert left["k"].to_pylist() != right["k"].to_pylist()

    def test_the_command_prints_json_with_the_promised_fields(self, spark, monkeypatch, capsys):
        monkeypatch.setattr(bench, "open_session", lambda cores: _Lasting(spark))
        for name in (
            "spark-rocksdb",
            "penstock-half",
            "penstock-tenth",
            "penstock-condition",
        ):  # others have run them, and each costs seconds
            monkeypatch.delitem(CONTENDERS, name)
        sizes = "--rows 2000,1000 --window 300 --keys 750 --shards 2 --batches 1 --own-batches 1 --warm-up 0"
        capsys.readouterr()
        assert run(["bench", "spark", *sizes.split(), "--no-heap", "--format", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert [one["contender"] for one in found["contenders"]] == ["pass-through", "penstock"]
        promised = {
            "rows_per_second",
            "ratio_to_pass_through",
            "ratio_to_spark_rocksdb",
            "outputs",
            "state_bytes",
            "commit_seconds",
            "batches",
        }
        assert all(promised <= set(one) for one in found["contenders"])
        assert [one["than"] for one in found["targets"]] == ["spark-rocksdb", "spark-heap", "penstock"]
        assert found["targets"][1] == {"than": "spark-heap", "wanted": 1.0, "who": "penstock", "got": None, "holds": None}
        assert [one["rows"] for one in found["sizes"]] == [2_000, 1_000]
        assert [one["rows"] for one in found["sizes"][1]["contenders"]] == [1_000, 1_000]
        assert all(one["median_seconds"] > 0 for size in found["sizes"] for one in size["contenders"])
        assert found["rows_compared"] > 0
        assert found["job"]["window"] == 300


class _Lasting:
    """A session that the command cannot stop: other tests need it."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def __getattr__(self, name: str):
        return getattr(self._session, name)

    def stop(self) -> None:
        pass


def timing(name: str, pace: float, **more) -> bench.Timing:
    sizes = {"state_rows": 10, "state_bytes": 100, "disk_bytes": None, "checkpoint_bytes": 50, "commit_seconds": 0.5, "cpu_seconds": 2.0}
    return bench.Timing(name, rows=int(pace), outputs=1, seconds=(0.5, 0.5), **(sizes | more))


@pytest.mark.parametrize(
    ("options", "said"),
    (
        (["--streams", "1"], "--streams"),
        (["--streams", "6"], "at most 5"),
        (["--streams", "3", "--peer", "flink"], "--peer"),
        (["--predicate", "<"], "Spark's own join needs columns that are equal"),
        (["--predicate", "eps:0.5"], "a distance of 1 or more"),
        (["--predicate", "eps:3", "--streams", "3"], "--streams has no join by distance to compare with"),
        (["--predicate", "eps:3", "--facts", "10"], "--facts has no join by distance to compare with"),
        (["--facts", "10", "--streams", "3"], "--streams has no join through a relation to compare with, got --facts 10"),
    ),
)
def test_what_has_nothing_to_compare_with_is_refused(capsys, options, said):
    assert run(["bench", "spark", *options]) == 2
    assert said in capsys.readouterr().err


def test_targets_say_whether_they_hold():
    paces = {"pass-through": 400, "spark-rocksdb": 20, "spark-heap": 100, "penstock": 250, "penstock-condition": 200}
    timings = [timing(name, pace) for name, pace in paces.items()]
    found = [(one["got"], one["holds"]) for one in stream_speed.verdicts(timings)]
    assert found == [(12.5, True), (2.5, False), (0.625, True), (0.8, False)]


def test_targets_are_those_of_the_size_of_a_batch():
    timings = [timing("spark-rocksdb", 20), timing("spark-heap", 100), timing("penstock", 50)]
    small = stream_speed.verdicts(timings, stream_speed.targets_of(TINY))
    assert [(one["wanted"], one["holds"]) for one in small] == [(1.0, True), (1.0, False), (0.85, None)]
    large = replace(TINY, rows=500_000)
    jobs = (large, replace(large, streams=3), replace(large, predicate="eps:3"))
    assert [[target.wanted for target in stream_speed.targets_of(job)] for job in jobs] == [[10, 3, 0.6, 0.85], [5, 5], [5, 5]]


def test_sparks_own_join_has_fewer_batches_where_they_are_long():
    own, ours = CONTENDERS["spark-rocksdb"], CONTENDERS["penstock"]
    for rows, of_own, of_ours in ((2_000, (40, 10), (40, 10)), (500_000, (5, 3), (40, 10)), (2_000_000, (2, 3), (10, 10))):
        assert (own.batches(Job(rows=rows)), ours.batches(Job(rows=rows))) == (of_own, of_ours)


def test_the_window_is_full_before_batches_count():
    assert CONTENDERS["penstock"].batches(Job(rows=100, window=20_000)) == (400, 10)


def test_batches_that_differ_are_an_error():
    whole = [timing("pass-through", 10, made=(9, 9)), timing("spark-heap", 10, made=(3, 4)), timing("penstock", 10, made=(3, 4, 5))]
    bench.check_counts([*whole, timing("penstock-half", 10, made=(2, 2, 2))])
    with pytest.raises(bench.ResultsDifferError, match="penstock and spark-heap give different results: 5 and 4 rows in batch 1"):
        bench.check_counts([*whole[:2], timing("penstock", 10, made=(3, 5))])


def test_sizes_become_a_table_in_their_order(capsys):
    slow, fast = timing("spark-rocksdb", 200), timing("penstock", 500)
    print_sizes({500_000: [slow], 2_000: [slow, fast]})
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if "penstock" in line or "spark-rocksdb  " in line]
    found = [line for line in lines if line[0].startswith(("2", "5"))]
    assert [line[:4] for line in found] == [
        ["2,000", "spark-rocksdb", "0.500", "200"],
        ["2,000", "penstock", "0.500", "500"],
        ["500,000", "spark-rocksdb", "0.500", "200"],
    ]
    assert found[1][6] == "2.50"


def test_sizes_that_are_none_are_refused(capsys):
    for text, said in (("2000,", "one or more values"), ("2000,many", "'many'"), ("2", ">= 5")):
        assert run(["bench", "spark", "--rows", text]) == 2
        assert said in capsys.readouterr().err


def test_doubling_gives_factors():
    jobs = []

    def measure(name: str, job: Job, prefix: str) -> bench.Timing:
        jobs.append(job)
        return timing(name, 200, state_bytes=300)

    more = stream_speed.measure_doubling(measure, ["penstock"], TINY)
    assert [(job.window, job.keys, job.rows, job.shards) for job in jobs] == [
        (600, 1500, 2000, 2),
        (300, 750, 4000, 2),
        (300, 750, 2000, 4),
    ]
    first = stream_speed.factors([timing("penstock", 100)], more)[0]
    assert first == {
        "contender": "penstock",
        "doubled": "window",
        "rows_per_second": 2.0,
        "cpu_per_row": 0.5,
        "state_bytes": 3.0,
        "checkpoint_bytes": 1.0,
        "commit_seconds": 1.0,
    }


def test_a_peer_that_is_not_there_is_refused_with_what_to_do(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PENSTOCK_FLINK_PYTHON", str(tmp_path / "python"))
    assert run(["bench", "spark", "--peer", "flink"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "--peer flink needs apache-flink in an environment of its own: PENSTOCK_FLINK_PYTHON is" in said
    assert "python3 -m venv" in said
    assert "pip install apache-flink" in said
    assert run(["bench", "spark", "--peer", "flnk"]) == 2
    assert "did you mean 'flink'?" in capsys.readouterr().err


def test_a_peer_runs_in_its_own_interpreter(monkeypatch, tmp_path):
    import pyarrow as pa

    script = "import json, sys; print('noise'); print(json.dumps(dict(rows=4, seconds=2.0, outputs=1, version=' '.join(sys.argv[2:]))))"
    (tmp_path / "flink_join.py").write_text(script)
    monkeypatch.setattr(peers, "SCRIPTS", tmp_path)
    monkeypatch.setenv("PENSTOCK_FLINK_PYTHON", sys.executable)
    rows = pa.table({"t": [1, 2], "k": [1, 1], "v": ["a", "b"]})
    found = peers.measure_peer("flink", rows, rows, window=9, parallelism=3)
    assert (found.rows_per_second, found.outputs, found.version) == (2.0, 1, "9 3")
    (tmp_path / "flink_join.py").write_text("raise SystemExit('no Java here')")
    with pytest.raises(PenstockError, match="--peer flink did not finish its run: no Java here"):
        peers.measure_peer("flink", rows, rows, window=9, parallelism=3)
