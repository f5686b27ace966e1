"""What an experiment is: cells to play, a figure to draw, and what the paper says about it.

An experiment is a table of cells: one for each panel, line, place on the x axis and seed. A cell is one number, and depends on nothing but
these four, so that cells can be played anywhere and in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from penstock.experiments.cells.cell import Cell, X
from penstock.experiments.cells.results import Results


@dataclass(frozen=True)
class Outcome:
    """What a check of a claim found: whether it holds, and our figure in words."""

    holds: bool
    figure: str


@dataclass(frozen=True)
class Claim:
    """What the paper says of a figure, in our words, and how it is checked; `because` explains a result that contradicts it."""

    text: str
    check: Callable[[Results], Outcome]
    because: str = ""


@dataclass(frozen=True)
class Experiment:
    """A figure or a table of a paper.

    `lines`, `xs` and `panels` span its cells, and `play` makes the number of one. `quick` has fewer places on the x axis. With `of`, lines
    are drawn as shares of that line. Where `timed`, numbers are times, and cells are played alone, one after the other. `data` names the
    folder of real data that it needs. `changed` says what is not as the paper has it.
    """

    name: str
    title: str
    setting: str
    play: Callable[[Cell], float]
    lines: tuple[str, ...]
    xs: tuple[X, ...]
    x: str
    y: str
    claims: tuple[Claim, ...]
    quick: tuple[X, ...] = ()
    panels: tuple[str, ...] = ("",)
    panel_xs: Mapping[str, tuple[X, ...]] = field(default_factory=dict)
    of: str | None = None
    timed: bool = False
    log: bool = False
    logx: bool = False
    data: str = ""
    most_seeds: int = 1 << 30
    changed: str = ""

    @property
    def paper(self) -> str:
        """The first word of its name."""
        return self.name.partition("-")[0]

    def places(self, panel: str, quick: bool) -> tuple[X, ...]:
        """The x axis of a panel."""
        xs = self.panel_xs.get(panel, self.xs)
        return tuple(x for x in xs if x in self.quick) if quick and self.quick else xs

    def cells(self, seeds: int, quick: bool) -> Iterator[Cell]:
        """All of them; those that share streams are neighbours."""
        for panel in self.panels:
            for seed in range(min(seeds, self.most_seeds)):
                for x in self.places(panel, quick):
                    for line in self.lines:
                        yield Cell(self.name, panel, line, x, seed, quick)
