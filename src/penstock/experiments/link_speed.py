"""How fast joins other than equality are: distances, comparisons, links, and windows of the rows of each key.

Streams come in turns, a row per tick, so that half of the memory is one's partners. Distances are chosen so that an arrival has about one
match there, whatever the memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from time import process_time
from typing import Any

import numpy as np

from penstock.core.batch import Batch
from penstock.core.problem import Problem
from penstock.core.slow_notice import Say
from penstock.core.trace import Floats, Trace
from penstock.engine.contract import Keep
from penstock.engine.opening import compiled_form, open_engine
from penstock.experiments.speed import GROWTH
from penstock.policies.table import open_policy
from penstock.statistics.table import open_statistics

KINDS = ("distance", "distance, skewed", "two dimensions", "less", "three streams", "rows_per_key", "equality")
"""The joins of the table; `equality`, with as many matches, is there to compare with."""
POLICIES = ("fifo", "prob", "dimpprob")


@dataclass(frozen=True)
class LinkSpeed:
    """A join under a policy in one memory."""

    kind: str
    policy: str
    memory: int
    rows: int  # that were timed
    seconds: float  # of the process
    outputs: int
    examined: int | None  # candidates that indexes offered

    @property
    def tuples_per_second(self) -> float:
        """Rows per second of play."""
        return self.rows / self.seconds

    @property
    def outputs_per_second(self) -> float:
        """Outputs, counted and not kept."""
        return self.outputs / self.seconds


def join_of(kind: str, memory: int, rows: int, *, seed: int = 0) -> tuple[Trace, Any, Any]:
    """A trace, a predicate and a window for a kind of join.

    >>> trace, predicate, window = join_of("distance", 100, 1000)
    >>> len(trace), predicate, window
    (1000, 'eps:1', 200)
    """
    random = np.random.default_rng(seed)
    names = ("R", "S", "T") if kind == "three streams" else ("R", "S")
    time = np.arange(rows)
    columns: dict[str, Any] = {"stream": [names[at % len(names)] for at in range(rows)], "time": time.tolist()}
    window: Any = 2 * memory
    if kind in ("rows_per_key", "equality"):
        columns["key"] = random.integers(0, max(1, memory // 2), rows).tolist()
        return Trace(columns), "=", "rows_per_key:2" if kind == "rows_per_key" else window
    if kind == "less":
        return Trace(columns | {"key": random.random(rows).tolist()}), "<", window
    if kind == "three streams":
        columns |= {"a": random.integers(0, max(1, memory // 3), rows).tolist(), "x": _spread(random.random(rows), memory / 3).tolist()}
        return Trace(columns, key=()), "R.a = S.a, |S.x - T.x| <= 1", window
    if kind == "two dimensions":
        side = (memory / 2 * np.pi) ** 0.5
        columns |= {"x": (random.random(rows) * side).tolist(), "y": (random.random(rows) * side).tolist()}
        return Trace(columns, key="x,y"), "eps:1", window
    along = random.random(rows)
    if kind == "distance, skewed":  # a tenth of the values in a hundredth of the range, ten times as dense as the rest
        along = np.where(random.random(rows) < 0.1, along / 100, along)
    return Trace(columns | {"key": _spread(along, memory / 2).tolist()}), "eps:1", window


def _spread(along: Floats, partners: float) -> Floats:
    """Values over so wide a range that two of `partners` are within 1 of another value, to either side."""
    return along * 2 * partners


def play(kind: str, policy: str, memory: int, timed: int, *, seed: int = 0) -> LinkSpeed:
    """Play a join: the first rows fill the memory twice, the rest are timed.

    >>> found = play("distance", "prob", 100, 500)
    >>> found.rows, 200 < found.outputs < 1000, found.outputs <= found.examined
    (500, True, True)
    """
    timed = timed // 50 if kind == "less" else timed  # thousands of outputs each
    trace, predicate, window = join_of(kind, memory, 2 * memory + timed, seed=seed)
    problem = Problem.of(trace.streams, window=window, memory=memory, predicate=predicate, stats="decayed", half_life=2.0 * memory)
    chosen = open_policy(policy, problem)
    by_row = compiled_form(problem, chosen) is None
    source, batch = open_statistics(problem, trace, Batch.of(trace, problem), by_row=by_row, policy=chosen)
    engine = open_engine(problem, chosen, source, Keep())
    middle = len(trace) - timed
    engine.play(batch.cut(0, middle))
    outputs, examined = engine.totals.n_output, engine.n_examined or 0
    rest = batch.cut(middle, len(trace))
    began = process_time()
    engine.play(rest)
    seconds = process_time() - began
    offered = None if engine.n_examined is None else engine.n_examined - examined
    return LinkSpeed(kind, policy, memory, len(rest), seconds, engine.totals.n_output - outputs, offered)


def n_runs(repeat: int) -> int:
    """How many joins `link_speeds` plays."""
    return repeat * len(list(_pairs(KINDS, POLICIES)))


def link_speeds(
    memory: int, timed: int, *, repeat: int, seed: int, say: Say, kinds: Sequence[str] = KINDS, policies: Sequence[str] = POLICIES
) -> list[LinkSpeed]:
    """Each kind of join under each policy, `timed` rows of it, the best of `repeat` runs in turns."""
    best: dict[tuple[str, str], LinkSpeed] = {}
    for number in range(1, repeat + 1):
        for kind, policy in _pairs(kinds, policies):
            say(f"{kind}, {policy}, run {number} of {repeat}")
            found = play(kind, policy, memory, timed, seed=seed)
            known = best.get((kind, policy))
            if known is None or found.seconds < known.seconds:
                best[kind, policy] = found
    return list(best.values())


def link_growth(*, seed: int, say: Say, kinds: Sequence[str] = ("distance", "two dimensions", "three streams")) -> list[LinkSpeed]:
    """The same in growing memories, once each."""
    found = []
    for memory in GROWTH:
        for kind, policy in _pairs(kinds, POLICIES):
            say(f"{kind}, {policy}, memory {memory:,}")
            found.append(play(kind, policy, memory, 100_000, seed=seed))
    return found


def record(speed: LinkSpeed) -> dict[str, Any]:
    """A run as a program may want it."""
    return asdict(speed) | {"tuples_per_second": speed.tuples_per_second, "outputs_per_second": speed.outputs_per_second}


def _pairs(kinds: Sequence[str], policies: Sequence[str]) -> Iterator[tuple[str, str]]:
    """`<` under fifo alone: every arrival changes the price of half the memory."""
    for kind in kinds:
        for policy in policies:
            if kind != "less" or policy == "fifo":
                yield kind, policy
