"""What a worker loads is searched for garbage once, not after every task; and what Java sends is acknowledged at once."""

from __future__ import annotations

import gc
import socket
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from penstock.shard.cells import packer, unpacker
from penstock.shard.worker_start import acknowledge_at_once, spare_from_collection


@pytest.fixture(autouse=True)
def _fresh_worker() -> Iterator[None]:
    spare_from_collection.cache_clear()
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_what_is_loaded_is_spared_once_per_kind_of_work() -> None:
    spare_from_collection("pack")
    settled = gc.get_freeze_count()
    assert settled > 1000  # the modules of this process
    later = [[] for _ in range(1000)]
    spare_from_collection("pack")
    assert gc.get_freeze_count() <= settled, "what comes later is garbage like any other"
    spare_from_collection("unpack")
    assert gc.get_freeze_count() >= settled + len(later) // 2


def test_garbage_of_the_first_task_is_not_kept() -> None:
    class Loop:
        alive = 0

        def __init__(self) -> None:
            self.me = self
            Loop.alive += 1

        def __del__(self) -> None:
            Loop.alive -= 1

    Loop()
    spare_from_collection("pack")
    assert Loop.alive == 0


def test_packing_and_unpacking_spare_from_collection() -> None:
    rows = pa.record_batch({"shard": pa.array([0]), "ts": pa.array([5], pa.timestamp("us", "UTC"))})
    cells = list(packer(0, np.array([0]), "ts", rows.schema.names)(iter([rows])))
    assert gc.get_freeze_count() > 1000
    gc.unfreeze()
    assert sum(batch.num_rows for batch in unpacker(rows.select(["ts"]).schema)(iter(cells))) == 1
    assert gc.get_freeze_count() > 1000


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="only Linux puts acknowledgements off so long that it can be told not to")
def test_every_connection_acknowledges_at_once_and_stays_as_it_is(tmp_path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, (tmp_path / "beside").open("w") as file:
        with socket.create_connection(server.getsockname()) as one, server.accept()[0] as other:
            for connection in (one, other):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
            acknowledge_at_once()
            for connection in (one, other):
                assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK) == 1
            one.sendall(b"still open")
            assert other.recv(10) == b"still open"
        file.write("so is this")
    assert (tmp_path / "beside").read_text() == "so is this"
