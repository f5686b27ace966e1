"""Which outputs of a shadow were lost, and what was seen of them so far: piece by piece, so that nobody has to hold them all.

An output of the shadow was lost iff one of its members was no longer in the engine's memory when the last of them arrived: the rule of
the ledger (the largest `arrived` is after the smallest `left`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from penstock.core.batch import Batch
from penstock.core.trace import Floats, Ints
from penstock.core.window import NEVER
from penstock.engine.contract import Played, Totals


@dataclass(frozen=True)
class TimesInMemory:
    """From which instant to which the tuples of a shadow are in the memory of the engine."""

    row: Ints  # rising
    arrived: Ints
    left: Ints
    n_streams: int

    @classmethod
    def of(cls, row: Ints, batch: Batch, before: Totals, played: Played, ghosts: Ints, n_streams: int) -> TimesInMemory:
        """While a batch is played: what was there before it has arrived before, and ghosts have left before."""
        instants = before.instant + 1 + np.cumsum(np.diff(batch.time, prepend=batch.time[:1]) != 0)
        arrived = np.concatenate([np.full(len(row) - len(batch), before.instant), instants])
        left = np.full(len(row), NEVER)
        left[np.searchsorted(row, ghosts)] = -NEVER
        left[np.searchsorted(row, played.sheds)] = played.shed_at
        left[np.searchsorted(row, played.done)] = played.done_at
        return cls(row, arrived, left, n_streams)

    def lost(self, outputs: Ints) -> Ints:
        """Those of these outputs of the shadow (time, row per stream, fact per relation) that the engine has not made."""
        at = np.searchsorted(self.row, outputs[:, 1 : 1 + self.n_streams])
        return outputs[self.left[at].min(axis=1, initial=NEVER) < self.arrived[at].max(axis=1, initial=-NEVER)]


@dataclass
class Seen:
    """What a batch has lost as far as it was seen, and by unit of the sample, by count and by value."""

    lost: float = 0.0
    lost_value: float = 0.0
    unit: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # rising
    sums: Floats = field(default_factory=lambda: np.empty((0, 2)))
    guessed: Floats = field(default_factory=lambda: np.zeros(2))  # what outputs stand for that are no count, where each ghost is a unit

    def add(self, weight: Floats, value: Floats) -> None:
        """Take in outputs of such values, each of which stands for so many."""
        self.lost += float(weight.sum())
        self.lost_value += float((weight * value).sum())

    def add_guess(self, weight: Floats, value: Floats) -> None:
        """Those of them that stand for others too."""
        self.guessed += np.array([weight.sum(), (weight * value).sum()])

    def add_units(self, unit: Ints, value: Floats) -> None:
        """Take in outputs of these units.

        >>> seen = Seen()
        >>> for unit in ([3, 5, 3], [5, 9]):
        ...     seen.add_units(np.array(unit), np.ones(len(unit)))
        >>> seen.unit.tolist(), seen.sums[:, 0].tolist()
        ([3, 5, 9], [2.0, 2.0, 1.0])
        """
        known = np.union1d(self.unit, unit)
        sums = np.zeros((len(known), 2))
        sums[np.searchsorted(known, self.unit)] = self.sums
        at = np.searchsorted(known, unit)
        sums += np.stack([np.bincount(at, minlength=len(known)), np.bincount(at, weights=value, minlength=len(known))], axis=1)
        self.unit, self.sums = known, sums
