"""What a ledger is given, and the checkpoint that says which of its batches are committed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.ledger.ledger import Ledger, find
from penstock.ledger.ledger_plan import LedgerPlan
from penstock.ledger.manifest import Attempt
from penstock.ledger.pruning import prune
from settled import settle


def one_row(**columns: Any) -> tuple[list[pa.Table | None], pa.Table]:
    """A batch of a shard in which one tuple came and left."""
    ours = {"row": [7], "arrived": [1], "time": [5], "key0": ["x"], "importance": [1.0], "k": ["x"], "a_v": [1]}
    return [pa.table(ours | columns), None], pa.table({"row": pa.array([7], pa.int64()), "left": pa.array([3], pa.int64())})


def a_checkpoint(folder: Path, commits: range | int, query: str = "q1") -> Path:
    """The checkpoint of a query with these commits, or of one that has committed so many batches: Spark forgets old ones."""
    (folder / "commits").mkdir(parents=True, exist_ok=True)
    (folder / "metadata").write_text(json.dumps({"id": query}))
    for number in range(max(0, commits - 3), commits) if isinstance(commits, int) else commits:
        (folder / "commits" / str(number)).write_text("v1\n{}")
        (folder / "commits" / f".{number}.crc").write_text("")
    return folder


def a_pruned_ledger(folder: Path, plan: LedgerPlan) -> None:
    """A ledger `a` and its checkpoint `c`: batches 0 and 1 are settled and pruned, and batch 5 has a tuple that would have met them."""
    ledger = Ledger(folder / "a", plan, "q1")
    after: list[Attempt] = []
    for batch in range(6):
        arrived, left = one_row(row=[batch], time=[10 * batch])
        if batch == 5:
            arrived = [None, pa.table({"row": [99], "arrived": [9], "time": [5], "key0": ["x"], "importance": [1.0], "b_v": [1]})]
        facts = {"after": after, "promised": [10 * batch, 10 * batch - 15]}
        after = [ledger.write(batch, 0, arrived, left.slice(0, 0), **facts)]
        if batch == 4:
            settle(folder / "a", a_checkpoint(folder / "c", range(5)), folder / "to")
            prune(find(folder / "a"))
    a_checkpoint(folder / "c", range(6))
