"""What an engine holds as plain columns, independent of how it is linked: for larger arrays, snapshots, another budget, several as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.core.problem import Problem
from penstock.core.trace import Bools, Ints
from penstock.engine.chance_steps import TIMERS
from penstock.engine.compiled.chances import enqueue_all
from penstock.engine.compiled.facts.known_facts import enchain_all, tuple_columns
from penstock.engine.compiled.key_clocks import expiries_of
from penstock.engine.compiled.layers.allocate import allocate
from penstock.engine.compiled.linked.links import enlist_all
from penstock.engine.compiled.memory import live_slots, recall, relink
from penstock.engine.compiled.moves import regroup
from penstock.engine.compiled.state import COUNTS, SUMS, Memory
from penstock.engine.contract import Bands, Ranking, Renumber
from penstock.engine.dgl_columns import are_sound, begun_again, kept_scores, of_earlier, take_scores, without_loss
from penstock.engine.ranking_codes import Kind, Prices

BY_KEY = 2
"""Of `Memory.indexed`: what is compared are keys."""
_SLOT = ("time", "row", "expiry", "stream", "ground")
_RANK = ("importance", "score")
_SLOT_ARRAYS = ("marks", "weights", "met")
_BAND = ("price", "made", "seen")
_WAIT = ("event", "step")
_LANE = ("seen", "arrivals", "clock", "ceiling", "drawable")
_MASS = ("mass", "factor")
_BY_POOL = {"pools": "pools", "tolls": "slot_prices"}
"""In snapshots, which keep the names that they began with, and in memory."""


def slots_in_order(memory: Memory, arrays: dict[str, Any]) -> Ints:
    """The slots of the live tuples, in the order of their columns."""
    live = live_slots(memory)
    age = arrays["marks"][live] if memory.kind == Kind.ARRIVAL else np.zeros(len(live), np.int64)
    return live[np.lexsort((arrays["slots"]["row"][live], age))]


def as_columns(memory: Memory, arrays: dict[str, Any]) -> dict[str, Any]:
    """The live tuples as columns in order of arrival, and the counts; independent of how they are linked."""
    live = slots_in_order(memory, arrays)
    group = arrays["slots"]["group"][live]
    state: dict[str, Any] = {name: arrays["slots"][name][live] for name in _SLOT}
    state["expiry"] = expiries_of(arrays, live)  # so that the clocks of classes may begin anew
    if len(arrays["ranks"]) == len(arrays["slots"]):
        state |= {name: arrays["ranks"][name][live] for name in _RANK}
    if memory.kind == Kind.GAIN_LOSS:
        state |= kept_scores(arrays, live)
    for name in _SLOT_ARRAYS:
        if len(arrays[name]) == len(arrays["slots"]):
            state[name] = arrays[name][live]
    state["key"] = arrays["groups"]["key"][group]
    if memory.related:
        state |= tuple_columns(memory, arrays, live)
    elif memory.indexed:
        state["values"] = arrays["values"].reshape(-1, int(memory.width))[live]
        if memory.indexed == BY_KEY:
            state["key"] = state["values"][:, 0].copy()
    if memory.indexed and len(arrays["counts"]) > 1:
        state["counts"] = arrays["counts"].reshape(-1, int(memory.streams))[live]
    state["price"] = arrays["bands"]["price"][arrays["ladder"]["band"][live]] if memory.banded else arrays["groups"]["price"][group]
    if memory.prices == Prices.PATTERNS:
        state |= {"band": arrays["ladder"]["band"][live]} | {f"band.{name}": arrays["bands"][name].copy() for name in _BAND}
    if memory.prices == Prices.CHANCES:
        state["clue"] = arrays["clues"].reshape(len(arrays["groups"]), -1)[group]
        state |= {name: arrays["waits"][name][group] for name in _WAIT} | {"chances": arrays["chances"].copy()}
    if memory.lasting:
        gone = arrays["groups"][_outlasting(arrays["groups"])]
        state |= {"gone.key": gone["key"].copy(), "gone.price": gone["price"].copy()}
    state |= {f"lane.{name}": arrays["lanes"][name].copy() for name in (*_LANE, *(_MASS if memory.massed else ()))}
    state |= {f"count.{name}": np.array(memory[name]) for name in COUNTS + SUMS}
    state |= {name: arrays[own].copy() for name, own in _BY_POOL.items()}
    return state | {"straggling": np.array(memory.straggling)}


def from_columns(
    problem: Problem, ranking: Ranking, bands: Bands | None, state: dict[str, Any], **sizes: Any
) -> tuple[dict[str, Any], Memory]:
    """Memory with these tuples linked anew."""
    facts = sizes.get("facts")
    if facts is not None:
        cell = facts.cells_by_link(state["values"])
        facts.clear()
    arrays, memory = allocate(problem, ranking, bands, **sizes)
    if memory.kind == Kind.GAIN_LOSS:
        state = of_earlier(state, float(memory.unit_score))
    key = np.where(state["key"] < 0, -1 - state["row"], state["row"]) if memory.indexed else state["key"]
    where = relink(memory, state["stream"], key, *(state[name] for name in ("time", "row", "expiry")))
    if facts is not None:
        arrays["ends"][where] = state["ends"]
        enchain_all(memory, where, cell)
    elif memory.indexed:
        memory.whole = int(state["count.whole"])
        arrays["values"].reshape(-1, int(memory.width))[where] = state["values"] if len(where) else 0
        enlist_all(memory, where)
    if "counts" in state and len(arrays["counts"]) > 1:
        arrays["counts"].reshape(-1, int(memory.streams))[where] = state["counts"]
    if memory.lasting and "gone.key" in state:
        recall(memory, state["gone.key"], state["gone.price"])
    arrays["slots"]["ground"][where] = state["ground"]
    for name in _RANK:
        if name in state and len(arrays["ranks"]) == len(arrays["slots"]):
            arrays["ranks"][name][where] = state[name]
    if memory.kind == Kind.GAIN_LOSS:
        take_scores(arrays, where, state)
    for name in _SLOT_ARRAYS:
        if name in state and len(arrays[name]) == len(arrays["slots"]):
            arrays[name][where] = state[name]
    arrays["groups"]["price"][arrays["slots"]["group"][where]] = state["price"]
    if "band" in state:
        arrays["ladder"]["band"][where] = state["band"]
        for name in _BAND:
            arrays["bands"][name] = state[f"band.{name}"]
    elif bands is not None and memory.banded:
        arrays["ladder"]["band"][where] = bands.priced(state["stream"], state["price"])
    for name in (*_LANE, *(_MASS if memory.massed else ())):
        arrays["lanes"][name] = state[f"lane.{name}"]
    for name in COUNTS + SUMS:
        if f"count.{name}" in state:  # those of earlier releases have fewer
            memory[name] = state[f"count.{name}"]
    if facts is not None:
        memory.ended = np.searchsorted(arrays["endings"]["end"][: facts.endings], memory.settled, side="right")
    if "clue" in state:
        _let_wait(memory, arrays, arrays["slots"]["group"][where], state)
    if len(state["pools"]) == len(arrays["pools"]):
        for name, own in _BY_POOL.items():
            arrays[own][:] = state[name]
    else:  # the budget has been divided anew
        weight = state["weights"] if memory.weighted else np.ones(len(where), dtype=np.int64)
        np.add.at(arrays["pools"], problem.budget.pool[state["stream"]], weight)
    if "band" in state:  # each chain in its order, so that nobody has far to go
        where = where[np.lexsort((state["row"], state["time"], arrays["marks"][where]))]
    regroup(memory, where)
    return arrays, memory


def _outlasting(groups: Any) -> Bools:
    """The classes that have no tuple, nor has any other of their key: they keep what it has made."""
    held = np.unique(groups["key"][groups["members"] > 0])
    return (groups["members"] == 0) & (groups["kin"] >= 0) & ~np.isin(groups["key"], held)


def _let_wait(memory: Memory, arrays: dict[str, Any], group: Ints, state: dict[str, Any]) -> None:
    """Give classes what is known of their keys, and let them wait as they did."""
    arrays["chances"][:] = state["chances"]
    arrays["clues"].reshape(len(arrays["groups"]), -1)[group] = state["clue"]
    arrays["waits"]["event"][group] = state["event"]
    found, first = np.unique(group, return_index=True)
    first = first[np.lexsort((found, state["event"][first]))]
    enqueue_all(memory, group[first].astype(np.int64), state["step"][first].astype(np.int64))


def is_sound(state: dict[str, Any], streams: int, steps: int, bands: int) -> bool:
    """Whether columns can be those of tuples: compiled code takes their numbers for places in arrays, and does not look."""
    size = len(state["row"])
    by_tuple = [name for name in (*_SLOT, *_RANK, *_SLOT_ARRAYS, "key", "price", "band") if name in state]
    if any(state[name].shape != (size,) for name in by_tuple) or any(state[f"lane.{name}"].shape != (streams,) for name in _LANE):
        return False
    if not are_sound(state, size, streams):
        return False
    within = {"stream": streams, "band": bands}
    placed = all(((state[name] >= 0) & (state[name] < most)).all() for name, most in within.items() if name in state)
    if "clue" in state:
        steps_fit = state["step"].shape == (size,) and ((state["step"] >= -1) & (state["step"] < TIMERS)).all()
        placed = placed and bool(steps_fit) and state["event"].shape == (size,) and state["clue"].shape == (size, 2 * streams)
    if "ends" in state:
        placed = placed and state["ends"].shape == (size,)
    for name in ("values", "counts"):
        if name in state:
            placed = placed and state[name].ndim == 2 and len(state[name]) == size
    if "gone.key" in state:
        placed = placed and state["gone.key"].ndim == 1 and state["gone.key"].shape == state["gone.price"].shape
    return placed and 0 <= int(state["count.budget_step"]) < steps


# Several engines as one, or as a part of them: their tuples by key, their counts, and what they have learned.

_TUPLE = (
    "time", "row", "expiry", "stream", "ground", "importance", "score", "sums", "marks", "weights", "met", "key", "price", "band",
    "clue", "event", "step",
)  # fmt: skip
_SUMMED = (
    "n_input",
    "n_output",
    "n_shed",
    "n_expired",
    "n_late",
    "n_done",
    "steps",
    "gains",
    "attempts",
    "made",
    "value",
    "importance_seen",
    "importance_rest",
)
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
            column = part[name][here] if name in part else np.zeros((np.count_nonzero(here), *out[name].shape[1:]), out[name].dtype)
            if name == "key":
                column = renumber(of, column)
            elif name == "price" and shifts is not None:
                column = column * 2.0 ** (shifts[of] * partners)
            elif name == "sums":
                column = without_loss(column, part["ground"][here], part["lost"][part["stream"][here]])
            found[name].append(column)
    tuples = {name: np.concatenate(each) for name, each in found.items()}
    order = np.argsort(tuples["row"])
    out |= {name: column[order] for name, column in tuples.items()}
    out |= _marks(out, kind)
    for name in ("seen", "arrivals", "clock", "ceiling"):
        out[f"lane.{name}"] = np.stack([part[f"lane.{name}"] for part in parts]).max(axis=0)
    if "lost" in out:
        out |= begun_again(out)
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
    if "gone.key" in out:  # of keys that nobody holds: whoever gets them next knows what they have made
        gone = [(renumber(of, part["gone.key"]), part["gone.price"]) for of, part in enumerate(parts) if "gone.key" in part]
        key, price = (np.concatenate([out[name], *(one[at] for one in gone)]) for at, name in enumerate(("gone.key", "gone.price")))
        key, first = np.unique(key, return_index=True)
        absent = ~np.isin(key, out["key"])
        out |= {"gone.key": key[absent], "gone.price": price[first][absent]}
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
