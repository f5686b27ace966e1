"""How fast the join core is: tuples, outputs and gains per second, steps and bytes per tuple."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

from penstock.core.batch import Batch
from penstock.core.problem import Problem
from penstock.core.slow_notice import Say
from penstock.core.trace import Trace
from penstock.engine.contract import Keep, Totals
from penstock.engine.opening import compiled_form, open_engine
from penstock.generator.generate import generate
from penstock.policies.table import open_policy
from penstock.statistics.table import open_statistics

GROWTH = (1_000, 10_000, 100_000, 1_000_000)
"""The memories of the growth table: steps per tuple may rise with their logarithm, not faster."""
MOST_ROWS = 4_000_000
STATS = "decayed"
"""The default statistics of `ps.join`."""


@dataclass(frozen=True)
class TimedRun:
    """One run of the engine; `structure_bytes` is what its own arrays take, None where it is not the compiled one."""

    seconds: float
    totals: Totals
    structure_bytes: int | None


@dataclass(frozen=True)
class Speed:
    """A policy in one memory: the best of several runs."""

    policy: str
    memory: int
    rows: int
    seconds: float
    totals: Totals
    structure_bytes: int | None

    @property
    def tuples_per_second(self) -> float:
        """Rows of the trace per second of play."""
        return self.rows / self.seconds

    @property
    def steps_per_tuple(self) -> float:
        """Heap and list steps per row of the trace."""
        return self.totals.n_steps / self.rows

    @property
    def bytes_per_tuple(self) -> float | None:
        """What the engine's own arrays take, beside the tuples' numbers, per tuple retained."""
        return None if self.structure_bytes is None else self.structure_bytes / self.totals.peak_memory


def bench_trace(rows: int, keys: int, *, seed: int = 0) -> Trace:
    """Two streams, `rows` tuples together, one each per tick: Zipf(1) keys, ranks uncorrelated, rare keys important.

    >>> len(bench_trace(1000, 50))
    1000
    """
    return generate(max(1, rows // 2), keys=keys, skew=1.0, ranks="uncorrelated", importance="rare", groups=min(5, keys), seed=seed)


def play(trace: Trace, policy: str, *, window: int, memory: int, stats: str = STATS, outputs: bool = False, seed: int = 0) -> TimedRun:
    """Play a trace once; every output counts 1. What `simulate` does, with the engine at hand.

    >>> play(bench_trace(1000, 50), "prob", window=100, memory=20).totals.peak_memory
    20
    """
    problem = Problem.of(
        trace.streams,
        window=window,
        memory=memory,
        objective="count",
        stats=stats,
        seed=seed,
        has_importance=trace.importance is not None,
    )
    chosen = open_policy(policy, problem)
    compiled = compiled_form(problem, chosen) is not None
    source, batch = open_statistics(problem, trace, Batch.of(trace, problem), by_row=not compiled, policy=chosen)
    engine = open_engine(problem, chosen, source, Keep(outputs=outputs))
    began = perf_counter()
    engine.play(batch)
    return TimedRun(perf_counter() - began, engine.totals, engine.structure_bytes)


def speeds(
    trace: Trace, policies: Sequence[str], *, window: int, memories: Sequence[int], repeat: int, say: Say, stats: str = STATS
) -> list[Speed]:
    """Every policy in every memory, the best of `repeat` runs in turns: a slow minute of the machine hits all alike.

    >>> [s.policy for s in speeds(bench_trace(1000, 50), ["fifo", "prob"], window=100, memories=[20], repeat=2, say=len)]
    ['fifo', 'prob']
    """
    best: dict[tuple[int, str], TimedRun] = {}
    for number, memory, policy in _turns(policies, memories, repeat):
        say(f"{policy}, memory {memory:,}, run {number} of {repeat}")
        played = play(trace, policy, window=window, memory=memory, stats=stats)
        known = best.get((memory, policy))
        if known is None or played.seconds < known.seconds:
            best[memory, policy] = played
    return [Speed(policy, memory, len(trace), p.seconds, p.totals, p.structure_bytes) for (memory, policy), p in best.items()]


def growth(policies: Sequence[str], memories: Sequence[int], *, seed: int = 0, say: Say) -> list[Speed]:
    """Every policy in growing memories; window, keys and rows grow in step, so that outputs per tuple stay alike."""
    found = []
    for memory in memories:
        trace = bench_trace(min(4 * memory, MOST_ROWS), memory, seed=seed)
        for policy in policies:
            say(f"{policy}, memory {memory:,}")
            played = play(trace, policy, window=2 * memory, memory=memory)
            found.append(Speed(policy, memory, len(trace), played.seconds, played.totals, played.structure_bytes))
    return found


def dense(policy: str, *, outputs: bool, rows: int = 100_000, window: int = 20_000, repeat: int = 3, seed: int = 0, say: Say) -> Speed:
    """A policy on a trace of few keys, where the work is in the outputs, dozens per tuple; the best of `repeat` runs.

    `outputs=True` keeps them, as pairs of row numbers.
    """
    trace = bench_trace(rows, 100, seed=seed)
    best: TimedRun | None = None
    for number in range(1, repeat + 1):
        say(f"{policy} with many outputs{', kept' if outputs else ''}, run {number} of {repeat}")
        played = play(trace, policy, window=window, memory=max(1, window // 2), outputs=outputs)
        if best is None or played.seconds < best.seconds:
            best = played
    assert best is not None
    return Speed(policy, max(1, window // 2), len(trace), best.seconds, best.totals, best.structure_bytes)


def warm_up(policies: Sequence[str], *, say: Say, stats: str = STATS) -> None:
    """Compile, or load what was compiled, before the clock runs."""
    trace = bench_trace(2_000, 100)
    for policy in policies:
        say(f"{policy}: compiling, or loading what was compiled")
        play(trace, policy, window=200, memory=100, stats=stats)
    play(trace, "prob", window=200, memory=100, outputs=True)


def per_log(speed: Speed) -> float:
    """Steps per tuple over the binary logarithm of the memory: it may not rise with memory.

    >>> from penstock.engine.contract import Totals
    >>> per_log(Speed("prob", 1024, 10, 1.0, Totals(n_steps=200), None))
    2.0
    """
    return speed.steps_per_tuple / math.log2(speed.memory)


def _turns(policies: Sequence[str], memories: Sequence[int], repeat: int) -> Iterator[tuple[int, int, str]]:
    for number in range(1, repeat + 1):
        for memory in memories:
            for policy in policies:
                yield number, memory, policy
