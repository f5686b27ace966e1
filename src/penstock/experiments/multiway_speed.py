"""How fast four streams are joined: our exact join beside Golab's algorithms, on the workload of his Table 5 (Golab 6.2).

Windows and numbers of values grow together (`scale`), so that outputs per arrival stay those of Table 5. Windows are filled before the
clock runs, as in the paper; the clock counts the process's own time, so that a busy machine matters less.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import process_time

from penstock.core.batch import Batch
from penstock.core.problem import Problem
from penstock.core.slow_notice import Say
from penstock.core.trace import Trace
from penstock.engine.contract import Keep
from penstock.engine.opening import open_engine
from penstock.multiway.exact import open_join
from penstock.multiway.linked_windows import arrange
from penstock.multiway.machine import Machine
from penstock.multiway.nested_loops import COMPARISONS, OUTPUTS, Terms
from penstock.multiway.options import STRATEGIES, read_access, read_expire, read_orders
from penstock.multiway.pair_checks import read_condition
from penstock.multiway.workload import TABLE_5, in_ticks, random_arrivals
from penstock.policies.table import open_policy
from penstock.statistics.table import open_statistics

BEST_ORDER = "S1, S2, S3, S4"
"""Of Table 5, which costs 16000."""
VISITS = 100_000_000  # about as many comparisons a run is given


@dataclass(frozen=True)
class Pace:
    """An algorithm on the workload: the best of several runs."""

    name: str
    rows: int
    seconds: float
    outputs: int
    comparisons: int | None

    @property
    def tuples_per_second(self) -> float:
        """Arrivals per second of the process's own time."""
        return self.rows / max(self.seconds, 1e-9)


def paces(rows: int, scale: int, *, repeat: int, seed: int, say: Say) -> list[Pace]:
    """Every contender, in turns, the best of `repeat` runs; those that compare much get fewer rows.

    >>> found = paces(100, 1, repeat=1, seed=0, say=len)
    >>> [pace.name for pace in found][:2], found[0].rows
    (['exact, counted', 'exact, outputs made'], 100)
    """
    rates = {name: spec[0] for name, spec in TABLE_5.items()}
    windows = in_ticks({name: spec[1] * scale for name, spec in TABLE_5.items()}, rates)
    filled = max(windows.values())
    trace = random_arrivals(filled + rows, {name: (spec[0], spec[2] * scale) for name, spec in TABLE_5.items()}, seed=seed)
    problem = Problem.of(trace.streams, window=windows, memory=len(trace) * trace.n_streams)
    per_arrival = 16_000 / 15 * scale
    contenders: dict[str, Callable[[], Pace]] = {}
    for made in (False, True):
        how = "outputs made" if made else "counted"
        contenders[f"exact, {how}"] = partial(_exact, trace, problem, f"exact, {how}", Keep(outputs=made), filled, rows)
    for made in (False, True):
        how = "outputs made" if made else "counted"
        contenders[f"engine, {how}"] = partial(_engine, trace, problem, f"engine, {how}", Keep(outputs=made), filled)
    for buckets in (1, 5, 50):
        name = f"eager, hash of {buckets}" if buckets > 1 else "eager, nested loops"
        few = max(1, min(rows, int(VISITS / (per_arrival / buckets))))
        contenders[name] = partial(_golab, trace, problem, name, buckets, filled, few)
    best: dict[str, Pace] = {}
    for number in range(repeat):
        for name, run in contenders.items():
            say(f"four streams: {name}, run {number + 1} of {repeat}")
            pace = run()
            if name not in best or pace.tuples_per_second > best[name].tuples_per_second:
                best[name] = pace
    return list(best.values())


def n_runs(repeat: int) -> int:
    """How many steps `paces` says."""
    return 7 * repeat


def _exact(trace: Trace, problem: Problem, name: str, keep: Keep, filled: int, rows: int) -> Pace:
    """Our own hash join."""
    return _played(name, open_join(trace, problem, keep), filled, rows)


def _golab(trace: Trace, problem: Problem, name: str, buckets: int, filled: int, rows: int) -> Pace:
    """EAGER MULTI-WAY with eager expiration, in the best order of Table 5."""
    tuples = arrange(trace, problem.windows)
    condition = read_condition(trace, problem, tuples.row)
    orders = read_orders(BEST_ORDER, trace.streams, STRATEGIES["eager"])
    access = read_access("nested" if buckets == 1 else buckets, trace.streams, condition)
    terms = Terms(every=0, expire_every=read_expire("eager", 0), start=int(trace.time[0]), objective=0, keep=0)
    return _played(name, Machine(tuples, condition, terms, None, buckets=access, exact=False, orders=orders), filled, rows)


def _played(name: str, machine: Machine, filled: int, rows: int) -> Pace:
    machine.fill(filled)
    began = process_time()
    machine.play(filled + rows)
    seconds = process_time() - began
    return Pace(name, rows, seconds, int(machine.counts[OUTPUTS]), int(machine.counts[COMPARISONS]))


def _engine(trace: Trace, problem: Problem, name: str, keep: Keep, filled: int) -> Pace:
    """The engine that also sheds, with memory for everything."""
    policy = open_policy("fifo", problem)
    source, batch = open_statistics(problem, trace, Batch.of(trace, problem), by_row=False)
    engine = open_engine(problem, policy, source, keep)
    engine.play(batch.cut(0, filled))
    before = engine.totals.n_output
    began = process_time()
    engine.play(batch.cut(filled, len(batch)))
    seconds = process_time() - began
    return Pace(name, len(batch) - filled, seconds, engine.totals.n_output - before, None)
