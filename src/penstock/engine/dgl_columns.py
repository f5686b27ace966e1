"""`dgl`: the scores of tuples as columns (compiled/layers/portable.py), in whole units and their parts (units.py)."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.core.trace import Floats, Ints
from penstock.engine.gain_loss import UNIT, in_units
from penstock.engine.units import as_number, parts_of, taken

_LOST = ("lost_high", "lost_mid", "lost_low")


def kept_scores(arrays: dict[str, Any], live: Ints) -> dict[str, Any]:
    """The sums of these slots, and what each stream has lost."""
    return {"sums": _as_parts(arrays["sums"])[live], "lost": np.stack([arrays["lanes"][name] for name in _LOST], axis=1)}


def take_scores(arrays: dict[str, Any], where: Ints, state: dict[str, Any]) -> None:
    """Give these slots, and the streams, what `kept_scores` found."""
    _as_parts(arrays["sums"])[where] = state["sums"]
    for part, name in enumerate(_LOST):
        arrays["lanes"][name] = state["lost"][:, part]


def scores(arrays: dict[str, Any], live: Ints) -> Floats:
    """The scores of these slots as floats, times the unit score."""
    kept, slots = kept_scores(arrays, live), arrays["slots"][live]
    parts = without_loss(kept["sums"], slots["ground"], kept["lost"][slots["stream"]]).T
    return np.asarray(as_number(parts) + parts[2] * 2.0**-UNIT, np.float64)


def without_loss(sums: Ints, ground: Ints, lost: Ints) -> Ints:
    """The scores themselves, of sums with what their streams have lost; a sum at the floor is 0."""
    return np.stack(taken(sums.T, np.where(ground != 0, 0, lost.T)), axis=1)


def begun_again(state: dict[str, Any]) -> dict[str, Any]:
    """Columns whose sums are scores: nobody has lost anything yet."""
    return {"score": as_number(state["sums"].T), "lost": np.zeros_like(state["lost"])}


def of_earlier(state: dict[str, Any], unit_score: float) -> dict[str, Any]:
    """The columns of a snapshot of an earlier version, which has sums and losses as floats, with what they are in units."""
    if "sums" in state:
        return state
    lost = state.get("lane.offset", np.zeros(len(state["lane.seen"])))
    score = np.fmax(0.0, np.where(state["ground"] != 0, 0.0, state["score"] - lost[state["stream"]]))
    sums = np.array([parts_of(in_units(one)) for one in (score * unit_score).tolist()], dtype=np.int64).reshape(-1, 3)
    state = state | {"sums": sums, "lost": np.zeros((len(lost), 3), np.int64)}
    return state | begun_again(state)


def are_sound(state: dict[str, Any], size: int, streams: int) -> bool:
    """Whether such columns, if there are any, have the shape that they must have."""
    shapes = {"sums": (size, 3), "lost": (streams, 3), "lane.offset": (streams,)}
    return ("sums" in state) == ("lost" in state) and all(state[name].shape == shape for name, shape in shapes.items() if name in state)


def _as_parts(sums: Any) -> Ints:
    parts: Ints = sums.view(np.int64).reshape(-1, 3)
    return parts
