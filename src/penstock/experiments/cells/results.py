"""The numbers of an experiment: means and intervals over seeds, of lines and of ratios between lines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean

from penstock.experiments.arrival_orders import interval
from penstock.experiments.cells.cell import Cell, X


@dataclass(frozen=True)
class Spread:
    """A mean over seeds, and its 95 % interval; of one seed there is none."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Of these values; where one is no number, there is no mean.

        >>> print(Spread.of([0.4, 0.5, 0.6]))
        0.5 (0.252 to 0.748)
        """
        found = list(values)
        if not all(map(math.isfinite, found)):
            return cls(math.nan, math.nan, math.nan)
        if len(found) < 2:
            return cls(found[0], found[0], found[0])
        return cls(*interval(found))

    def __str__(self) -> str:
        if self.low == self.high:
            return shown(self.mean)
        return f"{shown(self.mean)} ({shown(self.low)} to {shown(self.high)})"


@dataclass(frozen=True)
class Results:
    """The cells of an experiment that were played."""

    values: Mapping[tuple[str, str, X, int], float]
    """By panel, line, x and seed."""

    @classmethod
    def of(cls, played: Iterable[tuple[Cell, float]]) -> Results:
        """From cells and their numbers."""
        return cls({(cell.panel, cell.line, cell.x, cell.seed): value for cell, value in played})

    def xs(self, panel: str = "") -> list[X]:
        """The x axis of a panel."""
        return list(dict.fromkeys(x for where, _, x, _ in self.values if where == panel))

    def seeds(self, line: str, x: X, panel: str = "") -> list[float]:
        """The numbers of a line at a place, seed by seed."""
        return [value for (where, name, place, _), value in self.values.items() if (where, name, place) == (panel, line, x)]

    def spread(self, line: str, x: X, panel: str = "") -> Spread:
        """Their mean and interval."""
        return Spread.of(self.seeds(line, x, panel))

    def mean(self, line: str, x: X, panel: str = "") -> float:
        """Their mean."""
        return fmean(self.seeds(line, x, panel))

    def ratio(self, line: str, of: str, x: X, panel: str = "") -> Spread:
        """One line over another, seed by seed."""
        pairs = zip(self.seeds(line, x, panel), self.seeds(of, x, panel), strict=True)
        return Spread.of(over(a, b) for a, b in pairs)


def over(a: float, b: float) -> float:
    """A quotient; nothing over nothing is 1.

    >>> over(0, 0), over(1, 4)
    (1.0, 0.25)
    """
    return a / b if b else (1.0 if not a else math.inf)


def shown(value: float) -> str:
    """A number with the digits that matter.

    >>> shown(0.98765), shown(12345.6), shown(3.0), shown(0.000012)
    ('0.988', '12,346', '3', '1.2e-05')
    """
    if not math.isfinite(value):
        return str(value)
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
