"""A plan put to the test: Golab's workload with a plan's numbers, joined in its orders, and its comparisons counted (Golab 6.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.core.errors import PenstockError
from penstock.core.trace import Trace
from penstock.multiway.cost import CostModel, Setting
from penstock.multiway.strategies import run_strategy
from penstock.multiway.workload import random_arrivals

Orders = Sequence[str] | Mapping[str, Sequence[str]]


def measure(setting: Setting, orders: Orders, *, rows: int = 30_000, seed: int = 0) -> tuple[float, float]:
    """Comparisons per tick by the model, and counted over `rows` random arrivals after the windows have filled.

    >>> from penstock.multiway.stats import WindowStats
    >>> setting = Setting.read([WindowStats("R", 2, 100, 50), WindowStats("S", 1, 100, 20)])
    >>> model, counted = measure(setting, ("R", "S"), rows=3_000)
    >>> model, round(counted / model, 1)
    (400.0, 1.0)
    """
    if setting.observed:
        pairs = ", ".join(" and ".join(pair) for pair in sorted(setting.observed))
        raise PenstockError(f"a measured workload has uniform values, got a selectivity of {pairs}: leave it out")
    setting = replace(setting, streams=tuple(replace(one, predicate_cost=1.0) for one in setting.streams))
    model = CostModel(setting)
    names = setting.names
    if isinstance(orders, Mapping):
        local = {name: list(orders[name]) for name in names}
    else:
        places = [names.index(one) for one in orders]
        local = {name: [names[j] for j in model.local(i, places)] for i, name in enumerate(names)}
    expected = sum(model.cost_of(i, [names.index(one) for one in local[name]]) for i, name in enumerate(names))
    # The workload has one arrival per tick of its own: `total` of these are a tick of the plan.
    total = sum(one.rate for one in setting.streams)
    windows = {one.name: one.window if one.counts_rows else max(1, round(float(one.window) * total)) for one in setting.streams}
    intervals = {name: round(value * total) for name, value in (("tau", setting.tau), ("expire", setting.expire)) if value is not None}
    longest = max(one.length * (total / one.rate if one.counts_rows else total) for one in setting.streams)
    filled = int(longest) + 2 * max(intervals.values(), default=0)
    columns = [{column: one.distinct_of(column) for column in setting.graph.columns(i)} for i, one in enumerate(setting.streams)]
    trace = random_arrivals(filled + rows, {one.name: (one.rate, columns[i]) for i, one in enumerate(setting.streams)}, seed=seed)
    options: dict[str, Any] = {
        "window": windows, "strategy": setting.strategy, "predicate": setting.graph, "cross": True,
        "order": orders if setting.strategy == "naive" else local, **intervals,
        "access": {one.name: one.buckets for one in setting.streams if one.buckets > 1} or "nested",
    }  # fmt: skip
    early = Trace(trace.table.slice(0, filled), key=trace.key_columns, streams=trace.streams)
    counted = run_strategy(trace, **options).comparisons - run_strategy(early, **options).comparisons
    return expected, counted / rows * total
