"""Golab 4.2 and 5.1: what join orders and algorithms cost, by the cost model."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from statistics import fmean
from typing import Any

from penstock.experiments.cells.cell import Cell
from penstock.experiments.cells.checks import Check, about, at_least, equals, gap_grows, lowest, ordered, rises
from penstock.experiments.cells.experiment import Claim, Experiment, Outcome
from penstock.experiments.cells.results import Results, shown
from penstock.multiway.cost import CostModel, Setting
from penstock.multiway.order import plan_of
from penstock.multiway.stats import WindowStats
from penstock.multiway.workload import TABLE_5

_TAUS = (1, 5, 10, 20, 30, 40, 50)
_STRATEGIES = ("naive", "lazy", "general")
Table = Mapping[str, tuple[float, float, float]]
TABLE_6: Table = {"S1": (100, 100, 200), "S2": (1, 100, 200), "S3": (1, 100, 20), "S4": (3, 100, 2)}
TABLE_7: Table = {"S1": (11, 100, 200), "S2": (10, 100, 100), "S3": (1, 100, 65), "S4": (1, 100, 20)}
_FORMULAS = (
    "The formulas for lazy evaluation are in an extended version of the paper that is not to be had. Ours are derived, and "
    "count what the algorithms do; the figure comes out with formulas in which expired tuples match as well, which is the panel "
    "`as printed`."
)
_COUNTED = {"what they do": "visited", "as printed": "golab"}
_ALL = ("best", "fifth", "worst", "mean")


def setting(table: Table, strategy: str = "eager", **more: Any) -> Setting:
    """A join of streams with these rates, windows and numbers of values."""
    return Setting.read([WindowStats(name, *row) for name, row in table.items()], strategy=strategy, **more)


def _alike(n: int) -> Table:
    return {f"S{number + 1}": (1, 100, 50) for number in range(n)}


def _by_streams(cell: Cell) -> float:
    strategy = "eager" if cell.line == "multi-way" else "naive"
    return plan_of(setting(_alike(int(cell.x)), strategy), method="exhaustive" if int(cell.x) <= 5 else "descent").cost


def _by_tau(cell: Cell, table: Table) -> float:
    counted: dict[str, Any] = {"counted": _COUNTED[cell.panel]} if cell.panel else {}
    return plan_of(setting(table, cell.line, tau=float(cell.x), **counted), method="exhaustive").cost


def _alike_by_tau(cell: Cell) -> float:
    return _by_tau(cell, _alike(4))


def _one_fast_by_tau(cell: Cell) -> float:
    return _by_tau(cell, {**_alike(3), "S4": (10, 100, 50)})


def _orders(table: Table) -> dict[str, float]:
    model = CostModel(setting(table))
    costs = {"".join(str(at + 1) for at in order): model.cost(order) for order in permutations(range(len(table)))}
    ranked = sorted(costs.values())
    return costs | {"best": ranked[0], "fifth": ranked[4], "worst": ranked[-1], "mean": fmean(ranked)}


def _cost_5(cell: Cell) -> float:
    return _orders(TABLE_5)[cell.line]


def _cost_6(cell: Cell) -> float:
    return _orders(TABLE_6)[cell.line]


def _cost_7(cell: Cell) -> float:
    return _orders(TABLE_7)[cell.line]


_COST = "comparisons per tick"


def _printed(line: str, wanted: float, digits: int = 0) -> Claim:
    what = {"best": "the best order", "worst": "the worst order", "mean": "the mean over all orders"}.get(
        line, f"order {', '.join('S' + at for at in line)}"
    )
    return Claim(f"The cost of {what} is {'about ' if digits < 0 else ''}{wanted:,.0f}.", equals(line, wanted, _COST, digits=digits))


def _is(order: str, which: str) -> Check:
    """An order costs as much as the best of all, or the fifth-best."""

    def check(results: Results) -> Outcome:
        found, own = results.mean(which, _COST), results.mean(order, _COST)
        return Outcome(found == own, f"{shown(own)}; the {which}: {shown(found)}")

    return check


def _best_is(order: str) -> Claim:
    return Claim(f"Order {', '.join('S' + at for at in order)} is the best of all.", _is(order, "best"))


def _table(number: int, table: Table, orders: tuple[str, ...], claims: tuple[Claim, ...], changed: str = "") -> Experiment:
    rows = "; ".join(
        f"{name}: {rate:g} per tick, {values:g} values, window of {window:g}" for name, (rate, window, values) in table.items()
    )
    return Experiment(
        name=f"golab-table{number}",
        title=f"Costs of join orders, Table {number}",
        setting=rows,
        play={5: _cost_5, 6: _cost_6, 7: _cost_7}[number],
        lines=(*orders, *_ALL),
        xs=(_COST,),
        x="",
        y=_COST,
        most_seeds=1,
        claims=claims,
        changed=changed,
    )


def _waits(
    letter: str, title: str, rates: str, claims: tuple[Claim, ...], *, panels: tuple[str, ...] = ("",), changed: str = ""
) -> Experiment:
    return Experiment(
        name=f"golab-fig03{letter}",
        title=f"Cost by how long arrivals wait: {title}",
        setting=f"four streams, windows of 100, 50 values, {rates}; the best order of each",
        play=_alike_by_tau if letter == "a" else _one_fast_by_tau,
        lines=_STRATEGIES,
        panels=panels,
        xs=_TAUS,
        x="ticks between evaluations (tau)",
        y=_COST,
        most_seeds=1,
        claims=claims,
        changed=changed,
    )


EXPERIMENTS = (
    Experiment(
        name="golab-fig02",
        title="Cost by number of streams",
        setting="windows of 100, one tuple per tick and stream, 50 values; the best order of each",
        play=_by_streams,
        lines=("multi-way", "naive"),
        xs=(2, 3, 4, 5, 6, 7, 8),
        x="streams",
        y=_COST,
        most_seeds=1,
        log=True,
        claims=(
            Claim("MULTI-WAY costs less than NAIVE with any number of streams.", ordered("naive", "multi-way")),
            Claim("It scales considerably better: the lead grows with the number of streams.", gap_grows("naive", "multi-way")),
        ),
    ),
    _waits(
        "a",
        "streams alike",
        "one tuple per tick each",
        (
            Claim("LAZY and GENERAL cost the same.", about("lazy", "general", 0.001)),
            Claim("The cost rises with tau.", rises("lazy")),
            Claim("NAIVE costs more, for any tau.", ordered("naive", "lazy")),
            Claim("The difference is largest where tau is small.", gap_grows("lazy", "naive")),
        ),
    ),
    _waits(
        "b",
        "the fourth ten times as fast",
        "one tuple per tick each, ten of the fourth",
        tuple(
            claim
            for panel in _COUNTED
            for claim in (
                Claim(f"NAIVE costs most where tau is small ({panel}).", ordered("naive", "lazy", at=(1,), panel=panel)),
                Claim(f"GENERAL costs least, for any tau ({panel}).", lowest("general", _STRATEGIES, panel=panel)),
                Claim(f"LAZY is as good as GENERAL where tau is small ({panel}).", about("lazy", "general", 0.05, at=(1,), panel=panel)),
                Claim(
                    f"NAIVE is nearly as good as GENERAL where tau is large ({panel}).",
                    about("naive", "general", 0.05, at=(50,), panel=panel),
                    _FORMULAS,
                ),
                Claim(
                    f"Where tau is large LAZY costs more than NAIVE ({panel}).",
                    at_least("lazy", 1.0, "naive", at=(50,), panel=panel),
                    _FORMULAS,
                ),
            )
        ),
        panels=tuple(_COUNTED),
        changed=_FORMULAS,
    ),
    _table(
        5,
        TABLE_5,
        ("1234", "2134"),
        (
            _printed("1234", 16000),
            _best_is("1234"),
            _printed("2134", 19600),
            _printed("worst", 90000, -4),
            Claim("Order S2, S1, S3, S4 is the fifth-best.", _is("2134", "fifth")),
        ),
    ),
    _table(
        6,
        TABLE_6,
        ("2134", "2341", "2314", "1234"),
        (
            _best_is("2134"),
            _printed("2134", 80400),
            _printed("2341", 248000, -3),
            _printed("1234", 120000),
            _printed("worst", 650000, -4),
            Claim("Order S2, S3, S1, S4 costs about 123,000.", equals("2314", 123000, _COST, digits=-3)),
        ),
    ),
    _table(
        7,
        TABLE_7,
        ("3142", "3412", "3124", "1234", "2134"),
        (
            _best_is("3142"),
            _printed("3142", 47977),
            _printed("3412", 49542),
            _printed("3124", 51954),
            _printed("mean", 63362),
            _printed("1234", 68200),
            _printed("2134", 79000),
        ),
    ),
)
