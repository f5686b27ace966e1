"""Towne 4: joins through a relation, offline and online, and what the filter before the join saves."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from penstock.core.trace import Trace
from penstock.experiments.cells.cell import Cell
from penstock.experiments.cells.checks import about, at_least, best, gap_grows, gaps_grow, lowest, ordered, times
from penstock.experiments.cells.experiment import Claim, Experiment
from penstock.experiments.cells.joins import seconds, value
from penstock.experiments.prefilters import join_of
from penstock.optimum.optimum import optimum
from penstock.relation.relation import Relation

_N = 5000
_FACTS = 250
_CHANGED = (
    "The paper says neither how many keys there are nor which importances: here 50 keys, in five groups by frequency, worth 1 "
    "to 100, the rarest most. Facts are there all the time."
)
_ONLINE = ("dgl", "dimpprob", "simpprob", "simp", "rand")
_PART = 5  # of the ticks is timed
_DGL = (
    "The paper gives neither the factor of a gain nor that of a fade; with ours (alpha the window, beta a mean tuple's fade "
    "over its life) DGL and DIMPPROB are close, and which is ahead depends on memory."
)
_NOW = (
    "In small memories DIMPPROB counts the matches of now among few tuples, and lets one go whose partners have just left; "
    "SIMPPROB counts once."
)
_WORTH = (
    "Importances are not given. With ours the rarest keys are worth 100 times the most frequent, and most outputs is far from "
    "most importance."
)
_RARE = (
    "With importances that rise from 1 to 100 as keys become rarer, and few facts for each key, the importance of a tuple says "
    "more than the number of matches that it has when it comes. The paper's importances are not given."
)


@lru_cache(maxsize=2)
def _join(seed: int, ticks: int, facts: int) -> tuple[Trace, Relation]:
    return join_of(seed, ticks, facts)


def _offline(cell: Cell) -> float:
    trace, through = _join(cell.seed, _N, _FACTS)
    line = "opt" if cell.line == "ossj" else cell.line.removesuffix("-s")
    return value(
        trace, line, window=10, memory=int(cell.x), stats="window", objective="min", through=through, model="inplace", seed=cell.seed
    )


def _online(cell: Cell) -> float:
    trace, through = _join(cell.seed, _N, _FACTS)
    line = cell.line.removesuffix("-s")
    return value(trace, line, window=50, memory=int(cell.x), stats="window", objective="min", through=through, seed=cell.seed)


def _filtered(cell: Cell) -> float:
    trace, through = _join(cell.seed, _N // _PART, int(cell.x))
    _optimum(*_join(0, 50, 10), {"pre-filter": "static"})  # what is imported and compiled is not timed
    switches: Any = {"pre-filter": "static" if cell.line == "with the filter" else "none"}
    return seconds(lambda: _optimum(trace, through, switches))


def _optimum(trace: Trace, through: Relation, switches: Any) -> None:
    optimum(trace, window=10, memory=10, through=through, allocation="fixed", model="inplace", method="states", switches=switches)


EXPERIMENTS = (
    Experiment(
        name="towne-fig04",
        title="Importance by memory, offline",
        setting="5,000 tuples of each stream, Zipf(1) and uniform; lifetime of 10; 250 facts; replaced tuples do not meet the "
        "partner of the instant",
        play=_offline,
        lines=("exact", "ossj", "sja-s", "rand-s"),
        xs=(2, 4, 6, 8, 10, 14, 20),
        quick=(2, 4, 10, 14, 20),
        x="memory",
        y="importance of the outputs",
        claims=(
            Claim("OSSJ has the largest importance, in every memory.", best("ossj", ("ossj", "sja-s", "rand-s"))),
            Claim("At M = 4 OSSJ is 8 % above SJA-S.", times("ossj", 1.04, 1.12, "sja-s", at=(4,)), _WORTH),
            Claim("RAND-S is the lowest.", lowest("rand-s", ("ossj", "sja-s", "rand-s"))),
            Claim("SJA-S approaches OSSJ, and both the exact join, as memory grows.", at_least("sja-s", 0.95, "exact", at=(14,))),
        ),
        changed=_CHANGED,
    ),
    Experiment(
        name="towne-fig05",
        title="Time of the optimum with the filter before the join, and without",
        setting="Zipf(1) and uniform; memory and lifetime of 10; the optimum by memory states",
        play=_filtered,
        lines=("without the filter", "with the filter"),
        xs=(10, 25, 50, 100, 250),
        quick=(10, 50, 250),
        x="facts",
        y="seconds of the processor",
        timed=True,
        log=True,
        most_seeds=3,
        claims=(
            Claim("It takes less time with the filter.", ordered("without the filter", "with the filter", slack=0.02)),
            Claim("The gain is the larger the fewer facts there are.", gap_grows("with the filter", "without the filter")),
        ),
        changed=f"{_CHANGED} A fifth of the ticks is timed, since without the filter there are millions of states.",
    ),
    Experiment(
        name="towne-fig06",
        title="Importance by memory, online",
        setting="5,000 tuples of each stream, Zipf(1) and uniform; lifetime of 50; 250 facts",
        play=_online,
        lines=("exact", "opt", *(f"{name}-s" for name in _ONLINE)),
        xs=(10, 20, 30, 40, 60, 80, 100),
        quick=(10, 20, 40, 80, 100),
        x="memory",
        y="importance of the outputs",
        claims=(
            Claim("DGL-S is the best.", best("dgl-s", [f"{name}-s" for name in _ONLINE]), _DGL),
            Claim("DIMPPROB-S and SIMPPROB-S are very similar.", about("dimpprob-s", "simpprob-s", 0.05), _NOW),
            Claim("SIMPPROB-S is better than SIMP-S.", ordered("simpprob-s", "simp-s", slack=0.02), _RARE),
            Claim("DIMPPROB-S is better than SIMP-S.", ordered("dimpprob-s", "simp-s", slack=0.02), _RARE),
            Claim("RAND-S is by far the poorest in small memories.", at_least("simp-s", 1.2, "rand-s", at=(10, 20))),
            Claim("All approach the exact join as memory grows.", gaps_grow([f"{name}-s" for name in _ONLINE], "exact")),
        ),
        changed=_CHANGED,
    ),
)
