"""Das 5.1: static joins, truncated by average degree (ADG) and optimally."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from penstock.core.trace import Ints
from penstock.experiments.cells.cell import Cell
from penstock.experiments.cells.checks import at_least, at_most, flat, rises
from penstock.experiments.cells.experiment import Claim, Experiment
from penstock.experiments.cells.joins import seconds
from penstock.generator.zipf import zipf_probabilities
from penstock.static.histogram import Truncation, truncate_histograms

TUPLES = 50_000
_METHODS = ("adg", "optimal")
_RELATIONS = "two relations of 50,000 tuples; sizes of the components by Zipf, drawn for each relation by itself"
_BRIEF = (
    "ADG takes one or two thousandths of a second here, whatever is kept: what else the machine does at that moment is sometimes more "
    "than 30 % of that."
)
_BOUNDS = (
    "Our optimum settles most components by bounds before it plans the rest exactly, so that it takes 1 to 4 times as long as "
    "ADG; the paper's does not."
)


@lru_cache(maxsize=4)
def _sizes(seed: int, components: int, skew: float) -> tuple[Ints, Ints]:
    first, second = (
        rng.multinomial(TUPLES, rng.permutation(zipf_probabilities(components, skew)))
        for rng in map(np.random.default_rng, np.random.SeedSequence(seed).spawn(2))
    )
    return first, second


def _truncated(seed: int, method: str, *, components: int, keep: int, skew: float) -> Truncation:
    return truncate_histograms(_sizes(seed, components, skew), keep=keep, method=method)


def _kept(cell: Cell) -> float:
    return _truncated(cell.seed, cell.line, components=1000, keep=5000, skew=float(cell.x)).n_output


def _timed(cell: Cell, *, components: int, keep: int) -> float:
    _truncated(0, cell.line, components=50, keep=500, skew=0.5)  # what is compiled or imported is not timed
    _sizes(cell.seed, components, 0.5)  # nor is the drawing of the sizes
    return seconds(lambda: _truncated(cell.seed, cell.line, components=components, keep=keep, skew=0.5))


def _time_by_kept(cell: Cell) -> float:
    return _timed(cell, components=1000, keep=int(cell.x))


def _time_by_components(cell: Cell) -> float:
    return _timed(cell, components=int(cell.x), keep=5000)


EXPERIMENTS = (
    Experiment(
        name="das-fig04",
        title="What ADG keeps, as a share of the best",
        setting=f"{_RELATIONS}; 5,000 tuples are kept, 1,000 components",
        play=_kept,
        lines=_METHODS,
        xs=(0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0),
        x="skew of the sizes of components",
        y="outputs, as a share of the optimum's",
        of="optimal",
        claims=(Claim("ADG keeps more than 99.5 % of what the optimum keeps, at every skew.", at_least("adg", 0.995, "optimal")),),
    ),
    Experiment(
        name="das-fig05",
        title="Time to truncate, by tuples kept",
        setting=f"{_RELATIONS} with exponent 0.5; 1,000 components",
        play=_time_by_kept,
        lines=_METHODS,
        xs=(1000, 2000, 3000, 4000, 5000),
        quick=(1000, 5000),
        x="tuples kept",
        y="seconds of the processor",
        timed=True,
        log=True,
        claims=(
            Claim("ADG takes three to four orders of magnitude less time than the optimum.", at_most("adg", 1e-3, "optimal"), _BOUNDS),
            Claim("The time of ADG does not depend on the number of tuples kept.", flat("adg", 0.3), _BRIEF),
            Claim("The time of the optimum grows with the number of tuples kept.", rises("optimal", slack=0.2), _BOUNDS),
        ),
        changed=_BOUNDS,
    ),
    Experiment(
        name="das-fig06",
        title="Time to truncate, by components",
        setting=f"{_RELATIONS} with exponent 0.5; 5,000 tuples are kept",
        play=_time_by_components,
        lines=_METHODS,
        xs=(500, 1000, 2000, 4000),
        quick=(500, 4000),
        x="components",
        y="seconds of the processor",
        timed=True,
        log=True,
        claims=(
            Claim("The time of ADG grows with the number of components.", rises("adg", slack=0.2)),
            Claim("So does that of the optimum.", rises("optimal", slack=0.2), _BOUNDS),
            Claim("ADG stays far quicker than the optimum, at any number of components.", at_most("adg", 0.1, "optimal"), _BOUNDS),
        ),
        changed=_BOUNDS,
    ),
)
