"""Past arrivals of a cell by importance, where what an arrival is worth to a tuple depends on both importances."""

from __future__ import annotations

from penstock.core.compiled import inlined, kernel
from penstock.engine.compiled.linked.partners import worth_of
from penstock.engine.compiled.state import Memory, last_past, past


@kernel
def remember(memory: Memory, cell: int, importance: float, weight: float) -> None:
    """Add an arrival to those of its cell that were as important."""
    at = last_past(memory)[cell]
    while at >= 0:
        if past(memory)[at].importance == importance:
            past(memory)[at].weight += weight
            return
        at = past(memory)[at].next
    at = memory.n_past
    memory.n_past += 1
    past(memory)[at].importance = importance
    past(memory)[at].weight = weight
    past(memory)[at].next = last_past(memory)[cell]
    last_past(memory)[cell] = at


@inlined
def valued_rate(memory: Memory, cell: int, importance: float) -> float:
    """The value that arrivals of a cell make with a tuple of this importance."""
    total = 0.0
    at = last_past(memory)[cell]
    while at >= 0:
        total += past(memory)[at].weight * worth_of(memory, importance, past(memory)[at].importance)
        at = past(memory)[at].next
    return total
