"""Routing: to which shards a row of a stream goes, so that every output is made in exactly one shard.

* **key** (equality on the same columns): by the hash of its key. Members of a combination have equal keys, so they meet there, and each is
  nowhere else.
* **cells** (an epsilon join): space is cut into cells, four epsilon wide. A row of the first stream goes to the shard of its own cell, a
  row of any other to the shards of all cells that have a point within epsilon of it, to each shard once. Every member of a combination
  is near its member of the first stream, so it has a copy in that one's shard; and as the first stream's row is in one shard only, so is
  the combination.
* **matrix** (any other comparison): shards are the cells of a grid with one dimension per stream. A row of stream i has one coordinate,
  the i-th, by a hash of the row, and goes to all shards with that coordinate. Members with coordinates h1, ..., hn are all in a shard iff
  its coordinates are (h1, ..., hn), which is one shard.
* **facts** (a join through one relation): a row of the stream that is linked first goes to the shard of its own value, a row of any other
  to the shards of the facts that it has at its time, to each once; without a fact it goes nowhere. A fact is in the shard of its first
  value, so all members of an output have a copy there, and the first is in no other. It is found in Python, as rows are packed
  (shard/facts/routing.py).
* **one**: a single shard, where the order of all rows of a stream counts.

A copy is a tuple like any other: it takes its place in the budget, and is shed by itself. Hash ties do no harm: a shard compares the
values themselves. Rows without a time go to one shard, where they are counted.

Differs from Das 6 and Golab, which have one processor. The matrix is the fragment-and-replicate join of parallel databases.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

WIDTH = 4
"""Epsilons to a cell: a row is near 1 + 2 / WIDTH cells of a line, on average."""
_SLACK = 1 + 1e-9  # distances are rounded when they are compared with epsilon
_DEEP = 3  # dimensions that are cut into cells; more would make more copies than parts
_END = 9e18
_LARGE = float(1 << 58)  # an epsilon that leaves whole numbers no second cell


@dataclass(frozen=True)
class Route:
    """How the rows of a join are divided.

    >>> Route.matrix(7, 2).dimensions, Route.matrix(7, 2).copies(0), Route.matrix(7, 2).copies(1)
    ((3, 2), 2.0, 3.0)
    >>> Route("cells", 8, epsilon=0.5, columns=2).copies(1)
    2.25
    """

    kind: str  # "key", "cells", "matrix", "facts" or "one"
    shards: int
    dimensions: tuple[int, ...] = ()  # of the matrix, by stream
    epsilon: float = 0.0
    columns: int = 1

    @classmethod
    def matrix(cls, shards: int, streams: int) -> Route:
        """A grid of at most so many shards, its sides as equal as can be: few copies of every stream."""
        sides = dimensions(shards, streams)
        return cls("matrix", math.prod(sides), sides)

    def copies(self, stream: int) -> float:
        """The copies of a row of a stream, at most; for cells, on average where values are spread out."""
        if self.kind == "cells" and stream > 0 and self.epsilon > 0:
            return float(min(self.shards, (1 + 2 / WIDTH) ** min(self.columns, _DEEP)))
        if self.kind == "matrix":
            return float(self.shards // self.dimensions[stream])
        return 1.0

    @property
    def replicates(self) -> bool:
        """Whether a row may go to several shards."""
        return self.shards > 1 and self.kind in ("cells", "matrix", "facts")

    def places(self, stream: int, values: Sequence[Column], whole: bool, row: Sequence[Column], timed: Column) -> Column:
        """The shards of a row, as an array, or as one number where no row has copies.

        `values` are what the predicate compares, `whole` says that they are all whole numbers, `row` are columns that distinguish rows,
        `timed` says whether the row has a time.
        """
        if self.shards == 1 or self.kind == "facts":
            return F.lit(0).cast("bigint")
        if self.kind == "key":
            return self._hashed(values)
        if self.kind == "matrix":
            side = F.lit(self.dimensions[stream])
            base = F.pmod(F.xxhash64(*row), side) * stride(self.dimensions, stream)
            found = F.transform(
                F.array(*(F.lit(step).cast("bigint") for step in offsets(self.dimensions, stream))), lambda step: step + base
            )
        else:
            near = [_near(value, self.epsilon, whole, own=stream == 0) for value in values[:_DEEP]]
            found = F.array_distinct(F.array(*(self._hashed(cell) for cell in product(*near))))
        return F.when(timed, found).otherwise(F.slice(found, 1, 1))

    def _hashed(self, columns: Sequence[Column]) -> Column:
        return F.pmod(F.xxhash64(*columns), F.lit(self.shards))


def dimensions(shards: int, streams: int) -> tuple[int, ...]:
    """The sides of a grid of at most so many shards: the shortest grows while the grid fits.

    >>> dimensions(4, 2), dimensions(7, 2), dimensions(4, 3), dimensions(1, 2)
    ((2, 2), (3, 2), (2, 2, 1), (1, 1))
    """
    sides = [1] * streams
    while True:
        grown = list(sides)
        grown[sides.index(min(sides))] += 1
        if math.prod(grown) > shards:
            return tuple(sides)
        sides = grown


def stride(sides: Sequence[int], stream: int) -> int:
    """How far apart in the row of all shards two neighbours along a dimension are.

    >>> stride((2, 3), 0), stride((2, 3), 1)
    (3, 1)
    """
    return math.prod(sides[stream + 1 :])


def offsets(sides: Sequence[int], stream: int) -> list[int]:
    """The shards of a matrix whose coordinate for this stream is 0; a coordinate of h is h strides farther.

    >>> offsets((2, 3), 0), offsets((2, 3), 1)
    ([0, 1, 2], [0, 3])
    """
    ranges = [range(1) if number == stream else range(side) for number, side in enumerate(sides)]
    return [sum(at * stride(sides, number) for number, at in enumerate(place)) for place in product(*ranges)]


def _near(value: Column, epsilon: float, whole: bool, *, own: bool) -> list[Column]:
    """The cells with a point within epsilon of a value; or only its own.

    A cell is wider than twice epsilon, so these are the cells of the two ends, and no other lies between. Rounding keeps order, and the
    ends are a little farther out than epsilon, so no partner is missed.
    """
    radius = epsilon * _SLACK
    if whole:
        if radius >= _LARGE:
            return [F.lit(0)]
        reach = math.floor(radius)
        if reach == 0:
            return [value]
        size = WIDTH * reach
        rest = F.pmod(value, F.lit(size))
        cell = _floor_div(value, rest, size)
        ends = [cell - (rest < reach).cast("bigint"), cell + (rest >= size - reach).cast("bigint")]
        return [cell] if own else ends
    if radius == 0:
        return [F.when(value == 0, F.lit(0.0)).otherwise(value)]
    side = WIDTH * radius
    return [_floor(value / side)] if own else [_floor((value - radius) / side), _floor((value + radius) / side)]


def _floor(value: Column) -> Column:
    """A double rounded down; what 64 bits do not hold is all one cell at either end."""
    return F.floor(F.greatest(F.least(value, F.lit(_END)), F.lit(-_END)))


def _floor_div(value: Column, rest: Column, size: int) -> Column:
    """A whole number divided by another and rounded down; to subtract the rest first could leave 64 bits."""
    return F.call_function("div", value, F.lit(size).cast("bigint")) - ((value < 0) & (rest != 0)).cast("bigint")
