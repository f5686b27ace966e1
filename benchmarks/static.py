"""OPTDP against the plain dynamic programme, both compiled: python benchmarks/static.py [KEYS] [TUPLES PER SIDE] [TUPLES KEPT,...]

The data of Das's Figures 4 and 5: both sides Zipfian with one skew, independently. Times are the best of three after compilation;
`halving` is leave-one-out without bounds. Prints how many times faster, and what ADG keeps of the optimum.
"""

import sys
import time

import numba
import numpy as np

from penstock.static import optimal
from penstock.static.greedy import average_degree

SKEWS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)


@numba.njit
def plain(m, n, keep):
    """Das's T(c, k): each key may have any number of tuples. Only what can be reached is computed, in loops that vectorize."""
    best = np.full(keep + 1, -(1 << 60))
    best[0] = 0
    after = best.copy()
    reached = 0
    for i in range(len(m)):
        size, small = m[i] + n[i], min(m[i], n[i])
        reached = min(reached + size, keep)
        after[:] = best
        for p in range(1, min(size, keep) + 1):
            gain = (p // 2) * (p - p // 2) if p <= 2 * small else small * (p - small)
            for j in range(p, reached + 1):
                after[j] = max(after[j], best[j - p] + gain)
        best, after = after, best
    return best.max()


def keys_of(keys: int, tuples: int, skew: float) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(round(100 * skew))
    weight = 1 / np.arange(1, keys + 1) ** skew
    m, n = (random.multinomial(tuples, random.permutation(weight) / weight.sum()) for _ in "AB")
    return m[(m > 0) & (n > 0)], n[(m > 0) & (n > 0)]


def timed(work, times: int):
    best = float("inf")
    for _ in range(times):
        begin = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - begin)
    return result, best


def outputs(kept: np.ndarray) -> int:
    return int(kept.prod(axis=0).sum())


def main(keys: int, tuples: int, keeps: list[int]) -> None:
    m, n = keys_of(50, 500, 0.5)
    plain(m, n, 100), optimal.solve(m, n, optimal.reduce(m, n, 100, bounds=False)), optimal.solve(m, n, optimal.reduce(m, n, 100))
    print(f"{keys:,} keys, {tuples:,} tuples each side; seconds")
    names = ("outputs", "open", "plain", "halving", "optimal", "adg", "faster", "adg/opt")
    print(f"{'skew':>5} {'k':>7} " + " ".join(f"{name:>{width}}" for name, width in zip(names, (12, 5, 9, 9, 9, 9, 8, 9), strict=True)))
    for skew in SKEWS:
        m, n = keys_of(keys, tuples, skew)
        for keep in keeps:
            if keep >= int(m.sum() + n.sum()):
                continue
            truth, slow = timed(lambda m=m, n=n, keep=keep: plain(m, n, keep), 2)
            halved, half = timed(lambda m=m, n=n, keep=keep: optimal.solve(m, n, optimal.reduce(m, n, keep, bounds=False)), 3)
            kept, fast = timed(lambda m=m, n=n, keep=keep: optimal.solve(m, n, optimal.reduce(m, n, keep)), 3)
            (greedy, _), quick = timed(lambda m=m, n=n, keep=keep: average_degree(np.array([m, n]), keep), 3)
            if not truth == outputs(kept) == outputs(halved):
                raise SystemExit(f"skew {skew}, k = {keep}: plain {truth}, optimal {outputs(kept)}, halving {outputs(halved)}")
            still_open = len(optimal.reduce(m, n, keep).open)
            print(
                f"{skew:5.2f} {keep:7,} {truth:12,} {still_open:5} {slow:9.4f} {half:9.4f} {fast:9.4f} {quick:9.5f} "
                f"{slow / fast:7.0f}x {outputs(greedy) / truth:9.5f}",
                flush=True,
            )


if __name__ == "__main__":
    given = [part.replace("_", "") for part in sys.argv[1:]]
    sizes = [int(part) for part in given[2].split(",")] if len(given) > 2 else [1000, 5000, 20_000]
    main(int(given[0]) if given else 1000, int(given[1]) if len(given) > 1 else 50_000, sizes)
