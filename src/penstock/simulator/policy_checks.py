"""`ps.check_policy`: what every policy keeps, whatever it decides, tried on a policy and reported in sentences.

A check plays a small trace in a setting, and returns what is wrong, or None. Our own policies pass the same checks in the tests.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np

from penstock.core.batch import Batch
from penstock.core.budget import TUPLE_OVERHEAD, Pools
from penstock.core.errors import PenstockError
from penstock.core.problem import Problem
from penstock.core.trace import Trace
from penstock.engine.contract import Engine, Keep, Played
from penstock.engine.opening import compiled_form, open_engine
from penstock.engine.ranking_codes import Kind
from penstock.generator.generate import generate
from penstock.policies.base import Policy
from penstock.policies.table import open_policy
from penstock.simulator.simulate import exact, simulate
from penstock.statistics.table import open_statistics

EVERYTHING = Keep(outputs=True, sheds=True, expired=True, retained=True, series=True)
LATE = 1000
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "plain": {"window": 8, "stats": "whole"},
    "by value, in place": {"window": {"R": 4, "S": 12}, "stats": "window", "objective": "sum", "model": "inplace"},
    "fixed, decayed": {"window": "tumbling:8", "allocation": "fixed", "stats": "decayed", "half_life": 3.0},
    "counted in rows": {"window": "rows:9", "stats": "decayed", "half_life": 2.0, "switches": {"mn": "memory"}},
    "late": {"window": 8, "disorder": 5, "clock": "streams", "lateness": 5, "stats": "sketch", "objective": "min"},
    "late, unpromised": {"window": "0:8,20:3", "disorder": 5, "clock": "global", "stats": "whole"},
}
"""What changes how a run is played, a few at a time; `disorder` is of the trace."""
BUDGETS: tuple[Mapping[str, Any], ...] = (
    {"memory": 7},
    {"memory": 7, "allocation": "fixed"},
    {"memory": {"R": 2, "S": 5}},
    {"memory": [(0, 9), (10, 3), (20, 6)]},
    {"memory": "0:4,8:12,25:2", "allocation": "fixed"},
    {"memory": "700 B"},
    {"memory": {"R": "200 B", "S": "450 B"}},
)


@dataclass(frozen=True)
class Trial:
    """A policy in a setting, to be played as often as a check wants: each run gets a policy of its own."""

    make: Callable[[], Any]
    setting: str = "plain"
    stepwise: bool = False
    ticks: int = 32

    @property
    def trace(self) -> Trace:
        """Two streams of unequal rates with bursts, importances and sizes."""
        disorder = SETTINGS[self.setting].get("disorder", 0)
        uniform: dict[str, Any] = {"importance": "uniform", "top": 4}
        plain = generate(self.ticks, keys=6, rate=(1, 1.5), burst="10:1:6", disorder=disorder, seed=disorder + 3, **uniform)
        sizes = np.random.default_rng(1).integers(1, 90, len(plain))
        return Trace(plain.table.append_column("size", [sizes]), streams=plain.streams)

    def options(self, **more: Any) -> dict[str, Any]:
        """The arguments of a run."""
        given = {name: value for name, value in SETTINGS[self.setting].items() if name != "disorder"}
        return {"memory": 8, "policy": self.make(), "seed": 4} | given | more

    def run(self, **more: Any) -> Any:
        """What `ps.simulate` gives."""
        return simulate(self.trace, keep=EVERYTHING, stepwise=self.stepwise, **self.options(**more))

    def choose(self) -> tuple[Problem, Policy]:
        """The problem, and a policy for it."""
        options = self.options()
        policy = options.pop("policy")
        problem = Problem.of(self.trace.streams, has_importance=True, **options)
        return problem, open_policy(policy, problem)

    def open(self) -> tuple[Engine, Batch]:
        """An engine, and the whole trace as one batch."""
        trace, (problem, chosen) = self.trace, self.choose()
        by_row = self.stepwise or compiled_form(problem, chosen) is None
        source, batch = open_statistics(problem, trace, Batch.of(trace, problem), None, by_row=by_row, policy=chosen)
        return open_engine(problem, chosen, source, EVERYTHING, stepwise=self.stepwise), batch


def plays(trial: Trial) -> str | None:
    """It plays: one score for every candidate, and no error."""
    trial.run()
    return None


def keeps_to_the_budget(trial: Trial) -> str | None:
    """Memory is never exceeded at the end of an instant, however the budget is given."""
    trace = trial.trace
    for given in BUDGETS:
        budget = Pools.parse(given["memory"], trace.streams, allocation=given.get("allocation", "variable"))
        run = trial.run(**{"allocation": "variable"} | dict(given))
        now, most = -LATE, 0
        for time, rows in run.memory_log:
            now = max(now, int(time))
            weights = trace.size[rows] + TUPLE_OVERHEAD if budget.in_bytes and trace.size is not None else np.ones(len(rows), int)
            used = np.bincount(budget.pool[trace.stream[rows]], weights, len(budget.caps[0]))
            most = max(most, int(used.sum()))
            if (used > budget.at(now)).any():
                return f"with memory={given['memory']!r} it held {used.tolist()} at time {time}, where {budget.at(now).tolist()} is allowed"
        if run.peak_memory != most:
            return f"with memory={given['memory']!r} it held {most} at most, and reports {run.peak_memory}"
    return None


def makes_true_outputs(trial: Trial) -> str | None:
    """Every output is one of the exact join, and none is made twice."""
    found = Counter(map(tuple, trial.run().outputs.tolist()))
    wrong = found - _exact(trial)
    return f"{sum(wrong.values())} outputs are not in the exact join, or there twice" if wrong else None


def is_exact_with_ample_memory(trial: Trial) -> str | None:
    """With ample memory nothing is shed and the exact join comes out."""
    promised = {"clock": "streams", "lateness": LATE} if trial.trace.n_backwards else {}
    run = trial.run(memory=2 * len(trial.trace), **promised)
    if run.n_shed:
        return f"{run.n_shed} tuples were shed though all would have had room"
    lacking = _exact(trial) - Counter(map(tuple, run.outputs.tolist()))
    return f"{sum(lacking.values())} outputs of the exact join are missing" if lacking else None


def repeats_itself(trial: Trial) -> str | None:
    """The same seed gives the same run."""
    first, second = (trial.run() for _ in range(2))
    if first.sheds.tolist() != second.sheds.tolist() or first.outputs.tolist() != second.outputs.tolist():
        return f"two runs made {first.n_output} and {second.n_output} outputs: draw from a generator seeded by `view.problem.seed`"
    return None


def plays_in_any_batches(trial: Trial) -> str | None:
    """Cutting the input into batches changes nothing."""
    engine, batch = trial.open()
    wanted, counts = as_lists(engine.play(batch)), _counts(engine)
    possible = between_instants(trial.trace)
    random = Random(trial.setting)
    for cuts in ([random.choice(possible)], random.sample(possible, len(possible) // 3), possible):
        other, _ = trial.open()
        got = as_lists(play_in_parts(other, batch, cuts))
        if got != wanted or _counts(other) != counts:
            return f"{len(cuts) + 1} batches gave {len(got['outputs'])} outputs, one batch {len(wanted['outputs'])}"
    return None


def survives_a_restart(trial: Trial) -> str | None:
    """A snapshot that is restored goes on as if nothing had happened."""
    random, size = Random(trial.setting), len(trial.trace)
    for cut in (0, random.randrange(1, size), random.randrange(1, size)):
        engine, batch = trial.open()
        engine.play(batch.cut(0, cut))
        state = engine.snapshot()
        wanted, counts = as_lists(engine.play(batch.cut(cut, size))), _counts(engine)
        for _ in range(2):  # the same bytes serve again: nobody has written to them
            other, _ = trial.open()
            other.restore(state)
            if as_lists(other.play(batch.cut(cut, size))) != wanted or _counts(other) != counts:
                return f"after a restart at row {cut} of {size} it chose others: what it remembers must be in `snapshot` and `restore`"
    return None


def accounts_for_every_row(trial: Trial) -> str | None:
    """Every row is shed, expires, or is retained."""
    engine, batch = trial.open()
    played, totals = engine.play(batch), engine.totals
    last = played.retained[played.retained[:, 0] == played.retained[:, 0].max(initial=0), 1]
    counted = (len(played.sheds), len(played.expired), len(last)) == (totals.n_shed, totals.n_expired, totals.retained)
    if sorted([*played.sheds, *played.expired, *last]) != list(range(len(batch))) or not counted or totals.n_input != len(batch):
        return f"of {len(batch)} rows {totals.n_shed} were shed, {totals.n_expired} expired and {totals.retained} are there"
    return None


def has_one_meaning(trial: Trial) -> str | None:
    """The compiled form, where there is one, does what `score` says."""
    ranking = compiled_form(*trial.choose())
    if ranking is None or ranking.kind == Kind.DRAW:  # each form draws for itself
        return None
    both = [Trial(trial.make, trial.setting, stepwise, trial.ticks).open() for stepwise in (False, True)]
    fast, plain = (engine.play(batch) for engine, batch in both)
    wrong = set(fast.sheds.tolist()) ^ set(plain.sheds.tolist())
    return f"`ranking` and `score` differ over {len(wrong)} tuples that one of them sheds" if wrong else None


CHECKS = (
    plays, keeps_to_the_budget, makes_true_outputs, is_exact_with_ample_memory, repeats_itself, plays_in_any_batches, survives_a_restart,
    accounts_for_every_row, has_one_meaning,
)  # fmt: skip
"""What every policy keeps; the first line of each says it."""


@dataclass(frozen=True)
class Finding:
    """What came of one check: the sentence that should hold, and by setting what was found against it."""

    check: str
    against: Mapping[str, str]

    @property
    def holds(self) -> bool:
        """Whether nothing was found."""
        return not self.against


@dataclass(frozen=True)
class PolicyReport:
    """What `ps.check_policy` found; printed, it is a sentence per check."""

    policy: str
    findings: tuple[Finding, ...]
    undefined: Mapping[str, str]  # by setting: why the policy refuses it

    @property
    def ok(self) -> bool:
        """Whether all checks hold."""
        return all(finding.holds for finding in self.findings)

    def __str__(self) -> str:
        """The sentences."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        broken = sum(not finding.holds for finding in self.findings)
        yield f"{self.policy}: " + (f"{broken} of {len(self.findings)} checks found something" if broken else "all checks hold")
        for finding in self.findings:
            yield f"  {'holds ' if finding.holds else 'BROKEN'}  {finding.check}"
            for why in dict.fromkeys(finding.against.values()):
                settings = [setting for setting, found in finding.against.items() if found == why]
                yield f"          {', '.join(settings)}: {why}"
        for setting, why in self.undefined.items():
            yield f"  refused {setting}: {why}"


