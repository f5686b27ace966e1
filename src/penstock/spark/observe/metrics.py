"""What a join counts, and how the counts of its shards become the metrics of a query (docs/readings.md, metrics).

They are SQL: built of columns they took some two thousand calls of the JVM, a second and more of every first start. Each is one list of
what the shards say and a function of that list (`_over`): for a sum or a maximum of its own Spark makes code in every task.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from penstock.policies.table import POLICIES
from penstock.shard.cells import CELL
from penstock.shard.counts import BESIDE, HAPPENING, LARGEST, OVERHEADS, PLAYED, RETAINED, SHARES, TOTAL, Count, counted
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
    place = {name: number for number, name in enumerate(counted(len(streams)))}
    sums = {prefix + name: text for prefix in ("", TOTAL) for name, text in _of(prefix, place).items()}
    statistics, ghosts, index, sketched = _names(OVERHEADS)
    held = {name: [name] for name in _names(RETAINED)} | {"overhead_bytes": [statistics, ghosts, index]}
    held |= {"statistics_bytes": [statistics], "ghost_bytes": [ghosts], "index_bytes": [index]}
    held |= {f"memory_{name}": [f"held_{number}"] for number, name in enumerate(streams)}
    sums |= {name: _whole(_over(place, own, " + ".join(f"{{{n}}}" for n in range(len(own))))) for name, own in held.items()}
    sums["statistics_is_sketch"] = _over(place, [sketched], "{0} > 0")
    share, most, least_of = _names(SHARES)
    sums["share"] = _over(place, [share], f"{{0}} / {shards}")
    sums |= {"share_min": _over(place, [least_of], "try_divide(1D, {0})"), "share_max": _over(place, [most])}
    constant |= {} if least is None else {MIN_RECALL: least}
    out = {name: F.lit(value) for name, value in constant.items()}
    for name in constant.keys() & _BUDGETS if moving else ():
        out[name] += F.expr(_whole(_over(place, [share], f"round(({{0}} / {shards} - 1) * {moving})")))
    if auto:  # a checkpoint may have another
        names = ", ".join(f"'{name}'" for name in POLICIES)
        out["policy"] = F.coalesce(F.expr(f"get(array({names}), cast({_over(place, ['policy'])} as int))"), out["policy"])
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


def _of(prefix: str, place: dict[str, int]) -> dict[str, str]:
    """The metrics of a batch or of the life of the query."""
    # A batch that no shard saw, such as one that only moves a watermark on, has nothing; of the life of the query nobody tells then.
    begin = _NOBODY if prefix else "0D"
    total = {name: _over(place, [prefix + name], begin=begin) for name in _names(HAPPENING)}
    recall = _shares(place, prefix, ("n_output", "lost", "sampled", "variance", "reach", "unknown"))
    values = ("value", "lost_value", "sampled_value", "value_variance", "value_reach", "unknown_value")
    value_recall = _shares(place, prefix, values)
    return {
        **{name: _whole(total[name]) for name in _names((*PLAYED, *BESIDE)) if name != "value"},
        "value": total["value"],
        "lost": _whole(f"round({total['lost']})"),
        "lost_is_exact": f"{total['estimated']} = 0D",
        **{f"recall{bound}": text for bound, text in recall.items()},
        "lost_value": total["lost_value"],
        **{f"value_recall{bound}": text for bound, text in value_recall.items()},
    }


def _shares(place: dict[str, int], prefix: str, names: Sequence[str]) -> dict[str, str]:
    """What was made of what there was to make, and the bounds of that; all of it where there was nothing to make, which of the life of the
    query a shard must have told.
    """
    made, lost, sampled, variance, reach, unknown = (f"{{{number}}}" for number in range(len(names)))
    low, high = limits_in_sql(sampled, variance, reach)
    every = f"{made} + {lost}"
    bounds = {"": (2, every), "_low": (6, f"{every} - {sampled} + {high} + {unknown}"), "_high": (5, f"{every} - {sampled} + {low}")}
    all_of_it = f"if({made} is not null, 1D, null)" if prefix else "1D"
    own = [prefix + name for name in names]
    return {bound: _over(place, own[:needed], f"coalesce(try_divide({made}, {of}), {all_of_it})") for bound, (needed, of) in bounds.items()}


_NOBODY = "cast(null as double)"


def _over(place: dict[str, int], names: Sequence[str], text: str = "{0}", *, begin: str = _NOBODY) -> str:
    """SQL over all shards: `text` with {0}, {1}, ... for the sum, or largest, of the counts with these names.

    Where no shard has told, that is `begin`, by default null.

    >>> _over({"n_shed": 3}, ["n_shed"], begin="0D")
    'aggregate(collect_list(counts[3]), 0D, (a, b) -> a + b)'
    >>> _over({"n_shed": 3}, ["n_shed"], "{0} / 2")
    'aggregate(collect_list(counts[3]), cast(null as double), (a, b) -> coalesce(a, 0D) + b, a -> a / 2)'
    """
    told = [f"{COUNTS}[{place[name]}]" for name in names]
    if len(names) == 1:
        steps, sums, all_told = _added(names[0], "a", "b", begin), ["a"], told[0]
    else:
        sums = [f"a[{number}]" for number in range(len(names))]
        each = (_added(name, own, f"b[{number}]", begin) for number, (name, own) in enumerate(zip(names, sums, strict=True)))
        steps, begin = f"array({', '.join(each)})", f"array({', '.join([begin] * len(names))})"
        all_told = f"if({COUNTS} is null, null, array({', '.join(told)}))"
    end = "" if text == "{0}" else f", a -> {text.format(*sums)}"
    return f"aggregate(collect_list({all_told}), {begin}, (a, b) -> {steps}{end})"


def _added(name: str, one: str, other: str, begin: str) -> str:
    if name.removeprefix(TOTAL) in LARGEST:
        return f"greatest({one}, {other})"
    return f"coalesce({one}, 0D) + {other}" if begin == _NOBODY else f"{one} + {other}"


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
