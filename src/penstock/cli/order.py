"""`penstock order`: in which order to join streams, from a file with their rates, windows and numbers of values."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.output import (
    PICTURES,
    Bar,
    Files,
    FormatOption,
    check_different,
    check_target,
    number,
    print_json,
    print_table,
    wants_json,
)
from penstock.core.errors import PenstockError, choose

if TYPE_CHECKING:
    from rich.tree import Tree as Drawing

    from penstock.multiway.join_plan import JoinPlan, Tree

_SECTIONS = ("join", "streams", "selectivity")
_JOIN: dict[str, tuple[type, ...]] = {
    "on": (str, list), "cross": (bool,), "strategy": (str,), "tau": (int, float), "expire": (int, float), "method": (str,),
    "per_stream": (bool,), "buckets": (int,), "memory": (str,), "columns": (list,), "counted": (str,),
}  # fmt: skip
_SHOWN = 10
_WIDE = 200  # columns of a tree that goes to a file or a pipe


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog="Example: penstock order examples/order.toml --strategy lazy --tau 10")(order)


def order(
    file: Annotated[
        Path, typer.Argument(metavar="STREAMS.toml", help="Rates, windows, numbers of values: see examples/order.toml.", show_default=False)
    ],
    strategy: Annotated[str | None, typer.Option(metavar="NAME", help="eager, lazy, general or naive.", show_default="eager")] = None,
    tau: Annotated[str | None, typer.Option(metavar="TICKS", help="How long arrivals wait at most: with lazy, general, naive.")] = None,
    expire: Annotated[str | None, typer.Option(metavar="TICKS", help="Between rounds of expiration.", show_default="tau")] = None,
    buckets: Annotated[str | None, typer.Option(metavar="N", help="Split so many hash buckets over the windows first.")] = None,
    memory: Annotated[str | None, typer.Option(metavar="SIZE", help='Or as many as fit beside the tuples, such as "2 MB".')] = None,
    per_stream: Annotated[bool, typer.Option("--per-stream", help="An order for each arriving stream, instead of one for all.")] = False,
    heuristic: Annotated[bool, typer.Option("--heuristic", help="Golab's heuristic, instead of all orders.")] = False,
    measured: Annotated[bool, typer.Option("--measure", help="Also join random tuples with these numbers, and count.")] = False,
    every: Annotated[bool, typer.Option("--all", help=f"Show every order that was considered, not {_SHOWN}.")] = False,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the cost of every strategy against tau (png, svg, html).")] = None,
    form: FormatOption = "table",
) -> None:
    """Find the cheapest order to join streams in: the candidates with their costs, and the plan as a tree."""
    as_json = wants_json(form)
    check_target("--plot", plot, PICTURES)
    check_different({"STREAMS.toml": file, "--plot": plot})
    told: dict[str, Any] = {"strategy": strategy, "memory": memory, "method": "heuristic" if heuristic else None}
    told |= {"tau": _ticks(tau, "--tau"), "expire": _ticks(expire, "--expire"), "per_stream": per_stream or None}
    if buckets is not None:
        from penstock.cli.texts import integer

        told["buckets"] = integer(buckets, "--buckets", least=1)
    streams, join, selectivity = read_order(file)
    # One limit from the command line replaces the other in the file.
    for limit, other in (("buckets", "memory"), ("memory", "buckets")):
        if told.get(limit) is not None and told.get(other) is None:
            join.pop(other, None)
    arguments = join | {name: value for name, value in told.items() if value is not None}

    from penstock.multiway.order import order_joins

    with Bar(1, f"ordering {len(streams)} streams") as bar:
        plan = order_joins(streams, selectivity=selectivity, **arguments)
        bar.advance()
    if plot is not None:
        _draw(plan, plot)
    counts = _measured(plan, every=every) if measured else None
    if as_json:
        print_json(summary(plan) | ({} if counts is None else {"measured": counts}))
        return
    _print(plan, every=every)
    if counts is not None:
        _print_measured(counts)


def read_order(file: Path) -> tuple[dict[str, Any], dict[str, Any], dict[tuple[str, str], float] | None]:
    """The streams, the join and the selectivities of a file; every mistake in its form, each under its key."""
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise PenstockError(f"{str(file)!r} cannot be read: {reason}") from None
    except tomllib.TOMLDecodeError as error:
        raise PenstockError(f"{file}: {error}") from None

    from penstock.multiway.stats import read_stream

    mistakes = []
    for section, given in found.items():
        try:
            choose("section", section, _SECTIONS)
            if not isinstance(given, dict):
                raise PenstockError(f"{section} must be a table [{section}], got {given!r}")
        except PenstockError as error:
            mistakes.append(str(error))
    tables = {name: found.get(name, {}) if isinstance(found.get(name, {}), dict) else {} for name in _SECTIONS}
    streams = {}
    for name, facts in tables["streams"].items():
        try:
            streams[name] = read_stream(name, facts)
        except PenstockError as error:
            mistakes.append(f"streams.{name}: {error}")
    for key, value in tables["join"].items():
        try:
            kinds = _JOIN[choose("key", key, _JOIN)]
            if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
                raise PenstockError(f"{key} must be {' or '.join(_WORDS[kind] for kind in kinds)}, got {value!r}")
        except PenstockError as error:
            mistakes.append(f"join: {error}")
    shares = {}
    for text, share in tables["selectivity"].items():
        pair = tuple(part.strip() for part in text.split(","))
        if len(pair) == 2:
            shares[pair[0], pair[1]] = share
        else:
            mistakes.append(f'selectivity: a key must be two streams, such as "R, S", got {text!r}')
    if mistakes:
        raise PenstockError("; ".join(f"{file}: {one}" for one in mistakes))
    return streams, dict(tables["join"]), shares or None


_WORDS = {str: "a text", list: "a list", bool: "true or false", int: "a whole number", float: "a number"}


def _ticks(text: str | None, option: str) -> float | None:
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        raise PenstockError(f"{option} must be a number of ticks, at least 1, got {text!r}") from None


def summary(plan: JoinPlan) -> dict[str, Any]:
    """A plan for a program."""
    setting = plan.setting
    costs = [one.cost for one in plan.candidates]
    return {
        "strategy": setting.strategy, "tau": setting.tau, "expire": setting.expire, "method": plan.method, "order": plan.order,
        "orders": dict(plan.orders), "cost": plan.cost, "peak_cost": plan.peak_cost, "costs": plan.costs, "fetched": plan.fetched,
        "insertion": plan.upkeep.insertion, "expiration": plan.upkeep.expiration, "buckets": plan.buckets, "columns": plan.columns,
        "n_candidates": len(costs), "mean_cost": plan.mean, "worst_cost": max(costs) if plan.order else None,
        "candidates": [{"order": one.order, "cost": one.cost, "origin": one.origin} for one in plan.candidates],
    }  # fmt: skip


def _draw(plan: JoinPlan, file: Path) -> None:
    from dataclasses import replace

    from penstock.experiments import figures
    from penstock.experiments.waiting import cost_by_interval, costs_by_interval, intervals
    from penstock.multiway.order import plan_of
    from penstock.multiway.upkeep import upkeep

    taus = intervals(plan.setting)
    eager = plan_of(replace(plan.setting, strategy="eager", tau=None, expire=None), method="auto")
    with Bar(3 * len(taus), "costing intervals") as bar:
        rows = costs_by_interval(plan.setting, taus, weights=plan.weights, progress=bar.advance)
    with Files() as files:
        figures.save(cost_by_interval(rows, eager.cost, eager.cost + upkeep(eager.setting, plan.weights).total), files.new(file))


def _print(plan: JoinPlan, *, every: bool) -> None:
    from rich.console import Console
    from rich.text import Text

    volatile = any(one.volatility for one in plan.setting.streams)
    own = plan.order is None
    columns = [*(["new tuples of"] if own else []), "order", "comparisons per tick", *(["at peak"] if volatile else []), "times the best"]
    rows = []
    for origin in plan.setting.names if own else (None,):
        mine = [one for one in plan.candidates if one.origin == origin]
        for one in mine if every else mine[: _SHOWN if not own else 3]:
            costs = [number(one.cost), *([number(one.peak_cost)] if volatile else [])]
            times = f"{one.peak_cost / mine[0].peak_cost:.2f}" if mine[0].peak_cost else "1.00"
            rows.append([*([origin or ""] if own else []), ", ".join(one.order), *costs, times])
    left_out = len(plan.candidates) - len(rows)
    caption = f"{left_out:,} more considered (--all)" if left_out else ""
    if not own and plan.method == "exhaustive":
        caption = f"{caption + '; ' if caption else ''}mean {number(plan.mean)}, worst {number(max(one.cost for one in plan.candidates))}"
    print_table(columns, rows, title="Join orders", caption=caption, left=2 if own else 1)
    out = Console(file=sys.stdout, markup=False, highlight=False, emoji=False)
    if not out.is_terminal:
        out.width = _WIDE
    out.print()
    out.print(_drawing(plan.headline(), plan.tree()))
    for line in plan.notes():
        out.print(Text(line, style="dim"))


def _measured(plan: JoinPlan, *, every: bool) -> list[dict[str, Any]]:
    """Comparisons per tick of the best orders, by the model and counted; of the plan itself where each stream has an order of its own."""
    from penstock.multiway.measure import measure

    shown = [one.order for one in plan.candidates[: None if every else _SHOWN]]
    chosen = [plan.orders] if plan.order is None else shown
    found = []
    with Bar(len(chosen), "joining random tuples") as bar:
        for orders in chosen:
            model, counted = measure(plan.setting, orders)
            found.append({"order": orders, "model": model, "measured": counted})
            bar.advance()
    return found


def _print_measured(counts: list[dict[str, Any]]) -> None:
    lines = []
    for one in counts:
        order = "an order for each stream" if isinstance(one["order"], dict) else ", ".join(one["order"])
        share = f"{one['measured'] / one['model']:.3f}" if one["model"] else "1.000"
        lines.append([order, number(one["model"]), number(one["measured"]), share])
    columns = ["order", "comparisons per tick", "measured", "of the model"]
    print_table(
        columns, lines, title="Model and measurement", caption="30,000 random tuples with uniform values, once the windows are full."
    )


def _drawing(label: str, tree: Tree) -> Drawing:
    from rich.text import Text
    from rich.tree import Tree as Drawing

    drawing = Drawing(Text(label))
    for below, further in tree:
        drawing.children.append(_drawing(below, further))
    return drawing
