"""A board as data for the live page: by join, its numbers and, as columns, the points of its last hour."""

from __future__ import annotations

import json
import math
import time
from typing import TypeVar

from penstock.spark.watch.board import SUMMED, Board, Join, Query

Value = TypeVar("Value")


def page_data(board: Board) -> bytes:
    """All that the page shows, as JSON; a number that JSON does not have is null."""
    with board.lock:
        queries = [_query(query) for query in board.queries.values()]
    return json.dumps({"now": time.time(), "queries": queries}, allow_nan=False).encode()


def _query(query: Query) -> dict[str, object]:
    names = ("id", "name", "state", "error", "batch", "time")
    return {name: getattr(query, name) for name in names} | {"joins": [_join(name, join) for name, join in query.joins.items()]}


def _join(name: str, join: Join) -> dict[str, object]:
    columns: dict[str, list[float | None]] = {"time": [point.time for point in join.points]}
    columns["batches"] = [point.batches for point in join.points]
    columns["held"] = [point.held for point in join.points]
    columns |= {column: [_finite(point.sums[column]) for point in join.points] for column in SUMMED}
    numbers = {metric: _finite(value) for metric, value in join.numbers.items()}
    told = {"name": name, "unit": join.unit, "held": join.held, "rows_per_second": join.rows_per_second}
    return told | {"numbers": numbers, "points": columns}


def _finite(value: Value) -> Value | None:
    return None if isinstance(value, float) and not math.isfinite(value) else value
