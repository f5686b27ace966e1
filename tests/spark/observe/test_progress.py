"""`ps.progress`, without Spark."""

from __future__ import annotations

import pytest

import penstock as ps

pytest.importorskip("pyspark")


class SparkSession:
    """What somebody might give in place of a query."""


@pytest.mark.parametrize(("given", "named"), ((SparkSession(), "SparkSession"), ("my query", "str"), (None, "NoneType")))
def test_what_is_no_query_is_refused(given, named):
    with pytest.raises(ps.PenstockError) as refused:
        ps.progress(given)
    assert str(refused.value) == (
        f"query must be a streaming query, as writeStream.start() returns it or one of spark.streams.active, got an object of type {named}"
    )
