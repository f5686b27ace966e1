"""The first batch of a query takes its time: after a few seconds the log says what it is waiting for."""

from __future__ import annotations

import logging
from pathlib import Path
from threading import Event, Thread
from weakref import ref

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import QueryStartedEvent, QueryTerminatedEvent, StreamingQueryProgress

from penstock.core import compiled
from penstock.core.slow_notice import SECONDS
from penstock.ledger.store import local_path
from penstock.spark.observe.folders import checkpoint_of_query

logger = logging.getLogger("penstock")
_COMPILES = "its Python workers compile, which takes some minutes; the code is kept, so that this happens once on a machine"


class Awaited:
    """Follows the queries of a session until their first batch has ended."""

    def __init__(self, spark: SparkSession) -> None:
        self.session = ref(spark)
        self.over: dict[str, Event] = {}

    def started(self, event: QueryStartedEvent) -> None:
        """Begin to wait."""
        spark = self.session()
        query, over = str(event.id), Event()
        place = None if spark is None else checkpoint_of_query(spark, query)
        self.over[str(event.runId)] = over
        Thread(target=_wait, args=(event.name or query, _first(place), over), daemon=True).start()

    def progressed(self, progress: StreamingQueryProgress) -> None:
        """It has come."""
        if str(progress.runId) in self.over and progress.durationMs.get("addBatch") is not None:
            self.over.pop(str(progress.runId)).set()

    def ended(self, event: QueryTerminatedEvent) -> None:
        """It will not come."""
        if str(event.runId) in self.over:
            self.over.pop(str(event.runId)).set()


def _first(checkpoint: str | None) -> str:
    """What a query does first, by what is in its checkpoint."""
    place = None if checkpoint is None else local_path(checkpoint)
    if place is not None and any((Path(place) / "commits").glob("[0-9]*")):
        return "it restores its state and plays its next batch"
    return "it plays its first batch"


def _wait(query: str, first: str, over: Event) -> None:
    said = None
    while not over.wait(SECONDS):
        told = _COMPILES if compiled.is_compiling() and not over.wait(0.2) and compiled.is_compiling() else first
        if told != said and not over.is_set():
            logger.warning("query %s: %s", query, told)
            said = told
