"""Das 5.2.2: how near PROB comes to the optimum, by skew, where the same keys are frequent in both streams and where others are."""

from __future__ import annotations

from functools import partial

from penstock.experiments.catalog.das_windows import SETTING
from penstock.experiments.cells.cell import Cell
from penstock.experiments.cells.checks import about, at_least, gap_grows
from penstock.experiments.cells.experiment import Claim, Experiment
from penstock.experiments.cells.joins import streams, value

_SKEWS = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
_HIGH = tuple(skew for skew in _SKEWS if skew >= 1)
_RARE = (
    "Where other keys are frequent in each stream, most tuples wait for rare partners, and the optimum knows when those come. "
    "At skew 1 the five seeds give 0.89 to 0.96; from 1.5 on their mean is above 0.96."
)


def _play(cell: Cell, *, ranks: str) -> float:
    trace = streams(seed=cell.seed, skew=float(cell.x), ranks=ranks)
    return value(trace, cell.line, window=400, memory=400, start=800, seed=cell.seed)


def _experiment(number: str, ranks: str) -> Experiment:
    return Experiment(
        name=f"das-fig{number}",
        title=f"Share of the optimum, by skew: {ranks} keys",
        setting=f"Zipf with this exponent in both streams, {ranks}, 50 keys; memory = window = 400; {SETTING}",
        play=partial(_play, ranks=ranks),
        lines=("opt", "prob", "rand", "learned"),
        xs=_SKEWS,
        x="skew",
        y="outputs, as a share of the optimum's",
        of="opt",
        claims=(
            Claim("On uniform keys PROB and RAND are essentially the same.", about("prob", "rand", 0.1, at=(0.0,))),
            Claim("The lead of PROB over RAND grows with skew.", gap_grows("prob", "rand", at=(0.0, 0.5, 1.0, 1.5))),
            Claim("At M = w PROB reaches 96 % of the optimum for skew 1 and up.", at_least("prob", 0.96, "opt", at=_HIGH), _RARE),
        ),
        changed="LEARNED is ours, and knows the past alone.",
    )


EXPERIMENTS = (_experiment("10", "uncorrelated"), _experiment("11", "correlated"))
