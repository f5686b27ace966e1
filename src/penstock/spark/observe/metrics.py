"""What a join counts, and how the counts of its shards become the metrics of a query (docs/readings.md, metrics).

They are SQL: built of columns they took some two thousand calls of the JVM, a second and more of every first start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from penstock.policies.table import POLICIES
from penstock.shard.cells import CELL
from penstock.shard.counts import BESIDE, HAPPENING, OVERHEADS, PLAYED, RETAINED, TOTAL, Count, counted
from penstock.shard.meter.interval import limits_in_sql
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
    "n_filtered": "rows that no fact of a relation links, which no shard has seen",
    "n_late_facts": "facts of which a begin or an end became known after rows of that time had been played",
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
    count = {name: f"{COUNTS}[{number}]" for number, name in enumerate(counted(len(streams)))}
    sums = {prefix + name: text for prefix in ("", TOTAL) for name, text in _of(prefix, count).items()}
    sums |= {name: _whole(f"sum({count[name]})") for name in _names(RETAINED)}
    statistics, ghosts, index, sketched = (count[name] for name in _names(OVERHEADS))
    sums["overhead_bytes"] = _whole(f"sum({statistics} + {ghosts} + {index})")
    sums |= {"statistics_bytes": _whole(f"sum({statistics})"), "statistics_is_sketch": f"max({sketched}) > 0"}
    sums |= {"ghost_bytes": _whole(f"sum({ghosts})"), "index_bytes": _whole(f"sum({index})")}
    shared = f"sum({count['share']}) / {shards}"
    sums |= {"share": shared, "share_min": f"try_divide(1D, max({count['share_least']}))", "share_max": f"max({count['share_most']})"}
    sums |= {f"memory_{name}": _whole(f"sum({count[f'held_{number}']})") for number, name in enumerate(streams)}
    constant |= {} if least is None else {MIN_RECALL: least}
    out = {name: F.max(F.lit(value)) for name, value in constant.items()}
    for name in constant.keys() & _BUDGETS if moving else ():
        out[name] += F.expr(_whole(f"round(({shared} - 1) * {moving})"))
    if auto:  # a checkpoint may have another
        names = ", ".join(f"'{name}'" for name in POLICIES)
        out["policy"] = F.coalesce(F.expr(f"get(array({names}), cast(max({count['policy']}) as int))"), out["policy"])
    return [column.alias(name) for name, column in ({name: F.expr(text) for name, text in sums.items()} | out).items()]


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


def _of(prefix: str, count: dict[str, str]) -> dict[str, str]:
    """The metrics of a batch or of the life of the query. Spark computes every aggregate that is named here, however often it is."""
    own = {name: count[prefix + name] for name in _names(HAPPENING)}
    nothing = "null" if prefix else "0D"  # of a batch that no shard saw, such as one that only moves a watermark on
    total = {name: f"coalesce(sum({text}), {nothing})" for name, text in own.items()}
    recall = _shares(*(own[name] for name in ("n_output", "lost", "sampled", "variance", "reach", "unknown")), known=not prefix)
    values = (own[name] for name in ("value", "lost_value", "sampled_value", "value_variance", "value_reach", "unknown_value"))
    value_recall = _shares(*values, known=not prefix)
    return {
        **{name: _whole(total[name]) for name in _names((*PLAYED, *BESIDE)) if name != "value"},
        "value": total["value"],
        "lost": _whole(f"round({total['lost']})"),
        "lost_is_exact": f"coalesce(max({own['estimated']}), {nothing}) = 0D",
        **{f"recall{bound}": text for bound, text in recall.items()},
        "lost_value": total["lost_value"],
        **{f"value_recall{bound}": text for bound, text in value_recall.items()},
    }


def _shares(made: str, lost: str, sampled: str, variance: str, reach: str, unknown: str, *, known: bool) -> dict[str, str]:
    """What was made of what there was to make, and the bounds of that; all of it where there was nothing to make, which is `known` or told
    by a shard.
    """
    some, every, guess = f"sum({made})", f"sum({made} + {lost})", f"sum({sampled})"
    low, high = limits_in_sql(guess, f"sum({variance})", f"max({reach})")
    bounds = {"": every, "_low": f"{every} - {guess} + {high} + sum({unknown})", "_high": f"{every} - {guess} + {low}"}
    all_of_it = "1D" if known else f"if({some} is not null, 1D, null)"
    return {bound: f"coalesce(try_divide({some}, {of}), {all_of_it})" for bound, of in bounds.items()}


def _whole(text: str) -> str:
    return f"cast({text} as bigint)"


def recall_of(counts: dict[str, Any]) -> float:
    """The same of plain numbers.

    >>> recall_of({"n_output": 3.0, "lost": 1.0})
    0.75
    """
    made, lost = counts["n_output"], counts["lost"]
    return 1.0 if made + lost <= 0 else made / (made + lost)


def _names(counts: Sequence[Count]) -> list[str]:
    return [count.name for count in counts]
