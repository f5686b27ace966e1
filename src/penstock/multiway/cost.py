"""What a join order costs: comparisons per tick, of Golab's four algorithms, for any order, with or without hash indexes (Golab 4.2, 5).

A comparison is one tuple visited in a loop over a window, or over a bucket of it. The outermost loop compares with nothing and is not
counted (what it takes from a window is `fetched`, and is added when orders are ranked). With x combinations that reach the loop over window
j, per tick, it makes

    x · visited_j / buckets_j       comparisons, and     x · size_j · selectivity     combinations go on

    strategy   order of the loops for new tuples of stream i           executed              window i as a loop
    eager      i first, then the others in the global order            at each arrival       the new tuple
    lazy       i first, then the others in the global order            every tau ticks       the new tuples
    naive      the global order as it is                               each arrival or tau   the new tuple(s)
    general    an order of its own for every i                         every tau ticks       the new tuples

`size` counts the tuples that a new tuple may meet: rate · window. With re-evaluation every tau and expiration every e >= tau ticks a window
holds more when it is visited, on average:

    held = rate · (window + (tau + e) / 2)       visited outside of the loop of the new tuples, where no timestamp can be checked
    seen = rate · (window + e / 2)               visited inside of it: oldest first, up to the first that is newer than the new tuple

So combinations of the loops outside number held · held · selectivity; from the loop of the new tuples on, only what a new tuple may meet
goes on. Streams without new tuples are skipped: 1 - exp(-rate · tau) of the executions are left.

Differs from the paper. The lazy formulas are in its extended version alone; these are derived (docs/readings.md, 29) and count what the
algorithms do. Golab's Figure 3(b) cannot come from that: it needs formulas in which expired tuples match as well. `counted="golab"` has
these: every window has its average size, rate · (window + e / 2), for visits and for matches. `counted="compared"` counts only
tuples that pass the check of timestamps (docs/decisions/0009). More buckets than there are values on either side of a comparison save
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from penstock.core.errors import PenstockError, choose
from penstock.core.graph import Graph
from penstock.multiway.matching import Matching, Selectivities
from penstock.multiway.stats import MOST, WindowStats, equality_columns, read_graph, read_streams

STRATEGIES: dict[str, str] = {
    "eager": "every arrival joins at once, in the outermost loop",
    "lazy": "arrivals wait up to tau ticks, then join in the outermost loop",
    "general": "arrivals wait up to tau ticks, then join in any loop",
    "naive": "arrivals join in the loop of their stream, whatever the order",
}
"""Golab's algorithms, and what they do."""
COUNTED = ("visited", "compared", "golab")


