"""How many combinations match: the selectivity of any set of streams under a join graph (Golab 4.2 and 5.1).

Golab assumes uniform values and containment: a column with v values has the first v of one list. Then two columns are equal with
probability 1 / max(v, v'), and columns that must all be equal are so with the product of these over a spanning tree of largest
probabilities. On one common attribute this is Golab's own walk, x / max(d, v) with d = min(d, v), and it does not depend on
the order of the walk, only on the set: so sets of streams are tabled, not orders.

Differs from the paper: an observed selectivity of a pair of streams takes the place of 1 / max(v, v'); several attributes are independent
of each other; a comparison of order has the probability that containment gives it; a distance counts the values within reach.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import combinations
from math import prod
from typing import Any

from penstock.core.errors import PenstockError, choose
from penstock.core.graph import Graph, Link
from penstock.multiway.stats import WindowStats

Selectivities = Mapping[tuple[str, str], float]
Node = tuple[int, str]


class Matching:
    """Probabilities that tuples of given streams, one each, match.

    >>> from penstock.multiway.stats import read_graph
    >>> streams = (WindowStats("R", 1, 10, 4), WindowStats("S", 1, 10, 8), WindowStats("T", 1, 10, 2))
    >>> matching = Matching(streams, read_graph(None, streams))
    >>> matching.probability(0b011), matching.probability(0b111)
    (0.125, 0.03125)
    """

    def __init__(self, streams: tuple[WindowStats, ...], graph: Graph, observed: Selectivities | None = None) -> None:
        self.streams = streams
        self.graph = graph
        self._by_link = {link: _by_values(link, streams) for link in graph.links}
        for (one, other), share in _checked(observed or {}, graph).items():
            links = graph.between(one, other)
            expected = prod(self._by_link[link] for link in links[1:])
            # Several links of one pair were observed together; the first of them takes the whole correction.
            self._by_link[links[0]] = share / expected if expected else share
        self._by_ends = {frozenset(_ends(link)): chance for link, chance in self._by_link.items() if link.predicate.is_equality}
        self._equalities = [_ends(link) for link in graph.links if link.predicate.is_equality]
        self._others = [link for link in graph.links if not link.predicate.is_equality]
        self._probes: list[list[tuple[int, str, float]]] = [[] for _ in streams]
        for low, high in self._equalities:
            chance = self._by_ends[frozenset((low, high))]
            self._probes[low[0]].append((high[0], low[1], chance))
            self._probes[high[0]].append((low[0], high[1], chance))
        self.probability = cache(self._probability)

    def _probability(self, members: int) -> float:
        """Of a match, for the set of streams whose bits are set."""
        chance = 1.0
        classes: dict[Node, set[Node]] = {}
        for link in self._others:
            if members >> link.low & 1 and members >> link.high & 1:
                chance *= self._by_link[link]
        for low, high in self._equalities:
            if not (members >> low[0] & 1 and members >> high[0] & 1) or high in classes.get(low, ()):
                continue
            joined = classes.get(low, {low}) | classes.get(high, {high})
            for node in joined:
                classes[node] = joined
        for joined in {id(group): group for group in classes.values()}.values():
            chance *= self._all_equal(sorted(joined))
        return chance

    def _all_equal(self, nodes: list[Node]) -> float:
        """The largest product over a spanning tree of the columns (Prim)."""
        chance = 1.0
        best = {node: self._equal(nodes[0], node) for node in nodes[1:]}
        while best:
            nearest = max(best, key=best.__getitem__)
            chance *= best.pop(nearest)
            for node in best:
                best[node] = max(best[node], self._equal(nearest, node))
        return chance

    def _equal(self, one: Node, other: Node) -> float:
        known = self._by_ends.get(frozenset((one, other)))
        return known if known is not None else 1 / max(self.streams[i].distinct_of(column) for i, column in (one, other))

    def fineness(self, stream: int, columns: tuple[str, ...], before: int) -> float:
        """Into how many parts a probe by those before can cut a window by an index on one of the columns; 1 where none is probed."""
        linked: dict[str, float] = {}
        for other, column, chance in self._probes[stream]:
            if before >> other & 1 and column in columns:
                linked[column] = max(chance, linked.get(column, 1e-300))
        return 1 / min(linked.values()) if linked else 1.0

    def pairs(self) -> dict[tuple[str, str], float]:
        """The selectivity of every pair of linked streams."""
        names = self.graph.streams
        linked = [(i, j) for i, j in combinations(range(len(names)), 2) if self.graph.between(i, j)]
        return {(names[i], names[j]): self.probability(1 << i | 1 << j) for i, j in linked}


def _ends(link: Link) -> tuple[Node, Node]:
    return (link.low, link.low_columns[0]), (link.high, link.high_columns[0])


def _by_values(link: Link, streams: tuple[WindowStats, ...]) -> float:
    """The probability of a link by the numbers of values: columns take the whole numbers from 1, each as often as any other.

    Of a < b with m and n values: where m <= n, the mean over a of (n - a) / n.
    """
    chance = 1.0
    for own, theirs in zip(link.low_columns, link.high_columns, strict=True):
        low, high = streams[link.low].distinct_of(own), streams[link.high].distinct_of(theirs)
        equal = 1 / max(low, high)
        below = 1 - (low + 1) / (2 * high) if low <= high else (high - 1) / (2 * low)
        name = link.predicate.name
        table = {"=": equal, "!=": 1 - equal, "<": below, "<=": below + equal, ">": 1 - below - equal, ">=": 1 - below}
        chance *= table[name] if name in table else min(1.0, (2 * link.predicate.epsilon + 1) * equal)
    return chance


def _checked(observed: Any, graph: Graph) -> dict[tuple[int, int], float]:
    found: dict[tuple[int, int], float] = {}
    for pair, share in observed.items():
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise PenstockError(f"selectivity must be given by pairs of streams, such as ('R', 'S'), got {pair!r}")
        one, other = sorted(graph.streams.index(choose("stream of a selectivity", name, graph.streams)) for name in pair)
        if (one, other) in found:
            raise PenstockError(f"selectivity of {pair[0]} and {pair[1]} must be given once, got it in both orders")
        if not graph.between(one, other):
            raise PenstockError(f"selectivity must be that of linked streams, got {pair[0]} and {pair[1]}, which have no link")
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise PenstockError(f"selectivity of {pair[0]} and {pair[1]} must be a number from 0 to 1, got {share!r}")
        found[one, other] = float(share)
    return found
