"""The first batch of a query takes its time: after a few seconds the log says what it is waiting for."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from threading import Event, Thread
from weakref import ref

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import QueryStartedEvent, QueryTerminatedEvent, StreamingQueryProgress

from penstock.core import compiled
from penstock.core.slow_notice import SECONDS
from penstock.ledger.store import local_path
from penstock.spark.observe.folders import checkpoint_of_query

logger = logging.getLogger("penstock")
MINUTE = 60.0
"""How long nobody asks again."""
_COMPILES = "its Python workers compile, which takes about a minute; the code is kept, so that this happens once for an environment"
_IDLE = "it is waiting for new rows"


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
        Thread(target=_wait, args=(self.session, query, event.name or query, _first(place), over), daemon=True).start()

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


def _wait(session: ref[SparkSession], query: str, name: str, first: str, over: Event) -> None:
    said, began, minutes = None, None, 0
    while not over.wait(SECONDS):
        told = _told(session(), query, first, over)
        if told is None or over.is_set():
            return
        if told == _COMPILES and began is None:
            began = time.monotonic()
        passed = int((time.monotonic() - began) / MINUTE) if told == _COMPILES and began is not None else 0
        if told != said:
            logger.warning("query %s: %s", name, told)
        elif passed > minutes:
            logger.warning("query %s: still compiling, %d minute%s", name, passed, "" if passed == 1 else "s")
        said, minutes = told, max(passed, minutes)


def _told(spark: SparkSession | None, query: str, first: str, over: Event) -> str | None:
    """What a query does now; None once its session has been stopped, of which Spark does not report."""
    try:
        if spark is not None and spark.sparkContext._jsc is None:
            return None
        if spark is not None and _is_idle(spark, query):
            return _IDLE
    except (Py4JError, PySparkException, OSError):  # it is being stopped
        return None
    return _COMPILES if compiled.is_compiling() and not over.wait(0.2) and compiled.is_compiling() else first


def _is_idle(spark: SparkSession, query: str) -> bool:
    """Whether a query has looked for rows and found none: Spark keeps an event of that, but tells listeners of it only after a while."""
    running = spark.streams.get(query)
    if running is None or running.status["isDataAvailable"]:
        return False
    last = running.lastProgress
    return last is not None and last.durationMs.get("addBatch") is None
