"""What the log says of the joins of a session: batches that lost too much, late rows, rows without a time, places that are mixed up."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from threading import Thread
from types import MappingProxyType
from weakref import ref

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.listener import QueryStartedEvent, QueryTerminatedEvent, StreamingQueryProgress
from pyspark.sql.utils import is_remote

from penstock.core.duration import in_units
from penstock.core.errors import PenstockError
from penstock.spark.observe.folders import is_new, joins, misplaced
from penstock.spark.observe.follow import our_cause
from penstock.spark.observe.listener import follower_of
from penstock.spark.observe.metrics import MIN_RECALL
from penstock.spark.observe.progress import joins_in

logger = logging.getLogger("penstock")
_FEW = 100
"""Rows of a batch below which it does not matter how many of them are late."""
_MANY = 0.1
"""The part of a batch beyond which late rows are no exception: all rows of one stream may be less than half."""
_STARTING = "Initializing StreamExecution"
"""What Spark calls the state of a query until then."""
failures = logging.getLogger("penstock.failures")
"""What is said of queries that failed."""


def warn(
    spark: SparkSession, name: str, least: float | None, archive: str | None = None, lateness: Mapping[str, int] = MappingProxyType({})
) -> None:
    """Warn, from now on, of what the join `name` loses below its `least` recall, which is among its metrics, and of an archive in a sink.

    Also of batches most of whose rows are later than the `lateness` of their streams, in microseconds. Not under Spark Connect.
    """
    if is_remote():
        if least is not None:
            raise PenstockError(
                f"min_recall must fail under Spark Connect, got {least:g} to warn of: "
                f'say min_recall=({least:g}, "fail"), or look at ps.progress(query)'
            )
        return
    warner = follower_of(spark, _Warner)
    warner.names[name] = lateness
    if archive is not None:
        warner.archives.add(archive)


def _stop(query: StreamingQuery) -> None:
    """Stop a query once it has told all listeners that it has started: Spark removes a listener that is interrupted in that."""
    while query.isActive and query.status["message"] == _STARTING:
        time.sleep(0.05)
    query.stop()


def _lengths(lateness: Mapping[str, int]) -> str:
    """The lateness of each stream.

    >>> _lengths({"l": 90_000_000, "r": 0}), _lengths({})
    (' (l: 90 seconds, r: 0 seconds)', '')
    """
    told = ", ".join(f"{stream}: {in_units(length) if length else '0 seconds'}" for stream, length in lateness.items())
    return f" ({told})" if told else ""


class _Warner:
    """Warns of batches that lost too much, and once per query of rows without a time and of a batch with many late rows."""

    def __init__(self, spark: SparkSession) -> None:
        self.session = ref(spark)
        self.names: dict[str, Mapping[str, int]] = {}  # of the joins of the session, and the lateness of their streams
        self.archives: set[str] = set()
        self.told: set[tuple[str, str, str]] = set()

    def started(self, event: QueryStartedEvent) -> None:
        """Look at where a query writes, which nobody knew before; one with a join that is misplaced is stopped before it has begun."""
        spark, query = self.session(), str(event.id)
        if spark is None:
            return
        wrong = misplaced(spark, query, sorted(self.archives))
        for told in wrong:
            logger.error("query %s: %s: start again with separate folders", query, told)
        running = spark.streams.get(query) if wrong else None
        if running is not None and is_new(spark, query) and any(joins(spark, query, name) for name in self.names):
            logger.error("query %s is stopped", query)
            Thread(target=_stop, args=(running,), daemon=True).start()

    def progressed(self, progress: StreamingQueryProgress) -> None:
        """Look at the metrics of a batch."""
        for name, found in joins_in(progress).items():
            least = found.get(MIN_RECALL)
            if least is not None and found["recall"] < least:
                logger.warning(
                    "join %s: batch %s has a recall of %.4f, below min_recall %g (%d outputs lost)",
                    name, progress.batchId, found["recall"], least, found["lost"],
                )  # fmt: skip
            if found["total_n_null"] and self._first(progress, name, "n_null"):
                logger.warning("join %s: %d rows without a time were dropped; they are counted as n_null", name, found["total_n_null"])
            rows, late = found["n_input"] or 0, found["n_late"] or 0
            if rows >= _FEW and late > rows * _MANY and self._first(progress, name, "n_late"):
                logger.warning(
                    "join %s: %s of %s rows of batch %s came too late: sources must bring rows in the order of time, "
                    "within the lateness%s, and a folder of files is read by modification time",
                    name, f"{late:,}", f"{rows:,}", progress.batchId, _lengths(self.names.get(name, {})),
                )  # fmt: skip

    def _first(self, progress: StreamingQueryProgress, name: str, what: str) -> bool:
        """Whether this has not been told of the join of this query yet; from now on it has."""
        told = (str(progress.id), name, what)
        new = told not in self.told
        self.told.add(told)
        return new

    def ended(self, event: QueryTerminatedEvent) -> None:
        """Say in one sentence why a query failed, where that is an error of ours: Spark's own ends with the plan of the query."""
        why = None if event.exception is None else our_cause(str(event.exception))
        if why is not None:
            failures.error("query %s failed: %s", event.id, why)
