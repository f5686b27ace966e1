"""What the tuples in memory are worth to their policy, in a unit that is the same in all engines of a join.

Within an engine the order of scores is enough. Between engines they must also have one unit: rates by `decayed` statistics grow with a
clock that starts with the first row of each engine, and are brought to what they weigh at a time that all engines know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from penstock.core.trace import Floats, Ints
from penstock.engine.contract import Engine
from penstock.engine.ranking_codes import FirstScore, Kind, Prices

if TYPE_CHECKING:  # so that what only imports this does not load the compiled engine
    from penstock.engine.compiled.engine import CompiledEngine

_MOST = 4096
"""Tuples that are looked at."""
_LOAD = "rows that would lie in the windows"
_LEFT = ", times the time that is left"
_PRICES = {
    Prices.TUPLES: "tuples with the key",
    Prices.OUTPUTS: "outputs of the key so far",
    Prices.PATTERNS: "outputs per tuple of an arrival pattern",
}


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


def unit_of(engine: Engine) -> str:
    """In what tuples are weighed, as text: engines of different joins can be compared where it is the same."""
    if not engine.is_compiled:
        return _LOAD
    engine = cast("CompiledEngine", engine)
    ranking, problem = engine.ranking, engine.problem
    if ranking.kind in (Kind.ARRIVAL, Kind.DRAW):
        return _LOAD
    if ranking.prices == Prices.CHANCES:
        return "outputs per tick" if problem.steady else f"value of outputs by {problem.objective.name} per tick"
    if ranking.kind == Kind.GAIN_LOSS:
        return "gains and losses of importance"
    if ranking.kind == Kind.SCORE_PLUS_PRICE:
        return f"importance, partners and age by the weights {', '.join(f'{weight:g}' for weight in problem.weights)}"
    if ranking.kind == Kind.SCORE_TIMES_PRICE or ranking.first_score == FirstScore.MATCHES:
        return f"importance times partners in memory of {problem.n_streams} streams"
    if ranking.kind == Kind.SCORE:
        return "importance"
    left = _LEFT if ranking.kind == Kind.LIFE else ""
    half_life = f"half-life of {engine.statistics.units()[1]:g} ticks"
    if ranking.prices == Prices.RATES:
        valued = "arrivals" if problem.steady else f"value by {problem.objective.name}"
        return f"{valued} of partners of {problem.n_streams} streams in a {half_life}{left}"
    if ranking.prices == Prices.TOTALS:
        return f"arrivals of the key in a {half_life}"
    return _PRICES.get(ranking.prices, f"partners in memory of {problem.n_streams} streams") + left


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
    if kind == Kind.GAIN_LOSS:
        from penstock.engine.dgl_columns import scores

        return scores(arrays, live) / memory.unit_score
    score = arrays["ranks"]["score"][live]
    if kind == Kind.SCORE_TIMES_PRICE:
        return np.asarray(score * price, np.float64)
    if kind == Kind.SCORE_PLUS_PRICE:  # its fixed part may count ages from the first row of the engine
        return np.asarray(score + memory.match_weight * price + engine.problem.weights[2] * (engine.origin or 0), np.float64)
    return np.asarray(score, np.float64)


def _unit(engine: CompiledEngine) -> float:
    """What a price is multiplied with to be one of now: rates grow by half-lives since an origin of the engine's own."""
    factors = {Prices.RATES: engine.problem.n_streams - 1, Prices.TOTALS: 1}.get(engine.ranking.prices, 0)  # rates that a price multiplies
    origin, half_life, moved = engine.statistics.units()
    if not factors or not half_life:
        return 1.0
    exponent = (int(engine.seen.max()) - origin) / half_life - moved
    return float(np.exp2(-exponent * factors))
