"""The script of docs/first-hour.md, the data that it is run on, and what it must print."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import penstock as ps
from places import ROOT

MORE = """
import pathlib
for one in pathlib.Path().glob("later-*/*"):
    one.rename(one.parent.name.removeprefix("later-") + "/" + one.name)
"""


def generated(folder: Path) -> None:
    """Trips that need no shared data, a file per day; two more days for the second run."""
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
