"""What statistics, ghosts and names take: within `overhead`, by what is counted and by what is measured; a sketch changes no promise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from held_shards import Held, clocks_of, plan, table
from penstock.core.batch import Batch
from penstock.core.budget import Pools
from penstock.core.problem import Problem
from penstock.engine.chance_steps import LEAST_KEYS, least_room
from penstock.engine.opening import open_engine
from penstock.policies.table import POLICIES, open_policy
from penstock.shard.keys import LASTING, KeyBook, hashed
from penstock.shard.overhead import PLACE, overhead_of
from penstock.shard.shard import Shard
from penstock.shard.shard_plan import ShardPlan
from penstock.spark.reshard.reshard import divided
from penstock.statistics.bounded import Bounded
from penstock.statistics.decayed import Decayed
from penstock.statistics.returns import Returns
from penstock.statistics.table import open_running
from places import SUPPORT

SMALL = 12_000
"""Bytes of a shard: half for statistics, which are 70 keys, and half for ghosts."""


def problem(**options: Any) -> Problem:
    return Problem.of(("R", "S"), **{"window": 50, "memory": 10, "stats": "decayed"} | options)


def rows(n: int, seed: int, *, keys: int = 400, null: bool = True) -> Batch:
    """Skewed keys, one to three rows an instant, over several half-lives."""
    rng = np.random.default_rng(seed)
    key = np.minimum(rng.zipf(1.3, n), keys) * 2
    if null:
        key[rng.random(n) < 0.02] = -1
    return Batch(rng.integers(0, 2, n), np.cumsum(rng.integers(0, 3, n)), key)


# ------------------------------------------------------------------------------------------------------------ bounded counts


class Plain:
    """The slow twin of `Bounded`: dictionaries, one row after the other; half-lives that never move the origin."""

    def __init__(self, source: Bounded) -> None:
        self.source, self.exact = source, {}
        self.cells: dict[tuple[int, int, int], float] | None = None

    def cell(self, line: int, key: int) -> int:
        a, b = self.source.hashes[line].tolist()
        return (a * ((key ^ (key >> 31)) & 0x7FFFFFFF) + b) % 2147483647 % self.source.width

    def pour(self, stream: int, key: int, weight: float) -> None:
        assert self.cells is not None
        places = [(stream, line, self.cell(line, key)) for line in range(4)]
        least = min(self.cells.get(place, 0.0) for place in places) + weight
        self.cells |= {place: max(self.cells.get(place, 0.0), least) for place in places}

    def add(self, stream: int, key: int, weight: float) -> None:
        if self.cells is None and key not in self.exact and len(self.exact) == self.source.most:
            self.cells = {}
            ranked = sorted((sum(sums) for sums in self.exact.values()), reverse=True)
            bar = ranked[self.source.stay] if len(ranked) > self.source.stay else 0.0
            for gone in sorted(key for key, sums in self.exact.items() if sum(sums) <= bar):
                for side, sums in enumerate(self.exact.pop(gone)):
                    if sums:
                        self.pour(side, gone, sums)
        if self.cells is None or key in self.exact:
            self.exact.setdefault(key, [0.0, 0.0])[stream] += weight
        else:
            self.pour(stream, key, weight)

    def rate(self, stream: int, key: int) -> float:
        if self.cells is None or key in self.exact:
            return self.exact[key][stream]
        return min(self.cells.get((stream, line, self.cell(line, key)), 0.0) for line in range(4))


@given(st.integers(0, 1 << 30), st.integers(1, 400))
def test_bounded_counts_are_those_of_a_plain_twin(seed, keys):
    batch = rows(300, seed, keys=keys)
    source = Bounded(problem(half_life=1e6), room=4000)
    twin = Plain(source)
    rates, end = source.rates(batch, 0)
    assert end == len(batch)
    for time in np.unique(batch.time):
        mine = np.flatnonzero((batch.time == time) & (batch.key >= 0))
        for row in mine:
            twin.add(int(batch.stream[row]), int(batch.key[row]), 2.0 ** ((time - batch.time[0]) / 1e6))
        for row in mine:
            assert rates[row] == pytest.approx([twin.rate(stream, int(batch.key[row])) for stream in range(2)], rel=1e-11)
    assert source.is_sketch == (twin.cells is not None)
    assert source.n_bytes <= max(source.room, 7000)


def counted(source: Any, batch: Batch, cuts: list[int], *, anew: bool = False) -> list[list[float]]:
    """The rates of all rows, in these batches; with a new source for each, from the snapshot of the one before."""
    out = []
    for begin, end in zip([0, *cuts], [*cuts, len(batch)], strict=True):
        part, at = batch.cut(begin, end), 0
        while at < len(part):
            source.age(part, at)
            rates, at = source.rates(part, at)
            out += rates.tolist()
        if anew:
            again = type(source)(source.problem, source.room)
            again.restore(source.snapshot())
            source = again
    return out


@pytest.mark.parametrize("anew", (False, True), ids=("one source", "restored each time"))
def test_the_change_to_a_sketch_comes_with_the_same_row_in_any_batches(anew):
    batch = rows(1500, 1, null=False)
    between = (np.flatnonzero(np.diff(batch.time)) + 1).tolist()
    whole = counted(Bounded(problem(), 4000), batch, [])
    exact = counted(Decayed(problem()), batch, [])
    assert whole != exact and whole[:20] == exact[:20]
    for seed in range(4):
        cuts = sorted(Random(seed).sample(between, 12))
        assert counted(Bounded(problem(), 4000), batch, cuts, anew=anew) == whole


def test_an_estimate_is_never_below_the_count_and_the_heaviest_stay_exact():
    batch = rows(4000, 2, keys=3000, null=False)
    options = {"half_life": 1e5}
    bounded, decayed = Bounded(problem(**options), 20_000), Decayed(problem(**options))
    got, exact = (np.array(counted(source, batch, [])) for source in (bounded, decayed))
    assert bounded.is_sketch and bounded.n_bytes <= 20_000
    assert (got >= exact * (1 - 1e-9)).all()
    bound = np.e / bounded.width * 4000
    assert (got - exact > bound).mean() <= np.exp(-4)
    top = batch.key == 2
    assert top.sum() > 500 and (got[top] == exact[top]).all()


def test_a_smaller_room_at_a_restart_folds_the_sketch_and_a_larger_one_keeps_it():
    batch = replace(rows(3000, 3), key=np.random.default_rng(3).integers(0, 2000, 3000))
    big = Bounded(problem(half_life=1e5), 40_000)
    big.rates(batch, 0)
    exact = Decayed(problem(half_life=1e5))
    exact.rates(batch, 0)
    keys = np.unique(batch.key)
    wanted = exact.reprice(keys, np.zeros(len(keys), np.int64))
    for room in (12_000, 40_000, 500_000):
        for source in (big, exact):
            other = Bounded(problem(half_life=1e5), room)
            other.restore(source.snapshot())
            assert other.n_bytes <= max(room, 40_000 if source is big and room > 12_000 else room)
            assert other.is_sketch == (source is big or room < 500_000)
            assert (other.reprice(keys, np.zeros(len(keys), np.int64)) >= wanted * (1 - 1e-9)).all()


@pytest.mark.parametrize(
    "changed", ({"table": np.zeros((2, 3, 64))}, {"table": np.zeros((2, 4, 63))}, {"sums": np.zeros((1, 2))}, {"key": np.array([-5])})
)
def test_a_state_with_arrays_of_other_shapes_is_refused(changed):
    """Compiled code takes their sizes for granted."""
    source = Bounded(problem(half_life=1e5), 12_000)
    with pytest.raises(ps.PenstockError, match="state must have a"):
        source.restore({"key": np.empty(0, np.int64), "sums": np.empty((0, 2)), "clock": np.array([0, 0, 0])} | changed)


def test_stepwise_statistics_remember_the_newest_arrivals_that_fit():
    chosen = problem(half_life=1e5)
    source = open_running(chosen, open_policy("prob", chosen), 4000)
    engine = open_engine(chosen, open_policy("prob", chosen), source, stepwise=True)
    engine.play(rows(300, 4))
    assert 0 < source.n_bytes <= 4000 + 64 * 24


def test_stepwise_statistics_of_matches_remember_as_many_entries_as_the_compiled_ones():
    """Few values are entries with the weight of all that are like them; of many values some are drawn."""
    chosen = problem(predicate="<", half_life=1e5)
    for keys in (4, 10_000):
        source = open_running(chosen, open_policy("prob", chosen), 4000)
        open_engine(chosen, open_policy("prob", chosen), source, stepwise=True).play(rows(600, 4, keys=keys))
        entry = 5 * 8
        assert 0 < source.n_bytes <= 2 * (source.most + 1) * entry


# ------------------------------------------------------------------------------------------------------------ numbers that last


@given(st.lists(st.binary(max_size=3), min_size=1, max_size=20, unique=True), st.integers(0, 19))
def test_a_name_that_comes_back_has_its_number(names, kept):
    book = KeyBook(lasting=True)
    first = book.look_up(pa.array(names, pa.large_binary()))
    assert (first >= LASTING).all() and (first % 2 == 1).all() and len(set(first.tolist())) == len(names)
    book.prune(first[:kept])
    assert book.look_up(pa.array(names[::-1], pa.large_binary())).tolist() == first[::-1].tolist()


def test_names_with_one_hash_have_two_numbers(monkeypatch):
    from penstock.shard import keys

    monkeypatch.setattr(keys, "hashed", lambda names: np.full(len(names), LASTING + 1))
    book = KeyBook(lasting=True)
    names = pa.array([b"a", b"b", b"c"], pa.large_binary())
    numbers = book.look_up(names).tolist()
    assert numbers == [LASTING + 1, LASTING + 3, LASTING + 5]
    assert book.look_up(pa.array([b"c", b"d", b"a"], pa.large_binary())).tolist() == [LASTING + 5, LASTING + 7, LASTING + 1]


def test_names_of_an_older_state_keep_their_numbers():
    book = KeyBook(lasting=True)
    book.enter(pa.array([b"x", b"y"], pa.large_binary()), np.array([1, 3]))
    found = book.look_up(pa.array([b"y", b"z", b"x"], pa.large_binary())).tolist()
    assert found == [3, int(hashed(pa.array([b"z"], pa.large_binary()))[0]), 1]


# ------------------------------------------------------------------------------------------------------------ a shard


def zipf_tables(number: int, *, n: int = 50, keys: int = 3000) -> list[pa.Table]:
    rng = np.random.default_rng(number)
    times = [np.sort(number * 25 + rng.integers(0, 25, n)) for _ in "lr"]
    return [
        table(side, [(int(t), f"key-{k}") for t, k in zip(time, np.minimum(rng.zipf(1.25, n), keys), strict=True)])
        for side, time in zip("lr", times, strict=True)
    ]


def bounded(**more: Any) -> ShardPlan:
    return replace(plan(60, "prob"), options={"window": 100, "memory": 60, "policy": "prob", "stats": "decayed"}, overhead=SMALL, **more)


def told(counts: dict[str, float]) -> dict[str, float]:
    """What does not depend on how large arrays were made."""
    return {name: value for name, value in counts.items() if not name.startswith("overhead_") and name != "retained_bytes"}


@pytest.mark.parametrize("nearby", (False, True), ids=("from the state", "from a local copy"))
def test_a_shard_with_a_sketch_is_the_same_over_restarts(tmp_path, nearby):
    held, whole, sketched = Held(), Shard(bounded()), []
    for number in range(14):
        batch = zipf_tables(number)
        _, result = held.play(bounded(), batch, tmp_path if nearby else None)
        other = whole.play(batch, clocks_of(batch))
        pairs = [Counter(tuple(row.values()) for row in pa.concat_tables(one.joined).to_pylist()) for one in (result, other)]
        assert pairs[0] == pairs[1]
        assert told(result.counts) == told(other.counts)
        sketched.append(result.counts["overhead_sketched"])
    assert sketched[0] == 0 and sketched[-1] == 1
    assert result.counts["overhead_statistics"] <= SMALL // 2
    assert whole.meter.shadow is not None and result.counts["estimated"] == 1
    assert whole.meter.shadow.totals.retained - 60 <= SMALL // 2 // 256
    assert result.counts["overhead_index"] >= whole.book.n_bytes > 0


def test_overhead_may_change_at_a_restart_and_a_state_without_it_goes_on():
    held, plans = Held(), [replace(bounded(), overhead=None), bounded(), replace(bounded(), overhead=10 * SMALL)]
    seen = []
    for number in range(12):
        _, result = held.play(plans[number // 4], zipf_tables(number), None)
        if number == 3:  # as a release wrote it that did not know of it
            found = json.loads(held.head[1])
            del found["free"]["overhead"]
            held.head = (held.head[0], json.dumps(found), *held.head[2:])
        seen.append((result.counts["overhead_sketched"], result.counts["estimated"]))
    assert seen[3] == (0, 0) and seen[4][0] == 1 and seen[7] == (1, 1) and seen[-1][0] == 1
    assert result.counts["total_n_input"] == 12 * 100


@pytest.mark.parametrize("after", (1, 3))
def test_shards_with_sketches_can_be_divided_anew(after):
    before, place = 2, lambda columns, of: np.array([sum(map(ord, key)) % of for key in columns[0].to_pylist()], dtype=np.int64)
    shards = [Shard(replace(bounded(), shards=(0, 1)), number) for number in range(before)]

    def play(shards: list[Shard], number: int) -> Counter[Any]:
        made: Counter[Any] = Counter()
        batch = zipf_tables(number)
        for at, shard in enumerate(shards):
            mine = [one.filter(pa.array(place([one["key0"]], len(shards)) == at)) for one in batch]
            result = shard.play(mine, clocks_of(batch))
            made["output"] += sum(piece.num_rows for piece in result.joined)
        return made

    for number in range(10):
        play(shards, number)
    assert all(shard.engine.statistics.is_sketch for shard in shards)
    new = divided(shards, replace(bounded(), shards=tuple(range(after))), lambda columns: place(columns, after))
    keys = np.unique(np.concatenate([shard.engine.keys() for shard in shards]))
    for shard in new:
        statistics = shard.engine.statistics
        assert isinstance(statistics, Bounded) and statistics.is_sketch and statistics.n_bytes <= SMALL // 2
        none = np.zeros(len(keys))
        counts = [one.engine.statistics.reprice(keys, none.astype(np.int64)) for one in (*shards, shard)]
        assert (counts[-1] >= np.maximum(*counts[:-1]) * (1 - 1e-9)).all()
    assert all(play(new, number)["output"] >= 0 for number in (10, 11))


def test_a_sketch_keeps_nearly_what_exact_counts_keep():
    """Zipf keys, a tenth of them with room: what the shard makes in its whole life, of all that the run with exact ghosts knows of."""
    made, exact = {}, 0.0
    for overhead in (None, 30_000):
        shard = Shard(replace(bounded(), overhead=overhead))
        for number in range(20):
            batch = zipf_tables(number, n=200, keys=100_000)
            counts = shard.play(batch, clocks_of(batch)).counts
        made[overhead] = counts["total_n_output"]
        exact = counts["total_n_output"] + counts["total_lost"] if overhead is None else exact
    assert shard.engine.statistics.is_sketch and 0.1 < made[None] / exact < 0.95
    assert made[30_000] > 0.97 * made[None]


def shard_in_bytes(names: str, kilobytes: int, policy: str, *, weighed: bool = False, overhead: str | None = None) -> Shard:
    """A shard of streams with texts for keys, alone in a memory of so many kilobytes."""
    columns = tuple((f"{name}_v",) for name in names)
    schema = pa.schema([("k", pa.string()), *((column, pa.int64()) for (column,) in columns)])
    options = {"window": 5000, "memory": f"{kilobytes} KB", "policy": policy, "stats": "decayed", "alpha": 5000}
    room = overhead_of(overhead, Pools.parse(options["memory"], tuple(names)), 1)
    own = ShardPlan(tuple(names), 1, columns, options, schema, ("time",) * len(names), has_importance=weighed, overhead=room)
    return Shard(own)


def most_of_its_life(shard: Shard, kilobytes: int) -> float:
    """The bytes that it takes at most after a batch, while keys that come once fill its memory five times."""
    most = 0.0
    for number in range(kilobytes // 20):
        batch = [table(side, [(number * 100 + at // 5, f"{side}-{number}-{at}") for at in range(100)]) for side in shard.plan.streams]
        if shard.plan.has_importance:
            batch = [one.append_column("importance", pa.array(1.0 + np.arange(100) % 7)) for one in batch]
        counts = shard.play(batch, clocks_of(batch)).counts
        parts = [counts[f"overhead_{part}"] for part in ("statistics", "ghosts", "index")]
        most = max(most, shard.payload.n_bytes + sum(parts))
    assert counts["total_n_shed"] > counts["retained_rows"]
    return most


@pytest.mark.parametrize(("kilobytes", "policy"), [(400, "auto"), (400, "prob"), (1500, "auto"), (1500, "prob"), (1500, "learned")])
def test_a_memory_in_bytes_covers_all_of_it(kilobytes, policy):
    shard = shard_in_bytes("lr", kilobytes, policy)
    assert shard.chosen == ("prob" if kilobytes == 400 and policy == "auto" else "learned" if policy == "auto" else policy)
    assert most_of_its_life(shard, kilobytes) <= kilobytes * 1000
    assert shard.engine.statistics.is_sketch == (shard.chosen == "prob")
    assert shard.engine.totals.retained * PLACE > kilobytes * 250


@pytest.mark.slow
@pytest.mark.jit_only
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("names", ("lr", "abcd"))
def test_a_memory_in_bytes_covers_every_policy(names, policy):
    shard = shard_in_bytes(names, 4000, policy, weighed=True)
    if shard.engine.is_compiled:
        assert most_of_its_life(shard, 2000) <= 4_000_000


def test_learned_is_refused_where_it_has_no_room_and_auto_takes_another():
    with pytest.raises(ps.PenstockError, match=r"policy 'learned' needs 128,832 bytes of each shard .* got room for 50,000"):
        shard_in_bytes("lr", 400, "learned")
    assert shard_in_bytes("lr", 1100, "auto").chosen == shard_in_bytes("abcd", 4000, "auto").chosen == "learned"
    assert shard_in_bytes("lr", 1000, "auto").chosen == shard_in_bytes("abcd", 3000, "auto").chosen == "prob"
    assert shard_in_bytes("abcd", 3000, "auto", overhead="1500 KB").chosen == "learned"
    beside_rows = replace(bounded(), options=bounded().options | {"policy": "auto"})
    assert [Shard(replace(beside_rows, overhead=overhead)).chosen for overhead in (64_000, 300_000)] == ["prob", "learned"]


def test_what_is_learned_stays_in_its_room_also_when_that_shrinks():
    batch = replace(rows(6000, 5), key=np.random.default_rng(5).integers(0, 5000, 6000))
    own = problem(half_life=1e6)
    large, least = Returns(own, 10_000_000), least_room(own)
    counted(large, batch, [])
    for room in (least, least + 50_000):
        small = Returns(own, room)
        counted(small, batch, [])
        assert small.filled >= LEAST_KEYS // 2 and small.n_bytes <= room
        other = Returns(own, room)
        other.restore(large.snapshot())
        assert 0 < other.filled <= other.most < large.filled and other.n_bytes <= room
        kept = large.facts[np.isin(large.known, other.known) & (large.known >= 0), :2].max(axis=1)
        assert kept.min() >= np.median(large.facts[large.known >= 0, :2].max(axis=1))


def test_overhead_is_a_size():
    for wrong in (256, "256", "much", -1, "0 MB", True):
        with pytest.raises(ps.PenstockError, match='overhead must be a size such as "256 MB", got '):
            overhead_of(wrong, Pools.parse(100, ("l", "r")), 1)


def test_overhead_has_room_for_the_least_statistics_and_ghosts():
    rows, size = (Pools.parse(memory, ("l", "r"), allocation="variable") for memory in (100, "20 KB"))
    for wrong in ("1 B", "255 KB"):
        with pytest.raises(ps.PenstockError, match=rf"overhead must be at least 64 KB for each shard \(256000 bytes\), got '{wrong}'"):
            overhead_of(wrong, rows, 4)
    assert overhead_of("256 KB", rows, 4) == 64_000
    assert overhead_of("1 KB", size, 4) == 250  # a part of a memory that is small itself


# ------------------------------------------------------------------------------------------------------------ what a worker takes


def worker(kind: str, keys: int, overhead: int, policy: str, folder: Path) -> dict[str, Any]:
    """What a process takes that plays so many keys, each of which comes once."""
    job = [str(SUPPORT / "overhead_job.py"), kind, str(keys), str(overhead), policy, str(folder)]
    found = subprocess.run([sys.executable, *job], capture_output=True, text=True, env=os.environ, check=False)
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


@pytest.mark.slow
@pytest.mark.jit_only
@pytest.mark.parametrize(
    ("kind", "key", "policy", "place", "millions"),
    (("whole", 0, "prob", 256, 3), ("text", 17, "prob", 256, 3), ("text", 17, "learned", 376, 10)),
)
def test_millions_of_keys_take_what_the_docs_say(tmp_path, kind, key, policy, place, millions):
    """docs/spark.md, the memory of a worker: base + payload + tuples x (place + key) + 1.5 x overhead + batch x (350 + 3 x row)."""
    overhead, keys = 25_600_000 * millions, 1_000_000 * millions
    found = worker(kind, keys, overhead, policy, tmp_path)
    row = 32 + key
    bound = 2 * 100_000 * row + 100_000 * (place + key) + overhead * 3 // 2 + 200_000 * (350 + 3 * row)
    assert found["peak"] <= found["base"] + bound
    assert found["counts"]["overhead_sketched"] == (policy == "prob") and found["counts"]["total_n_input"] == keys
    for counts in found["seen"]:
        assert counts["overhead_statistics"] <= overhead // 2
        assert counts["overhead_ghosts"] + counts["overhead_index"] <= overhead // 2 + 300_000 * (place + key)
