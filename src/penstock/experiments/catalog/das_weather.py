"""Das 5.2.5: real streams, by location."""

from __future__ import annotations

from functools import lru_cache

from penstock.core.trace import Ints, Trace
from penstock.experiments.catalog.das_allocation import between, series, share_of_first
from penstock.experiments.catalog.das_windows import MEMORIES, MEMORY
from penstock.experiments.catalog.real_data import TAXI, WEATHER, taxi, weather
from penstock.experiments.cells.cell import Cell
from penstock.experiments.cells.checks import about, at_least, ordered
from penstock.experiments.cells.experiment import Claim, Experiment
from penstock.experiments.cells.joins import value

_PANELS = {"weather": (weather, 500), "taxi": (taxi, 5000)}
_QUICK_ROWS = 20_000
_TIMES = {"weather": tuple(range(1000, 4500, 250)), "taxi": tuple(range(10_000, 40_000, 2500))}
_CHANGED = (
    "In the place of cloud reports of 1985 and 1986, which are not to be had: weather reports of 1929 and 1930 (October to "
    "December), in cells of ten degrees, in a window of 500 ticks of 4,500; and taxi trips, pickups against drop-offs by zone, "
    "in a window of 5,000 ticks of 40,000. The parts are five stretches of the data. The optimum, which the paper could not "
    "compute, is there."
)
_FEW = (
    "No policy could: the optimum keeps 84 %, and PROB is within 1 % of it. Nearly all reports of these years come from a few "
    "cells of Europe, so that no half of the tuples has nine tenths of the pairs."
)
_NEARLY = "It is 90 % to within the interval; probabilities are those of the whole stream, and change between day and night."
_ZONES = "Green taxis pick up in few zones and drop off in all: the streams are not alike, as the paper's two years of one month were."


def _trace(panel: str, part: int, *, quick: bool) -> tuple[Trace, int]:
    make, window = _PANELS[panel]
    trace = make(part)
    return (Trace(trace.table.slice(0, 2 * _QUICK_ROWS), streams=trace.streams), window) if quick and panel == "taxi" else (trace, window)


def _play(cell: Cell) -> float:
    trace, window = _trace(cell.panel, cell.seed, quick=cell.quick)
    return value(trace, cell.line, window=window, memory=round(window * float(cell.x)), start=2 * window, seed=cell.seed)


def _share(cell: Cell) -> float:
    return share_of_first(_series(cell.panel, cell.line, cell.seed), int(cell.x))


@lru_cache(maxsize=4)
def _series(panel: str, line: str, seed: int) -> Ints:
    trace, window = _trace(panel, seed, quick=False)
    return series(trace, line, window=window, memory=window, seed=seed)


EXPERIMENTS = (
    Experiment(
        name="das-fig12",
        title="Outputs by memory, real streams",
        setting="one report or trip of each stream per tick; probabilities of the whole stream; outputs count after two windows",
        play=_play,
        lines=("exact", "optv", "opt", "probv", "prob", "rand", "learnedv"),
        panels=tuple(_PANELS),
        xs=MEMORIES,
        quick=(0.25, 0.5, 1.0),
        x=MEMORY,
        y="outputs",
        data=f"{WEATHER},{TAXI}",
        claims=(
            Claim("PROB keeps more than RAND: weather.", ordered("prob", "rand", panel="weather")),
            Claim("PROB keeps more than RAND: taxi.", ordered("prob", "rand", panel="taxi")),
            Claim("PROB and PROBV are almost the same: weather.", about("probv", "prob", 0.05, panel="weather")),
            Claim("PROB and PROBV are almost the same: taxi.", about("probv", "prob", 0.05, panel="taxi"), _ZONES),
            Claim(
                "With half of the memory PROB keeps over 90 % of the exact join: weather.",
                at_least("prob", 0.9, "exact", at=(1.0,), panel="weather"),
                _FEW,
            ),
            Claim(
                "With half of the memory PROB keeps over 90 % of the exact join: taxi.",
                at_least("prob", 0.9, "exact", at=(1.0,), panel="taxi"),
                _NEARLY,
            ),
        ),
        changed=_CHANGED,
    ),
    Experiment(
        name="das-fig20",
        title="Who holds the memory, real streams",
        setting="memory = window, one memory for both streams",
        play=_share,
        lines=("probv", "randv"),
        panels=tuple(_PANELS),
        xs=(),
        panel_xs=_TIMES,
        x="time",
        y="share of the first stream",
        data=f"{WEATHER},{TAXI}",
        claims=(
            Claim("The memory stays at half and half all the time: weather.", between("probv", 0.45, 0.55, "weather").check),
            Claim("The memory stays at half and half all the time: taxi.", between("probv", 0.45, 0.55, "taxi").check, _ZONES),
        ),
        changed=_CHANGED,
    ),
)
