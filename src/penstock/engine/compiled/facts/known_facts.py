"""What an engine holds of a join through relations, as columns and back: the values of its tuples, and the rates of values."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.core.compiled import routine
from penstock.core.rounding import FORGOTTEN, aged
from penstock.core.trace import Floats, Ints
from penstock.engine.compiled.facts.chains import enchain
from penstock.engine.compiled.facts.compiled_facts import CompiledFacts
from penstock.engine.compiled.facts.past_by_importance import remember
from penstock.engine.compiled.state import Memory, groups, slots
from penstock.engine.fact_arrays import GROWS


def tuple_columns(memory: Memory, arrays: dict[str, Any], live: Ints) -> dict[str, Any]:
    """Of tuples in these slots: their values by link, -1 where they have none, when they leave, and when their windows end."""
    values = np.full((len(live), int(memory.width)), -1, dtype=np.int64)
    cell = arrays["strands"]["cell"].reshape(-1, int(memory.most_links))[live]
    stream = arrays["slots"]["stream"][live]
    for link, tie in enumerate(arrays["ties"]):
        mine = np.flatnonzero(stream == tie["stream"])
        own = cell[mine, tie["rank"]]
        values[mine, link] = np.where(own < 0, -1, arrays["cells"]["name"][np.maximum(own, 0)] // int(memory.width))
    return {"values": values, "expiry": arrays["slots"]["expiry"][live], "ends": arrays["ends"][live]}


def rate_columns(memory: Memory, arrays: dict[str, Any]) -> dict[str, Any]:
    """The rates of values; where they are kept by importance, these."""
    if memory.growing != GROWS:
        return {}
    cells, last_past, past = arrays["cells"], arrays["last_past"], arrays["past"]
    if not memory.worthy:
        rated = np.flatnonzero(cells["rate"] > 0)
        return {"rate.name": cells["name"][rated], "rate.importance": np.ones(len(rated)), "rate.weight": cells["rate"][rated]}
    cell = np.zeros(int(memory.n_past), np.int64)
    at, held = last_past.copy(), np.arange(len(last_past))
    while len(held := held[at[held] >= 0]):
        cell[at[held]] = held
        at[held] = past["next"][at[held]]
    used = past[: len(cell)]
    return {"rate.name": cells["name"][cell], "rate.importance": used["importance"].copy(), "rate.weight": used["weight"].copy()}


def take_rates(memory: Memory, arrays: dict[str, Any], index: CompiledFacts, state: dict[str, Any]) -> None:
    """Begin with these rates; all values have cells."""
    names = state["rate.name"]
    cell = index.cells_of(names)
    if memory.worthy:
        index.remember_by_importance(2 * len(names))
    index.share(memory, arrays)  # there may be more room than there was
    if memory.worthy:
        memory.n_past = 0
        remember_all(memory, cell, state["rate.importance"], state["rate.weight"])
    else:
        arrays["cells"]["rate"][cell] = state["rate.weight"]


def fade(memory: Memory, arrays: dict[str, Any], index: CompiledFacts, steps: int) -> None:
    """Rates are so many half-lives older; what has become light is forgotten."""
    arrays["lanes"]["mass"] = aged(arrays["lanes"]["mass"], steps, FORGOTTEN)
    if not memory.worthy:
        arrays["cells"]["rate"] = aged(arrays["cells"]["rate"], steps, FORGOTTEN)
        return
    rates = rate_columns(memory, arrays)
    weight = aged(rates["rate.weight"], steps, FORGOTTEN)
    kept = weight > 0
    left = {name: column[kept] for name, column in (rates | {"rate.weight": weight}).items()}
    take_rates(memory, arrays, index, left)


@routine
def remember_all(memory: Memory, cell: Ints, importance: Floats, weight: Floats) -> None:
    """Remember past arrivals, weighed."""
    for number in range(len(cell)):
        remember(memory, cell[number], importance[number], weight[number])


@routine
def enchain_all(memory: Memory, chosen: Ints, cell: Ints) -> None:
    """Put tuples that were linked anew into their chains; `cell` has a line for each."""
    for number in range(len(chosen)):
        slot = chosen[number]
        enchain(memory, slot, cell[number], groups(memory)[slots(memory)[slot].group].key >= 0)
