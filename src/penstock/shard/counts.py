"""The one table of what a shard counts: by name, how it adds up, and whether a condition changes it.

What happens is counted in a batch and, with `total_` before its name, in the life of the shard; what is held is counted at the end of a
batch. To count something else, add a line here, count it in `Shard._counts`, and give it a metric (`spark/observe/metrics.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

TOTAL = "total_"


@dataclass(frozen=True)
class Count:
    """One thing that is counted."""

    name: str
    largest: bool = False  # of several shards, or batches, the largest; otherwise their sum
    judged: bool = False  # a condition on joined rows changes it; variances and reaches stay those of all lost rows, which are not below


PLAYED = (
    Count("n_input"),
    Count("n_output", judged=True),
    Count("value", judged=True),
    Count("n_shed"),
    Count("n_expired"),
    Count("n_late"),
    Count("n_done"),
)
"""What the engine counts (`contract.Totals`); of late rows it sees only some (late_rows.py), of rows that were dropped none."""
BESIDE = (Count("n_ahead"), Count("n_null"), Count("n_filtered"), Count("n_late_facts"))
LOSSES = (
    Count("lost", judged=True),
    Count("lost_value", judged=True),
    Count("variance"),
    Count("value_variance"),
    Count("estimated", largest=True),
    Count("sampled", judged=True),
    Count("sampled_value", judged=True),
    Count("reach", largest=True),
    Count("value_reach", largest=True),
    Count("unknown"),
    Count("unknown_value"),
)
"""What the loss meter counts (`meter.loss.Loss`)."""
HAPPENING = (*PLAYED, *BESIDE, *LOSSES)
RETAINED = (Count("retained_rows"), Count("retained_ahead"), Count("retained_bytes"))
OVERHEADS = (Count("overhead_statistics"), Count("overhead_ghosts"), Count("overhead_index"), Count("overhead_sketched", largest=True))
"""Bytes beside the payload, and 1 where statistics have become a sketch."""
CHOSEN = (Count("policy", largest=True),)
"""The number of the policy in `POLICIES`; -1: one of the user's own."""
SHARES = (Count("share"), Count("share_most", largest=True), Count("share_least", largest=True))
"""What a shard has of the memory, as a part of an equal share: once to add up, once for the largest, and its inverse for the smallest."""
LARGEST = frozenset(count.name for count in (*HAPPENING, *OVERHEADS, *CHOSEN, *SHARES) if count.largest)
JUDGED = tuple(count.name for count in HAPPENING if count.judged)


def counted(streams: int) -> tuple[str, ...]:
    """The names of all counts of a shard, in the order in which they travel.

    >>> [name for name in counted(2) if "n_shed" in name or "held" in name]
    ['n_shed', 'total_n_shed', 'held_0', 'held_1']
    """
    happening = [count.name for count in HAPPENING]
    held = [*(f"held_{number}" for number in range(streams)), *(count.name for count in (*RETAINED, *OVERHEADS, *CHOSEN, *SHARES))]
    return (*happening, *(TOTAL + name for name in happening), *held)


def over_shards(name: str, values: Iterable[float]) -> float:
    """One count of all shards.

    >>> over_shards("total_reach", [2.0, 5.0]), over_shards("lost", [2.0, 5.0])
    (5.0, 7.0)
    """
    return float((max if name.removeprefix(TOTAL) in LARGEST else sum)(values))


def over_slices(name: str, before: float, now: float) -> float:
    """One count of a batch that was played in slices: what happens adds up, what is held or a total is the last.

    >>> over_slices("n_shed", 2.0, 5.0), over_slices("total_n_shed", 2.0, 5.0), over_slices("retained_rows", 2.0, 5.0)
    (7.0, 5.0, 5.0)
    """
    return over_shards(name, (before, now)) if name in _HAPPENING else now


_HAPPENING = frozenset(count.name for count in HAPPENING)
