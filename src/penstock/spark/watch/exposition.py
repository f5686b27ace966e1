"""A board in Prometheus' terms: `total_n_shed` is the counter `penstock_n_shed_total`, `n_shed` the gauge `penstock_batch_n_shed`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock.spark.observe.metrics import OF_BATCH, OF_STATE
from penstock.spark.watch.board import Board, Join, Query

_TOTAL, _MEMORY = "total_", "memory_"
_KINDS = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}


class Family(NamedTuple):
    """How a metric is called, what it is and what it says."""

    name: str
    kind: str
    help: str


class Exposition(Collector):
    """Collects a board for a registry."""

    def __init__(self, board: Board) -> None:
        self.board = board

    def collect(self) -> Iterator[Metric]:
        """All metrics of all joins, those of one name together."""
        found: dict[str, Any] = {}
        with self.board.lock:
            for query in self.board.queries.values():
                labels = {"query": query.name, "query_id": query.id}
                for family, value in _of_query(query):
                    _add(found, family, labels, value)
                for name, join in query.joins.items():
                    _add_join(found, labels | {"join": name}, join)
        yield from found.values()


def exported(metric: str) -> Family:
    """The family of a metric. Counts of a life are counters; sums of values are not, since a value may be negative.

    >>> [exported(metric).name for metric in ("total_n_shed", "n_shed", "total_recall", "recall")]
    ['penstock_n_shed_total', 'penstock_batch_n_shed', 'penstock_recall', 'penstock_batch_recall']
    >>> exported("total_n_shed")
    Family(name='penstock_n_shed_total', kind='counter', help='tuples shed, in the life of the query')
    >>> exported("memory_click").name, exported("retained_rows").name
    ('penstock_memory_rows', 'penstock_retained_rows')
    """
    if metric.startswith(_MEMORY):
        return Family("penstock_memory_rows", "gauge", OF_STATE[_MEMORY])
    if metric in OF_STATE:
        return Family(f"penstock_{metric}", "gauge", OF_STATE[metric])
    if not metric.startswith(_TOTAL):
        return Family(f"penstock_batch_{metric}", "gauge", f"{OF_BATCH[metric]}, in the last batch")
    name = metric.removeprefix(_TOTAL)
    meaning = f"{OF_BATCH[name]}, in the life of the query"
    if name.startswith("n_") or name == "lost":
        return Family(f"penstock_{name}_total", "counter", meaning)
    return Family(f"penstock_{name}", "gauge", meaning)


def _of_query(query: Query) -> Iterator[tuple[Family, float]]:
    yield Family("penstock_query_running", "gauge", "whether a query runs (1), or has stopped or failed (0)"), query.state == "running"
    yield Family("penstock_query_failed", "gauge", "whether a query has failed"), query.state == "failed"
    if query.time is not None:
        yield Family("penstock_query_last_batch", "gauge", "id of the last batch of a query"), query.batch
        ended = "when the last batch of a query ended, in seconds since 1970"
        yield Family("penstock_query_last_batch_timestamp_seconds", "gauge", ended), query.time


def _add_join(found: dict[str, Any], labels: dict[str, str], join: Join) -> None:
    for metric, value in join.numbers.items():
        if isinstance(value, str):
            info = found.setdefault("info", InfoMetricFamily("penstock_join", "settings of a join", labels=list(labels)))
            info.add_metric(list(labels.values()), {metric: value})
        elif value is not None:
            stream = {"stream": metric.removeprefix(_MEMORY)} if metric.startswith(_MEMORY) else {}
            _add(found, exported(metric), labels | stream, value)
    _add(found, Family("penstock_batch_seconds", "gauge", "seconds that the last batch took"), labels, join.seconds)
    if join.rows_per_second is not None:
        rate = Family("penstock_batch_rows_per_second", "gauge", "tuples that came in per second of the last batch")
        _add(found, rate, labels, join.rows_per_second)


def _add(found: dict[str, Any], family: Family, labels: dict[str, str], value: float) -> None:
    if family.name not in found:
        found[family.name] = _KINDS[family.kind](family.name, family.help, labels=list(labels))
    found[family.name].add_metric(list(labels.values()), float(value))
