"""Several compiled engines as one, or as a part of them: their tuples by key, their counts, and what they have learned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.core.trace import Bools, Ints
from penstock.engine.contract import Renumber
from penstock.engine.ranking_codes import Kind, Prices

_TUPLE = ("time", "row", "expiry", "stream", "ground", "importance", "score", "marks", "weights", "key", "price", "band")
_SUMMED = ("n_input", "n_output", "n_shed", "n_expired", "n_late", "steps", "gains", "attempts", "made", "value", "importance_seen")
_LARGEST = ("now", "instant", "next_row", "peak")
_CLOCK = ("origin", "moved", "dawn", "half_life")


def merged(
    own: dict[str, Any], parts: Sequence[dict[str, Any]], chosen: Sequence[Bools], renumber: Renumber, shifts: Sequence[float] | None,
    *, kind: Kind, prices: Prices, counts: bool,
) -> dict[str, Any]:  # fmt: skip
    """The columns (portable.py) of an engine that had `own`, with the chosen tuples of others.

    `shifts`: by how many half-lives their rates are behind the latest; None where there are no rates. Counts are summed up where they are
    wanted, else left at nothing.
    """
    out = dict(own)
    columns = [name for name in _TUPLE if name in out]
    found: dict[str, list[Any]] = {name: [] for name in columns}
    partners = 1 if prices == Prices.TOTALS else len(own["lane.seen"]) - 1
    for of, (part, here) in enumerate(zip(parts, chosen, strict=True)):
        for name in columns:
            column = part[name][here] if name in part else np.zeros(np.count_nonzero(here), out[name].dtype)
            if name == "key":
                column = renumber(of, column)
            elif name == "price" and shifts is not None:
                column = column * 2.0 ** (shifts[of] * partners)
            elif name == "score":
                column = column - part["lane.offset"][part["stream"][here]]
            found[name].append(column)
    tuples = {name: np.concatenate(each) for name, each in found.items()}
    order = np.argsort(tuples["row"])
    out |= {name: column[order] for name, column in tuples.items()}
    out |= _marks(out, kind)
    for name in ("seen", "arrivals", "clock", "ceiling"):
        out[f"lane.{name}"] = np.stack([part[f"lane.{name}"] for part in parts]).max(axis=0)
    out["lane.offset"] = np.zeros_like(out["lane.offset"])
    for name in _LARGEST:
        out[f"count.{name}"] = np.array(max(int(part[f"count.{name}"]) for part in parts))
    for name in _SUMMED:
        total = sum(part[f"count.{name}"] for part in parts) if counts else 0
        out[f"count.{name}"] = np.asarray(total, dtype=out[f"count.{name}"].dtype)
    if shifts is not None:
        latest = parts[int(np.argmax(shifts))]
        out |= {f"count.{name}": latest[f"count.{name}"] for name in _CLOCK}
    if "band" in out:  # what all have learned of existence patterns
        made, seen = (np.sum([part[f"band.{name}"] for part in parts], axis=0) for name in ("made", "seen"))
        done = out["band.price"] < 0
        out |= {"band.made": made, "band.seen": seen, "band.price": np.where(done, -1.0, made / np.maximum(seen, 1))}
    # Pools are counted again, and the chains of several engines do not follow each other.
    return out | {"pools": np.empty(0, np.int64), "straggling": np.array(True)}


def _marks(state: dict[str, Any], kind: Kind) -> dict[str, Any]:
    """What fifo and rand remember of a tuple: its age, older than all that comes; or its place among those to draw from."""
    stream, time = state["stream"], state["time"]
    if kind == Kind.ARRIVAL:
        return {"marks": np.argsort(np.argsort(time, kind="stable")) - len(time)}
    if kind == Kind.DRAW:
        drawable = np.bincount(stream, minlength=len(state["lane.seen"]))
        marks: Ints = np.empty(len(time), dtype=np.int64)
        for number in range(len(drawable)):
            marks[stream == number] = np.arange(drawable[number])
        return {"marks": marks, "lane.drawable": drawable}
    return {}
