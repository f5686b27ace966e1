"""What a batch or a life has lost, as the meter counts it and the metrics report it."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.shard.counts import over_shards


@dataclass
class Loss:
    """Lost outputs and value; how much of them is estimated, the variances of that, and the reach (interval.py)."""

    lost: float = 0.0
    lost_value: float = 0.0
    variance: float = 0.0
    value_variance: float = 0.0
    estimated: float = 0.0  # 1 where anything was sampled
    sampled: float = 0.0
    sampled_value: float = 0.0
    reach: float = 0.0
    value_reach: float = 0.0
    unknown: float = 0.0  # the most that late rows may have missed beyond what is counted
    unknown_value: float = 0.0

    def add(self, other: Loss) -> None:
        """Sum up."""
        for name, value in vars(other).items():
            setattr(self, name, over_shards(name, (getattr(self, name), value)))


def as_estimated(total: dict[str, float]) -> dict[str, float]:
    """The totals of 0.1.0, all of which may be estimated: with a reach that leaves their variances as they are.

    >>> as_estimated({"lost": 8.0, "lost_value": 0.0, "variance": 16.0, "value_variance": 0.0, "estimated": 1.0})["reach"]
    2.0
    """
    if not total["estimated"]:
        return total
    count, value = (
        total[lost] and total[variance] / total[lost] for lost, variance in (("lost", "variance"), ("lost_value", "value_variance"))
    )
    return total | {"sampled": total["lost"], "sampled_value": total["lost_value"], "reach": count, "value_reach": value}
