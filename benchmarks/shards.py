"""What it costs to divide a join into shards: the value kept in 4 and 8 shards, relative to one. Run: python benchmarks/shards.py

Two streams, a tenth of the memory that the exact join holds, batches of a tenth of the window, after a warm-up of five windows, the mean
of some seeds. No Spark: the simulator plays the shards, as `ps.join` with an archive does; `--equal` also without moving their memory.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

import penstock as ps

WINDOW, LENGTH, WARM = 5_000, 15, 5
"""Ticks of the window; windows in a trace, and of these the warm-up."""
RATE = 2
"""Rows of both streams together in a tick; of sessions more, since a session is short."""


def hot(seed: int) -> ps.Trace:
    """Zipf(1), 2,000 keys, and one key with 30 % of all rows."""
    plain = ps.generate(LENGTH * WINDOW, keys=2_000, ranks="correlated", seed=seed)
    keys = np.array(plain.table["key"])
    return _trace(plain.time, plain.stream, np.where(np.random.default_rng(seed).random(len(keys)) < 0.3, 7, keys))


def sessions(seed: int) -> ps.Trace:
    """Clicks of a shop on two kinds of page: 5 to 20 in a session, 5 to 60 s apart in a window of ten minutes."""
    random, each = np.random.default_rng(seed), 12.5
    count = int(5 * RATE * LENGTH * WINDOW / each)
    clicks = random.integers(5, 21, count)
    gaps = random.integers(5, 61, clicks.sum()) * WINDOW // 600
    first = np.cumsum(clicks) - clicks
    since = np.cumsum(gaps) - np.repeat(np.cumsum(gaps)[first], clicks)
    time = np.repeat(random.integers(0, LENGTH * WINDOW, count), clicks) + since
    return _trace(time, random.integers(0, 2, len(time)), np.repeat(np.arange(count), clicks))


def orders(seed: int) -> ps.Trace:
    """Orders and payments: each key comes once in a stream, 70 % have a partner, after delays of a gamma distribution."""
    random, count = np.random.default_rng(seed), int(RATE / 1.7 * LENGTH * WINDOW)
    time, paid = np.sort(random.integers(0, LENGTH * WINDOW, count)), random.random(count) < 0.7
    later = time + random.gamma(2.0, WINDOW / 6, count).astype(np.int64) + 1
    stream = np.repeat([0, 1], [count, paid.sum()])
    return _trace(np.concatenate([time, later[paid]]), stream, np.concatenate([np.arange(count), np.flatnonzero(paid)]))


def _trace(time: np.ndarray, stream: np.ndarray, key: np.ndarray) -> ps.Trace:
    order = np.lexsort((stream, time))
    return ps.Trace({"stream": np.array(["R", "S"])[stream[order]], "time": time[order], "key": key[order]})


KINDS: dict[str, Callable[[int], ps.Trace]] = {
    "one key 30 %": hot,
    "50 keys": lambda seed: ps.generate(LENGTH * WINDOW, keys=50, seed=seed),
    "100,000 keys": lambda seed: ps.generate(LENGTH * WINDOW, keys=100_000, ranks="correlated", seed=seed),
    "sessions": sessions,
    "orders": orders,
}


def kept(trace: ps.Trace, policy: str, seed: int, shards: int, shared: bool) -> int:
    """Outputs after the warm-up."""
    warm = int(np.searchsorted(trace.time, WARM * WINDOW))
    memory = len(trace) // LENGTH // 10
    options = {"window": WINDOW, "memory": memory, "policy": policy, "seed": seed, "shards": shards, "batch": WINDOW // 10}
    begun = ps.Trace(trace.table.slice(0, warm), streams=trace.streams)
    return ps.simulate(trace, shared=shared, **options).n_output - ps.simulate(begun, shared=shared, **options).n_output


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policies", default="prob,learned,fifo,rand", help="names with commas")
    parser.add_argument("--kinds", default=";".join(KINDS), help="of streams, with semicolons")
    parser.add_argument("--shards", default="4,8", help="numbers with commas")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--window", type=int, default=WINDOW, help="ticks; memory is a tenth of its rows")
    parser.add_argument("--equal", action="store_true", help="also with equal shares")
    given = parser.parse_args()
    globals()["WINDOW"] = given.window
    columns = [(int(count), shared) for shared in ([False] if given.equal else []) + [True] for count in given.shards.split(",")]
    heads = [f"{count} shards" if shared else f"{count} shards, equal" for count, shared in columns]
    print(f"| streams | policy | {' | '.join(heads)} |")
    print("|---" * (2 + len(columns)) + "|")
    for kind in given.kinds.split(";"):
        for policy in given.policies.split(","):
            found: dict[tuple[int, bool], list[float]] = {column: [] for column in columns}
            for seed in range(given.seeds):
                trace = KINDS[kind](seed)
                one = kept(trace, policy, seed, 1, True)
                for count, shared in columns:
                    found[count, shared].append(kept(trace, policy, seed, count, shared) / one if one else float("nan"))
            cells = [f"{np.mean(ratios):.3f}" for ratios in found.values()]
            print(f"| {kind} | {policy} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
