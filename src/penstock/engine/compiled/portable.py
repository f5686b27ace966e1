"""What an engine holds as plain columns, independent of how it is linked: for larger arrays, for snapshots, for another budget."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.core.problem import Problem
from penstock.engine.compiled.allocate import allocate
from penstock.engine.compiled.memory import live_slots, relink
from penstock.engine.compiled.moves import regroup
from penstock.engine.compiled.state import COUNTS, SUMS, Memory
from penstock.engine.contract import Bands, Ranking
from penstock.engine.ranking_codes import Kind, Prices

_SLOT = ("time", "row", "expiry", "stream", "ground")
_RANK = ("importance", "score")
_SLOT_ARRAYS = ("marks", "weights")
_BAND = ("price", "made", "seen")
_LANE = ("seen", "arrivals", "clock", "ceiling", "drawable", "offset")


def as_columns(memory: Memory, arrays: dict[str, Any]) -> dict[str, Any]:
    """The live tuples as columns in order of arrival, and the counts; independent of how they are linked."""
    live = live_slots(memory)
    age = arrays["marks"][live] if memory.kind == Kind.ARRIVAL else np.zeros(len(live), np.int64)
    live = live[np.lexsort((arrays["slots"]["row"][live], age))]
    group = arrays["slots"]["group"][live]
    state: dict[str, Any] = {name: arrays["slots"][name][live] for name in _SLOT}
    if len(arrays["ranks"]) == len(arrays["slots"]):
        state |= {name: arrays["ranks"][name][live] for name in _RANK}
    for name in _SLOT_ARRAYS:
        if len(arrays[name]) == len(arrays["slots"]):
            state[name] = arrays[name][live]
    state["key"] = arrays["groups"]["key"][group]
    state["price"] = arrays["bands"]["price"][arrays["ladder"]["band"][live]] if memory.banded else arrays["groups"]["price"][group]
    if memory.prices == Prices.PATTERNS:
        state |= {"band": arrays["ladder"]["band"][live]} | {f"band.{name}": arrays["bands"][name].copy() for name in _BAND}
    state |= {f"lane.{name}": arrays["lanes"][name].copy() for name in _LANE}
    state |= {f"count.{name}": np.array(memory[name]) for name in COUNTS + SUMS}
    return state | {name: arrays[name].copy() for name in ("pools", "tolls")} | {"straggling": np.array(memory.straggling)}


def from_columns(
    problem: Problem, ranking: Ranking, bands: Bands | None, state: dict[str, Any], **sizes: Any
) -> tuple[dict[str, Any], Memory]:
    """Memory with these tuples linked anew."""
    arrays, memory = allocate(problem, ranking, bands, **sizes)
    where = relink(memory, *(state[name] for name in ("stream", "key", "time", "row", "expiry")))
    arrays["slots"]["ground"][where] = state["ground"]
    for name in _RANK:
        if name in state and len(arrays["ranks"]) == len(arrays["slots"]):
            arrays["ranks"][name][where] = state[name]
    for name in _SLOT_ARRAYS:
        if name in state:
            arrays[name][where] = state[name]
    arrays["groups"]["price"][arrays["slots"]["group"][where]] = state["price"]
    if "band" in state:
        arrays["ladder"]["band"][where] = state["band"]
        for name in _BAND:
            arrays["bands"][name] = state[f"band.{name}"]
    elif bands is not None and memory.banded:
        arrays["ladder"]["band"][where] = bands.priced(state["stream"], state["price"])
    for name in _LANE:
        arrays["lanes"][name] = state[f"lane.{name}"]
    for name in COUNTS + SUMS:
        memory[name] = state[f"count.{name}"]
    if len(state["pools"]) == len(arrays["pools"]):
        for name in ("pools", "tolls"):
            arrays[name][:] = state[name]
    else:  # the budget has been divided anew
        weight = state["weights"] if memory.weighted else np.ones(len(where), dtype=np.int64)
        np.add.at(arrays["pools"], problem.budget.pool[state["stream"]], weight)
    regroup(memory, where)
    return arrays, memory


def is_sound(state: dict[str, Any], streams: int, steps: int, bands: int) -> bool:
    """Whether columns can be those of tuples: compiled code takes their numbers for places in arrays, and does not look."""
    size = len(state["row"])
    by_tuple = [name for name in (*_SLOT, *_RANK, *_SLOT_ARRAYS, "key", "price", "band") if name in state]
    if any(state[name].shape != (size,) for name in by_tuple) or any(state[f"lane.{name}"].shape != (streams,) for name in _LANE):
        return False
    within = {"stream": streams, "band": bands}
    placed = all(((state[name] >= 0) & (state[name] < most)).all() for name, most in within.items() if name in state)
    return placed and 0 <= int(state["count.budget_step"]) < steps
