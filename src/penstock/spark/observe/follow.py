"""A running query, batch by batch: what Spark's progress events say, with the metrics of the join."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.listener import StreamingQueryProgress

from penstock.core.errors import PenstockError
from penstock.spark.session.first_line import first_line
from penstock.spark.session.session import silence

_POLL = 0.2  # seconds


def follow(query: StreamingQuery, name: str, stopped: Callable[[], bool] = lambda: False) -> Iterator[dict[str, Any]]:
    """The events of a query until it ends: `batch`, `time`, `seconds`, `rows_per_second`, `offsets`, then the metrics named `name`.

    Events without rows, such as those of an idle query, are left out. A query that fails raises its error. Once `stopped` says so, the
    query is stopped, and what it was just doing is left to its next start.
    """
    seen = -1
    running = True
    while running:
        running = not _ended(query)
        if running and stopped():
            silence(SparkSession.active())
            query.stop()
            return
        last = query.lastProgress
        if last is None or last.batchId <= seen:
            continue
        for progress in query.recentProgress:
            metrics = progress.observedMetrics.get(name)
            if progress.batchId > seen and metrics is not None and metrics["n_input"]:
                yield _event(progress, metrics.asDict())
            seen = max(seen, progress.batchId)


def _ended(query: StreamingQuery) -> bool:
    try:
        return bool(query.awaitTermination(_POLL))  # type: ignore[arg-type]  # it takes parts of a second
    except StreamingQueryException as error:
        raise PenstockError(f"the query failed: {cause(error)}") from error


def _event(progress: StreamingQueryProgress, metrics: dict[str, Any]) -> dict[str, Any]:
    seconds = progress.durationMs.get("triggerExecution", 0) / 1000
    rows = metrics.get("n_input")
    return {
        "batch": progress.batchId,
        "time": progress.timestamp,
        "seconds": seconds,
        "rows_per_second": rows / seconds if rows is not None and seconds else None,
        "offsets": [source.endOffset for source in progress.sources],
    } | metrics


def cause(error: object) -> str:
    """The line that says what went wrong: the last error of a Python worker, or else Spark's own first line."""
    return our_cause(str(error)) or first_line(error)


def our_cause(error: str) -> str | None:
    """The sentence of the last error of ours in the text of another; None where there is none.

    >>> our_cause("Traceback:\\npenstock.core.errors.PenstockError: memory must be a number\\n SQLSTATE: 38000")
    'memory must be a number'
    """
    ours = [line for line in error.splitlines() if "PenstockError: " in line]
    return ours[-1].partition("PenstockError: ")[2].strip() if ours else None
