"""Golab 6: how many tuples per second the algorithms take, by order, by index, by how long arrivals wait."""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import pairwise, permutations
from statistics import fmean
from typing import Any

from penstock.core.trace import Trace
from penstock.experiments.catalog.golab_costs import Table, setting
from penstock.experiments.cells.cell import Cell, X
from penstock.experiments.cells.checks import Check, at_least, at_most, best, lowest, ordered, times
from penstock.experiments.cells.experiment import Claim, Experiment, Outcome
from penstock.experiments.cells.results import Results, shown
from penstock.multiway.cost import CostModel
from penstock.multiway.strategies import run_strategy
from penstock.multiway.workload import TABLE_5, in_ticks, random_arrivals

_ALGORITHMS: dict[str, dict[str, Any]] = {
    "eager NLJ": {"strategy": "eager"},
    "lazy NLJ, tau 5": {"strategy": "lazy", "tau": 5},
    "lazy NLJ, tau 10": {"strategy": "lazy", "tau": 10},
    "eager hash": {"strategy": "eager", "access": 5},
    "lazy hash, tau 5": {"strategy": "lazy", "tau": 5, "access": 5},
    "lazy hash, tau 10": {"strategy": "lazy", "tau": 10, "access": 5},
}
_ALIKE: Table = {f"S{number}": (1, 100, 50) for number in (1, 2, 3, 4)}
_ONE_FAST: Table = {**_ALIKE, "S4": (50, 100, 50)}
_BUCKETS = {"NLJ": 1, "hash 2": 2, "hash 10": 10, "hash 30": 30}
_SLOW = {"equal": None, "1 to slow": 1, "5 to slow": 5, "10 to slow": 10}
_TAUS = (1, 2, 4, 8, 15, 30, 50)
_AVERAGES = (2, 4, 6, 8, 10, 12, 13)
_ROWS = 40_000
_RATE = "tuples per second"
_QUICKER = (
    "The paper's prototype was interpreted by a Java of 2003; ours is compiled, and expiration costs it less beside the loops. "
    "The best wait grows with the number of buckets, as the paper has it, but is shorter."
)
_VISITS = (
    "Windows that are expired every five ticks are 2 % larger, which the nested loops hardly show. In the hash join waiting saves "
    "more than that: eager expiration looks at 20 buckets for each arrival, a tenth of all that is visited."
)
_STEPS = (
    "Two buckets halve what the loops visit, ten divide it by ten: where expiration costs little the rates follow that. Of each "
    "further bucket the gain does become smaller."
)
_EQUAL = (
    "With equal tables of ten buckets each loop over a slow window looks at ten tuples of a hundred, and with five at twenty: "
    "where a bucket costs next to nothing to expire, what is saved in the fast window is lost in the three slow ones."
)
_CHANGED = "A tick is an arrival, as in the paper's generator. Rates are those of our compiled loops on one core, in one run."


@lru_cache(maxsize=4)
def _arrivals(seed: int, table: tuple[tuple[str, tuple[float, float, float]], ...], rows: int) -> Trace:
    return random_arrivals(rows, {name: (rate, values) for name, (rate, _, values) in table}, seed=seed)


