"""What the filters of joins through relations are worth: the value that they save, and the time (Towne 3.2, rule 8; section 4, Figure 5).

The streams are those of Towne's experiments: keys of R by Zipf(1), of S uniform, frequent keys worth little, facts uniform. He does not say
how many keys there are, nor how facts change. Here there are 50 keys, and for rule 8 half of the facts are there at any time, each for as
long as a tuple waits, or four times as long.

    figure   ticks   lifetime of tuples   memory     facts
    6        5,000   50                   varies     250
    5        5,000   10                   10         vary

Differs from the paper: time is that of the processor, what is timed is `states`, our reading of his algorithm, and of a fifth of the ticks,
since without the filter it has millions of states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from time import process_time

from penstock.core.errors import PenstockError
from penstock.core.slow_notice import Say
from penstock.core.trace import Trace
from penstock.experiments.arrival_orders import check_seeds, interval
from penstock.generator.facts import generate_facts
from penstock.generator.generate import generate
from penstock.optimum.optimum import optimum
from penstock.relation.relation import Relation, relation
from penstock.simulator.simulate import exact, simulate

POLICIES = ("simp", "simpprob", "dimpprob", "dgl")
MEMORIES = (10, 20, 50, 100)
"""The last is ample: a row of each stream per tick, which stay for 50 ticks."""
STAYS = (50, 200)
FACTS = (10, 25, 50, 100, 250)
TICKS = 5000
_KEYS = 50
_WAIT = 50  # of tuples, for rule 8
_PART = 5  # of the ticks is timed
_SHORT = 10  # of tuples, and memory, for the time


@dataclass(frozen=True)
class FilterGain:
    """The value of a policy in a memory: with both filters, the static one alone, none; means over seeds."""

    policy: str
    stay: int  # for how many ticks facts are there
    memory: int
    both: float
    static: float
    none: float
    exact: float
    gain: float  # of rule 8: both over static, less 1, seed by seed
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """Whether rule 8 saves value, costs value, or neither can be said."""
        if self.low > 0:
            return "saves"
        return "costs" if self.high < 0 else "even"


@dataclass(frozen=True)
class FilterTime:
    """The optimum by memory states, with the static filter and without: how long each takes."""

    facts: int
    filtered: float  # share of the rows
    value: float
    seconds: float  # of the processor, mean of the runs
    unfiltered: float  # the same without filter

    @property
    def ratio(self) -> float:
        """How many times as fast the filter makes it."""
        return self.unfiltered / self.seconds


def join_of(seed: int, ticks: int, facts: int, stay: int | None = None) -> tuple[Trace, Relation]:
    """Streams and a relation as Towne has them; facts come and go where they `stay` for so many ticks.

    >>> trace, relation = join_of(1, 500, 250, stay=50)
    >>> len(trace), simulate(trace, window=50, memory=20, policy="simp", through=relation).n_filtered > 0
    (1000, True)
    """
    trace = generate(ticks, keys=_KEYS, skew=(1.0, 0.0), importance="rare", seed=seed)
    table = generate_facts(trace, facts, seed=seed) if stay is None else generate_facts(trace, facts, active=0.5, lifetime=stay, seed=seed)
    return trace, relation(table, ["R.key = a", "b = S.key"])


def gains(
    *, seeds: int, ticks: int = TICKS, policies: Sequence[str] = POLICIES, memories: Sequence[int] = MEMORIES, stays: Sequence[int] = STAYS,
    say: Say,
) -> list[FilterGain]:  # fmt: skip
    """Play each policy in each memory with the filters and without, in equal parts of memory as the paper does."""
    check_seeds(seeds)
    values: dict[tuple[str, int, int], list[list[float]]] = {}
    for stay in stays:
        for seed in range(seeds):
            say(f"facts that stay for {stay} ticks, seed {seed}")
            trace, through = join_of(seed, ticks, 250, stay)
            whole = exact(trace, window=_WAIT, through=through).value
            for policy in policies:
                for memory in memories:
                    found = [_value(trace, through, policy, memory, switch) for switch in ("both", "static", "none")]
                    values.setdefault((policy, stay, memory), []).append([*found, whole])
    points = []
    for (policy, stay, memory), runs in values.items():
        both, static, none, whole = (fmean(run[which] for run in runs) for which in range(4))
        gain, low, high = interval([run[0] / run[1] - 1 for run in runs])
        points.append(FilterGain(policy, stay, memory, both, static, none, whole, gain, low, high))
    return points


def _value(trace: Trace, through: Relation, policy: str, memory: int, switch: str) -> float:
    run = simulate(
        trace, window=_WAIT, memory=memory, policy=policy, allocation="fixed", through=through, switches={"pre-filter": switch}
    )  # fmt: skip
    return run.value


def times(*, runs: int, ticks: int = TICKS, facts: Sequence[int] = FACTS, say: Say) -> list[FilterTime]:
    """Find the optimum by memory states with the static filter and without, in turns; both must find the same value."""
    found = []
    _optimum(*join_of(0, 50, facts[0]), "static")  # what is imported and compiled is not timed
    for count in facts:
        trace, through = join_of(0, ticks // _PART, count)
        spent: dict[str, list[float]] = {"static": [], "none": []}
        values = set()
        for number in range(1, runs + 1):
            for switch, own in spent.items():
                say(f"{count} facts, {'with' if switch == 'static' else 'without'} filter, run {number} of {runs}")
                began = process_time()
                values.add(_optimum(trace, through, switch))
                own.append(process_time() - began)
        if len(values) > 1:
            raise PenstockError(f"the optimum must not depend on the filter, got {sorted(values)} with {count} facts")
        filtered = exact(trace, window=_SHORT, through=through).n_filtered
        found.append(FilterTime(count, (filtered or 0) / len(trace), values.pop(), fmean(spent["static"]), fmean(spent["none"])))
    return found


def _optimum(trace: Trace, through: Relation, switch: str) -> float:
    options = {"allocation": "fixed", "model": "inplace", "method": "states", "switches": {"pre-filter": switch}}
    return optimum(trace, window=_SHORT, memory=_SHORT, through=through, **options).value  # type: ignore[arg-type]
