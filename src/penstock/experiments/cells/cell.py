"""A cell: one number of an experiment, which can be played anywhere and in any order."""

from __future__ import annotations

from dataclasses import dataclass

X = float | str
"""A place on the x axis: a number, or a name."""


@dataclass(frozen=True)
class Cell:
    """What is to be played; `quick` asks for smaller streams where those of the paper are large."""

    experiment: str
    panel: str
    line: str
    x: X
    seed: int
    quick: bool = False
