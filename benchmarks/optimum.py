"""How long the optimum takes: python benchmarks/optimum.py [das] [curve] [large] [chain] [skews] [million] [other]

Seconds of processor time after compilation, phases of the repair, and the peak of memory of the process so far.

* das      N = 5,600 per stream, windows 400 and 800, 50 keys, Zipf(1.0): Das, Figures 7 and 8
* curve    the same traces, OPT(M) for every M at once
* large    N = 100,000, window 5,000, 650 keys, Zipf(1.0), certified
* skews    the same with uniform keys and Zipf(0.5)
* chain    the same with an importance per tuple, objective min
* million  N = 1,000,000
* other    SimpleMinCostFlow of ortools on the network of `das`
"""

import resource
import sys
from time import process_time

import numpy as np

from penstock.core.batch import Batch
from penstock.core.problem import Problem
from penstock.core.trace import Trace
from penstock.generator.generate import generate
from penstock.optimum.certificate import verify
from penstock.optimum.curve import curve
from penstock.optimum.instants import number_instants
from penstock.optimum.network import write_network
from penstock.optimum.solve import solve_chain, solve_class
from penstock.optimum.stays import by_class

SHARES = (0.1, 0.25, 0.5, 1, 1.5)


def solve(label: str, trace: Trace, window: int, memory: int, *, chain: bool = False, check: bool = False) -> float:
    problem = Problem.of(
        trace.streams, window=window, memory=memory, objective="min" if chain else "count", has_importance=trace.importance is not None
    )
    sent: list[int] = []
    began = process_time()
    solution = (solve_chain if chain else solve_class)(trace, problem, sent.append)
    seconds = process_time() - began
    line = f"{label} window {window:,} memory {memory:,}: {solution.value:,.0f} in {seconds:.2f} s, {len(sent)} phases"
    if check:
        began = process_time()
        line += f", certificate {'ok' if verify(trace, problem, solution).ok else 'WRONG'} in {process_time() - began:.2f} s"
    print(f"{line}, {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB", flush=True)
    return solution.value


def other(trace: Trace, window: int, memory: int) -> int:
    from ortools.graph.python.min_cost_flow import SimpleMinCostFlow

    problem = Problem.of(trace.streams, window=window, memory=memory)
    batch = Batch.of(trace, problem)
    network = write_network(by_class(batch.stream, number_instants(trace, problem, batch), problem, 0, 1))
    began = process_time()
    solver = SimpleMinCostFlow()
    solver.add_arcs_with_capacity_and_unit_cost(network.tail, network.head, network.capacity, network.cost)
    solver.set_nodes_supplies(np.arange(len(network.supply)), network.supply)
    assert solver.solve() == solver.OPTIMAL
    print(f"ortools window {window} memory {memory}: {-solver.optimal_cost():,} stored in {process_time() - began:.2f} s", flush=True)
    return -int(solver.optimal_cost())


def main(parts: list[str]) -> None:
    warm = generate(50, keys=3, importance="uniform", seed=0)
    for chain in (False, True):
        solve("compilation", warm, 10, 5, chain=chain, check=True)
    das = generate(5600, keys=50, seed=1)
    for window in (400, 800):
        for share in SHARES:
            memory = int(share * window)
            if "das" in parts:
                solve("das", das, window, memory, check=True)
            if "other" in parts:
                other(das, window, memory)
        if "curve" in parts:
            problem = Problem.of(das.streams, window=window, memory=1)
            curve(das, problem, [1])
            began = process_time()
            found = curve(das, problem, range(1, 2 * window + 1))
            print(f"curve window {window}: {len(found)} memories up to {found[-1]:,.0f} in {process_time() - began:.2f} s", flush=True)
    for skew in [1.0] * ("large" in parts) + [0.5, 0.0] * ("skews" in parts):
        trace = generate(100_000, keys=650, skew=skew, seed=1)
        for memory in (1000, 2500, 5000, 7500):
            solve(f"N = 100,000 Zipf({skew})", trace, 5000, memory, check=True)
    if "chain" in parts:
        trace = generate(100_000, keys=650, importance="uniform", seed=1)
        for memory in (1000, 2500, 5000, 7500):
            solve("N = 100,000 min", trace, 5000, memory, chain=True, check=True)
    if "million" in parts:
        trace = generate(1_000_000, keys=650, seed=1)
        for memory in (2500, 5000):
            solve("N = 1,000,000", trace, 5000, memory, check=True)


if __name__ == "__main__":
    main(sys.argv[1:] or ["das", "curve", "large", "skews", "chain"])
