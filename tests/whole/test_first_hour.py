"""docs/first-hour.md, as a new user would follow it: in an empty folder, in a process of its own, with a default Spark session."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from first_hour import check, generated, script, write
from places import SHARED

pytest.importorskip("pyspark")
from sparks import ON_SPARK

pytestmark = [*ON_SPARK, pytest.mark.slow]

TAXI = SHARED / "nyc_green_taxi" / "green_tripdata_2023-01.parquet"


def from_taxis(folder: Path) -> None:
    """A week of trips, a file per day; two more days for the second run."""
    trips = pq.read_table(TAXI)
    for side, when, zone in (("pickups", "lpep_pickup_datetime", "PULocationID"), ("dropoffs", "lpep_dropoff_datetime", "DOLocationID")):
        table = pa.table({"ts": trips[when].cast(pa.timestamp("us")), "zone": trips[zone], "trip": trips["line"]})
        days = pc.days_between(pa.scalar("2023-01-01").cast(pa.timestamp("us")), table["ts"])
        for day in range(9):
            write(folder, side, day, table.filter(pc.equal(days, day)).sort_by("ts"))


@pytest.mark.parametrize("rows", (generated, from_taxis))
def test_the_first_hour_goes_as_the_page_says(tmp_path, rows):
    if rows is from_taxis and not TAXI.exists():
        pytest.skip(f"needs {TAXI.name} of the shared data")
    rows(tmp_path)
    done = subprocess.run([sys.executable, "-c", script()], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    check(done.stdout)
