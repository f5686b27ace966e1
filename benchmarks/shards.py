"""What it costs to divide a budget evenly among shards: value kept in 4 shards, relative to one. Run: python benchmarks/shards.py

Zipf(1) keys, two streams, a tenth of the memory that the exact join holds. No Spark: a shard is an engine that sees its part of the keys.
"""

import numpy as np

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
        place = np.array([hash((int(k), 7)) % SHARDS for k in trace.key])
        parts = [ps.Trace({**columns(trace, place == shard)}, streams=trace.streams) for shard in range(SHARDS)]
        for policy in POLICIES:
            objective = "count" if policy in POLICIES[:5] else "min"
            options = {"window": WINDOW, "policy": policy, "stats": "decayed", "clock": "streams", "objective": objective}
            one = ps.simulate(trace, memory=memory, **options).value
            many = sum(ps.simulate(part, memory=memory // SHARDS, **options).value for part in parts)
            found[policy].append(f"{one:,.0f}, {many:,.0f}, {many / one:.3f}")
    for cells in found.values():
        print("| " + " | ".join(cells) + " |")


def columns(trace: ps.Trace, chosen: np.ndarray) -> dict[str, object]:
    names = np.array(trace.streams)[trace.stream[chosen]]
    return {"stream": names, "time": trace.time[chosen], "key": trace.key[chosen], "importance": trace.importance[chosen]}


if __name__ == "__main__":
    main()
