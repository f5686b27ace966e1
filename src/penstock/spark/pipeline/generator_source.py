"""The built-in generator as a streaming source: `spark.readStream.format("penstock_generator")`.

An offset is a tick. The rows of a tick follow from the seed alone (`penstock.generator.zipf.Generator`), so a batch that is read again
after a restart has the same rows, and several streams that read one source stay in step.

    tick      0   1   2   3   4   5   6   7   8          ticks_per_batch = 3
    batch     └── 0 ────┘ └── 1 ────┘ └── 2 ────┘        time = start + tick × length
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from penstock.generator.zipf import Generator, with_times

NAME = "penstock_generator"
_TASK_ROWS = 100_000  # that one task makes, about
_ENDLESS = 1 << 40
_NAP = 0.05  # seconds between looks at the clock


def generator_options(settings: Mapping[str, Any]) -> dict[str, str]:
    """The options of the source: Spark hands on texts, so all of them travel as one.

    `arguments` of `Generator`; `ticks` or None for no end; `length` of a tick in microseconds; `start`, the time of tick 0; and the pace:
    `ticks_per_batch`, `rows_per_second`, or both.
    """
    return {"settings": json.dumps(dict(settings))}


def register(spark: SparkSession) -> None:
    """Make the source known to a session."""
    spark.dataSource.register(GeneratorSource)


class GeneratorSource(DataSource):
    """Rows `stream`, `time`, `key` and, if asked for, `importance`."""

    @classmethod
    def name(cls) -> str:
        """What `format` calls it."""
        return NAME

    def schema(self) -> str:
        """The columns."""
        weighed = json.loads(self.options["settings"])["arguments"].get("importance")
        return "stream string, time timestamp, key bigint" + (", importance double" if weighed else "")

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """The reader."""
        return Reader(json.loads(self.options["settings"]))


class Stretch(InputPartition):
    """The ticks that one task makes."""

    def __init__(self, begin: int, end: int) -> None:
        self.begin, self.end = begin, end


class Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Decides how far a batch goes, on the driver, and makes its rows, in the tasks."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.made = Generator(**settings["arguments"])
        self.ticks = settings["ticks"]
        self.end = _ENDLESS if self.ticks is None else self.ticks + self.made.disorder  # what is late still comes
        self.length, self.start = settings["length"], settings["start"]
        self.most = settings["ticks_per_batch"] or _ENDLESS
        pace = settings["rows_per_second"]
        self.pace = pace / self.made.rows_per_tick if pace else None  # ticks per second
        self.began: tuple[float, int] | None = None  # a moment, and the tick that was next
        self.finishing = False

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Before the first tick."""
        return {"tick": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What is available now is all there will be: the source goes to its end, at its pace."""
        self.finishing = True

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """The end of the next batch."""
        at = int(start["tick"])
        end = min(self.end, at + self.most)
        if self.pace is None or at >= self.end:
            return {"tick": max(at, end)}
        if self.began is None:
            self.began = time.monotonic(), at
        due = self._due()
        while self.finishing and due <= at:  # no news would be taken for the end
            time.sleep(_NAP)
            due = self._due()
        return {"tick": max(at, min(end, due))}

    def _due(self) -> int:
        """The tick that the clock has come to."""
        assert self.began is not None and self.pace is not None
        return self.began[1] + int((time.monotonic() - self.began[0]) * self.pace)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Stretch]:
        """The stretches of a batch, one per task."""
        step = max(1, int(_TASK_ROWS / self.made.rows_per_tick))
        return [Stretch(at, min(at + step, end["tick"])) for at in range(start["tick"], end["tick"], step)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a stretch."""
        assert isinstance(partition, Stretch)
        table = self.made.arrivals(partition.begin, partition.end, self.ticks)
        yield from with_times(table, self.start, self.length).to_batches()
