"""What windows cost besides joining: insertion and expiration, in units of one comparison (Golab 4.1, 6.4).

    insertion     rate · insert, and rate · hash more where the window has an index
    expiration    rate · drop for the tuples, and touch for every bucket of every window at every round

A round is every `expire` ticks, or every arrival. So expiring often is dear where there are many buckets, most of them with nothing to
expire.

The weights: Golab finds the best interval for four equal windows (rate 1, window 100, 50 values) at about 4, 15 and 30 ticks with 2, 10 and
30 buckets. With 28 (100 + tau / 2) / b comparisons and 4 b · touch / tau for rounds, the best tau is b · sqrt(touch / 3.5): `touch` would
be 14, 8 and 3.5; their geometric mean is 7.3. The others hardly bear on any choice; they are set to one step each.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from penstock.core.errors import PenstockError
from penstock.multiway.cost import Setting


@dataclass(frozen=True)
class Weights:
    """Costs of single operations, in comparisons."""

    insert: float = 1.0
    hash: float = 1.0
    drop: float = 1.0
    touch: float = 7.3

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
                raise PenstockError(f"weight {one.name} must be a number from 0, got {value!r}")


@dataclass(frozen=True)
class Upkeep:
    """Insertion and expiration per tick, in comparisons."""

    insertion: float
    expiration: float

    @property
    def total(self) -> float:
        """Both."""
        return self.insertion + self.expiration


def upkeep(setting: Setting, weights: Weights | None = None) -> Upkeep:
    """The cost of insertion and expiration.

    >>> from penstock.multiway.stats import WindowStats
    >>> four = [WindowStats(name, 1, 100, 50, buckets=10) for name in "RSTU"]
    >>> upkeep(Setting.read(four, strategy="lazy", tau=5), Weights(touch=10))
    Upkeep(insertion=8.0, expiration=84.0)
    """
    weights = weights or Weights()
    streams = setting.streams
    inserted = sum(one.rate * (weights.insert + (weights.hash if one.buckets > 1 else 0)) for one in streams)
    dropped = sum(one.rate for one in streams) * weights.drop
    return Upkeep(inserted, dropped + rounds(setting) * weights.touch * sum(one.buckets for one in streams))


def rounds(setting: Setting) -> float:
    """Rounds of expiration per tick."""
    every = setting.expire or setting.tau
    return 1 / every if every else sum(one.rate for one in setting.streams)
