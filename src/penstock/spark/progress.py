"""`ps.progress`: what a running join says of itself; and a listener that warns."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary, ref

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener
from pyspark.sql.streaming.listener import JStreamingQueryListener, QueryProgressEvent
from pyspark.sql.utils import is_remote

from penstock.core.errors import PenstockError
from penstock.spark.metrics import MIN_RECALL
from penstock.spark.sources import misplaced

logger = logging.getLogger("penstock")


@dataclass(frozen=True)
class Progress:
    """The last batch of a query: its id and, by the name of each join, its metrics."""

    batch: int
    joins: dict[str, dict[str, Any]]

    def __str__(self) -> str:
        lines = [f"batch {self.batch}"]
        for name, found in self.joins.items():
            lines.append(f"{name}:{'':28}{'batch':>14}{'in all':>16}")
            for metric in found:
                if not metric.startswith("total_"):
                    total = found.get(f"total_{metric}")
                    lines.append(f"  {metric:32}{_text(found[metric]):>14}{'' if total is None else _text(total):>16}")
        return "\n".join(lines)


def progress(query: Any) -> Progress | None:
    """The metrics of the last batch of a streaming query; None before the first. `print` shows a table.

    A batch without data, in which Spark only moves a watermark on, changes nothing in a join, and Spark does not ask it: what is held
    and the life of the query are those of the batch before.
    """
    last = query.lastProgress
    if last is None:
        return None
    joins = _joins_in(last)
    if any(None in numbers.values() for numbers in joins.values()):
        for earlier in reversed(query.recentProgress):
            before = _joins_in(earlier)
            joins = {name: _filled(numbers, before.get(name, {})) for name, numbers in joins.items()}
    return Progress(int(last.batchId), joins)


def _joins_in(event: Any) -> dict[str, dict[str, Any]]:
    found = {name: _numbers(row) for name, row in event.observedMetrics.items()}
    return {name: numbers for name, numbers in found.items() if _is_ours(numbers)}


def _filled(numbers: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    return {name: before.get(name) if value is None else value for name, value in numbers.items()}


def _numbers(row: Any) -> dict[str, Any]:
    """The metrics in a row, which under Spark Connect comes as a list of values and a schema."""
    found = row if isinstance(row, dict) else row.asDict()
    if set(found) == {"values", "schema"}:
        return dict(zip((field["name"] for field in found["schema"]["fields"]), found["values"], strict=True))
    return found


def _is_ours(numbers: dict[str, Any]) -> bool:
    return "total_recall" in numbers


def _text(value: Any) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,.4f}" if isinstance(value, float) else f"{value:,}"


class _JsonCallback(JStreamingQueryListener):
    """Hands progress to a listener as one text. PySpark asks Java for every number in turn, which takes a tenth of a second per batch."""

    def onQueryProgress(self, jevent: Any) -> None:  # noqa: N802
        """Pass it on."""
        self.pylistener.onQueryProgress(QueryProgressEvent.fromJson({"progress": json.loads(jevent.progress().json())}))


class _Watch(StreamingQueryListener):
    """Warns of batches that lost too much, and once per query of rows without a time."""

    def __init__(self, spark: SparkSession) -> None:
        self.session = ref(spark)
        self.archives: set[str] = set()  # of the joins of the session
        self.told: set[tuple[str, str]] = set()

    @cached_property
    def _jlistener(self) -> Any:
        java: Any = SparkContext._jvm
        return java.PythonStreamingQueryListenerWrapper(_JsonCallback(self))

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Look at where a query writes, which nobody knew before."""
        spark = self.session()
        for told in misplaced(spark, str(event.id), sorted(self.archives)) if spark is not None else ():
            logger.error("query %s: %s: stop it, and begin anew with places apart", event.id, told)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Look at the metrics of a batch."""
        last = event.progress
        for name, row in last.observedMetrics.items():
            found = _numbers(row)
            if not _is_ours(found):
                continue
            least = found.get(MIN_RECALL)
            if least is not None and found["recall"] < least:
                logger.warning(
                    "join %s: batch %s has a recall of %.4f, below min_recall %g (%d outputs lost)",
                    name, last.batchId, found["recall"], least, found["lost"],
                )  # fmt: skip
            if found["total_n_null"] and (str(last.id), name) not in self.told:
                self.told.add((str(last.id), name))
                logger.warning("join %s: %d rows without a time were dropped; they are counted as n_null", name, found["total_n_null"])

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing is to be said."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Nothing is to be said."""


_watches: WeakKeyDictionary[SparkSession, _Watch] = WeakKeyDictionary()


def watch(spark: SparkSession, least: float | None, archive: str | None = None) -> None:
    """Warn, from now on, of what joins lose below their `least` recall, which is among their metrics, and of an archive in a sink.

    Not under Spark Connect, where a listener is a thread of the client that would keep it from ending.
    """
    if is_remote():
        if least is not None:
            raise PenstockError(
                f"min_recall must fail under Spark Connect, got {least:g} to warn of: "
                f'say min_recall=({least:g}, "fail"), or look at ps.progress(query)'
            )
        return
    if spark not in _watches:
        _watches[spark] = _Watch(spark)
        spark.streams.addListener(_watches[spark])
    if archive is not None:
        _watches[spark].archives.add(archive)
