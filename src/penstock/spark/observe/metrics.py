"""What a join counts, and how the counts of its shards become the metrics of a query (docs/readings.md, metrics)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from penstock.policies.table import POLICIES
from penstock.shard.cells import CELL
from penstock.shard.counts import BESIDE, HAPPENING, OVERHEADS, PLAYED, RETAINED, TOTAL, Count, counted
from penstock.shard.meter.interval import Z
from penstock.shard.shard_plan import ShardPlan

COUNTS = "counts"
MIN_RECALL = "min_recall"
HAS_IMPORTANCE = "has_importance"
OF_BATCH = {
    "n_input": "tuples that came in",
    "n_output": "joined rows made",
    "n_shed": "tuples shed",
    "n_expired": "tuples that left on time",
    "n_done": "tuples that left after as many outputs as their stream promises (matches)",
    "n_late": "tuples that broke the promise of their lateness",
    "n_ahead": "tuples put aside or dropped because they are further ahead than others support",
    "n_null": "rows without a time, which were dropped",
    "value": "value of the joined rows made",
    "lost": "outputs not made, because a tuple was shed, a row came too late or a promise of matches was broken",
    "lost_is_exact": "whether all that was lost was counted (1), or some of it estimated (0)",
    "recall": "outputs made / (made + lost)",
    "recall_low": "lower end of the 95 % interval of recall",
    "recall_high": "upper end of the 95 % interval of recall",
    "lost_value": "value of the outputs not made",
    "value_recall": "value made / (made + lost)",
    "value_recall_low": "lower end of the 95 % interval of value_recall",
    "value_recall_high": "upper end of the 95 % interval of value_recall",
}
"""The metrics of a batch, which are there for the life of the query too, with `total_` before their names: what they count."""
OF_STATE = {
    "retained_rows": "tuples in memory at the end of the batch",
    "retained_ahead": "tuples put aside at the end of the batch",
    "retained_bytes": "bytes in memory at the end of the batch, with dead payload",
    "overhead_bytes": "bytes beside the payload: statistics, ghosts and index",
    "statistics_bytes": "bytes of statistics",
    "statistics_is_sketch": "whether the counts of a shard have become a sketch",
    "ghost_bytes": "bytes of the shadow of memory and ghosts",
    "index_bytes": "bytes of the engine's arrays and names",
    "budget_rows": "tuples that memory may hold, where memory is in rows; of a Budget, what this join has of it now",
    "budget_bytes": "bytes that memory may take, where memory is in bytes; of a Budget, what this join has of it now",
    "share": "what the shards may hold now, as a part of the join's equal part: 1, or above 1 where it took from other joins of its Budget",
    "share_min": "the smallest share of a shard, as a part of an equal one",
    "share_max": "the largest share of a shard, as a part of an equal one",
    "policy": "who leaves when memory is full",
    HAS_IMPORTANCE: "whether tuples have an importance, so that outputs differ in value",
    MIN_RECALL: "the recall below which a batch warns or fails",
    "memory_": "tuples in memory at the end of the batch, by stream",
}
"""The others; the name of a stream follows `memory_`."""
_BUDGETS = {"budget_rows", "budget_bytes"}


RESULTS = f"{CELL} binary, {COUNTS} array<double>"
"""The rows of the operator: a cell of joined rows, or what a shard has counted, in the order of `counted`."""


def metrics(
    streams: Sequence[str], least: float | None = None, *, auto: bool = False, shards: int = 1, moving: int = 0, **constant: Any
) -> list[Column]:
    """The aggregates of `DataFrame.observe`; with what is `constant`, and the recall that batches must reach, where there is one.

    `auto`: nobody chose the policy, and the shards say which one they follow. `moving`: what of the budget moves between joins.
    """
    count = {name: F.col(COUNTS)[number] for number, name in enumerate(counted(len(streams)))}
    out = {prefix + name: column for prefix in ("", TOTAL) for name, column in _of(prefix, count).items()}
    out |= {name: F.sum(count[name]).cast("bigint") for name in _names(RETAINED)}
    statistics, ghosts, index, sketched = (count[name] for name in _names(OVERHEADS))
    out["overhead_bytes"] = F.sum(statistics + ghosts + index).cast("bigint")
    out |= {"statistics_bytes": F.sum(statistics).cast("bigint"), "statistics_is_sketch": F.max(sketched) > 0}
    out |= {"ghost_bytes": F.sum(ghosts).cast("bigint"), "index_bytes": F.sum(index).cast("bigint")}
    constant |= {} if least is None else {MIN_RECALL: least}
    out |= {name: F.max(F.lit(value)) for name, value in constant.items()}
    smallest = F.try_divide(F.lit(1.0), F.max(count["share_least"]))
    out |= {"share": F.sum(count["share"]) / shards, "share_min": smallest, "share_max": F.max(count["share_most"])}
    for name in constant.keys() & _BUDGETS if moving else ():
        out[name] += F.round((out["share"] - 1) * moving).cast("bigint")
    if auto:  # a checkpoint may have another
        names = F.array(*map(F.lit, POLICIES))
        out["policy"] = F.coalesce(F.get(names, F.max(count["policy"]).cast("int")), out["policy"])
    out |= {f"memory_{name}": F.sum(count[f"held_{number}"]).cast("bigint") for number, name in enumerate(streams)}
    return [column.alias(name) for name, column in out.items()]


def moving_part(plan: ShardPlan) -> int:
    """What of a join's equal part other joins of its Budget may take: of bytes all but the overhead."""
    beside = (plan.overhead or 0) if plan.budget.in_bytes else 0
    return (plan.budget.most - beside) * len(plan.shards) if plan.joins else 0


