"""When to reorder a running join: when what is observed has drifted from what the plan was made for (Golab 5.4, "fluctuating rates").

Differs from the paper: selectivities are watched as well as rates, and an order that is still good enough is kept, so that noise does not
make a join change back and forth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.core.errors import PenstockError, choose
from penstock.multiway.cost import CostModel, Setting
from penstock.multiway.join_plan import JoinPlan
from penstock.multiway.matching import Matching, Selectivities
from penstock.multiway.order import plan_of

_STILL = 1e-9  # tuples per tick


@dataclass(frozen=True)
class Reorder:
    """Looks at a plan and at what is observed, and says by which plan to go on; it keeps nothing itself.

    >>> from penstock.multiway.order import order_joins
    >>> from penstock.multiway.stats import WindowStats
    >>> plan = order_joins([WindowStats("R", 1, 100, 50), WindowStats("S", 2, 100, 50), WindowStats("T", 4, 100, 50)])
    >>> watch = Reorder(threshold=0.2)
    >>> watch.review(plan, {"R": 1.1, "S": 2, "T": 4}) is plan
    True
    >>> faster = watch.review(plan, {"R": 9, "S": 2, "T": 4})
    >>> plan.order, faster.order
    (('R', 'S', 'T'), ('S', 'T', 'R'))
    """

    threshold: float = 0.2
    """How far, as a share of what was assumed, a rate or selectivity may move before anything is done."""
    gain: float = 0.05
    """How much cheaper, as a share, a new order must be than the present one."""

    def __post_init__(self) -> None:
        for name in ("threshold", "gain"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
                raise PenstockError(f"{name} must be a share from 0, such as 0.2, got {value!r}")

    def drifted(self, plan: JoinPlan, rates: Mapping[str, float], selectivity: Selectivities | None = None) -> tuple[str, ...]:
        """The streams and pairs that have moved past the threshold."""
        setting = plan.setting
        moved = [one.name for one in setting.streams if _apart(one.rate, rates.get(one.name, one.rate)) > self.threshold]
        if selectivity:
            Matching(setting.streams, setting.graph, selectivity)  # refuses pairs that are not linked
            assumed = Matching(setting.streams, setting.graph, setting.observed).pairs()
            for (one, other), share in selectivity.items():
                known = assumed[(one, other) if (one, other) in assumed else (other, one)]
                if _apart(known, share) > self.threshold:
                    moved.append(f"{one}, {other}")
        return tuple(moved)

    def review(self, plan: JoinPlan, rates: Mapping[str, float], selectivity: Selectivities | None = None) -> JoinPlan:
        """The plan itself where nothing has drifted; else a plan for what is observed, with new orders only if they gain enough."""
        for name, rate in rates.items():
            choose("stream of an observed rate", name, plan.setting.names)
            if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate < float("inf"):
                raise PenstockError(f"observed rate of {name} must be a number from 0, got {rate!r}")
        now = observed_setting(plan.setting, rates, selectivity)
        if not self.drifted(plan, rates, selectivity):
            return plan
        found = plan_of(now, method=plan.method, per_stream=plan.order is None, weights=plan.weights)
        return found if cost_of(plan, now) > found.cost * (1 + self.gain) else kept(plan, now)


def observed_setting(setting: Setting, rates: Mapping[str, float], selectivity: Selectivities | None = None) -> Setting:
    """The same join with rates and selectivities as they are now; what was not observed stays.

    A stream that was not seen at all counts with a rate next to nothing.
    """
    streams = tuple(replace(one, rate=max(rates.get(one.name, one.rate), _STILL)) for one in setting.streams)
    merged = {tuple(sorted(pair)): share for source in (setting.observed, selectivity) for pair, share in (source or {}).items()}
    return replace(setting, streams=streams, observed={(one, other): share for (one, other), share in merged.items()} or None)


def cost_of(plan: JoinPlan, setting: Setting) -> float:
    """Comparisons per tick of a plan's orders in another setting."""
    return sum(_costs(plan, CostModel(setting)))


def kept(plan: JoinPlan, setting: Setting) -> JoinPlan:
    """The same orders, costed in another setting; what else was considered is not."""
    peak = sum(_costs(plan, CostModel(setting.at_peak())))
    return replace(plan, setting=setting, cost=cost_of(plan, setting), peak_cost=peak, candidates=())


def _costs(plan: JoinPlan, model: CostModel) -> list[float]:
    names = plan.setting.names
    return [model.cost_of(i, [names.index(one) for one in plan.orders[name]]) for i, name in enumerate(names)]


def _apart(assumed: float, seen: float) -> float:
    return abs(seen - assumed) / assumed if assumed else (1.0 if seen else 0.0)
