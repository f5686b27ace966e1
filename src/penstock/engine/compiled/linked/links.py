"""Conditions between the values of two streams: how partners are looked up in an ordered index, and whether two tuples match.

Every condition that is no Python function is a list of *links* between columns (core/graph.py); a predicate on one key is one link between
every two streams. For each ordered pair of streams there is an index of the tuples of the second, for tuples of the first to look into:

    R.a = S.a                    cell: a                         value: none
    R.b < S.b                    cell: none                      value: b, a range with one end
    |R.x - S.x| <= 0.5           cell: none                      value: x, a range
    |R.(x, y) - S.(x, y)| <= 2   cell: x in steps of 2, three    value: y, a range
    R.a = S.a, |R.x - S.x| <= 1  cell: a                         value: x, a range

What an index finds is checked by all links, so cells may be hashes, and ranges a little too wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from penstock.core.compiled import inlined, kernel, routine
from penstock.core.problem import Problem
from penstock.core.trace import Ints
from penstock.engine.compiled.linked.ordered import BLOCK, empty, insert, place_in, remove, room_for, shelf_of
from penstock.engine.compiled.state import Memory, accesses, entries, groups, indexes, lanes, links, shelves, slots, values

LESS, LESS_EQUAL, EQUAL, UNEQUAL, GREATER_EQUAL, GREATER, NEAR = range(7)
_TESTS = {"<": LESS, "<=": LESS_EQUAL, "=": EQUAL, "!=": UNEQUAL, ">=": GREATER_EQUAL, ">": GREATER, "eps": NEAR}
_GRID = 3  # columns of a distance that make cells, at most
_WIDER = 1 + 2.0**-20  # a cell is wider than the distance by more than rounding can do
_FAR = 2.0**30  # steps from zero beyond which all is one cell
_SLACK = 2.0**-50
_EXACT = 1 << 62  # whole numbers below can be subtracted


class LinkTables(NamedTuple):
    """The links of a problem, and how each stream looks into each other."""

    links: list[tuple[int, int, int, float]]
    accesses: list[tuple[int, ...]]
    width: int
    indexes: int

    @classmethod
    def of(cls, problem: Problem, width: int = 1) -> LinkTables:
        """Those of a predicate on so many key columns, or of a join graph.

        >>> found = LinkTables.of(Problem.of(("R", "S", "T"), window=4, memory=4, predicate="R.a = S.a, S.b < T.b"))
        >>> found.width, found.indexes, [access[0] for access in found.accesses]
        (2, 4, [-1, 0, -1, 1, -1, 2, -1, 3, -1])
        """
        n = problem.n_streams
        rows: list[tuple[int, int, int, float]] = []
        of_pair: dict[tuple[int, int], tuple[int, int]] = {}
        if problem.graph is None or problem.predicate.is_equality:
            for pair in combinations(range(n), 2):
                of_pair[pair] = (len(rows), len(rows) + 1)
                rows.append((_TESTS[problem.predicate.name], 0, width, problem.predicate.epsilon))
        else:
            width = problem.graph.slots[-1].stop
            every = list(zip(problem.graph.links, problem.graph.slots, strict=True))
            for pair in combinations(range(n), 2):
                mine = [(link, slot) for link, slot in every if (link.low, link.high) == pair]
                of_pair[pair] = (len(rows), len(rows) + len(mine))
                rows += [(_TESTS[link.predicate.name], at.start, at.stop - at.start, link.predicate.epsilon) for link, at in mine]
        found, number = [], 0
        for i in range(n):
            for j in range(n):
                first, last = (0, 0) if i == j else of_pair[min(i, j), max(i, j)]
                found.append(_access(number, rows, first, last, i < j))
                number += last > first
        return cls(rows, found, width, number)


def _access(number: int, rows: Sequence[tuple[int, int, int, float]], first: int, last: int, lower: bool) -> tuple[int, ...]:
    if first == last:
        return -1, 0, 0, 0, -1, -1, 0, int(lower)
    mine = range(first, last)
    hashes = [at for at in mine if rows[at][0] == EQUAL or (rows[at][0] == NEAR and rows[at][3] == 0)]
    near = [at for at in mine if rows[at][0] == NEAR and rows[at][3] > 0]
    sized = [at for at in mine if rows[at][0] in (LESS, LESS_EQUAL, GREATER_EQUAL, GREATER)]
    ranged = (near + sized + [-1])[0]
    grid = -1 if hashes or not near or rows[near[0]][2] == 1 else near[0]
    column = rows[ranged][1] + rows[ranged][2] - 1 if ranged >= 0 else 0
    return number, first, last, len(hashes), grid, ranged, column, int(lower)


def index_sizes(linked: LinkTables | None, streams: int, items: int, fresh: int, *, counted: bool) -> dict[str, int]:
    """How large the arrays of links, indexes and counts must be."""
    if linked is None:
        return dict.fromkeys(("links", "accesses", "indexes", "shelves", "entries", "values", "found", "counts"), 1)
    shelved = max(1, linked.indexes) * room_for(items)
    return {
        "links": len(linked.links),
        "accesses": len(linked.accesses),
        "indexes": max(1, linked.indexes),
        "shelves": shelved,
        "entries": shelved * BLOCK,
        "values": (items + fresh) * linked.width,
        "found": items,
        "counts": items * streams if counted else 1,
    }


def fill(arrays: dict[str, Any], memory: Memory, linked: LinkTables, items: int) -> None:
    """Write links and accesses into their arrays, and make the indexes, for so many items, empty."""
    memory.width, memory.room, memory.staged = linked.width, room_for(items), items
    for name, rows in (("links", linked.links), ("accesses", linked.accesses)):
        for at, row in enumerate(rows):
            arrays[name][at] = row
    empty(arrays, len(arrays["indexes"]), room_for(items))


# Values. A *pick* is a slot or, negative, an arrival of this instant: ~ its number there, whose values lie behind those of the slots.


@inlined
def value_at(memory: Memory, pick: int, column: int) -> int:
    """A value of a tuple, as it is kept."""
    return int(values(memory)[(pick if pick >= 0 else memory.staged + ~pick) * memory.width + column])


@kernel
def show(memory: Memory, seen: Ints, begin: int, end: int) -> None:
    """Take the values of an instant's arrivals."""
    for at in range(begin, end):
        for column in range(memory.width):
            values(memory)[(memory.staged + at - begin) * memory.width + column] = seen[at, column]


