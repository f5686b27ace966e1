"""A worker of one shard and millions of keys that come once: `python overhead_job.py whole|text KEYS OVERHEAD POLICY FOLDER`.

Like a worker of Spark it reads the shard from the copy of the batch before, plays, and saves it: state, log or snapshot, and copy.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.shard.shard_plan import ShardPlan
from penstock.shard.state.state_rows import ShardState

MEMORY, BATCH = 100_000, 200_000


class Cells(dict):
    """A map state on disk, so that what is measured is the worker's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def updateValue(self, key, value):  # noqa: N802
        (self.folder / f"{key[0]}-{key[1]}").write_bytes(value[0])

    def removeKey(self, key):  # noqa: N802
        (self.folder / f"{key[0]}-{key[1]}").unlink()

    def iterator(self):
        for path in self.folder.iterdir():
            kind, _, number = path.name.rpartition("-")
            yield (kind, int(number)), (path.read_bytes(),)


def main(kind: str, keys: int, overhead: int, policy: str, folder: Path) -> None:
    def plan(type_: pa.DataType) -> ShardPlan:
        schema = pa.schema([("k", type_), ("l_v", pa.int64()), ("r_v", pa.int64())])
        options = {"window": 1 << 40, "memory": MEMORY, "policy": policy, "stats": "decayed"}
        return ShardPlan(("l", "r"), 1, (("l_v",), ("r_v",)), options, schema, ("time", "time"), overhead=overhead)

    def tables(begin: int, size: int) -> list[pa.Table]:
        out = []
        for side in range(2):
            row = begin + 2 * np.arange(size // 2) + side
            key = pa.array(row * 7919 % (1 << 40))
            if kind == "text":
                key = pa.array([f"user-{number:012d}" for number in key.to_pylist()])
            out.append(pa.table({"time": begin + np.arange(size // 2), "order": row, "key0": key, f"{'lr'[side]}_v": row}))
        return out

    def play(where: Path, cells: Cells, head: list, begin: int, size: int):
        own = plan(pa.int64() if kind == "whole" else pa.string())
        state = ShardState(own, 0, lambda: head[0], lambda new: head.__setitem__(0, new), cells)
        shard, clocks = state.open(where), np.array([begin + size // 2] * 2)
        result = shard.play(tables(begin, size), clocks)
        for _ in result.joined:
            pass
        state.save(shard, result, clocks, where)
        return result.counts

    warm = Cells(folder / "warm-cells"), [None]
    for begin in (0, 1000):
        play(folder / "warm", *warm, begin, 1000)
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    cells, head, seen = Cells(folder / "cells"), [None], []
    for begin in range(0, keys, BATCH):
        counts = play(folder / "near", cells, head, begin, BATCH)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        seen.append({name: value for name, value in counts.items() if name.startswith("overhead_")} | {"peak": peak})
        if (begin // BATCH) % 5 == 4:
            print(begin + BATCH, {name: f"{value / 1e6:.1f}" for name, value in seen[-1].items()}, file=sys.stderr, flush=True)
    print(json.dumps({"base": base, "peak": peak, "counts": counts, "seen": seen}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], Path(sys.argv[5]))
