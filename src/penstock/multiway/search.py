"""Find the cheapest order: all of them, all sets of windows, or the heuristic's candidates (Golab 5).

The cost of a loop depends on the set of loops around it (`CostModel`), so the cheapest order of a set extends the cheapest order of a
smaller one: 2^n sets instead of n! orders, and the same optimum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import permutations

from penstock.core.errors import PenstockError, choose
from penstock.multiway.cost import CostModel, rounded
from penstock.multiway.heuristic import augmented, initial, with_origin_anywhere

Order = tuple[int, ...]
METHODS: dict[str, str] = {
    "auto": "exhaustive up to 7 streams, subsets up to 10, else descent",
    "exhaustive": "every order",
    "subsets": "the same optimum by way of all sets of windows",
    "descent": "the heuristic, then one stream moved to another place for as long as that helps",
    "heuristic": "pairs with the fewest matches first; then fast streams moved up, volatile ones to the top, indexed ones inwards",
    "initial": "pairs with the fewest matches first, and nothing moved",
}
"""Ways to find an order."""
_MOST = {"exhaustive": 8, "subsets": 12}
_AUTO = {"exhaustive": 7, "subsets": 10}


def chosen_method(method: str, count: int) -> str:
    """A method that can order so many streams.

    >>> chosen_method("auto", 4), chosen_method("auto", 9), chosen_method("auto", 20)
    ('exhaustive', 'subsets', 'descent')
    """
    choose("method", method, METHODS)
    if method == "auto":
        return next((name for name, most in _AUTO.items() if count <= most), "descent")
    if count > _MOST.get(method, count):
        raise PenstockError(f"method {method} orders up to {_MOST[method]} streams, got {count}: try descent")
    return method


def global_orders(model: CostModel, method: str) -> list[Order]:
    """Orders to consider for all streams together; the cheapest is among them."""
    count = len(model.sizes)
    if method == "exhaustive":
        return list(permutations(range(count)))
    if method == "subsets":
        return _once([_by_subsets(count, 0, lambda before, stream: _next_of_all(model, before, stream)), *_spread(model, "heuristic")])
    spread = _spread(model, method)
    if method != "descent":
        return spread

    def rank(order: Order) -> float:
        return work(model, order)

    return _once([*_descended(min(spread, key=rank), rank), *spread])


def local_orders(model: CostModel, origin: int, method: str) -> list[Order]:
    """Orders to consider for the new tuples of one stream; its own loop comes first unless the strategy leaves that open."""
    count = len(model.sizes)
    first = model.setting.origin_first
    others = [j for j in range(count) if j != origin]
    if method == "exhaustive":
        return [(origin, *rest) for rest in permutations(others)] if first else list(permutations(range(count)))
    if method == "subsets":
        found = _by_subsets(count, 1 << origin if first else 0, lambda before, stream: _next(model, origin, before, stream))
        return [(origin, *found) if first else found]
    starts = _spread(model, method)
    if first:
        listed = _once((origin, *(j for j in order if j != origin)) for order in starts)
    else:
        listed = _once(place for order in starts for place in with_origin_anywhere(order, origin))
    if method != "descent":
        return listed

    def rank(order: Order) -> float:
        return work_of(model, origin, order)

    return _once([*_descended(min(listed, key=rank), rank, 1 if first else 0), *listed])


def _spread(model: CostModel, method: str) -> list[Order]:
    starts = initial(model)
    return starts if method == "initial" else _once(order for start in starts for order in augmented(model, start))


def _descended(order: Order, cost: Callable[[Order], float], fixed: int = 0) -> Iterator[Order]:
    """Better and better orders, each by moving one stream to another place; the first `fixed` stay."""
    best = cost(order)
    while True:
        moved = [(*rest[:to], order[at], *rest[to:]) for at, rest, to in _moves(order, fixed)]
        nearest = min(moved, key=cost, default=order)
        if rounded(cost(nearest)) >= rounded(best):
            return
        order, best = nearest, cost(nearest)
        yield order


def _moves(order: Order, fixed: int) -> Iterator[tuple[int, Order, int]]:
    for at in range(fixed, len(order)):
        rest = (*order[:at], *order[at + 1 :])
        yield from ((at, rest, to) for to in range(fixed, len(order)) if to != at)


def work(model: CostModel, order: Order) -> float:
    """What a global order is ranked by: its comparisons, and the tuples that the outermost loops fetch."""
    return model.cost(order) + model.fetched([model.local(i, order) for i in range(len(order))])


def work_of(model: CostModel, origin: int, order: Order) -> float:
    """The same for new tuples of one stream."""
    return model.cost_of(origin, order) + model.outermost(origin, order[0])


def _next(model: CostModel, origin: int, before: int, stream: int) -> float:
    return model.step(origin, before, stream) if before else model.outermost(origin, stream)


def _next_of_all(model: CostModel, before: int, stream: int) -> float:
    if before or model.setting.origin_first:
        return model.added(before, stream)
    return sum(model.outermost(i, stream) for i in range(len(model.sizes)))


def _once(orders: Iterable[Order]) -> list[Order]:
    return list(dict.fromkeys(orders))


def _by_subsets(count: int, start: int, step: Callable[[int, int], float]) -> Order:
    """The cheapest way from the set `start` to the set of all."""
    best: dict[int, tuple[float, Order]] = {start: (0.0, ())}
    everything = (1 << count) - 1
    # A set is smaller, as a number, than those that contain it: when it is reached, it is final.
    for before in range(start, everything):
        if before not in best:
            continue
        cost, order = best[before]
        for stream in range(count):
            if not before >> stream & 1:
                after = before | 1 << stream
                total = cost + step(before, stream)
                if after not in best or total < best[after][0]:
                    best[after] = total, (*order, stream)
    return best[everything][1]
