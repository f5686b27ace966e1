"""The copy of a shard on this machine, left by one worker process for the next.

Spark hands a shard to whichever worker is free. Reading it back from the state takes time in proportion to what is held, so a worker
leaves the shard as it lies in memory in Spark's local folder, under a mark that is also in the state: whoever finds another mark in the
state, or nothing here, rebuilds. It is data (core/state_encoding.py), in a folder that nobody else can write to. Blocks of payload have
files of their own, written once and mapped into memory.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.compiling.owned_folder import own_folder, own_name
from penstock.core.errors import PenstockError
from penstock.core.state_encoding import LINE, unpack, write
from penstock.shard.keys import packed_names, unpacked_names
from penstock.shard.payload import Block, Changes, Payload
from penstock.shard.shard import Shard
from penstock.shard.shard_plan import ShardPlan
from penstock.shard.waiting_rows import FACTS, ROWS


def folder_of(query: str, name: str, number: int) -> Path | None:
    """Where workers leave a shard; Spark removes its local folders when it ends. None where others could write: then nothing is left."""
    root = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir()
    own = own_folder(Path(root) / own_name())
    return None if own is None else own / query / name / str(number)


def leave(folder: Path, mark: str, shard: Shard, changes: dict[str, Changes]) -> None:
    """Leave the shard as it lies in memory."""
    folder.mkdir(parents=True, exist_ok=True)
    files = shard.files
    stores = _stores(shard)
    for kind, changed in changes.items():
        for number, cell in changed.items():
            files.pop((kind, number), None)
            if cell is not None:
                _write(folder, files, kind, number, mark, cell)
    for kind, store in stores.items():
        for number, block in store.blocks.items():
            if (kind, number) not in files:  # it was read from the state in this batch
                _write(folder, files, kind, number, mark, block.pack())
    for kind, cells in shard.aside.cells().items():
        for number, cell in cells.items():
            if (kind, number) not in files:
                _write(folder, files, kind, number, mark, cell)
    content = {
        "engine": shard.engine.freeze(),
        "meter": shard.meter.freeze(),
        "book": vars(shard.book) | {"names": packed_names(shard.book.names)},
        "next": {kind: store.next for kind, store in stores.items()},
        "alive": {(kind, number): block.alive for kind, store in stores.items() for number, block in store.blocks.items()},
        "widest": {(kind, number): block.widest for kind, store in stores.items() for number, block in store.blocks.items()},
        "files": files,
        "share": shard.holding.share,
    }
    draft = folder / f"draft-{mark}"
    with draft.open("wb") as file:
        write(file, content, "the shard")
    draft.replace(folder / f"shard-{mark}")
    kept = {f"shard-{mark}", *files.values()}
    for path in folder.iterdir():
        if path.name not in kept:
            path.unlink(missing_ok=True)


def pick_up(folder: Path, mark: str, plan: ShardPlan, number: int) -> Shard | None:
    """The shard that a worker has left, if it is there and current."""
    shard = Shard(plan, number)
    try:
        content = _read(folder / f"shard-{mark}")
        for kind, store in _stores(shard).items():
            _reopen(store, kind, folder, content)
        shard.hold(np.asarray(content["share"]))
        shard.reserve(np.zeros(1, np.int64))  # nothing is held yet
        shard.go_on(content["engine"])
        shard.meter.thaw(content["meter"])
        vars(shard.book).update(content["book"] | {"names": unpacked_names(content["book"]["names"])})
        shard.files = content["files"]
        beside: dict[str, dict[int, bytes]] = {FACTS: {}, ROWS: {}}
        for (kind, at), name in shard.files.items():
            if kind in beside:
                beside[kind][at] = (folder / name).read_bytes()
        shard.aside.restore(beside[FACTS].get(0), beside[ROWS])
    except (OSError, PenstockError, KeyError, TypeError, ValueError, IndexError, AttributeError):
        return None  # it is not there, or damaged: the state has the truth
    shard.reserve(shard.aside.used(shard.problem.budget))
    return shard


def _read(path: Path) -> Any:
    """What is in a file, its arrays in one block that is this process's own: the engine goes on where they lie."""
    size = path.stat().st_size
    block = np.empty(size + LINE, np.uint8)
    raw = block[-block.ctypes.data % LINE :][:size]
    with path.open("rb") as file:
        if file.readinto(raw.data) != size:
            raise OSError(f"{path} has become shorter")
    return unpack(raw.data, "the shard", copies=False)


def _stores(shard: Shard) -> dict[str, Payload]:
    return {"block": shard.payload, "judged": shard.judged}


def _write(folder: Path, files: dict[tuple[str, int], str], kind: str, number: int, mark: str, cell: bytes) -> None:
    files[kind, number] = f"{kind}-{number}-{mark}"
    (folder / files[kind, number]).write_bytes(cell)


def _reopen(store: Payload, kind: str, folder: Path, content: dict[str, Any]) -> None:
    store.next = content["next"][kind]
    mine = sorted((number, name) for (of, number), name in content["files"].items() if of == kind)
    for number, name in mine:
        block = Block.unpack(pa.memory_map(str(folder / name)))
        block.alive = content["alive"][kind, number]
        block.n_alive = int(np.count_nonzero(block.alive))
        block.widest = content["widest"][kind, number]
        store.blocks[number] = block