def check_policy(policy: Any) -> PolicyReport:
    """Try the contract of policies on a policy of yours: an object, or a class or function that makes one.

    Each check plays small traces in several settings: windows, models, statistics, disorder. An object is copied for every run.

    >>> print(check_policy("fifo"))
    fifo: all checks hold
      holds   It plays: one score for every candidate, and no error.
      holds   Memory is never exceeded at the end of an instant, however the budget is given.
      holds   Every output is one of the exact join, and none is made twice.
      ...
    """
    make: Callable[[], Any] = policy if isinstance(policy, type) else lambda: copy.deepcopy(policy)
    defined, undefined = [], {}
    for setting in SETTINGS:
        try:
            Trial(make, setting).open()
            defined.append(setting)
        except PenstockError as error:
            undefined[setting] = str(error)
    if not defined:
        raise PenstockError(f"policy must be defined for some setting, got one that is refused everywhere: {undefined['plain']}")
    one = make()
    name = one if isinstance(one, str) else str(getattr(one, "name", type(one).__name__))
    findings = []
    for check in CHECKS:
        findings.append(Finding(_sentence(check), dict(_against(check, make, defined))))
        if check is plays and not findings[-1].holds:
            break  # the others would report the same
    return PolicyReport(name, tuple(findings), undefined)


