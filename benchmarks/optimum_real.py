"""The optimum on real streams, for ten sizes of memory: python benchmarks/optimum_real.py FOLDER [taxi] [weather]

FOLDER holds the data sets nyc_green_taxi and isd_weather_1929_1930.

* taxi     drop-offs against pickups by zone, January to March 2023, window 30 minutes
* weather  reports of October to December 1929 against those of 1930, a year earlier, by degree of latitude, window 24 hours
"""

import sys
from pathlib import Path
from time import process_time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import penstock as ps
from penstock.core.problem import Problem
from penstock.optimum.certificate import verify


def merged(sides: dict[str, tuple[pa.Array, pa.Array]]) -> ps.Trace:
    """One trace of streams given as (seconds, keys), in the order of time."""
    names = np.concatenate([[name] * len(time) for name, (time, _) in sides.items()])
    time, key = (np.concatenate([np.asarray(columns[which]) for columns in sides.values()]) for which in (0, 1))
    order = np.argsort(time, kind="stable")
    return ps.Trace({"stream": names[order], "time": time[order], "key": key[order]}, streams=tuple(sides))


def seconds(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks().cast(pa.timestamp("s"), safe=False).cast(pa.int64())


def taxi(folder: Path) -> tuple[ps.Trace, int]:
    sides = {"dropoffs": ("lpep_dropoff_datetime", "DOLocationID"), "pickups": ("lpep_pickup_datetime", "PULocationID")}
    wanted = [name for pair in sides.values() for name in pair]
    files = sorted((folder / "nyc_green_taxi").glob("green_tripdata_*.parquet"))
    table = pa.concat_tables([pq.read_table(path, columns=wanted) for path in files])
    times = seconds(table["lpep_pickup_datetime"])
    within = (np.asarray(times) >= 1_672_531_200) & (np.asarray(times) < 1_680_307_200)  # some clocks were wrong
    table = table.filter(pa.array(within))
    return merged({name: (seconds(table[time]), table[key].combine_chunks()) for name, (time, key) in sides.items()}), 1800


def weather(folder: Path) -> tuple[ps.Trace, int]:
    sides = {}
    for year in (1929, 1930):
        table = pq.read_table(folder / "isd_weather_1929_1930" / f"isd_{year}.parquet")
        table = table.filter(pc.and_(pc.greater_equal(pc.month(table["ts"]), 10), pc.is_valid(table["lat"])))
        time = np.asarray(seconds(table["ts"])) - (365 * 86_400 if year == 1930 else 0)
        sides[str(year)] = (time, np.round(np.asarray(table["lat"])).astype(np.int64))
    return merged(sides), 86_400


def sweep(name: str, trace: ps.Trace, window: int) -> None:
    exact = ps.exact(trace, window=window)
    print(f"{name}: {len(trace):,} tuples, {exact.n_output:,} outputs, up to {exact.peak_memory:,} held")
    print("   memory   optimum  of exact  seconds  certified     prob  of optimum     fifo  of optimum")
    for memory in np.linspace(exact.peak_memory / 10, exact.peak_memory, 11)[:10].astype(int).tolist():
        began = process_time()
        best = ps.optimum(trace, window=window, memory=memory)
        spent = process_time() - began
        problem = Problem.of(trace.streams, window=window, memory=memory)
        proved = best.method == "exact" or verify(trace, problem, best.solution).ok
        rivals = [ps.simulate(trace, window=window, memory=memory, policy=policy, stats="whole").n_output for policy in ("prob", "fifo")]
        shown = "".join(f" {n:8,} {n / best.n_output:11.1%}" for n in rivals)
        print(
            f"{memory:9,} {best.n_output:9,} {best.n_output / exact.n_output:9.1%} {spent:8.2f} {'yes' if proved else 'NO':>10}{shown}",
            flush=True,
        )


if __name__ == "__main__":
    folder, *wanted = sys.argv[1:]
    for name, make in {"taxi": taxi, "weather": weather}.items():
        if not wanted or name in wanted:
            sweep(name, *make(Path(folder)))
