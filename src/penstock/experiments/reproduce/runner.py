"""Plays the cells of experiments: on Spark where they are independent, alone and one after the other where they are timed.

Cells that share their streams go together, as one task. Tasks are played in rounds, a job of Spark each; what a round has found is written
down before the next begins.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from time import perf_counter
from typing import Any, Protocol

from penstock.core.errors import PenstockError
from penstock.experiments.catalog.table import CATALOG
from penstock.experiments.cells.cell import Cell
from penstock.experiments.cells.experiment import Experiment
from penstock.experiments.cells.results import Results
from penstock.experiments.policy_table import data_folder
from penstock.experiments.reproduce.cell_store import CellStore, key

_TASKS = 8
"""Of a round, for each slot that plays them, at most."""

Spread = Callable[[Callable[[str], str], Sequence[str]], list[str]]


class RunProgress(Protocol):
    """Who hears how far a run is."""

    def advance(self, amount: int = 1) -> None:
        """So many cells more are done."""

    def say(self, label: str) -> None:
        """What is played now."""


@dataclass(frozen=True)
class CellsToPlay:
    """What is to be played: cells by experiment, less those that are there already; and the experiments that cannot be, and why."""

    wanted: dict[str, list[Cell]]
    missing: dict[str, list[Cell]]
    absent: dict[str, str]

    @property
    def n_missing(self) -> int:
        """Cells to play."""
        return sum(map(len, self.missing.values()))


def cells_to_play(names: Sequence[str], store: CellStore, *, seeds: int, quick: bool) -> CellsToPlay:
    """Which cells these experiments have, and which are not in the store."""
    wanted, missing, absent = {}, {}, {}
    for name in names:
        reason = lacking(CATALOG[name])
        if reason:
            absent[name] = reason
            continue
        there = store.read(name)
        wanted[name] = list(CATALOG[name].cells(seeds, quick))
        missing[name] = [cell for cell in wanted[name] if key(cell) not in there]
    return CellsToPlay(wanted, missing, absent)


def lacking(experiment: Experiment) -> str:
    """Which data an experiment needs that is not there; nothing where it has all."""
    folder = data_folder()
    names = experiment.data.split(",") if experiment.data else []
    if names and folder is None:
        return f"needs real data ({', '.join(names)}): PENSTOCK_DATA names no folder"
    gone = [name for name in names if not (folder is not None and (folder / name).is_dir())]
    return f"needs real data ({', '.join(gone)}), which is not in {folder}" if gone else ""


def run(made: CellsToPlay, store: CellStore, *, spread: Spread | None, slots: int, bar: RunProgress) -> None:
    """Play what is missing, and write it down."""
    together = [name for name in made.missing if not CATALOG[name].timed]
    tasks = [task for name in together for task in _tasks(made.missing[name])]
    begin, size = 0, slots
    while begin < len(tasks):
        part = tasks[begin : begin + size]
        begin, size = begin + size, min(2 * size, _TASKS * slots)  # the first rounds are small, so that an early stop keeps something
        bar.say(_named(part))
        pieces = [json.dumps([asdict(cell) for cell in task]) for task in part]
        found = map(play, pieces) if spread is None else iter(spread(play, pieces))
        played = [one for task, text in zip(part, found, strict=True) for one in _read(task, text)]
        for name, own in groupby(played, lambda one: one[0].experiment):
            store.add(name, list(own))
        bar.advance(len(played))
    for name in (name for name in made.missing if CATALOG[name].timed):
        for task in _tasks(made.missing[name]):
            bar.say(f"{name}, one after the other: times count")
            store.add(name, _read(task, play(json.dumps([asdict(cell) for cell in task]))))
            bar.advance(len(task))


def results(made: CellsToPlay, store: CellStore) -> dict[str, Results]:
    """The numbers of all cells that were wanted, by experiment."""
    found = {}
    for name, cells in made.wanted.items():
        there = store.read(name)
        found[name] = Results.of((cell, there[key(cell)]) for cell in cells)
    return found


def play(text: str) -> str:
    """Play cells of one experiment, given and returned as JSON: this is what a worker does."""
    found = []
    for said in json.loads(text):
        cell = Cell(**said)
        began = perf_counter()
        try:
            value = float(CATALOG[cell.experiment].play(cell))
        except PenstockError as error:
            raise PenstockError(f"{cell.experiment}, {cell.line} at {cell.x}, seed {cell.seed}: {error}") from error
        found.append([value, perf_counter() - began])
    return json.dumps(found)


def _read(task: Iterable[Cell], text: str) -> list[tuple[Cell, float, float]]:
    pairs: list[list[Any]] = json.loads(text)
    return [(cell, value, seconds) for cell, (value, seconds) in zip(task, pairs, strict=True)]


def _tasks(cells: Iterable[Cell]) -> Iterator[list[Cell]]:
    """Cells of one panel and seed, which mostly share their streams; in small parts where they are many."""
    for _, own in groupby(cells, lambda cell: (cell.panel, cell.seed, cell.x)):
        yield list(own)


def _named(tasks: Sequence[Sequence[Cell]]) -> str:
    names = list(dict.fromkeys(task[0].experiment for task in tasks))
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
