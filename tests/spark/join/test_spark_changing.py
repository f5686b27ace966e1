"""Joins through a relation that changes while the query runs: batches see versions of its history, and see the same when played again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps

pytest.importorskip("pyspark")
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from penstock.ledger.ledger import find
from penstock.ledger.pruning import prune
from penstock.ledger.verify import verify
from penstock.relation.history import History
from penstock.relation.record import record
from penstock.spark.reshard.reshard import reshard
from settled import no_state
from sparks import ON_SPARK, add_batches, at, in_batches

pytestmark = ON_SPARK

BATCHES, SECONDS = 4, 10
LINKS = ["l.k = a", "b = r.k"]


def parts(tag: str, n: int = 30) -> list[list[tuple[Any, ...]]]:
    """The rows of each batch; those of batch b have times from 10 b seconds on, for 10 seconds."""
    random = Random(tag)
    return [
        [(at(batch * SECONDS + random.randrange(SECONDS)), random.choice("abcd"), f"{tag}{batch}-{row}") for row in range(n)]
        for batch in range(BATCHES)
    ]


def tables(n: int = 7) -> list[pa.Table]:
    """What the relation is before each batch: facts come and go, and values appear that were not there before."""
    random = Random("facts")
    keys = [(a, b) for a in "abcd" for b in "abcd"]
    found = [sorted(random.sample(keys[: 6 + 4 * batch], min(n, 6))) for batch in range(BATCHES)]
    return [pa.table({"a": [a for a, _ in own], "b": [b for _, b in own], "c": [f"{a}{b}" for a, b in own]}) for own in found]


def gathered(every: list[pa.Table]) -> list[pa.Table]:
    """The same, where facts only come."""
    return [pa.concat_tables(every[: number + 1]).group_by(["a", "b", "c"]).aggregate([]) for number in range(len(every))]


def sides(spark: Any, folder: Path, lateness: str = "1 minute") -> dict[str, Any]:
    streams = {tag: in_batches(spark, folder / tag, parts(tag)) for tag in "lr"}
    return {name: ps.stream(frame, time="ts", window="12 seconds", lateness=lateness) for name, frame in streams.items()}


def through(folder: Path) -> Any:
    return ps.relation(f"history:{folder / 'pairs'}", LINKS, columns=["c"], name="f")


def recorded(folder: Path, batch: int, late: float = 0) -> None:
    """The version that is there before a batch, whose changes happened so many seconds before it."""
    record(tables()[batch], folder / "pairs", keys=["a", "b"], columns=["c"], time=at(batch * SECONDS - late))


def ran(joined: DataFrame, folder: Path, after: Callable[[int], None]) -> list[dict[str, Any]]:
    """The query to its end, each batch in a folder of its own; `after` is called at the end of each."""

    def keep(frame: DataFrame, batch: int) -> None:
        frame.write.mode("overwrite").parquet(str(folder / "out" / f"{batch}"))
        after(batch)

    query = joined.writeStream.foreachBatch(keep).option("checkpointLocation", str(folder / "checkpoint"))
    query = query.trigger(availableNow=True).start()
    query.awaitTermination()
    return [p.observedMetrics["penstock"].asDict() for p in query.recentProgress if "penstock" in p.observedMetrics and p.numInputRows]


def emitted(spark: Any, folder: Path) -> Counter[tuple[Any, ...]]:
    frame = spark.read.parquet(*(str(one) for one in (folder / "out").iterdir()))
    return Counter(tuple(row) for row in frame.select("l_v", "r_v", "f_c").collect())


def exact(folder: Path, more: Callable[[str], list[Any]] = lambda tag: []) -> Counter[tuple[Any, ...]]:
    """By the definition, for the history as it is now."""
    facts = History(folder / "pairs").facts().to_pylist()
    left, right = ([row for part in [*parts(tag), more(tag)] for row in part] for tag in "lr")
    return Counter(
        (lv, rv, f["c"])
        for lt, lk, lv in left
        for rt, rk, rv in right
        if abs((lt - rt).total_seconds()) < 12
        for f in facts
        if (f["a"], f["b"]) == (lk, rk)
        and all((f["begin"] is None or f["begin"] <= t) and (f["end"] is None or t < f["end"]) for t in (lt, rt))
    )


def test_what_changes_on_time_is_seen_and_nothing_waits(spark, tmp_path):
    recorded(tmp_path, 0)
    joined = ps.join(sides(spark, tmp_path), through=through(tmp_path), memory=10_000, shards=2)
    seen = ran(joined, tmp_path, lambda batch: recorded(tmp_path, batch + 1) if batch < 2 else None)
    assert len(seen) == BATCHES  # the last one has no news of the relation
    assert History(tmp_path / "pairs").latest() == 3 and seen[-1]["total_n_late_facts"] == 0 and seen[-1]["lost_is_exact"]
    assert emitted(spark, tmp_path) == exact(tmp_path) and len(exact(tmp_path)) > 200
    assert seen[-1]["total_n_filtered"] > seen[-1]["n_filtered"] > 0


@pytest.mark.parametrize("ends", [pytest.param(False, marks=pytest.mark.slow), True])
def test_what_facts_that_become_known_late_would_have_made_is_repaid(ends, spark, tmp_path):
    every = tables() if ends else gathered(tables())

    def grow(batch: int) -> None:
        record(every[batch], tmp_path / "pairs", keys=["a", "b"], columns=["c"], time=at(batch * SECONDS - 8 * (batch > 0)))

    grow(0)
    archive, checkpoint, to = (str(tmp_path / name) for name in ("ledger", "checkpoint", "settled"))
    joined = ps.join(sides(spark, tmp_path), through=through(tmp_path), memory=40, shards=2, archive=archive)
    seen = ran(joined, tmp_path, lambda batch: grow(batch + 1) if batch + 1 < BATCHES else None)
    assert seen[-1]["total_n_late_facts"] >= 5 and seen[-1]["total_n_shed"] > 20 and seen[-1]["total_n_filtered"] > 20
    kept, truth = emitted(spark, tmp_path), exact(tmp_path)
    assert (truth - kept).total() > 100

    names = ["l_v", "r_v", "f_c"]
    whole = Counter(tuple(row) for row in ps.settle(archive, checkpoint=checkpoint).select(names).collect())
    assert whole == truth - kept and set(whole.values()) == {1}
    parts: Counter[tuple[Any, ...]] = Counter()
    for last in range(BATCHES):  # each settlement knows what its batches knew
        parts += Counter(tuple(row) for row in ps.settle(archive, checkpoint=checkpoint, to=to, through=last).select(names).collect())
    assert not whole - parts and set(parts.values()) == {1} and not parts & kept
    assert (parts == whole) is not ends  # a fact may end after a settlement that it was in
    assert ps.debt(archive, checkpoint=checkpoint) == 0
    assert verify(find(archive), checkpoint, no_state).wrong == []
    (page,) = (tmp_path / "ledger").glob("*/facts/*-000000002-*.parquet")
    page.write_bytes(page.read_bytes()[:-1])
    damaged = f"{page.name}, the facts of relation f, is damaged"
    with pytest.raises(ps.PenstockError, match=damaged):
        ps.debt(archive, checkpoint=checkpoint, since=-1)
    assert [damaged in text for text in verify(find(archive), checkpoint, no_state).wrong] == [True]


@pytest.mark.slow
@pytest.mark.parametrize("shards", [1, 3])
def test_what_is_repaid_has_its_value_and_meets_the_condition(shards, spark, tmp_path):
    """Of three streams a relation that goes on links two, and one that stands still the third; or one links two, with weights."""
    names = "lmr" if shards == 1 else "lr"
    last = names[-1]
    frames = {tag: in_batches(spark, tmp_path / tag, parts(tag, 12 if shards == 1 else 30)) for tag in names}
    weigh = F.expr("1.0 + length(v)")
    streams = {
        name: ps.stream(frame.withColumn("w", weigh), time="ts", window="12 seconds", lateness="1 minute", importance="w")
        for name, frame in frames.items()
    }
    second = names[1]
    links = ["l.k = a", f"b = {second}.k"]
    pairs = [ps.relation(f"history:{tmp_path / 'pairs'}", links, columns=["c"], weight="x", name="f")]
    still = [("a", "d"), ("b", "c"), ("c", "a"), ("d", "d")]
    if shards == 1:
        pairs.append(ps.relation({"a": [a for a, _ in still], "b": [b for _, b in still]}, ["m.k = a", "b = r.k"], name="g"))

    def grow(batch: int) -> None:
        known = gathered(tables())[batch]
        old = {row["c"]: row["x"] for row in History(tmp_path / "pairs").facts().to_pylist()} if batch else {}
        weights = [old.get(c, 2.0 + number) for number, c in enumerate(known["c"].to_pylist())]  # which never change
        known = known.append_column("x", pa.array(weights))
        record(known, tmp_path / "pairs", keys=["a", "b"], columns=["c", "x"], time=at(max(0, batch * SECONDS - 9)))

    grow(0)
    how = {"memory": 30, "condition": f"l_v < {last}_v or l_k = 'a'", "shards": shards}
    archive, checkpoint = str(tmp_path / "ledger"), str(tmp_path / "checkpoint")
    joined = ps.join(streams, through=pairs, archive=archive, objective="sum", **how)
    seen = ran(joined, tmp_path, lambda batch: grow(batch + 1) if batch + 1 < BATCHES else None)
    assert seen[-1]["total_n_late_facts"] > 0
    columns = [*(f"{name}_v" for name in names), "f_c", "value"]
    made = Counter(tuple(row) for row in spark.read.parquet(str(tmp_path / "out" / "*")).select(columns).collect())
    owed = Counter(tuple(row) for row in ps.settle(archive, checkpoint=checkpoint).select(columns).collect())
    facts = History(tmp_path / "pairs").facts().to_pylist()
    sides = {name: [row for part in parts(name, 12 if shards == 1 else 30) for row in part] for name in names}
    wanted: Counter[tuple[Any, ...]] = Counter()
    for members in product(*sides.values()):
        times, keys, texts = zip(*members, strict=True)
        near = (max(times) - min(times)).total_seconds() < 12
        if near and (len(names) == 2 or (keys[1], keys[2]) in still) and (texts[0] < texts[-1] or keys[0] == "a"):
            for f in facts:
                if (f["a"], f["b"]) == keys[:2] and (f["begin"] is None or f["begin"] <= min(times[:2])):
                    wanted[*texts, f["c"], sum(1.0 + len(text) for text in texts) * f["x"]] += 1
    assert made + owed == wanted and min(made.total(), owed.total()) > 50


@pytest.mark.slow
def test_a_fact_that_keeps_its_promise_is_settled_after_what_nothing_links_any_more_was_pruned(spark, tmp_path):
    late = pa.table({"a": list("aabbccdd"), "b": list("cdcdcdcd"), "c": ["ac", "ad", "bc", "bd", "cc", "cd", "dc", "dd"]})
    grown = gathered([*tables(), late])

    def grow(batch: int) -> None:
        record(grown[batch], tmp_path / "pairs", keys=["a", "b"], columns=["c"], time=at(max(0, batch * SECONDS - 8)))

    def more(tag: str) -> list[Any]:
        random = Random(f"more {tag}")
        return [(at(BATCHES * SECONDS + random.randrange(SECONDS)), random.choice("abcd"), f"{tag}more-{row}") for row in range(30)]

    grow(0)
    streams = sides(spark, tmp_path, "1 second")
    archive, checkpoint, to = (str(tmp_path / name) for name in ("ledger", "checkpoint", "settled"))
    pairs = ps.relation(f"history:{tmp_path / 'pairs'}", LINKS, columns=["c"], name="f", lateness="12 seconds")
    names, owed = ["l_v", "r_v", "f_c"], Counter[tuple[Any, ...]]()
    for life in range(2):
        joined = ps.join(streams, through=pairs, memory=40, shards=2, archive=archive)
        seen = ran(joined, tmp_path, lambda batch: grow(batch + 1) if batch + 1 < BATCHES else None)
        owed += Counter(tuple(row) for row in ps.settle(archive, checkpoint=checkpoint, to=to).select(names).collect())
        if life == 0:
            pages = find(archive)
            with pytest.raises(ps.PenstockError, match="may still match those of batch 2, or facts link them"):
                prune(pages, BATCHES - 1)
            assert prune(pages).last == 1
            grow(BATCHES)
            for tag in "lr":
                add_batches(spark, tmp_path / tag, [more(tag)])
    assert seen[-1]["n_late_facts"] > 0 and verify(find(archive), checkpoint, no_state).wrong == []
    assert emitted(spark, tmp_path) + owed == exact(tmp_path, more)


@pytest.mark.slow
def test_in_a_chain_a_late_fact_reaches_a_window_back(spark, tmp_path):
    """The new fact links l and m from 20 on; r came at 12, before it, and is linked to m by the other relation."""
    rows = {
        "l": [[(at(1), "z", "l0")], [(at(20), "a", "l1")], [(at(60), "z", "l2")]],
        "m": [[(at(1), "z", "m0")], [(at(21), "b", "m1")], [(at(60), "z", "m2")]],
        "r": [[(at(12), "c", "r0")], [(at(21), "z", "r1")], [(at(60), "z", "r2")]],
    }
    streams = {name: ps.stream(in_batches(spark, tmp_path / name, own), time="ts", window="12 seconds") for name, own in rows.items()}
    for name, key in (("f", "q"), ("g", "b")):
        record(pa.table({"a": [key], "b": ["q" if name == "f" else "c"]}), tmp_path / name, keys=["a", "b"], time=at(0))
    links = {"f": ["l.k = a", "b = m.k"], "g": ["m.k = a", "b = r.k"]}
    through = [ps.relation(f"history:{tmp_path / name}", own, name=name, lateness="12 seconds") for name, own in links.items()]

    def after(batch: int) -> None:
        if batch == 1:
            record(pa.table({"a": ["q", "a"], "b": ["q", "b"]}), tmp_path / "f", keys=["a", "b"], time=at(20))

    archive, checkpoint, to = (str(tmp_path / name) for name in ("ledger", "checkpoint", "settled"))
    ran(ps.join(streams, through=through, memory=100, archive=archive), tmp_path, after)
    assert ps.settle(archive, checkpoint=checkpoint, to=to, through=1).count() == 0
    with pytest.raises(ps.PenstockError, match="may still match those of batch 0, or facts link them"):
        prune(find(archive), 1)
    owed = ps.settle(archive, checkpoint=checkpoint, to=to).select("l_v", "m_v", "r_v").collect()
    assert [tuple(row) for row in owed] == [("l1", "m1", "r0")] and ps.debt(archive, checkpoint=checkpoint) == 0
    with pytest.raises(ps.PenstockError, match="the state of a join through relations cannot be divided anew"):
        reshard(spark, checkpoint, 3)
