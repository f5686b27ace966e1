"""What is known of the queries of a session: the last metrics of every join, and its last hour, in bounded memory."""

from __future__ import annotations

import datetime as dt
from collections import deque
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

from pyspark.sql.streaming.listener import QueryStartedEvent, QueryTerminatedEvent, StreamingQueryProgress

from penstock.spark.observe.follow import cause
from penstock.spark.observe.progress import filled, joins_in

HOUR = 3600.0  # seconds that are kept
SLOT = 5.0  # seconds that share a point
_ENDED = 50  # queries that have ended and are still shown
SUMMED = ("n_input", "n_output", "lost", "n_shed", "n_late", "seconds")
"""What the batches of a point add up; of what memory holds, the last is kept."""


@dataclass
class BoardPoint:
    """Some seconds of a join: the sums of its batches, and what it held at their end."""

    time: float  # seconds since 1970
    batches: int
    held: float
    sums: dict[str, float]


@dataclass
class Join:
    """A join of a query: its last metrics, and its last hour."""

    numbers: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0  # that its last batch took
    points: deque[BoardPoint] = field(default_factory=lambda: deque(maxlen=int(HOUR / SLOT)))

    @property
    def unit(self) -> str:
        """What the budget counts: rows or bytes."""
        return "bytes" if "budget_bytes" in self.numbers else "rows"

    @property
    def held(self) -> float:
        """What counts against the budget: tuples, or bytes with what statistics, ghosts and index take."""
        names = ("retained_bytes", "overhead_bytes") if self.unit == "bytes" else ("retained_rows",)
        return float(sum(self.numbers[name] for name in names))

    @property
    def rows_per_second(self) -> float | None:
        """Of its last batch."""
        rows = self.numbers.get("n_input")
        return rows / self.seconds if rows is not None and self.seconds else None

    def add(self, time: float, seconds: float, found: dict[str, Any]) -> None:
        """Take in a batch."""
        self.numbers, self.seconds = filled(found, self.numbers), seconds
        if not _was_asked(found):
            return
        sums = {name: seconds if name == "seconds" else float(found[name] or 0) for name in SUMMED}
        batches = 1
        if self.points and time // SLOT == self.points[-1].time // SLOT:
            before = self.points.pop()
            batches += before.batches
            sums = {name: value + before.sums[name] for name, value in sums.items()}
        self.points.append(BoardPoint(time, batches, self.held, sums))
        while self.points[0].time < time - HOUR:
            self.points.popleft()


@dataclass
class Query:
    """A query: what it is called, how it is, its joins by name."""

    id: str
    run: str
    name: str
    state: str = "running"  # or "stopped", "failed"
    error: str | None = None
    batch: int = -1
    time: float | None = None  # when its last batch ended
    joins: dict[str, Join] = field(default_factory=dict)


class Board:
    """Hears of queries (a follower of `spark.listener`) and keeps what the pages show. Hold its `lock` to read it."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.queries: dict[str, Query] = {}

    def started(self, event: QueryStartedEvent) -> None:
        """A query has begun, perhaps again."""
        self.begin(str(event.id), str(event.runId), event.name)

    def begin(self, own: str, run: str, name: str | None) -> None:
        """The same by its ids and its name; what is known of an earlier run stays."""
        with self.lock:
            before = self.queries.pop(own, None)
            self.queries[own] = Query(own, run, name or own, joins=before.joins if before else {}, time=before.time if before else None)
            self._forget()

    def progressed(self, progress: StreamingQueryProgress) -> None:
        """A batch has ended; a query that turns out to have no join of ours is let go."""
        joins = joins_in(progress)
        with self.lock:
            query = self.queries.get(str(progress.id))
            if query is None or query.run != str(progress.runId):
                return
            if not joins:
                if progress.numInputRows and not query.joins:
                    del self.queries[query.id]
                return
            if progress.batchId <= query.batch:
                return
            seconds = progress.durationMs.get("triggerExecution", 0) / 1000
            query.batch, query.time = int(progress.batchId), dt.datetime.fromisoformat(progress.timestamp).timestamp() + seconds
            for name, found in joins.items():
                if name in query.joins or _was_asked(found):  # else nothing is known of it yet
                    query.joins.setdefault(name, Join()).add(query.time, seconds, found)

    def ended(self, event: QueryTerminatedEvent) -> None:
        """A query has stopped or failed."""
        with self.lock:
            query = self.queries.get(str(event.id))
            if query is not None and query.run == str(event.runId):
                query.state = "failed" if event.exception else "stopped"
                query.error = cause(event.exception) if event.exception else None

    def stop_all(self) -> None:
        """The session is gone, and all its queries with it."""
        with self.lock:
            for query in self.queries.values():
                query.state = "stopped" if query.state == "running" else query.state

    def _forget(self) -> None:
        ended = [own for own, query in self.queries.items() if query.state != "running"]
        for own in ended[: max(0, len(ended) - _ENDED)]:
            del self.queries[own]


def _was_asked(found: dict[str, Any]) -> bool:
    """Whether a join took part in a batch; in one without rows, or that only moves a watermark on, Spark may not ask it."""
    return found["retained_rows"] is not None
