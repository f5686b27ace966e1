"""The data sets on which policies are judged: what a part of each has, from small files of the same form."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.experiments.policy_sets import PARTS, SETS, WINDOWS

START = datetime(2023, 1, 2)


def write(path, **columns):
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), path)


@pytest.fixture
def data(tmp_path):
    """All real data sets, in small."""
    trips = 400
    for month in (1, 2, 3):
        begins = [START + timedelta(days=28 * (month - 1), minutes=3 * trip) for trip in range(trips)]
        begins[0] = datetime(2009, 1, 1)  # a clock error
        write(
            tmp_path / "nyc_green_taxi" / f"green_tripdata_2023-0{month}.parquet",
            lpep_pickup_datetime=begins, lpep_dropoff_datetime=[begin + timedelta(minutes=10) for begin in begins],
            PULocationID=[trip % 7 for trip in range(trips)], DOLocationID=[trip % 3 for trip in range(trips)],
            fare_amount=[float(trip % 30) - 1 for trip in range(trips)],
        )  # fmt: skip
    urls = ["/", "/logo.GIF", "/a.html", "/b.jpg"]
    hosts = [f"host{row % 11}" for row in range(1000)]
    times = [START + timedelta(seconds=9 * row) for row in range(1000)]
    write(tmp_path / "web_http_1995" / "epa_http.parquet", host=hosts, url=(urls * 250), ts=times)
    write(tmp_path / "web_http_1995" / "nasa_http_19950801.parquet", host=hosts, url=(urls * 250), epoch_s=list(range(1000)))
    activities = ["Create Fine", "Send Fine", "Payment", "Insert Fine Notification", "Add penalty"]
    write(
        tmp_path / "road_traffic_fines" / "events.parquet",
        trace_no=[case for day in range(5) for case in range(200)], activity=[activities[day] for day in range(5) for _ in range(200)],
        ts=[START + timedelta(days=10 * day) for day in range(5) for _ in range(200)],
    )  # fmt: skip
    for year in (1929, 1930):
        reports = [datetime(year, 9, 20) + timedelta(hours=3 * report) for report in range(600)]
        write(
            tmp_path / "isd_weather_1929_1930" / f"isd_{year}.parquet",
            usaf=[f"{report % 5}" for report in range(600)], wban=["9"] * 600,
            lat=[50.4 + report % 3 / 10 for report in range(600)], ts=reports,
        )  # fmt: skip
    write(tmp_path / "msnbc_1999" / "sequences.parquet", pages=pa.array([[1, 2, 3, 14, 1]] * 1000, pa.list_(pa.int8())))
    return tmp_path


@pytest.mark.parametrize("name", SETS)
def test_every_part_of_every_set_is_a_trace_in_order(name, data):
    scale = 1.0 if SETS[name].folder else 0.02  # the files are small
    parts = [SETS[name].make(part, scale, data) for part in range(PARTS)]
    for trace in parts:
        assert trace.n_backwards == 0
        assert set(trace.stream) == set(range(trace.n_streams))
    again = SETS[name].make(1, scale, data)
    assert again.table.equals(parts[1].table)
    assert SETS[name].folder or not parts[0].table.equals(parts[1].table)


def test_a_set_is_there_where_its_files_are(data):
    assert all(one.is_there(data) for one in SETS.values())
    assert {name for name, one in SETS.items() if one.is_there(None)} == {name for name, one in SETS.items() if not one.folder}


def test_generated_streams_last_for_thirty_windows():
    for name in ("zipf", "sessions", "orders-zipf"):
        trace = SETS[name].make(0, 1.0, None)
        assert trace.time.max() == pytest.approx(WINDOWS * SETS[name].window, rel=0.01)


def test_streams_change_in_the_middle():
    trace = SETS["zipf-sessions"].make(0, 1.0, None)
    key, early = trace.table["key"].to_numpy(), trace.time < WINDOWS * 600 // 2
    assert key[early].max() < 2000 <= key[~early].min() + 100  # some of the rarest keys may not have come
    assert not set(key[early]) & set(key[~early])


def test_trips_without_clock_errors_and_with_fares(data):
    trace = SETS["taxi"].make(0, 1.0, data)
    assert trace.streams == ("drop-off", "pickup")
    parts = [SETS["taxi"].make(part, 1.0, data) for part in range(PARTS)]
    assert sum(map(len, parts)) == 2 * 3 * 399
    fares = SETS["taxi-fares"].make(0, 1.0, data)
    assert fares.importance is not None
    assert (fares.importance >= 0.01).all()


def test_requests_are_pages_and_images(data):
    for name in ("epa", "nasa"):
        trace = SETS[name].make(0, 1.0, data)
        assert trace.stream.tolist() == [0, 1] * 100


def test_fines_are_every_fifth_case_without_payments(data):
    for name, n in (("fines", 2), ("fines-4", 4)):
        trace = SETS[name].make(3, 1.0, data)
        assert len(trace) == n * 200 // PARTS
        assert set(trace.table["key"].to_numpy() % PARTS) == {3}
        assert len(np.unique(trace.time)) == len(trace)  # a day's events are played one after the other


def test_weather_is_the_last_quarter_of_both_years(data):
    parts = [SETS["station"].make(part, 1.0, data) for part in range(PARTS)]
    count = {1929: 0, 1930: 0}
    for year in count:
        reports = [datetime(year, 9, 20) + timedelta(hours=3 * report) for report in range(600)]
        count[year] = sum(report.month >= 10 for report in reports)
    assert sum(int((trace.stream == 0).sum()) for trace in parts) == count[1929]
    assert sum(int((trace.stream == 1).sum()) for trace in parts) == count[1930]
    assert len(set(parts[0].key.tolist())) == 5
    assert len(set(SETS["latitude"].make(0, 1.0, data).key.tolist())) == 2  # 50.4 and 50.6 by degrees: 50 and 51; 50.5 is 50


def test_visits_keep_the_order_of_pages(data):
    trace = SETS["msnbc-news"].make(0, 1.0, data)
    seen: dict[int, list[int]] = {}
    for key, stream in zip(trace.key.tolist(), trace.stream.tolist(), strict=True):
        seen.setdefault(key, []).append(stream)
    assert {tuple(way) for way in seen.values()} <= {(0,), (0, 1), (0, 1, 0)}
    assert sum(len(way) == 3 for way in seen.values()) > 0.9 * len(seen)
    assert len(seen) == 1000 // PARTS
