"""Spark's types in Arrow's terms."""

from __future__ import annotations

import inspect
from typing import Any

from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema


def arrow_schema(schema: T.StructType) -> Any:
    """A schema of Spark in Arrow's terms, times in UTC: PySpark 4.2 asks for the zone, and before it there was no other.

    >>> arrow_schema(T.StructType([T.StructField("v", T.LongType())])).types
    [DataType(int64)]
    """
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **zone)


def arrow_type(kind: T.DataType) -> Any:
    """A type in Arrow's terms.

    >>> arrow_type(T.TimestampType())
    TimestampType(timestamp[us, tz=UTC])
    """
    return arrow_schema(T.StructType([T.StructField("it", kind)])).types[0]
