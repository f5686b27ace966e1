"""The tuples in memory, in arrays that grow; how many they are, and what is known of them, as columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.core.problem import Problem
from penstock.core.trace import Bools, Floats, Ints
from penstock.engine.compiled.facts.compiled_facts import CompiledFacts
from penstock.engine.compiled.key_clocks import PER_KEY
from penstock.engine.compiled.layers.allocate import allocate
from penstock.engine.compiled.layers.portable import as_columns, from_columns
from penstock.engine.compiled.memory import live_slots
from penstock.engine.contract import TUPLE, Bands, Ranking, Totals
from penstock.engine.number_bits import from_bits

_SMALL = 1 << 16  # slots or classes


class TupleArrays:
    """The arrays of an engine, and the record through which the loop finds them (state.py)."""

    def __init__(self, problem: Problem, ranking: Ranking, bands: Bands | None) -> None:
        self.problem, self.ranking, self.bands = problem, ranking, bands
        self.width = 1
        self.facts = CompiledFacts.of(problem) if problem.through else None
        self.arrays, self.memory = allocate(problem, ranking, bands, slots=64, groups=64, facts=self.facts)

    @property
    def totals(self) -> Totals:
        """The counts so far."""
        at = self.memory
        counts = {name: int(at[name]) for name in ("n_input", "n_output", "n_shed", "n_expired", "n_late", "n_done", "n_filtered")}
        rest = {
            "peak_memory": int(at.peak),
            "retained": int(at.live),
            "used": int(self.arrays["pools"].sum()),
            "instant": int(at.instant),
            "next_row": int(at.next_row),
            "n_steps": int(at.steps),
            "n_gains": int(at.gains),
            "n_attempts": int(at.attempts),
        }
        return Totals(**counts, **rest, value=float(at.value))

    @property
    def seen(self) -> Ints:
        """The largest time of each stream."""
        return self.arrays["lanes"]["seen"].copy()

    @property
    def arrivals(self) -> Ints:
        """The rows that have come, by stream."""
        return self.arrays["lanes"]["arrivals"].copy()

    @property
    def held(self) -> Ints:
        """The tuples in memory, by stream."""
        return self.arrays["lanes"]["held"].copy()

    @property
    def structure_bytes(self) -> int:
        """What the engine's own arrays take beside the tuples' numbers: time, row, expiry, stream, key, importance, size."""
        arrays = self.arrays
        own = len(arrays["slots"]) * 25 + len(arrays["groups"]) * 8
        own += sum(len(arrays[name]) * 8 for name in ("ranks", "weights") if len(arrays[name]) > 1)
        return sum(array.nbytes for array in arrays.values()) - own

    @property
    def n_bytes(self) -> int:
        """What all arrays take."""
        return sum(array.nbytes for array in self.arrays.values())

    @property
    def n_examined(self) -> int:
        """The candidates that indexes have offered (joins by links)."""
        return int(self.memory.examined)

    def keys(self) -> Ints:
        """The keys of the tuples in memory, each at least once."""
        if self.memory.indexed:
            return as_columns(self.memory, self.arrays)["key"]
        groups = self.arrays["groups"]
        return groups["key"][groups["members"] > 0]

    def values(self) -> Floats:
        """What links compare, a row per tuple; nothing where keys are compared."""
        if not self.memory.indexed or self.problem.predicate.is_equality:
            return np.empty((0, 0))
        if self.facts is not None:
            return np.asarray(as_columns(self.memory, self.arrays)["values"])
        return from_bits(as_columns(self.memory, self.arrays)["values"], whole=bool(self.memory.whole))

    def retained(self) -> Ints:
        """The rows in memory."""
        return np.sort(self.arrays["slots"]["row"][live_slots(self.memory)])

    def tuples(self) -> dict[str, Any]:
        """The tuples in memory as columns."""
        state = as_columns(self.memory, self.arrays)
        return {name: state.get(name, np.ones(len(state["row"]))) for name in TUPLE}

    def _move(self, state: dict[str, Any] | None = None, *, straggling: bool = False) -> None:
        """Into arrays that are as large, for tuples that may be described otherwise."""
        state = as_columns(self.memory, self.arrays) if state is None else state
        sizes = {name: len(self.arrays[name]) for name in ("slots", "groups", "fresh")}
        straggling |= bool(self.memory.straggling)
        self.arrays, self.memory = from_columns(
            self.problem, self.ranking, self.bands, state, **sizes, straggling=straggling, width=self.width, facts=self.facts
        )

    def _make_room(self, arrivals: int, *, straggling: bool) -> None:
        """Move into larger arrays: by half or a quarter, but not beyond what the budget can ever need."""
        memory, arrays, budget = self.memory, self.arrays, self.problem.budget
        sizes = {"slots": len(arrays["slots"]), "groups": len(arrays["groups"]), "fresh": len(arrays["fresh"])}
        old = dict(sizes)
        needed = int(memory.live) + arrivals
        if sizes["slots"] < needed:
            limit = needed * 5 // 4 if budget.in_bytes else budget.most + arrivals
            sizes["slots"] = max(needed, min(_grown(sizes["slots"]), limit))
        needed = int(memory.live_groups) + arrivals
        if sizes["groups"] < needed:
            limit = needed * 5 // 4 if memory.lasting else max(sizes["slots"], sizes["groups"])
            sizes["groups"] = max(needed, min(_grown(sizes["groups"]), limit))
        sizes["fresh"] = max(sizes["fresh"], arrivals)
        if self.facts is not None:
            self.facts.make_room(memory, arrays, arrivals)
        if sizes != old or straggling != bool(memory.straggling):
            state = as_columns(memory, arrays)
            self.arrays, self.memory = {}, None  # the old arrays need not be there beside the new ones
            del memory, arrays
            self.arrays, self.memory = from_columns(
                self.problem, self.ranking, self.bands, state, **sizes, straggling=straggling, width=self.width, facts=self.facts
            )

    def _by_key(self, stream: Ints) -> Bools:
        """Which rows are in windows of the last rows of each key: their expiries are no times."""
        found: Bools = self.arrays["lanes"]["in_rows"][stream] == PER_KEY
        return found


def _grown(size: int) -> int:
    """The next size of an array: large ones grow by less, since what is not used is memory too."""
    return 2 * size if size < _SMALL else size * 5 // 4
