"""The state of a stopped query, rewritten: what the restarted query sees is exactly what was written."""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.core.errors import PenstockError

pyspark = pytest.importorskip("pyspark")
import pandas as pd  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from pyspark import cloudpickle  # noqa: E402
from pyspark.errors import StreamingQueryException  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from pyspark.sql.streaming import StatefulProcessor  # noqa: E402

from penstock.spark.reshard.checkpoint import Checkpoint  # noqa: E402
from penstock.spark.reshard.rewrite import StateRows, rewrite_state  # noqa: E402
from sparks import ON_SPARK  # noqa: E402

pytestmark = [*ON_SPARK, pytest.mark.slow]

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the workers cannot import it

STORE = "spark.sql.streaming.stateStore"
FORMATS: dict[str, dict[str, str]] = {
    "snapshots": {},
    "changelogs": {f"{STORE}.rocksdb.changelogCheckpointing.enabled": "true"},
    "ids": {f"{STORE}.rocksdb.changelogCheckpointing.enabled": "true", f"{STORE}.checkpointFormatVersion": "2"},
}
INPUT = "k bigint, n bigint, bytes bigint"
BIG = 3 << 20


@pytest.fixture
def spark(spark: SparkSession) -> SparkSession:
    """A session with settings of its own."""
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "3")
    session.conf.set(f"{STORE}.providerClass", "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
    return session


class Hoarder(StatefulProcessor):
    """Keeps a block of bytes per row of its input, and shows in each batch what it has."""

    def init(self, handle: Any) -> None:
        self.seen = handle.getValueState("seen", "batches int, note string, mark binary")
        self.blocks = handle.getMapState("blocks", "number bigint", "cell binary")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        batches, note, mark = self.seen.get() if self.seen.exists() else (0, None, b"")
        before = show((batches, note, mark), {at[0]: cell[0] for at, cell in self.blocks.iterator()})
        for frame in rows:
            for number, size in zip(frame["n"], frame["bytes"], strict=True):
                self.blocks.updateValue((int(number),), (block(int(key[0]), int(number), int(size)),))
        self.seen.update((batches + 1, note, bytes(mark) + bytes([int(key[0])])))
        yield pd.DataFrame({"k": [int(key[0])], "n": [0], "bytes": [1], "before": [before]})

    def close(self) -> None:
        pass


def block(key: int, number: int, size: int) -> bytes:
    return hashlib.shake_256(f"{key} {number}".encode()).digest(size)


def show(seen: tuple[Any, ...], blocks: dict[int, bytes]) -> str:
    cells = {int(number): hashlib.sha256(bytes(cell)).hexdigest()[:8] for number, cell in blocks.items()}
    return repr((int(seen[0]), seen[1], bytes(seen[2]), dict(sorted(cells.items()))))


class Job:
    """A query over a folder of files, one per micro-batch, started and stopped at will."""

    def __init__(self, spark: SparkSession, folder: Path, operators: int = 1) -> None:
        self.spark, self.folder, self.operators, self.fed, self.played = spark, folder, operators, 0, 0
        self.checkpoint = str(folder / "checkpoint")
        (folder / "in").mkdir()

    def feed(self, *rows: tuple[int, int, int]) -> None:
        """Put the rows of one batch, (key, number, bytes), into the folder."""
        pq.write_table(
            pa.table(dict(zip(("k", "n", "bytes"), zip(*rows, strict=True), strict=True))), self.folder / "in" / f"{self.fed}.parquet"
        )
        self.fed += 1

    def run(self, *rows: tuple[int, int, int], fail: bool = False) -> dict[int, str]:
        """Play a batch of these rows and what was fed before, and return what the keys had before the last batch."""
        if rows:
            self.feed(*rows)
        frame = self.spark.readStream.schema(INPUT).option("maxFilesPerTrigger", 1).parquet(str(self.folder / "in"))
        for _ in range(self.operators):
            frame = frame.groupBy("k").transformWithStateInPandas(Hoarder(), INPUT + ", before string", "Append", "None")
        seen: list[tuple[int, Any]] = []

        def keep(batch: Any, number: int) -> None:
            seen.append((number, batch.collect()))
            if fail:
                raise RuntimeError("the sink is full")

        query = frame.writeStream.foreachBatch(keep).option("checkpointLocation", self.checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        assert [number for number, _ in seen] == list(range(self.played, self.fed))  # no batch is left out, added or repeated
        self.played = self.fed
        return {row["k"]: row["before"] for row in seen[-1][1]}

    def state(self, name: str, operator: int = 0) -> list[Any]:
        rows = self.spark.read.format("statestore").option("stateVarName", name).option("operatorId", operator)
        return rows.load(self.checkpoint).collect()

    def three_batches(self) -> None:
        self.feed(*((key, key, 100 * key) for key in range(1, 8)))
        self.feed(*((key, 10 + key, 10) for key in range(1, 8)), (3, 99, BIG), (4, 98, BIG))
        self.run((1, 21, 5), (4, 24, 5), (4, 25, 5))

    def listing(self) -> dict[str, int]:
        root = Path(self.checkpoint)
        return {str(path.relative_to(root)): path.stat().st_size for path in root.rglob("*") if path.is_file()}


def rename_merge_and_split(rows: StateRows) -> StateRows:
    """1 becomes 101, 2 and 3 become 3, 4 becomes 4 (even numbers) and 104 (odd ones), and all is noted."""
    seen = {key[0]: value for key, _, value in rows["seen"]}
    merged = (seen[2][0] + seen[3][0], "mérged", seen[2][2] + seen[3][2])
    new = {101: seen[1], 3: merged, 4: seen[4], 104: (-1, "split", b"")} | {key: seen[key] for key in (5, 6, 7)}
    home = {1: 101, 2: 3}
    cells = [((104 if key[0] == 4 and at[0] % 2 else home.get(key[0], key[0]),), at, cell) for key, at, cell in rows["blocks"]]
    return {"seen": [((key,), None, value) for key, value in new.items()], "blocks": cells}


NONE = show((0, None, b""), {})
MERGED = {2: block(2, 2, 200), 3: block(3, 3, 300), 12: block(2, 12, 10), 13: block(3, 13, 10), 99: block(3, 99, BIG)}
EVEN = {4: block(4, 4, 400), 14: block(4, 14, 10), 98: block(4, 98, BIG), 24: block(4, 24, 5)}
AFTER = {
    101: show((3, None, b"\1\1\1"), {1: block(1, 1, 100), 11: block(1, 11, 10), 21: block(1, 21, 5)}),
    1: NONE,
    2: NONE,
    3: show((4, "mérged", b"\2\2\3\3"), MERGED),
    4: show((3, None, b"\4\4\4"), EVEN),
    104: show((-1, "split", b""), {25: block(4, 25, 5)}),
    5: show((2, None, b"\5\5"), {5: block(5, 5, 500), 15: block(5, 15, 10)}),
}


@pytest.mark.parametrize("settings", FORMATS.values(), ids=FORMATS)
def test_the_restarted_query_has_exactly_the_new_rows(spark, tmp_path, settings):
    for name, value in settings.items():
        spark.conf.set(name, value)
    job = Job(spark, tmp_path)
    job.three_batches()
    old = job.listing()
    backup = rewrite_state(spark, job.checkpoint, rename_merge_and_split)
    assert spark.conf.get(f"{STORE}.checkpointFormatVersion") == settings.get(f"{STORE}.checkpointFormatVersion", "1")
    assert {row["key"]["k"] for row in job.state("seen")} == {101, 3, 4, 104, 5, 6, 7}
    assert len({row["partition_id"] for row in job.state("seen")}) == 3
    assert len(job.state("blocks")) == 7 + 9 + 3
    assert job.run(*((key, 50, 7) for key in AFTER)) == AFTER
    again = job.run((1, 51, 7), (3, 51, 7), (6, 51, 7))
    assert again == {
        1: show((1, None, b"\1"), {50: block(1, 50, 7)}),
        3: show((5, "mérged", b"\2\2\3\3\3"), MERGED | {50: block(3, 50, 7)}),
        6: show((2, None, b"\6\6"), {6: block(6, 6, 600), 16: block(6, 16, 10)}),
    }
    rewrite_state(spark, job.checkpoint, lambda rows: rows)
    assert job.run((5, 52, 7))[5] == show((3, None, b"\5\5\5"), {5: block(5, 5, 500), 15: block(5, 15, 10), 50: block(5, 50, 7)})
    job.checkpoint = backup.removeprefix("file:")
    assert job.listing() == old


def test_a_batch_that_was_planned_but_not_committed_is_played_on_the_new_state(spark, tmp_path):
    job = Job(spark, tmp_path)
    job.three_batches()
    with pytest.raises(StreamingQueryException, match="the sink is full"):
        job.run((3, 60, 7), (101, 60, 7), fail=True)
    rewrite_state(spark, job.checkpoint, rename_merge_and_split)
    assert job.run() == {3: AFTER[3], 101: AFTER[101]}
    assert job.run((3, 61, 7))[3] == show((5, "mérged", b"\2\2\3\3\3"), MERGED | {60: block(3, 60, 7)})


def test_whatever_fails_the_checkpoint_is_the_old_one(spark, tmp_path, monkeypatch):
    job = Job(spark, tmp_path)
    job.run((1, 1, 10), (2, 2, 20))
    old = job.listing()
    wrong = {
        "twice": lambda rows: {"blocks": [((1,), at, cell) for key, at, cell in rows["blocks"] for _ in "ab"]},
        "got other": lambda rows: {"other": []},
        "got none": lambda rows: {"seen": []},
        "no map key": lambda rows: {"seen": rows["blocks"]},
        "a map key": lambda rows: {"blocks": rows["seen"]},
        "the 3 columns": lambda rows: {"seen": [(key, None, (1,)) for key, _, _ in rows["seen"]]},
    }
    for message, transform in wrong.items():
        with pytest.raises(PenstockError, match=message):
            rewrite_state(spark, job.checkpoint, transform)
    with pytest.raises(ZeroDivisionError):
        rewrite_state(spark, job.checkpoint, lambda rows: 1 // 0)
    with pytest.raises(PenstockError, match="operator must be one of"):
        rewrite_state(spark, job.checkpoint, lambda rows: rows, operator=1)
    with pytest.raises(PenstockError, match="with a committed batch"):
        rewrite_state(spark, str(tmp_path / "nowhere"), lambda rows: rows)
    monkeypatch.setattr("penstock.spark.reshard.rewrite.encode", lambda row, schema: b"")
    with pytest.raises(PenstockError, match="binary form"):
        rewrite_state(spark, job.checkpoint, lambda rows: rows)
    monkeypatch.undo()
    monkeypatch.setattr("penstock.spark.reshard.rewrite._check", lambda *arguments: 1 // 0)  # the last step before the checkpoint changes
    with pytest.raises(ZeroDivisionError):
        rewrite_state(spark, job.checkpoint, lambda rows: rows)
    assert job.listing() == old
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint", "in"]
    assert job.run((1, 2, 10))[1] == show((1, None, b"\1"), {1: block(1, 1, 10)})


def test_other_operators_keep_their_state(spark, tmp_path):
    job = Job(spark, tmp_path, operators=2)
    job.run((1, 1, 10), (2, 2, 20))
    with pytest.raises(PenstockError, match=r"operator must be one of .*0, 1.* got None"):
        rewrite_state(spark, job.checkpoint, lambda rows: rows)
    rewrite_state(spark, job.checkpoint, lambda rows: {"seen": [((1,), None, (9, "new", b""))]}, operator=0)  # the last one of the query
    assert sorted(row["key"]["k"] for row in job.state("blocks", operator=1)) == [1, 2]
    assert job.run((1, 3, 10), (2, 3, 10)) == {1: show((9, "new", b""), {}), 2: NONE}
    assert sorted(row["key"]["k"] for row in job.state("blocks", operator=1)) == [1, 1, 2, 2]


def test_an_interrupted_rewriting_is_completed_or_has_not_begun(spark, tmp_path, monkeypatch):
    """What is on the disk before each step, and in the midst of each copy, is what a sudden end leaves behind."""
    job = Job(spark, tmp_path)
    job.run((1, 1, 10), (2, 2, 20))
    old, images = job.listing(), tmp_path.with_name(f"{tmp_path.name}-images")

    def keep() -> Path:
        image = images / f"{sum(1 for _ in images.glob('*')):03}"
        for path in tmp_path.glob("checkpoint*"):
            shutil.copytree(path, image / path.name)
        return image

    def watched(method: str) -> Any:
        step = getattr(Checkpoint, method)

        def done(files: Checkpoint, *names: str) -> None:
            keep()
            step(files, *names)
            if method == "copy":
                root = keep() / Path(names[-1].removeprefix("file:")).relative_to(tmp_path)
                for path in sorted(path for path in root.rglob("*") if path.is_file())[::2]:
                    path.unlink()

        return done

    for method in ("write", "copy", "delete", "rename"):
        monkeypatch.setattr(Checkpoint, method, watched(method))
    backup = rewrite_state(spark, job.checkpoint, only_one, purpose="one")
    monkeypatch.undo()
    new = job.listing()
    ready = [(image / "checkpoint.rewriting" / "ready").exists() for image in sorted(images.iterdir())]
    first = ready.index(True)
    assert first > 10 and len(ready) - first > 6
    for number, image in enumerate(sorted(images.iterdir())):
        for path in tmp_path.glob("checkpoint*"):
            shutil.rmtree(path)
        shutil.copytree(image, tmp_path, dirs_exist_ok=True)
        over = number == len(ready) - 1  # all is done but deleting the draft
        if not ready[number] and not over:
            assert job.listing() == old
            if number not in (first // 2, first - 3, first - 1):  # each takes some seconds
                continue
        if not over:
            broken = (tmp_path / "checkpoint" / "commits" / "0").read_text().startswith("(")
            if broken and not (tmp_path / "checkpoint" / "state" / "0").exists():
                with pytest.raises(StreamingQueryException, match="run the same `penstock reshard` again"):
                    job.run((1, 2, 10))
            assert rewrite_state(spark, job.checkpoint, only_one, purpose="one") == backup
        assert [row["key"]["k"] for row in job.state("seen")] == [101]
        assert not ready[number] or job.listing() == new
        kept = Job.listing(SimpleNamespace(checkpoint=backup.removeprefix("file:")))
        assert kept == old


def only_one(rows: StateRows) -> StateRows:
    return {name: [((101,), at, value) for key, at, value in kept if key == (1,)] for name, kept in rows.items()}
