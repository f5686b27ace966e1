"""Which window to visit first, second, last: the cheapest join order by the cost model (Golab 5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from penstock.core.errors import PenstockError
from penstock.multiway.cost import CostModel, Setting, rounded
from penstock.multiway.index import affordable, allocate, with_buckets
from penstock.multiway.join_plan import Candidate, JoinPlan
from penstock.multiway.project import project
from penstock.multiway.search import Order, chosen_method, global_orders, local_orders, work, work_of
from penstock.multiway.upkeep import Weights, upkeep


def order_joins(
    streams: Any,
    *,
    on: Any = None,
    strategy: str = "eager",
    tau: float | None = None,
    expire: float | None = None,
    method: str = "auto",
    per_stream: bool = False,
    selectivity: Mapping[tuple[str, str], float] | None = None,
    buckets: int | None = None,
    memory: Any = None,
    columns: Iterable[str] | None = None,
    cross: bool = False,
    counted: str = "visited",
    weights: Weights | None = None,
) -> JoinPlan:
    """The cheapest order of the nested loops that join streams, by comparisons per tick.

    `streams` are `WindowStats`, or numbers by name. `on` is a column or a join graph such as "R.a = S.a, S.b < T.b"; by default all
    streams join on one key. The order is one for all streams; with `per_stream`, or by the strategy `general`, each arriving stream has
    its own. `buckets` (in all) or `memory` (a size) are split over the windows as indexes first; of each stream only `columns`
    ("R.price") and what the join looks at are carried.

    >>> table5 = {
    ...     "S1": {"rate": 10, "window": 100, "distinct": 500},
    ...     "S2": {"rate": 1, "window": 100, "distinct": 50},
    ...     "S3": {"rate": 1, "window": 200, "distinct": 40},
    ...     "S4": {"rate": 3, "window": 100, "distinct": 5},
    ... }
    >>> plan = order_joins(table5)
    >>> plan.order, plan.cost, plan.candidates[-1].cost
    (('S1', 'S2', 'S3', 'S4'), 16000.0, 86850.0)
    >>> order_joins(table5, strategy="lazy", tau=10).cost
    16720.0
    """
    setting = Setting.read(streams, on, cross=cross, observed=selectivity, strategy=strategy, tau=tau, expire=expire, counted=counted)
    carried = None
    if columns is not None:
        narrow, carried = project(setting.streams, setting.graph, columns)
        setting = replace(setting, streams=narrow)
    if buckets is not None and memory is not None:
        raise PenstockError(f"buckets and memory are two limits of the same, got {buckets!r} and {memory!r}: give one")
    if buckets is not None or memory is not None:
        split = allocate(setting, affordable(setting, memory) if buckets is None else buckets, weights)
        setting = with_buckets(setting, list(split.buckets.values()))
    return replace(plan_of(setting, method=method, per_stream=per_stream, weights=weights), columns=carried)


def plan_of(setting: Setting, *, method: str = "auto", per_stream: bool = False, weights: Weights | None = None) -> JoinPlan:
    """The cheapest order in a setting. Volatile streams count with their peaks: the order is to hold when it matters."""
    model, peak = CostModel(setting), CostModel(setting.at_peak())
    count = len(setting.streams)
    method = chosen_method(method, count)
    names = setting.names

    def named(order: Order) -> tuple[str, ...]:
        return tuple(names[i] for i in order)

    if per_stream and setting.strategy == "naive":
        raise PenstockError("per_stream goes with the strategies eager, lazy and general, got it with naive, which has one order for all")
    if per_stream or setting.strategy == "general":
        candidates = []
        orders = {}
        for origin in range(count):
            ranked = sorted(local_orders(peak, origin, method), key=lambda order: rounded(work_of(peak, origin, order)))
            found = [Candidate(named(order), model.cost_of(origin, order), peak.cost_of(origin, order), names[origin]) for order in ranked]
            candidates += found
            orders[names[origin]] = found[0]
        best = {origin: one.order for origin, one in orders.items()}
        cost, peak_cost = sum(one.cost for one in orders.values()), sum(one.peak_cost for one in orders.values())
        return JoinPlan(setting, method, None, best, cost, peak_cost, upkeep(setting, weights), tuple(candidates), weights)
    ranked = sorted(global_orders(peak, method), key=lambda order: rounded(work(peak, order)))
    considered = tuple(Candidate(named(order), model.cost(order), peak.cost(order)) for order in ranked)
    first = considered[0]
    best = {names[i]: named(model.local(i, ranked[0])) for i in range(count)}
    return JoinPlan(setting, method, first.order, best, first.cost, first.peak_cost, upkeep(setting, weights), considered, weights)
