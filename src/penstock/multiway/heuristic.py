"""Join orders worth a look when there are too many for all: Golab's heuristic and its augmentations (Golab 5.1, 5.4).

Start with the pair of windows that has the fewest matches, then always take the window with the fewest matches with one of those before,
among windows that a link leads to. Then move fast streams up, each to every place above its own; volatile streams to the top; windows with
an index to the inner loops. The cost model chooses.

Differs from the paper: a stream is fast if its rate is above the mean, and of more than three the three fastest move. With indexes a window
counts by what a probe visits, so that small buckets come early; moving indexed windows inwards is a candidate beside that.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

from penstock.multiway.cost import CostModel

_MOVED = 3


def initial(model: CostModel) -> list[tuple[int, ...]]:
    """The orders by pairs with the fewest matches: two of them, since either window of the first pair may lead.

    >>> from penstock.multiway.cost import Setting
    >>> from penstock.multiway.stats import WindowStats
    >>> table7 = [("S1", 11, 100, 200), ("S2", 10, 100, 100), ("S3", 1, 100, 65), ("S4", 1, 100, 20)]
    >>> initial(CostModel(Setting.read([WindowStats(*row) for row in table7])))
    [(2, 3, 0, 1), (3, 2, 0, 1)]
    """
    count = len(model.sizes)
    graph = model.setting.graph
    linked = {pair: bool(graph.between(*pair)) for pair in combinations(range(count), 2)}

    def rank(i: int, j: int) -> tuple[bool, float]:
        pair = (min(i, j), max(i, j))
        return not linked[pair], _weight(model, i) * _weight(model, j) * model.matching.probability(1 << i | 1 << j)

    first = min(linked, key=lambda pair: rank(*pair))
    order = list(first)
    while len(order) < count:
        rest = [j for j in range(count) if j not in order]
        order.append(min(rest, key=lambda j: min(rank(i, j) for i in order)))
    return [tuple(order), (order[1], order[0], *order[2:])]


def _weight(model: CostModel, stream: int) -> float:
    return model.held[stream] / model.setting.streams[stream].buckets


def augmented(model: CostModel, order: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """An order and those that come from it by moving streams, each once."""
    seen = set()
    streams = model.setting.streams
    mean = sum(one.rate for one in streams) / len(streams)
    fast = sorted((i for i, one in enumerate(streams) if one.rate > mean), key=lambda i: -streams[i].rate)[:_MOVED]
    volatile = sorted(order, key=lambda i: -streams[i].volatility)
    hashed = sorted(order, key=lambda i: streams[i].buckets > 1)
    for start in (order, tuple(volatile), tuple(hashed)):
        for places in product(*(range(start.index(i) + 1) for i in fast)):
            moved = list(start)
            for stream, place in zip(fast, places, strict=True):
                moved.remove(stream)
                moved.insert(place, stream)
            if tuple(moved) not in seen:
                seen.add(tuple(moved))
                yield tuple(moved)


def with_origin_anywhere(order: tuple[int, ...], origin: int) -> Iterator[tuple[int, ...]]:
    """Orders for the new tuples of one stream: its own loop in every place."""
    others = [j for j in order if j != origin]
    for place in range(len(order)):
        yield (*others[:place], origin, *others[place:])
