"""A plan keeps its word: what it says of a memory is what a query on Spark keeps of later data of the same kind."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import penstock as ps

pytest.importorskip("pyspark")

from places import SHARED
from sparks import ON_SPARK

pytestmark = [*ON_SPARK, pytest.mark.slow]


def trips(month: int) -> ps.Trace:
    """Drop-offs and pickups of a month."""
    table = pq.read_table(SHARED / f"nyc_green_taxi/green_tripdata_2023-{month:02}.parquet")
    parts = []
    for stream, when, where in (("dropoff", "lpep_dropoff_datetime", "DOLocationID"), ("pickup", "lpep_pickup_datetime", "PULocationID")):
        time = table[when].cast(pa.timestamp("us", "UTC"))
        part = pa.table({"stream": [stream] * len(table), "time": time, "key": table[where]})
        parts.append(part.filter(pc.and_(pc.equal(pc.year(time), 2023), pc.equal(pc.month(time), month))))
    return ps.Trace(pa.concat_tables(parts).sort_by("time"), streams=["dropoff", "pickup"])


def requests(begin: float, end: float) -> ps.Trace:
    """Requests for two pages of a web server, by host, between two hours of a day."""
    table = pq.read_table(SHARED / "web_http_1995/epa_http.parquet")
    day, parts = dt.datetime(1995, 8, 30), []
    for stream, url in (("page", "/"), ("logo", "/icons/circle_logo_small.gif")):
        rows = table.filter(pc.equal(table["url"], url))
        part = pa.table({"stream": [stream] * len(rows), "time": rows["ts"].cast(pa.timestamp("us", "UTC")), "key": rows["host"]})
        at = [(day + dt.timedelta(hours=hours)).replace(tzinfo=dt.UTC) for hours in (begin, end)]
        low, high = (pa.scalar(one, pa.timestamp("us", "UTC")) for one in at)
        parts.append(part.filter(pc.and_(pc.greater_equal(part["time"], low), pc.less(part["time"], high))))
    return ps.Trace(pa.concat_tables(parts).sort_by("time"), streams=["page", "logo"])


@pytest.mark.parametrize(
    ("now", "later", "window"),
    [
        pytest.param(lambda: trips(1), lambda: trips(2), "30 minutes", id="a month of trips"),
        pytest.param(lambda: requests(8, 12.5), lambda: requests(12.5, 17), "5 minutes", id="a morning of requests"),
    ],
)
def test_what_a_plan_promises_is_kept_on_spark(spark, tmp_path, now, later, window):
    if not (SHARED / "nyc_green_taxi").is_dir():
        pytest.skip(f"the shared data sets are not in {SHARED}")
    found = ps.plan(now(), window=window, recall=0.9)
    rows = later()
    file = tmp_path / "later.parquet"
    pq.write_table(rows.table, file)
    frame = spark.read.parquet(str(file))
    streams = {name: ps.stream(frame.where(frame.stream == name).drop("stream"), time="time", window=window) for name in rows.streams}
    joined = ps.join(streams, on="key", memory=found.memory, policy=found.policy, shards=found.shards)
    recall = joined.count() / ps.exact(rows, window=window).n_output
    assert found.shards == 1 and 0.9 <= found.kept.share < 0.93 and found.kept.low <= recall <= found.kept.high
