"""An ordered index: entries by (cell, value, row), to be found, inserted and removed in O(log memory).

Entries lie in blocks of 64. A directory of *shelves*, in order, has the first entry of each block in use:

    shelves    (0, 1.5)          (0, 4.0)               (7, 0.5)
    blocks     1.5 2.0 3.25      4.0 4.0 8.5            0.5 0.75

A full block is cut in two; two neighbours that would fill less than two thirds of one become one. So a range is read from memory that
lies together, and an insertion moves at most 64 entries and, now and then, a part of the directory. Several indexes share the arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.core.compiled import inlined, kernel
from penstock.core.trace import Floats, Ints
from penstock.engine.compiled.state import Memory, entries, indexes, shelves

BLOCK = 64
"""Entries of a block."""
_HALF = BLOCK // 2
_FEW = 40  # entries of two neighbours that become one
_LAID = 48  # entries of a block that is laid full: more than `_FEW`, and with room for others


def room_for(items: int) -> int:
    """The shelves that an index of so many items can need: two neighbours have more than `_FEW` entries."""
    return 2 * items // _FEW + 4


def empty(arrays: dict[str, Any], number: int, room: int) -> None:
    """Make so many indexes, with `room` shelves each, empty."""
    arrays["indexes"]["free"] = np.arange(number) * room
    following = np.arange(1, number * room + 1)
    following[room - 1 :: room] = -1
    arrays["entries"]["slot"][::BLOCK] = following


@inlined
def is_before(cell: int, value: float, row: int, other_cell: int, other_value: float, other_row: int) -> bool:
    """Whether an entry comes before another."""
    if cell != other_cell:
        return cell < other_cell
    if value != other_value:
        return value < other_value
    return row < other_row


@kernel
def shelf_of(memory: Memory, index: int, cell: int, value: float, row: int) -> int:
    """The last shelf of an index that begins with this entry or before it; the first if there is none."""
    base = index * memory.room
    low = 0
    high = indexes(memory)[index].shelves - 1
    while low < high:
        middle = (low + high + 1) >> 1
        shelf = shelves(memory)[base + middle]
        if is_before(cell, value, row, shelf.cell, shelf.value, shelf.row):
            high = middle - 1
        else:
            low = middle
    return int(base + low)


@kernel
def place_in(memory: Memory, shelf: int, cell: int, value: float, row: int) -> int:
    """The first place of a shelf whose entry is this one or comes after it."""
    base = shelves(memory)[shelf].block * BLOCK
    low = 0
    high = shelves(memory)[shelf].length
    while low < high:
        middle = (low + high) >> 1
        entry = entries(memory)[base + middle]
        if is_before(entry.cell, entry.value, entry.row, cell, value, row):
            low = middle + 1
        else:
            high = middle
    return int(low)


@kernel
def insert(memory: Memory, index: int, cell: int, value: float, row: int, item: int) -> None:
    """Put an item into an index."""
    base = index * memory.room
    if indexes(memory)[index].shelves == 0:
        _open_shelf(memory, index, base)
    shelf = shelf_of(memory, index, cell, value, row)
    if shelves(memory)[shelf].length == BLOCK:
        _cut(memory, index, shelf)
        first = shelves(memory)[shelf + 1]
        if not is_before(cell, value, row, first.cell, first.value, first.row):
            shelf += 1
    place = place_in(memory, shelf, cell, value, row)
    begin = shelves(memory)[shelf].block * BLOCK
    for at in range(begin + shelves(memory)[shelf].length, begin + place, -1):
        entries(memory)[at] = entries(memory)[at - 1]
    entries(memory)[begin + place].cell = cell
    entries(memory)[begin + place].value = value
    entries(memory)[begin + place].row = row
    entries(memory)[begin + place].slot = item
    shelves(memory)[shelf].length += 1
    if place == 0:
        _name(memory, shelf)


@kernel
def lay(memory: Memory, index: int, cell: Ints, value: Floats, item: Ints) -> None:
    """Fill an empty index with items in order; each is its row too."""
    shelf = index * memory.room - 1
    for at in range(len(item)):
        if at % _LAID == 0:
            shelf += 1
            _open_shelf(memory, index, shelf)
        place = shelves(memory)[shelf].block * BLOCK + shelves(memory)[shelf].length
        entries(memory)[place].cell = cell[at]
        entries(memory)[place].value = value[at]
        entries(memory)[place].row = item[at]
        entries(memory)[place].slot = item[at]
        shelves(memory)[shelf].length += 1
        if at % _LAID == 0:
            _name(memory, shelf)


@kernel
def listed(memory: Memory, index: int, out: Ints, number: int) -> int:
    """Add the items of an index, in order, to those listed; how many there are then."""
    base = index * memory.room
    for shelf in range(base, base + indexes(memory)[index].shelves):
        begin = shelves(memory)[shelf].block * BLOCK
        for at in range(begin, begin + shelves(memory)[shelf].length):
            out[number] = entries(memory)[at].slot
            number += 1
    return number


@kernel
def remove(memory: Memory, index: int, cell: int, value: float, row: int) -> None:
    """Take an item, which is in it, out of an index."""
    base = index * memory.room
    shelf = shelf_of(memory, index, cell, value, row)
    place = place_in(memory, shelf, cell, value, row)
    begin = shelves(memory)[shelf].block * BLOCK
    size = shelves(memory)[shelf].length - 1
    for at in range(begin + place, begin + size):
        entries(memory)[at] = entries(memory)[at + 1]
    shelves(memory)[shelf].length = size
    last = base + indexes(memory)[index].shelves - 1
    if size == 0:
        _close_shelf(memory, index, shelf)
        return
    if place == 0:
        _name(memory, shelf)
    if shelf < last and size + shelves(memory)[shelf + 1].length <= _FEW:
        _merge(memory, index, shelf)
    elif shelf > base and size + shelves(memory)[shelf - 1].length <= _FEW:
        _merge(memory, index, shelf - 1)


@kernel
def thin(memory: Memory, index: int, number: Ints) -> None:
    """Keep the items that have a new number (-1: none), which is their row too. New numbers are in the order of the old ones."""
    base = index * memory.room
    end = base  # of the shelves that are kept
    for shelf in range(base, base + indexes(memory)[index].shelves):
        block = shelves(memory)[shelf].block
        begin = block * BLOCK
        size = 0
        for at in range(begin, begin + shelves(memory)[shelf].length):
            item = number[entries(memory)[at].slot]
            if item >= 0:
                entries(memory)[begin + size] = entries(memory)[at]
                entries(memory)[begin + size].row = item
                entries(memory)[begin + size].slot = item
                size += 1
        if size > 0 and (end == base or shelves(memory)[end - 1].length + size > _FEW):
            shelves(memory)[end].block = block
            shelves(memory)[end].length = size
            _name(memory, end)
            end += 1
            continue
        if size > 0:
            behind = shelves(memory)[end - 1].block * BLOCK + shelves(memory)[end - 1].length
            for at in range(size):
                entries(memory)[behind + at] = entries(memory)[begin + at]
            shelves(memory)[end - 1].length += size
        entries(memory)[begin].slot = indexes(memory)[index].free
        indexes(memory)[index].free = block
    indexes(memory)[index].shelves = end - base


@inlined
def _name(memory: Memory, shelf: int) -> None:
    """Note what a shelf begins with."""
    entry = entries(memory)[shelves(memory)[shelf].block * BLOCK]
    shelves(memory)[shelf].cell = entry.cell
    shelves(memory)[shelf].value = entry.value
    shelves(memory)[shelf].row = entry.row


@kernel
def _open_shelf(memory: Memory, index: int, shelf: int) -> None:
    """Make room in the directory for one more shelf, with an empty block."""
    last = index * memory.room + indexes(memory)[index].shelves
    for at in range(last, shelf, -1):
        shelves(memory)[at] = shelves(memory)[at - 1]
    block = indexes(memory)[index].free
    indexes(memory)[index].free = entries(memory)[block * BLOCK].slot
    indexes(memory)[index].shelves += 1
    shelves(memory)[shelf].block = block
    shelves(memory)[shelf].length = 0


@kernel
def _close_shelf(memory: Memory, index: int, shelf: int) -> None:
    """Take a shelf out of the directory, and free its block."""
    block = shelves(memory)[shelf].block
    entries(memory)[block * BLOCK].slot = indexes(memory)[index].free
    indexes(memory)[index].free = block
    indexes(memory)[index].shelves -= 1
    for at in range(shelf, index * memory.room + indexes(memory)[index].shelves):
        shelves(memory)[at] = shelves(memory)[at + 1]


@kernel
def _cut(memory: Memory, index: int, shelf: int) -> None:
    """Cut a full block in two."""
    _open_shelf(memory, index, shelf + 1)
    begin = shelves(memory)[shelf].block * BLOCK
    other = shelves(memory)[shelf + 1].block * BLOCK
    for at in range(_HALF):
        entries(memory)[other + at] = entries(memory)[begin + _HALF + at]
    shelves(memory)[shelf].length = _HALF
    shelves(memory)[shelf + 1].length = _HALF
    _name(memory, shelf + 1)


@kernel
def _merge(memory: Memory, index: int, shelf: int) -> None:
    """Put the entries of the next shelf behind those of this one."""
    size = shelves(memory)[shelf].length
    begin = shelves(memory)[shelf].block * BLOCK + size
    other = shelves(memory)[shelf + 1].block * BLOCK
    for at in range(shelves(memory)[shelf + 1].length):
        entries(memory)[begin + at] = entries(memory)[other + at]
    shelves(memory)[shelf].length = size + shelves(memory)[shelf + 1].length
    _close_shelf(memory, index, shelf + 1)
