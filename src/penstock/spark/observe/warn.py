"""What the log says of the joins of a session: batches that lost too much, rows without a time, places that are mixed up."""

from __future__ import annotations

import logging
import time
from threading import Thread
from weakref import ref

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.listener import QueryStartedEvent, QueryTerminatedEvent, StreamingQueryProgress
from pyspark.sql.utils import is_remote

from penstock.core.errors import PenstockError
from penstock.spark.observe.folders import is_new, joins, misplaced
from penstock.spark.observe.follow import our_cause
from penstock.spark.observe.listener import follower_of
from penstock.spark.observe.metrics import MIN_RECALL
from penstock.spark.observe.progress import joins_in

logger = logging.getLogger("penstock")
_STARTING = "Initializing StreamExecution"
"""What Spark calls the state of a query until then."""
failures = logging.getLogger("penstock.failures")
"""What is said of queries that failed."""


def warn(spark: SparkSession, name: str, least: float | None, archive: str | None = None) -> None:
    """Warn, from now on, of what the join `name` loses below its `least` recall, which is among its metrics, and of an archive in a sink.

    Not under Spark Connect.
    """
    if is_remote():
        if least is not None:
            raise PenstockError(
                f"min_recall must fail under Spark Connect, got {least:g} to warn of: "
                f'say min_recall=({least:g}, "fail"), or look at ps.progress(query)'
            )
        return
    warner = follower_of(spark, _Warner)
    warner.names.add(name)
    if archive is not None:
        warner.archives.add(archive)


def _stop(query: StreamingQuery) -> None:
    """Stop a query once it has told all listeners that it has started: Spark removes a listener that is interrupted in that."""
    while query.isActive and query.status["message"] == _STARTING:
        time.sleep(0.05)
    query.stop()


class _Warner:
    """Warns of batches that lost too much, and once per query of rows without a time."""

    def __init__(self, spark: SparkSession) -> None:
        self.session = ref(spark)
        self.names: set[str] = set()  # of the joins of the session
        self.archives: set[str] = set()
        self.told: set[tuple[str, str]] = set()

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
            if found["total_n_null"] and (str(progress.id), name) not in self.told:
                self.told.add((str(progress.id), name))
                logger.warning("join %s: %d rows without a time were dropped; they are counted as n_null", name, found["total_n_null"])

    def ended(self, event: QueryTerminatedEvent) -> None:
        """Say in one sentence why a query failed, where that is an error of ours: Spark's own ends with the plan of the query."""
        why = None if event.exception is None else our_cause(str(event.exception))
        if why is not None:
            failures.error("query %s failed: %s", event.id, why)