@kernel
def keep_values(memory: Memory, pick: int, slot: int) -> None:
    """Give a slot the values of an arrival."""
    for column in range(memory.width):
        values(memory)[slot * memory.width + column] = value_at(memory, pick, column)


@inlined
def number_at(memory: Memory, pick: int, column: int) -> float:
    """The same as a number; large whole ones to the nearest."""
    bits = value_at(memory, pick, column)
    return float(bits) if memory.whole else float(np.int64(bits).view(np.float64)) + 0.0


@inlined
def _is_true(test: int, sign: int) -> bool:
    if test == EQUAL or test == UNEQUAL:
        return bool((sign == 0) == (test == EQUAL))
    if test < EQUAL:
        return bool(sign < 0 or (sign == 0 and test == LESS_EQUAL))
    return bool(sign > 0 or (sign == 0 and test == GREATER_EQUAL))


@inlined
def _gap(memory: Memory, low: int, high: int, column: int) -> float:
    """How far two tuples are apart in a column."""
    if memory.whole:
        a = value_at(memory, low, column)
        b = value_at(memory, high, column)
        if -_EXACT < a < _EXACT and -_EXACT < b < _EXACT:
            return float(abs(a - b))
        return abs(float(a) - float(b))
    return float(abs(number_at(memory, low, column) - number_at(memory, high, column)))


