"""Past arrivals, found by links: how much of what has come in other streams matches a row.

The same indexes as those of memory, over arrivals that are remembered whether they were kept or shed. Arrivals that no price can tell
apart are one entry, with the sum of their weights.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from penstock.core.compiled import kernel
from penstock.core.problem import Problem
from penstock.core.trace import Floats, Ints
from penstock.core.value import finish, fold, start
from penstock.engine.compiled.linked.links import (
    LinkTables,
    cell_of,
    collect,
    enlist,
    fill,
    index_sizes,
    is_known,
    keep_values,
    show,
    twins,
    value_of,
)
from penstock.engine.compiled.linked.ordered import lay, listed, thin
from penstock.engine.compiled.state import ARRAYS, Memory, accesses, attach, found, in_one_block

DONE, NEEDS_ROOM, TOO_MANY = range(3)


class PastArrivals(NamedTuple):
    """Entries by number, as columns, and the sums of what each stream has."""

    stream: Ints
    importance: Floats
    weight: Floats
    held: Ints  # entries of each stream
    mass: Floats  # their weight


class Rows(NamedTuple):
    """Arrivals as columns; `values` has a line for each."""

    stream: Ints
    time: Ints
    key: Ints
    values: Ints
    importance: Floats
    weight: Floats


def open_past(problem: Problem, width: int, items: int, rows: int) -> tuple[dict[str, Any], Memory, PastArrivals]:
    """Room for so many entries, and for so many rows of one instant."""
    n = problem.n_streams
    linked = LinkTables.of(problem, width)
    sizes = dict.fromkeys(ARRAYS, 1) | index_sizes(linked, n, items, rows, counted=False)
    arrays = in_one_block(sizes)
    memory = attach(arrays)
    fill(arrays, memory, linked, items)
    memory.streams, memory.indexed = n, 1
    memory.objective = 0 if problem.steady or n > 2 else problem.objective.code
    return arrays, memory, PastArrivals(np.zeros(items, np.int64), np.ones(items), np.zeros(items), np.zeros(n, np.int64), np.zeros(n))


@kernel
def tally(memory: Memory, past: PastArrivals, rows: Rows, rates: Floats, most: int, at: Ints) -> int:
    """Remember rows from `at[0]` on, instant by instant, and give each the rates at which it is matched; `at[1]` entries are in use.

    In the column of a row's own stream is what it weighs itself.
    """
    items, time, stream = len(past.stream), rows.time, rows.stream
    while at[0] < len(time):
        begin = at[0]
        end = begin + 1
        while end < len(time) and time[end] == time[begin]:
            end += 1
        if at[1] + end - begin > items or memory.values_size < (items + end - begin) * memory.width:
            at[2] = end - begin
            return NEEDS_ROOM
        show(memory, rows.values, begin, end)
        for row in range(begin, end):
            if rows.key[row] >= 0:
                at[1] = remember(memory, past, ~(row - begin), stream[row], rows.importance[row], rows.weight[row], at[1])
        for row in range(begin, end):
            if rows.key[row] < 0:
                rates[row, :] = 0.0
                continue
            for other in range(memory.streams):
                rates[row, other] = rate_of(memory, past, ~(row - begin), stream[row], other, rows.importance[row])
            rates[row, stream[row]] = rows.weight[row]
        at[0] = end
        for one in range(memory.streams):
            if past.held[one] > most:
                return TOO_MANY
    return DONE


@kernel
def remember(memory: Memory, past: PastArrivals, pick: int, stream: int, importance: float, weight: float, filled: int) -> int:
    """Add an arrival to the entry that is like it, or make one; how many there are then."""
    past.mass[stream] += weight
    entry = _same(memory, past, pick, stream, importance)
    if entry >= 0:
        past.weight[entry] += weight
        return filled
    keep_values(memory, pick, filled)
    past.stream[filled] = stream
    past.importance[filled] = importance
    past.weight[filled] = weight
    past.held[stream] += 1
    enlist(memory, filled, stream, filled)
    return filled + 1


@kernel
def rate_of(memory: Memory, past: PastArrivals, pick: int, stream: int, other: int, importance: float) -> float:
    """The weight, or the value, of the past arrivals of stream `other` that match a tuple of `stream`."""
    if stream == other:
        return 0.0
    if accesses(memory)[stream * memory.streams + other].index < 0:
        return float(past.mass[other])
    total = 0.0
    objective = memory.objective
    for at in range(collect(memory, pick, stream, other, found(memory))):
        entry = found(memory)[at]
        if objective > 0:
            value = fold(objective, fold(objective, start(objective), importance), past.importance[entry])
            total += past.weight[entry] * finish(objective, value, 2)
        else:
            total += past.weight[entry]
    return total


@kernel
def weigh_all(memory: Memory, past: PastArrivals, rows: Rows, rates: Floats) -> None:
    """The rates at which tuples are matched."""
    for row in range(len(rows.stream)):
        show(memory, rows.values, row, row + 1)
        for other in range(memory.streams):
            known = rows.key[row] >= 0
            rates[row, other] = rate_of(memory, past, -1, rows.stream[row], other, rows.importance[row]) if known else 0.0


def fill_past(arrays: dict[str, Any], memory: Memory, past: PastArrivals, rows: Rows) -> int:
    """Remember arrivals that differ, into an empty past: each index is put in order once; how many there are."""
    size, n = len(rows.stream), int(memory.streams)
    past.stream[:size], past.importance[:size], past.weight[:size] = rows.stream, rows.importance, rows.weight
    past.held[:], past.mass[:] = np.bincount(rows.stream, minlength=n), np.bincount(rows.stream, rows.weight, minlength=n)
    arrays["values"][: rows.values.size] = rows.values.reshape(-1)
    item, cell, value = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size)
    for access in np.flatnonzero(arrays["accesses"]["index"] >= 0):
        part = slice(0, _indexed(memory, past, int(access), size, item, cell, value))
        by = (value[part],) if not part.stop or (cell[part] == cell[0]).all() else (value[part], cell[part])
        order = np.lexsort(by)
        lay(memory, int(arrays["accesses"]["index"][access]), cell[order], value[order], item[order])
    return size


@kernel
def _indexed(memory: Memory, past: PastArrivals, access: int, size: int, item: Ints, cell: Ints, value: Floats) -> int:
    """The entries that are in the index of an access, their cells and values; how many."""
    number = 0
    for entry in range(size):
        if past.stream[entry] == access % memory.streams and is_known(memory, access, entry):
            item[number] = entry
            cell[number] = cell_of(memory, access, entry, 0)
            value[number] = value_of(memory, access, entry)
            number += 1
    return number


def in_order(arrays: dict[str, Any], memory: Memory, filled: int) -> Ints:
    """The entries, those of a stream as they are in an index: so they are indexed anew in no time."""
    out = np.empty(filled, np.int64)
    size = 0
    for index in arrays["accesses"]["index"].reshape(-1, int(memory.streams)).max(axis=0):
        size = listed(memory, int(index), out, size) if index >= 0 else size
    rest = np.ones(filled, dtype=bool)
    rest[out[:size]] = False  # what an index does not know, or is in none
    out[size:] = np.flatnonzero(rest)
    return out


@kernel
def thin_past(memory: Memory, past: PastArrivals, number: Ints) -> int:
    """Remember only the entries that have a new number (`thin`); how many there are."""
    for index in range(memory.indexes_size):
        thin(memory, index, number)
    for stream in range(memory.streams):
        past.held[stream] = 0
        past.mass[stream] = 0.0
    kept = 0
    for item in range(len(number)):
        if number[item] >= 0:
            keep_values(memory, item, kept)
            past.stream[kept] = past.stream[item]
            past.importance[kept] = past.importance[item]
            past.weight[kept] = past.weight[item]
            past.held[past.stream[kept]] += 1
            past.mass[past.stream[kept]] += past.weight[kept]
            kept += 1
    return kept


@kernel
def _same(memory: Memory, past: PastArrivals, pick: int, stream: int, importance: float) -> int:
    """The entry that is priced as this arrival; -1 if there is none."""
    for at in range(twins(memory, pick, stream, found(memory))):
        entry = found(memory)[at]
        if past.importance[entry] == importance:
            return int(entry)
    return -1
