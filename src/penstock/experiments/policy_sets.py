"""The streams on which policies are judged: those that people have, and those of the papers.

A set has five parts: five seeds of a generator, or five parts of a real data set, cut by rows (so many in the order of time) or by keys
where a window is long. `scale` makes a part smaller, for a quick look: 0.01 is a hundredth of its rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.core.trace import Bools, Ints, Trace
from penstock.generator.delays import Delay
from penstock.generator.generate import generate
from penstock.generator.sessions import DELAY

PARTS = 5
WINDOWS = 30  # how long generated streams are
_DAY = 100_000  # ticks: the events of a day have no times, and are played one after the other
_FINES = ("Create Fine", "Send Fine", "Insert Fine Notification", "Add penalty")
_VISITORS = 40_000
_OF_FARES = 0.02  # of the trips: where values differ, policies by probability are played step by step


@dataclass(frozen=True)
class DataSet:
    """Streams by name: what they are, the window that they are joined in, and how a part of them is made (seed, scale, folder)."""

    name: str
    title: str
    window: int
    make: Callable[[int, float, Path | None], Trace]
    folder: str = ""  # among the data sets; generated streams have none

    def is_there(self, data: Path | None) -> bool:
        """Whether its files are."""
        return not self.folder or (data is not None and (data / self.folder).is_dir())


def _made(
    window: int, seed: int, scale: float, _: Path | None, *, rate: float = 1.0, then: dict[str, Any] | None = None, **how: Any
) -> Trace:
    """Generated streams; with `then` of another kind from the middle on. Smaller ones are both shorter and thinner."""
    part = math.sqrt(scale)
    n, rate = max(3, round(WINDOWS * part)) * window, rate * part if scale < 1 else rate
    if then is None:
        return generate(n, rate=rate, seed=seed, **how)
    return generate(n - n // 2, rate=rate, seed=seed, **then, after=generate(n // 2, rate=rate, seed=seed, **how))


def _generated(name: str, title: str, window: int, **how: Any) -> DataSet:
    return DataSet(name, title, window, partial(_made, window, **how))


def _cut(part: int, scale: float, names: tuple[str, ...], **columns: Any) -> Trace:
    """A part of the rows, which are brought into the order of time."""
    order = np.argsort(columns["time"], kind="stable")
    rows = np.array_split(order, PARTS)[part]
    rows = rows[: max(100, round(scale * len(rows)))]
    taken = {name: values[rows] for name, values in columns.items()}
    return Trace(taken | {"stream": np.array(names)[taken["stream"]], "time": taken["time"] - taken["time"][0]}, streams=names)


def _taxis(part: int, scale: float, data: Path | None, *, fares: bool) -> Trace:
    """Drop-offs and pickups by zone; trips with a clock error are left out."""
    assert data is not None
    scale *= _OF_FARES if fares else 1.0
    columns = ["lpep_dropoff_datetime", "lpep_pickup_datetime", "DOLocationID", "PULocationID", "fare_amount"]
    files = [data / "nyc_green_taxi" / f"green_tripdata_2023-0{month}.parquet" for month in (1, 2, 3)]
    table = pa.concat_tables([pq.read_table(file, columns=columns) for file in files])
    ends, begins = (_seconds(table[name]) for name in columns[:2])
    first, last = (int(np.datetime64(day, "s").astype(np.int64)) for day in ("2023-01-01", "2023-04-01"))
    good = (begins >= first) & (ends < last)
    time = np.concatenate([ends[good], begins[good]])
    key = np.concatenate([np.asarray(table[name])[good] for name in columns[2:4]]).astype(np.int64)
    stream = np.repeat([0, 1], int(good.sum()))
    worth = {"importance": np.tile(np.maximum(0.01, np.asarray(table["fare_amount"])[good]), 2)} if fares else {}
    return _cut(part, scale, ("drop-off", "pickup"), stream=stream, time=time, key=key, **worth)


def _requests(part: int, scale: float, data: Path | None, *, file: str, clock: str) -> Trace:
    """Pages and images by host."""
    assert data is not None
    table = pq.read_table(data / "web_http_1995" / file, columns=["host", "url", clock])
    time = _seconds(table[clock]) if pa.types.is_timestamp(table[clock].type) else np.asarray(table[clock]).astype(np.int64)
    image = np.asarray(pc.match_substring_regex(pc.utf8_lower(table["url"]), r"\.(gif|jpe?g|xbm|bmp)$"))
    return _cut(part, scale, ("page", "image"), stream=image.astype(np.int64), time=time, key=_numbered(table["host"]))


def _fines(part: int, scale: float, data: Path | None, *, n: int) -> Trace:
    """Events of fines, by case; every fifth case."""
    assert data is not None
    table = pq.read_table(data / "road_traffic_fines" / "events.parquet", columns=["trace_no", "activity", "ts"])
    stream = np.asarray(pc.index_in(table["activity"], value_set=pa.array(_FINES[:n])).fill_null(-1)).astype(np.int64)
    case = np.asarray(table["trace_no"]).astype(np.int64)
    mine: Bools = (stream >= 0) & (case % PARTS == part)
    day = _seconds(table["ts"])[mine] // 86_400
    few = max(100, round(scale * len(day)))
    day, stream, case = day[:few], stream[mine][:few], case[mine][:few]
    time = (day - day[0]) * _DAY + np.arange(len(day)) - np.searchsorted(day, day, side="left")
    names = ("created", "sent", "notified", "penalty")[:n]
    return Trace({"stream": np.array(names)[stream], "time": time, "key": case}, streams=names)


def _weather(part: int, scale: float, data: Path | None, *, by: str) -> Trace:
    """Reports of October to December of two years, the second moved back by a year."""
    assert data is not None
    times: list[Ints] = []
    keys: list[Any] = []
    for year in (1929, 1930):
        table = pq.read_table(data / "isd_weather_1929_1930" / f"isd_{year}.parquet", columns=["usaf", "wban", "lat", "ts"])
        table = table.filter(pc.greater_equal(pc.month(table["ts"]), 10))
        times.append(_seconds(table["ts"]) - (year - 1929) * 365 * 86_400)
        stations = zip(table["usaf"].to_pylist(), table["wban"].to_pylist(), strict=True)
        keys += stations if by == "station" else map(round, table["lat"].to_pylist())
    stream = np.repeat([0, 1], [len(time) for time in times])
    number = {place: at for at, place in enumerate(dict.fromkeys(keys))}
    key = np.array([number[place] for place in keys])
    return _cut(part, scale, ("1929", "1930"), stream=stream, time=np.concatenate(times), key=key)


def _visits(part: int, scale: float, data: Path | None, *, window: int, pages: tuple[int, int]) -> Trace:
    """Visits of a day by user, two categories of pages. Orders of visits are real; times are not recorded, and are those of sessions."""
    assert data is not None
    visits = pq.read_table(data / "msnbc_1999" / "sequences.parquet")["pages"].combine_chunks()
    rng = np.random.default_rng(np.random.SeedSequence(part, spawn_key=(7,)))
    users = np.arange(part, len(visits), PARTS)
    users = rng.choice(users, size=min(len(users), max(100, round(scale * _VISITORS))), replace=False)
    mine = visits.take(pa.array(np.sort(users)))
    lengths, page = np.asarray(pc.list_value_length(mine)).astype(np.int64), np.asarray(mine.flatten())
    n, ends = WINDOWS * window, np.cumsum(lengths)
    waited = np.cumsum(Delay.parse(DELAY).draw(rng, len(page)))
    user = np.repeat(np.arange(len(mine)), lengths)
    time = (rng.integers(0, n, len(mine)) - waited[ends - lengths])[user] + waited
    rows = np.flatnonzero((time < n) & np.isin(page, pages))
    rows = rows[np.argsort(time[rows], kind="stable")]
    stream = np.where(page[rows] == pages[0], "first", "second")
    return Trace({"stream": stream, "time": time[rows], "key": user[rows]}, streams=("first", "second"))


def _seconds(column: pa.ChunkedArray) -> Ints:
    return np.asarray(column.combine_chunks().cast(pa.timestamp("s")).cast(pa.int64()))


def _numbered(column: pa.ChunkedArray) -> Ints:
    return np.asarray(column.combine_chunks().dictionary_encode().indices).astype(np.int64)


_ORDERS: dict[str, Any] = {"orders": "listed", "alone": 0.3, "delay": "gamma:2:250"}
_ZIPF: dict[str, Any] = {"keys": 2000, "ranks": "correlated"}
_SESSIONS = {"sessions": "5:20"}
_WEB, _TAXI, _MSNBC, _WEATHER, _LAW = "web_http_1995", "nyc_green_taxi", "msnbc_1999", "isd_weather_1929_1930", "road_traffic_fines"
_HOUR = 3600

SETS: dict[str, DataSet] = {
    one.name: one
    for one in (
        _generated("zipf", "Das: Zipf(1), 50 keys", 400),
        _generated("uniform", "Das: uniform, 50 keys", 400, skew=0.0),
        _generated("kwon", "Kwon: unique keys, four streams, orders by Zipf(1)", 1000, streams=("R", "S", "T", "U"), orders=1.0, delay=200,
                   first="complete"),
        _generated("many-keys", "Zipf(1), 2,000 keys", 1000, **_ZIPF),
        _generated("drift", "the same, all keys renamed every three windows", 1000, **_ZIPF, drift=3000),
        _generated("orders", "orders: unique keys, a partner for 70 %, gamma delays", 1000, rate=0.85, **_ORDERS),
        _generated("sessions", "sessions: 5 to 20 clicks, 5 to 60 s apart, 10 minutes", 600, rate=2.0, **_SESSIONS),
        _generated("zipf-sessions", "Zipf(1), 2,000 keys, then sessions", 600, rate=2.0, **_ZIPF, then=_SESSIONS),
        _generated("orders-zipf", "orders, then Zipf(1), 2,000 keys", 1000, **_ORDERS, then=_ZIPF),
        DataSet("taxi", "taxi drop-offs and pickups by zone, 30 minutes", _HOUR // 2, partial(_taxis, fares=False), _TAXI),
        DataSet("epa", "EPA web server: pages and images by host, 5 minutes", 300,
                partial(_requests, file="epa_http.parquet", clock="ts"), _WEB),
        DataSet("nasa", "NASA web server: the same", 300, partial(_requests, file="nasa_http_19950801.parquet", clock="epoch_s"), _WEB),
        DataSet("msnbc-news", "msnbc.com: front page and news by user, 10 minutes", 600,
                partial(_visits, window=600, pages=(1, 2)), _MSNBC),
        DataSet("msnbc-sports", "msnbc.com: front page and sports", 600, partial(_visits, window=600, pages=(1, 14)), _MSNBC),
        DataSet("fines", "traffic fines: created and sent, 150 days", 150 * _DAY, partial(_fines, n=2), _LAW),
        DataSet("fines-4", "traffic fines: created, sent, notified, penalty, 220 days", 220 * _DAY, partial(_fines, n=4), _LAW),
        DataSet("station", "weather reports of two years by station, a day", 24 * _HOUR, partial(_weather, by="station"), _WEATHER),
        DataSet("latitude", "the same by latitude, 6 hours", 6 * _HOUR, partial(_weather, by="latitude"), _WEATHER),
        _generated("importance", "Ojewole: Zipf(1), 50 keys, rare ones important (value)", 60, importance="rare"),
        DataSet("taxi-fares", "taxi drop-offs and pickups, importance: the fare (value)", _HOUR // 2, partial(_taxis, fares=True), _TAXI),
    )
}  # fmt: skip
"""All sets, by name."""
