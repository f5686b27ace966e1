"""Shards whose relation changes between batches, without Spark: they make what their versions say, from whatever state they go on."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from held_shards import Held
from penstock.core.facts import Through
from penstock.relation.record import record
from penstock.shard.cells import SHARD, UNKNOWN
from penstock.shard.facts.followed import Followed
from penstock.shard.facts.routing import Routing
from penstock.shard.facts.sent import SentFacts
from penstock.shard.shard_plan import ShardPlan
from penstock.shard.state import state_rows

BATCHES, SECONDS, SECOND, WINDOW = 6, 10, 1_000_000, 12
LINKS = ["l.k = a", "b = r.k"]


@dataclass(frozen=True)
class Fact:
    """From batch `known` on it is known that it began, and from `known_end` on that it has ended."""

    number: int
    a: str
    b: str
    begin: int
    end: int | None
    known: int
    known_end: int

    def active(self, time: int) -> bool:
        return self.begin <= time and (self.end is None or time < self.end)


@dataclass(frozen=True)
class Row:
    number: int
    stream: int
    time: int  # in seconds
    k: str
    batch: int


@dataclass
class Life:
    """A relation that changes, rows of two streams, and a folder for both."""

    random: Random
    folder: Path
    shards: int
    late: bool
    memory: int = 10_000
    rows: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        for batch in range(BATCHES):
            for _ in range(24):
                late = self.random.randrange(15) if self.late and self.random.random() < 0.2 else 0
                time = max(0, batch * SECONDS + self.random.randrange(SECONDS) - late)
                self.rows.append(Row(len(self.rows), self.random.randrange(2), time, self.random.choice("pqrst"), batch))

    @cached_property
    def facts(self) -> list[Fact]:
        """Numbered as they become known; those of the first batch begin with the time."""
        found = [(0, self._fact(0)) for _ in range(5)]
        found += [(batch, self._fact(batch)) for batch in range(1, BATCHES) for _ in range(3)]
        return [Fact(number, *own) for number, (_, own) in enumerate(found)]

    def _fact(self, batch: int) -> tuple[Any, ...]:
        random, early = self.random, self.late and self.random.random() < 0.6
        begin = 0 if batch == 0 else max(0, batch * SECONDS + random.randrange(5) - early * random.randrange(25))
        if random.random() < 0.4:
            return random.choice("pqrst"), random.choice("pqrst"), begin, None, batch, BATCHES
        known_end = random.randrange(batch, BATCHES)
        late = self.late and random.random() < 0.5
        end = max(begin, known_end * SECONDS + random.randrange(5) - late * random.randrange(12))
        return random.choice("pqrst"), random.choice("pqrst"), begin, end, batch, known_end

    @cached_property
    def plan(self) -> ShardPlan:
        relation = ps.relation(f"history:{self.folder / 'h'}", LINKS, columns=["c"], id="id", name="f")
        self.grow(0)
        one = Through.parse("f", LINKS, "lr")
        kinds = (pa.string(), pa.string())
        sent = SentFacts.of([one], [Followed(str(self.folder / "h"), relation, one, kinds, (("f_c", pa.string()),), 1)])
        names = [("l_v", pa.int64()), ("r_v", pa.int64()), ("f_c", pa.string())]
        options = {"window": WINDOW * SECOND, "lateness": 60 * SECOND, "memory": self.memory, "policy": "fifo", "stats": "decayed"}
        return ShardPlan(
            ("l", "r"), 0, (("l_v",), ("r_v",)), options, pa.schema(names), ("time", "time"), shards=tuple(range(self.shards)),
            sent=(("key0",), ("key1",)), through=sent, route="facts",
        )  # fmt: skip

    def grow(self, batch: int) -> None:
        """What becomes known before a batch."""
        lines = []
        for one in self.facts:
            told = {"id": one.number, "a": one.a, "b": one.b, "c": f"c{one.number}"}
            lines += [(one.begin, 0, {"op": "insert"} | told)] * (one.known == batch)
            lines += [(one.end, 1, {"op": "delete"} | told)] * (one.end is not None and one.known_end == batch)
        feed = self.folder / "feed.jsonl"
        with feed.open("a") as file:
            for time, _, line in sorted(lines, key=lambda line: (line[2]["id"], line[1])):
                file.write(json.dumps(line | {"time": f"1970-01-01T00:{time // 60:02}:{time % 60:02}Z"}) + "\n")
        record(f"feed:{feed}", self.folder / "h", keys=["a", "b"], columns=["c"], id=["id"], lateness=1000 * SECOND)

    def sent(self, batch: int, versions: tuple[int, ...]) -> list[list[pa.Table]]:
        """The rows of a batch, by shard and stream."""
        parts: list[list[pa.Table]] = [[] for _ in range(self.shards)]
        for stream, name in enumerate("lr"):
            own = [row for row in self.rows if (row.batch, row.stream) == (batch, stream)]
            time = pa.array([row.time * SECOND for row in own], pa.int64())
            columns: dict[str, Any] = {"time": time, "order": [row.number for row in own]}
            columns |= {f"key{stream}": pa.array([row.k for row in own], pa.string()), f"{name}_v": [row.number for row in own]}
            assert self.plan.through is not None
            routed = Routing(self.plan.through, stream, self.shards, lambda: versions)(pa.record_batch(columns), np.asarray(time))[0]
            place = np.asarray(routed[SHARD])
            for shard, found in enumerate(parts):
                found.append(pa.Table.from_batches([routed.filter(pa.array(place == shard))]).drop_columns(SHARD))
        return parts

    def clocks(self, batch: int) -> Any:
        found = [[row.time * SECOND for row in self.rows if (row.batch, row.stream) == (batch, stream)] for stream in range(2)]
        return np.array([max(own, default=UNKNOWN) for own in found])

    def exact(self) -> Counter[tuple[int, int, str]]:
        left, right = ([row for row in self.rows if row.stream == stream] for stream in range(2))
        return Counter(
            (x.number, y.number, f"c{f.number}")
            for x in left
            for y in right
            if abs(x.time - y.time) < WINDOW
            for f in self.facts
            if (f.a, f.b) == (x.k, y.k) and f.active(x.time) and f.active(y.time)
        )

    def late_facts(self) -> int:
        """Begins and ends that became known after rows of their times had been played."""
        played = [max((row.time for row in self.rows if row.batch < batch), default=-1) for batch in range(BATCHES + 1)]
        begins = [f for f in self.facts if f.known and f.begin <= played[f.known] and f.begin != f.end]
        ends = [f for f in self.facts if f.known < f.known_end < BATCHES and f.end is not None and f.end <= played[f.known_end]]
        empty = [f for f in self.facts if f.known and f.begin == f.end and f.known < f.known_end and f.begin <= played[f.known]]
        return len(begins) + len(ends) + len(empty)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_outputs_are_those_of_the_versions_that_batches_see(late, seed, tmp_path, monkeypatch):
    monkeypatch.setattr(state_rows, "_LEAST", (1 << 16) * (seed > 0))  # in one of three runs there are snapshots, in the others logs
    life = Life(Random(f"{late} {seed}"), tmp_path, shards=1 + seed % 2, late=late)
    plan, held = life.plan, [Held(number) for number in range(life.shards)]
    made: Counter[Any] = Counter()
    counts = Counter()
    for batch in range(BATCHES):
        if batch:
            life.grow(batch)
        versions = plan.through.seen("q", batch)
        for number, parts in enumerate(life.sent(batch, versions)):
            nearby = tmp_path / f"near{number}" if life.random.random() < 0.4 else None
            _, result = held[number].play(plan, parts, nearby, life.clocks(batch), versions)
            counts += Counter({name: result.counts[name] for name in ("n_late_facts",)})
            counts["unknown"] += result.counts["unknown"] > 0
            for joined in result.joined:
                made += Counter(zip(*(joined[name].to_pylist() for name in plan.schema.names), strict=True))
    exact, fact = life.exact(), {f"c{f.number}": f for f in life.facts}
    assert all(n == 1 for n in made.values()) and len(made) > 20
    for x, y, c in exact - made:  # a row that came before the fact was known
        assert fact[c].known > min(life.rows[x].batch, life.rows[y].batch)
    for x, y, c in made - exact:  # the end became known after the last of them had come
        assert fact[c].known_end > max(life.rows[x].batch, life.rows[y].batch)
    assert counts["n_late_facts"] == life.late_facts() == sum(one.vault(plan).open(None).facts.n_late for one in held)
    assert (bool(made - exact or exact - made), bool(counts["unknown"])) == (late, late), (counts, made - exact, exact - made)


def test_a_history_that_is_older_than_what_was_seen_is_refused(tmp_path):
    life = Life(Random(1), tmp_path, shards=1, late=False)
    plan, held = life.plan, Held()
    life.grow(1)
    (parts,) = life.sent(0, (2,))
    held.play(plan, parts, None, life.clocks(0), (2,))
    with pytest.raises(ps.PenstockError, match="history must have version 2, which an earlier batch has seen, got version 1 as its last"):
        held.play(plan, parts, None, life.clocks(0), (1,))
