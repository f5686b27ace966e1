"""Arrival order on real streams, four sizes of memory: python benchmarks/arrival_orders_real.py FOLDER [--plot FILE] [NAME ...]

FOLDER holds the data sets road_traffic_fines and web_http_1995.

* fines4   create, send, notify, penalty of 150,370 fines, by case, window 220 days; every key once in each stream, in one order
* fines5   the same with the hand-over to credit collection, window 1,100 days
* epa      requests for four files of one page, by host, window an hour; hosts return
* nasa     the same at another server
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import penstock as ps
from penstock.experiments.arrival_orders import MEMORIES, POLICIES, play
from penstock.experiments.arrival_orders_chart import recall_by_trace
from penstock.experiments.figures import save

DAY = 100_000  # ticks: a day's events are played one after the other
ACTIVITIES = ("Create Fine", "Send Fine", "Insert Fine Notification", "Add penalty", "Send for Credit Collection")
EPA = ("/", "/icons/circle_logo_small.gif", "/logos/small_gopher.gif", "/logos/us-flag.gif")
NASA = ("/ksc.html", "/images/ksclogo-medium.gif", "/images/NASA-logosmall.gif", "/images/MOSAIC-logosmall.gif")


def fines(folder: Path, n: int, days: int) -> tuple[ps.Trace, int]:
    """Events by activity, in the order of the log, which is that of time."""
    table = pq.read_table(folder / "road_traffic_fines" / "events.parquet", columns=["case_id", "activity", "ts"])
    number = {name: place for place, name in enumerate(ACTIVITIES[:n])}
    stream = np.array([number.get(name, -1) for name in table["activity"].to_pylist()])
    mine = stream >= 0
    day = np.asarray(table["ts"].combine_chunks().cast("timestamp[s]").cast("int64"))[mine] // 86_400
    begin = np.searchsorted(day, day, side="left")
    time = (day - day[0]) * DAY + np.arange(len(day)) - begin
    case = np.unique(np.asarray(table["case_id"].to_pylist())[mine], return_inverse=True)[1]
    names = np.array(["C", "S", "N", "P", "K"])
    return ps.Trace({"stream": names[stream[mine]], "time": time, "key": case}, streams=tuple(names[:n].tolist())), days * DAY


def requests(folder: Path, file: str, clock: str, urls: tuple[str, ...]) -> tuple[ps.Trace, int]:
    """Requests for four files; a few lines of the log are some seconds late and are put in order."""
    table = pq.read_table(folder / "web_http_1995" / file, columns=["host", "url", clock])
    seconds = np.asarray(table[clock].combine_chunks().cast("timestamp[s]").cast("int64") if clock == "ts" else table[clock])
    number = {url: place for place, url in enumerate(urls)}
    stream = np.array([number.get(url, -1) for url in table["url"].to_pylist()])
    rows = np.flatnonzero(stream >= 0)
    rows = rows[np.argsort(seconds[rows], kind="stable")]
    host = np.unique(np.asarray(table["host"].to_pylist())[rows], return_inverse=True)[1]
    names = np.array(["A", "B", "C", "D"])
    return ps.Trace({"stream": names[stream[rows]], "time": seconds[rows], "key": host}, streams=tuple(names.tolist())), 3600


TRACES: dict[str, Any] = {
    "fines4": lambda folder: fines(folder, 4, 220),
    "fines5": lambda folder: fines(folder, 5, 1100),
    "epa": lambda folder: requests(folder, "epa_http.parquet", "ts", EPA),
    "nasa": lambda folder: requests(folder, "nasa_http_19950801.parquet", "epoch_s", NASA),
}


def compare(name: str, trace: ps.Trace, window: int) -> dict[str, list[dict[str, Any]]]:
    """Print the recall of every policy, and return it by allocation."""
    whole = ps.exact(trace, window=window)
    print(f"{name}: {len(trace):,} tuples, {whole.n_output:,} outputs, up to {whole.peak_memory:,} held")
    _turnover(trace, whole.peak_memory)
    out = {}
    for allocation in ("fixed", "variable"):
        found = play(trace, window, POLICIES, MEMORIES, allocation=allocation)
        print(f"  {allocation:9}" + "".join(f"{policy:>13}" for policy in POLICIES))
        for memory in MEMORIES:
            print(f"  {memory:9.0%}" + "".join(f"{found[memory, policy]:13.1%}" for policy in POLICIES), flush=True)
        title = f"{name}, {'a memory per stream' if allocation == 'fixed' else 'one memory'}"
        out[title] = [{"policy": policy, "memory": memory, "recall": value} for (memory, policy), value in found.items()]
    return out


def _turnover(trace: ps.Trace, peak: int) -> None:
    """How long a key takes through all streams, and how long an equal share of memory lasts: too short for who drops the oldest."""
    first, last, streams = {}, {}, {}
    for key, time, stream in zip(trace.key.tolist(), trace.time.tolist(), trace.stream.tolist(), strict=True):
        first.setdefault(key, time)
        last[key] = time
        streams[key] = streams.get(key, 0) | 1 << stream
    ways = np.array([last[key] - first[key] for key, seen in streams.items() if seen == (1 << trace.n_streams) - 1])
    span = int(trace.time.max() - trace.time.min())
    rate = np.count_nonzero(trace.stream == 0) / span
    lasts = ", ".join(f"{memory:.0%} {memory * peak / trace.n_streams / rate:,.0f}" for memory in MEMORIES)
    print(f"  ways through all streams take {np.quantile(ways, 0.05):,.0f} to {np.quantile(ways, 0.95):,.0f} ticks, half of them")
    print(f"  {np.median(ways):,.0f}; an equal share of memory holds the last so many ticks of the first stream: {lasts}")


if __name__ == "__main__":
    folder, *rest = sys.argv[1:]
    plot = rest.pop(rest.index("--plot") + 1) if "--plot" in rest else None
    wanted = [name for name in rest if name != "--plot"] or list(TRACES)
    panels: dict[str, list[dict[str, Any]]] = {}
    for name in wanted:
        panels |= compare(name, *TRACES[name](Path(folder)))
    if plot:
        save(recall_by_trace(panels), Path(plot))
