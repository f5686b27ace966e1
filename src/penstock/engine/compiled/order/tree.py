"""The shape of a tournament: where nodes, blocks and leaves are among the entries (tournament.py says what is decided in them)."""

from __future__ import annotations

from penstock.core.compiled import inlined
from penstock.engine.compiled.state import Memory, holders

BLOCK = 8


def shape(classes: int) -> tuple[int, int]:
    """How many leaves and how many inner nodes a tournament of so many classes has: whole blocks of each, and the root.

    >>> shape(8), shape(9), shape(1000)
    ((8, 1), (64, 9), (1016, 145))
    """
    inner = BLOCK * max(0, -(-(classes - BLOCK) // (BLOCK * (BLOCK - 1)))) + 1
    return (BLOCK - 1) * inner + 1, inner


@inlined
def root_at(memory: Memory, level: int, tree: int) -> int:
    """Where the root of a tournament is among the entries. Leaves come first; blocks begin at multiples of 8."""
    return int(memory.leaves * memory.planes + (level * memory.trees + tree) * (memory.inner + BLOCK - 1) + BLOCK - 1)


@inlined
def block_of(memory: Memory, plane: int, root: int, node: int) -> int:
    """Where the eight children of a node are."""
    below = BLOCK * node + 1
    return root + below if below < memory.inner else plane * memory.leaves + below - memory.inner


@inlined
def class_at(memory: Memory, plane: int, tree: int, at: int) -> int:
    """The class of an entry, -1 if nobody plays there. A leaf holds the number of its tournament instead of its own."""
    holder = holders(memory)[at]
    if at >= memory.leaves * memory.planes:
        return int(holder)
    return at - plane * memory.leaves if holder == tree else -1
