"""What a budget gains that two joins share: outputs kept, relative to a fixed half for each. Run: python benchmarks/budgets.py

One join has 200 Zipf(1) keys, the other 50,000 keys that nearly never meet, both one row per tick and stream. No Spark: the simulator plays
them, as a query with two joins of a `ps.Budget` does.
"""

from __future__ import annotations

import argparse

import penstock as ps
from penstock.core.problem import Problem
from penstock.simulator.sharded import play_joins

WINDOW, LENGTH, BATCH = 400, 20, 40
"""Ticks of the window and of a batch; windows in a trace."""


def joins(memory: int, seed: int) -> dict[str, tuple[ps.Trace, Problem]]:
    """A useful join, and a nearly useless one."""
    useful = ps.generate(LENGTH * WINDOW, keys=200, ranks="correlated", seed=seed)
    useless = ps.generate(LENGTH * WINDOW, keys=50_000, skew=0.0, ranks="correlated", seed=seed + 1)
    told = {"window": WINDOW, "memory": memory, "stats": "decayed", "clock": "streams"}
    return {name: (trace, Problem.of(trace.streams, **told)) for name, trace in (("useful", useful), ("useless", useless))}


def kept(policy: str, memory: int, shards: int, seed: int, shared: bool) -> int:
    """Outputs of both."""
    runs = play_joins(joins(memory, seed), shards=shards, memory=memory, batch=BATCH, policy=policy, shared=shared)
    return sum(run.n_output for run in runs.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policies", default="prob,learned,fifo", help="names with commas")
    parser.add_argument("--memories", default="100,200,400", help="rows with commas, of both joins together")
    parser.add_argument("--shards", type=int, default=1, help="of each join; with more than one, fixed halves have equal shards too")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    policies = given.policies.split(",")
    print(f"| memory | {' | '.join(policies)} |")
    print("|---" * (1 + len(policies)) + "|")
    for memory in map(int, given.memories.split(",")):
        ratios = []
        for policy in policies:
            moved, fixed = (kept(policy, memory, given.shards, given.seed, shared) for shared in (True, False))
            ratios.append(f"{moved / fixed:.2f}")
        print(f"| {memory} | {' | '.join(ratios)} |", flush=True)


if __name__ == "__main__":
    main()
