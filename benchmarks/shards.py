"""What it costs to divide a budget evenly among shards: value kept in 4 shards, relative to one. Run: python benchmarks/shards.py

Zipf(1) keys, two streams, a tenth of the memory that the exact join holds. No Spark: the simulator plays the shards.
"""

import penstock as ps

WINDOW, TICKS, SHARDS = 2_000, 20_000, 4
POLICIES = ("fifo", "rand", "prob", "life", "elife", "simp", "simpprob", "dimpprob", "dgl", "additive")


def main() -> None:
    print(f"| policy | {' | '.join(f'{keys:,} keys: one shard, {SHARDS} shards, ratio' for keys in (50, 100_000))} |")
    print("|---|---|---|")
    found = {policy: [policy] for policy in POLICIES}
    for keys in (50, 100_000):
        trace = ps.generate(TICKS, keys=keys, skew=1.0, seed=1, importance="rare")
        memory = 2 * WINDOW // 10
        for policy in POLICIES:
            objective = "count" if policy in POLICIES[:5] else "min"
            options = {"window": WINDOW, "memory": memory, "policy": policy, "objective": objective}
            one, many = (ps.simulate(trace, shards=shards, **options).value for shards in (1, SHARDS))
            found[policy].append(f"{one:,.0f}, {many:,.0f}, {many / one:.3f}")
    for cells in found.values():
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
