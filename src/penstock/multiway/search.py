"""Find the cheapest order: all of them, all sets of windows, or the heuristic's candidates (Golab 5).

The cost of a loop depends on the set of loops around it (`CostModel`), so the cheapest order of a set extends the cheapest order of a
smaller one: 2^n sets instead of n! orders, and the same optimum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import permutations

from penstock.core.errors import PenstockError, choose
from penstock.multiway.cost import CostModel
from penstock.multiway.heuristic import augmented, initial, with_origin_anywhere

Order = tuple[int, ...]
METHODS: dict[str, str] = {
    "auto": "exhaustive up to 7 streams, subsets up to 10, else heuristic",
    "exhaustive": "every order",
    "subsets": "the same optimum by way of all sets of windows",
    "heuristic": "pairs with the fewest matches first; then fast streams moved up, volatile ones to the top, indexed ones inwards",
    "initial": "pairs with the fewest matches first, and nothing moved",
}
"""Ways to find an order."""
_MOST = {"exhaustive": 8, "subsets": 12}
_AUTO = {"exhaustive": 7, "subsets": 10}


def chosen_method(method: str, count: int) -> str:
    """A method that can order so many streams.

    >>> chosen_method("auto", 4), chosen_method("auto", 9), chosen_method("auto", 20)
    ('exhaustive', 'subsets', 'heuristic')
    """
    choose("method", method, METHODS)
    if method == "auto":
        return next((name for name, most in _AUTO.items() if count <= most), "heuristic")
    if count > _MOST.get(method, count):
        raise PenstockError(f"method {method} orders up to {_MOST[method]} streams, got {count}: try heuristic")
    return method


def global_orders(model: CostModel, method: str) -> list[Order]:
    """Orders to consider for all streams together; the cheapest is among them."""
    count = len(model.sizes)
    if method == "exhaustive":
        return list(permutations(range(count)))
    if method == "subsets":
        return _once([_by_subsets(count, 0, model.added), *_spread(model, "heuristic")])
    return _spread(model, method)


def local_orders(model: CostModel, origin: int, method: str) -> list[Order]:
    """Orders to consider for the new tuples of one stream; its own loop comes first unless the strategy leaves that open."""
    count = len(model.sizes)
    first = model.setting.origin_first
    others = [j for j in range(count) if j != origin]
    if method == "exhaustive":
        return [(origin, *rest) for rest in permutations(others)] if first else list(permutations(range(count)))
    if method == "subsets":
        found = _by_subsets(count, 1 << origin if first else 0, lambda before, stream: _nudged(model, origin, before, stream))
        return [(origin, *found) if first else found]
    starts = _spread(model, method)
    if first:
        return _once((origin, *(j for j in order if j != origin)) for order in starts)
    return _once(place for order in starts for place in with_origin_anywhere(order, origin))


def _spread(model: CostModel, method: str) -> list[Order]:
    starts = initial(model)
    return starts if method == "initial" else _once(order for start in starts for order in augmented(model, start))


def _nudged(model: CostModel, origin: int, before: int, stream: int) -> float:
    """The outermost loop is not counted, but of equals the one over the new tuples is to be taken."""
    return model.step(origin, before, stream) if before or stream == origin else 1e-9


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
