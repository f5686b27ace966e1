"""How far an approximate result is from the exact one, both seen as multisets (Das, section 2.2).

Counting measures need only equality. Earth Mover's Distance and Match And Compare also ask how *unlike* two results
are; both are solved exactly, on distinct results with multiplicities, by one transportation kernel.

Differs from the paper: Das says of Match And Compare only that it is a function of the weights in a cheapest cover and
of the number of edges at each node. `compare` says which function is taken, and which of several cheapest covers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.core.compiled import routine
from penstock.core.errors import PenstockError
from penstock.core.trace import Floats, Ints

Results: TypeAlias = "Iterable[Any] | NDArray[Any] | pa.Table"
Distance = Callable[[Any, Any], float]
Values = Callable[[Any], float] | Mapping[Any, float]
Bag = Counter[Hashable]


@dataclass(frozen=True)
class Quality:
    """What `compare` measured; X is the exact result, Y the approximate one, and all sizes count duplicates.

    Two empty results are identical: every similarity is 1 and every distance 0. If only one is empty, `dice`, `jaccard`
    and `cosine` are 0 and `overlap` is 1 (the empty set is part of every other). `recall` is 1 when there was nothing
    to find, `precision` when nothing was claimed, `value_recall` when all that was to be found is worth nothing.

    >>> quality = compare([1, 2, 2, 3], [1, 2])
    >>> quality.symmetric_difference, quality.recall, quality.is_subset
    (2, 0.5, True)
    """

    n_exact: int  # |X|
    n_approximate: int  # |Y|
    symmetric_difference: int  # missing + spurious; of a subset, Das's MAX-subset error
    missing: int  # |X - Y|
    spurious: int  # |Y - X|
    is_subset: bool  # nothing is spurious
    matching: int  # |X ∩ Y|, each result as often as it is in both
    dice: float  # 2 |X ∩ Y| / (|X| + |Y|)
    jaccard: float  # |X ∩ Y| / |X ∪ Y|, each result in the union as often as it is in either
    cosine: float  # |X ∩ Y| / sqrt(|X| |Y|)
    overlap: float  # |X ∩ Y| / min(|X|, |Y|)
    recall: float  # |X ∩ Y| / |X|
    precision: float  # |X ∩ Y| / |Y|
    value_recall: float  # value of X ∩ Y / value of X; without values, the recall
    emd: float | None  # Earth Mover's Distance, total work, not divided by the mass; None without a distance
    mac: float | None  # Match And Compare; None without a distance


def compare(
    exact: Results,
    approximate: Results,
    *,
    distance: Distance | None = None,
    values: Values | None = None,
    work_limit: int = 4_000_000,
) -> Quality:
    """Measure how well `approximate` stands for `exact`.

    A result is any hashable thing. Give the two multisets as iterables, Counters, NumPy arrays (rows are results) or
    Arrow tables (rows are results, columns are matched by name). None equals None; NaN equals nothing.

    `values` is the worth of a result, as a function or a mapping. `distance(x, y)` says how unlike an exact result x
    and an approximate result y are: 0 for equal ones, else any finite number >= 0. It adds two measures:

    * `emd` is the least work (distance times results moved) that turns the smaller multiset into a part of the larger
      one with as many results; hence 0 for a subset.
    * `mac` joins every occurrence in X and in Y to one or more of the other side, by edges whose distances have the
      least sum and, among equal sums, by the fewest edges. It is this sum plus, for each occurrence, the number of its
      edges beyond the first; so scale the distance such that 1 means "another result altogether". Equal multisets are
      at 0. A subset is at (missing results) + (distance from each of them to the nearest result that is there). If just
      one of the two is empty no edges can do it, and `mac` is infinite.

    At most `work_limit` distances are computed, one per pair of distinct results: 2,000 by 2,000 by default.

    >>> compare(["ab", "ab", "cd"], ["ab", "ce"]).jaccard
    0.25
    >>> quality = compare([10, 20, 30], [10, 24], distance=lambda x, y: abs(x - y) / 10)
    >>> quality.emd, quality.mac  # 24 moves to 20; for mac, 30 is joined to 24 too
    (0.4, 2.0)
    """
    if isinstance(work_limit, bool) or not isinstance(work_limit, int) or work_limit < 1:
        raise PenstockError(f"work_limit must be a positive number of distances, got {work_limit!r}")
    if isinstance(exact, pa.Table) and isinstance(approximate, pa.Table):
        if sorted(exact.column_names) != sorted(approximate.column_names):
            names = f"{exact.column_names}, got {approximate.column_names}"
            raise PenstockError(f"approximate must have the columns of exact, {names}")
        approximate = approximate.select(exact.column_names)
    x, y = _bag("exact", exact), _bag("approximate", approximate)
    both = x & y
    n_x, n_y, n_both = x.total(), y.total(), both.total()
    identical = n_x == n_y == n_both
    recall = n_both / n_x if n_x else 1.0
    emd, mac = (None, None) if distance is None else _emd_and_mac(x, y, distance, work_limit)
    return Quality(
        n_exact=n_x,
        n_approximate=n_y,
        symmetric_difference=n_x + n_y - 2 * n_both,
        missing=n_x - n_both,
        spurious=n_y - n_both,
        is_subset=n_y == n_both,
        matching=n_both,
        dice=1.0 if identical else 2 * n_both / (n_x + n_y),
        jaccard=1.0 if identical else n_both / (n_x + n_y - n_both),
        cosine=1.0 if identical else n_both / math.sqrt(n_x * n_y) if n_both else 0.0,
        overlap=n_both / min(n_x, n_y) if n_x and n_y else 1.0,
        recall=recall,
        precision=n_both / n_y if n_y else 1.0,
        value_recall=recall if values is None else _value_recall(x, both, values),
        emd=emd,
        mac=mac,
    )


def _bag(name: str, results: Results) -> Bag:
    """The results as a Counter, without entries that occur zero times."""
    wanted = f"{name} must be an iterable of hashable results, a Counter, a NumPy array or an Arrow table"
    if isinstance(results, Counter):
        for result, count in results.items():
            if not isinstance(count, int | np.integer) or count < 0:
                raise PenstockError(f"{name} must count in whole numbers >= 0, got {count!r} for {result!r}")
        return Counter({result: int(count) for result, count in results.items() if count})
    if isinstance(results, pa.Table):
        rows: Iterable[Any] = zip(*(column.to_pylist() for column in results.columns), strict=True)
    elif isinstance(results, np.ndarray):
        if results.ndim not in (1, 2):
            raise PenstockError(f"{name} must be an array with one result per row, got {results.ndim} dimensions")
        rows = map(tuple, results.tolist()) if results.ndim == 2 else results.tolist()
    elif isinstance(results, str | bytes | Mapping) or not isinstance(results, Iterable):
        raise PenstockError(f"{wanted}, got {type(results).__name__}")
    else:
        rows = (tuple(row) if isinstance(row, list) else row for row in results)
    try:
        return Counter(rows)
    except TypeError as error:
        raise PenstockError(f"{wanted}, got one with a result that is not hashable ({error})") from None


def _value_recall(x: Bag, both: Bag, values: Values) -> float:
    worth: dict[Hashable, float] = {}
    for result in x:
        if isinstance(values, Mapping) and result not in values:
            raise PenstockError(f"values must have an entry for every exact result, got none for {result!r}")
        value = values[result] if isinstance(values, Mapping) else values(result)
        worth[result] = _amount("values", value, f"for {result!r}")
    total = math.fsum(worth[result] * count for result, count in x.items())
    return math.fsum(worth[result] * count for result, count in both.items()) / total if total else 1.0


def _amount(argument: str, got: object, where: str) -> float:
    amount = float(got) if isinstance(got, Real) else math.nan
    if not 0 <= amount < math.inf:
        raise PenstockError(f"{argument} must give finite numbers >= 0, got {got!r} {where}")
    return amount


def _emd_and_mac(x: Bag, y: Bag, distance: Distance, work_limit: int) -> tuple[float, float]:
    if not x or not y:
        return 0.0, 0.0 if x == y else math.inf
    if y <= x:
        # The usual case needs fewer distances: all of y meets itself, and nothing is cheaper for the rest of x than its
        # nearest neighbours. The general way finds the same cover.
        missing = x - y
        nearest = _distances(missing, y, distance, work_limit).min(axis=1)
        return 0.0, _work(_counts(missing), nearest) + missing.total()
    cost = _distances(x, y, distance, work_limit)
    return _emd(cost, _counts(x), _counts(y)), _mac(cost, _counts(x), _counts(y))


def _emd(cost: Floats, n_x: Ints, n_y: Ints) -> float:
    if n_x.sum() > n_y.sum():
        cost, n_x, n_y = np.ascontiguousarray(cost.T), n_y, n_x
    return _work(_transport(cost, n_x, n_y), cost)


def _mac(cost: Floats, n_x: Ints, n_y: Ints) -> float:
    """Match And Compare by the usual reduction of a cheapest edge cover to a matching.

    Alone, a node takes the edge to its nearest node. A match replaces two such edges by one and changes the sum by
    distance - nearest(x) - nearest(y); rows that no match helps go to a last column, "alone". A match that changes
    nothing is made, since it saves an edge (the small price of being alone also absorbs the rounding of sums). A node
    left alone shares its neighbour: there are as many edges beyond the first, over all nodes, as nodes alone.
    """
    near_x, near_y = cost.min(axis=1), cost.min(axis=0)
    change = np.column_stack([cost - near_x[:, None] - near_y, np.full(len(cost), 1e-12 * cost.max())])
    flow = _transport(change, n_x, np.append(n_y, n_x.sum()))
    matched, alone_x = flow[:, :-1], flow[:, -1]
    alone_y = n_y - matched.sum(axis=0)
    apart = _work(matched, cost) + _work(alone_x, near_x) + _work(alone_y, near_y)
    return apart + float(alone_x.sum() + alone_y.sum())


def _counts(bag: Bag) -> Ints:
    return np.fromiter(bag.values(), dtype=np.int64, count=len(bag))


def _work(amount: Ints, cost: Floats) -> float:
    moved = np.nonzero(amount)
    return math.fsum((amount[moved] * cost[moved]).tolist())


def _distances(x: Bag, y: Bag, distance: Distance, work_limit: int) -> Floats:
    """The matrix of distances between distinct results, each checked."""
    if len(x) * len(y) > work_limit:
        raise PenstockError(
            f"work_limit must be at least {len(x) * len(y)} for the distances between {len(x)} and {len(y)} distinct "
            f"results, got {work_limit}; raise it, compare a sample, or leave distance out"
        )
    cost = np.empty((len(x), len(y)))
    for i, a in enumerate(x):
        for j, b in enumerate(y):
            apart = _amount("distance", distance(a, b), f"between {a!r} and {b!r}")
            if apart and a == b:
                raise PenstockError(f"distance must be 0 between equal results, got {apart!r} for {a!r}")
            cost[i, j] = apart
    return cost


@routine
def _transport(cost: Floats, supply: Ints, demand: Ints) -> Ints:
    """The cheapest whole-numbered flow that empties every row's supply into columns with enough demand in all.

    Successive shortest paths with potentials, Dijkstra over a dense matrix: the Hungarian method with multiplicities.
    A path goes from a row to a column; if that is full, on to the rows which fill it and to their next column, and so
    on to a column with demand left.
    """
    n, m = cost.shape
    flow = np.zeros((n, m), np.int64)
    left = demand.copy()
    row_potential, column_potential = np.zeros(n), np.zeros(m)
    for i in range(n):
        row_potential[i] = cost[i].min()
    row_at, column_at = np.empty(n), np.empty(m)
    row_via, column_via = np.empty(n, np.int64), np.empty(m, np.int64)
    pending = np.empty(n, np.int64)
    for start in range(n):
        need = supply[start]
        while need > 0:
            reached, settled = np.zeros(n, np.bool_), np.zeros(m, np.bool_)
            column_at[:] = np.inf
            reached[start], row_at[start], pending[0], n_pending = True, 0.0, start, 1
            while True:
                while n_pending:
                    n_pending -= 1
                    i = pending[n_pending]
                    base = row_at[i] - row_potential[i]
                    for j in range(m):
                        if not settled[j]:
                            at = base + cost[i, j] - column_potential[j]
                            if at < column_at[j]:
                                column_at[j], column_via[j] = at, i
                end, nearest = -1, np.inf
                for j in range(m):
                    if not settled[j] and column_at[j] < nearest:
                        end, nearest = j, column_at[j]
                settled[end] = True
                if left[end] > 0:
                    break
                for i in range(n):
                    if flow[i, end] > 0 and not reached[i]:
                        reached[i], row_at[i], row_via[i] = True, nearest, end
                        pending[n_pending] = i
                        n_pending += 1
            for i in range(n):
                if reached[i]:
                    row_potential[i] += nearest - row_at[i]
            for j in range(m):
                if settled[j]:
                    column_potential[j] -= nearest - column_at[j]
            amount = min(need, left[end])
            i = column_via[end]
            while i != start:
                amount = min(amount, flow[i, row_via[i]])
                i = column_via[row_via[i]]
            need -= amount
            left[end] -= amount
            i = column_via[end]
            flow[i, end] += amount
            while i != start:
                full = row_via[i]
                flow[i, full] -= amount
                i = column_via[full]
                flow[i, full] += amount
    return flow
