"""How fast joins through relations are: two streams and a table of a million facts that come and go.

Streams come in turns, a row per tick. Half of the facts are always active, the others half of the time. There are as many values as
active facts, so that a tuple has one fact on average. With a *hub* a tenth of the rows of each stream has one value, and one fact links
the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from time import process_time
from typing import Any

import numpy as np

from penstock.core.batch import Batch
from penstock.core.facts import Facts, Through
from penstock.core.problem import Problem
from penstock.core.slow_notice import Say
from penstock.core.trace import Ints
from penstock.core.window import NEVER
from penstock.engine.contract import Keep
from penstock.engine.opening import open_engine
from penstock.policies.table import open_policy
from penstock.statistics.table import open_running

KINDS = ("uniform", "zipf", "hub")
POLICIES = ("fifo", "prob", "dimpprob")
FACTS = 1_000_000
_HUB = 0.1  # of the rows


@dataclass(frozen=True)
class FactSpeed:
    """A join through a relation under a policy."""

    kind: str
    policy: str
    memory: int
    facts: int
    rows: int  # that were timed
    seconds: float  # of the process
    outputs: int
    filtered: int
    told: float  # seconds until the facts were known

    @property
    def tuples_per_second(self) -> float:
        """Rows per second of play."""
        return self.rows / self.seconds

    @property
    def outputs_per_second(self) -> float:
        """Outputs, counted and not kept."""
        return self.outputs / self.seconds


def join_of(kind: str, facts: int, rows: int, *, seed: int = 0) -> tuple[Batch, Facts]:
    """A trace and the facts of its relation.

    >>> batch, facts = join_of("zipf", 1000, 5000)
    >>> len(batch), len(facts), round(float(np.mean([facts.active(at).sum() for at in range(0, 5000, 500)])), -2)
    (5000, 1000, 700.0)
    """
    random = np.random.default_rng(seed)
    values = max(2, facts * 3 // 4)
    keys = random.integers(0, values, (facts, 2))
    half = facts // 2
    begin, end = np.full(facts, -NEVER), np.full(facts, NEVER)
    begin[half:] = random.integers(-rows // 2, rows, facts - half)
    end[half:] = begin[half:] + rows // 2
    if kind == "hub":
        keys[0] = 0
    at = np.arange(rows)
    own = _zipf(random, values, rows) if kind == "zipf" else random.integers(0, values, rows)
    if kind == "hub":
        own[random.random(rows) < _HUB] = 0
    seen = np.full((rows, 2), -1)
    seen[at, at % 2] = own
    return Batch(at % 2, at, at.copy(), values=seen), Facts(keys, begin, end)


def _zipf(random: np.random.Generator, values: int, rows: int) -> Ints:
    """Values whose numbers say nothing of how frequent they are."""
    share = np.cumsum(1.0 / np.arange(1, values + 1))
    return np.asarray(random.permutation(values)[np.searchsorted(share, random.random(rows) * share[-1])])


def play(kind: str, policy: str, memory: int, facts: int, timed: int, *, seed: int = 0) -> FactSpeed:
    """Play a join: the first rows fill the memory twice, the rest are timed.

    >>> found = play("uniform", "prob", 100, 200, 500)
    >>> found.rows, found.filtered > 100
    (500, True)
    """
    timed = timed // 20 if kind == "hub" else timed  # hundreds of outputs each
    batch, known = join_of(kind, facts, 2 * memory + timed, seed=seed)
    through = [Through.parse("f", ["R.x = a", "b = S.x"], ("R", "S"))]
    problem = Problem.of(
        ("R", "S"), window=2 * memory, memory=memory, through=through, stats="decayed", half_life=2.0 * memory
    )  # fmt: skip
    chosen = open_policy(policy, problem)
    engine = open_engine(problem, chosen, open_running(problem, chosen), Keep())
    began = process_time()
    engine.know([known])
    told = process_time() - began
    middle = len(batch) - timed
    engine.play(batch.cut(0, middle))
    before = engine.totals
    rest = batch.cut(middle, len(batch))
    began = process_time()
    engine.play(rest)
    seconds, after = process_time() - began, engine.totals
    outputs, filtered = after.n_output - before.n_output, after.n_filtered - before.n_filtered
    return FactSpeed(kind, policy, memory, facts, len(rest), seconds, outputs, filtered, told)


def n_runs(repeat: int) -> int:
    """How many joins `fact_speeds` plays."""
    return repeat * len(KINDS) * len(POLICIES)


def fact_speeds(
    memory: int, timed: int, *, repeat: int, seed: int, say: Say, facts: int = FACTS, kinds: Sequence[str] = KINDS
) -> list[FactSpeed]:
    """Each kind of join under each policy, `timed` rows of it, the best of `repeat` runs in turns."""
    best: dict[tuple[str, str], FactSpeed] = {}
    for number in range(1, repeat + 1):
        for kind in kinds:
            for policy in POLICIES:
                say(f"through {facts:,} facts, {kind}, {policy}, run {number} of {repeat}")
                found = play(kind, policy, memory, facts, timed, seed=seed)
                known = best.get((kind, policy))
                if known is None or found.seconds < known.seconds:
                    best[kind, policy] = found
    return list(best.values())


def record(speed: FactSpeed) -> dict[str, Any]:
    """A run as a program may want it."""
    return asdict(speed) | {"tuples_per_second": speed.tuples_per_second, "outputs_per_second": speed.outputs_per_second}