def constants(plan: ShardPlan) -> dict[str, Any]:
    """The metrics of a join that do not change while it runs: its policy, and what all shards together may hold."""
    policy = plan.options["policy"]
    budget = plan.budget
    name = policy if isinstance(policy, str) else str(getattr(policy, "name", type(policy).__name__))
    return {
        "policy": name,
        HAS_IMPORTANCE: plan.has_importance,
        f"budget_{'bytes' if budget.in_bytes else 'rows'}": budget.most * len(plan.shards),
    }


def _of(prefix: str, count: dict[str, Column]) -> dict[str, Column]:
    """The metrics of a batch or of the life of the query. Spark computes every aggregate that is named here, however often it is."""
    own = {name: count[prefix + name] for name in _names(HAPPENING)}
    nothing = F.lit(None if prefix else 0.0)  # of a batch that no shard saw, such as one that only moves a watermark on
    total = {name: F.coalesce(F.sum(column), nothing) for name, column in own.items()}
    recall = _shares(*(own[name] for name in ("n_output", "lost", "sampled", "variance", "reach", "unknown")), known=not prefix)
    values = (own[name] for name in ("value", "lost_value", "sampled_value", "value_variance", "value_reach", "unknown_value"))
    value_recall = _shares(*values, known=not prefix)
    return {
        **{name: total[name].cast("bigint") for name in _names((*PLAYED, *BESIDE)) if name != "value"},
        "value": total["value"],
        "lost": F.round(total["lost"]).cast("bigint"),
        "lost_is_exact": F.coalesce(F.max(own["estimated"]), nothing) == 0,
        **{f"recall{bound}": column for bound, column in recall.items()},
        "lost_value": total["lost_value"],
        **{f"value_recall{bound}": column for bound, column in value_recall.items()},
    }


def _shares(
    made: Column, lost: Column, sampled: Column, variance: Column, reach: Column, unknown: Column, *, known: bool
) -> dict[str, Column]:
    """What was made of what there was to make, and the bounds of that; all of it where there was nothing to make, which is `known` or told
    by a shard.
    """
    some, every, guess = F.sum(made), F.sum(made + lost), F.sum(sampled)
    low, high = _limits(guess, F.sum(variance), F.max(reach))
    bounds = {"": every, "_low": every - guess + high + F.sum(unknown), "_high": every - guess + low}
    all_of_it = F.lit(1.0) if known else F.when(some.isNotNull(), 1.0)
    return {bound: F.coalesce(F.try_divide(some, of), all_of_it) for bound, of in bounds.items()}


def _limits(sampled: Column, variance: Column, reach: Column) -> tuple[Column, Column]:
    """The interval of what is estimated: `interval.limits` of columns."""
    nothing, without = F.lit(0.0), reach == F.lit(float("inf"))
    variance = F.least(variance, F.greatest(sampled, nothing) * reach)

    def quantile(mean: Column, variance: Column, z: float) -> Column:
        spread = F.coalesce(F.try_divide(variance, F.greatest(mean, nothing) * mean), nothing)
        return mean * F.pow(F.greatest(1 - spread / 9 + F.sqrt(spread) * (z / 3), nothing), 3.0)

    low, high = quantile(sampled, variance, -Z), quantile(sampled + reach, variance + reach * reach, Z)
    return F.when(without, F.least(sampled, nothing)).otherwise(low), F.when(without, reach).otherwise(high)


def recall_of(counts: dict[str, Any]) -> float:
    """The same of plain numbers.

    >>> recall_of({"n_output": 3.0, "lost": 1.0})
    0.75
    """
    made, lost = counts["n_output"], counts["lost"]
    return 1.0 if made + lost <= 0 else made / (made + lost)


def _names(counts: Sequence[Count]) -> list[str]:
    return [count.name for count in counts]