def _against(check: Callable[[Trial], str | None], make: Callable[[], Any], settings: list[str]) -> Iterator[tuple[str, str]]:
    for setting in settings:
        try:
            found = check(Trial(make, setting))
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        if found is not None:
            yield setting, found


def _sentence(check: Callable[[Trial], str | None]) -> str:
    return (check.__doc__ or "").splitlines()[0]


def as_lists(played: Played) -> dict[str, list[Any]]:
    """What happened, in its order; but what expires in an instant does so all at once."""
    ordered = {name: getattr(played, name).tolist() for name in ("outputs", "sheds", "retained", "series")}
    return ordered | {"expired": sorted(played.expired.tolist())}


def _counts(engine: Engine) -> dict[str, Any]:
    """Without the steps of heaps, which a batch may begin anew."""
    return {name: count for name, count in vars(engine.totals).items() if name != "n_steps"}


def between_instants(trace: Trace) -> list[int]:
    """The rows with which an instant begins, but for the first."""
    rows: list[int] = (np.flatnonzero(np.diff(trace.time)) + 1).tolist()
    return rows


def play_in_parts(engine: Engine, batch: Batch, cuts: Iterable[int]) -> Played:
    """Play a batch in parts that begin at the rows `cuts`."""
    bounds = [0, *sorted(cuts), len(batch)]
    return Played.join([engine.play(batch.cut(begin, end)) for begin, end in pairwise(bounds)], 0)


def _exact(trial: Trial) -> Counter[tuple[int, ...]]:
    trace = trial.trace
    kept = {name: value for name, value in SETTINGS[trial.setting].items() if name in ("window", "objective")}
    kept |= {"clock": "streams", "lateness": LATE} if trace.n_backwards else {}
    outputs = exact(trace, keep=EVERYTHING, **kept).outputs
    assert outputs is not None
    return Counter(map(tuple, outputs.tolist()))
