"""What `ep` costs on unique keys, beside policies that keep no statistics of keys and policies that do.

Run: python benchmarks/patterns.py [tuples]

Four streams; every key visits all of them once, in one order, after a delay in each. Processor time, best of four, one memory for all
streams and then one for each.
"""

from __future__ import annotations

import sys
from time import process_time

import numpy as np

import penstock as ps

STREAMS, MEMORY, WINDOW = "ABCD", 4_000, 20_000
POLICIES = ("fifo", "kwon-random", "ep", "prob", "output", "frequency")


def visits(tuples: int) -> ps.Trace:
    """The keys 0, 1, 2, ..., each in all streams."""
    rng, n = np.random.default_rng(5), len(STREAMS)
    key = np.tile(np.arange(tuples // n), n)
    stream = np.repeat(np.arange(n), tuples // n)
    time = (key + 400 * stream + rng.integers(0, 300, len(key))) * n + stream
    order = np.argsort(time, kind="stable")
    return ps.Trace({"stream": np.array(list(STREAMS))[stream[order]], "time": time[order], "key": key[order]})


def seconds(trace: ps.Trace, policy: str, allocation: str) -> float:
    """Processor time of one run."""
    begin = process_time()
    ps.simulate(trace, window=WINDOW, memory=MEMORY, policy=policy, allocation=allocation)
    return process_time() - begin


def main(tuples: int = 960_000) -> None:
    trace = visits(tuples)
    for allocation in ("variable", "fixed"):
        runs = [{policy: seconds(trace, policy, allocation) for policy in POLICIES} for _ in range(5)][1:]
        best = {policy: min(run[policy] for run in runs) for policy in POLICIES}
        print(f"memory {allocation}    ns/tuple  of fifo  of kwon-random")
        for policy, taken in best.items():
            print(f"{policy:18} {1e9 * taken / tuples:9.0f} {taken / best['fifo']:8.2f} {taken / best['kwon-random']:15.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
