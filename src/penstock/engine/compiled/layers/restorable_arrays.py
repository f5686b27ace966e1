"""Arrays that begin with what others held: snapshots, as they lie in memory, and the tuples of other engines."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.core.errors import PenstockError
from penstock.core.window import NEVER
from penstock.engine.compiled.batch_columns import rises
from penstock.engine.compiled.facts.known_facts import rate_columns
from penstock.engine.compiled.layers.portable import as_columns, from_columns, is_sound, merged, slots_in_order
from penstock.engine.compiled.layers.related_arrays import RelatedArrays
from penstock.engine.compiled.linked.partners import count_all
from penstock.engine.compiled.state import ARRAYS, RECORD, attach
from penstock.engine.contract import Chosen, Engine, Renumber
from penstock.engine.number_bits import as_bits


class RestorableArrays(RelatedArrays):
    """Arrays that can be left and taken up again."""

    def adopt(self, other: Engine) -> None:
        """Begin with the tuples of another engine; what happened before counts nowhere."""
        tuples, seen, totals = other.tuples(), other.seen, other.totals
        stream, expiry = tuples["stream"], tuples["expiry"]
        ordered = rises(np.where(self._by_key(stream), NEVER, expiry), stream, np.full(len(seen), -NEVER))
        state = as_columns(self.memory, self.arrays)
        none = np.zeros(len(stream))
        state |= tuples | {"ground": none.astype(np.int8), "price": none, "score": none, "marks": none.astype(np.int64)}
        if "sums" in state:
            state["sums"] = np.zeros((len(stream), 3), np.int64)
        if "band" in state:
            state["band"] = stream.astype(np.int64) * int(self.memory.patterns)  # nothing is known of their partners
        if "clue" in state:  # nothing is known of their keys
            counts, never = np.zeros((len(stream), len(seen))), np.full((len(stream), len(seen)), -1e18)
            came = seen.max() >> int(self.memory.shift) if len(stream) else 0
            state |= {
                "clue": np.hstack([counts, never]),
                "event": np.full(len(stream), float(came)),
                "step": np.zeros(len(stream), np.int32),
            }
        if self.facts is not None:
            state["values"] = np.asarray(other.values(), dtype=np.int64).reshape(len(stream), int(self.memory.width))
            state["counts"] = np.zeros((len(stream), len(seen)))
        elif self.memory.indexed and len(stream):
            values = tuples["key"][:, None] if self.problem.predicate.is_equality else other.values()
            self.width = values.shape[1]
            state |= {"values": as_bits(values), "count.whole": np.array(values.dtype.kind == "i")}
            if "counts" in state:
                state["counts"] = np.zeros((len(stream), len(seen)))
        state["lane.seen"] = seen
        state["lane.ceiling"] = np.array([expiry[stream == number].max(initial=-NEVER) for number in range(len(seen))])
        state |= {"count.now": seen.max(), "count.instant": totals.instant, "count.next_row": totals.next_row}
        size = max(64, len(stream))
        if self.facts is not None:
            state["ends"] = np.array(expiry)
        self.arrays, self.memory = from_columns(
            self.problem, self.ranking, self.bands, state, slots=size, groups=size, straggling=not ordered, width=self.width,
            facts=self.facts,
        )  # fmt: skip
        if self.facts is not None:
            self._count_again()
        elif self.memory.paired and not self.memory.growing:
            count_all(self.memory, slots_in_order(self.memory, self.arrays))
        self.arrays["lanes"]["arrivals"] = other.arrivals

    def merge(self, others: Sequence[Engine], chosen: Chosen, renumber: Renumber, *, next_row: int, counts: bool, statistics: bool) -> None:
        """Begin with the chosen tuples of other engines."""
        engines = [other for other in others if isinstance(other, RestorableArrays)]
        if self.memory.indexed:
            raise PenstockError("a state that ranks each tuple for itself, not by its key alone, cannot be divided; use a new checkpoint")
        if len(engines) < len(others):
            raise PenstockError("engines must be compiled to be merged; use a new checkpoint")
        shifts = self.statistics.merge([one.statistics.snapshot() for one in engines], renumber) if statistics else None
        parts = [as_columns(one.memory, one.arrays) for one in engines]
        mine = [chosen(of, part["key"]) for of, part in enumerate(parts)]
        kind, prices = self.ranking.kind, self.ranking.prices
        state = merged(as_columns(self.memory, self.arrays), parts, mine, renumber, shifts, kind=kind, prices=prices, counts=counts)
        state["count.next_row"] = np.array(next_row)
        self.origin, size = engines[0].origin, max(64, len(state["time"]))
        sizes = {"slots": size, "groups": size + len(state.get("gone.key", ()))}
        self.arrays, self.memory = from_columns(self.problem, self.ranking, self.bands, state, **sizes, straggling=True)

    def snapshot(self) -> bytes:
        """The state between two batches."""
        file = io.BytesIO()
        columns = as_columns(self.memory, self.arrays)
        if self.facts is not None:
            columns |= rate_columns(self.memory, self.arrays)
        state = {f"memory.{name}": array for name, array in columns.items()}
        state |= {f"statistics.{name}": np.asarray(array) for name, array in self.statistics.snapshot().items()}
        state["origin"] = np.array([NEVER if self.origin is None else self.origin])
        np.savez(file, **state)
        return file.getvalue()

    def restore(self, state: bytes, *, trust: bool = False) -> None:
        """Go on from a snapshot, which is data whether trusted or not."""
        try:
            with np.load(io.BytesIO(state), allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        except (EOFError, ValueError, OSError, zipfile.BadZipFile):
            raise PenstockError(f"state must be a snapshot of this engine, got {len(state)} bytes that are none") from None
        self.statistics.restore(_part(arrays, "statistics."))
        origin = int(arrays["origin"][0])
        self.origin = None if origin == NEVER else origin
        part = _part(arrays, "memory.")
        if not is_sound(part, self.problem.n_streams, len(self.problem.budget.caps), 0 if self.bands is None else len(self.bands.price)):
            raise PenstockError(f"state must be a snapshot of this engine, got {len(state)} bytes with numbers that cannot be in one")
        live = max(64, len(part["time"]))
        sizes = {"slots": live, "groups": live + len(part.get("gone.key", ())), "straggling": bool(part["straggling"])}
        self.width = part["values"].shape[1] if "values" in part else 1
        self.arrays, self.memory = from_columns(self.problem, self.ranking, self.bands, part, **sizes, width=self.width, facts=self.facts)
        if self.facts is not None:
            self._take_rates(part)

    def freeze(self) -> dict[str, Any]:
        """The state as it lies in memory: larger than a snapshot and bound to this version, but nothing has to be linked anew."""
        if self.facts is not None:  # what is known is not of the state, and lies in the same arrays
            return {"columns": self.snapshot()}
        record = {name: self.memory[name].item() for name in RECORD}
        return {"arrays": dict(self.arrays), "record": record, "origin": self.origin, "statistics": self.statistics.freeze()}

    def thaw(self, state: dict[str, Any]) -> None:
        """Go on from what `freeze` gave, in its arrays."""
        if "columns" in state:
            self.restore(state["columns"])
            return
        self.arrays = {name: state["arrays"][name].view(dtype) for name, dtype in ARRAYS.items()}
        self.memory = attach(self.arrays)
        for name, value in state["record"].items():
            self.memory[name] = value
        self.origin = state["origin"]
        self.width = int(self.memory.width) if self.memory.indexed else 1
        self.statistics.thaw(state["statistics"])


def _part(arrays: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
