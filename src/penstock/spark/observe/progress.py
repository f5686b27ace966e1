"""`ps.progress`: what a running join reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.listener import StreamingQueryProgress

from penstock.core.errors import PenstockError
from penstock.spark.observe.metrics import HAS_IMPORTANCE


class Joins(dict[str, dict[str, Any]]):
    """Metrics by the name of the join.

    >>> Joins()["penstock"]
    Traceback (most recent call last):
    ...
    penstock.core.errors.PenstockError: the query has reported nothing of a join 'penstock': since it was started no batch had rows for it
    """

    def __missing__(self, name: str) -> dict[str, Any]:
        others = f"; it has of {', '.join(self)}" if self else ": since it was started no batch had rows for it"
        raise PenstockError(f"the query has reported nothing of a join {name!r}{others}")


@dataclass(frozen=True)
class Progress:
    """The last batch of a query: its id and, by the name of each join, its metrics."""

    batch: int
    joins: Joins

    def __str__(self) -> str:
        lines = [f"batch {self.batch}"]
        for name, found in self.joins.items():
            lines.append(f"{name}:{'':28}{'batch':>14}{'in all':>16}")
            for metric in found:
                if not metric.startswith("total_") and (found.get(HAS_IMPORTANCE, True) or "value" not in metric):
                    total = found.get(f"total_{metric}")
                    lines.append(f"  {metric:32}{_text(found[metric]):>14}{'' if total is None else _text(total):>16}")
        return "\n".join(lines)


def progress(query: StreamingQuery) -> Progress | None:
    """The metrics of the last batch of a streaming query; None before the first. `print` shows a table.

    A batch without data, in which Spark only advances a watermark, does not reach the join: what is held and the totals of the query are
    those of the batch before.
    """
    try:
        last = query.lastProgress
    except AttributeError:
        raise PenstockError(
            "query must be a streaming query, as writeStream.start() returns it or one of spark.streams.active, "
            f"got an object of type {type(query).__name__}"
        ) from None
    if last is None:
        return None
    joins = joins_in(last)
    if any(None in numbers.values() for numbers in joins.values()):
        for earlier in reversed(query.recentProgress):
            before = joins_in(earlier)
            joins = {name: filled(numbers, before.get(name, {})) for name, numbers in joins.items()}
    return Progress(int(last.batchId), Joins(joins))


def joins_in(event: StreamingQueryProgress) -> dict[str, dict[str, Any]]:
    """The metrics of the joins in a progress event, by name."""
    found = {name: _numbers(row) for name, row in event.observedMetrics.items()}
    return {name: numbers for name, numbers in found.items() if _is_ours(numbers)}


def filled(numbers: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """The metrics of a batch; what Spark did not ask for is that of the batch before."""
    return {name: before.get(name) if value is None else value for name, value in numbers.items()}


def _numbers(row: Row | dict[str, Any]) -> dict[str, Any]:
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
    if isinstance(value, str):
        return value
    return f"{value:,.4f}" if isinstance(value, float) else f"{value:,}"
