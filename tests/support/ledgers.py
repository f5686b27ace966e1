"""What a ledger is given, and the checkpoint that says which of its batches are committed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa


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
