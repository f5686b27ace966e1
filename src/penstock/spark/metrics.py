"""What a join counts, and how the counts of its shards become the metrics of a query (design 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from penstock.spark.blocks import CELL

COUNTED = ("n_input", "n_output", "value", "n_shed", "n_expired", "n_late", "n_null")
LOSSES = ("lost", "lost_value", "variance", "value_variance", "estimated")
BOTH = (*COUNTED, *LOSSES)
MIN_RECALL = "min_recall"
Z = 2.1
"""Standard deviations on either side of an estimate, for 95 %: a little more than 1.96, since the deviation is an estimate too."""


def counted(streams: int) -> tuple[str, ...]:
    """What a shard counts: in a batch, in its life (`total_`), and what it holds at the end of the batch."""
    held = (*(f"held_{number}" for number in range(streams)), "retained_rows", "retained_bytes")
    return (*BOTH, *(f"total_{name}" for name in BOTH), *held)


def counts_schema(streams: int) -> str:
    """The rows of the operator: a cell of joined rows, or counts."""
    return f"{CELL} binary, " + ", ".join(f"{name} double" for name in counted(streams))


def metrics(streams: Sequence[str], least: float | None = None) -> list[Column]:
    """The aggregates of `DataFrame.observe`; with the recall that batches must reach, where there is one."""
    out = [column.alias(prefix + name) for prefix in ("", "total_") for name, column in _of(prefix).items()]
    out += [F.sum("retained_rows").cast("bigint").alias("retained_rows"), F.sum("retained_bytes").cast("bigint").alias("retained_bytes")]
    out += [] if least is None else [F.max(F.lit(least)).alias(MIN_RECALL)]
    return out + [F.sum(f"held_{number}").cast("bigint").alias(f"memory_{name}") for number, name in enumerate(streams)]


def _of(prefix: str) -> dict[str, Column]:
    total = {name: F.coalesce(F.sum(prefix + name), F.lit(0.0)) for name in BOTH}
    spread, value_spread = (F.sqrt(total[name]) * Z for name in ("variance", "value_variance"))
    made, lost, value, lost_value = (total[name] for name in ("n_output", "lost", "value", "lost_value"))
    return {
        **{name: total[name].cast("bigint") for name in COUNTED if name != "value"},
        "value": value,
        "lost": F.round(lost).cast("bigint"),
        "lost_is_exact": F.coalesce(F.max(prefix + "estimated"), F.lit(0.0)) == 0,
        "recall": _share(made, lost),
        "recall_low": _share(made, lost + spread),
        "recall_high": _share(made, F.greatest(lost - spread, F.lit(0.0))),
        "lost_value": lost_value,
        "value_recall": _share(value, lost_value),
        "value_recall_low": _share(value, lost_value + value_spread),
        "value_recall_high": _share(value, F.greatest(lost_value - value_spread, F.lit(0.0))),
    }


def _share(made: Column, lost: Column) -> Column:
    """What was made of what there was to make; all of it where that is nothing."""
    return F.when(made + lost <= 0, F.lit(1.0)).otherwise(made / (made + lost))


def recall_of(counts: dict[str, Any]) -> float:
    """The same of plain numbers.

    >>> recall_of({"n_output": 3.0, "lost": 1.0})
    0.75
    """
    made, lost = counts["n_output"], counts["lost"]
    return 1.0 if made + lost <= 0 else made / (made + lost)
