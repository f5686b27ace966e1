"""`penstock reproduce arrival-orders|policies|pre-filter`: when to use `ep`; every policy on every kind of stream; what the filters of
joins through relations are worth.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.output import (
    NOTHING,
    PICTURES,
    TABLES,
    Bar,
    Files,
    FormatOption,
    announcing,
    check_different,
    check_target,
    note,
    number,
    print_json,
    print_table,
    wants_json,
)
from penstock.cli.texts import integer, words
from penstock.core.errors import PenstockError, choose

if TYPE_CHECKING:
    from penstock.experiments.arrival_orders import OrdersPoint
    from penstock.experiments.policy_table import PolicyPoint, PolicyRow
    from penstock.experiments.prefilters import FilterGain, FilterTime

_EXAMPLE = "Example: penstock reproduce arrival-orders --seeds 3 --ticks 4000 --plot orders.png"
_POLICIES_EXAMPLE = "Example: penstock reproduce policies --sets orders,sessions --seeds 2 --page table.md --plot table.png"
_FILTERS_EXAMPLE = "Example: penstock reproduce pre-filter --seeds 3 --ticks 1000 --runs 1"
_QUICK = 0.01  # of the rows of each part


def register(group: typer.Typer) -> None:
    """Add the commands to the group."""
    group.command("arrival-orders", epilog=_EXAMPLE)(arrival_orders)
    group.command("policies", epilog=_POLICIES_EXAMPLE)(policies)
    group.command("pre-filter", epilog=_FILTERS_EXAMPLE)(pre_filter)


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


def policies(
    sets: Annotated[str | None, typer.Option(metavar="NAMES", help="Which data sets; all by default.", show_default=False)] = None,
    seeds: Annotated[str, typer.Option(metavar="N", help="Seeds, or parts of real data, 1 to 5.")] = "5",
    quick: Annotated[bool, typer.Option("--quick", help="A hundredth of the rows: whether it works, not who is best.")] = False,
    jobs: Annotated[
        str | None, typer.Option(metavar="N", help="Processes; as many as there are cores by default.", show_default=False)
    ] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Every run, part by part as they end: .csv, .parquet or .jsonl.")] = None,
    page: Annotated[Path | None, typer.Option(metavar="FILE", help="The tables as Markdown: .md.")] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the share of the optimum against memory: .png, .svg or .html.")
    ] = None,
    form: FormatOption = "table",
) -> None:
    """What every policy keeps of every kind of stream, beside the optimum: generated ones, and those in the folder PENSTOCK_DATA."""
    as_json = wants_json(form)
    check_target("--csv", csv, TABLES)
    check_target("--page", page, (".md",))
    check_target("--plot", plot, PICTURES)
    check_different({"--csv": csv, "--page": page, "--plot": plot})
    n_seeds = integer(seeds, "--seeds", least=1)
    n_jobs = os.cpu_count() or 1 if jobs is None else integer(jobs, "--jobs", least=1)

    from penstock.experiments import policy_table as experiment
    from penstock.experiments.policy_sets import SETS

    wanted = list(SETS) if sets is None else [choose("--sets", name, tuple(SETS)) for name in words(sets, "--sets")]
    folder = experiment.data_folder()
    names, absent = experiment.here(wanted, folder)
    if absent:
        note(f"{', '.join(absent)} left out: PENSTOCK_DATA names no folder that has {'it' if len(absent) == 1 else 'them'}")
    if not names:
        raise PenstockError(f"--sets must be data sets that are there, such as orders,sessions, got {', '.join(absent)}")
    with Bar(len(names) * n_seeds, "making the streams") as bar:

        def done(label: str, points: Sequence[PolicyPoint]) -> None:
            bar.advance()
            bar.say(label)
            if csv is not None:
                _write_points(points, csv)

        scale = _QUICK if quick else 1.0
        rows = experiment.policy_rows(experiment.sweep(names, seeds=n_seeds, scale=scale, data=folder, jobs=n_jobs, done=done))
    _write_policies(rows, n_seeds, page, plot)
    if as_json:
        print_json(
            {
                "judged": experiment.JUDGED,
                "rows": [asdict(row) | {"best": row.best, "quotient": row.quotient(experiment.JUDGED)} for row in rows],
                "targets": [asdict(target) | {"verdict": target.verdict} for target in experiment.wanted(rows)],
            }
        )
        return
    _print_policies(rows)


def pre_filter(
    seeds: Annotated[str, typer.Option(metavar="N", help="Data sets per setting, 2 to 11.")] = "5",
    ticks: Annotated[str, typer.Option(metavar="N", help="Length of each; a row of each stream per tick.")] = "5000",
    runs: Annotated[str, typer.Option(metavar="N", help="Of what is timed, whose mean is taken.")] = "3",
    form: FormatOption = "table",
) -> None:
    """What the filters of joins through relations save: value under each policy, and time of the optimum (Towne, rule 8 and Figure 5)."""
    as_json = wants_json(form)
    n_seeds, n_ticks, n_runs = integer(seeds, "--seeds", least=2), integer(ticks, "--ticks", least=100), integer(runs, "--runs", least=1)

    from penstock.experiments import prefilters as experiment

    steps = len(experiment.STAYS) * n_seeds + len(experiment.FACTS) * 2 * n_runs
    with Bar(steps, "making the streams") as bar:
        say = announcing(bar)
        gains = experiment.gains(seeds=n_seeds, ticks=n_ticks, say=say)
        times = experiment.times(runs=n_runs, ticks=n_ticks, say=say)
    if as_json:
        print_json(
            {
                "gains": [asdict(point) | {"verdict": point.verdict} for point in gains],
                "times": [asdict(one) | {"ratio": one.ratio} for one in times],
            }
        )
        return
    _print_filters(gains, times)


def _print_filters(gains: Sequence[FilterGain], times: Sequence[FilterTime]) -> None:
    lines = []
    for point in gains:
        values = [number(round(value)) for value in (point.none, point.static, point.both, point.exact)]
        gain = f"{100 * point.gain:+.1f} % ({100 * point.low:+.1f} to {100 * point.high:+.1f})"
        lines.append([point.policy, number(point.stay), number(point.memory), *values, gain, point.verdict])
    columns = ["policy", "facts stay", "memory", "no filter", "static", "and rule 8", "exact", "by rule 8", ""]
    print_table(columns, lines, title="What the filters save: value", caption="Means over seeds; of rule 8 with 95 % intervals.")
    lines = [
        [
            number(one.facts),
            f"{one.filtered:.0%}",
            number(round(one.value)),
            f"{one.seconds:.2f}",
            f"{one.unfiltered:.2f}",
            f"{one.ratio:.1f}",
        ]
        for one in times
    ]
    columns = ["facts", "rows filtered", "value", "seconds", "without filter", "times as fast"]
    caption = "The optimum by memory states; seconds of the processor."
    print_table(columns, lines, title="What the static filter saves: time", caption=caption)


def _write_points(points: Sequence[PolicyPoint], file: Path) -> None:
    import pyarrow as pa

    from penstock.core.tables import write_table

    with Files() as files:
        write_table(pa.Table.from_pylist([asdict(point) for point in points]), files.new(file))


def _write_policies(rows: Sequence[PolicyRow], parts: int, page: Path | None, plot: Path | None) -> None:
    with Files() as files:
        if page is not None:
            from penstock.experiments.policy_page import page as written

            picture = None if plot is None else os.path.relpath(plot.resolve(), page.resolve().parent)
            files.new(page).write_text(written(rows, parts=parts, picture=picture), encoding="utf-8")
        if plot is not None:
            from penstock.experiments import figures
            from penstock.experiments.policy_chart import shares_of_optimum

            figures.save(shares_of_optimum(rows), files.new(plot))


def _print_policies(rows: Sequence[PolicyRow]) -> None:
    from penstock.experiments.policy_table import JUDGED, PLAIN, wanted

    lines = []
    for row in rows:
        papers, quotients = row.best_of_papers, [f"{row.quotient(policy):.3f}" for policy in (PLAIN, JUDGED)]
        kept = [number(round(row.values[policy])) for policy in (papers, PLAIN, JUDGED)]
        known = NOTHING if row.optimum is None else number(round(row.optimum))
        lines.append([row.data, f"{row.memory:.0%}", row.best, papers, *kept, *quotients, known])
    columns = ["streams", "memory", "best", "best of the papers", "keeps", PLAIN, JUDGED, f"{PLAIN} / best", f"{JUDGED} / best", "optimum"]
    print_table(
        columns, lines, title="What policies keep", caption="outputs, or value, after ten windows; sums over seeds or parts", left=4
    )
    for target in wanted(rows):
        found = NOTHING if target.found is None else f"{target.found:.3f}"
        typer.echo(f" {JUDGED}: {found} {target.wish.replace('`', '')} (wanted {target.least:g}): {target.verdict}")


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
