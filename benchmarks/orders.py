"""How good the ways to find a join order are: random streams, each way's cost beside that of the best order.

Run: python benchmarks/orders.py [joins of four streams] [joins of six]      (500 and 150 by default)
"""

from __future__ import annotations

import random
import sys

import penstock as ps


def streams(rng: random.Random, n: int) -> dict[str, dict[str, float]]:
    """Rates from 1 to 100, windows of 50, 100 or 200 ticks, 5 to 500 values."""
    return {f"S{i}": {"rate": rng.randint(1, 100), "window": rng.choice((50, 100, 200)), "distinct": rng.randint(5, 500)} for i in range(n)}


def main(four: int = 500, six: int = 150) -> None:
    rng = random.Random(1)
    print("streams  joins  way            the best in  on average  at worst")
    for n, joins in ((4, four), (6, six)):
        drawn = [streams(rng, n) for _ in range(joins)]
        best = [ps.order_joins(one, method="exhaustive").cost for one in drawn]
        ways = {"heuristic": {"method": "heuristic"}, "descent": {"method": "descent"}, "per stream": {"per_stream": True}}
        for way, options in ways.items():
            ratio = [ps.order_joins(one, **options).cost / least for one, least in zip(drawn, best, strict=True)]
            found = sum(r <= 1 + 1e-9 for r in ratio) / joins
            print(f"{n:7} {joins:6}  {way:13} {found:12.0%} {sum(ratio) / joins:11.2f} {max(ratio):9.2f}", flush=True)
            if way == "per stream":
                print(f"{'':15} cheaper than one order for all by up to {1 - min(ratio):.0%}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
