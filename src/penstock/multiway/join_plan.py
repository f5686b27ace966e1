"""The plan of a join of many streams: the order of the loops for each arriving stream, what it costs, and what else was considered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from penstock.multiway.cost import CostModel, Setting
from penstock.multiway.upkeep import Upkeep, Weights

Tree = list[tuple[str, "Tree"]]


@dataclass(frozen=True)
class Candidate:
    """An order that was considered, for all streams or for the new tuples of one (`origin`)."""

    order: tuple[str, ...]
    cost: float
    """Comparisons per tick."""
    peak_cost: float
    """The same while volatile streams are at their fastest."""
    origin: str | None = None


@dataclass(frozen=True)
class JoinPlan:
    """An order for every arriving stream."""

    setting: Setting
    method: str
    order: tuple[str, ...] | None
    """Of all streams together; None where each arriving stream has its own."""
    orders: Mapping[str, tuple[str, ...]]
    """For new tuples of each stream: its loops from the outermost, its own among them."""
    cost: float
    """Comparisons per tick."""
    peak_cost: float
    upkeep: Upkeep
    """Insertion and expiration, in comparisons per tick; no order changes it."""
    candidates: tuple[Candidate, ...] = field(repr=False)
    """What was considered, the best first."""
    weights: Weights | None = field(default=None, repr=False)
    """Of insertion and expiration, where they were given."""
    columns: Mapping[str, tuple[str, ...]] | None = None
    """What is carried of each stream; None is all of it."""

    @property
    def costs(self) -> dict[str, float]:
        """Comparisons per tick by arriving stream."""
        names = self.setting.names
        return {name: self._model.cost_of(i, [names.index(one) for one in self.orders[name]]) for i, name in enumerate(names)}

    @property
    def buckets(self) -> dict[str, int]:
        """Of each window; 1 is no index."""
        return {one.name: one.buckets for one in self.setting.streams}

    @property
    def mean(self) -> float:
        """The mean cost of what was considered for all streams together; of a plan with an order for each stream, of one order each."""
        groups: dict[str | None, list[float]] = {}
        for one in self.candidates:
            groups.setdefault(one.origin, []).append(one.cost)
        return sum(sum(costs) / len(costs) for costs in groups.values())

    @cached_property
    def _model(self) -> CostModel:
        return CostModel(self.setting)

    def tree(self) -> Tree:
        """The plan as lines in lines: for each arriving stream, a loop in a loop."""
        return [self._arriving(i) for i in range(len(self.setting.names))]

    def _arriving(self, origin: int) -> tuple[str, Tree]:
        names, streams = self.setting.names, self.setting.streams
        order = [names.index(one) for one in self.orders[names[origin]]]
        below: Tree = []
        for depth in range(len(order) - 1, -1, -1):
            below = [(self._loop(origin, order[:depth], order[depth]), below)]
        if order[0] == origin:
            below = below[0][1]
        title = f"new tuples of {names[origin]}: {_figure(streams[origin].rate)} per tick, {_figure(self.costs[names[origin]])} comparisons"
        return title, below

    def _loop(self, origin: int, around: list[int], stream: int) -> str:
        model, one = self._model, self.setting.streams[stream]
        before = sum(1 << i for i in around)
        links = self._conditions(around, stream)
        if not around:
            visited = f"all {_figure(model.held[stream])}"
        else:
            visited = f"{_figure(model.visits(origin, before, stream))} of {_figure(model.held[stream])}"
        how = f"hash, {one.buckets} buckets" if one.buckets > 1 else "scan"
        which = "the new tuples of " if stream == origin else ""
        out = model.reaching(origin, before | 1 << stream)
        filters = f" where {' and '.join(links)}" if links else "" if not around else ", no condition"
        return f"{which}{one.name} ({how}: visits {visited}){filters}: {_figure(out)} per tick"

    def _conditions(self, around: list[int], stream: int) -> list[str]:
        """What filters a loop; of several equalities of one column the first says it all."""
        said: dict[object, str] = {}
        for link in (link for i in around for link in self.setting.graph.between(i, stream)):
            said.setdefault(link.columns_of(stream) if link.predicate.is_equality else link, link.text(self.setting.names))
        return list(said.values())

    def headline(self) -> str:
        """What the plan is, in one line."""
        setting = self.setting
        when = f", every {setting.tau:g} ticks" if setting.tau is not None else ""
        which = ", ".join(self.order) if self.order else "an order for each stream"
        how = f"{self.method}, {len(self.candidates)} considered"
        return f"{setting.strategy}{when}: {which}; {_figure(self.cost)} comparisons per tick ({how})"

    def text(self) -> str:
        """The plan as a tree of text."""
        return "\n".join([self.headline(), *_drawn(self.tree()), *self.notes()])

    def notes(self) -> list[str]:
        """What else there is to know of the plan, a line each."""
        said = [f"insertion {_figure(self.upkeep.insertion)} and expiration {_figure(self.upkeep.expiration)}, in comparisons per tick"]
        if any(one.volatility for one in self.setting.streams):
            said.append(f"at its peak {_figure(self.peak_cost)} comparisons per tick: that is what the order is chosen by")
        if self.columns is not None:
            said.append("carried: " + "; ".join(f"{name} ({', '.join(columns)})" for name, columns in self.columns.items()))
        return said


def _drawn(tree: Tree, margin: str = "") -> Iterator[str]:
    for number, (label, below) in enumerate(tree):
        last = number == len(tree) - 1
        yield f"{margin}{'└─ ' if last else '├─ '}{label}"
        yield from _drawn(below, margin + ("   " if last else "│  "))


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
