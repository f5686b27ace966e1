"""What the tuples in memory are worth to their policy, in a unit that is the same in all engines of a join.

Within an engine the order of scores is enough. Between engines they must also have one unit: rates by `decayed` statistics grow with a
clock that starts with the first row of each engine, and are brought to what they weigh at a time that all engines know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from penstock.core.trace import Floats, Ints
from penstock.engine.contract import Engine
from penstock.engine.ranking_codes import Kind, Prices

if TYPE_CHECKING:  # so that what only imports this does not load the compiled engine
    from penstock.engine.compiled.engine import CompiledEngine

_MOST = 4096
"""Tuples that are looked at."""


class Worths(NamedTuple):
    """Some tuples in memory: their pool, score and weight; each stands for as many others as there are of the rest."""

    pool: Ints
    score: Floats
    weight: Ints


def worths(engine: Engine) -> Worths | None:
    """What tuples are worth now, by a sample of at most some thousands; None where nobody can compare them between engines."""
    if not engine.is_compiled:
        return None
    from penstock.engine.compiled.memory import live_slots

    engine = cast("CompiledEngine", engine)
    if engine.ranking.kind in (Kind.ARRIVAL, Kind.DRAW):
        return None
    arrays = engine.arrays
    live = live_slots(engine.memory)
    live = live[:: -(-len(live) // _MOST)] if len(live) > _MOST else live
    slots = arrays["slots"][live]
    weight = arrays["weights"][live] if engine.memory.weighted else np.ones(len(live), np.int64)
    return Worths(engine.problem.budget.pool[slots["stream"]], _scores(engine, live) * _unit(engine), weight)


def _scores(engine: CompiledEngine, live: Ints) -> Floats:
    """The scores of these slots, higher is worth more (compiled/ranking.py)."""
    memory, arrays, kind = engine.memory, engine.arrays, engine.ranking.kind
    slots, lanes = arrays["slots"][live], arrays["lanes"]
    if engine.ranking.prices == Prices.PATTERNS:
        bands = arrays["bands"][arrays["ladder"]["band"][live]]
        done = arrays["ladder"]["band"][live] & (memory.patterns - 1) == memory.patterns - 1
        done = done | (slots["ground"] != 0) if memory.finishes else done
        return np.where(done, 0.0, bands["made"] / np.maximum(bands["seen"], 1))
    price = arrays["bands"]["price"][arrays["ladder"]["band"][live]] if memory.banded else arrays["groups"]["price"][slots["group"]]
    if kind in (Kind.PRICE, Kind.STAY):  # elife: a slot that is freed is rented again, at the same price per tick
        return np.asarray(price, np.float64)
    if kind == Kind.LIFE:
        return np.asarray(price * np.maximum(0, slots["expiry"] - lanes["clock"][slots["stream"]]), np.float64)
    score = arrays["ranks"]["score"][live]
    if kind == Kind.SCORE_TIMES_PRICE:
        return np.asarray(score * price, np.float64)
    if kind == Kind.SCORE_PLUS_PRICE:  # its fixed part may count ages from the first row of the engine
        return np.asarray(score + memory.match_weight * price + engine.problem.weights[2] * (engine.origin or 0), np.float64)
    if kind == Kind.GAIN_LOSS:
        return np.where(slots["ground"] != 0, 0.0, score - lanes["offset"][slots["stream"]])
    return np.asarray(score, np.float64)


def _unit(engine: CompiledEngine) -> float:
    """What a price is multiplied with to be one of now: rates grow by half-lives since an origin of the engine's own."""
    factors = {Prices.RATES: engine.problem.n_streams - 1, Prices.TOTALS: 1}.get(engine.ranking.prices, 0)  # rates that a price multiplies
    origin, half_life, moved = engine.statistics.units()
    if not factors or not half_life:
        return 1.0
    exponent = (int(engine.seen.max()) - origin) / half_life - moved
    return float(np.exp2(-exponent * factors))