@kernel
def agree(memory: Memory, access: int, pick: int, other: int) -> bool:
    """Whether two tuples match by all links of an access, the first of which looks for the second."""
    low, high = (pick, other) if accesses(memory)[access].lower else (other, pick)
    for link in range(accesses(memory)[access].first, accesses(memory)[access].last):
        test = links(memory)[link].test
        column = links(memory)[link].column
        if test == NEAR:
            distance = _gap(memory, low, high, column)
            if links(memory)[link].width > 1:
                distance *= distance
                for beside in range(column + 1, column + links(memory)[link].width):
                    gap = _gap(memory, low, high, beside)
                    distance += gap * gap
                distance = np.sqrt(distance)
            if not distance <= links(memory)[link].epsilon:
                return False
        elif memory.whole:
            a = value_at(memory, low, column)
            b = value_at(memory, high, column)
            if not _is_true(test, (1 if a > b else 0) - (1 if a < b else 0)):
                return False
        else:
            x = number_at(memory, low, column)
            y = number_at(memory, high, column)
            if x != x or y != y or not _is_true(test, (1 if x > y else 0) - (1 if x < y else 0)):
                return False
    return True


@inlined
def _is_like(memory: Memory, pick: int, item: int) -> bool:
    """Whether two tuples have the same values."""
    for column in range(memory.width):
        if value_at(memory, pick, column) != value_at(memory, item, column):
            return False
    return True


# Cells and values of entries.


@inlined
def _mixed(cell: int, bits: int) -> int:
    """One number from two. It stays below 2**62, so that plain Python has the same."""
    one = ((cell ^ bits) & 0x7FFFFFFF) * 0x2545F491
    two = (((cell >> 31) ^ (bits >> 31)) & 0x7FFFFFFF) * 0x1B873593
    return int(one ^ (two << 1) ^ (one >> 29))


@kernel
def is_known(memory: Memory, access: int, pick: int) -> bool:
    """Whether a tuple has all values that the links of an access look at."""
    if memory.whole:
        return True
    for link in range(accesses(memory)[access].first, accesses(memory)[access].last):
        for column in range(links(memory)[link].column, links(memory)[link].column + links(memory)[link].width):
            value = number_at(memory, pick, column)
            if value != value:
                return False
    return True


@kernel
def cell_of(memory: Memory, access: int, pick: int, beside: int) -> int:
    """The cell of a tuple; of cells of a grid the one beside it that has this number (0: its own)."""
    cell = 0
    if accesses(memory)[access].hashes > 0:
        for link in range(accesses(memory)[access].first, accesses(memory)[access].last):
            test = links(memory)[link].test
            if test == EQUAL or (test == NEAR and links(memory)[link].epsilon == 0):
                for column in range(links(memory)[link].column, links(memory)[link].column + links(memory)[link].width):
                    bits = value_at(memory, pick, column)
                    if not memory.whole:
                        bits = int(np.float64(number_at(memory, pick, column)).view(np.int64))  # -0.0 is 0.0 there
                    cell = _mixed(cell, bits)
        return cell
    grid = accesses(memory)[access].grid
    if grid < 0:
        return 0
    step = links(memory)[grid].epsilon * _WIDER
    for column in range(links(memory)[grid].column, links(memory)[grid].column + _dimensions(memory, grid)):
        place = np.floor(min(max(number_at(memory, pick, column) / step, -_FAR), _FAR))
        place += (beside + 1) % 3 - 1
        beside //= 3
        cell = _mixed(cell, int(place))
    return cell


@inlined
def _dimensions(memory: Memory, grid: int) -> int:
    """The columns of a distance that make cells."""
    return int(min(links(memory)[grid].width - 1, _GRID))


@inlined
def _cells(memory: Memory, access: int) -> int:
    """How many cells a tuple looks into."""
    found = 1
    if accesses(memory)[access].grid >= 0:
        for _ in range(_dimensions(memory, accesses(memory)[access].grid)):
            found *= 3
    return found


@inlined
def value_of(memory: Memory, access: int, pick: int) -> float:
    """By what a tuple is ordered in its cell."""
    if accesses(memory)[access].ranged < 0:
        return 0.0
    return number_at(memory, pick, accesses(memory)[access].column)


