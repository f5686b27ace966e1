"""The stateful processor of a join: what Spark calls for each shard and micro-batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.streaming.stateful_processor import TimerValues

from penstock.shard.shard_plan import ShardPlan
from penstock.shard.state.state_schema import CELL_KEY, CELL_VALUE, HEAD

if TYPE_CHECKING:
    import pandas as pd

    from penstock.spark.session.sent_code import SentCode


class JoinProcessor(StatefulProcessor):
    """Plays the packed rows of a shard."""

    def __init__(self, plan: ShardPlan, code: SentCode | None = None) -> None:
        self.plan = plan
        self.code = code

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state. Spark does so in the driver too, in a process of its own that only asks what the state is."""
        self.head = handle.getValueState("head", HEAD)
        self.cells = handle.getMapState("cells", CELL_KEY, CELL_VALUE)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: TimerValues) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Play what has come for a shard."""
        from penstock.spark.join.shard_player import ShardPlayer  # and with it the engine, which takes a second

        if self.code is not None:
            self.code.take()
        yield from ShardPlayer(self.plan, self.head, self.cells).play(int(key[0]), rows)

    def close(self) -> None:
        """Nothing is open."""
