"""Stays: all that the optimum may choose, as one list of possible *ends* per tuple (Das 4.1; docs/readings.md, the optimum).

A tuple that is stored leaves right after one of its matches; to hold it longer costs memory and brings nothing. So its choice is one of
its ends, or not to be stored; it takes one slot of every gap from its arrival to its end, and is worth the sum of its matches up to
there:

    instant       0     1     2     3     4
    r             a           |     |           matches with s at 2 and 3 (model `buffered`: it is free again in the same instant)
    ends                      1     2           worth 1 at end 2, worth 2 at end 3

In class form, tuples of one stream and key share one list of ends, and each sees its own part of it: there are no more ends than rows,
whatever the window. In chain form each tuple has a list of its own: as many ends as matches.

Differs from the paper: Das's graph has a node for each tuple and time, w·N in all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.core.compiled import kernel
from penstock.core.problem import Problem
from penstock.core.trace import Ints
from penstock.optimum.instants import Instants

Nodes = NDArray[np.int32]


class Stays(NamedTuple):
    """The tuples of one pool that are worth storing, and their ends. Worths are sums along the list: a tuple's own is less its `base`."""

    row: Ints
    arrive: Nodes
    first: Nodes  # its ends are those from here
    past: Nodes  # to before here
    base: Ints
    end: Nodes  # the node at which the slot is free again
    worth: Ints
    memory: Ints  # by gap


def by_class(stream: Ints, instants: Instants, problem: Problem, pool: int, unit: int) -> Stays:
    """The tuples of a pool in class form: an output of two streams with equal keys is worth `unit`, whichever they are."""
    key, n = instants.key, instants.n
    arrives = np.flatnonzero((key >= 0) & (instants.time[instants.of] >= problem.start))
    code = (stream * (key.max(initial=0) + 1) + key) * (n + 1) + instants.of
    meeting, count = np.unique(code[arrives], return_counts=True)
    worth = np.cumsum(count) * unit
    row = np.flatnonzero((key >= 0) & (problem.budget.pool[stream] == pool))
    base_code = ((1 - stream[row]) * (key.max(initial=0) + 1) + key[row]) * (n + 1)
    first = np.searchsorted(meeting, base_code + instants.of[row], side="right")
    past = np.searchsorted(meeting, base_code + np.maximum(instants.last[row], instants.of[row]), side="right")
    some = np.flatnonzero(past > first)
    some = some[np.argsort(first[some], kind="stable")]  # neighbours in memory are neighbours in use
    before = np.concatenate([[0], worth])
    return Stays(
        row=row[some],
        arrive=instants.of[row[some]].astype(np.int32),
        first=first[some].astype(np.int32),
        past=past[some].astype(np.int32),
        base=before[first[some]],
        end=(meeting % (n + 1) + late(problem)).astype(np.int32),
        worth=worth,
        memory=instants.memory[pool],
    )


def by_tuple(
    tuples: Ints, partners: Ints, units: Ints, instants: Instants, problem: Problem, memory: Ints, *, every: bool = False
) -> Stays:
    """Tuples in chain form, from matches (a stored tuple, its partner, what that is worth), in the order of both.

    An end that is worth no more than an earlier one is left out, unless `every` is asked for.
    """
    size = len(tuples)
    kept, at, worth = np.empty(size, np.int64), np.empty(size, np.int32), np.empty(size, np.int64)
    found = _collect(tuples, instants.of[partners], units, every, kept, at, worth)
    kept, at, worth = kept[:found].copy(), at[:found], worth[:found].copy()
    first = np.flatnonzero(np.diff(kept, prepend=-1))
    row = kept[first]
    return Stays(
        row=row,
        arrive=instants.of[row].astype(np.int32),
        first=first.astype(np.int32),
        past=np.append(first[1:], found)[: len(first)].astype(np.int32),
        base=np.zeros(len(row), dtype=np.int64),
        end=at + np.int32(late(problem)),
        worth=worth,
        memory=memory,
    )


def late(problem: Problem) -> int:
    """How long after its last match a slot is free: at once, or an instant later where the match is made after shedding."""
    return 1 if problem.model == "inplace" else 0


@kernel
def _collect(tuples: Ints, instant: Ints, units: Ints, every: bool, kept: Ints, at: Nodes, worth: Ints) -> int:
    """One end per tuple and instant; returns how many."""
    found, total, best = 0, 0, 0
    for match in range(len(tuples)):
        mine = tuples[match]
        if match == 0 or tuples[match - 1] != mine:
            total, best = 0, 0
        total += units[match]
        if match + 1 < len(tuples) and tuples[match + 1] == mine and instant[match + 1] == instant[match]:
            continue
        if every or total > best:
            best = max(best, total)
            kept[found], at[found], worth[found] = mine, instant[match], total
            found += 1
    return found
