"""Past arrivals of a cell by importance, where what an arrival is worth to a tuple depends on both importances."""

from __future__ import annotations

from penstock.core.compiled import inlined, kernel
from penstock.engine.compiled.linked.partners import worth_of
from penstock.engine.compiled.state import Memory, lore, lores


@kernel
def remember(memory: Memory, cell: int, importance: float, weight: float) -> None:
    """Add an arrival to those of its cell that were as important."""
    at = lores(memory)[cell]
    while at >= 0:
        if lore(memory)[at].importance == importance:
            lore(memory)[at].weight += weight
            return
        at = lore(memory)[at].next
    at = memory.n_lore
    memory.n_lore += 1
    lore(memory)[at].importance = importance
    lore(memory)[at].weight = weight
    lore(memory)[at].next = lores(memory)[cell]
    lores(memory)[cell] = at


@inlined
def valued_rate(memory: Memory, cell: int, importance: float) -> float:
    """The value that arrivals of a cell make with a tuple of this importance."""
    total = 0.0
    at = lores(memory)[cell]
    while at >= 0:
        total += lore(memory)[at].weight * worth_of(memory, importance, lore(memory)[at].importance)
        at = lore(memory)[at].next
    return total
