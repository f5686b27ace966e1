"""docs/first-hour.md, as a new user would follow it: in an empty folder, in a process of its own, with a default Spark session."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import penstock as ps

pytest.importorskip("pyspark")
from sparks import ON_SPARK

pytestmark = [*ON_SPARK, pytest.mark.slow]

ROOT = Path(__file__).parent.parent
TAXI = ROOT.parent / "shared" / "data" / "nyc_green_taxi" / "green_tripdata_2023-01.parquet"

MORE = """
import pathlib
for one in pathlib.Path().glob("later-*/*"):
    one.rename(one.parent.name.removeprefix("later-") + "/" + one.name)
"""


def from_taxis(folder: Path) -> None:
    """A week of trips, a file per day; two more days for the second run."""
    trips = pq.read_table(TAXI)
    for side, when, zone in (("pickups", "lpep_pickup_datetime", "PULocationID"), ("dropoffs", "lpep_dropoff_datetime", "DOLocationID")):
        table = pa.table({"ts": trips[when].cast(pa.timestamp("us")), "zone": trips[zone], "trip": trips["line"]})
        days = pc.days_between(pa.scalar("2023-01-01").cast(pa.timestamp("us")), table["ts"])
        for day in range(9):
            write(folder, side, day, table.filter(pc.equal(days, day)).sort_by("ts"))


def generated(folder: Path) -> None:
    """The same without the shared data."""
    trace = ps.generate(6000, keys=60, skew=1.0, seed=5)
    for number, side in enumerate(("pickups", "dropoffs")):
        for day, trip in enumerate(np.array_split(np.flatnonzero(trace.stream == number), 9)):
            ts = pa.array(1_672_531_200_000_000 + 20_000_000 * trace.time[trip], pa.timestamp("us"))
            write(folder, side, day, pa.table({"ts": ts, "zone": pa.array(trace.key[trip].astype(np.int32)), "trip": trip}))


def write(folder: Path, side: str, day: int, table: pa.Table) -> None:
    place = folder / (side if day < 7 else f"later-{side}") / f"{day}.parquet"
    place.parent.mkdir(exist_ok=True, parents=True)
    pq.write_table(table, place)
    os.utime(place, (1_700_000_000 + day, 1_700_000_000 + day))


def script() -> str:
    """The blocks of the page, and what it leaves to the reader."""
    text = (ROOT / "docs" / "first-hour.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (second,) = [number for number, block in enumerate(blocks) if block.startswith("second = run(")]
    blocks.insert(second, MORE)
    return "\n".join(blocks)


def check(said: str) -> None:
    """What the script prints: two recalls, and the rows that were joined in time and later, all that there are."""
    recalls = [float(found) for found in re.findall(r"recall (\d+\.\d)%", said)]
    assert len(recalls) == 2 and 0 < recalls[0] < 100 and 0 < recalls[1] < 100
    joined, later = (
        int(found.replace(",", "")) for found in re.search(r"([\d,]+) rows were joined in time, ([\d,]+) later", said).groups()
    )
    exact = int(re.search(r"([\d,]+) rows: every one is there, once", said)[1].replace(",", ""))
    assert joined + later == exact and joined > 0 and later > 0


@pytest.mark.parametrize("rows", (generated, from_taxis))
def test_the_first_hour_goes_as_the_page_says(tmp_path, rows):
    if rows is from_taxis and not TAXI.exists():
        pytest.skip(f"needs {TAXI.name} of the shared data")
    rows(tmp_path)
    done = subprocess.run([sys.executable, "-c", script()], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    check(done.stdout)
