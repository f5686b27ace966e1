"""Random damage to a ledger and to the commits of its query: harmless, or refused by name; never silently wrong. Without Spark.

The ledger is that of a query which was settled in part, failed in a batch, was started again with another memory, and went on.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

import penstock as ps
from ledgers import a_checkpoint
from penstock.ledger.epochs import enter
from penstock.ledger.ledger import Ledger, find
from penstock.ledger.manifest import Attempt
from penstock.ledger.verify import verify
from settled import settle
from shards import owed, plan_of, played, write
from strategies import later

BATCHES = 7
DAMAGES = 200
STEP = 20


class Damaged:
    """A copy of a folder, and what was done to it."""

    def __init__(self, folder: Path, random: Random) -> None:
        places = [folder / "a", folder / "c" / "commits"]
        files = sorted(path for place in places for path in place.rglob("*") if path.is_file() and not path.name.startswith("."))
        self.what = random.choice(("delete", "truncate", "empty", "flip a bit", "change a byte", "copy over", "copy", "swap"))
        # Pages and manifests are many: take every kind of file as often as the others.
        kind = random.choice(sorted({path.parent.name for path in files}))
        self.file = random.choice([path for path in files if path.parent.name == kind])
        self.other = random.choice([path for path in files if path.parent == self.file.parent and path != self.file] or [self.file])
        content, other = bytearray(self.file.read_bytes()), self.other.read_bytes()
        at = random.randrange(len(content))
        if self.what == "delete":
            self.file.unlink()
        elif self.what in ("truncate", "empty"):
            self.file.write_bytes(content[: at if self.what == "truncate" else 0])
        elif self.what in ("flip a bit", "change a byte"):
            content[at] ^= 1 << random.randrange(8) if self.what == "flip a bit" else random.randrange(1, 256)
            self.file.write_bytes(content)
        elif self.what == "copy":  # a digit of the name is another
            digits = [match.start() for match in re.finditer(r"\d", self.file.name)] or [0]
            place = random.choice(digits)
            self.other = self.file.with_name(self.file.name[:place] + str(random.randrange(10)) + self.file.name[place + 1 :])
            self.other.write_bytes(content)
        else:
            self.other.write_bytes(content)
            self.file.write_bytes(other if self.what == "swap" else content)

    def __str__(self) -> str:
        return f"{self.what} {self.file.parent.name}/{self.file.name} ({self.other.name})"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The ledger, what is settled of it, what is owed by batch, and what the state names."""
    folder = tmp_path_factory.mktemp("whole")
    shards = [played(Random(number), number=number, disorder=6, memory=4, batches=BATCHES, rows=42) for number in range(3)]
    ledger = Ledger(folder / "a", plan_of((8, 8)), "q1")
    enter(ledger, "run-1", 0, [])
    write(ledger, shards, range(4))
    a_checkpoint(folder / "c", range(4))
    first = (
        settle(folder / "a", folder / "c", folder / "to", through=1)[0] + settle(folder / "a", folder / "c", folder / "to", through=2)[0]
    )
    heads = {3: after(ledger, 3)}
    others = [played(Random(number), number=number, disorder=6, memory=7, batches=BATCHES, rows=42) for number in range(3)]
    write(ledger, others[:2], [4], count=3)
    enter(ledger, "run-2", 4, heads[3])
    write(ledger, shards, range(4, BATCHES), epoch=2)
    heads |= {batch: after(ledger, batch) for batch in range(BATCHES)}
    write(ledger, others[:1], [BATCHES - 1], epoch=2, count=3)  # a task that was tried twice, and not alike
    a_checkpoint(folder / "c", range(BATCHES))
    shutil.rmtree(folder / "c" / "commits")
    a_checkpoint(folder / "c", range(BATCHES - 4, BATCHES))  # Spark forgets old ones

    def state(batch: int) -> list[Attempt]:
        if batch not in heads:  # as Spark has it
            raise ps.PenstockError(f"checkpoint must have the state after batch {batch}, as the commit log says: there is none")
        return heads[batch]

    return folder, first, [owed(shards, range(batch, batch + 1)) for batch in range(BATCHES)], state


def after(ledger: Ledger, batch: int) -> list[Attempt]:
    return sorted(one for (at, _), one in vars(ledger)["made"].items() if at == batch)


def test_undamaged_it_is_exact(whole, tmp_path):
    folder, first, wanted, state = whole
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    made, chosen = settle(tmp_path / "a", tmp_path / "c", tmp_path / "to", state)
    assert first == sum(wanted[:3], Counter()) and made == sum(wanted[3:], Counter()) and chosen.through == BATCHES - 1
    assert all(wanted[1:]) and verify(find(tmp_path / "a"), tmp_path / "c", state).wrong == []


@pytest.mark.parametrize("begin", (0, *(later(begin) for begin in range(STEP, DAMAGES, STEP))))
def test_damage_is_harmless_or_refused_by_name(whole, tmp_path, begin):
    folder, first, wanted, state = whole
    told = Counter[str]()
    for seed in range(begin, begin + STEP):
        place = tmp_path / str(seed)
        shutil.copytree(folder, place)
        damage = Damaged(place, Random(f"damage {seed}"))
        try:
            made, chosen = settle(place / "a", place / "c", place / "to", state)
        except ps.PenstockError as error:
            told["refused"] += 1
            said = str(error)
            names = {damage.file.stem, damage.other.stem} if damage.file.parent.name != "commits" else {"commit"}
            assert any(name in said for name in names) or (damage.file.name == "plan.json" and "no ledger is in it" in said), (damage, said)
        else:
            told["harmless"] += 1
            commits = [int(path.name) for path in (place / "c" / "commits").iterdir() if path.name.isdecimal()]
            assert chosen.through == max(commits), damage  # without its last commit, a batch is not there for Spark either
            assert first + made == sum(wanted[: chosen.through + 1], Counter()), damage
    assert told["refused"] >= STEP // 5 and told["harmless"], told
