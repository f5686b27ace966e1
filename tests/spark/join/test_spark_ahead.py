"""One wrong timestamp on Spark: it waits, the others are joined as if it were not there, and nothing is lost or doubled."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import penstock as ps

pytest.importorskip("pyspark")
from sparks import ON_SPARK, SCHEMA, add_batches, at, bag, in_batches, joined, ran, rows, spark_join
from strategies import later

pytestmark = ON_SPARK

DAY = 86_400


def parts_of(tag: str, batches: int, strays: dict[int, list[Any]] | None = None) -> list[list[tuple[Any, ...]]]:
    """Thirty rows a batch, ten seconds each; and strays, by batch."""
    found = []
    for number in range(batches):
        own = [(ts + dt.timedelta(seconds=10 * number), k, f"{v}/{number}") for ts, k, v in rows(tag, 30, seconds=10, seed=number)]
        found.append(own + [(when, "a", f"{tag}-stray{number}/{n}") for n, when in enumerate((strays or {}).get(number, ()))])
    return found


def flat(parts: list[list[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
    return [row for part in parts for row in part]


def without_strays(found: Counter[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    return Counter({row: n for row, n in found.items() if not any("stray" in str(value) for value in row)})


FAR = dt.datetime(9999, 1, 1, tzinfo=dt.UTC)
SOON = at(11 * DAY)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("left", "right", "shards"),
    ((FAR, None, 2), later(SOON, None, 1), later(SOON, SOON, 2), later(FAR, FAR, 7), later(FAR, SOON, 2)),
    ids=("9999 in one", "eleven days in one", "eleven days in both", "9999 in both", "one of each"),
)
def test_a_stray_waits_and_the_join_goes_on_over_a_restart_and_settles(spark, tmp_path, left, right, shards):
    strays = {"l": {1: [left]}, "r": {1: [right] if right else []}}
    parts = {side: parts_of(side, 5, strays[side]) for side in "lr"}
    frames = [in_batches(spark, tmp_path / side, parts[side][:3]) for side in "lr"]
    options = {"shards": shards, "lateness": "0 seconds", "memory": 10_000, "archive": str(tmp_path / "ledger")}
    n_strays = 1 + (right is not None)
    _, seen = ran(joined(*frames, **options), tmp_path)
    assert [batch["n_ahead"] for batch in seen] == [0, n_strays, 0] and seen[-1]["retained_ahead"] == n_strays
    for side in "lr":
        add_batches(spark, tmp_path / side, parts[side][3:])
    out, more = ran(joined(*frames, **options), tmp_path)
    assert [batch["retained_ahead"] for batch in more] == [n_strays] * 2 and more[-1]["total_n_ahead"] == n_strays
    clean = {side: [row for row in flat(parts[side]) if "stray" not in row[2]] for side in "lr"}
    exact = bag(spark_join(*(spark.createDataFrame(clean[side], SCHEMA) for side in "lr"), ["k"], 10))
    assert sum(batch["n_late"] for batch in seen + more) == 0
    assert bag(out) == exact and more[-1]["total_recall"] == 1.0

    # What waits is neither made nor owed; dropped, it is owed what it would have met.
    assert not bag(ps.settle(tmp_path / "ledger", checkpoint=tmp_path / "checkpoint", spark=spark))
    for side in "lr":
        add_batches(spark, tmp_path / side, [[(at(50), "z", f"{side}-last")]])
    out, last = ran(joined(*frames, **options, ahead=("2 days", "drop")), tmp_path)
    assert last[-1]["retained_ahead"] == 0 and last[-1]["total_n_shed"] == n_strays
    everything = {side: [*flat(parts[side]), (at(50), "z", f"{side}-last")] for side in "lr"}
    exact = bag(spark_join(*(spark.createDataFrame(everything[side], SCHEMA) for side in "lr"), ["k"], 10))
    assert bag(out) + bag(ps.settle(tmp_path / "ledger", checkpoint=tmp_path / "checkpoint", spark=spark)) == exact


@pytest.mark.slow
def test_a_batch_that_is_played_again_decides_as_it_did(spark, tmp_path):
    """Its timestamp is that of the offset log, whatever the clock says then: a row two days before it is live, then and later."""
    stamp = dt.datetime.now(dt.UTC)
    live = stamp - dt.timedelta(hours=1)
    parts = {side: [rows(side, 20, seconds=5), [(live, "a", f"{side}-live")]] for side in "lr"}
    frames = [in_batches(spark, tmp_path / side, parts[side]) for side in "lr"]
    options = {"shards": 2, "memory": 1000, "ahead": "2 days"}
    out, seen = ran(joined(*frames, **options), tmp_path)
    first = bag(out)
    assert [batch["n_ahead"] for batch in seen] == [0, 0]
    _forget_last_commit(tmp_path, days=30)
    out, again = ran(joined(*frames, **options), tmp_path)
    assert [batch["n_ahead"] for batch in again] == [2]  # the timestamp in the log is what counts
    assert bag(out) == Counter({row: n for row, n in first.items() if "live" not in str(row)})


def _forget_last_commit(folder: Path, days: int) -> None:
    """As if the last batch had not been committed, and its offsets had been logged so many days ago."""
    commits = sorted((folder / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last = commits[-1].name
    commits[-1].unlink()
    (commits[-1].parent / f".{last}.crc").unlink(missing_ok=True)
    log = folder / "checkpoint" / "offsets" / last
    text = log.read_text()
    stamp = int(text.split('"batchTimestampMs":')[1].split(",")[0])
    log.write_text(text.replace(str(stamp), str(stamp - days * DAY * 1000)))
    (log.parent / f".{last}.crc").unlink(missing_ok=True)
    (folder / "out" / "_spark_metadata" / last).unlink()  # or the sink would skip a batch that it knows
    (folder / "out" / "_spark_metadata" / f".{last}.crc").unlink(missing_ok=True)


@pytest.mark.slow
def test_a_gap_in_a_backfill_is_crossed_at_once_and_a_batch_query_plays_everything(spark, tmp_path):
    parts = {side: [[(ts + dt.timedelta(days=30 * number), k, v) for ts, k, v in part] for number, part in enumerate(parts_of(side, 4))]
             for side in "lr"}  # fmt: skip
    frames = [in_batches(spark, tmp_path / side, parts[side]) for side in "lr"]
    out, seen = ran(joined(*frames, shards=2, memory=10_000, lateness="0 seconds"), tmp_path)
    exact = bag(spark_join(*(spark.createDataFrame(flat(parts[side]), SCHEMA) for side in "lr"), ["k"], 10))
    assert bag(out) == exact and sum(batch["n_ahead"] for batch in seen) == 0
    sides = [spark.createDataFrame(flat(parts_of(side, 3, {1: [FAR]})), SCHEMA) for side in "lr"]
    assert bag(joined(*sides, shards=2)) == bag(spark_join(*sides, ["k"], 10))