@kernel
def enlist(memory: Memory, item: int, stream: int, row: int) -> None:
    """Put a tuple of a stream, whose values are there, into every index of its stream; `row` orders equals."""
    for looks in range(memory.streams):
        access = looks * memory.streams + stream
        if accesses(memory)[access].index >= 0 and is_known(memory, access, item):
            cell = cell_of(memory, access, item, 0)
            insert(memory, accesses(memory)[access].index, cell, value_of(memory, access, item), row, item)


@routine
def enlist_all(memory: Memory, chosen: Ints) -> None:
    """Put tuples that were linked anew into the indexes."""
    for slot in chosen:
        if groups(memory)[slots(memory)[slot].group].key >= 0:
            enlist(memory, slot, slots(memory)[slot].stream, slots(memory)[slot].row)


@kernel
def strike(memory: Memory, item: int, stream: int, row: int) -> None:
    """Take a tuple out of every index of its stream."""
    for looks in range(memory.streams):
        access = looks * memory.streams + stream
        if accesses(memory)[access].index >= 0 and is_known(memory, access, item):
            cell = cell_of(memory, access, item, 0)
            remove(memory, accesses(memory)[access].index, cell, value_of(memory, access, item), row)


@kernel
def collect(memory: Memory, pick: int, stream: int, other: int, found: Ints) -> int:
    """List the tuples of stream `other` in memory that match a tuple of `stream`: into `found`; how many."""
    access = stream * memory.streams + other
    number = 0
    if accesses(memory)[access].index < 0:
        slot = lanes(memory)[other].oldest
        while slot >= 0:
            if groups(memory)[slots(memory)[slot].group].key >= 0:
                found[number] = slot
                number += 1
            slot = slots(memory)[slot].newer
        return number
    if indexes(memory)[accesses(memory)[access].index].shelves == 0 or not is_known(memory, access, pick):
        return 0
    low, high = -np.inf, np.inf
    ranged = accesses(memory)[access].ranged
    if ranged >= 0:
        value = number_at(memory, pick, accesses(memory)[access].column)
        test = links(memory)[ranged].test
        if test == NEAR:
            reach = links(memory)[ranged].epsilon + (abs(value) + links(memory)[ranged].epsilon) * _SLACK
            low, high = value - reach, value + reach
        elif (test < EQUAL) == (accesses(memory)[access].lower == 1):
            low = value
        else:
            high = value
    for beside in range(_cells(memory, access)):
        number = scan(memory, access, pick, cell_of(memory, access, pick, beside), low, high, False, found, number)
    return int(number)


@kernel
def twins(memory: Memory, pick: int, stream: int, found: Ints) -> int:
    """List the tuples of `stream` whose values are those of another of this stream: into `found`; how many."""
    for looker in range(memory.streams):
        access = looker * memory.streams + stream
        if accesses(memory)[access].index >= 0 and is_known(memory, access, pick):
            if indexes(memory)[accesses(memory)[access].index].shelves == 0:
                return 0
            value = value_of(memory, access, pick)
            return int(scan(memory, access, pick, cell_of(memory, access, pick, 0), value, value, True, found, 0))
    return 0


@kernel
def scan(memory: Memory, access: int, pick: int, cell: int, low: float, high: float, alike: bool, found: Ints, number: int) -> int:
    """Add the matches in one cell and range to those found, or what is `alike`, of the same stream; how many there are then."""
    index = accesses(memory)[access].index
    shelf = shelf_of(memory, index, cell, low, -1)
    last = index * memory.room + indexes(memory)[index].shelves
    place = place_in(memory, shelf, cell, low, -1)
    while shelf < last:
        base = shelves(memory)[shelf].block * BLOCK
        for at in range(base + place, base + shelves(memory)[shelf].length):
            entry = entries(memory)[at]
            if entry.cell != cell or entry.value > high:
                return number
            memory.examined += 1
            if _is_like(memory, pick, entry.slot) if alike else agree(memory, access, pick, entry.slot):
                found[number] = entry.slot
                number += 1
        shelf += 1
        place = 0
    return number
