"""Real streams in the place of those that the papers had: weather reports and taxi trips, web requests and visits of users.

Of each data set there are five parts, for five seeds: one after the other, by users, or all but another fifth of the hosts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.core.errors import PenstockError
from penstock.core.trace import Ints, Trace
from penstock.experiments.policy_table import data_folder
from penstock.generator.delays import Delay

PARTS = 5
WEATHER, TAXI, WEB, VISITS = "isd_weather_1929_1930", "nyc_green_taxi", "web_http_1995", "msnbc_1999"
_TRIPS = 40_000
_PAGES = ("/", "/icons/circle_logo_small.gif", "/logos/small_gopher.gif", "/logos/us-flag.gif")
_CATEGORIES = {"front page": 1, "news": 2, "business": 12, "sports": 14}
_DAY = 86_400
_PAUSE = "gamma:2:60"  # seconds between two visits, which are not recorded


def file(folder: str, name: str) -> Path:
    """A file of a data set; the environment names the folder of all."""
    data = data_folder()
    if data is None:
        raise PenstockError("PENSTOCK_DATA must name the folder of real data sets, got nothing")
    found = data / folder / name
    if not found.is_file():
        raise PenstockError(f"PENSTOCK_DATA must name a folder with {folder}/{name}, which is not in {data}")
    return found


@lru_cache(maxsize=2)
def weather(part: int) -> Trace:
    """Reports of October to December of two years by cells of ten degrees: the n-th report of each year at tick n."""
    keys = []
    for year in (1929, 1930):
        table = pq.read_table(file(WEATHER, f"isd_{year}.parquet"), columns=["lat", "lon", "ts"])
        table = table.filter(pc.greater_equal(pc.month(table["ts"]), 10)).sort_by("ts")
        cell = [np.floor(np.nan_to_num(np.asarray(table[name]).astype(np.float64)) / 10).astype(np.int64) for name in ("lat", "lon")]
        keys.append(np.array_split(cell[0] * 100 + cell[1], PARTS)[part])
    return _in_step(("1929", "1930"), keys)


@lru_cache(maxsize=2)
def taxi(part: int) -> Trace:
    """Pickups and drop-offs by zone: the n-th of each at tick n."""
    columns = ["lpep_pickup_datetime", "PULocationID", "lpep_dropoff_datetime", "DOLocationID"]
    months = [pq.read_table(file(TAXI, f"green_tripdata_2023-0{month}.parquet"), columns=columns) for month in (1, 2, 3)]
    table = pa.concat_tables(months)
    keys = []
    for time, zone in (("lpep_pickup_datetime", "PULocationID"), ("lpep_dropoff_datetime", "DOLocationID")):
        own = np.asarray(table.select([time, zone]).sort_by(time)[zone]).astype(np.int64)
        keys.append(np.array_split(own, PARTS)[part][:_TRIPS])
    return _in_step(("pickup", "drop-off"), keys)


def _in_step(names: tuple[str, str], keys: Sequence[Ints]) -> Trace:
    """One tuple of each stream per tick, as the paper's streams have."""
    n = min(map(len, keys))
    columns = {
        "stream": np.tile(np.array(names), n),
        "time": np.repeat(np.arange(n), 2),
        "key": np.column_stack([one[:n] for one in keys]).reshape(-1),
    }
    return Trace(columns, streams=names)


@lru_cache(maxsize=2)
def requests(part: int) -> Trace:
    """The first request of each host for each of four files that come with a page; another fifth of the hosts left out in each part."""
    table = pq.read_table(file(WEB, "epa_http.parquet"), columns=["host", "url", "ts"])
    stream = np.asarray(pc.index_in(table["url"], value_set=pa.array(_PAGES)).fill_null(-1)).astype(np.int64)
    host = np.asarray(table["host"].combine_chunks().dictionary_encode().indices).astype(np.int64)
    second = np.asarray(table["ts"].combine_chunks().cast(pa.timestamp("s")).cast(pa.int64()))
    mine = (stream >= 0) & (host % PARTS != part)
    return _first_visits(("page", "circle", "gopher", "flag"), stream[mine], second[mine] - second.min(), host[mine])


@lru_cache(maxsize=2)
def visits(part: int) -> Trace:
    """The first visit of each user to each of four categories: real orders of visits, but made-up times; a part of the users."""
    pages = pq.read_table(file(VISITS, "sequences.parquet"))["pages"].combine_chunks()
    rng = np.random.default_rng(np.random.SeedSequence(part, spawn_key=(8,)))
    users = np.sort(rng.choice(np.arange(part, len(pages), PARTS), size=40_000, replace=False))
    mine = pages.take(pa.array(users))
    lengths, page = np.asarray(pc.list_value_length(mine)).astype(np.int64), np.asarray(mine.flatten())
    user, ends = np.repeat(np.arange(len(mine)), lengths), np.cumsum(lengths)
    waited = np.cumsum(Delay.parse(_PAUSE).draw(rng, len(page)))
    time = (rng.integers(0, _DAY, len(mine)) - waited[ends - lengths])[user] + waited
    number = {category: at for at, category in enumerate(_CATEGORIES.values())}
    stream = np.array([number.get(one, -1) for one in range(18)])[page]
    here = (stream >= 0) & (time < _DAY)
    return _first_visits(tuple(_CATEGORIES), stream[here], time[here], user[here])


def _first_visits(names: tuple[str, ...], stream: Ints, time: Ints, key: Ints) -> Trace:
    order = np.argsort(time, kind="stable")
    columns: dict[str, Any] = {"stream": np.array(names)[stream[order]], "time": time[order], "key": key[order]}
    _, first = np.unique(np.column_stack([stream[order], key[order]]), axis=0, return_index=True)
    first.sort()
    return Trace({name: values[first] for name, values in columns.items()}, streams=names)
