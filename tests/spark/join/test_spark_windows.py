"""Windows of every kind on Spark: the exact join in ample memory, the simulator's in a small one, and what it owes is settled."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random
from typing import Any

import pytest

import penstock as ps

pytest.importorskip("pyspark")

from sparks import ON_SPARK, START, VERSION, add_batches, at, bag_of_members, in_batches, ran
from strategies import later
from windows import KINDS, SECOND, Kind, exact

pytestmark = ON_SPARK
SCHEMA = "ts timestamp, k string, v string"
OFTEN = ("tumbling and time", "lifetimes and time")
EACH = [name if name in OFTEN else later(name) for name in KINDS]


def arrived(tag: str, n: int, *, late: float = 0.0) -> list[tuple[int, str, str]]:
    """Rows (time, key, value) by the time of their arrival; of these so many come far too late."""
    random = Random(tag)
    seconds = sorted(random.randrange(90) for _ in range(n))
    times = [max(0, second - random.randrange(30)) if random.random() < late else second for second in seconds]
    return [(time, random.choice("aabcdef"), f"{tag}{number}") for number, time in enumerate(times)]


def as_rows(part: list[tuple[int, str, str]]) -> list[tuple[Any, ...]]:
    return [(at(time), *rest) for time, *rest in part]


def query(frames: dict[str, Any], kinds: tuple[Kind, ...], **options: Any) -> Any:
    late = options.pop("lateness", "0 seconds")
    sides = {
        name: ps.stream(frame, time="ts", order="v", lateness=late, **kind.stream)
        for (name, frame), kind in zip(frames.items(), kinds, strict=True)
    }
    return ps.join(sides, on="k", **{"half_life": "20 seconds"} | options)


@pytest.mark.parametrize("name", EACH)
def test_a_small_memory_keeps_what_the_simulator_keeps_and_an_ample_one_everything(spark, tmp_path, name):
    kinds, random = KINDS[name], Random(name)
    streams = {side: arrived(side, 100) for side in "lr"}
    cuts = [0, *sorted(random.sample(range(10, 90), 2)), 90]
    frames = {
        side: in_batches(spark, tmp_path / side, [as_rows([row for row in rows if a <= row[0] < b]) for a, b in pairwise(cuts)])
        for side, rows in streams.items()
    }
    order = sorted((time, side, value, key) for side, rows in streams.items() for time, key, value in rows)
    start = int(START.timestamp())
    columns = {"stream": [s for _, s, *_ in order], "time": [(start + t) * SECOND for t, *_ in order], "key": [k for *_, k in order]}
    if any(kind.simulated is None for kind in kinds):
        ends = [kinds["lr".index(s)].end(t, value) for t, s, value, _ in order]
        columns["lifetime"] = [(end - t) * SECOND for end, (t, *_) in zip(ends, order, strict=True)]
    simulated = {side: shifted(kind.simulated, start) for side, kind in zip("lr", kinds, strict=True)}
    run = ps.simulate(
        ps.Trace(columns, streams=("l", "r")), window=simulated, memory=14, policy="prob", half_life=20 * SECOND, clock="streams",
        stats="decayed", keep=ps.Keep(outputs=True),
    )  # fmt: skip
    out, seen = ran(query(frames, kinds, memory=14, policy="prob", shards=1), tmp_path)
    wanted = Counter((order[left][2], order[right][2]) for _, left, right in run.outputs.tolist())
    assert bag_of_members(out) == wanted and seen[-1]["total_n_shed"] == run.n_shed > 0
    everything, _ = ran(query(frames, kinds, memory=1000, shards=2), tmp_path / "ample")
    assert bag_of_members(everything) == exact(kinds, streams.values()) != wanted
    assert seen[-1]["total_lost"] == sum((exact(kinds, streams.values()) - wanted).values())


def shifted(window: Any, start: int) -> Any:
    """A window of the simulator whose moments count from the start of all rows, in the time of Spark."""
    if isinstance(window, str) and window.startswith("landmark:"):
        return f"landmark:{int(window.partition(':')[2]) + start * SECOND}"
    return [(at + start * SECOND, length) for at, length in window] if isinstance(window, list) else window


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_emitted_and_settled_are_everything_over_a_restart_and_another_number_of_shards(spark, tmp_path, name):
    """With rows that come too late, and less memory after the restart."""
    kinds = KINDS[name]
    streams = {side: arrived(side, 160, late=0.15) for side in "lr"}
    parts = {side: [as_rows(rows[begin : begin + 40]) for begin in range(0, 160, 40)] for side, rows in streams.items()}
    archive, checkpoint, to = (str(tmp_path / name) for name in ("ledger", "checkpoint", "settled"))
    frames = {side: in_batches(spark, tmp_path / side, parts[side][:2]) for side in "lr"}
    options = {"policy": "prob", "archive": archive, "lateness": "1 second"}
    ran(query(frames, kinds, memory=40, shards=2, **options), tmp_path)
    first = bag_of_members(ps.settle(archive, checkpoint=checkpoint, to=to, spark=spark))
    shards = 2
    if VERSION >= (4, 2):
        shards = 3
        from penstock.spark.reshard.reshard import reshard

        reshard(spark, checkpoint, shards)
    for side in "lr":
        add_batches(spark, tmp_path / side, parts[side][2:])
    out, seen = ran(query(frames, kinds, memory=21, shards=shards, **options), tmp_path)
    rest = bag_of_members(ps.settle(archive, checkpoint=checkpoint, to=to, spark=spark))
    assert bag_of_members(out) + first + rest == exact(kinds, streams.values())
    assert seen[-1]["total_lost_is_exact"] and seen[-1]["total_lost"] == sum((first + rest).values())
    assert sum(first.values()) > 0 and sum(rest.values()) > 0 and seen[-1]["total_n_late"] > 0


def test_given_rates_say_who_stays_as_in_the_simulator(spark, tmp_path):
    """Also after a restart, which may not have other rates."""
    kinds = KINDS["tumbling and time"]
    known = {"l": (3, 1, 4, 1, 5, 9), "r": (2, 7, 1, 8, 2, 8)}
    rates = {(side, key): float(rate) for side, own in known.items() for key, rate in zip("abcdef", own, strict=True)}
    streams = {side: arrived(side, 120) for side in "lr"}
    parts = {side: [as_rows([row for row in rows if a <= row[0] < a + 45]) for a in (0, 45)] for side, rows in streams.items()}
    frames = {side: in_batches(spark, tmp_path / side, parts[side][:1]) for side in "lr"}
    options = {"memory": 14, "policy": "prob", "stats": "given", "half_life": None, "shards": 1}
    ran(query(frames, kinds, given=rates, **options), tmp_path)
    for side in "lr":
        add_batches(spark, tmp_path / side, parts[side][1:])
    with pytest.raises(Exception, match=r"given was 6 keys, .* now it is 6 keys, "):
        ran(query(frames, kinds, given=rates | {("l", "a"): 2.0}, **options), tmp_path)
    out, seen = ran(query(frames, kinds, given=rates, **options), tmp_path)
    order = sorted((time, side, value, key) for side, rows in streams.items() for time, key, value in rows)
    columns = {"stream": [s for _, s, *_ in order], "time": [t * SECOND for t, *_ in order], "key": [k for *_, k in order]}
    run = ps.simulate(
        ps.Trace(columns, streams=("l", "r")), window={side: kind.simulated for side, kind in zip("lr", kinds, strict=True)}, memory=14,
        policy="prob", stats="given", given=rates, clock="streams", keep=ps.Keep(outputs=True),
    )  # fmt: skip
    assert bag_of_members(out) == Counter((order[left][2], order[right][2]) for _, left, right in run.outputs.tolist())
    assert seen[-1]["total_n_shed"] == run.n_shed > 0
    with pytest.raises(ps.PenstockError, match="given must be a table of rates exactly when stats is 'given', got stats 'decayed'"):
        query(frames, kinds, memory=14, given=rates)