def _rate(seed: int, table: Table, order: list[str] | None, *, quick: bool, **how: Any) -> float:
    trace = _arrivals(seed, tuple(table.items()), _ROWS // 4 if quick else _ROWS)
    rates = {name: rate for name, (rate, _, _) in table.items()}
    windows = in_ticks({name: window for name, (_, window, _) in table.items()}, rates)
    for name in ("tau",):  # in units of time, as windows are
        if name in how:
            how[name] = max(1, round(how[name] * sum(rates.values())))
    return len(trace) / run_strategy(trace, window=windows, order=order, **how).seconds


@cache
def _extremes() -> dict[str, tuple[str, ...]]:
    """The cheapest and the dearest order of Table 5, by the cost model."""
    chosen = setting(TABLE_5)
    model, names = CostModel(chosen), chosen.names
    ranked = sorted(permutations(range(len(names))), key=model.cost)
    return {"best plan": tuple(names[at] for at in ranked[0]), "worst plan": tuple(names[at] for at in ranked[-1])}


def _by_plan(cell: Cell) -> float:
    _warm()
    return _rate(cell.seed, TABLE_5, list(_extremes()[cell.line]), quick=cell.quick, **_ALGORITHMS[str(cell.x)])


def _by_index(cell: Cell) -> float:
    _warm()
    buckets = _BUCKETS[cell.line]
    return _rate(cell.seed, _ALIKE, None, quick=cell.quick, strategy="lazy", tau=int(cell.x), access=buckets if buckets > 1 else "nested")


def _by_buckets(cell: Cell) -> float:
    _warm()
    average, slow = int(cell.x), _SLOW[cell.line]
    small = average if slow is None else slow
    fast = 4 * average - 3 * small
    if fast < 1:
        return float("nan")
    access = {name: fast if name == "S4" else small for name in _ONE_FAST}
    return _rate(cell.seed, _ONE_FAST, None, quick=cell.quick, strategy="lazy", tau=5, access=access)


@cache
def _warm() -> None:
    """What is compiled is not timed."""
    for how in _ALGORITHMS.values():
        _rate(0, {"S1": (1, 10, 5), "S2": (1, 10, 5)}, None, quick=True, **how)


def _top(line: str, low: float, high: float) -> Claim:
    def check(results: Results) -> Outcome:
        means = {x: results.mean(line, x) for x in results.xs()}
        top = max(means, key=means.__getitem__)
        return Outcome(low <= float(top) <= high, f"best at tau {top}: {shown(means[top])} {_RATE}")

    return Claim(f"{line} is best with tau of about {low:g} to {high:g}.", check, _QUICKER)


def _waits_grow(results: Results) -> Outcome:
    """Of the hash tables, which have buckets to expire."""
    tables = [line for line in _BUCKETS if line.startswith("hash")]
    tops = {line: max(results.xs(), key=lambda x, line=line: results.mean(line, x)) for line in tables}  # type: ignore[misc]
    waits = [float(tops[line]) for line in tables]
    return Outcome(waits == sorted(waits), "best tau: " + ", ".join(f"{line} {tau}" for line, tau in tops.items()))


def _largest_step(results: Results) -> Outcome:
    """From each table to the next larger, in the mean over the x axis."""
    steps = {
        f"{before} to {after}": fmean(results.ratio(after, before, x).mean for x in results.xs()) for before, after in pairwise(_BUCKETS)
    }
    return Outcome(
        max(steps, key=steps.__getitem__) == "NLJ to hash 2", ", ".join(f"{name}: {shown(one)} times" for name, one in steps.items())
    )


def _faster(results: Results) -> Outcome:
    pairs = {
        how: results.mean("best plan", f"{how} hash{wait}") / results.mean("best plan", f"{how} NLJ{wait}")
        for how, wait in (("eager", ""), ("lazy", ", tau 5"), ("lazy", ", tau 10"))
    }
    return Outcome(min(pairs.values()) > 1, ", ".join(f"{how}: {shown(ratio)} times" for how, ratio in pairs.items()))


def _slower(kind: str) -> Check:
    def check(results: Results) -> Outcome:
        means = [results.mean("best plan", name) for name in _ALGORITHMS if kind in name]
        return Outcome(means == sorted(means, reverse=True), f"{', '.join(map(shown, means))} {_RATE}, from eager to tau 10")

    return check


_TEN: tuple[X, ...] = (8, 10, 12)

EXPERIMENTS = (
    Experiment(
        name="golab-table8",
        title="Tuples per second by algorithm, the best plan and the worst",
        setting="the streams of Table 5; hash tables of five buckets; the best and the worst order of the cost model",
        play=_by_plan,
        lines=("best plan", "worst plan"),
        xs=tuple(_ALGORITHMS),
        x="algorithm",
        y=_RATE,
        timed=True,
        log=True,
        claims=(
            Claim("The best plan takes 4 to 5 times as many tuples as the worst.", times("best plan", 3.5, 5.5, "worst plan")),
            Claim("With the hash join the best plan is faster than with the nested loops.", _faster),
            Claim("Waiting longer makes the nested loops slower.", _slower("NLJ"), _VISITS),
            Claim("Waiting longer makes the hash join slower.", _slower("hash"), _VISITS),
        ),
        changed=_CHANGED,
    ),
    Experiment(
        name="golab-fig04a",
        title="Tuples per second by index, and by how long arrivals wait",
        setting="four streams, one tuple per tick each, windows of 100, 50 values; evaluation and expiration every tau",
        play=_by_index,
        lines=tuple(_BUCKETS),
        xs=_TAUS,
        quick=(1, 4, 15, 50),
        x="ticks between evaluations (tau)",
        y=_RATE,
        timed=True,
        log=True,
        logx=True,
        claims=(
            Claim("The nested loops are the slowest.", lowest("NLJ", tuple(_BUCKETS))),
            Claim("The largest hash table is the fastest.", best("hash 30", tuple(_BUCKETS))),
            Claim("Each larger table is faster.", ordered("hash 30", "hash 10", "hash 2", "NLJ")),
            Claim("The largest step is that from the nested loops to two buckets.", _largest_step, _STEPS),
            Claim("The more buckets a hash table has the longer is its best wait.", _waits_grow),
            _top("hash 2", 2, 8),
            _top("hash 10", 8, 30),
            _top("hash 30", 15, 50),
        ),
        changed=_CHANGED,
    ),
    Experiment(
        name="golab-fig04b",
        title="Tuples per second where the fast stream has the larger hash table",
        setting="windows of 100, 50 values; three streams of one tuple per tick, the fourth of fifty; evaluation every five ticks",
        play=_by_buckets,
        lines=tuple(_SLOW),
        xs=_AVERAGES,
        quick=(8, 12),
        x="buckets per window, on average",
        y=_RATE,
        timed=True,
        claims=(
            Claim(
                "Five buckets to each slow stream, the rest to the fast one, is better than equal tables.",
                at_least("5 to slow", 1.0, "equal", at=_TEN),
                _EQUAL,
            ),
            Claim("With one bucket to each slow stream it is worse than with five.", at_most("1 to slow", 1.0, "5 to slow", at=_TEN)),
            Claim(
                "With ten it is worse than with five, as far as the figure goes.", at_most("10 to slow", 1.0, "5 to slow", at=_TEN), _EQUAL
            ),
        ),
        changed=_CHANGED,
    ),
)
