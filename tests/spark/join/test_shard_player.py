"""A shard in a task without Spark: how much it plays at a time, and what is too much."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.errors import PenstockError

pytest.importorskip("pyspark")

from held_shards import a_batch, clocks_of, plan
from penstock.shard.cells import CELL, from_cell, to_cell
from penstock.shard.shard import Shard
from penstock.spark.join import shard_player
from penstock.spark.observe.metrics import COUNTS


def cells(tables: list[pa.Table], rows: int) -> list[shard_player.Packed]:
    """What a batch query hands to a shard: cells in the order of their first times."""
    found = []
    for stream, table in enumerate(tables):
        table = table.sort_by("time")
        for at in range(0, table.num_rows, rows):
            part = table.slice(at, rows)
            found.append((stream, 0, 0, 0, int(part["time"][0].as_py()), to_cell(part), None, 0))
    return sorted(found, key=lambda cell: cell[4])


@pytest.mark.parametrize(("slice_rows", "slice_bytes"), [(10**9, 10**9), (30, 10**9), (10**9, 1000)])
def test_a_batch_query_is_played_slice_by_slice_by_rows_and_by_bytes(slice_rows, slice_bytes, monkeypatch):
    monkeypatch.setattr(shard_player, "_SLICE", slice_rows)
    monkeypatch.setattr(shard_player, "_SLICE_BYTES", slice_bytes)
    plays = []
    pieces = Shard.pieces
    monkeypatch.setattr(Shard, "pieces", lambda shard, *given: plays.append(given) or pieces(shard, *given))
    random = Random(5)
    tables = [pa.concat_tables(parts) for parts in zip(*(a_batch(random, at, 20) for at in range(0, 400, 20)), strict=True)]
    frames = list(shard_player.ShardPlayer(plan(10_000, "prob"), None, None)._play_all(0, iter(cells(tables, 5))))
    made = Counter(
        tuple(row.values()) for frame in frames for cell in frame[CELL] if cell is not None for row in from_cell(cell).to_pylist()
    )
    monkeypatch.setattr(Shard, "pieces", pieces)
    whole = pa.concat_tables(Shard(plan(10_000, "prob")).play(tables, clocks_of(tables)).joined)
    assert made == Counter(tuple(row.values()) for row in whole.to_pylist()) and made
    assert len(plays) == 1 if slice_rows == slice_bytes else len(plays) > 5, len(plays)
    assert frames[-1][COUNTS][0] is not None and np.isfinite(frames[-1][COUNTS][0]).all()


def test_a_batch_that_arrow_cannot_put_in_order_is_refused(monkeypatch):
    monkeypatch.setattr(shard_player, "_MOST", 1000)
    small, large = (pa.table({"v": ["x" * 100] * rows}) for rows in (5, 50))
    shard_player._check_size([small, None], ["l", "r"])
    with pytest.raises(PenstockError, match=r"less than 2 GB of each column, got .* of a column of stream r: let the source give less"):
        shard_player._check_size([None, large], ["l", "r"])