@dataclass(frozen=True)
class Setting:
    """A join to be ordered: its streams, its links, and when it is evaluated."""

    streams: tuple[WindowStats, ...]
    graph: Graph
    strategy: str = "eager"
    tau: float | None = None
    expire: float | None = None
    observed: Selectivities | None = None
    counted: str = "visited"

    @classmethod
    def read(cls, streams: Any, on: Any = None, *, cross: bool = False, observed: Any = None, **facts: Any) -> Setting:
        """From what a user gives, checked."""
        found = read_streams(streams)
        if observed is not None and not isinstance(observed, Mapping):
            raise PenstockError(f"selectivity must be a mapping from pairs of streams, got {observed!r}")
        return cls(found, read_graph(on, found, cross=cross), observed=observed, **facts)

    def __post_init__(self) -> None:
        choose("strategy", self.strategy, STRATEGIES)
        choose("counted", self.counted, COUNTED)
        if self.tau is None and self.strategy in ("lazy", "general"):
            raise PenstockError(f"tau must be given with strategy {self.strategy}: how many ticks arrivals wait at most, got nothing")
        if self.tau is not None and self.strategy == "eager":
            raise PenstockError(f"tau goes with the strategies lazy, general and naive, got {self.tau!r} with eager")
        for name, value in (("tau", self.tau), ("expire", self.expire)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= MOST):
                raise PenstockError(f"{name} must be a number of ticks, at least 1 and at most {MOST:g}, got {value!r}")
        if self.tau is not None and self.expire is not None and self.expire < self.tau:
            raise PenstockError(
                f"expire must be at least tau ({self.tau:g} ticks), got {self.expire!r}: tuples that wait still meet what expires meanwhile"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Of the streams."""
        return self.graph.streams

    @property
    def origin_first(self) -> bool:
        """Whether new tuples are always in the outermost loop."""
        return self.strategy in ("eager", "lazy")

    @property
    def lag(self) -> float:
        """How long, on average, expired tuples stay in a window, in ticks."""
        return (self.expire or self.tau or 0.0) / 2

    def at_peak(self) -> Setting:
        """The same with volatile streams at their fastest."""
        return replace(self, streams=tuple(one.at_peak() for one in self.streams))


def rounded(cost: float) -> float:
    """A cost to compare by: sums that differ by the order of their terms alone are equal.

    >>> rounded(0.1 + 0.2) == rounded(0.3)
    True
    """
    return float(f"{cost:.9e}")


class CostModel:
    """The cost of orders, as a sum of steps: the cost of a loop depends on the set of loops around it, not on their order.

    >>> table5 = [("S1", 10, 100, 500), ("S2", 1, 100, 50), ("S3", 1, 200, 40), ("S4", 3, 100, 5)]
    >>> model = CostModel(Setting.read([WindowStats(*row) for row in table5]))
    >>> model.cost((0, 1, 2, 3)), model.cost((1, 0, 2, 3))
    (16000.0, 19600.0)
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.matching = Matching(setting.streams, setting.graph, setting.observed)
        streams = setting.streams
        self.sizes = [one.size for one in streams]
        seen = [one.held(setting.lag) for one in streams]
        golab = setting.counted == "golab"
        self.held = seen if golab else [one.held(setting.lag + (setting.tau or 0.0) / 2) for one in streams]
        self._seen = self.sizes if setting.counted == "compared" else seen
        self._met = seen if golab else self.sizes
        self._indexes = [(one.index,) if one.index else equality_columns(setting.graph, i) for i, one in enumerate(streams)]
        self.step = cache(self._step)
        self.added = cache(self._added)
        self.outermost = cache(self._outermost)

    def cost(self, order: Sequence[int]) -> float:
        """Comparisons per tick of a global order (positions of streams)."""
        before, total = 0, 0.0
        for stream in order:
            total += self.added(before, stream)
            before |= 1 << stream
        return total

    def cost_of(self, origin: int, order: Sequence[int]) -> float:
        """Comparisons per tick for the new tuples of one stream, in an order of its own: all loops, its own among them."""
        before, total = 0, 0.0
        for stream in order:
            total += self.step(origin, before, stream)
            before |= 1 << stream
        return total

    def fetched(self, orders: Sequence[Sequence[int]]) -> float:
        """Tuples per tick that the outermost loops take from windows, with an order for each stream; they are compared with nothing."""
        return sum(self.outermost(i, order[0]) for i, order in enumerate(orders))

    def _outermost(self, origin: int, stream: int) -> float:
        """Of one origin; new tuples are at hand."""
        return 0.0 if stream == origin else self.reaching(origin, 0) * self.held[stream]

    def local(self, origin: int, order: Sequence[int]) -> tuple[int, ...]:
        """The loops for new tuples of a stream when the global order is this one (Golab, Table 4)."""
        return (origin, *(j for j in order if j != origin)) if self.setting.origin_first else tuple(order)

    def _added(self, before: int, stream: int) -> float:
        """What a global order pays, for all origins, to have `stream` after the set `before`."""
        first = self.setting.origin_first
        origins = [i for i in range(len(self.sizes)) if i != stream or not first]
        return sum(self.step(i, before | 1 << i if first else before, stream) for i in origins)

    def _step(self, origin: int, before: int, stream: int) -> float:
        """Comparisons per tick in the loop over `stream` inside of the loops `before`, for new tuples of `origin`."""
        if not before:
            return 0.0
        return self.reaching(origin, before) * self.visits(origin, before, stream) * self.setting.streams[stream].predicate_cost

    def reaching(self, origin: int, before: int) -> float:
        """Combinations per tick that come out of the loops `before`."""
        setting = self.setting
        after = before >> origin & 1
        checked = self._met if after else self.held
        combinations = self.matching.probability(before)
        for i, size in enumerate(checked):
            if before >> i & 1 and i != origin:
                combinations *= size
        rate = setting.streams[origin].rate
        if after or setting.tau is None:
            return combinations * rate
        return combinations * -math.expm1(-rate * setting.tau) / setting.tau

    def fineness(self, stream: int, before: int) -> float:
        """Into how many parts a probe by the loops `before` can cut a window, if its index has the buckets for it."""
        return self.matching.fineness(stream, self._indexes[stream], before)

    def visits(self, origin: int, before: int, stream: int) -> float:
        """Tuples that the loop over `stream` visits for each combination that comes out of the loops `before`."""
        setting = self.setting
        most = setting.streams[stream].buckets
        buckets = min(float(most), self.fineness(stream, before)) if most > 1 else 1.0
        if stream != origin:
            return (self._seen if before >> origin & 1 else self.held)[stream] / buckets
        if setting.tau is None:
            return 1.0 / buckets
        # Those that arrived since the last execution, which was not for nothing.
        rate = setting.streams[origin].rate
        batch = rate * setting.tau / -math.expm1(-rate * setting.tau)
        if setting.counted == "compared":
            for i, (size, held) in enumerate(zip(self.sizes, self.held, strict=True)):
                batch *= size / held if before >> i & 1 else 1
        return batch / buckets
