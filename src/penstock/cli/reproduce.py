"""`penstock reproduce`: experiments of the papers, repeated; `arrival-orders` is when to use `ep`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.output import PICTURES, Bar, Files, FormatOption, check_target, print_json, print_table, wants_json
from penstock.cli.texts import integer
from penstock.core.errors import choose

if TYPE_CHECKING:
    from penstock.experiments.arrival_orders import OrdersPoint

_EXAMPLE = "Example: penstock reproduce arrival-orders --seeds 3 --ticks 4000 --plot orders.png"


def register(app: typer.Typer) -> None:
    """Add the group to the command line."""
    group = typer.Typer(help="Repeat experiments of the papers, on generated data.", invoke_without_command=True)
    group.command("arrival-orders", epilog=_EXAMPLE)(arrival_orders)
    group.callback()(_reproduce)
    app.add_typer(group, name="reproduce")


def arrival_orders(
    seeds: Annotated[str, typer.Option(metavar="N", help="Data sets per setting, 2 to 11.")] = "6",
    ticks: Annotated[str, typer.Option(metavar="N", help="Length of each; the window is 1,000.")] = "8000",
    allocation: Annotated[
        str, typer.Option(metavar="HOW", help="fixed: a memory per stream, as in the paper; variable: one for all.")
    ] = "fixed",
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw recall against memory: .png, .svg or .html.")] = None,
    form: FormatOption = "table",
) -> None:
    """Where shedding by arrival order (`ep`) wins and where it does not, over skew, delays and memory (Kwon, section 5)."""
    as_json = wants_json(form)
    check_target("--plot", plot, PICTURES)
    choose("--allocation", allocation, ("fixed", "variable"))
    n_seeds, n_ticks = integer(seeds, "--seeds", least=2), integer(ticks, "--ticks", least=2000)

    from penstock.experiments import arrival_orders as experiment

    with Bar(len(experiment.SKEWS) * len(experiment.DELAYS) * n_seeds, "making the streams") as bar:

        def say(amount: int, label: str) -> None:
            bar.advance(amount)
            bar.say(label)

        points = experiment.sweep(seeds=n_seeds, ticks=n_ticks, allocation=allocation, say=say)
    if plot is not None:
        from penstock.experiments import figures
        from penstock.experiments.arrival_orders_chart import recall_by_setting

        with Files() as files:
            figures.save(recall_by_setting(points), files.new(plot))
    if as_json:
        print_json([asdict(point) | {"verdict": point.verdict} for point in points])
        return
    _print(points, experiment.POLICIES)


def _print(points: Sequence[OrdersPoint], policies: Sequence[str]) -> None:
    settings = list(dict.fromkeys((point.orders, point.delay, point.memory) for point in points))
    rows = []
    for setting in settings:
        here = {point.policy: point for point in points if (point.orders, point.delay, point.memory) == setting}
        best = max(here.values(), key=lambda point: point.recall)
        orders, delay, memory = setting
        recalls = [f"{100 * here[policy].recall:.1f}" for policy in policies]
        lead = f"{100 * best.lead:+.1f} ({100 * best.lead_low:+.1f} to {100 * best.lead_high:+.1f})"
        rows.append([f"{orders:g}", f"{delay:.0%}", f"{memory:.0%}", best.policy, *recalls, lead])
    columns = ["orders", "delay", "memory", "best", *policies, "its lead over the next"]
    caption = (
        "recall in % of the exact join; orders: Zipf exponent; delay: share of the window; memory: share of what the exact join holds; "
        "leads with 95 % intervals"
    )
    print_table(columns, rows, title="Shedding by arrival order", caption=caption, left=4)


def _reproduce(context: typer.Context) -> None:
    """Repeat experiments of the papers, on generated data."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
