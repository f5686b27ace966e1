"""Das 5.2.3: one memory for both streams, and who holds it."""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np

from penstock.core.trace import Ints, Trace
from penstock.engine.contract import Keep
from penstock.experiments.catalog.das_windows import MEMORIES, MEMORY, SETTING
from penstock.experiments.cells.cell import Cell
from penstock.experiments.cells.checks import about, at_least, ordered
from penstock.experiments.cells.experiment import Claim, Experiment, Outcome
from penstock.experiments.cells.joins import run, streams, value
from penstock.experiments.cells.results import Results, shown

_LINES = ("exact", "optv", "opt", "probv", "prob", "randv", "rand")
_SMALL = (
    "Frequent keys are drawn anew for each stream. In the smallest memory, of 40 tuples, one stream may have the more valuable "
    "keys by chance, and one memory gives it the more room."
)
_HIGHER = (
    "By PROB's ranks it is 78 %: eleven of the 50 keys come more often than one in 50 in the skewed stream, so that 22 % of the "
    "uniform stream's tuples are worth more than any of the skewed stream's. Single runs reach 82 % for moments."
)
_TIMES = tuple(range(1000, 5600, 400))


def _play(cell: Cell, *, skew: tuple[float, float]) -> float:
    trace = streams(seed=cell.seed, skew=skew)
    return value(trace, cell.line, window=400, memory=round(400 * float(cell.x)), start=800, seed=cell.seed)


def _part(cell: Cell, *, skew: tuple[float, float]) -> float:
    return share_of_first(_series(cell.line, cell.seed, skew), int(cell.x))


@lru_cache(maxsize=8)
def _series(line: str, seed: int, skew: tuple[float, float]) -> Ints:
    return series(streams(seed=seed, skew=skew), line, window=400, memory=400, seed=seed)


def series(trace: Trace, line: str, *, window: int, memory: int, seed: int) -> Ints:
    """Tuples per stream after each instant."""
    found = run(trace, line, window=window, memory=memory, objective="count", keep=Keep(series=True), seed=seed).series
    assert found is not None
    return found


def share_of_first(series: Ints, time: int) -> float:
    """The share of the tuples in memory that is of the first stream.

    >>> share_of_first(np.array([[0, 1, 3], [5, 2, 2]]), 4)
    0.25
    """
    row = series[max(0, int(np.searchsorted(series[:, 0], time, side="right")) - 1)]
    return float(row[1] / max(1, row[1:].sum()))


def between(line: str, low: float, high: float, panel: str = "") -> Claim:
    """A claim about the mean of a line over time."""

    def check(results: Results) -> Outcome:
        means = [results.mean(line, x, panel) for x in results.xs(panel)]
        return Outcome(
            low <= min(means) <= max(means) <= high,
            f"{line}: {shown(min(means))} to {shown(max(means))} over time; wanted: {low:g} to {high:g}",
        )

    return Claim(f"Of streams that are alike each has about half of the memory: {line.upper()}.", check)


def _more(results: Results) -> Outcome:
    means = [results.mean("probv", x) for x in results.xs()]
    return Outcome(min(means) > 0.5, f"{shown(min(means))} to {shown(max(means))}")


def _most(results: Results) -> Outcome:
    means = [results.mean("probv", x) for x in results.xs()]
    return Outcome(0.8 <= max(means) <= 0.9, f"up to {shown(max(means))}; wanted: 0.8 to 0.9")


def _largest(results: Results) -> Outcome:
    found = {x: (results.mean("probv", x) - results.mean("prob", x)) / results.mean("exact", x) for x in results.xs()}
    x = max(found, key=found.__getitem__)
    return Outcome(0.03 <= found[x] <= 0.12, f"{100 * found[x]:.1f} % of the exact join, at {x} windows; wanted: 3 to 12 %")


def _outputs(number: str, title: str, skew: tuple[float, float], claims: tuple[Claim, ...]) -> Experiment:
    return Experiment(
        name=f"das-fig{number}",
        title=f"One memory or two: {title}",
        setting=f"window of 400 ticks, 50 keys; {SETTING} (V: one memory)",
        play=partial(_play, skew=skew),
        lines=_LINES,
        xs=MEMORIES,
        x=MEMORY,
        y="outputs",
        claims=claims,
    )


def _shares(number: str, title: str, skew: tuple[float, float], claims: tuple[Claim, ...]) -> Experiment:
    return Experiment(
        name=f"das-fig{number}",
        title=f"Who holds the memory: {title}",
        setting="window and memory of 400, 50 keys, one memory for both streams",
        play=partial(_part, skew=skew),
        lines=("optv", "probv", "randv"),
        xs=_TIMES,
        quick=_TIMES[::3],
        x="time",
        y="share of the first stream",
        claims=claims,
    )


EXPERIMENTS = (
    _outputs(
        "13",
        "Zipf(1) both",
        (1.0, 1.0),
        (
            Claim("With streams that are alike one memory keeps about as much as two: PROB.", about("probv", "prob", 0.05), _SMALL),
            Claim("The same for the optimum.", about("optv", "opt", 0.05), _SMALL),
            Claim("PROB keeps more than RAND, with one memory.", ordered("probv", "randv")),
            Claim("PROB keeps more than RAND, with two.", ordered("prob", "rand")),
        ),
    ),
    _outputs(
        "14",
        "Zipf(1) and uniform",
        (1.0, 0.0),
        (
            Claim("With streams that are not alike one memory keeps more: PROB.", at_least("probv", 1.0, "prob", at=MEMORIES[:4])),
            Claim("The same for the optimum.", at_least("optv", 1.0, "opt")),
            Claim("It is up to 10 % of the output more.", _largest),
        ),
    ),
    _shares("15", "Zipf(0.25) both", (0.25, 0.25), (between("probv", 0.45, 0.55), between("optv", 0.45, 0.55))),
    _shares(
        "16",
        "Zipf(1) and uniform",
        (1.0, 0.0),
        (
            Claim("The stream with the higher skew has more of the memory.", _more),
            Claim(
                "It has up to 85 %.",
                _most,
                _HIGHER,
            ),
        ),
    ),
)
