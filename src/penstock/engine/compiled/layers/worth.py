"""What the tuples in memory of a compiled engine are worth to their policy, in a unit that is the same in all engines of a join.

Within an engine the order of scores is enough. Between engines they must also have one unit: rates by `decayed` statistics grow with a
clock that starts with the first row of each engine, and are brought to what they weigh at a time that all engines know.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from penstock.core.problem import Problem
from penstock.core.trace import Floats, Ints
from penstock.engine.contract import LOAD, Ranking, Statistics, Worths
from penstock.engine.ranking_codes import FirstScore, Kind, Prices

_MOST = 4096
"""Tuples that are looked at."""
_LEFT = ", times the time that is left"
_PRICES = {
    Prices.TUPLES: "tuples with the key",
    Prices.OUTPUTS: "outputs of the key so far",
    Prices.PATTERNS: "outputs per tuple of an arrival pattern",
}


class Weighed(Protocol):
    """What is asked of a compiled engine."""

    problem: Problem
    ranking: Ranking
    statistics: Statistics
    arrays: dict[str, Any]
    memory: Any
    origin: int | None

    @property
    def seen(self) -> Ints:
        """The largest time of each stream."""


def worths(engine: Weighed, live: Ints) -> Worths | None:
    """`Engine.worths` of a compiled engine with tuples in these slots."""
    if engine.ranking.kind in (Kind.ARRIVAL, Kind.DRAW):
        return None
    arrays = engine.arrays
    live = live[:: -(-len(live) // _MOST)] if len(live) > _MOST else live
    slots = arrays["slots"][live]
    weight = arrays["weights"][live] if engine.memory.weighted else np.ones(len(live), np.int64)
    return Worths(engine.problem.budget.pool[slots["stream"]], _scores(engine, live) * _unit(engine), weight)


def unit_of(engine: Weighed) -> str:
    """`Engine.worth_unit` of a compiled engine."""
    ranking, problem = engine.ranking, engine.problem
    if ranking.kind in (Kind.ARRIVAL, Kind.DRAW):
        return LOAD
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


def _scores(engine: Weighed, live: Ints) -> Floats:
    """The scores of these slots, higher is worth more (order/ranking.py)."""
    memory, arrays, kind = engine.memory, engine.arrays, engine.ranking.kind
    slots, lanes = arrays["slots"][live], arrays["lanes"]
    if engine.ranking.prices == Prices.PATTERNS:
        bands = arrays["bands"][arrays["ladder"]["band"][live]]
        done = arrays["ladder"]["band"][live] & (memory.patterns - 1) == memory.patterns - 1
        done = done | (slots["ground"] != 0) if memory.finishes else done
        return np.where(done, 0.0, bands["made"] / np.maximum(bands["seen"], 1))
    price = arrays["bands"]["price"][arrays["ladder"]["band"][live]] if memory.banded else arrays["groups"]["price"][slots["group"]]
    if memory.massed:
        price = price * lanes["factor"][slots["stream"]]
    if kind in (Kind.PRICE, Kind.STAY):  # elife: a slot that is freed is rented again, at the same price per tick
        return np.asarray(price, np.float64)
    if kind == Kind.LIFE:
        from penstock.engine.compiled.key_clocks import expiries_of

        return np.asarray(price * np.maximum(0, expiries_of(arrays, live) - lanes["clock"][slots["stream"]]), np.float64)
    if kind == Kind.GAIN_LOSS:
        from penstock.engine.dgl_columns import scores

        return scores(arrays, live) / memory.unit_score
    score = arrays["ranks"]["score"][live]
    if kind == Kind.SCORE_TIMES_PRICE:
        return np.asarray(score * price, np.float64)
    if kind == Kind.SCORE_PLUS_PRICE:  # its fixed part may count ages from the first row of the engine
        return np.asarray(score + memory.match_weight * price + engine.problem.weights[2] * (engine.origin or 0), np.float64)
    return np.asarray(score, np.float64)


def _unit(engine: Weighed) -> float:
    """What a price is multiplied with to be one of now: rates grow by half-lives since an origin of the engine's own."""
    factors = {Prices.RATES: engine.problem.n_streams - 1, Prices.TOTALS: 1}.get(engine.ranking.prices, 0)  # rates that a price multiplies
    origin, half_life, moved = engine.statistics.units()
    if not factors or not half_life:
        return 1.0
    exponent = (int(engine.seen.max()) - origin) / half_life - moved
    return float(np.exp2(-exponent * factors))
