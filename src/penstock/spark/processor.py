"""The stateful processor: state in, engine, state out, for one shard and one micro-batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from penstock.spark.blocks import CELL, CLOCK, STREAM, UNKNOWN, from_cell, to_cell
from penstock.spark.shard import COUNTS, Plan, Shard

OUTPUT = f"{CELL} binary, " + ", ".join(f"{name} double" for name in COUNTS)
_CELL_ROWS = 100_000  # joined rows that travel as one value

_warm: dict[tuple[str, str, int], Shard] = {}
"""Shards that this worker has at hand, by query, name and shard. The state is the truth: a shard of another version is read anew."""


class JoinProcessor(StatefulProcessor):
    """Plays the packed rows of a shard through its engine."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state: a small value that changes with every batch, and the blocks of payload."""
        self.engine_state = handle.getValueState("engine", "version bigint, state binary")
        self.block_state = handle.getMapState("blocks", "number bigint", "cell binary")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Play one micro-batch of a shard."""
        parts: list[list[pa.Table]] = [[] for _ in self.plan.streams]
        clocks = np.full(len(self.plan.streams), UNKNOWN)
        for frame in rows:
            for stream, clock, cell in zip(frame[STREAM], frame[CLOCK], frame[CELL], strict=True):
                clocks[stream] = max(clocks[stream], clock)
                if cell is not None:
                    parts[stream].append(from_cell(bytes(cell)))
        shard = self._shard(int(key[0]))
        result = shard.play([pa.concat_tables(tables) if tables else None for tables in parts], clocks)
        for number, cell in result.changes.items():
            if cell is None:
                self.block_state.removeKey((number,))
            else:
                self.block_state.updateValue((number,), (cell,))
        self.engine_state.update((shard.version, shard.snapshot()))
        _warm[self._name(int(key[0]))] = shard
        for begin in range(0, result.joined.num_rows, _CELL_ROWS):
            yield pd.DataFrame({CELL: [to_cell(result.joined.slice(begin, _CELL_ROWS))]} | dict.fromkeys(COUNTS))
        yield pd.DataFrame({CELL: [None]} | {name: [float(result.counts[name])] for name in COUNTS})

    def _shard(self, number: int) -> Shard:
        """The shard as it was after the last committed batch."""
        state = self.engine_state.get() if self.engine_state.exists() else None
        warm = _warm.pop(self._name(number), None)
        version = 0 if state is None else int(state[0])
        if warm is not None and warm.version == version:
            return warm
        shard = Shard(self.plan)
        if state is not None:
            shard.restore(bytes(state[1]), {int(at[0]): bytes(cell[0]) for at, cell in self.block_state.iterator()})
        return shard

    def _name(self, number: int) -> tuple[str, str, int]:
        context = TaskContext.get()
        query = context.getLocalProperty("sql.streaming.queryId") if context else None
        return str(query), self.plan.name, number

    def close(self) -> None:
        """Nothing is open."""
